"""What GEMM and ALU share: the loop nest over micro-ops and its bounds check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import UOP_BITS, MemoryType
from vdla.sim.kernels.emit import I32, I64, InstructionKernel, i64

UOP_BYTES = UOP_BITS // 8


@dataclass(frozen=True, slots=True)
class Operand:
    """A micro-op field and the memory whose elements it names."""

    name: str
    memory: MemoryType


class StepKernel(InstructionKernel):
    """A kernel of a looping instruction; emitting one returns DONE at once where the loops are empty."""

    def begin(self) -> None:
        """Read the loop fields and leave if there is no step."""
        b = self.builder
        self.first, self.last = self.field("uop_begin"), self.field("uop_end")
        self.trips_out, self.trips_in = self.field("iter_out"), self.field("iter_in")
        self.done_if(b.icmp_unsigned(">=", self.first, self.last))
        self.done_if(b.icmp_unsigned("==", b.mul(self.trips_out, self.trips_in), i64(0)))
        self.refuse_if(b.icmp_unsigned(">", self.last, i64(self.config.depth(MemoryType.UOP))))
        self.uops = b.sub(self.last, self.first)
        self.base = self.at(self.memory("uop"), self.scaled(self.first, UOP_BYTES))

    def check(self, operands: Sequence[Operand]) -> None:
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
            reached = self.sum(seen.get(), self._extent(operand))
            self.refuse_if(self.builder.icmp_unsigned(">=", reached, i64(self.config.depth(operand.memory))))

    def steps(self, operands: Sequence[Operand], body: Callable[..., None]) -> None:
        """Emit the nest; `body` is given the element that each operand names, as i64."""
        b = self.builder
        factors = [(self.field(f"{o.name}_factor_out"), self.field(f"{o.name}_factor_in")) for o in operands]

        def outer(i: ir.Value) -> None:
            rows = [b.mul(i, out) for out, _ in factors]

            def inner(j: ir.Value) -> None:
                bases = [b.add(row, b.mul(j, step)) for row, (_, step) in zip(rows, factors, strict=True)]

                def step(u: ir.Value) -> None:
                    word = self._uop(u)
                    body(*(b.add(base, self._extract(word, o)) for base, o in zip(bases, operands, strict=True)))

                self.loop(self.uops, step)

            self.loop(self.trips_in, inner)

        self.loop(self.trips_out, outer)

    def _uop(self, index: ir.Value) -> ir.Value:
        return self.builder.zext(self.load(I32, self.at(self.base, self.scaled(index, UOP_BYTES))), I64)

    def _extract(self, word: ir.Value, operand: Operand) -> ir.Value:
        field = isa.field_of(isa.MicroOp, operand.name, self.config)
        return self.builder.and_(self.builder.lshr(word, i64(field.start)), i64((1 << field.width) - 1))

    def _extent(self, operand: Operand) -> ir.Value:
        b = self.builder
        return b.add(b.mul(b.sub(self.trips_out, i64(1)), self.field(f"{operand.name}_factor_out")),
                     b.mul(b.sub(self.trips_in, i64(1)), self.field(f"{operand.name}_factor_in")))
