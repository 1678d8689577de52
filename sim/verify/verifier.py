"""The stream verifier: proves that a stream is safe in every interleaving.

Streams have no data-dependent control flow, so following one legal order is enough: instructions of different
units that access the same data must be ordered by tokens, or another order could occur. The time is bounded
by the instructions times the elements of the on-chip memories, whatever the number of loop steps.

Vector clocks over the token edges tell which instructions are done when another starts, in any interleaving.
Units start their instructions in order, and the k-th pop on an edge takes the token of the k-th push. So an
instruction knows everything that the previous instruction of its unit knew and, for each token it pops, the
instruction that pushed it and everything that this instruction knew.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.shelf import Shelf
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import MemoryType, Statistic
from vdla.sim.compiled import revision, whole
from vdla.sim.decoded import DecodedStream
from vdla.sim.interleave import interleave
from vdla.sim.overwrites import refuse_overwrites
from vdla.sim.records import ByteArray, Grid, IntArray, Ints, RecordArray
from vdla.sim.rows import dram_rows
from vdla.sim.verify import touch as kinds
from vdla.sim.verify.columns import DRAM, footprint_columns, refuse_unknown
from vdla.sim.verify.follow import follow
from vdla.sim.verify.shadow import NEVER, Shadow, new_shadow

MOST_FINDINGS = 100
VERIFIED = Shelf("verified", 4 << 20)  # an entry for each safe stream, empty but for its digest


class VerificationError(ProgramError):
    """An unsafe stream: an unordered conflict, a read of uninitialised data, an access out of bounds, a
    broken promise, or the use of a statistic that was not gathered."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation.

    Attributes:
        kind: CONFLICT, EMPTY, BEYOND, BROKEN or UNGATHERED of `vdla.sim.verify.touch`.
        index: the instruction.
        partner: the instruction that it conflicts with; -1 where there is none.
        memory: None: DRAM. Of UNGATHERED, the statistic.
        element: of the memory; a byte address in DRAM. Of UNGATHERED, the row.
    """

    kind: int
    index: int
    partner: int
    memory: MemoryType | Statistic | None
    element: int


def findings(
    program: DecodedStream, dram: ByteArray, *, filled: bool = False, stream_address: int | None = None
) -> list[Finding]:
    """Return the violations in a stream, at most MOST_FINDINGS.

    Args:
        program: the stream, decoded.
        dram: uint8[bytes]: what DRAM holds before, for the micro-ops.
        filled: scratchpads hold what an earlier stream has left there.
        stream_address: byte address at which the stream will run; None: outside DRAM.

    Raises:
        OverwriteError: it would modify itself.
        InvalidInstructionError, DeadlockError, UnfinishedError: it cannot run to its end.
    """
    refuse_overwrites(program, stream_address)
    interleaving = interleave(program)
    if interleaving.error is not None:
        raise interleaving.error
    refuse_unknown(program, interleaving.order)
    items, walks = footprint_columns(program)
    shadow = new_shadow(program.config, items, walks, len(dram), filled=filled)
    watch = _watch(program, dram, shadow, walks, interleaving.order)
    follow(interleaving.order, items, program.unit, watch)
    return [
        Finding(kind, index, partner, _memory(kind, memory), element)
        for kind, index, partner, memory, element in watch.findings[: watch.state[0]].tolist()
    ]


def _memory(kind: int, memory: int) -> MemoryType | Statistic | None:
    """Return the memory of a finding, or its statistic."""
    if kind == kinds.UNGATHERED:
        return Statistic(memory)
    return None if memory == DRAM else MemoryType(memory)


def _watch(
    program: DecodedStream, dram: ByteArray, shadow: Shadow, walks: RecordArray, order: IntArray
) -> kinds.Watch:
    """Return what is known before a stream is followed in `order`, and room for findings."""
    size = program.config.uop_bits // 8
    return kinds.Watch(
        shadow,
        clocks(program, order),
        np.zeros(program.config.depth(MemoryType.UOP), np.int64),
        dram[: len(dram) // size * size].view("<u4" if size == 4 else "<i8"),
        walks,
        np.array([NEVER, 0]),
        np.zeros(isa.NORMAL_ROWS, np.int64),
        np.zeros((MOST_FINDINGS, 5), np.int64),
        np.zeros(1, np.int64),
        len(dram),
        size,
    )


def verify(
    program: DecodedStream, dram: ByteArray, *, filled: bool = False, stream_address: int | None = None
) -> None:
    """Raise an error if a stream is unsafe; see `findings`.

    Raises:
        VerificationError: naming instructions, memory and element, and the missing token.
        OverwriteError: it would modify itself.
        InvalidInstructionError, DeadlockError, UnfinishedError: it cannot run to its end.
    """
    violations = findings(program, dram, filled=filled, stream_address=stream_address)
    if violations:
        raise VerificationError(describe(violations[0], program), violations[0].index)


def verify_once(program: DecodedStream, dram: ByteArray, *, stream_address: int) -> None:
    """Raise an error if a stream is unsafe, as `verify` does.

    Nothing is verified if the cache holds an entry for this stream, which only a verification without
    findings writes. The key of the entry is a digest of whatever decides the verdict, see `verdict_key`.
    """
    key = verdict_key(program, dram, stream_address)
    if VERIFIED.read(key) is None:
        verify(program, dram, stream_address=stream_address)
        VERIFIED.write(key, b"")


def verdict_key(program: DecodedStream, dram: ByteArray, stream_address: int) -> str:
    """Return a digest (hex) of whatever decides whether a stream is safe: the verifier's sources, the
    configuration, the stream and its place, the size of DRAM and the micro-ops that the stream loads."""
    loads = dram_rows(program, isa.Load)
    micro_ops = loads.chosen(loads.memory == MemoryType.UOP).spans()
    return digest_of(
        [
            revision(Path(__file__).parent),
            program.config.digest,
            f"{len(program)} instructions at {stream_address}, {len(dram)} bytes of DRAM",
            program.words.tobytes(),
            *(dram[begin:end].tobytes() for begin, end in zip(*micro_ops, strict=True)),
        ]
    )


def describe(finding: Finding, program: DecodedStream) -> str:
    """Return a finding in words."""
    place = (
        f"DRAM byte {finding.element:#x}"
        if finding.memory is None
        else f"{finding.memory.name} element {finding.element}"
    )
    who = program.describe(finding.index)
    match finding.kind:
        case kinds.BEYOND:
            return f"{who} reaches {place}, which does not exist"
        case kinds.EMPTY:
            return f"{who} reads {place}, which nothing has written"
        case kinds.UNGATHERED:
            assert finding.memory is not None
            name = finding.memory.name
            return (
                f"{who} uses the statistic {name} of row {finding.element}, which no NORMALISE before it "
                f"gathers; gather {name} of all elements of the row first, beginning with `anew`"
            )
        case kinds.BROKEN:
            return (
                f"{who} promises by `beside` to write no half of ACC in which "
                f"{program.describe(finding.partner)} works, and writes {place}; load elements of the other "
                "half, or leave the flag out"
            )
    return (
        f"{who} and {program.describe(finding.partner)} both use {place}, and no token orders them: "
        f"{_missing(finding, program)}"
    )


def _missing(finding: Finding, program: DecodedStream) -> str:
    """Return which token would order two instructions."""
    first, second = Unit(program.unit[finding.partner]), Unit(program.unit[finding.index])
    edge = next((edge for edge in TOKEN_EDGES if (edge.producer, edge.consumer) == (first, second)), None)
    if edge is None:
        return f"tokens {first.name.lower()}->compute->{second.name.lower()} are missing"
    return (
        f"a token {edge} is missing, pushed by the {first.name.lower()} unit from instruction "
        f"{finding.partner} on and popped by the "
        f"{second.name.lower()} unit up to instruction {finding.index}"
    )


UNITS = len(Unit)


def pushers(program: DecodedStream) -> IntArray:
    """Return int64[n, edges]: the instruction whose token each instruction pops, by edge; -1 where it pops
    none."""
    pushed_by = np.full((len(program), len(TOKEN_EDGES)), -1)
    for number in range(len(TOKEN_EDGES)):
        pushing, popping = np.flatnonzero(program.pushes[:, number]), np.flatnonzero(program.pops[:, number])
        matched = min(len(pushing), len(popping))
        pushed_by[popping[:matched], number] = pushing[:matched]
    return pushed_by


def clocks(program: DecodedStream, order: IntArray) -> IntArray:
    """Return int64[n, units]: the last instruction of each unit that is done when an instruction starts; -1:
    none is known to be.

    Args:
        order: a legal order of execution.
    """
    known = np.full((len(program), UNITS), -1)
    latest = np.full((UNITS, UNITS), -1)
    _fill(order, program.unit, pushers(program), known, latest)
    return known


@whole
def _fill(order: Ints, unit: Ints, pushed_by: Grid, known: Grid, latest: Grid) -> None:
    for place in range(order.size):
        index = order[place]
        consumer = unit[index]
        for edge in range(pushed_by.shape[1]):
            pusher = pushed_by[index, edge]
            if pusher >= 0:
                for column in range(known.shape[1]):
                    latest[consumer, column] = max(latest[consumer, column], known[pusher, column])
                latest[consumer, unit[pusher]] = max(latest[consumer, unit[pusher]], pusher)
        for column in range(known.shape[1]):
            known[index, column] = latest[consumer, column]
