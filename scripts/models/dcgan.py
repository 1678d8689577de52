"""The generator of DCGAN.

Source: Radford et al., Unsupervised Representation Learning with Deep Convolutional Generative Adversarial
Networks, ICLR 2016, figure 1;
kernels of 4x4, a multiple of the stride, as implementations have them.
"""

from onnx import ModelProto

from models.graph import GraphBuilder

NOISE = 100
WIDTHS = (512, 256, 128)


def dcgan(seed: int) -> ModelProto:
    """Return the generator: noise float32[1, 100, 1, 1] to image float32[1, 3, 64, 64]."""
    graph = GraphBuilder("dcgan", seed)
    noise, channels = graph.input("noise", 1, NOISE, 1, 1), 1024
    data = graph.relu(graph.batch_norm(graph.conv_transpose(noise, NOISE, channels, 4), channels))
    for outputs in WIDTHS:
        wider = graph.conv_transpose(data, channels, outputs, 4, stride=2, padding=1)
        data, channels = graph.relu(graph.batch_norm(wider, outputs)), outputs
    return graph.finish(
        image=graph.node("Tanh", graph.conv_transpose(data, channels, 3, 4, stride=2, padding=1))
    )
