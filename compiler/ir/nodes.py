"""The nodes of loop programs: expressions, statements and functions. All are frozen. `calls` has the calls of
intrinsics."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from vdla.compiler.ir.types import DTYPES, INDEX, wrap
from vdla.hw.spec.errors import VdlaError


class IrError(VdlaError):
    """A loop program, or a requested change of it, is ill-formed."""


class Scope(StrEnum):
    """The memory of a buffer: DRAM or an on-chip memory. PARAMETERS are the first accumulators."""

    DRAM = "dram"
    INPUT = "input"
    WEIGHT = "weight"
    ACCUMULATOR = "accumulator"
    PARAMETERS = "parameters"


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array that programs read and write.

    Attributes:
        name: unique in the program.
        shape: extents, at least 1 each.
        dtype: type of an element.
        scope: memory that holds the array.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: Scope = Scope.DRAM

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise IrError(f"buffer {self.name}: type {self.dtype!r} is none of {', '.join(DTYPES)}")
        for extent in self.shape:
            if not isinstance(extent, int) or extent < 1:
                raise IrError(f"buffer {self.name}: extent {extent!r} is not a positive whole number")

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


Operand: TypeAlias = "Expr | int | float"


class Expr:
    """An expression; Python's operators build larger expressions."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields called `dtype` would take a property of this class for their default

        @property
        def dtype(self) -> str:
            """Type of the value."""

    def below(self) -> "tuple[Expr, ...]":
        """Return the nodes directly below."""
        return ()

    def rebuilt(self, below: tuple[Any, ...]) -> "Expr":
        """Return a copy of the node with the children `below`."""
        return self

    def __add__(self, other: Operand) -> "Expr":
        return binary("+", self, other)

    def __radd__(self, other: Operand) -> "Expr":
        return binary("+", other, self)

    def __sub__(self, other: Operand) -> "Expr":
        return binary("-", self, other)

    def __rsub__(self, other: Operand) -> "Expr":
        return binary("-", other, self)

    def __mul__(self, other: Operand) -> "Expr":
        return binary("*", self, other)

    def __rmul__(self, other: Operand) -> "Expr":
        return binary("*", other, self)

    def __floordiv__(self, other: Operand) -> "Expr":
        return binary("//", self, other)

    def __mod__(self, other: Operand) -> "Expr":
        return binary("%", self, other)

    def __rshift__(self, other: Operand) -> "Expr":
        return binary(">>", self, other)

    def __lshift__(self, other: Operand) -> "Expr":
        return binary("<<", self, other)

    def __truediv__(self, other: Operand) -> "Expr":
        return binary("/", self, other)

    def __neg__(self) -> "Expr":
        return binary("-", Const(0, self.dtype), self)

    def __lt__(self, other: Operand) -> "Expr":
        return binary("<", self, other)

    def __le__(self, other: Operand) -> "Expr":
        return binary("<=", self, other)

    def __gt__(self, other: Operand) -> "Expr":
        return binary("<", other, self)

    def __ge__(self, other: Operand) -> "Expr":
        return binary("<=", other, self)

    def equal(self, other: Operand) -> "Expr":
        """Return the comparison as an expression; `==` compares the nodes as objects."""
        return binary("==", self, other)

    def __bool__(self) -> bool:
        raise IrError(
            f"the truth of {type(self).__name__} is known only when the program runs; use select or all_of"
        )


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A number."""

    value: int | float | bool
    dtype: str = INDEX


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A variable: of a loop, or with the value that a `Let` gives it."""

    name: str
    dtype: str = INDEX


ARITHMETIC = ("+", "-", "*", "//", "%", "/", ">>", "<<", "min", "max")
COMPARISONS = ("<", "<=", "==")
LOGICAL = ("and", "or")
TRUTHS = frozenset(COMPARISONS + LOGICAL)  # operators whose result is a truth value


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """`left op right`, of operands of equal type. `min` and `max` are written as calls.

    `//` and `%` round down and are for integers; division by 0 is an error. `/` is for floats; division by 0
    is infinite or NaN.
    """

    op: str
    left: Expr
    right: Expr

    @property
    def dtype(self) -> str:
        """Type of the result."""
        return "bool" if self.op in TRUTHS else self.left.dtype

    def below(self) -> tuple[Expr, ...]:
        return self.left, self.right

    def rebuilt(self, below: tuple[Any, ...]) -> "Binary":
        return Binary(self.op, *below)


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """`then` if `condition` holds, else `otherwise`; only the selected expression is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def dtype(self) -> str:
        """Type of the result."""
        return self.then.dtype

    def below(self) -> tuple[Expr, ...]:
        return self.condition, self.then, self.otherwise

    def rebuilt(self, below: tuple[Any, ...]) -> "Select":
        return Select(*below)


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """`value` converted to another type. Integers wrap. Floats round to the nearest 64-bit integer, halves to
    even, and saturate; NaN becomes 0."""

    dtype: str
    value: Expr

    def below(self) -> tuple[Expr, ...]:
        return (self.value,)

    def rebuilt(self, below: tuple[Any, ...]) -> "Cast":
        return Cast(self.dtype, *below)


@dataclass(frozen=True, slots=True)
class Read(Expr):
    """An element of a buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:
        """Type of the element."""
        return self.buffer.dtype

    def below(self) -> tuple[Expr, ...]:
        return self.indices

    def rebuilt(self, below: tuple[Any, ...]) -> "Read":
        return Read(self.buffer, below)


