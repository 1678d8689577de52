"""Schedule primitives: the rewrite each primitive documents is the rewrite it makes, results never
change, and misuse is explained."""

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.nodes import Const, IrError, cast, select
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.text import print_func
from vdla.compiler.te.schedule import ScheduleError, create_schedule
from vdla.compiler.te.tensor import compute, placeholder, reduce_axis, sum_over

A = placeholder((12,), "A", "int32")
M = placeholder((6, 8), "M", "int32")


def scaled():
    return compute((12,), lambda i: A[i] * 2, "C")


def turned():
    return compute((6, 8), lambda y, x: M[y, x] + 1, "C")


def chain():
    double = compute((12,), lambda i: A[i] * 2, "B")
    return double, compute((12,), lambda x: double[x] + 1, "C")


def total():
    k = reduce_axis(8, "k")
    return compute((6,), lambda y: sum_over(M[y, k], k), "C")


def split(handle, schedule):
    handle.split("i", 4)


def split_unevenly(handle, schedule):
    handle.split("i", 5)


def fuse(handle, schedule):
    handle.fuse("y", "x")


def reorder(handle, schedule):
    handle.reorder("x", "y")


def tile(handle, schedule):
    handle.tile("y", "x", 2, 4)


REWRITES = {
    "split": (
        scaled,
        split,
        """\
for i_o in range(3):
    for i_i in range(4):
        C[i_o * 4 + i_i] = A[i_o * 4 + i_i] * int32(2)
""",
    ),
    "split unevenly": (
        scaled,
        split_unevenly,
        """\
for i_o in range(3):
    for i_i in range(5):
        if i_o * 5 + i_i < 12:
            C[i_o * 5 + i_i] = A[i_o * 5 + i_i] * int32(2)
""",
    ),
    "fuse": (
        turned,
        fuse,
        """\
for y_x in range(48):
    C[y_x // 8, y_x % 8] = M[y_x // 8, y_x % 8] + int32(1)
""",
    ),
    "reorder": (
        turned,
        reorder,
        """\
for x in range(8):
    for y in range(6):
        C[y, x] = M[y, x] + int32(1)
""",
    ),
    "tile": (
        turned,
        tile,
        """\
for y_o in range(3):
    for x_o in range(2):
        for y_i in range(2):
            for x_i in range(4):
                C[y_o * 2 + y_i, x_o * 4 + x_i] = M[y_o * 2 + y_i, x_o * 4 + x_i] + int32(1)
""",
    ),
    "reorder of a reduction": (
        total,
        lambda handle, schedule: handle.reorder("k", "y"),
        """\
for y in range(6):
    C[y] = int32(0)
for k in range(8):
    for y in range(6):
        C[y] = C[y] + M[y, k]
""",
    ),
    "cache_read": (
        scaled,
        lambda handle, schedule: schedule.cache_read(A, "input", schedule.outputs),
        """\
AL = alloc(int32[12], "input")
for AL_i in range(12):
    AL[AL_i] = A[AL_i]
for i in range(12):
    C[i] = AL[i] * int32(2)
""",
    ),
    "cache_write": (
        scaled,
        lambda handle, schedule: schedule.cache_write(schedule.outputs[0], "accumulator"),
        """\
CL = alloc(int32[12], "accumulator")
for CL_i in range(12):
    CL[CL_i] = A[CL_i] * int32(2)
for i in range(12):
    C[i] = CL[i]
""",
    ),
}


def body_of(func) -> str:
    return "".join(line[4:] for line in print_func(func).splitlines(keepends=True)[1:])


@pytest.mark.parametrize("name", REWRITES)
def test_a_primitive_makes_the_rewrite_it_documents(name):
    build, primitive, expected = REWRITES[name]
    schedule = create_schedule(build())
    primitive(schedule[schedule.outputs[0]], schedule)
    assert body_of(schedule.lower()) == expected
    assert parse_func(print_func(schedule.lower())) == schedule.lower()


@pytest.mark.parametrize(("how", "verified"), [({}, 1), ({"verified": True}, 1), ({"verified": False}, 0)])
def test_a_program_is_verified_unless_somebody_else_does_so(how, verified, monkeypatch):
    seen = []
    monkeypatch.setattr("vdla.compiler.te.lower.verify", seen.append)
    func = create_schedule(scaled()).lower("twice", **how)
    assert (func.name, seen) == ("twice", [func] * verified)


