"""Native code gives the interpreter's results, value by value and program by program, on any number of
threads."""

import random
import re

import numpy as np
import pytest

from tests.compiler.te.test_schedule import convolution, multiply, pooled, scramble
from tests.loading import load_file
from vdla.compiler.codegen.host.build import compile_host, vector_bytes
from vdla.compiler.codegen.host.hints import lanes
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.nodes import Func, IrError, LoopKind
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.rewrite import loops_of
from vdla.compiler.ir.types import DTYPES
from vdla.compiler.te.schedule import ScheduleError, create_schedule

COUNT = 24
ROWS = """\
def rows(A: float32[37, 20], B: float32[37, 20], C: float32[37]):
    for i in parallel(37):
        T = alloc(float32[20])
        for j in vectorized(20):
            T[j] = A[i, j] * B[i, j]
        C[i] = float32(0.5)
        for k in vectorized(20):
            C[i] = C[i] + T[k]
"""


@pytest.fixture(scope="module")
def campaign():
    return load_file("scripts/random_loops.py")


@pytest.mark.parametrize("seed", range(200))
def test_random_programs_run_as_interpreted(campaign, seed, capfd):
    assert campaign.differences(campaign.random_program(seed), seed) == []
    assert capfd.readouterr() == ("", "")  # LLVM was asked nothing that it cannot do


def test_random_programs_hold_every_kind_of_loop(campaign):
    programs = [{loop.kind for loop in loops_of(campaign.random_program(seed))} for seed in range(200)]
    assert all(sum(kind in kinds for kinds in programs) > 30 for kind in LoopKind)


