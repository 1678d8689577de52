"""Nodes for onnxruntime are grouped into as few connected parts as order allows."""

import pytest
from onnx import helper

from vdla.compiler.graph.nodes import Node
from vdla.compiler.graph.onnx.parts import (
    LONGEST_REASON,
    HostNode,
    HostPart,
    grouped_into_parts,
)


def outside(op: str, inputs: str, outputs: str) -> HostNode:
    """Return a node that onnxruntime runs, whose values have one name everywhere."""
    proto = helper.make_node(op, inputs.split(), outputs.split(), name=f"n_{op}")
    reads, makes = ({name: name for name in part.split()} for part in (inputs, outputs))
    return HostNode(proto, f"no {op}", reads, (), makes, 13)


def kit(op: str, inputs: str, output: str) -> Node:
    """Return a node that the kit runs."""
    return Node(op, tuple(inputs.split()), (output,))


def grouped(steps, outputs: str) -> list[str]:
    """Return the nodes in order: operators of the kit, and parts with their operators and border values."""
    parts: list[HostPart] = []

    def part_nodes(part: HostPart) -> list[Node]:
        parts.append(part)
        return [Node("Part", tuple(part.inputs), tuple(part.outputs))]

    nodes = grouped_into_parts(steps, outputs.split(), part_nodes)
    names = {
        tuple(part.outputs): "+".join(host_node.proto.op_type for host_node in part.nodes) for part in parts
    }
    known = {"x"}
    for node in nodes:
        assert set(node.inputs) <= known, f"{node} runs too early"
        known |= set(node.outputs)
    return [
        f"{names[node.outputs]}({' '.join(node.inputs)})->{' '.join(node.outputs)}"
        if node.op == "Part"
        else node.op
        for node in nodes
    ]


def test_a_chain_of_nodes_is_a_single_part():
    steps = [outside("A", "x", "a"), outside("B", "a", "b"), outside("C", "a b", "c")]
    assert grouped(steps, "c") == ["A+B+C(x)->c"]


def test_a_value_that_leaves_the_network_leaves_its_part():
    steps = [outside("A", "x", "a"), outside("B", "a", "b")]
    assert grouped(steps, "a b") == ["A+B(x)->a b"]


def test_unconnected_nodes_are_separate_parts():
    steps = [outside("A", "x", "a"), outside("B", "x", "b")]
    assert grouped(steps, "a b") == ["A(x)->a", "B(x)->b"]


def test_the_kit_between_two_nodes_divides_them():
    steps = [outside("A", "x", "a"), kit("K", "a", "k"), outside("B", "a k", "b")]
    assert grouped(steps, "b") == ["A(x)->a", "K", "B(a k)->b"]


def test_a_node_joins_the_part_of_its_readers():
    steps = [outside("A", "x", "a"), kit("K", "x", "k"), outside("B", "a k", "b")]
    assert grouped(steps, "b") == ["K", "A+B(x k)->b"]


def test_parts_never_wait_for_each_other():
    steps = [
        outside("A", "x", "a"),
        outside("B", "x", "b"),
        kit("K", "a", "k"),
        kit("L", "b", "l"),
        outside("C", "b k", "c"),
        outside("D", "a l", "d"),
        outside("E", "c d", "e"),
    ]
    assert grouped(steps, "e") == ["A(x)->a", "B(x)->b", "K", "L", "C+D+E(b k a l)->e"]


def test_an_unused_part_is_dropped():
    assert grouped([outside("A", "x", "a"), kit("K", "x", "k")], "k") == ["K"]


def test_reports_name_the_first_nodes_and_every_reason():
    steps = [outside(op, "x", op.lower()) for op in "ABCDE"]
    part = HostPart((*steps, outside("A", "x", "f")), {"x": "x"}, {"f": "f"})
    node = part.node("model")
    assert (node.op, node.inputs, node.outputs) == ("OnnxRuntime", ("model", "x"), ("f",))
    assert node.name == "A n_A, B n_B, C n_C and 3 more"
    assert node.reason == "onnxruntime runs it: no A, no B, no C, no D, no E"


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (1, "A n_A"),
        (2, "A n_A, B n_B"),
        (3, "A n_A, B n_B, C n_C"),
        (4, "A n_A, B n_B, C n_C and 1 more"),
        (5, "A n_A, B n_B, C n_C and 2 more"),
    ],
)
def test_a_part_is_called_by_its_first_nodes(count, name):
    steps = [outside(op, "x", op.lower()) for op in "ABCDE"[:count]]
    assert HostPart(tuple(steps), {"x": "x"}, {"a": "a"}).name == name


def test_a_reason_is_on_one_line_of_bounded_length():
    steps = [outside(op * 60, "x", op.lower()) for op in "ABCDE"]
    reason = HostPart(tuple(steps), {"x": "x"}, {"e": "e"}).node("model").reason
    assert len(reason) == LONGEST_REASON
    assert reason.endswith("...")