def test_compute_at_computes_what_an_iteration_needs():
    double, out = chain()
    schedule = create_schedule(out)
    outer, _ = schedule[out].split("x", 4)
    schedule[double].compute_at(out, outer)
    assert (
        body_of(schedule.lower())
        == """\
for x_o in range(3):
    B = alloc(int32[4])
    for i in range(4):
        B[i] = A[x_o * 4 + i] * int32(2)
    for x_i in range(4):
        C[x_o * 4 + x_i] = B[x_i] + int32(1)
"""
    )


def test_compute_at_keeps_out_what_lies_before_a_tensor():
    double = compute((12,), lambda i: A[i] * 2, "B")
    out = compute((12,), lambda x: select(Const(0) < x, double[x - 1], Const(0, "int32")), "C")
    schedule = create_schedule(out)
    schedule[double].compute_at(out, "x")
    func = schedule.lower()
    assert "if -1 < x - 1:" in print_func(func)
    values = {"A": np.arange(12, dtype=np.int32), "C": np.full(12, 7, np.int32)}
    interpret(func, values)
    assert values["C"].tolist() == [0, *range(0, 22, 2)]


def test_compute_inline_writes_the_expression_where_it_is_read():
    double, out = chain()
    schedule = create_schedule(out)
    schedule[double].compute_inline()
    assert body_of(schedule.lower()) == "for x in range(12):\n    C[x] = A[x] * int32(2) + int32(1)\n"


LOOPS = """
for y in range(6):
    for x in range(8):
        C[...] = ..."""


def attached(schedule, out):
    """Compute something at the loop over rows."""
    schedule[schedule.cache_read(M, "input", [out])].compute_at(out, "y")


AT_ITS_LOOP = "ML is computed at its loop y; do this before compute_at" + LOOPS
MISUSE = [
    (lambda s, c: s[c].split("z", 4), "split of C: there is no loop z" + LOOPS),
    *(
        (
            lambda s, c, factor=factor: s[c].split("y", factor),
            f"split of C: factor {factor!r} is not a positive whole number" + LOOPS,
        )
        for factor in (0, -1, 2.0)
    ),
    (lambda s, c: s[c].fuse("x", "y"), "fuse of C: y is not directly inside x" + LOOPS),
    (lambda s, c: s[c].fuse("y", "y"), "fuse of C: y is not directly inside y" + LOOPS),
    (lambda s, c: s[c].reorder("y", "y"), "reorder of C: a loop is named twice: y, y" + LOOPS),
    (lambda s, c: s[c].compute_inline(), "compute_inline of C: it is an output" + LOOPS),
    (lambda s, c: s[c].compute_at(c, "z"), "compute_at of C: there is no loop z" + LOOPS),
    (
        lambda s, c: s[c].compute_at(c, "y"),
        "compute_at of C: it is an output, which is computed as a whole" + LOOPS,
    ),
    (
        lambda s, c: s[c].set_scope("input"),
        "set_scope of C: it is an output, which is stored in DRAM; use cache_write" + LOOPS,
    ),
    (
        lambda s, c: (s[c].split("y", 2), s[c].vthread("y_i"), s.cache_write(c, "accumulator")),
        """\
cache_write of C: its loops have been scheduled already; write it to a cache first
for y_o in range(3):
    for y_i in vthread(2):
        for x in range(8):
            C[...] = ...""",
    ),
    (
        lambda s, c: (s[c].tensorize("x", ()), s.cache_write(c, "accumulator")),
        "cache_write of C: its loops have been scheduled already; write it to a cache first" + LOOPS,
    ),
    (lambda s, c: (attached(s, c), s.cache_write(c, "accumulator")), "cache_write of C: " + AT_ITS_LOOP),
    (lambda s, c: (attached(s, c), s[c].split("y", 2)), "split of C: " + AT_ITS_LOOP),
    (lambda s, c: (attached(s, c), s[c].fuse("y", "x")), "fuse of C: " + AT_ITS_LOOP),
    (lambda s, c: s.cache_read(A, "input", [c]), "cache_read: C does not read A"),
    (
        lambda s, c: s.cache_read(M, "input", [c], name="C"),
        "a cache of M cannot be called C: a tensor of that name exists already",
    ),
    (
        lambda s, c: s.cache_write(c, "accumulator", name="M"),
        "a cache of C cannot be called M: a tensor of that name exists already",
    ),
    (lambda s, c: s[A].split("i", 2), "A is not a stage of this schedule; there are C"),
    (
        lambda s, c: (attached(s, c), s[A].split("i", 2)),
        "A is not a stage of this schedule; there are ML, C",
    ),
]


