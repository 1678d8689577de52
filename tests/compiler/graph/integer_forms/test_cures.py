"""Cures: the text of a reason depends on who quantised the network, and is decided when it is recorded."""

import pytest

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.cures import (
    BESIDE_FLOAT,
    BETWEEN,
    CHOSEN,
    CONSTANT_RANGES,
    FOR_QUALITY,
    GENERAL,
    IN_FILE,
    NOTHING,
    NOTHING_QUANTISED,
    cures_here,
    cures_in_file,
)
from vdla.compiler.graph.integer_forms.prerequisites import SAMPLES
from vdla.compiler.graph.integer_forms.rules import QUANTISE
from vdla.compiler.graph.nodes import Node
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.to_integers import ToIntegers
from vdla.compiler.rules import Unfit

FLOAT = """\
def f(x: float32[1, 4]):
    y: float32[1, 4] = Relu(x, name="bound")
    return y
"""
DYNAMIC = """\
def f(x: float32[1, 4]):
    y: uint8[1, 4]
    s: float32
    z: uint8
    y, s, z = DynamicQuantizeLinear(x)
    return y
"""
QUANTISED = """\
def f(x: float32[1, 4]):
    s: float32 = constant(0.5)
    z: int8 = constant(-3)
    y: int8[1, 4] = QuantizeLinear(x, s, z, axis=0)
    return y
"""
CURES = {
    "no origin": (GENERAL, QUANTISE, SAMPLES),
    "nothing to quantise": (NOTHING_QUANTISED, NOTHING, SAMPLES),
    "ranges that samples fix": (cures_in_file(parse_graph(DYNAMIC), sampled=False), QUANTISE, SAMPLES),
    "ranges that samples have not fixed": (
        cures_in_file(parse_graph(DYNAMIC), sampled=True),
        IN_FILE,
        CONSTANT_RANGES,
    ),
    "a quantised file": (cures_in_file(parse_graph(QUANTISED), sampled=False), IN_FILE, CONSTANT_RANGES),
    "all layers quantised here": (cures_here((), ()), BETWEEN, CONSTANT_RANGES),
    "some layers quantised here": (cures_here(("other",), ()), BESIDE_FLOAT, CONSTANT_RANGES),
}


@pytest.mark.parametrize("title", CURES)
def test_the_origin_decides_the_cure(title):
    cures, quantise, fix_range = CURES[title]
    node = Node("Op", ("x",), ("y",))
    for cure, wanted in ((QUANTISE, quantise), (SAMPLES, fix_range), ("enable it", "enable it")):
        assert (
            cures.of(node, Unfit("Op with x", "the accelerator takes y", cure)).reason
            == f"Op with x; {wanted}"
        )
    assert cures.of(node, Unfit("Op with x", "the accelerator takes y")).reason.endswith("takes y")


@pytest.mark.parametrize(
    ("cures", "why"), [(cures_here(("bound",), ()), CHOSEN), (cures_here(("y",), ("y",)), FOR_QUALITY)]
)
def test_an_operator_that_was_kept_in_float_says_why(cures, why):
    graph = ToIntegers(cures).run(parse_graph(FLOAT))
    assert DefUse(graph).makers["y"].reason == f"Relu in float; {why}"


def test_an_operator_in_float_for_another_reason_keeps_it():
    unfit = Unfit("Op with dilations", "the accelerator takes dilations of 1")
    assert cures_here(("y",), ()).of(Node("Op", ("x",), ("y",)), unfit) == unfit
