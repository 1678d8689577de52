"""What instructions with micro-ops share: the loop nest over them and its bounds check."""

from collections.abc import Callable, Sequence
from functools import reduce

from llvmlite import ir

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS, MICRO_OP_COUNT, Access, Axis
from vdla.hw.spec.touched import total
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.native.emit import I64, PAUSED, InstructionEmitter, i64

MACS_AT_ONCE = 1 << 32
MOST_STEPS_AT_ONCE = 1 << 24


def steps_at_once(config: AcceleratorConfig) -> int:
    """Return how many steps run between two looks at Python's signals: they take well below a second."""
    return max(
        1, min(MOST_STEPS_AT_ONCE, MACS_AT_ONCE // (config.batch * config.block_in * config.block_out))
    )


def trips_at_once(config: AcceleratorConfig) -> int:
    """Return how many trips of the second loop run between two looks at the budget, few enough to keep
    to it: each makes a step with all micro-ops, or all sums of a row."""
    return max(1, steps_at_once(config) // max(config.depth(MemoryType.UOP), 1 << isa.LOOP_BITS))


class StepEmitter(InstructionEmitter):
    """A kernel of a looping instruction, which can pause; it returns DONE at once where the loops are
    empty."""

    def begin(self) -> None:
        """Read the loop fields, leave if there is no step, refuse micro-ops that do not exist."""
        self.trips_out, self.trips_in, self.steps_at_trip = (
            total(text, self.word_of).value for text in FOOTPRINTS[self.form].trips
        )
        self.uops = total(MICRO_OP_COUNT, self.word_of).value
        self.done_if_nothing()
        (micro_ops,) = (access for access in FOOTPRINTS[self.form].accesses if not access.uop_field)
        self.refuse_beyond(micro_ops, MemoryType.UOP)
        first = total(micro_ops.base, self.word_of).value
        self.base = self.at(self.memory("uop"), self.scaled(first, self.config.uop_bits // 8))

    def checked_steps(self, operands: Sequence[Access], body: Callable[..., None]) -> None:
        """Emit the bounds check of `operands` and the nest; see `steps`."""
        self.check(operands)
        self.steps(operands, body)

    def kept_bits(self, flag: str) -> ir.Value:
        """Return what of an accumulator a sum is added to, as a mask: all of it, or nothing where `flag` is
        set."""
        kind = ir.IntType(self.config.acc_bits)
        overwrites = self.builder.icmp_unsigned("!=", self.field(flag), i64(0))
        return self.builder.select(overwrites, kind(0), kind(-1))

    def check(self, operands: Sequence[Access]) -> None:
        """Refuse the instruction if any step names an element that an operand's memory does not have.

        Factors are unsigned, so the greatest element is the greatest of the micro-ops' at the last trips.
        """
        greatest = [self.variable(i64(0)) for _ in operands]

        def visit(index: ir.Value) -> None:
            word = self._uop(index)
            for operand, seen in zip(operands, greatest, strict=True):
                value, old = self._extract(word, operand), seen.get()
                seen.set(self.builder.select(self.builder.icmp_unsigned(">", value, old), value, old))

        self.loop(self.uops, visit)
        for operand, seen in zip(operands, greatest, strict=True):
            with self.when(self._makes(operand)):
                self.refuse_beyond(operand, operand.memory, (i64(0), seen.get()))

    def _makes(self, access: Access) -> ir.Value:
        """Return whether the instruction makes an access, unless it touches nothing."""
        conditions = ((total(text, self.word_of) > 0).value for text in access.where)
        return reduce(self.builder.and_, conditions, ir.Constant(ir.IntType(1), 1))

    def steps(self, operands: Sequence[Access], body: Callable[..., None]) -> None:
        """Emit the nest; `body` is given the element that each operand names, as i64."""
        b = self.builder
        factors = [[self._step(operand.outer), self._step(operand.inner)] for operand in operands]

        def outer(i: ir.Value, first_in: ir.Value, last_in: ir.Value) -> None:
            rows = [b.mul(i, out) for out, _ in factors]

            def inner(j: ir.Value) -> None:
                bases = [b.add(row, b.mul(j, step)) for row, (_, step) in zip(rows, factors, strict=True)]

                def step(u: ir.Value) -> None:
                    word = self._uop(u)
                    body(
                        *(
                            b.add(base, self._extract(word, o))
                            for base, o in zip(bases, operands, strict=True)
                        )
                    )

                self.loop(self.uops, step)

            self.loop(last_in, inner, first_in)

        self._in_parts(outer)

    def rows(self, operands: Sequence[Access], body: Callable[..., None]) -> None:
        """Emit the nest of the outer loop and of micro-ops; `body` is given the element that each operand
        names in the first trip of the inner loop, as i64, and makes all trips."""
        b = self.builder
        factors = [self._step(operand.outer) for operand in operands]

        def outer(i: ir.Value, first: ir.Value, last: ir.Value) -> None:
            def row(index: ir.Value) -> None:
                word = self._uop(index)
                bases = (b.mul(i, factor) for factor in factors)
                body(*(b.add(base, self._extract(word, o)) for base, o in zip(bases, operands, strict=True)))

            self.loop(last, row, first)

        self._in_parts(outer)

    def _step(self, axis: Axis) -> ir.Value:
        """Return the step of an axis."""
        return total(axis.step, self.word_of).value

    def _in_parts(self, body: Callable[[ir.Value, ir.Value, ir.Value], None]) -> None:
        """Emit `body(i, first, last)`: trips `first` to `last - 1` of the second loop (of DEPTHWISE, the loop
        over micro-ops) in outer trip `i`, from the last pause on.

        A part is at most `trips_at_once` inner trips, of one outer trip or of several whole outer trips.
        Before each part, the function pauses if the budget is spent.
        """
        b, most = self.builder, i64(trips_at_once(self.config))
        i, j, left = (self.variable(self.word(name)) for name in ("first_out", "first_in", "budget"))
        self.set_word("first_out", i64(0))
        self.set_word("first_in", i64(0))
        whole = b.lshr(most, b.sub(i64(64), b.ctlz(self.trips_in, ir.Constant(ir.IntType(1), 1))))
        step_out = b.select(b.icmp_unsigned("==", whole, i64(0)), i64(1), whole)

        def part() -> None:
            first_out, first_in = i.get(), j.get()
            self._pause_if_spent(left.get(), first_out, first_in)
            last_out = self.least(self.sum(first_out, step_out), self.trips_out)
            last_in = self.least(self.sum(first_in, most), self.trips_in)
            self.loop(last_out, lambda index: body(index, first_in, last_in), first_out)
            trips = b.mul(b.sub(last_out, first_out), b.sub(last_in, first_in))
            left.set(b.sub(left.get(), b.mul(trips, self.steps_at_trip)))
            ends = b.icmp_unsigned("==", last_in, self.trips_in)
            i.set(b.select(ends, last_out, first_out))
            j.set(b.select(ends, i64(0), last_in))

        self.loop_while(lambda: b.icmp_unsigned("<", i.get(), self.trips_out), part)
        self.set_word("budget", left.get())

    def _pause_if_spent(self, left: ir.Value, i: ir.Value, j: ir.Value) -> None:
        """Return PAUSED where no budget is `left`, to go on with outer trip `i` and inner trip `j`."""
        with self.builder.if_then(self.builder.icmp_signed("<=", left, i64(0)), likely=False):
            self.set_word("budget", left)
            self.set_word("first_out", i)
            self.set_word("first_in", j)
            self.builder.ret(i64(PAUSED))

    def _uop(self, index: ir.Value) -> ir.Value:
        """Return the encoded micro-op `index`, as i64."""
        bits = self.config.uop_bits
        word = self.load(ir.IntType(bits), self.at(self.base, self.scaled(index, bits // 8)))
        return self.builder.zext(word, I64)

    def _extract(self, word: ir.Value, operand: Access) -> ir.Value:
        field = encoding.field_of(isa.MicroOp, operand.uop_field, self.config)
        return self.builder.and_(self.builder.lshr(word, i64(field.start)), i64((1 << field.width) - 1))