@pytest.mark.parametrize(("misuse", "message"), MISUSE)
def test_misuse_is_refused_with_the_reason(misuse, message):
    out = turned()
    with pytest.raises(ScheduleError) as caught:
        misuse(create_schedule(out), out)
    assert str(caught.value) == message


def test_loops_inside_the_one_where_a_tensor_is_computed_may_change():
    out = turned()
    schedule = create_schedule(out)
    attached(schedule, out)
    assert schedule[out].split("x", 4) == ("x_o", "x_i")
    assert schedule[out].fuse("x_o", "x_i") == "x_o_x_i"
    assert schedule[out].loops == ["y", "x_o_x_i"]


ROWS = """
for y in range(6):
    for k in range(8):  # combines
        C[...] = ..."""


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (
            lambda handle: handle.vthread("k"),
            "vthread of C: k is a reduction; its iterations are not independent" + ROWS,
        ),
        (
            lambda handle: handle.fuse("y", "k"),
            "fuse of C: of y and k, only one is a reduction" + ROWS,
        ),
        (
            lambda handle: handle.compute_inline(),
            "compute_inline of C: it is a reduction, which cannot be substituted into its readers" + ROWS,
        ),
    ],
)
def test_reductions_are_neither_threads_nor_expressions(misuse, message):
    out = total()
    with pytest.raises(ScheduleError) as caught:
        misuse(create_schedule(out)[out])
    assert str(caught.value) == message


def twice_read():
    """Return B, which C and D read; D reads C, too."""
    first = compute((6, 8), lambda y, x: M[y, x] * 2, "B")
    second = compute((6, 8), lambda y, x: first[y, x] + 1, "C")
    return first, second, compute((6, 8), lambda y, x: first[y, x] + second[y, x], "D")


def test_a_tensor_is_computed_where_all_its_readers_are():
    first, second, out = twice_read()
    schedule = create_schedule(out)
    assert [stage.name for stage in schedule.stages] == ["B", "C", "D"]
    assert [stage.name for stage in schedule.consumers(first)] == ["C", "D"]
    assert schedule[second].loops == ["C_y", "C_x"]
    with pytest.raises(ScheduleError) as caught:
        schedule[first].compute_at(second, "C_y")
    nest = "\nfor y in range(6):\n    for x in range(8):\n        B[...] = ..."
    stray = "D reads B and would not be computed inside the same loop"
    assert str(caught.value) == f"compute_at of B: {stray}{nest}"
    assert schedule.stage(first).attach is None
    with pytest.raises(ScheduleError) as caught:
        schedule[first].compute_at(out, "D_y")
    assert str(caught.value) == f"compute_at of B: {stray.replace('D', 'C')}{nest}"
    schedule[second].compute_at(out, "D_x")
    schedule[first].compute_at(out, "D_y")
    loops = schedule[out].loops
    with pytest.raises(ScheduleError) as caught:
        schedule[out].reorder("D_x", "D_y")
    assert str(caught.value).startswith(f"reorder of D: {stray.replace('D', 'C')}\nfor D_y in range(6):")
    assert schedule[out].loops == loops == ["D_y", "D_x"]
    with pytest.raises(ScheduleError) as caught:
        schedule[second].compute_at(first, "x")
    assert str(caught.value).startswith(f"compute_at of C: {stray.replace('D', 'D').replace('B', 'C')}\n")
    assert (
        body_of(schedule.lower())
        == """\
for D_y in range(6):
    B = alloc(int32[1, 8])
    for x in range(8):
        B[0, x] = M[D_y, x] * int32(2)
    for D_x in range(8):
        C = alloc(int32[1, 1])
        C[0, 0] = B[0, D_x] + int32(1)
        D[D_y, D_x] = B[0, D_x] + C[0, 0]
"""
    )


