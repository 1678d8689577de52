#!/usr/bin/env python3
"""Hold native host code against the interpreter: random loop programs over all types, with conditions,
gathers, and loops of every kind.

Each program runs on one to three threads; every element of every buffer must be the interpreter's, signs of
zeros included. Exit status 1 on any difference.
"""

import random
import sys
from dataclasses import dataclass, field
from math import prod

import click
import numpy as np

from vdla.compiler.codegen.host.build import compile_host
from vdla.compiler.ir.affine import Interval
from vdla.compiler.ir.dependence import conflict
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Func,
    If,
    LoopKind,
    Read,
    Select,
    Stmt,
    Var,
    Write,
    both,
)
from vdla.compiler.ir.rewrite import loops_of
from vdla.compiler.ir.text import print_func
from vdla.compiler.ir.types import DTYPES, wrap

INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
TYPES = (*INTEGERS, "float32")
EXTENTS = (1, 2, 3, 7, 16, 33)
LARGEST = 130  # elements of a buffer, and iterations of a nest
FLOATS = (0.0, -0.0, 0.5, -1.5, 2.5, 3e9, -1e30, float("inf"), float("nan"), 1e-40)


@dataclass
class Writer:
    """Writes one program; `buffers` and `extents` of loop variables are what is in sight."""

    rng: random.Random
    buffers: list[Buffer] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)
    names: int = 0

    def program(self) -> Func:
        """Return a program."""
        self.buffers = [self.buffer() for _ in range(self.rng.randint(3, 6))]
        params = tuple(self.buffers)
        return Func("f", params, Block(tuple(self.nest() for _ in range(self.rng.randint(1, 2)))))

    def buffer(self) -> Buffer:
        """Return a buffer of few elements."""
        shape = [self.rng.choice(EXTENTS) for _ in range(self.rng.randint(1, 3))]
        while prod(shape) > LARGEST:
            shape.pop()
        return Buffer(self.name("B"), tuple(shape), self.rng.choice(TYPES))

    def name(self, letter: str) -> str:
        """Return a name that nothing has yet."""
        self.names += 1
        return f"{letter}{self.names}"

    # Statements

    def nest(self) -> Stmt:
        """Return a loop, of any kind that it may have; half of the loops run over a dimension of a buffer."""
        extent = self.rng.choice((*EXTENTS, *self.rng.choice(self.buffers).shape))
        if prod(self.extents.values()) * extent > LARGEST:
            return self.write()
        var = Var(self.name("i"))
        ranges = {name: Interval(0, other - 1) for name, other in self.extents.items()}
        self.extents[var.name] = extent
        body = self.body()
        del self.extents[var.name]
        loop = For(
            var,
            extent,
            body,
            self.rng.choice((LoopKind.SERIAL, LoopKind.VECTORIZED, LoopKind.UNROLLED, LoopKind.VTHREAD)),
        )
        independent = For(var, extent, body, LoopKind.PARALLEL)
        return loop if conflict(loop, ranges) else independent

    def body(self) -> Stmt:
        """Return what stands in a loop, with a buffer of its own now and then."""
        if self.rng.random() < 0.2:
            return self.allocated()
        return Block(tuple(self.statement() for _ in range(self.rng.randint(1, 2))))

    def allocated(self) -> Stmt:
        """Return statements with a buffer of their own."""
        buffer = self.buffer()
        self.buffers.append(buffer)
        stmt = Alloc(buffer, Block((self.write(buffer), self.statement())))
        self.buffers.remove(buffer)
        return stmt

    def statement(self) -> Stmt:
        """Return a nest, a condition or a write."""
        choice = self.rng.random()
        if choice < 0.5:
            return self.nest()
        return If(self.condition(2), self.statement()) if choice < 0.6 else self.write()

    def write(self, buffer: Buffer | None = None) -> Stmt:
        """Return a write to a buffer, or an update of what stands there."""
        buffer = buffer or self.rng.choice(self.buffers)
        place, value = self.place(buffer), self.value(buffer.dtype, self.rng.randint(1, 3))
        if self.rng.random() < 0.3:
            value = Binary(self.rng.choice(("+", "max", "*")), Read(buffer, place), value)
        return Write(buffer, place, value)

    # Expressions

    def place(self, buffer: Buffer) -> tuple[Expr, ...]:
        """Return subscripts of an element."""
        return tuple(self.index(extent) for extent in buffer.shape)

    def index(self, extent: int) -> Expr:
        """Return a subscript from 0 to `extent` - 1: a variable if one fits, or anything, divided."""
        fitting = [Var(name) for name, other in self.extents.items() if other <= extent]
        match self.rng.randrange(6):
            case 0 | 1 | 2 if fitting:
                return self.rng.choice(fitting)
            case 3 if fitting:
                var = self.rng.choice(fitting)
                return Const(self.extents[var.name] - 1) - var
            case 4 if self.rng.random() < 0.3:
                return Binary("%", Cast("index", self.read(self.rng.choice(INTEGERS))), Const(extent))
        return Binary("%", self.any_index(2), Const(extent))

    def any_index(self, depth: int) -> Expr:
        """Return an index of any value."""
        if depth == 0 or not self.extents:
            return self.rng.choice([*map(Var, self.extents), Const(self.rng.randint(-4, 9))])
        op, left = self.rng.choice(("+", "-", "*", "//", "%")), self.any_index(depth - 1)
        return Binary(
            op, left, self.any_index(depth - 1) if op in ("+", "-") else Const(self.rng.choice((-3, 2, 3, 8)))
        )

    def read(self, dtype: str) -> Expr:
        """Return an element as a type; one that a condition keeps in range, now and then."""
        buffer = self.rng.choice(self.buffers)
        place = self.place(buffer)
        result: Expr = Read(buffer, place)
        if self.rng.random() < 0.15:
            index = self.any_index(2)
            inside = both(Const(0) <= index, index < buffer.shape[0])
            result = Select(inside, Read(buffer, (index, *place[1:])), self.number(buffer.dtype))
        return result if buffer.dtype == dtype else Cast(dtype, result)

    def number(self, dtype: str) -> Const:
        """Return a constant, which may need to wrap."""
        if DTYPES[dtype].is_float:
            return Const(self.rng.choice((*FLOATS, self.rng.gauss(0, 9))), dtype)
        return Const(self.rng.choice((0, 1, -1, 2, 7, 100, 300, DTYPES[dtype].least)), dtype)

    def value(self, dtype: str, depth: int) -> Expr:
        """Return an expression of a type, of at most `depth` operations on top of each other."""
        if depth == 0:
            return self.read(dtype) if self.rng.random() < 0.7 else self.number(dtype)
        match self.rng.randrange(8):
            case 0:
                return Select(
                    self.condition(depth - 1), self.value(dtype, depth - 1), self.value(dtype, depth - 1)
                )
            case 1:
                return self.cast(dtype, depth - 1)
            case 2 if dtype in INTEGERS:
                return Binary(self.rng.choice(("//", "%")), self.value(dtype, depth - 1), self.divisor(dtype))
            case 3 if dtype in INTEGERS:
                return Binary(self.rng.choice((">>", "<<")), self.value(dtype, depth - 1), self.places(dtype))
            case 2 | 3:
                return Binary("/", self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        return Binary(
            self.rng.choice(("+", "-", "*", "min", "max")),
            self.value(dtype, depth - 1),
            self.value(dtype, depth - 1),
        )

    def cast(self, dtype: str, depth: int) -> Expr:
        """Return a value of another type, cast."""
        source = self.rng.choice((*(other for other in TYPES if other != dtype), "bool", "index"))
        if source == "bool":
            return Cast(dtype, self.condition(depth))
        return Cast(dtype, self.any_index(2) if source == "index" else self.value(source, depth))

    def divisor(self, dtype: str) -> Const:
        """Return a divisor that is not 0."""
        choices = (1, -1, 2, 3, -3, 7, 16, 127, 300, DTYPES[dtype].least, DTYPES[dtype].greatest)
        return Const(self.rng.choice([number for number in choices if wrap(number, dtype)]), dtype)

    def places(self, dtype: str) -> Expr:
        """Return how far to shift, either way."""
        return (
            self.value(dtype, 0)
            if self.rng.random() < 0.3
            else Const(self.rng.choice((0, 1, 3, 7, -2, 40, 63, -70)), dtype)
        )

    def condition(self, depth: int) -> Expr:
        """Return a truth value."""
        if depth and self.rng.random() < 0.3:
            return Binary(
                self.rng.choice(("and", "or")), self.condition(depth - 1), self.condition(depth - 1)
            )
        op, dtype = self.rng.choice(("<", "<=", "==")), self.rng.choice((*TYPES, "index"))
        one, other = (
            self.any_index(2) if dtype == "index" else self.value(dtype, max(depth - 1, 0)) for _ in range(2)
        )
        return Binary(op, one, other)


def random_program(seed: int) -> Func:
    """Return a program, the same for the same seed."""
    return Writer(random.Random(seed)).program()


def random_array(buffer: Buffer, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of a buffer's type, its ends and other corners among them."""
    kind = DTYPES[buffer.dtype]
    if kind.is_float:
        corners, values = np.array(FLOATS), rng.normal(0, 50, buffer.shape)
    else:
        corners = np.array([kind.least, kind.greatest, 0, 1], kind.numpy)
        values = rng.integers(kind.least, kind.greatest, buffer.shape, kind.numpy, endpoint=True)
    return np.where(rng.random(buffer.shape) < 0.2, rng.choice(corners, buffer.shape), values).astype(
        kind.numpy
    )


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays hold the same numbers; every NaN is the same."""
    if not np.issubdtype(one.dtype, np.floating):
        return np.array_equal(one, other)
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(
        np.signbit(one) & ~np.isnan(one), np.signbit(other) & ~np.isnan(other)
    )


def differences(func: Func, seed: int) -> list[str]:
    """Return the buffers in which native code leaves other values than the interpreter."""
    rng = np.random.default_rng(seed)
    expected = {buffer.name: random_array(buffer, rng) for buffer in func.params}
    found = {name: array.copy() for name, array in expected.items()}
    interpret(func, expected)
    compile_host(func, threads=1 + seed % 3)(found)
    return [name for name in expected if not same(expected[name], found[name])]


@click.command(help=__doc__)
@click.option("--cases", default=3000, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(cases: int, seed: int) -> None:
    wrong = shared = 0
    with click.progressbar(
        range(seed, seed + cases), file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as seeds:
        for number in seeds:
            func = random_program(number)
            shared += any(loop.kind is LoopKind.PARALLEL for loop in loops_of(func))
            names = differences(func, number)
            wrong += bool(names)
            if names:
                click.echo(f"seed {number}: {', '.join(names)} differ\n{print_func(func)}")
    click.echo(f"{cases} loop programs, {shared} with parallel loops: {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
