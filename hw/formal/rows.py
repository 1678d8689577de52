"""What the store unit promises of NORMALISEs: the kinds of reads in its stages, and the rows of elements."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from vdla.hw.formal.proof import ConfiguredProof, Proof, implies, is_taken
from vdla.hw.layouts import decode
from vdla.hw.row_statistics import RowCounter
from vdla.hw.signatures import has_shadow
from vdla.hw.spec import isa
from vdla.hw.store_beats import normal_kind_layout
from vdla.hw.store_reads import ReadIssue

STAGES = 3
"""Stages behind the issue. The claim about a stage follows from the claim about the stage before it."""


class KindProof(ConfiguredProof):
    """Reads of NORMALISEs of two kinds are never in the stages at once.

    The stages promise `settled` as `OutputPath` does: a register tells that no read is in them.

    Parameters:
        config: the accelerator; it has NORMALISE.
    """

    def build(self, m: Module) -> None:
        m.submodules.issue = issue = ReadIssue(self.config)
        self.source(m, "instruction", issue.instruction)
        m.d.comb += issue.room.eq(self.free("room"))
        if has_shadow(self.config):
            m.d.comb += issue.lends.eq(self.free("lends"))
        settled = Signal(init=1)
        m.d.comb += issue.settled.eq(settled)
        read = {"valid": 1, "normal": 1, "kind": normal_kind_layout()}
        issued, *stages = (
            Signal(data.StructLayout(read), name=f"read_{cycle}") for cycle in range(STAGES + 1)
        )
        m.d.comb += [
            issued.valid.eq(issue.read.valid),
            issued.normal.eq(issue.read.normal.valid),
            issued.kind.eq(issue.kind),
        ]
        m.d.sync += [later.eq(earlier) for earlier, later in pairwise((issued, *stages))]
        m.d.sync += settled.eq(~Cat(each.valid for each in (issued, *stages[:-1])).any())
        current = self._in_progress(m, issue)
        normalise = decode(isa.Normalise, self.config, current)
        is_normalise = normalise.opcode == isa.Opcode.NORMALISE
        due = Cat(normalise.statistic, normalise.normal != 0)
        reads = issue.read.valid & ~issue.read.empty
        self.claims |= {
            "a read is of a NORMALISE if its instruction is": implies(
                reads, issue.read.normal.valid == is_normalise
            ),
            "a read of a NORMALISE has the kind of its instruction": implies(
                reads & is_normalise, issue.kind.as_value() == due
            ),
        }
        for stage, each in enumerate(stages):
            self.claims[f"stage {stage}: reads of NORMALISEs are of one kind"] = implies(
                each.valid & each.normal, each.kind.as_value() == issue.kind.as_value()
            )

    def _in_progress(self, m: Module, issue: ReadIssue) -> Value:
        """Return the instruction that began last. `instruction.ready` is high again in the cycle after."""
        word, width = issue.instruction.payload, self.config.instruction_bits
        waiting, begun, was_ready = Signal(width), Signal(width), Signal(init=1)
        begins = issue.instruction.ready & ~was_ready
        current = Signal(width)
        m.d.comb += current.eq(Mux(begins, waiting, begun))
        m.d.sync += [was_ready.eq(issue.instruction.ready), begun.eq(current)]
        with m.If(is_taken(issue.instruction)):
            m.d.sync += waiting.eq(word)
        return current


class RowCounterProof(Proof):
    """The row of an element is the number of elements of its instruction that ended before it."""

    def build(self, m: Module) -> None:
        m.submodules.counter = counter = RowCounter()
        counts, first, ends = (self.free(name) for name in ("counts", "first", "ends"))
        m.d.comb += [counter.counts.eq(counts), counter.first.eq(first), counter.ends.eq(ends)]
        ended = Signal(isa.SIZE_BITS + 1)
        before = Mux(first, 0, ended)
        with m.If(counts):
            m.d.sync += ended.eq(before + ends)
        rows = isa.NORMAL_ROWS
        self.claims |= {
            "the first element belongs to row 0": implies(counts & first, counter.row == 0),
            "row: the elements that ended, modulo the rows": implies(counts, counter.row == before % rows),
        }
