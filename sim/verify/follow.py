"""Following a stream: every access of every instruction.

The time is bounded by the instructions and the size of the memories on chip, not by loop steps. Of
instructions with micro-ops, short loops are followed step by step, long loops by sets of elements.

Both ways have the same result, because the order of accesses to an element does not matter within an
instruction. An accumulator that is read and written is always read first. A GEMM that resets its accumulators
reads none, and its other operands stand in other memories. Accesses of a unit never change what is known of
the other units. So a long instruction reports operand by operand (micro-ops, sources, weights, destinations),
the lowest element first; a short instruction, in the order of its steps. Either way, the first step that
reaches too far comes last and ends the instruction. DEPTHWISE is followed row by row, and operand by operand
in each row: first its sources, then its destinations.
"""

from typing import NamedTuple

from vdla.hw.spec.footprint import MOST_ACCESSES
from vdla.hw.spec.vocabulary import MemoryType, Statistic
from vdla.sim.compiled import part, whole
from vdla.sim.records import ByteArray, IntArray, Ints, RecordArray, Records
from vdla.sim.verify.columns import DRAM, LOAD_FROM_DRAM, LOAD_ON_CHIP, Item, Walk
from vdla.sim.verify.touch import (
    BEYOND,
    BROKEN,
    UNGATHERED,
    Access,
    Watch,
    half_of,
    report,
    touch_dram,
    touch_operand,
)

UOP = int(MemoryType.UOP)
STATISTICS = len(Statistic)
NEVER = 1 << 40  # a trip that no loop has
NOWHERE = -1
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
    """Follow the walks of an instruction without micro-ops. A walk that leaves a scratchpad has no effect."""
    first = index * MOST_ACCESSES
    for place in range(0 if item.fits else MOST_ACCESSES):
        if report_beyond(watch, watch.walks[first + MOST_ACCESSES - 1 - place], index):
            return
    for number in range(MOST_ACCESSES):
        walk = watch.walks[first + number]
        if walk.happens and not follow_walk(watch, walk, Access(unit, index, walk.writes, walk.needs)):
            return
    if item.normal_rows:
        follow_statistics(watch, item, index)
    if item.beside:
        hold_to_promise(watch, watch.walks[first + LOAD_ON_CHIP], index)
    if item.fills:
        fill_uops(watch, watch.walks[first + LOAD_ON_CHIP], watch.walks[first + LOAD_FROM_DRAM])


