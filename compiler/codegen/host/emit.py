"""Loop programs as LLVM functions: one pointer for each parameter, which do not overlap."""

from dataclasses import dataclass, field
from math import prod

from llvmlite import ir

from vdla.compiler.codegen.host.arithmetic import I64, TYPES, constant, convert, operate
from vdla.compiler.codegen.host.hints import annotate, hints
from vdla.compiler.ir.affine import Interval
from vdla.compiler.ir.calls import expanded
from vdla.compiler.ir.dependence import conflict
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
    IrError,
    LoopKind,
    Read,
    Select,
    Stmt,
    Var,
    Write,
)
from vdla.compiler.ir.rewrite import has_reads, walk
from vdla.compiler.ir.types import DTYPES

I8 = ir.IntType(8)
NAME = "run"
LAUNCH = ir.FunctionType(ir.VoidType(), [I64, I64.as_pointer(), I64]).as_pointer()


@dataclass(frozen=True)
class Emitted:
    """A module under construction, with the function NAME(launch, parameters...).

    Attributes:
        bodies: of parallel loops, each `void name(first, end, words...)`: its name, and its number of words,
            which are what it uses from outside: addresses of buffers, then values of loop variables.
        vector_bytes: size of the processor's vectors.
    """

    module: ir.Module
    vector_bytes: int
    bodies: list[tuple[str, int]] = field(default_factory=list)


def emit_module(func: Func, threads: int, vector_bytes: int) -> Emitted:
    """Return the code of a program, which calls `launch(number, words, extent)` for a parallel loop, unless
    there is but one thread.

    Raises:
        IrError: a parallel loop's iterations are not proved independent, or a whole number is divided by what
            is no constant.
    """
    emitted = Emitted(ir.Module(name=func.name), vector_bytes)
    function = _function(
        emitted.module, NAME, [LAUNCH, *(_memory_type(buffer.dtype).as_pointer() for buffer in func.params)]
    )
    pointers = dict(zip((buffer.name for buffer in func.params), function.args[1:], strict=True))
    emitter = _Emitter(emitted, function, pointers, {}, {}, function.args[0] if threads > 1 else None)
    emitter.statement(expanded(func.body))
    emitter.builder.ret_void()
    return emitted


def _function(module: ir.Module, name: str, kinds: list[ir.Type]) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    for argument in function.args:
        if argument.type.is_pointer and argument.type != LAUNCH:
            argument.add_attribute("noalias")
    return function


def _memory_type(dtype: str) -> ir.Type:
    """Return the type of an element in memory: NumPy keeps truth values in bytes."""
    return I8 if dtype == "bool" else TYPES[dtype]


