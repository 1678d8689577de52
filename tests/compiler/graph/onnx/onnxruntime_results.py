"""Models of one operator of ONNX Runtime, and the comparison of the kit's results with its kernels'."""

import numpy as np
import onnxruntime
from onnx import ModelProto

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.load import load
from vdla.runtime.host.onnx_runtime import PART

MICROSOFT = "com.microsoft"


def fused(op: str, inputs: str, fed: dict, constants: dict, outputs: str = "y", **attributes) -> ModelProto:
    """Return a model of one operator; an input or output "-" is left out."""
    shapes = {name: array.shape for name, array in fed.items()}
    nodes = [node(op, inputs, outputs, domain=MICROSOFT, **attributes)]
    return model(nodes, shapes, [name for name in outputs.split() if name != "-"], constants)


def check(proto: ModelProto, fed: dict[str, np.ndarray]) -> Graph:
    """Compare with onnxruntime, which must not be needed to run it; return the graph."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    expected = dict(
        zip([output.name for output in session.get_outputs()], session.run(None, fed), strict=True)
    )
    graph = load(proto)
    assert PART not in [graph_node.op for graph_node in graph.nodes]
    results = interpret(graph, fed)
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=1e-4, atol=1e-4)
    return graph