@part
def report_beyond(watch: Watch, walk: Walk, index: int) -> bool:
    """Report the first element that a walk on chip does not find in its memory; return whether there is
    such an element."""
    if not walk.happens or walk.memory == DRAM:
        return False
    depth = watch.shadow.depth[walk.memory]
    for i in range(walk.trips_out):
        begin = walk.base + i * walk.step_out
        if begin + (walk.trips_in - 1) * walk.step_in >= depth:
            trip = -(-max(0, depth - begin) // max(walk.step_in, 1))
            report(watch, BEYOND, index, -1, walk.memory, begin + trip * walk.step_in)
            return True
    return False


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
def follow_statistics(watch: Watch, item: Item, index: int) -> None:
    """Report the statistics that a NORMALISE uses and the stream has not gathered, row by row; note which it
    gathers."""
    for row in range(item.normal_rows):
        missing = item.uses & ~watch.gathered[row]
        for statistic in range(STATISTICS):
            if missing >> statistic & 1:
                report(watch, UNGATHERED, index, -1, statistic, row)
        watch.gathered[row] |= item.uses | item.gathers  # say so once


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


class Box(NamedTuple):
    """Some steps of an instruction. Of a DEPTHWISE, `trips_in` is NEVER: every operand has separate inner
    trips."""

    first_out: int
    trips_out: int
    first_in: int
    trips_in: int
    end: int  # behind the last micro-op


@part
def base_of(walk: Walk, word: int) -> int:
    """Return the element that a micro-op names before the loops add to it; `walk`: of an operand."""
    return walk.base + ((word >> walk.uop_start) & ((1 << walk.uop_width) - 1))


@part
def walk_of(watch: Watch, access: Access, number: int) -> Walk:
    """Return a walk of an instruction."""
    return watch.walks[access.instruction * MOST_ACCESSES + number]


@part
def walking(access: Access, walk: Walk) -> Access:
    """Return how an instruction accesses an operand."""
    return Access(access.unit, access.instruction, walk.writes, walk.needs)


@part
def follow_loops(watch: Watch, item: Item, access: Access) -> None:
    """Follow an instruction up to the first step that reaches too far; `access`: to micro-ops."""
    micro_ops, shadow = item.uop_end - item.uop_begin, watch.shadow
    steps = item.iter_out * item.iter_in * micro_ops
    if micro_ops <= 0 or steps == 0:
        return
    if item.rows:
        follow_rows(watch, item, access)
        return
    begin = 0
    if steps > shadow.nearest.size and item.uop_end <= shadow.depth[UOP]:
        begin = steps
        for number in range(MOST_ACCESSES):
            walk = walk_of(watch, access, number)
            if walk.happens:
                begin = min(begin, steps_inside(watch, item, walk))
        follow_sets(watch, item, access, begin)
    if begin < steps:
        # short, or a single step that reaches too far, or ended by the end of the micro-op memory
        follow_steps(watch, item, access, begin)


@part
def follow_steps(watch: Watch, item: Item, access: Access, begin: int) -> None:
    """Follow the steps from number `begin` on, step by step."""
    micro_ops = item.uop_end - item.uop_begin
    row, first = begin // micro_ops, item.uop_begin + begin % micro_ops
    first_out, first_in = row // item.iter_in, row % item.iter_in
    for i in range(first_out, item.iter_out):
        for j in range(first_in, item.iter_in):
            for position in range(first, item.uop_end):
                if not follow_step(watch, item, access, i, j, position):
                    return
            first = item.uop_begin
        first_in = 0


@part
def follow_step(watch: Watch, item: Item, access: Access, i: int, j: int, position: int) -> bool:
    """Follow one step; return whether all that it touches exists."""
    if not touch_operand(watch, access, UOP, position):
        return False
    fine = True
    for number in range(MOST_ACCESSES):
        walk = walk_of(watch, access, number)
        if walk.happens and (fine or not walk.writes):
            element = base_of(walk, watch.uops[position]) + i * walk.step_out + j * walk.step_in
            fine &= touch_operand(watch, walking(access, walk), walk.memory, element)
    return fine


@part
def follow_rows(watch: Watch, item: Item, access: Access) -> None:
    """Follow a DEPTHWISE up to the first row that reaches too far: long loops by sets of elements up to the
    outer trip of that row."""
    first, shadow = 0, watch.shadow
    steps = item.iter_out * item.iter_in * (item.uop_end - item.uop_begin)
    if steps > shadow.nearest.size and item.uop_end <= shadow.depth[UOP]:
        first = item.iter_out
        for number in range(MOST_ACCESSES):
            walk = walk_of(watch, access, number)
            if walk.happens:
                first = min(first, trips_inside(watch, item, walk))
        if first:
            follow_box(watch, item, access, Box(0, first, 0, NEVER, item.uop_end))
    for i in range(first, item.iter_out):
        for position in range(item.uop_begin, item.uop_end):
            if not follow_row(watch, item, access, i, position):
                return


@part
def follow_row(watch: Watch, item: Item, access: Access, i: int, position: int) -> bool:
    """Follow the row of a micro-op in an outer trip; return whether all that it touches exists."""
    if not touch_operand(watch, access, UOP, position):
        return False
    fine = True
    for number in range(MOST_ACCESSES):
        walk = walk_of(watch, access, number)
        if walk.happens and (fine or not walk.writes):
            first = base_of(walk, watch.uops[position]) + i * walk.step_out
            for j in range(walk.trips_in if walk.step_in else 1):
                if not touch_operand(watch, walking(access, walk), walk.memory, first + j * walk.step_in):
                    fine = False
                    break
    return fine


@part
def trips_inside(watch: Watch, item: Item, walk: Walk) -> int:
    """Return how many outer trips come before the first in which an operand is outside its memory."""
    room = watch.shadow.depth[walk.memory] - greatest_base(watch, item, walk)
    return trips_before(room - (walk.trips_in - 1) * walk.step_in, walk.step_out)


@part
def greatest_base(watch: Watch, item: Item, walk: Walk) -> int:
    """Return the greatest element that micro-ops name before the loops add to it."""
    greatest = 0
    for position in range(item.uop_begin, item.uop_end):
        greatest = max(greatest, base_of(walk, watch.uops[position]))
    return greatest


@part
def steps_inside(watch: Watch, item: Item, walk: Walk) -> int:
    """Return how many steps come before the first in which an operand is outside its memory; all where none
    is."""
    trips_out, trips_in, micro_ops = item.iter_out, item.iter_in, item.uop_end - item.uop_begin
    uops, depth = watch.uops, watch.shadow.depth[walk.memory]
    room = depth - greatest_base(watch, item, walk)  # what the loops may not add
    i = trips_before(room - (trips_in - 1) * walk.step_in, walk.step_out)
    if i >= trips_out:
        return trips_out * trips_in * micro_ops
    j = trips_before(room - i * walk.step_out, walk.step_in)
    added = i * walk.step_out + j * walk.step_in
    inside = 0
    while base_of(walk, uops[item.uop_begin + inside]) + added < depth:
        inside += 1
    return (i * trips_in + j) * micro_ops + inside


@part
def trips_before(distance: int, factor: int) -> int:
    """Return how many trips of a loop add less than `distance`, before a trip adds as much."""
    if distance <= 0:
        return 0
    return NEVER if factor == 0 else (distance + factor - 1) // factor


@part
def follow_sets(watch: Watch, item: Item, access: Access, steps: int) -> None:
    """Follow the first `steps` steps, which all stay inside: boxes of outer trips, of inner trips, of
    micro-ops."""
    micro_ops = item.uop_end - item.uop_begin
    rows, part_of_row = steps // micro_ops, steps % micro_ops
    out, rest = rows // item.iter_in, rows % item.iter_in
    for number in range(3):
        box = Box(0, out, 0, item.iter_in, item.uop_end)
        if number == 1:
            box = Box(out, 1, 0, rest, item.uop_end)
        elif number == 2:
            box = Box(out, 1, rest, 1, item.uop_begin + part_of_row)
        if box.trips_out and box.trips_in and box.end > item.uop_begin:
            follow_box(watch, item, access, box)


@part
def follow_box(watch: Watch, item: Item, access: Access, box: Box) -> None:
    """Follow the steps of a box: its micro-ops, then the set of elements of each operand."""
    for position in range(item.uop_begin, box.end):
        touch_operand(watch, access, UOP, position)
    for number in range(MOST_ACCESSES):
        walk = walk_of(watch, access, number)
        if walk.happens:
            depth = watch.shadow.depth[walk.memory]
            nearest = watch.shadow.nearest[:depth]
            mark_set(watch, item, walk, box, nearest)
            for element in range(depth):
                if nearest[element] != NOWHERE:
                    touch_operand(watch, walking(access, walk), walk.memory, element)


@part
def mark_set(watch: Watch, item: Item, walk: Walk, box: Box, nearest: IntArray) -> None:
    """Leave NOWHERE in `nearest` for all elements that an operand does not name in the steps of a box."""
    nearest[:] = NOWHERE
    added = box.first_out * walk.step_out + box.first_in * walk.step_in
    for position in range(item.uop_begin, box.end):
        element = base_of(walk, watch.uops[position]) + added
        nearest[element] = element
    spread(nearest, walk.step_in, min(box.trips_in, walk.trips_in))
    spread(nearest, walk.step_out, box.trips_out)


@part
def spread(nearest: IntArray, factor: int, trips: int) -> None:
    """Add to a set every element that lies 1 to `trips - 1` times `factor` above an element of the set.

    Linear in the memory, whatever the trips: each element hands on to the element `factor` above it the
    nearest element of the set at or below itself.
    """
    if factor == 0:
        return
    for element in range(nearest.size):
        if nearest[element] != NOWHERE:
            nearest[element] = element
        elif element >= factor:
            below = nearest[element - factor]
            if below != NOWHERE and element - below < trips * factor:
                nearest[element] = below