def values(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of a type, its ends among them."""
    kind = DTYPES[dtype]
    if kind.is_float:
        ends = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 100.25, -1e9, 3e9]
        return np.array([*ends, *rng.normal(0, 50, COUNT - len(ends))], kind.numpy)
    ends = [kind.least, kind.greatest, 0, 1, 2, 3, 7]
    return np.array(
        [*ends, *rng.integers(kind.least, kind.greatest, COUNT - len(ends), endpoint=True)]
    ).astype(kind.numpy)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "expr",
    [
        "{0}[i] + {0}[j] * {0}[i]",
        "min({0}[i], {0}[j])",
        "max({0}[i], {0}[j])",
        "{0}[i] / {1}(3.0)",
        "select({0}[i] < {0}[j], {0}[i], {1}(0.5))",
        "{1}(int32({0}[i]))",
        "{1}(int8({0}[j]) + int8(1))",
    ],
)
def test_floats_round_as_the_interpreter_does(dtype, expr):
    text = (
        f"def f(X: {dtype}[{COUNT}], Y: {dtype}[{COUNT}, {COUNT}]):\n    for i in range({COUNT}):\n    "
        f"    for j in range({COUNT}):\n"
    )
    func = parse_func(text + f"            Y[i, j] = {expr.format('X', dtype)}\n")
    assert (
        unlike(func, {"X": values(dtype, np.random.default_rng(1)), "Y": np.zeros((COUNT, COUNT), dtype)})
        == []
    )


def unlike(func: Func, arrays: dict[str, np.ndarray], threads: int = 2) -> list[str]:
    """Return the arrays that native code and the interpreter leave different, by name."""
    one, other = ({name: array.copy() for name, array in arrays.items()} for _ in range(2))
    interpret(func, one)
    compile_host(func, threads)(other)
    return [name for name in arrays if not np.array_equal(other[name], one[name], equal_nan=True)]


def mark(schedule, rng):
    """Mark random loops."""
    for stage in schedule.stages:
        for loop in list(stage.leaves):
            try:
                rng.choice(
                    [
                        schedule[stage.tensor].parallel,
                        schedule[stage.tensor].vectorize,
                        schedule[stage.tensor].unroll,
                    ]
                )(loop)
            except ScheduleError:
                continue


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("build", [convolution, multiply, pooled])
def test_random_schedules_run_as_interpreted(build, seed):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    schedule = create_schedule(build())
    scramble(schedule, rng)
    mark(schedule, rng)
    func = schedule.lower()
    assert (
        unlike(
            func,
            {
                buffer.name: numbers.integers(-100, 100, buffer.shape).astype(DTYPES[buffer.dtype].numpy)
                for buffer in func.params
            },
        )
        == []
    )


# Parallel loops


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_parallel_loops_give_the_same_bits_on_any_number_of_threads(threads):
    numbers, func = np.random.default_rng(0), parse_func(ROWS)
    arrays = {buffer.name: numbers.normal(0, 1, buffer.shape).astype(np.float32) for buffer in func.params}
    for _ in range(5):
        assert unlike(func, arrays, threads) == []


@pytest.mark.parametrize(
    "body",
    [
        "for i in parallel(4):\n        for j in parallel(4):\n            M[i, j] = M[i, j] + i32",
        "for i in range(4):\n        for j in parallel(4):\n            M[j, i] = M[j, i] * int32(3) + i32",
        "for j in range(1):\n        M[0, 0] = i32\n    for i in parallel(4):\n        for j in "
        "range(4):\n            M[i, j] = M[i, j] - i32",
        "if M[0, 0] < i32:\n        T = alloc(int32[1])\n        M[0, 0] = T[0]\n"
        "    for i in parallel(4):\n        T = alloc(int32[2])\n        T[0] = i32\n        M[i, 0] = "
        "T[0] + T[1]",
        "for i_j in parallel(16):\n        M[i_j // 4, i_j % 4] = i32",
    ],
)
def test_parallel_loops_stand_anywhere(body):
    func = parse_func(f"def f(M: int32[4, 4]):\n    {body}\n".replace("i32", "int32(7)"))
    assert unlike(func, {"M": np.arange(16, dtype=np.int32).reshape(4, 4)}) == []


def test_iterations_are_shared_out_once_each(monkeypatch):
    run, ranges = compile_host(parse_func(ROWS), 5), []
    submit = run.crew.pool.submit
    monkeypatch.setattr(
        run.crew.pool,
        "submit",
        lambda body, first, end, *words: ranges.append((first, end)) or submit(body, first, end, *words),
    )
    run(
        {
            "A": np.ones((37, 20), np.float32),
            "B": np.ones((37, 20), np.float32),
            "C": np.zeros(37, np.float32),
        }
    )
    assert ranges == [(0, 8), (8, 16), (16, 24), (24, 32), (32, 37)]


def test_a_crew_that_cannot_work_is_an_error():
    run = compile_host(parse_func(ROWS), 2)
    run.crew.pool.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        run(
            {
                "A": np.ones((37, 20), np.float32),
                "B": np.ones((37, 20), np.float32),
                "C": np.zeros(37, np.float32),
            }
        )


@pytest.mark.parametrize("threads", [1, 2])
def test_parallel_loops_must_be_independent(threads):
    func = parse_func(
        "def f(A: int32[8], S: int32[1]):\n    for i in parallel(8):\n        S[0] = S[0] + A[i]\n"
    )
    with pytest.raises(IrError, match=r"^loop i cannot be parallel: its iterations may meet in S\[0\]$"):
        compile_host(func, threads)


# Marks

DOT = """\
def dot(A: int8[4, {n}], B: int8[4, {n}], C: int32[4]):
    for i in range(4):
        for k in {kind}({n}):
            C[i] = C[i] + int32(A[i, k]) * int32(B[i, k])
"""
SCALE = """\
def scale(A: float32[4, {n}], B: float32[4, {n}]):
    for i in range(4):
        for k in {kind}({n}):
            B[i, k] = max(A[i, k] * float32(2.0) + B[i, k], float32(0.0))
"""


@pytest.mark.parametrize("extent", [8, 16, 40, 1024])
@pytest.mark.parametrize(("text", "element"), [(DOT, "i32"), (SCALE, "float")])
def test_marked_loops_use_vectors_of_this_processor(text, element, extent):
    func = parse_func(text.format(kind="vectorized", n=extent))
    count = lanes(loops_of(func)[1], vector_bytes())
    assert count == min(
        vector_bytes() // 4, extent & -extent if extent < 16 else 1 << extent.bit_length() - 1
    )
    run = compile_host(func)
    assert f"<{count} x {element}>" in run.optimised
    assert "x ptr>" not in run.optimised  # no gathers: it is the marked loop that has become vectors
    if extent >= 1024 and "x86_64" in run.optimised:
        assert {16: "xmm", 32: "ymm", 64: "zmm"}[vector_bytes()] in run.assembly


def test_floats_are_not_added_up_in_another_order():
    func = parse_func(
        "def f(A: float32[64], S: float32[1]):\n    for k in vectorized(64):\n        S[0] = S[0] + A[k]\n"
    )
    assert (
        unlike(
            func,
            {
                "A": np.random.default_rng(0).normal(0, 1e6, 64).astype(np.float32),
                "S": np.zeros(1, np.float32),
            },
        )
        == []
    )
    assert not re.search(r"fadd <", compile_host(func).optimised)


def test_unrolled_loops_are_written_out():
    text = (
        "def f(A: int8[8, 90], S: int64[8]):\n    for i in range(8):\n        for k in {}(90):\n"
        "            S[i] = S[i] * int64(3) // int64(7) + int64(A[i, k])\n"
    )
    plain, unrolled = (
        compile_host(parse_func(text.format(kind))).optimised.count("mul ") for kind in ("range", "unrolled")
    )
    assert unrolled >= 90 > plain


def test_unrolling_too_much_is_left_to_llvm(capfd):
    loops = (
        "    for i in unrolled(400):\n        for j in unrolled(70):\n            B[i, j] = max(B[i, "
        "j] * float32(2.0), B[0, 0])\n"
    )
    compile_host(parse_func("def f(B: float32[400, 70]):\n" + loops))
    assert capfd.readouterr() == ("", "")


# What is refused


def test_wrong_arrays_are_refused():
    func = parse_func("def f(A: int8[4, 4]):\n    A[0, 0] = int8(1)\n")
    run = compile_host(func)
    with pytest.raises(IrError, match="f needs an array A; it was given none"):
        run({})
    with pytest.raises(IrError, match=r"f: A is int16\[4, 4\], not int8\[4, 4\]"):
        run({"A": np.zeros((4, 4), np.int16)})
    with pytest.raises(IrError, match="f: A is not contiguous"):
        run({"A": np.zeros((4, 4), np.int8).T.copy().T})


def test_arrays_that_are_written_stand_alone():
    run = compile_host(parse_func("def f(A: int8[4], B: int8[4], C: int8[4]):\n    C[0] = A[0] + B[0]\n"))
    one, other = np.ones(4, np.int8), np.ones(4, np.int8)
    run({"A": one, "B": one, "C": other})
    assert other[0] == 2
    with pytest.raises(IrError, match="f: A and C share memory, and one of them is written; pass a copy"):
        run({"A": one, "B": other, "C": one})
    other.flags.writeable = False
    with pytest.raises(IrError, match="f: C is written, but its array is read-only"):
        run({"A": one, "B": one, "C": other})


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (
            "A[0] // A[1]",
            r"^A\[0\] // A\[1\]: host code divides whole numbers by constants other than 0 only$",
        ),
        ("A[0] % (A[1] + int32(1))", r"^A\[0\] % \(A\[1\] \+ int32\(1\)\): host code divides"),
        ("A[0] % int32(0)", r"^A\[0\] % int32\(0\) divides by 0$"),
        ("A[0] // int32(4294967296)", r"^A\[0\] // int32\(4294967296\) divides by 0$"),
    ],
)
def test_divisors_must_be_constants_other_than_0(expr, message):
    with pytest.raises(IrError, match=message):
        compile_host(parse_func(f"def f(A: int32[2]):\n    A[0] = {expr}\n"))
