"""Accounting for accesses: each is checked against the last accesses of other units, and for data there."""

from typing import NamedTuple

from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.compiled import part
from vdla.sim.records import Grid, IntArray, Ints, Records
from vdla.sim.verify.columns import DRAM, Walk
from vdla.sim.verify.shadow import Shadow

CONFLICT, EMPTY, BEYOND, BROKEN, UNGATHERED = 1, 2, 3, 4, 5  # kinds of findings
PAGE_SHIFT = 12
UNITS = len(Unit)
ACC = int(MemoryType.ACC)


class Watch(NamedTuple):
    """What is known while a stream is followed.

    Attributes:
        shadow: who touched each element last, and whether it holds anything.
        known: int64[n, units]: the last instruction of each unit that is done when an instruction starts.
        uops: int64[depth]: the micro-op memory.
        words: uint32 or int64[...]: DRAM, from which micro-ops come, each of `uop_bytes`.
        walks: WALK[n * MOST_ACCESSES]: the accesses of each instruction.
        worked: int64[2]: the last instruction with steps, and a bit for each half of ACC that it touches.
        gathered: int64[rows]: a bit for each statistic of a row that the stream has gathered.
        findings, state: int64[most, 5] and int64[1]: what is wrong, and how much of it.
        dram_bytes, uop_bytes: size of DRAM, and of an encoded micro-op.
    """

    shadow: Shadow
    known: Grid
    uops: Ints
    words: Ints
    walks: Records[Walk]
    worked: Ints
    gathered: Ints
    findings: IntArray
    state: Ints
    dram_bytes: int
    uop_bytes: int


class Access(NamedTuple):
    """An access of an instruction of `unit`: it writes or reads, and needs something there or not."""

    unit: int
    instruction: int
    writes: bool
    needs: bool


@part
def report(watch: Watch, kind: int, index: int, partner: int, memory: int, element: int) -> None:
    """Write a finding down, unless there is no more room."""
    findings, row = watch.findings, watch.state[0]
    if row < findings.shape[0]:
        findings[row, 0], findings[row, 1], findings[row, 2] = kind, index, partner
        findings[row, 3], findings[row, 4] = memory, element
        watch.state[0] += 1


@part
def touch(watch: Watch, access: Access, place: int, memory: int, element: int) -> None:
    """Account for one access to an element, which stands at `place` in the tables. A repeated access is
    reported once."""
    shadow, unit, index = watch.shadow, access.unit, access.instruction
    accesses = shadow.written if access.writes else shadow.read
    if accesses[place, unit] == index:
        return
    if access.needs and not shadow.filled[place]:
        report(watch, EMPTY, index, -1, memory, element)
        shadow.filled[place] = True  # say so once
    for other_unit in range(UNITS):
        if other_unit != unit:
            last = shadow.written[place, other_unit]
            if access.writes:
                last = max(last, shadow.read[place, other_unit])
            if last > watch.known[index, other_unit]:
                report(watch, CONFLICT, index, last, memory, element)
    accesses[place, unit] = index
    if access.writes:
        shadow.filled[place] = True


@part
def touch_dram(watch: Watch, access: Access, address: int, size: int) -> bool:
    """Account for `size` bytes of DRAM; return whether they exist."""
    if address < 0 or address + size > watch.dram_bytes:
        report(watch, BEYOND, access.instruction, -1, DRAM, address)
        return False
    shadow = watch.shadow
    byte, end = address, address + size
    while byte < end:
        page = byte >> PAGE_SHIFT
        shift = shadow.shifts[page]
        place = shadow.pages[page] + ((byte & ((1 << PAGE_SHIFT) - 1)) >> shift)
        touch(watch, access, place, DRAM, byte)
        byte += 1 << shift
    return True


@part
def touch_operand(watch: Watch, access: Access, memory: int, element: int) -> bool:
    """Account for one element on chip; return whether it exists."""
    if element >= watch.shadow.depth[memory]:
        report(watch, BEYOND, access.instruction, -1, memory, element)
        return False
    if memory == ACC and access.instruction == watch.worked[0]:
        watch.worked[1] |= 1 << half_of(watch, element)
    touch(watch, access, watch.shadow.first[memory] + element, memory, element)
    return True


@part
def half_of(watch: Watch, element: int) -> int:
    """Return the half of ACC in which an element stands: 0 or 1."""
    return 2 * element // watch.shadow.depth[ACC]
