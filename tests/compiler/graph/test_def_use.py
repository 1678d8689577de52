"""Makers and readers of values."""

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.parse import parse_graph

USES = DefUse(
    parse_graph("""\
def f(x: float32[2]):
    c: float32 = constant(2.0)
    d: float32[2] = constant([2.0, 3.0])
    a: float32[2] = Mul(x, c)
    b: float32[2] = Mul(a, a)
    e: float32[2] = Sub(b, d)
    g: float32[2] = Relu(e)
    return g, b
""")
)


def test_makers_may_be_asked_for_by_operator():
    assert USES.maker("a").op == "Mul"
    assert USES.maker("a", "Add", "Mul") is USES.maker("a")
    assert USES.maker("a", "Add") is None
    assert [USES.maker(name) for name in ("x", "c", "")] == [None] * 3


def test_a_reader_is_told_once():
    assert [[node.outputs[0] for node in USES.readers(name)] for name in "xabeg"] == [
        ["a"], ["b"], ["e"], ["g"], [],
    ]  # fmt: skip


def test_the_only_reader_reads_once_and_the_value_stays_inside():
    assert USES.only_reader("e") is USES.maker("g")
    assert USES.only_reader("e", "Relu") is USES.maker("g")
    assert USES.only_reader("e", "Clip") is None
    assert USES.only_reader("a") is None  # it is squared, so it is read twice
    assert USES.only_reader("b") is None  # it is an output
    assert [USES.is_read_once(name) for name in "xabeg"] == [True, False, False, True, False]


def test_operands_come_in_both_orders_if_these_are_equal():
    assert list(USES.operands("a", "Mul")) == [("x", "c"), ("c", "x")]
    assert list(USES.operands("e", "Sub")) == [("b", "d")]
    assert list(USES.operands("e", "Mul")) == list(USES.operands("x", "Mul")) == []


def test_numbers_are_constants_of_one_element():
    assert [USES.number(name) for name in "cdx"] == [2.0, None, None]
    assert USES.are_constant("c", "", "d")
    assert not USES.are_constant("c", "a")
