"""The deep Q-network that plays Atari games.

Source: Mnih et al., Human-level control through deep reinforcement learning, Nature 518, 2015, methods.
"""

from onnx import ModelProto

from models.graph import GraphBuilder

FRAMES, SIDE, ACTIONS = 4, 84, 18
LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # outputs, kernel, stride
FEATURES = 64 * 7 * 7


def dqn(seed: int) -> ModelProto:
    """Return the network: frames float32[1, 4, 84, 84] to values float32[1, 18]."""
    graph = GraphBuilder("dqn", seed)
    data, channels = graph.input("frames", 1, FRAMES, SIDE, SIDE), FRAMES
    for outputs, kernel, stride in LAYERS:
        data, channels = (
            graph.relu(graph.conv(data, channels, outputs, kernel, stride=stride, bias=True)),
            outputs,
        )
    hidden = graph.relu(graph.dense(graph.node("Flatten", data, axis=1), FEATURES, 512))
    return graph.finish(values=graph.dense(hidden, 512, ACTIONS, gain=1))
