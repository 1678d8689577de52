"""The fixpoint of the operators that compute with integers: equal to whole rounds, and in time that follows the
number of nodes."""

from random import Random

import numpy as np
import pytest

from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.quantisation import roles as subject
from vdla.compiler.graph.quantisation import shrinking
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.verify import verify

CONV = {"dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1)}
POOL = {"ceil_mode": 0, "dilations": (1, 1), "kernel_shape": (1, 1), "pads": (0, 0, 0, 0), "strides": (1, 1)}
IMAGE = TensorType((1, 2, 2, 2), "float32")
STEPS = ("Add", "Clip", "Conv", "Join", "MaxPool", "Mul", "Relu", "Scale", "Sigmoid", "Sqrt")


def whole_rounds(of):
    """Shrink as `shrink` does, in rounds that look at all nodes."""
    nodes, out = of.graph.nodes, {""}
    while out:
        of.fused = of.biases | of.scales
        of.fused |= {node.outputs[0] for node in nodes if of.is_bound(node)}
        of.roots, of.wanted = {}, set()
        for node in nodes:
            if (root := of.root_of(node)) is not None:
                of.roots[node.outputs[0]] = root
        for node in reversed(nodes):
            of.wanted |= {name for name in node.outputs if of.is_wanted(name)}
        of.wanted |= {name for name in of.graph.inputs if of.is_wanted(name)}
        out = {name for name in of.others - of.fused if not of.is_worth_quantising(of.makers[name])}
        of.others -= out


class Growing:
    """A graph in the making, of images of one type."""

    def __init__(self):
        self.nodes, self.types = [], {"x": IMAGE, "w": TensorType((2, 2, 1, 1), "float32")}
        self.types |= {"v": TensorType((2, 4, 1, 1), "float32"), "c": TensorType((), "float32")}
        self.constants = {name: np.full(self.types[name].shape, 0.5, np.float32) for name in ("w", "v", "c")}

    def add(self, op, inputs, attributes=None, type_=IMAGE):
        """Append a node; return its result."""
        out = f"n{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (out,), attributes or {}))
        self.types[out] = type_
        return out

    def step(self, op, one, other):
        """Append what a step stands for; return its result."""
        match op:
            case "Clip":
                return self.add(op, (one,), {"min": 0.0, "max": 6.0})
            case "Conv":
                return self.add(op, (one, "w", ""), CONV)
            case "Join":
                wide = self.add("Concat", (one, other), {"axis": 1}, TensorType((1, 4, 2, 2), "float32"))
                return self.add("Conv", (wide, "v", ""), CONV)
            case "MaxPool":
                return self.add(op, (one,), POOL)
            case "Add" | "Mul":
                return self.add(op, (one, other))
            case "Scale":
                return self.add("Mul", (one, "c"))
        return self.add(op, (one,))

    def graph(self, *outputs):
        """Return the graph."""
        made = Graph("g", {"x": IMAGE}, outputs, tuple(self.nodes), self.constants, self.types)
        verify(made)
        return made


def random_graph(seed):
    random, growing = Random(seed), Growing()
    values = ["x"]
    likely = random.sample(STEPS, 6)
    for _ in range(random.randint(3, 30)):
        recent = values[-3:]
        values.append(growing.step(random.choice(likely), random.choice(recent), random.choice(recent)))
    return growing.graph(values[-1], *random.sample(values[1:-1], 1))


def found(graph):
    roles = Roles(graph)
    return roles.fused, roles.others, roles.roots, roles.wanted & roles.makers.keys(), roles.leaders


@pytest.mark.parametrize("seeds", [range(first, first + 40) for first in range(0, 320, 40)], ids=str)
def test_incremental_rounds_reach_the_same_fixpoint_as_full_rounds(seeds, monkeypatch):
    graphs = [random_graph(seed) for seed in seeds]
    quick = [found(graph) for graph in graphs]
    monkeypatch.setattr(subject, "shrink", whole_rounds)
    assert quick == [found(graph) for graph in graphs]
    assert any(others for _, others, *_ in quick)


def behind_a_product(count):
    """A product, then sums and bounds that peel off from the end, one in each round."""
    growing = Growing()
    before = value = growing.step("Conv", "x", "")
    for _ in range(count):
        before, value = value, growing.step("Add", value, before)
        value = growing.step("Relu", growing.step("Clip", value, ""), "")
    return growing.graph(value)


def looked_at(count, monkeypatch):
    made = []

    class Counting(shrinking._Rounds):
        def __init__(self, of):
            super().__init__(of)
            made.append(self)

    monkeypatch.setattr(shrinking, "_Rounds", Counting)
    roles = Roles(behind_a_product(count))
    assert not roles.others
    return made[0].visits


def test_visits_grow_linearly_with_the_number_of_nodes(monkeypatch):
    assert looked_at(400, monkeypatch) <= 2.2 * looked_at(200, monkeypatch)
