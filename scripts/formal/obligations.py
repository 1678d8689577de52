"""What `make formal` proves: circuits with claims, how each is proved, and faults that must refute it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from formal.edits import Edit, edited
from formal.provers import TOP, Effort, Method
from vdla.hw.formal.axi import AxiLiteProof, AxiMasterProof
from vdla.hw.formal.bursts import RowCutterProof
from vdla.hw.formal.dispatch import DispatchProof
from vdla.hw.formal.dma import DmaProof
from vdla.hw.formal.fetch import FetchProof
from vdla.hw.formal.proof import Proof
from vdla.hw.formal.queue import QueueProof
from vdla.hw.formal.tokens import TokenProof
from vdla.hw.rtlil import rtlil_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY

FAULT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Obligation:
    """Claims about a component that are to be proved.

    Attributes:
        name: of the component and its size, as in "queue, depth 4".
        proof: returns the circuit; its argument `only` names the one claim to assert.
        effort: how the claims are proved.
        faults: changes of the sources, each of which must refute a claim.
        cycles: within which a fault must show.
        settings: constants of the sources that are made smaller.
        slow: takes more than a second or two; `make formal` alone proves it.
    """

    name: str
    proof: Callable[..., Proof]
    effort: Effort
    faults: tuple[Edit, ...]
    cycles: int = 20
    settings: tuple[Edit, ...] = ()
    slow: bool = False

    def rtlil(self, fault: Edit | None = None, only: str | None = None) -> str:
        """Return the circuit for a prover, with a fault planted in the hardware or without."""
        with edited(*self.settings, *([fault] if fault else [])):
            proof = self.proof(only=only)
            return rtlil_of(proof, TOP, proof.ports).text

    def claims(self) -> list[str]:
        """Return the names of the claims."""
        with edited(*self.settings):
            proof = self.proof()
            rtlil_of(proof, TOP, proof.ports)
        return list(proof.claims)

    def fault_effort(self) -> Effort:
        """Return how a fault is looked for."""
        if self.effort.method is Method.EVERY_INPUT:
            return self.effort
        return Effort(Method.BOUNDED, self.cycles, FAULT_SECONDS)


QUEUE, TOKENS, DMA, FETCH, DISPATCH, AXI, BURSTS = (
    f"vdla.hw.{name}" for name in ("queue", "tokens", "dma", "fetch", "dispatch", "axi", "bursts")
)
INDUCTION = Effort(Method.INDUCTION)

IN_REGISTER = (Edit(QUEUE, "ONE_LUT_RAM = 16", "ONE_LUT_RAM = 2"),)
"""Queues of more than two items have an output register before LUT RAM, as those of more than 16 have."""

IN_BLOCK_RAM = (*IN_REGISTER, Edit(QUEUE, "LUT_RAM_WORDS = 32", "LUT_RAM_WORDS = 1"))
"""They have it before block RAM, as those of more than 33 have."""

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
            slow=depth == 5,
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
            slow=True,
        )
        for most in (1, 2)
    ]


NARROW_FETCH = (
    Edit("vdla.hw.spec.config", "return DRAM_BASE_BITS + max(", "return 8 + 0 * max("),
    Edit(
        FETCH, "Signal(self.config.address_bits - item_bits), Signal(32)", "Signal(8 - item_bits), Signal(3)"
    ),
    Edit(FETCH, "RowCutter(self.config, 32 + item_bits)", "RowCutter(self.config, 3 + item_bits)"),
    Edit(FETCH, "Signal(exact_log2(lanes)), Signal(32)", "Signal(exact_log2(lanes)), Signal(3)"),
)
"""Fetch with addresses of 8 bits, and counters of instructions of 3."""


def _fetch() -> list[Obligation]:
    faults = (
        Edit(
            FETCH,
            "final[:low_bits] - low + 1 if low_bits else 1",
            "final[:low_bits] - low if low_bits else 0",
        ),
        Edit(FETCH, "active.eq(~cutter.ends),", "active.eq(1),"),
        Edit(FETCH, "queue.i.valid.eq(moves & ~self.stop)", "queue.i.valid.eq(moves)"),
    )
    obligations = []
    for bus_bits, burst_bytes in ((64, 32), (128, 32), (256, 32), (256, 64)):
        name = f"fetch, bus of {bus_bits} bits, bursts of {burst_bytes} bytes"
        config = _small(bus_bits=bus_bits, burst_bytes=burst_bytes)
        obligations += [
            Obligation(
                f"{name}, narrow",
                partial(FetchProof, config, 3, 2),
                INDUCTION,
                faults[1:2],
                settings=NARROW_FETCH,
            ),
            Obligation(name, partial(FetchProof, config, 3), Effort(Method.BOUNDED, 12), (), slow=True),
        ]
    return obligations


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
        Obligation("AXI4 master", partial(AxiMasterProof, TINY), INDUCTION, master, slow=True),
        Obligation("AXI4-Lite slave", AxiLiteProof, INDUCTION, slave, cycles=40),
        Obligation(
            "division of rows into bursts",
            partial(RowCutterProof, TINY, 32),
            Effort(Method.EVERY_INPUT),
            (Edit(BURSTS, "Cat(final, Const(0, 1)) - first + 1", "Cat(final, Const(0, 1)) - first"),),
        ),
    ]


def _small(**changes: int) -> AcceleratorConfig:
    """Return a configuration with short bursts and few requests."""
    return TINY.with_changes(name="formal", **changes)


OBLIGATIONS = [*_queues(), *_tokens(), *_dispatch(), *_dma(), *_fetch(), *_axi()]
