"""What `make formal` proves: circuits with claims, how each is proved, and faults that must refute it."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from formal.edits import Edit, edited
from formal.provers import TOP, Effort, Method
from vdla.hw.formal.arithmetic import (
    GIVEN,
    AluProof,
    ProductsProof,
    RequantiserProof,
    ResidualProof,
    ScalingProof,
    TableProof,
)
from vdla.hw.formal.axi import AxiLiteProof, AxiMasterProof
from vdla.hw.formal.bursts import RowCutterProof
from vdla.hw.formal.dispatch import DispatchProof
from vdla.hw.formal.dma import DmaProof
from vdla.hw.formal.fetch import FetchProof
from vdla.hw.formal.proof import Proof
from vdla.hw.formal.queue import QueueProof
from vdla.hw.formal.rows import KindProof, RowCounterProof
from vdla.hw.formal.tokens import TokenProof
from vdla.hw.rtlil import rtlil_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import SHIFT_BITS
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.timing import (
    BURSTS_FETCHED_AHEAD,
    REQUANTISE_STAGES,
    RESIDUAL_STAGES,
    TABLE_STAGES,
    alu_delay,
)
from vdla.hw.spec.vocabulary import AluOpcode, Extension

FAULT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Obligation:
    """Claims about a component that are to be proved.

    Attributes:
        name: of the component and its size, as in "queue, depth 4".
        proof: returns the circuit of a case; its argument `only` names the only claim to assert.
        effort: how the claims are proved.
        faults: changes of the sources, each of which must refute a claim.
        cycles: within which a fault must show.
        settings: smaller values for constants of the sources.
        cases: what `proof` takes, one circuit for each; None: it takes nothing.
        fault_case: the case in which faults are planted.
    """

    name: str
    proof: Callable[..., Proof]
    effort: Effort
    faults: tuple[Edit, ...]
    cycles: int = 20
    settings: tuple[Edit, ...] = ()
    cases: tuple[int | None, ...] = (None,)
    fault_case: int | None = None

    def rtlil(self, case: int | None, fault: Edit | None = None, only: str | None = None) -> str:
        """Return the circuit of a case for a prover, with a fault planted in the hardware or without."""
        return self._built(case, fault, only)[1]

    def claims(self) -> list[str]:
        """Return the names of the claims."""
        return list(self._built(self.fault_case, None, None)[0].claims)

    def _built(self, case: int | None, fault: Edit | None, only: str | None) -> tuple[Proof, str]:
        with edited(*self.settings, *([fault] if fault else [])):
            proof = self.proof(*([] if case is None else [case]), only=only)
            return proof, rtlil_of(proof, TOP, proof.ports).text

    def fault_effort(self) -> Effort:
        """Return how a fault is looked for."""
        if self.effort.method is Method.EVERY_INPUT:
            return self.effort
        return Effort(Method.BOUNDED, self.cycles, FAULT_SECONDS)


QUEUE, TOKENS, DMA, FETCH, DISPATCH, AXI, BURSTS = (
    f"vdla.hw.{name}" for name in ("queue", "tokens", "dma", "fetch", "dispatch", "axi", "bursts")
)
ALU, SCALING, REQUANTISE, RESIDUAL, TABLES, PACKING = (
    f"vdla.hw.{name}" for name in ("alu", "scaling", "requantise", "residual", "tables", "packing")
)
STORE_READS, NORMAL_ISSUE, ROW_STATISTICS = (
    f"vdla.hw.{name}" for name in ("store_reads", "normal_issue", "row_statistics")
)
INDUCTION = Effort(Method.INDUCTION)

IN_REGISTER = (Edit(QUEUE, "ONE_LUT_RAM = 16", "ONE_LUT_RAM = 2"),)
"""Queues of more than two items have an output register before LUT RAM, as queues of more than 16 have."""

IN_BLOCK_RAM = (*IN_REGISTER, Edit(QUEUE, "LUT_RAM_WORDS = 32", "LUT_RAM_WORDS = 1"))
"""They have it before block RAM, as queues of more than 33 have."""

POINTER_FAULT = Edit(QUEUE, "Mux(pointer == words - 1, 0, pointer + 1)", "pointer + 1")
FULL = "ready.eq(~enters | (self.level != self.depth{})),\n                {}"
FULL_FAULT, FULL_REGISTER_FAULT = (
    Edit(QUEUE, FULL.format(" - 1", behind), FULL.format("", behind)) for behind in ("self.o.valid", "more")
)


def _queues() -> list[Obligation]:
    """Return the three forms of the queue."""
    stored = Edit(
        QUEUE, "stored = enters & self.o.valid & (~leaves | more)", "stored = enters & self.o.valid"
    )
    held = Edit(QUEUE, "with m.If(~self.o.valid | self.o.ready):", "with m.If(1):")
    newest = Edit(QUEUE, "Mux(is_newest, newest, read.data)", "read.data")
    forms = {
        "LUT RAM": ((), (3, 4, 5), (FULL_FAULT, POINTER_FAULT)),
        "register": ((), (1, 2), (FULL_REGISTER_FAULT, held)),
        "register, LUT RAM": (IN_REGISTER, (3, 4, 5), (FULL_REGISTER_FAULT, stored)),
        "register, block RAM": (IN_BLOCK_RAM, (3, 4, 5), (FULL_REGISTER_FAULT, newest)),
    }
    return [
        Obligation(
            f"queue of {depth} ({form})",
            partial(QueueProof, depth),
            INDUCTION,
            tuple(fault for fault in faults if fault is not POINTER_FAULT or depth & (depth - 1)),
            settings=settings,
        )
        for form, (settings, depths, faults) in forms.items()
        for depth in depths
    ]


def _tokens() -> list[Obligation]:
    room = Edit(
        TOKENS, "room.eq(pop | (pledged != self.depth - 1))", "room.eq(pop | (pledged != self.depth))"
    )
    available = Edit(TOKENS, "available.eq(push | (count != 1))", "available.eq(push | (count != 0))")
    return [
        Obligation(f"token counter of {depth}", partial(TokenProof, depth), INDUCTION, (room, available))
        for depth in (1, 2, 3, 5, 8)
    ]


def _dispatch() -> list[Obligation]:
    faults = (
        Edit(DISPATCH, "self.ended.eq(kind.invalid | kind.finish)", "self.ended.eq(kind.finish)"),
        Edit(DISPATCH, "Mux(kind.store, self.store.ready, self.compute.ready)", "self.compute.ready"),
    )
    return [Obligation("dispatch", partial(DispatchProof, TINY), INDUCTION, faults)]


def _dma() -> list[Obligation]:
    faults = (
        Edit(DMA, "chosen.eq(request.valid & may & ~taken)", "chosen.eq(request.valid & may)"),
        Edit(DMA, "reads.o.ready.eq(moves & last)", "reads.o.ready.eq(last)"),
        Edit(DMA, "may = reads.i.ready if client in READERS else 1", "may = 1"),
    )
    return [
        Obligation(
            f"DMA, {most} reads in flight",
            partial(DmaProof, _small(burst_bytes=32, max_requests=most)),
            INDUCTION,
            faults,
        )
        for most in (1, 2)
    ]


NARROW_AHEAD = 2
NARROW_FETCH = (
    Edit(
        FETCH,
        "from vdla.hw.spec.timing import BURSTS_FETCHED_AHEAD",
        f"BURSTS_FETCHED_AHEAD = {NARROW_AHEAD}",
    ),
    Edit("vdla.hw.spec.config", "return DRAM_BASE_BITS + max(", "return 12 + 0 * max("),
    Edit(
        FETCH, "Signal(self.config.address_bits - item_bits), Signal(32)", "Signal(8 - item_bits), Signal(3)"
    ),
    Edit(FETCH, "RowCutter(self.config, 32 + item_bits)", "RowCutter(self.config, 3 + item_bits)"),
    Edit(FETCH, "Signal(exact_log2(lanes)), Signal(32)", "Signal(exact_log2(lanes)), Signal(3)"),
)
"""Fetch with addresses of 8 bits, counters of instructions of 3, and two bursts ahead of dispatch."""


def _fetch_proof(most: int, compared: int, ahead: int, only: str | None = None, **changes: Any) -> FetchProof:
    """Return a proof whose configuration is made with it, so that edits of its properties count."""
    return FetchProof(_small(**changes), most, compared, ahead, only)


def _fetch() -> list[Obligation]:
    asked = Edit(
        FETCH, "final[:low_bits] - low + 1 if low_bits else 1", "final[:low_bits] - low if low_bits else 0"
    )
    ends = Edit(FETCH, "active.eq(~cutter.ends),", "active.eq(1),")
    part = Edit(FETCH, "self.read_data.valid & (part == parts - 1)", "self.read_data.valid & (part == 0)")
    final = Edit(FETCH, "final.eq(expected == 2)", "final.eq(expected == 1)")
    buses = {64: (ends, asked, part), 128: (ends, asked), 256: (ends, final)}
    narrow = [
        Obligation(
            f"fetch, bus of {bus_bits} bits, narrow",
            partial(_fetch_proof, 7, 2, NARROW_AHEAD, bus_bits=bus_bits, burst_bytes=32),
            INDUCTION,
            faults,
            settings=NARROW_FETCH,
            cycles=40,
        )
        for bus_bits, faults in buses.items()
    ]
    whole = partial(_fetch_proof, 3, 0, BURSTS_FETCHED_AHEAD, bus_bits=64, burst_bytes=32)
    return [
        *narrow,
        Obligation("fetch, all bits", whole, Effort(Method.BOUNDED, 12), (ends, part), cycles=12),
    ]


def _axi() -> list[Obligation]:
    master = (
        Edit(AXI, "writes.o.ready.eq(axi.awready)", "writes.o.ready.eq(1)"),
        Edit(AXI, "axi.rready.eq(reads.i.ready)", "axi.rready.eq(1)"),
        Edit(AXI, "source.beats - 1", "source.beats"),
        Edit(AXI, "axi.wlast.eq(write.payload.last)", "axi.wlast.eq(1)"),
    )
    slave = (
        Edit(AXI, "& ~axi.bvalid & ~takes_write & ~holds", "& ~takes_write & ~holds"),
        Edit(
            AXI, "axi.arvalid & ~axi.rvalid & ~reading & ~write_next", "axi.arvalid & ~reading & ~write_next"
        ),
        Edit(AXI, "takes_read.eq(held == longest - 2)", "takes_read.eq(held == longest - 3)"),
        Edit(
            AXI,
            "with m.Elif(axi.bready):\n            m.d.sync += axi.bvalid.eq(0)",
            "with m.Else():\n            m.d.sync += axi.bvalid.eq(0)",
        ),
    )
    return [
        Obligation("AXI4 master", partial(AxiMasterProof, TINY), INDUCTION, master),
        Obligation("AXI4-Lite slave", AxiLiteProof, INDUCTION, slave, cycles=40),
        Obligation(
            "division of rows into bursts",
            partial(RowCutterProof, TINY, 32),
            Effort(Method.EVERY_INPUT),
            (Edit(BURSTS, "Cat(final, Const(0, 1)) - first + 1", "Cat(final, Const(0, 1)) - first"),),
        ),
    ]


def _rows() -> list[Obligation]:
    """Return the issue of NORMALISEs with both ways of reading accumulators, and the counter of rows."""
    drained = Edit(STORE_READS, "~self._active & self.settled, free)", "~self._active, free)")
    ended = Edit(STORE_READS, "~self._active & self.settled, free)", "self.settled, free)")
    kept = Edit(NORMAL_ISSUE, "with m.If(self.begins & here):", "with m.If(self.begins):")
    statistic = Edit(NORMAL_ISSUE, "same = (word.statistic == self.kind.statistic) & (", "same = (")
    extensions = (*TINY.extensions, Extension.TABLE, Extension.NORMALISE)
    return [
        *(
            Obligation(
                f"kinds of NORMALISEs, {ports} read ports",
                partial(KindProof, _small(acc_ports=ports, extensions=extensions)),
                INDUCTION,
                (drained, ended, statistic, kept),
                cycles=40,
            )
            for ports in (1, 2)
        ),
        Obligation(
            "rows of elements",
            RowCounterProof,
            INDUCTION,
            (
                Edit(
                    ROW_STATISTICS,
                    "following.eq(self.row + self.ends)",
                    "following.eq(following + self.ends)",
                ),
            ),
        ),
    ]


def _small(**changes: Any) -> AcceleratorConfig:
    """Return a configuration with short bursts and few requests."""
    return TINY.with_changes(name="formal", **changes)


def _unrolled(last_cycle: int) -> Effort:
    """Return the effort for a pipeline whose claims are about cycles up to `last_cycle`."""
    return Effort(Method.EVERY_INPUT, last_cycle + 1)


SPLIT_BITS = 10
SPLIT_PRODUCT = (
    Edit(ALU, "NARROW_MULTIPLIER_BITS = 18", "NARROW_MULTIPLIER_BITS = 6"),
    Edit(ALU, "LOW_FACTOR_BITS = 17", "LOW_FACTOR_BITS = 6"),
)
"""Factors of SPLIT_BITS are divided as factors of 32 bits are."""


def _split(lanes: int) -> AcceleratorConfig:
    """Return a configuration for factors of SPLIT_BITS, which accelerators do not have: for a lane alone."""
    config = copy(_small(alu_lanes=lanes, alu_stages=2, acc_ports=2, alu_opcodes="ADD,MUL"))
    object.__setattr__(config, "acc_bits", SPLIT_BITS)
    return config


def _alu() -> list[Obligation]:
    fault = {
        AluOpcode.MIN: Edit(ALU, "Mux(greatest ^ reversed_, ~self.right, self.left)", "self.left"),
        AluOpcode.MAX: Edit(ALU, "Mux(greatest ^ reversed_, ~self.right, self.left)", "self.left"),
        AluOpcode.ADD: Edit(ALU, "total[1:-1], others", "total[2:], others"),
        AluOpcode.SHR: Edit(ALU, "(low == 0), high.any())", "(low == 0), high[0])"),
        AluOpcode.MUL: Edit(
            ALU, "rest == 0:\n            return low", "rest == 0:\n            return low ^ 1"
        ),
    }
    configs = [
        _small(acc_bits=bits, alu_stages=stages, acc_ports=2) for bits in (16, 32) for stages in (1, 2)
    ]
    second = "_low_product(right[:rest], left[low_bits:])"
    parts = {
        1: Edit(ALU, "(sum(halves[::2]) + sum(halves[1::2]))[:rest]", "sum(halves[::2])[:rest]"),
        0: Edit(ALU, second, second.replace("low_bits:", ":low_bits")),
    }
    split = [
        Obligation(
            f"ALU, MUL of parts, {SPLIT_BITS} bits, {form}",
            partial(AluProof, _split(lanes), AluOpcode.MUL),
            _unrolled(1 + alu_delay(AluOpcode.MUL, 2)),
            (parts[lanes],),
            settings=SPLIT_PRODUCT,
        )
        for lanes, form in ((1, "one of logic"), (0, "all of multipliers"))
    ]
    return split + [
        Obligation(
            f"ALU, {opcode.name}, {config.acc_bits} bits, {config.alu_stages} stages",
            partial(AluProof, config, opcode),
            _unrolled(1 + alu_delay(opcode, config.alu_stages)),
            (fault[opcode],),
        )
        for config in configs
        for opcode in config.alu_opcodes
        if opcode != AluOpcode.MUL or config.acc_bits == 16
    ]


LIMIT = Edit(SCALING, "limits.limits_above & (moved > limits.greatest)", "moved > limits.greatest + 1")
ROUNDS = Edit(SCALING, "value + limits.zero + rounds", "value + limits.zero")
WINDOW = Edit(SCALING, "differs[step + COARSE_WINDOW - 1 :]", "differs[step + COARSE_WINDOW :]")
KEPT = Edit(REQUANTISE, "keeps[delay] & (row[delay] == operand.row)", "keeps[0] & (row[0] == operand.row)")


def _requantiser() -> list[Obligation]:
    whole = [
        Obligation(
            f"requantiser, {bits} bits, small operands",
            partial(RequantiserProof, _small(acc_bits=bits)),
            _unrolled(GIVEN + REQUANTISE_STAGES),
            (ROUNDS, KEPT),
        )
        for bits in (16, 32)
    ]
    scaling = [
        Obligation(
            f"scaling of {bits} bits, each shift",
            partial(ScalingProof, bits),
            _unrolled(4),
            (LIMIT, ROUNDS, WINDOW),
            cases=tuple(range(1 << SHIFT_BITS)),
            fault_case=4,
        )
        for bits in (32, 33, 48)
    ]
    return [*whole, *scaling]


def _after_requantisation() -> list[Obligation]:
    extended = _small(extensions=tuple(Extension), table_buffer_bytes=512)
    return [
        Obligation(
            "residual, small operands",
            partial(ResidualProof, extended),
            _unrolled(ResidualProof.READ + 1 + RESIDUAL_STAGES),
            (ROUNDS, Edit(RESIDUAL, "own * scalars[OTHER]", "own * scalars[FACTOR]")),
        ),
        Obligation(
            "table",
            partial(TableProof, extended),
            _unrolled(TableProof.READ + TABLE_STAGES),
            (Edit(TABLES, "choose(entries, value[:low])", "choose(entries, self.value[:low])"),),
        ),
    ]


def _products() -> list[Obligation]:
    carried = Edit(PACKING, "upper - carried", "upper")
    configs = [_small(block_in=1, block_out=2, packed=bits) for bits in (18, 25)]
    return [
        Obligation(
            f"packed products, multipliers of {config.packed} bits, each input",
            partial(ProductsProof, config),
            _unrolled(config.gemm_stages),
            (carried,),
            cases=tuple(range(-1 << config.inp_bits - 1, 1 << config.inp_bits - 1)),
            fault_case=-77,
        )
        for config in configs
    ]


OBLIGATIONS = [
    *(*_queues(), *_tokens(), *_dispatch(), *_dma(), *_fetch(), *_axi(), *_rows()),
    *(*_alu(), *_requantiser(), *_after_requantisation(), *_products()),
]
