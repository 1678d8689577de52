"""Loop programs as LLVM functions: one pointer for each parameter, which do not overlap."""

from math import prod

from llvmlite import ir

from vdla.compiler.codegen.host.arithmetic import I64, TYPES, constant, convert, operate
from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Func,
    If,
    Read,
    Select,
    Stmt,
    Var,
    Write,
)
from vdla.compiler.ir.rewrite import has_reads
from vdla.compiler.ir.types import DTYPES

I8 = ir.IntType(8)
NAME = "run"


def emit_module(func: Func) -> ir.Module:
    """Return a module with the function NAME(parameters...)."""
    module = ir.Module(name=func.name)
    kind = ir.FunctionType(ir.VoidType(), [_memory_type(buffer.dtype).as_pointer() for buffer in func.params])
    function = ir.Function(module, kind, NAME)
    for argument in function.args:
        argument.add_attribute("noalias")
    emitter = _Emitter(ir.IRBuilder(function.append_basic_block()), dict(zip((buffer.name for buffer in func.params), function.args, strict=True)))
    emitter.statement(func.body)
    emitter.builder.ret_void()
    return module


def _memory_type(dtype: str) -> ir.Type:
    """Return the type of an element in memory: NumPy keeps truth values in bytes."""
    return I8 if dtype == "bool" else TYPES[dtype]


class _Emitter:
    """What is in sight: pointers of buffers and values of loop variables."""

    def __init__(self, builder: ir.IRBuilder, pointers: dict[str, ir.Value]) -> None:
        self.builder, self.pointers = builder, pointers
        self.values: dict[str, ir.Value] = {}

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Block(statements):
                for part in statements:
                    self.statement(part)
            case For(var, extent, body):
                self.loop(var.name, extent, body)
            case If(condition, body):
                with self.builder.if_then(self.expr(condition)):
                    self.statement(body)
            case Alloc(buffer, body):
                self.allocated(buffer, body)
            case Call(_, _, meaning):
                self.statement(meaning)
            case Write(buffer, indices, value):
                result = self.expr(value)
                self.builder.store(self.builder.zext(result, I8) if buffer.dtype == "bool" else result, self.place(buffer, indices))

    def loop(self, name: str, extent: int, body: Stmt) -> None:
        b, before = self.builder, self.builder.block
        head, after = b.append_basic_block(f"{name}_loop"), b.append_basic_block(f"{name}_end")
        b.branch(head)
        b.position_at_end(head)
        counter = b.phi(I64, name)
        counter.add_incoming(ir.Constant(I64, 0), before)
        self.values[name] = counter
        self.statement(body)
        following = b.add(counter, ir.Constant(I64, 1), flags=("nsw", "nuw"))
        counter.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, ir.Constant(I64, extent)), head, after)
        b.position_at_end(after)

    def allocated(self, buffer: Buffer, body: Stmt) -> None:
        """Give a buffer memory of its own, zeroed, for as long as its statement lasts."""
        b, kind = self.builder, _memory_type(buffer.dtype)
        size = prod(buffer.shape) * DTYPES[buffer.dtype].numpy(0).itemsize
        memory = b.call(self.library("calloc", I8.as_pointer(), [I64, I64]), [ir.Constant(I64, size), ir.Constant(I64, 1)])
        self.pointers[buffer.name] = b.bitcast(memory, kind.as_pointer())
        self.statement(body)
        b.call(self.library("free", ir.VoidType(), [I8.as_pointer()]), [memory])

    def library(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        module = self.builder.module
        return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)

    def place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> ir.Value:
        """Return the address of an element."""
        offset: ir.Value = ir.Constant(I64, 0)
        for axis, index in enumerate(indices):
            step = self.builder.mul(self.expr(index), ir.Constant(I64, prod(buffer.shape[axis + 1:])), flags=("nsw",))
            offset = self.builder.add(offset, step, flags=("nsw",))
        return self.builder.gep(self.pointers[buffer.name], [offset], inbounds=True)

    def expr(self, expr: Expr) -> ir.Value:
        match expr:
            case Const(value, dtype):
                return constant(value, dtype)
            case Var(name):
                return self.values[name]
            case Read(buffer, indices):
                loaded = self.builder.load(self.place(buffer, indices))
                return self.builder.trunc(loaded, TYPES["bool"]) if buffer.dtype == "bool" else loaded
            case Cast(dtype, value):
                return convert(self.builder, self.expr(value), value.dtype, dtype)
            case Select(condition, then, otherwise):
                return self.chosen(condition, then, otherwise)
            case Binary(_, left, right):
                return operate(self.builder, expr, self.expr(left), self.expr(right))
        raise AssertionError(expr)

    def chosen(self, condition: Expr, then: Expr, otherwise: Expr) -> ir.Value:
        """Evaluate one side only, where either reads memory that may not be there."""
        b, test = self.builder, self.expr(condition)
        if not has_reads(then) and not has_reads(otherwise):
            return b.select(test, self.expr(then), self.expr(otherwise))
        with b.if_else(test) as (if_true, if_false):
            with if_true:
                one = self.expr(then)
                one_block = b.block
            with if_false:
                other = self.expr(otherwise)
                other_block = b.block
        result = b.phi(one.type)
        result.add_incoming(one, one_block)
        result.add_incoming(other, other_block)
        return result
