"""The driver of rewrite rules."""

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.graph.nodes import Node
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules
from vdla.compiler.graph.text import print_graph
from vdla.compiler.graph.verify import verify


def _relu_twice(at: Rewriter, node: Node) -> None:
    """Relu(Relu(x)) -> Relu(x)."""
    before = at.maker(node.inputs[0], "Relu")
    if before is not None:
        at.replace(node, [replace(node, inputs=before.inputs)])


def _neg_twice(at: Rewriter, node: Node) -> None:
    """Neg(Neg(x)) -> x, where nothing else has the name."""
    before = at.maker(node.inputs[0], "Neg")
    if before is None:
        at.missed(node, "it reads no Neg")
    elif node.outputs[0] not in at.graph.outputs:
        at.read_instead(node.outputs[0], before.inputs[0])


def _expand_elu(at: Rewriter, node: Node) -> None:
    """Elu(x) -> Mul(Tanh(x), constant): a replacement of several nodes."""
    (out,) = node.outputs
    tanh, scale = at.value("t", at.types[out]), at.constant("s", np.array(3.0, np.float32))
    at.replace(node, [Node("Tanh", node.inputs, (tanh,)), Node("Mul", (tanh, scale), (out,))])


def _abs_of_constant(at: Rewriter, node: Node) -> None:
    """Abs(constant) -> constant."""
    if at.are_constant(*node.inputs):
        at.replace_by_constant(node, np.abs(at.constants[node.inputs[0]]))


RULES = Rules(
    "examples",
    (
        RewriteRule(("Relu",), _relu_twice),
        RewriteRule(("Neg",), _neg_twice),
        RewriteRule(("Elu",), _expand_elu),
        RewriteRule(("Abs",), _abs_of_constant),
    ),
)
TYPE = "float32[2]"
CASES = {
    "a chain of any length": (
        ["a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "y = Relu(c)"],
        ["y = Relu(x)"],
    ),
    "what others read stays": (
        ["a = Relu(x)", "b = Neg(a)", "y = Relu(a)"],
        ["a = Relu(x)", "b = Neg(a)", "y = Relu(x)"],
        "y, b",
    ),
    "a match that another rewrite makes": (
        ["a = Relu(x)", "b = Neg(a)", "c = Neg(b)", "y = Relu(c)"],
        ["y = Relu(x)"],
    ),
    "new nodes stand where the old one did": (
        ["a = Neg(x)", "b = Elu(a, alpha=1.0)", "y = Relu(b)"],
        ["a = Neg(x)", "t = Tanh(a)", "s: float32 = constant(3.0)", "b = Mul(t, s)", "y = Relu(b)"],
    ),
    "constants follow from constants": (
        ["c: float32[2] = constant([-1.0, 2.0])", "a = Abs(c)", "b = Abs(a)", "y = Add(x, b)"],
        ["b: float32[2] = constant([1.0, 2.0])", "y = Add(x, b)"],
    ),
}


def graph_of(lines: list[str], outputs: str = "y"):
    typed = [line if ":" in line.split("=")[0] else line.replace(" =", f": {TYPE} =", 1) for line in lines]
    body = "\n".join(f"    {line}" for line in (*typed, f"return {outputs}"))
    return parse_graph(f"def f(x: {TYPE}):\n{body}\n")


@pytest.mark.parametrize("title", CASES)
def test_rules_are_applied_until_none_matches(title):
    before, after, *outputs = CASES[title]
    changed = RULES.run(graph_of(before, *outputs))
    verify(changed)
    assert print_graph(changed) == print_graph(graph_of(after, *outputs))


class Told:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.fired_, self.missed_ = [], []

    def fired(self, rule, before, after):
        self.fired_.append((rule, [node.op for node in before], [node.op for node in after]))

    def missed(self, rule, node, reason):
        self.missed_.append((rule, node.outputs[0], reason))


def test_a_watcher_is_told_what_fired_and_what_nearly_matched():
    told = Told()
    RULES.run(graph_of(["a = Neg(x)", "b = Elu(a, alpha=1.0)", "y = Relu(b)"]), told)
    assert told.fired_ == [("expand_elu", ["Elu"], ["Tanh", "Mul"])]
    assert ("neg_twice", "a", "it reads no Neg") in told.missed_


def test_rules_that_undo_each_other_are_told():
    def _to_tanh(at, node):
        at.replace(node, [replace(node, op="Tanh")])

    def _to_sigmoid(at, node):
        at.replace(node, [replace(node, op="Sigmoid")])

    endless = Rules("endless", (RewriteRule(("Sigmoid",), _to_tanh), RewriteRule(("Tanh",), _to_sigmoid)))
    with pytest.raises(AssertionError, match=r"the rule to_(sigmoid|tanh) and others undo each other"):
        endless.run(graph_of(["y = Tanh(x)"]))


def test_a_replacement_makes_all_results():
    def _forget(at, node):
        at.replace(node, [])

    with pytest.raises(AssertionError, match="forget makes all results of Relu 'y'"):
        Rules("bad", (RewriteRule(("Relu",), _forget),)).run(graph_of(["y = Relu(x)"]))


def test_a_table_prints_as_its_constant():
    assert repr(RULES) == "EXAMPLES"
