"""What subgraphs read from outside, and renaming through them."""

from onnx import TensorProto, helper

from tests.compiler.graph.onnx.networks import node
from vdla.compiler.graph.onnx.subgraphs import (
    captured,
    initializers,
    nodes_within,
    own_names,
    reads,
    renamed,
    taken_branch,
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


def test_a_node_reads_its_inputs_and_what_its_subgraphs_take_from_outside():
    assert reads(LOOP) == ["count", "start", "near", "far"]
    assert list(captured(node("Relu", "x", "y"))) == []


def test_all_nodes_are_found():
    assert [one.op_type for one in nodes_within(LOOP)] == ["Loop", "Add", "If", "Relu"]


def test_a_subgraph_makes_its_inputs_constants_and_results_itself():
    body = LOOP.attribute[0].g
    assert own_names(body) == {"a", "d", "w", "b", "e"}
    assert initializers(body) == ["w"]


def test_names_change_wherever_they_mean_the_outer_value():
    changed = renamed(LOOP, {"near": "n", "far": "f2", "a": "outer", "count": "c"})
    assert reads(changed) == ["c", "start", "n", "f2"]
    assert list(changed.attribute[0].g.node[0].input) == ["a", "n"]
    assert reads(LOOP) == ["count", "start", "near", "far"]


def test_a_branch_is_found_by_its_condition():
    assert len(taken_branch(INNER, True).node) == 1
    assert len(taken_branch(INNER, False).node) == 0