class LoopKind(StrEnum):
    """Execution of a loop: in order, or as interleaved virtual threads.

    Both kinds have the semantics of a serial loop.
    """

    SERIAL = "range"
    VTHREAD = "vthread"


class Stmt:
    """A statement."""

    __slots__ = ()

    def below(self) -> "tuple[Expr | Stmt, ...]":
        """Return the child nodes, without the variable or the buffer that the statement declares."""
        raise NotImplementedError(type(self).__name__)

    def rebuilt(self, below: tuple[Any, ...]) -> "Stmt":
        """Return a copy of the statement with the children `below`."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """`body` for every value of `var` from 0 to `extent` - 1."""

    var: Var
    extent: int
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL

    def below(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def rebuilt(self, below: tuple[Any, ...]) -> "For":
        return For(self.var, self.extent, below[0], self.kind)


@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """`body` with the index `value` as a variable."""

    var: Var
    value: Expr
    body: Stmt

    def below(self) -> tuple[Expr | Stmt, ...]:
        return self.value, self.body

    def rebuilt(self, below: tuple[Any, ...]) -> "Let":
        return Let(self.var, *below)


@dataclass(frozen=True, slots=True)
class Write(Stmt):
    """`buffer[indices] = value`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr

    def below(self) -> tuple[Expr, ...]:
        return *self.indices, self.value

    def rebuilt(self, below: tuple[Any, ...]) -> "Write":
        return Write(self.buffer, below[:-1], below[-1])


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """`body` if `condition` holds."""

    condition: Expr
    body: Stmt

    def below(self) -> tuple[Expr | Stmt, ...]:
        return self.condition, self.body

    def rebuilt(self, below: tuple[Any, ...]) -> "If":
        return If(*below)


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """Statements in order."""

    statements: tuple[Stmt, ...]

    def below(self) -> tuple[Stmt, ...]:
        return self.statements

    def rebuilt(self, below: tuple[Any, ...]) -> "Block":
        return Block(below)


@dataclass(frozen=True, slots=True)
class Alloc(Stmt):
    """`body` with a local buffer, whose elements are undefined until written."""

    buffer: Buffer
    body: Stmt

    def below(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def rebuilt(self, below: tuple[Any, ...]) -> "Alloc":
        return Alloc(self.buffer, below[0])


@dataclass(frozen=True, slots=True)
class Func:
    """A program: `params` are its buffers in DRAM."""

    name: str
    params: tuple[Buffer, ...]
    body: Stmt

    def __hash__(self) -> int:
        return hash((self.name, self.params))  # hashing the body takes long


def as_expr(value: object, dtype: str = INDEX) -> Expr:
    """Return `value` as an expression; a Python number becomes a constant of type `dtype`.

    Raises:
        IrError: the value is neither an expression nor a number.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, int, float)):
        return Const(value, dtype)
    raise IrError(f"{value!r} is not an expression")


def binary(op: str, left: object, right: object) -> Expr:
    """Return `left op right`; a Python number takes the type of the other side.

    Raises:
        IrError: the types differ.
    """
    if isinstance(left, Expr):
        right = as_expr(right, left.dtype)
    else:
        right = as_expr(right)
        left = as_expr(left, right.dtype)
    if left.dtype != right.dtype:
        raise IrError(f"{op} has operands of types {left.dtype} and {right.dtype}; cast one of them")
    return Binary(op, left, right)


def select(condition: Expr, then: object, otherwise: object) -> Expr:
    """Return `then` if `condition` holds, else `otherwise`; both must have the same type.

    Raises:
        IrError: the condition is not of type bool, or the types differ.
    """
    if condition.dtype != "bool":
        raise IrError(f"select has a condition of type {condition.dtype}, not bool")
    then = as_expr(then, otherwise.dtype if isinstance(otherwise, Expr) else INDEX)
    otherwise = as_expr(otherwise, then.dtype)
    if then.dtype != otherwise.dtype:
        raise IrError(f"select has values of types {then.dtype} and {otherwise.dtype}; cast one of them")
    return Select(condition, then, otherwise)


def cast(dtype: str, value: Expr) -> Expr:
    """Return `value` converted to `dtype`.

    Raises:
        IrError: `dtype` is unknown.
    """
    if dtype not in DTYPES:
        raise IrError(f"type {dtype!r} is none of {', '.join(DTYPES)}")
    if isinstance(value, Const):
        return Const(wrap(value.value, dtype), dtype)
    return value if value.dtype == dtype else Cast(dtype, value)


def minimum(left: object, right: object) -> Expr:
    """Return the lesser of two values."""
    return binary("min", left, right)


def maximum(left: object, right: object) -> Expr:
    """Return the greater of two values."""
    return binary("max", left, right)


def all_of(*conditions: Expr) -> Expr:
    """Return the conjunction of the conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = Binary("and", result, condition)
    return result


def block(*statements: Stmt) -> Stmt:
    """Return the statements as a single statement, with nested blocks flattened."""
    flat: list[Stmt] = []
    for statement in statements:
        flat.extend(statement.statements if isinstance(statement, Block) else [statement])
    return flat[0] if len(flat) == 1 else Block(tuple(flat))
