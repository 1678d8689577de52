"""VGG-19 for 224x224 images of 1,000 classes.

Source: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR 2015,
table 1, column E.
"""

from onnx import ModelProto

from models.graph import GraphBuilder

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))  # channels, convolutions before a pooling
HIDDEN = (4096, 4096)
CLASSES = 1000


def vgg19(seed: int) -> ModelProto:
    """Return VGG-19: image float32[1, 3, 224, 224] to probabilities float32[1, 1000]."""
    graph = GraphBuilder("vgg19", seed)
    data, channels = graph.input("image", 1, 3, 224, 224), 3
    for outputs, depth in STAGES:
        for _ in range(depth):
            data = graph.relu(graph.conv(data, channels, outputs, 3, padding=1, bias=True))
            channels = outputs
        data = graph.node("MaxPool", data, kernel_shape=[2, 2], strides=[2, 2])
    data, features = graph.node("Flatten", data, axis=1), 7 * 7 * channels
    for width in HIDDEN:
        data, features = graph.relu(graph.dense(data, features, width)), width
    scores = graph.dense(data, features, CLASSES, gain=1)
    return graph.finish(probabilities=graph.node("Softmax", scores, axis=-1))
