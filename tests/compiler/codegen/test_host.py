"""Native code gives the interpreter's results, value by value and program by program."""

import random

import numpy as np
import pytest

from tests.compiler.te.test_schedule import convolution, multiply, pooled, scramble
from vdla.compiler.codegen.host.build import compile_host
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.nodes import Binary, Block, Buffer, Cast, Const, Expr, For, Func, IrError, Read, Select, Var, Write
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.types import DTYPES
from vdla.compiler.te.schedule import create_schedule

INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
COUNT = 24


def values(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of a type, its ends among them."""
    kind = DTYPES[dtype]
    if kind.is_float:
        ends = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 100.25, -1e9, 3e9]
        return np.array([*ends, *rng.normal(0, 50, COUNT - len(ends))], kind.numpy)
    ends = [kind.least, kind.greatest, 0, 1, 2, 3, 7]
    return np.array([*ends, *rng.integers(kind.least, kind.greatest, COUNT - len(ends), endpoint=True)]).astype(kind.numpy)


def random_expr(rng: random.Random, dtype: str, buffers: dict[str, Buffer], depth: int) -> Expr:
    """Return a random expression of a type over one element of each buffer."""
    if depth == 0 or rng.random() < 0.15:
        return Read(buffers[dtype], (Var("i"),)) if rng.random() < 0.7 else Const(2.5 if DTYPES[dtype].is_float else rng.choice((1, 2, 3, 5)), dtype)
    match rng.randrange(6):
        case 0:
            source = rng.choice([name for name in buffers if not (DTYPES[name].is_float and dtype == "uint8")])
            inner = random_expr(rng, source, buffers, depth - 1)
            return Cast(dtype, inner) if source != dtype and not isinstance(inner, Const) else random_expr(rng, dtype, buffers, depth - 1)
        case 1:
            kind = rng.choice(list(buffers))
            one, other = (random_expr(rng, kind, buffers, depth - 1) for _ in range(2))
            condition = Binary(rng.choice(("<", "<=", "==")), one, other)
            return Select(condition, random_expr(rng, dtype, buffers, depth - 1), random_expr(rng, dtype, buffers, depth - 1))
        case 2 if dtype in INTEGERS:
            divisor = Const(rng.choice((1, 2, 3, 7) if dtype == "uint8" else (-1, 2, -3, 7)), dtype)
            return Binary(rng.choice(("//", "%")), random_expr(rng, dtype, buffers, depth - 1), divisor)
        case 3 if dtype in INTEGERS and dtype != "uint8":
            amount = Const(rng.choice((0, 1, 3, -2, 40, -40)), dtype)
            return Binary(rng.choice((">>", "<<")), random_expr(rng, dtype, buffers, depth - 1), amount)
    op = rng.choice(("+", "-", "*", "min", "max"))
    return Binary(op, random_expr(rng, dtype, buffers, depth - 1), random_expr(rng, dtype, buffers, depth - 1))


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions_have_the_interpreters_values(seed):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    dtypes = ("int8", "int32", "int64", "uint8", "int16")
    buffers = {dtype: Buffer(f"in_{dtype}", (COUNT,), dtype) for dtype in dtypes}
    outs = {dtype: Buffer(f"out_{dtype}", (COUNT,), dtype) for dtype in dtypes}
    writes = tuple(Write(outs[dtype], (Var("i"),), random_expr(rng, dtype, buffers, 4)) for dtype in dtypes)
    func = Func("f", (*buffers.values(), *outs.values()), For(Var("i"), COUNT, Block(writes)))
    compare(func, {buffer.name: values(buffer.dtype, numbers) for buffer in func.params})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("expr", ["{0}[i] + {0}[j] * {0}[i]", "min({0}[i], {0}[j])", "max({0}[i], {0}[j])", "{0}[i] / {1}(3.0)",
                                  "select({0}[i] < {0}[j], {0}[i], {1}(0.5))", "{1}(int32({0}[i]))", "{1}(int8({0}[j]) + int8(1))"])
def test_floats_round_as_the_interpreter_does(dtype, expr):
    text = f"def f(X: {dtype}[{COUNT}], Y: {dtype}[{COUNT}, {COUNT}]):\n    for i in range({COUNT}):\n        for j in range({COUNT}):\n"
    func = parse_func(text + f"            Y[i, j] = {expr.format('X', dtype)}\n")
    compare(func, {"X": values(dtype, np.random.default_rng(1)), "Y": np.zeros((COUNT, COUNT), dtype)})


def compare(func: Func, arrays: dict[str, np.ndarray]) -> None:
    one, other = ({name: array.copy() for name, array in arrays.items()} for _ in range(2))
    interpret(func, one)
    compile_host(func)(other)
    for name in arrays:
        np.testing.assert_array_equal(other[name], one[name])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("build", [convolution, multiply, pooled])
def test_random_schedules_run_as_interpreted(build, seed):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    schedule = create_schedule(build())
    scramble(schedule, rng)
    func = schedule.lower()
    compare(func, {buffer.name: numbers.integers(-100, 100, buffer.shape).astype(DTYPES[buffer.dtype].numpy) for buffer in func.params})


def test_inner_loops_become_vector_instructions():
    func = parse_func("def f(A: float32[1024], B: float32[1024]):\n    for i in range(1024):\n        B[i] = A[i] * float32(2.0) + B[i]\n")
    assert any(register in compile_host(func).assembly for register in ("ymm", "zmm", "xmm0, xmm", ".4s"))


def test_wrong_arrays_are_refused():
    func = parse_func("def f(A: int8[4, 4]):\n    A[0, 0] = int8(1)\n")
    run = compile_host(func)
    with pytest.raises(IrError, match="f needs an array A; it was given none"):
        run({})
    with pytest.raises(IrError, match=r"f: A is int16\[4, 4\], not int8\[4, 4\]"):
        run({"A": np.zeros((4, 4), np.int16)})
    with pytest.raises(IrError, match="f: A is not contiguous"):
        run({"A": np.zeros((4, 4), np.int8).T.copy().T})


def test_divisors_must_be_constant():
    func = parse_func("def f(A: int32[2]):\n    A[0] = A[0] // A[1]\n")
    with pytest.raises(IrError, match=r"A\[0\] // A\[1\]: host code divides whole numbers by constants other than 0 only"):
        compile_host(func)