class _Emitter:
    """What is in sight: pointers of buffers, values of loop variables and their ranges, and `launch`, where
    loops may be shared out."""

    def __init__(
        self,
        emitted: Emitted,
        function: ir.Function,
        pointers: dict[str, ir.Value],
        values: dict[str, ir.Value],
        ranges: dict[str, Interval],
        launch: ir.Value | None,
    ) -> None:
        self.emitted, self.builder = emitted, ir.IRBuilder(function.append_basic_block())
        self.pointers, self.values, self.ranges, self.launch = pointers, values, ranges, launch

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Block(statements):
                for part in statements:
                    self.statement(part)
            case For(kind=LoopKind.PARALLEL):
                self.parallel(stmt)
            case For(extent=extent):
                self.loop(stmt, I64(0), I64(extent))
            case If(condition, body):
                with self.builder.if_then(self.expr(condition)):
                    self.statement(body)
            case Alloc(buffer, body):
                self.allocated(buffer, body)
            case Write(buffer, indices, value):
                result = self.expr(value)
                self.builder.store(
                    self.builder.zext(result, I8) if buffer.dtype == "bool" else result,
                    self.place(buffer, indices),
                )

    def parallel(self, loop: For) -> None:
        """Share the iterations out, or carry them out here, inside another parallel loop; in any case they
        must be independent."""
        meeting = conflict(loop, self.ranges)
        if meeting:
            raise IrError(f"loop {loop.var.name} cannot be parallel: {meeting}")
        if self.launch is None or loop.extent == 1:
            self.loop(loop, I64(0), I64(loop.extent))
        else:
            self.shared(loop)

    def shared(self, loop: For) -> None:
        """Emit the body as a function of its own, and a call of `launch` with what it uses."""
        b, number = self.builder, I64(len(self.emitted.bodies))
        inside = list(walk(loop.body))
        used = {part.buffer.name for part in inside if isinstance(part, (Read, Write))} | {
            part.name for part in inside if isinstance(part, Var)
        }
        pointers, values = (
            {name: value for name, value in seen.items() if name in used}
            for seen in (self.pointers, self.values)
        )
        self.body(loop, pointers, values)
        with b.goto_entry_block():
            words = b.alloca(I64, len(pointers) + len(values))
        for place, value in enumerate((*pointers.values(), *values.values())):
            b.store(b.ptrtoint(value, I64) if value.type.is_pointer else value, b.gep(words, [I64(place)]))
        b.call(self.launch, [number, words, I64(loop.extent)])

    def body(self, loop: For, pointers: dict[str, ir.Value], values: dict[str, ir.Value]) -> None:
        name, outside = f"body{len(self.emitted.bodies)}", (*pointers.values(), *values.values())
        self.emitted.bodies.append((name, len(outside)))
        function = _function(self.emitted.module, name, [I64, I64, *(value.type for value in outside)])
        first, end, *arguments = function.args
        inside = (
            dict(zip(pointers, arguments, strict=False)),
            dict(zip(values, arguments[len(pointers) :], strict=True)),
        )
        emitter = _Emitter(self.emitted, function, *inside, self.ranges, None)
        emitter.loop(loop, first, end)
        emitter.builder.ret_void()

    def loop(self, loop: For, first: ir.Value, end: ir.Value) -> None:
        """Emit the iterations from `first` to before `end`, one at least."""
        b, before, name = self.builder, self.builder.block, loop.var.name
        head, after = b.append_basic_block(f"{name}_loop"), b.append_basic_block(f"{name}_end")
        b.branch(head)
        b.position_at_end(head)
        counter = b.phi(I64, name)
        counter.add_incoming(first, before)
        self.values[name], outside = counter, self.ranges
        wanted = hints(loop, outside, self.emitted.vector_bytes)
        self.ranges = {**outside, name: Interval(0, loop.extent - 1)}
        self.statement(loop.body)
        self.ranges = outside
        del self.values[name]  # another loop may have the name
        following = b.add(counter, I64(1), flags=("nsw", "nuw"))
        counter.add_incoming(following, b.block)
        annotate(b.cbranch(b.icmp_signed("<", following, end), head, after), wanted)
        b.position_at_end(after)

    def allocated(self, buffer: Buffer, body: Stmt) -> None:
        """Give a buffer memory of its own, zeroed, for as long as its statement lasts."""
        b, kind = self.builder, _memory_type(buffer.dtype)
        size = buffer.size * DTYPES[buffer.dtype].bytes
        memory = b.call(
            self.library("calloc", I8.as_pointer(), [I64, I64]), [ir.Constant(I64, size), ir.Constant(I64, 1)]
        )
        self.pointers[buffer.name] = b.bitcast(memory, kind.as_pointer())
        self.statement(body)
        del self.pointers[buffer.name]
        b.call(self.library("free", ir.VoidType(), [I8.as_pointer()]), [memory])

    def library(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        module = self.builder.module
        return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)

    def place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> ir.Value:
        """Return the address of an element."""
        offset: ir.Value = ir.Constant(I64, 0)
        for axis, index in enumerate(indices):
            step = self.builder.mul(
                self.expr(index), ir.Constant(I64, prod(buffer.shape[axis + 1 :])), flags=("nsw",)
            )
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
