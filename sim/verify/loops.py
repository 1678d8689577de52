"""Following GEMM and ALU instructions: short ones step by step, long ones by the sets of elements that they
touch.

Both ways find the same. Within one instruction the order of accesses to an element does not matter: an
accumulator that is read and written is always read first, a GEMM that begins anew reads none, the other
operands of a GEMM stand in other memories, and accesses of one unit never change what is known of the others.
So a long instruction reports operand by operand (micro-ops, sources, weights, destinations), the lowest
element first; a short one, in the order of its steps. Either way, the first step that reaches too far comes
last and ends the instruction.
"""

from collections import namedtuple

from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.compiled import part
from vdla.sim.verify.touch import touch_operand

GEMM = int(isa.Gemm.opcode)
UOP, WGT, INP, ACC = (int(getattr(MemoryType, name)) for name in ("UOP", "WGT", "INP", "ACC"))
SRC_OPERAND, WGT_OPERAND, DST_OPERAND = 0, 1, 2  # in the order in which a step touches them
OPERANDS = 3
NEVER = 1 << 40  # a trip that no loop has
NOWHERE = -1

Operand = namedtuple(
    "Operand",
    (
        "memory",
        "start",
        "width",  # of its field in a micro-op
        "factor_out",
        "factor_in",
    ),
)
Box = namedtuple(
    "Box",
    (  # some steps of an instruction
        "first_out",
        "trips_out",
        "first_in",
        "trips_in",
        "end",
    ),
)  # one past the last micro-op


@part
def operand_of(item, number, widths):
    """Return an operand of an instruction."""
    if number == DST_OPERAND:
        return Operand(ACC, 0, widths[0], item.dst_factor_out, item.dst_factor_in)
    if number == SRC_OPERAND:
        memory = INP if item.opcode == GEMM else ACC
        return Operand(memory, widths[0], widths[1], item.src_factor_out, item.src_factor_in)
    return Operand(WGT, widths[0] + widths[1], widths[2], item.wgt_factor_out, item.wgt_factor_in)


@part
def has_operand(item, number):
    """Whether an instruction touches an operand at all."""
    if number == DST_OPERAND:
        return True
    if item.opcode == GEMM:
        return item.reset == 0
    return number == SRC_OPERAND and item.use_imm == 0


@part
def needs_operand(item, number):
    """Whether an operand must hold something: all but the accumulators that a GEMM begins anew."""
    return number != DST_OPERAND or item.opcode != GEMM or (item.reset == 0 and item.overwrite == 0)


@part
def base_of(operand, word):
    """Return the element that a micro-op names before the loops add to it."""
    return (word >> operand.start) & ((1 << operand.width) - 1)


@part
def follow_loops(item, index, unit, shadow, known, uops, widths, findings, state):
    """Follow a GEMM or ALU instruction up to the first step that reaches too far."""
    micro_ops = item.uop_end - item.uop_begin
    steps = item.iter_out * item.iter_in * micro_ops
    if micro_ops <= 0 or steps == 0:
        return
    begin = 0
    if steps > shadow.nearest.size and item.uop_end <= shadow.depth[UOP]:
        begin = steps
        for number in range(OPERANDS):
            if has_operand(item, number):
                begin = min(begin, steps_inside(item, operand_of(item, number, widths), shadow, uops))
        follow_sets(item, index, unit, shadow, known, uops, widths, findings, state, begin)
    if (
        begin < steps
    ):  # short, or a single step that reaches too far, or ended by the end of the micro-op memory
        follow_steps(item, index, unit, shadow, known, uops, widths, findings, state, begin)


@part
def follow_steps(item, index, unit, shadow, known, uops, widths, findings, state, begin):
    """Follow the steps from number `begin` on, one by one."""
    micro_ops = item.uop_end - item.uop_begin
    row, first = begin // micro_ops, item.uop_begin + begin % micro_ops
    first_out, first_in = row // item.iter_in, row % item.iter_in
    for i in range(first_out, item.iter_out):
        for j in range(first_in, item.iter_in):
            for position in range(first, item.uop_end):
                if not follow_step(
                    item, index, unit, shadow, known, uops, widths, findings, state, i, j, position
                ):
                    return
            first = item.uop_begin
        first_in = 0


