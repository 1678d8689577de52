"""Following a stream: every access of every instruction.

The time is bounded by the instructions and the size of the memories on chip, not by loop steps.
"""

from vdla.hw.spec.footprint import MOST_ACCESSES
from vdla.sim.compiled import part, whole
from vdla.sim.records import ByteArray, IntArray, Ints, RecordArray, Records
from vdla.sim.verify.columns import DRAM, LOAD_FROM_DRAM, LOAD_ON_CHIP, Item, Walk
from vdla.sim.verify.loops import follow_loops
from vdla.sim.verify.touch import (
    BEYOND,
    BROKEN,
    Access,
    Watch,
    half_of,
    report,
    touch_dram,
    touch_operand,
)

ELEMENTS_AT_ONCE = 1 << 26
"""Elements that may be touched between two looks at Python's signals: below a second."""


def follow(order: IntArray, items: RecordArray, units: ByteArray, watch: Watch) -> None:
    """Follow the instructions of `order`, a few at a time so that Ctrl-C is heard.

    Args:
        items: ITEM[n].
        units: uint8[n].
        watch: what is known before; what is wrong afterwards.
    """
    at_once = max(1, ELEMENTS_AT_ONCE // watch.shadow.dram_first)
    for begin in range(0, len(order), at_once):
        _follow(order[begin : begin + at_once], items, units, watch)


@part
def follow_transfer(watch: Watch, item: Item, unit: int, index: int) -> None:
    """Follow the walks of an instruction without micro-ops; one that leaves a scratchpad touches nothing."""
    first = index * MOST_ACCESSES
    for place in range(0 if item.fits else MOST_ACCESSES):
        if report_beyond(watch, watch.walks[first + MOST_ACCESSES - 1 - place], index):
            return
    for number in range(MOST_ACCESSES):
        walk = watch.walks[first + number]
        if walk.happens and not follow_walk(watch, walk, Access(unit, index, walk.writes, walk.needs)):
            return
    if item.beside:
        hold_to_promise(watch, watch.walks[first + LOAD_ON_CHIP], index)
    if item.fills:
        fill_uops(watch, watch.walks[first + LOAD_ON_CHIP], watch.walks[first + LOAD_FROM_DRAM])


@part
def report_beyond(watch: Watch, walk: Walk, index: int) -> bool:
    """Report the first element that a walk on chip does not find in its memory; return whether there is
    one."""
    if not walk.happens or walk.memory == DRAM:
        return False
    depth = watch.shadow.depth[walk.memory]
    last = walk.base + (walk.trips_out - 1) * walk.step_out + (walk.trips_in - 1) * walk.step_in
    if last >= depth:
        report(watch, BEYOND, index, -1, walk.memory, max(walk.base, depth))
    return last >= depth


@part
def follow_walk(watch: Watch, walk: Walk, access: Access) -> bool:
    """Account for all that a walk touches; return whether it exists."""
    for i in range(walk.trips_out):
        begin = walk.base + i * walk.step_out
        if walk.memory == DRAM:
            if not touch_dram(watch, access, begin, walk.trips_in * walk.step_in):
                return False
        else:
            for j in range(walk.trips_in):
                touch_operand(watch, access, walk.memory, begin + j * walk.step_in)
    return True


@part
def hold_to_promise(watch: Watch, chip: Walk, index: int) -> None:
    """Report a LOAD that writes a half of ACC in which the last instruction with steps works."""
    if not chip.happens:
        return
    last = chip.base + (chip.trips_out - 1) * chip.step_out + (chip.trips_in - 1) * chip.step_in
    for element in (chip.base, last):
        if watch.worked[1] >> half_of(watch, element) & 1:
            report(watch, BROKEN, index, watch.worked[0], chip.memory, element)
            return


@part
def fill_uops(watch: Watch, chip: Walk, dram: Walk) -> None:
    """Do to the model of the micro-op memory what a LOAD does."""
    if not chip.happens:
        return
    for i in range(chip.trips_out):
        row = i - chip.before_out
        for j in range(chip.trips_in):
            column = j - chip.before_in
            read = dram.happens and 0 <= row < dram.trips_out and 0 <= column < dram.trips_in
            source = (dram.base + row * dram.step_out) // watch.uop_bytes + column
            place = chip.base + i * chip.step_out + j * chip.step_in
            watch.uops[place] = watch.words[source] if read else 0


@whole
def _follow(order: Ints, items: Records[Item], units: Ints, watch: Watch) -> None:
    """Follow the instructions of `order`; the findings of `watch` tell what is wrong."""
    for place in range(order.size):
        index = order[place]
        item, unit = items[index], units[index]
        if item.steps:
            watch.worked[0], watch.worked[1] = index, 0
            follow_loops(watch, item, Access(unit, index, False, True))
        else:
            follow_transfer(watch, item, unit, index)
