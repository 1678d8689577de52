"""Captured values of subgraphs, and renaming."""

from onnx import TensorProto, helper

from tests.compiler.graph.onnx.networks import node
from vdla.compiler.graph.onnx.subgraphs import (
    captured,
    defined_names,
    nodes_within,
    reads,
    renamed,
)


def graph(nodes, output: str, inputs: str = "", constants: str = ""):
    """Return a subgraph."""
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*inputs.split(), output)
    ]
    tensors = [helper.make_tensor(name, TensorProto.FLOAT, [1], [0.0]) for name in constants.split()]
    return helper.make_graph(nodes, "g", info[:-1], info[-1:], tensors)


INNER = node("If", "d", "e", then_branch=graph([node("Relu", "far", "f")], "f"), else_branch=graph([], "b"))
LOOP = node("Loop", "count - start", "y", body=graph([node("Add", "a near", "b"), INNER], "e", "a d", "w"))


def test_a_node_reads_its_inputs_and_the_values_that_its_subgraphs_capture():
    assert reads(LOOP) == ["count", "start", "near", "far"]
    assert list(captured(LOOP.attribute[0].g)) == ["near", "far"]


def test_nodes_of_subgraphs_are_listed():
    assert [node_proto.op_type for node_proto in nodes_within(LOOP)] == ["Loop", "Add", "If", "Relu"]


def test_a_subgraph_defines_its_inputs_constants_and_results():
    body = LOOP.attribute[0].g
    assert defined_names(body) == {"a", "d", "w", "b", "e"}


def test_only_captured_values_are_renamed_in_subgraphs():
    changed = renamed(LOOP, {"near": "n", "far": "f2", "a": "outer", "count": "c"})
    assert reads(changed) == ["c", "start", "n", "f2"]
    assert list(changed.attribute[0].g.node[0].input) == ["a", "n"]
    assert reads(LOOP) == ["count", "start", "near", "far"]
