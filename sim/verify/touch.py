"""Accounting for accesses: each is held against the last ones of other units, and against what is there."""

from vdla.hw.spec.units import Unit
from vdla.sim.compiled import part

CONFLICT, EMPTY, BEYOND = 1, 2, 3  # kinds of findings
DRAM = 7  # stands for a memory type in findings
PAGE_SHIFT = 12
UNITS = len(Unit)


@part
def report(findings, state, kind, index, other, memory, element):
    """Write a finding down, unless there is no more room."""
    if state[0] < findings.shape[0]:
        findings[state[0], 0], findings[state[0], 1], findings[state[0], 2] = kind, index, other
        findings[state[0], 3], findings[state[0], 4] = memory, element
        state[0] += 1


@part
def touch(shadow, place, unit, index, known, writes, needs, findings, state, memory, element):
    """Account for one access; `needs`: it must find something there. A repeated access is reported once."""
    accesses = shadow.written if writes else shadow.read
    if accesses[place, unit] == index:
        return
    if needs and not shadow.filled[place]:
        report(findings, state, EMPTY, index, -1, memory, element)
        shadow.filled[place] = True  # say so once
    for other in range(UNITS):
        if other != unit:
            last = shadow.written[place, other]
            if writes:
                last = max(last, shadow.read[place, other])
            if last > known[index, other]:
                report(findings, state, CONFLICT, index, last, memory, element)
    accesses[place, unit] = index
    if writes:
        shadow.filled[place] = True


@part
def touch_dram(shadow, address, size, unit, index, known, writes, findings, state, dram_bytes):
    """Account for `size` bytes of DRAM; return whether they exist."""
    if address < 0 or address + size > dram_bytes:
        report(findings, state, BEYOND, index, -1, DRAM, address)
        return False
    for number in range((size + shadow.granule - 1) // shadow.granule):
        byte = address + number * shadow.granule
        page = shadow.pages[byte >> PAGE_SHIFT]
        place = (
            shadow.dram_first + ((page << PAGE_SHIFT) + (byte & ((1 << PAGE_SHIFT) - 1))) // shadow.granule
        )
        touch(shadow, place, unit, index, known, writes, False, findings, state, DRAM, byte)
    return True


@part
def touch_operand(shadow, memory, element, unit, index, known, writes, needs, findings, state):
    """Account for one element on chip; return whether it exists."""
    if element >= shadow.depth[memory]:
        report(findings, state, BEYOND, index, -1, memory, element)
        return False
    touch(
        shadow,
        shadow.first[memory] + element,
        unit,
        index,
        known,
        writes,
        needs,
        findings,
        state,
        memory,
        element,
    )
    return True