@part
def follow_step(item, index, unit, shadow, known, uops, widths, findings, state, i, j, position):
    """Follow one step; return whether all that it touches exists."""
    if not touch_operand(shadow, UOP, position, unit, index, known, False, True, findings, state):
        return False
    fine = True
    for number in range(OPERANDS):
        if (fine or number == WGT_OPERAND) and has_operand(item, number):
            operand = operand_of(item, number, widths)
            element = base_of(operand, uops[position]) + i * operand.factor_out + j * operand.factor_in
            fine &= touch_operand(
                shadow,
                operand.memory,
                element,
                unit,
                index,
                known,
                number == DST_OPERAND,
                needs_operand(item, number),
                findings,
                state,
            )
    return fine


@part
def steps_inside(item, operand, shadow, uops):
    """Return how many steps come before the first in which an operand is outside its memory; all where none
    is."""
    trips_out, trips_in, micro_ops = item.iter_out, item.iter_in, item.uop_end - item.uop_begin
    depth, greatest = shadow.depth[operand.memory], 0
    for position in range(item.uop_begin, item.uop_end):
        greatest = max(greatest, base_of(operand, uops[position]))
    room = depth - greatest  # what the loops may not add
    i = trips_before(room - (trips_in - 1) * operand.factor_in, operand.factor_out)
    if i >= trips_out:
        return trips_out * trips_in * micro_ops
    j = trips_before(room - i * operand.factor_out, operand.factor_in)
    added = i * operand.factor_out + j * operand.factor_in
    inside = 0
    while base_of(operand, uops[item.uop_begin + inside]) + added < depth:
        inside += 1
    return (i * trips_in + j) * micro_ops + inside


@part
def trips_before(distance, factor):
    """Return how many trips of a loop add less than `distance`, before one adds as much."""
    if distance <= 0:
        return 0
    return NEVER if factor == 0 else (distance + factor - 1) // factor


@part
def follow_sets(item, index, unit, shadow, known, uops, widths, findings, state, steps):
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
            follow_box(item, index, unit, shadow, known, uops, widths, findings, state, box)


@part
def follow_box(item, index, unit, shadow, known, uops, widths, findings, state, box):
    """Follow the steps of a box: its micro-ops, then the set of elements of each operand."""
    for position in range(item.uop_begin, box.end):
        touch_operand(shadow, UOP, position, unit, index, known, False, True, findings, state)
    for number in range(OPERANDS):
        if has_operand(item, number):
            operand = operand_of(item, number, widths)
            depth = shadow.depth[operand.memory]
            mark_set(item, operand, uops, box, shadow.nearest[:depth])
            for element in range(depth):
                if shadow.nearest[element] != NOWHERE:
                    touch_operand(
                        shadow,
                        operand.memory,
                        element,
                        unit,
                        index,
                        known,
                        number == DST_OPERAND,
                        needs_operand(item, number),
                        findings,
                        state,
                    )


@part
def mark_set(item, operand, uops, box, nearest):
    """Leave NOWHERE in `nearest` for all elements but those that an operand names in the steps of a box."""
    nearest[:] = NOWHERE
    added = box.first_out * operand.factor_out + box.first_in * operand.factor_in
    for position in range(item.uop_begin, box.end):
        element = base_of(operand, uops[position]) + added
        nearest[element] = element
    spread(nearest, operand.factor_in, box.trips_in)
    spread(nearest, operand.factor_out, box.trips_out)


@part
def spread(nearest, factor, trips):
    """Add to a set every element that lies 1 to `trips - 1` times `factor` above one of it.

    Linear in the memory, whatever the trips: each element hands on to the one `factor` above it the nearest
    element of the set at or below itself.
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