def test_a_tensor_is_not_computed_inside_itself():
    first = compute((6, 8), lambda y, x: M[y, x] * 2, "B")
    second = compute((6, 8), lambda y, x: first[y, x] + 1, "C")
    out = compute((6, 8), lambda y, x: second[y, x] + 1, "D")
    schedule = create_schedule(out)
    schedule[first].compute_at(second, "C_y")
    for name in ("B", "C"):
        inner = schedule.stage({"B": first, "C": second}[name])
        with pytest.raises(ScheduleError) as caught:
            schedule[second].compute_at(inner.tensor, inner.leaves[0])
        assert str(caught.value).startswith(f"compute_at of C: {name} is computed inside it\nfor C_y in")
    with pytest.raises(ScheduleError) as caught:
        schedule[second].compute_inline()
    assert str(caught.value).startswith(
        "compute_inline of C: B is computed at its loop C_y; do this before compute_at\nfor C_y in"
    )


def test_names_of_loops_and_caches_are_used_once():
    first = compute((4, 4), lambda i, C_i: A[i] + A[C_i], "B")
    out = compute((4, 4), lambda C_i, i: first[C_i, i] + first[i, C_i], "C")
    schedule = create_schedule(out)
    assert schedule[first].axis == ["i", "C_i"]
    assert schedule[out].axis == ["C_C_i", "C_i2"]
    cached = schedule.cache_read(first, "input", [out])
    again = schedule.cache_read(A, "input", [first])
    more = schedule.cache_read(again, "input", [first])
    assert [stage.name for stage in schedule.stages] == ["AL", "ALL", "B", "BL", "C"]
    assert schedule[cached].axis == ["BL_i", "j"]
    assert (schedule[again].axis, schedule[more].axis) == (["AL_i"], ["ALL_i"])
    written = schedule.cache_write(out, "accumulator")
    assert [stage.name for stage in schedule.stages[-2:]] == [written.name, "C"] == ["CL", "C"]


def test_axes_of_caches_have_letters_and_then_numbers():
    many = placeholder((1,) * 10, "T", "int32")
    out = compute((1,), lambda o: many[(o,) * 10], "C")
    schedule = create_schedule(out)
    assert schedule[schedule.cache_read(many, "input", [out])].axis == [*"ijlmnpqr", "i8", "i9"]


def test_a_cache_serves_the_readers_that_are_named():
    double = compute((12,), lambda i: A[i] * 2, "B")
    out = compute((12,), lambda x: double[x] + A[x], "C")
    schedule = create_schedule(out)
    schedule.cache_read(A, "input", [out])
    assert (
        body_of(schedule.lower())
        == """\
AL = alloc(int32[12], "input")
for AL_i in range(12):
    AL[AL_i] = A[AL_i]
B = alloc(int32[12])
for i in range(12):
    B[i] = A[i] * int32(2)
for x in range(12):
    C[x] = B[x] + AL[x]
"""
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: compute((4,), lambda i, j: A[i], "C"),
            r"C has 1 dimensions \[4\], but its expression takes 2 subscripts \(i, j\)",
        ),
        (
            lambda: compute((4,), lambda i: M[i], "C"),
            r"M has 2 dimensions \[6, 8\], but 1 subscripts were given",
        ),
        (
            lambda: compute((4,), lambda i: A[i] + cast("int8", A[i]), "C"),
            r"\+ has operands of types int32 and int8; cast one of them",
        ),
        (
            lambda: compute((4,), lambda i: A[reduce_axis(3, "k")], "C"),
            "C: k is not an axis of C; it has i. Pass reduction axes to sum_over or max_over",
        ),
        (
            lambda: compute((4,), lambda i: sum_over(A[i], "k"), "C"),
            "'k' is not a reduction axis; create it with",
        ),
        (
            lambda: compute((4,), lambda i: sum_over(A[i], reduce_axis(2, "k")) + 1, "C"),
            "C: a reduction is nested inside another expression",
        ),
        (lambda: compute((0,), lambda i: A[i], "C"), "buffer C: extent 0 is not a positive whole number"),
        (lambda: A[A[0]], r"A\[0\] is int32, not an index"),
    ],
)
def test_ill_formed_expressions_are_refused(build, message):
    with pytest.raises(IrError, match=message):
        build()
