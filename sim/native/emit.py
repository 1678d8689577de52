"""A thin layer over llvmlite's builder: loops, variables and addresses, as the functions need them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS, Access
from vdla.hw.spec.touched import extent, rows_in_dram, total
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import slots

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
POINTER = ir.PointerType()

STATE = (
    "dram",
    "dram_bytes",
    "uop",
    "inp",
    "wgt",
    "acc",
    "table",
    "res",
    "inp_operand",
    "wgt_operand",
    "wgt_bias",
    "pad_registers",
    "greatest",
    "powers",
    "totals",
    "squares",
    "budget",
    "first_out",
    "first_in",
)
"""What every function is given, as 64-bit words: addresses of memories, size of DRAM, and where to pause.

`budget` (signed) is how many steps are left. Where it is not positive, execution pauses: `run` returns.
`first_out` and `first_in` are the loop trips with which an instruction goes on after a pause; else 0.
"""

STEPS_OF_ELEMENT = 8
"""Steps that an element of a transfer costs: unpacking an element takes longer than multiplying with it."""

DONE, REFUSED, PAUSED = 0, 1, 2


def i64(value: int) -> ir.Constant:
    """Return a 64-bit constant."""
    return ir.Constant(I64, value)


def splat(value: int, vector: ir.VectorType) -> ir.Constant:
    """Return a constant vector of one value."""
    return ir.Constant(vector, [value] * vector.count)


class Emitter:
    """A function under construction.

    Args:
        name: of the function; it is internal to the module unless `exported`.
        parameters: types of its arguments, which are in `arguments`. It returns an i64.
    """

    def __init__(
        self, module: ir.Module, name: str, parameters: list[ir.Type], *, exported: bool = False
    ) -> None:
        self.function = ir.Function(module, ir.FunctionType(I64, parameters), name)
        if not exported:
            self.function.linkage = "internal"
            self.function.attributes.add(
                "noinline"
            )  # one large function would take the optimiser twice as long
        self.arguments = self.function.args
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def finish(self, result: int = DONE) -> ir.Function:
        """End the function by returning `result`."""
        self.builder.ret(i64(result))
        return self.function

    def at(self, base: ir.Value, offset: ir.Value) -> ir.Value:
        """Return the address `offset` bytes from `base`."""
        return self.builder.gep(base, [offset], source_etype=I8)

    def load(self, kind: ir.Type, address: ir.Value) -> ir.Value:
        """Load a value that may stand at any address."""
        return self.builder.load(address, typ=kind, align=1)

    def store(self, value: ir.Value, address: ir.Value) -> None:
        """Store a value at any address."""
        self.builder.store(value, address, align=1)

    def variable(self, initial: ir.Value) -> "Variable":
        """Return a variable that holds `initial` from here on."""
        return Variable(self, initial)

    def loop(self, count: ir.Value, body: Callable[[ir.Value], None], first: ir.Value | None = None) -> None:
        """Emit `for index in range(first, count): body(index)`; `first` None: 0."""
        b = self.builder
        before = b.block
        head, inside, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(first or i64(0), before)
        b.cbranch(b.icmp_unsigned("<", index, count), inside, after)
        b.position_at_end(inside)
        body(index)
        index.add_incoming(b.add(index, i64(1)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def loop_while(self, condition: Callable[[], ir.Value], body: Callable[[], None]) -> None:
        """Emit `while condition(): body()`."""
        b = self.builder
        head, inside, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(condition(), inside, after)
        b.position_at_end(inside)
        body()
        b.branch(head)
        b.position_at_end(after)

    def repeat(self, count: int, body: Callable[[ir.Value], None], unroll: int = 8) -> None:
        """Emit `count` repetitions, spelt out where they are at most `unroll`."""
        if count > unroll:
            self.loop(i64(count), body)
            return
        for index in range(count):
            body(i64(index))

    def refuse_if(self, condition: ir.Value) -> None:
        """Return REFUSED where `condition` holds."""
        with self.builder.if_then(condition, likely=False):
            self.builder.ret(i64(REFUSED))

    def done_if(self, condition: ir.Value) -> None:
        """Return DONE where `condition` holds."""
        with self.builder.if_then(condition):
            self.builder.ret(i64(DONE))

    @contextmanager
    def when(self, condition: ir.Value) -> Iterator[None]:
        """Emit what follows to run only where `condition` holds."""
        with self.builder.if_then(condition):
            yield

    def scaled(self, value: ir.Value, factor: int) -> ir.Value:
        """Return `value * factor`."""
        return self.builder.mul(value, i64(factor))

    def least(self, left: ir.Value, right: ir.Value) -> ir.Value:
        """Return the lesser of two unsigned values."""
        return self.builder.select(self.builder.icmp_unsigned("<", left, right), left, right)

    def sum(self, first: ir.Value, *rest: ir.Value) -> ir.Value:
        """Return the sum of i64 values."""
        for value in rest:
            first = self.builder.add(first, value)
        return first


class Variable:
    """A stack slot; the optimiser turns it into a register."""

    def __init__(self, emitter: Emitter, initial: ir.Value) -> None:
        self.emitter = emitter
        with emitter.builder.goto_entry_block():
            self.slot = emitter.builder.alloca(initial.type)
        self.set(initial)

    def get(self) -> ir.Value:
        """Return the present value."""
        return self.emitter.builder.load(self.slot, typ=self.slot.allocated_type)

    def set(self, value: ir.Value) -> None:
        """Give it a new value."""
        self.emitter.builder.store(value, self.slot)


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """A 64-bit value with the operators that footprints and parameters are evaluated with; comparisons and
    shifts are signed."""

    builder: ir.IRBuilder
    value: ir.Value

    def __add__(self, other: "Word | int") -> "Word":
        return Word(self.builder, self.builder.add(self.value, _value_of(other)))

    def __sub__(self, other: "Word | int") -> "Word":
        return Word(self.builder, self.builder.sub(self.value, _value_of(other)))

    def __mul__(self, other: "Word | int") -> "Word":
        return Word(self.builder, self.builder.mul(self.value, _value_of(other)))

    def __gt__(self, other: "Word | int") -> "Word":
        return Word(self.builder, self.builder.icmp_signed(">", self.value, _value_of(other)))

    def __le__(self, other: "Word | int") -> "Word":
        return Word(self.builder, self.builder.icmp_signed("<=", self.value, _value_of(other)))

    def __and__(self, other: "Word | int") -> "Word":
        return Word(self.builder, self.builder.and_(self.value, _value_of(other)))

    def __xor__(self, other: int) -> "Word":
        return Word(self.builder, self.builder.xor(self.value, _value_of(other)))

    def __rshift__(self, amount: int) -> "Word":
        return Word(self.builder, self.builder.ashr(self.value, _value_of(amount)))

    __radd__, __rmul__ = __add__, __mul__


def _value_of(word: Word | int) -> ir.Value:
    return i64(word) if isinstance(word, int) else word.value


class InstructionEmitter(Emitter):
    """A function (state, row) that executes one instruction of `form`, or refuses it before it writes
    anything."""

    def __init__(
        self, module: ir.Module, name: str, form: type[isa.Instruction], config: AcceleratorConfig
    ) -> None:
        super().__init__(module, name, [POINTER, POINTER])
        self.config, self.form = config, form
        self.state, self.row = self.arguments
        self.slots = slots(form, config)

    def field(self, name: str) -> ir.Value:
        """Return a field of the instruction; 0 where its form or configuration has none of that name."""
        if name not in self.slots:
            return i64(0)
        return self.load(I64, self.at(self.row, i64(8 * self.slots[name])))

    def word_of(self, name: str) -> Word:
        """Return a field of the instruction, to evaluate footprints with."""
        return Word(self.builder, self.field(name))

    def is_set(self, name: str) -> ir.Value:
        """Return whether a field of the instruction is not 0."""
        return self.builder.icmp_unsigned("!=", self.field(name), i64(0))

    def word_from(self, value: ir.Value) -> Word:
        """Return a value, to compute with."""
        return Word(self.builder, value)

    def done_if_nothing(self) -> None:
        """Return DONE where the instruction touches nothing."""
        for text in FOOTPRINTS[self.form].trips:
            self.done_if((total(text, self.word_of) <= 0).value)

    def refuse_beyond(
        self,
        access: Access,
        memory: MemoryType | None,
        uops: tuple[ir.Value, ir.Value] | None = None,
        halvings: int = 0,
    ) -> None:
        """Refuse the instruction if an access that happens leaves its memory.

        Args:
            memory: the memory type whose elements it counts; must be given where `memory_type` names it.
            uops: the least and the greatest value of its field in the micro-ops, where it names a field.
            halvings: of the instruction.
        """
        least, greatest = uops or (i64(0), i64(0))
        ends = Word(self.builder, least), Word(self.builder, greatest)
        assert memory is not None, f"{access} counts elements of no memory"
        if access.in_dram:
            element = self.config.element_bytes(memory, halvings)
            end = rows_in_dram(access, self.word_of, element).end
            limit = self.word("dram_bytes")
        else:
            _, end = extent(access, self.word_of, ends)
            limit = i64(self.config.depth(memory))
        self.refuse_if(self.builder.icmp_unsigned(">", end.value, limit))

    def memory(self, name: str) -> ir.Value:
        """Return the address of a memory of `STATE`."""
        return self.load(POINTER, self.at(self.state, i64(8 * STATE.index(name))))

    def word(self, name: str) -> ir.Value:
        """Return a word of `STATE` that is no address."""
        return self.load(I64, self.at(self.state, i64(8 * STATE.index(name))))

    def set_word(self, name: str, value: ir.Value) -> None:
        """Change a word of `STATE`."""
        self.store(value, self.at(self.state, i64(8 * STATE.index(name))))

    def spend(self, elements: ir.Value) -> None:
        """Take the elements of a transfer off the budget."""
        spent = self.scaled(elements, STEPS_OF_ELEMENT)
        self.set_word("budget", self.builder.sub(self.word("budget"), spent))
