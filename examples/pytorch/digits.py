"""Train a network for handwritten digits in PyTorch, and export it to ONNX.

PyTorch is not among the kit's packages. `digits.onnx` is what this program wrote with PyTorch 2.13.0:

    pip install torch onnxscript scikit-learn
    PYTHONPATH=examples/digits python examples/pytorch/digits.py
"""

import torch
from samples import split
from torch import nn

torch.manual_seed(0)
training, test = split()
images, labels = torch.from_numpy(training.images), torch.from_numpy(training.labels)

net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(128, 10),
)
optimiser = torch.optim.Adam(net.parameters(), 2e-3)
for _ in range(20):
    for batch in torch.randperm(len(images)).split(32):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
        optimiser.step()

net.eval()  # batch normalisation by the statistics of training
program = torch.onnx.export(net, (images[:1],), input_names=["image"], output_names=["scores"])
program.model.graph.name = "digits"  # the name in the kit's reports
for node in program.model.graph:
    node.metadata_props.clear()  # the lines of PyTorch's sources behind each node
program.save("examples/pytorch/digits.onnx", external_data=False)

predicted = net(torch.from_numpy(test.images)).argmax(1)
print(f"{(predicted.numpy() == test.labels).mean():.2%} of the test digits")
