"""Scalar operations of loop programs as LLVM instructions, with exactly the interpreter's results."""

from llvmlite import ir

from vdla.compiler.ir.nodes import Binary, Const, IrError
from vdla.compiler.ir.text import print_expr
from vdla.compiler.ir.types import DTYPES, wrap

I64 = ir.IntType(64)
TYPES = {
    "bool": ir.IntType(1),
    "int8": ir.IntType(8),
    "int16": ir.IntType(16),
    "int32": ir.IntType(32),
    "int64": I64,
    "uint8": ir.IntType(8),
    "index": I64,
    "float32": ir.FloatType(),
    "float64": ir.DoubleType(),
}
UNSIGNED = ("uint8", "bool")


def constant(value: int | float | bool, dtype: str) -> ir.Constant:
    """Return a number as its type holds it."""
    held = wrap(value, dtype)
    return ir.Constant(TYPES[dtype], held if DTYPES[dtype].is_float else int(held))


def operate(b: ir.IRBuilder, expr: Binary, left: ir.Value, right: ir.Value) -> ir.Value:
    """Emit `left op right`.

    Raises:
        IrError: a division whose divisor is no constant other than 0.
    """
    dtype, op = expr.left.dtype, expr.op
    if op in ("and", "or"):
        return b.and_(left, right) if op == "and" else b.or_(left, right)
    if op in ("<", "<=", "=="):
        return _compare(b, op, dtype, left, right)
    if op in ("min", "max"):
        return b.select(
            _compare(b, "<", dtype, *((right, left) if op == "min" else (left, right))), right, left
        )
    if DTYPES[dtype].is_float:
        return {"+": b.fadd, "-": b.fsub, "*": b.fmul, "/": b.fdiv}[op](left, right)
    if op in ("//", "%"):
        return _divide(b, expr, left, right)
    if op in (">>", "<<"):
        return _shift(b, expr, left, right)
    return {"+": b.add, "-": b.sub, "*": b.mul}[op](left, right)


def _compare(b: ir.IRBuilder, op: str, dtype: str, left: ir.Value, right: ir.Value) -> ir.Value:
    if DTYPES[dtype].is_float:
        return b.fcmp_ordered(op, left, right)
    return (b.icmp_unsigned if dtype in UNSIGNED else b.icmp_signed)(op, left, right)


def _divide(b: ir.IRBuilder, expr: Binary, left: ir.Value, right: ir.Value) -> ir.Value:
    """Round down, also where the signs differ."""
    divisor = wrap(expr.right.value, expr.right.dtype) if isinstance(expr.right, Const) else 0
    if not divisor:
        raise IrError(f"{print_expr(expr)}: host code divides whole numbers by constants other than 0 only")
    if expr.left.dtype in UNSIGNED:
        return b.udiv(left, right) if expr.op == "//" else b.urem(left, right)
    zero = ir.Constant(left.type, 0)
    if divisor == -1:
        return b.neg(left) if expr.op == "//" else zero
    if divisor > 0 and divisor.bit_count() == 1:
        return (
            b.ashr(left, left.type(divisor.bit_length() - 1))
            if expr.op == "//"
            else b.and_(left, left.type(divisor - 1))
        )
    quotient, remainder = b.sdiv(left, right), b.srem(left, right)
    differs = b.and_(b.icmp_signed("!=", remainder, zero), b.icmp_signed("<", b.xor(remainder, right), zero))
    if expr.op == "//":
        return b.sub(quotient, b.select(differs, ir.Constant(left.type, 1), zero))
    return b.add(remainder, b.select(differs, right, zero))


def _shift(b: ir.IRBuilder, expr: Binary, left: ir.Value, places: ir.Value) -> ir.Value:
    """Shift the other way where `places` is negative."""
    unsigned = expr.left.dtype in UNSIGNED
    one, other = (_shift_left, _shift_right) if expr.op == "<<" else (_shift_right, _shift_left)
    if unsigned:
        return one(b, left, places, unsigned)
    negative = b.icmp_signed("<", places, places.type(0))
    return b.select(negative, other(b, left, b.neg(places), unsigned), one(b, left, places, unsigned))


def _shift_left(b: ir.IRBuilder, value: ir.Value, places: ir.Value, unsigned: bool) -> ir.Value:
    """Shift by a number of places without a sign."""
    within = b.icmp_unsigned("<", places, places.type(places.type.width))
    return b.select(within, b.shl(value, b.select(within, places, places.type(0))), value.type(0))


def _shift_right(b: ir.IRBuilder, value: ir.Value, places: ir.Value, unsigned: bool) -> ir.Value:
    """Shift by a number of places without a sign; the sign fills what becomes free."""
    last = places.type(places.type.width - 1)
    within = b.icmp_unsigned("<=", places, last)
    if not unsigned:
        return b.ashr(value, b.select(within, places, last))
    return b.select(within, b.lshr(value, b.select(within, places, places.type(0))), value.type(0))


def convert(b: ir.IRBuilder, value: ir.Value, source: str, target: str) -> ir.Value:
    """Emit a cast: whole numbers wrap, floats become the nearest of 64 bits, halves to even."""
    one, other = DTYPES[source], DTYPES[target]
    kind = TYPES[target]
    if target == "bool":
        zero = constant(0, source)
        return b.fcmp_unordered("!=", value, zero) if one.is_float else b.icmp_signed("!=", value, zero)
    if one.is_float and other.is_float:
        return (
            value
            if value.type == kind
            else b.fptrunc(value, kind)
            if target == "float32"
            else b.fpext(value, kind)
        )
    if one.is_float:
        rounded = b.call(b.module.declare_intrinsic("llvm.rint", [value.type]), [value])
        nearest = b.module.declare_intrinsic(
            "llvm.fptosi.sat", [I64, value.type], ir.FunctionType(I64, [value.type])
        )
        return _resized(b, b.call(nearest, [rounded]), "int64", kind)
    if other.is_float:
        return (b.uitofp if source in UNSIGNED else b.sitofp)(value, kind)
    return _resized(b, value, source, kind)


def _resized(b: ir.IRBuilder, value: ir.Value, source: str, kind: ir.IntType) -> ir.Value:
    if value.type.width == kind.width:
        return value
    if value.type.width > kind.width:
        return b.trunc(value, kind)
    return (b.zext if source in UNSIGNED else b.sext)(value, kind)
