"""Recognising the pieces of which networks make an operator."""

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.rewrites.normalisation import Statistic, is_whole, squared, statistic

USES = DefUse(
    parse_graph("""\
def f(x: float32[2, 4], o: float32[2, 1]):
    zero: float32 = constant(0.0)
    quarter: float32 = constant(0.25)
    least: float32 = constant(-3.4028234663852886e+38)
    low: float32 = constant(-3.3e+38)
    two: float32 = constant(2.0)
    many: float32[2, 1] = constant([[4.0], [4.0]])
    n: float32 = constant(4.0)
    s: float32[2, 4] = Mul(x, x)
    p: float32[2, 4] = Pow(x, two)
    q: float32[2, 4] = Mul(x, p)
    m: float32[2, 1] = ReduceMean(x, axes=(1,), keepdims=1)
    t: float32[2] = ReduceSum(x, axes=(1,), keepdims=0)
    u: float32[2, 1] = Unsqueeze(t, axes=(1,))
    d: float32[2, 1] = Div(u, n)
    w: float32[2, 1] = Div(u, two)
    h: float32[2, 1] = Div(u, many)
    e: float32[2, 4] = Expand(m, shape=(2, 4))
    g: float32[3, 2, 4] = Expand(m, shape=(3, 2, 4))
    by_quarter: float32[2, 1] = Mul(u, quarter)
    by_zero: float32[2, 1] = Div(u, zero)
    no_sum: float32[2, 4] = Div(x, n)
    both: float32[1, 1] = ReduceSum(x, axes=(0, 1), keepdims=1)
    rows: float32[1, 4] = ReduceMax(x, axes=(0,), keepdims=1)
    over_least: float32[1, 4] = Max(rows, least)
    over_low: float32[1, 4] = Max(rows, low)
    over_input: float32[2, 4] = Max(rows, o)
    dropped: float32[4] = ReduceMax(x, axes=(0,), keepdims=0)
    return s, p, q, d, w, h, e, g, by_quarter, by_zero, no_sum, both, over_least, over_low, over_input, dropped
""")
)


def test_squares():
    assert [squared(USES, name) for name in "spqmx"] == ["x", "x", None, None, None]


def test_statistics():
    mean = Statistic("x", (1,))
    assert [statistic(USES, name, "ReduceMean") for name in "mde"] == [mean] * 3
    assert [statistic(USES, name, "ReduceMean") for name in "whgtux"] == [None] * 6
    assert statistic(USES, "u", "ReduceSum") == mean
    assert statistic(USES, "t", "ReduceSum") is None  # its dimension is not kept
    assert statistic(USES, "by_quarter", "ReduceMean") == mean
    assert [statistic(USES, name, "ReduceMean") for name in ("by_zero", "no_sum")] == [None] * 2
    assert statistic(USES, "both", "ReduceSum") == Statistic("x", (0, 1))


def test_maxima():
    maxima = Statistic("x", (0,))
    assert [statistic(USES, name, "ReduceMax") for name in ("rows", "over_least")] == [maxima] * 2
    assert statistic(USES, "dropped", "ReduceMax") == maxima  # the shape has a 1 before the first dimension
    assert [statistic(USES, name, "ReduceMax") for name in ("over_low", "over_input", "m")] == [None] * 3


def test_what_is_whole():
    assert is_whole(USES, "m", "x")
    assert is_whole(USES, "p", "x")
    assert not is_whole(USES, "q", "x")  # p goes out
    assert not is_whole(USES, "d", "x")  # others read u
    assert not is_whole(USES, "e", "x")  # m is read twice
