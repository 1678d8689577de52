"""M5, a classifier of sound by one-dimensional convolutions.

Source: Dai et al., Very Deep Convolutional Neural Networks for Raw Waveforms, ICASSP 2017, table 1, with 10
classes.
"""

from onnx import ModelProto

from models.graph import GraphBuilder

SAMPLES, CLASSES = 8000, 10
LAYERS = ((128, 80, 4), (128, 3, 1), (256, 3, 1), (512, 3, 1))  # outputs, kernel, stride


def waveform(seed: int) -> ModelProto:
    """Return the network: sound float32[1, 1, 8000] to scores float32[1, 10]."""
    graph = GraphBuilder("waveform", seed)
    data, channels = graph.input("sound", 1, 1, SAMPLES), 1
    for outputs, kernel, stride in LAYERS:
        data = graph.conv(
            data,
            channels,
            outputs,
            kernel,
            stride=stride,
            padding=1 if kernel == 3 else 38,
            dimensions=1,
            bias=True,
        )
        data = graph.node(
            "MaxPool", graph.relu(graph.batch_norm(data, outputs)), kernel_shape=[4], strides=[4]
        )
        channels = outputs
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", data), axis=1)
    return graph.finish(scores=graph.dense(pooled, channels, CLASSES, gain=1))
