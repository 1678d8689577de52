"""Following a stream: every access of every instruction.

The time is bounded by the instructions and the size of the memories on chip, not by loop steps.
"""

from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.sim.compiled import part, whole
from vdla.sim.records import ByteArray, IntArray, Ints, RecordArray, Records
from vdla.sim.verify.columns import Touch
from vdla.sim.verify.loops import follow_loops
from vdla.sim.verify.touch import BEYOND, Access, Watch, report, touch, touch_dram, touch_operand

LOAD, STORE, GEMM, ALU = (int(form.opcode) for form in (isa.Load, isa.Store, isa.Gemm, isa.Alu))
UOP, ACC = int(MemoryType.UOP), int(MemoryType.ACC)
PARAMETERS = len(Parameter)
ELEMENTS_AT_ONCE = 1 << 26
"""Elements that may be touched between two looks at Python's signals: below a second."""


def follow(order: IntArray, columns: RecordArray, units: ByteArray, watch: Watch) -> None:
    """Follow the instructions of `order`, a few at a time so that Ctrl-C is heard.

    Args:
        columns: TOUCH[n].
        units: uint8[n].
        watch: what is known before; what is wrong afterwards.
    """
    at_once = max(1, ELEMENTS_AT_ONCE // watch.shadow.dram_first)
    for begin in range(0, len(order), at_once):
        _follow(order[begin : begin + at_once], columns, units, watch)


@part
def follow_load(watch: Watch, item: Touch, unit: int, index: int) -> None:
    """Follow a LOAD: padding and rows into a memory, micro-ops into the model of theirs."""
    if item.x_size == 0:
        return
    memory, rows = item.memory_type, item.y_pad_0 + item.y_size + item.y_pad_1
    columns = item.x_pad_0 + item.x_size + item.x_pad_1
    if item.sram_base + rows * columns > watch.shadow.depth[memory]:
        report(watch, BEYOND, index, -1, memory, item.sram_base + rows * columns - 1)
        return
    first = watch.shadow.first[memory]
    for y in range(rows):
        inside = item.y_pad_0 <= y < item.y_pad_0 + item.y_size
        start = (item.dram_base + (y - item.y_pad_0) * item.x_stride) * item.element_bytes
        size = item.x_size * item.element_bytes
        if inside and not touch_dram(watch, Access(unit, index, False, False), start, size):
            return
        for x in range(columns):
            element = item.sram_base + y * columns + x
            touch(watch, Access(unit, index, True, False), first + element, memory, element)
            if memory == UOP:
                read = inside and item.x_pad_0 <= x < item.x_pad_0 + item.x_size
                watch.uops[element] = watch.words[start // 4 + x - item.x_pad_0] if read else 0


@part
def follow_store(watch: Watch, item: Touch, unit: int, index: int) -> None:
    """Follow a STORE: parameters, and accumulators to rows."""
    if item.x_size == 0:
        return
    reading, writing = Access(unit, index, False, True), Access(unit, index, True, False)
    if item.sram_base + item.y_size * item.x_size > watch.shadow.depth[ACC]:
        report(watch, BEYOND, index, -1, ACC, item.sram_base + item.y_size * item.x_size - 1)
        return
    for row in range(PARAMETERS if item.parameters and item.y_size else 0):
        if not touch_operand(watch, reading, ACC, (item.parameters - 1) * PARAMETERS + row):
            return
    for y in range(item.y_size):
        start = (item.dram_base + y * item.x_stride) * item.element_bytes
        if not touch_dram(watch, writing, start, item.x_size * item.element_bytes):
            return
        for x in range(item.x_size):
            element = item.sram_base + y * item.x_size + x
            touch(watch, reading, watch.shadow.first[ACC] + element, ACC, element)


@whole
def _follow(order: Ints, columns: Records[Touch], units: Ints, watch: Watch) -> None:
    """Follow the instructions of `order`; the findings of `watch` tell what is wrong."""
    for place in range(order.size):
        index = order[place]
        item, unit = columns[index], units[index]
        if item.opcode == LOAD:
            follow_load(watch, item, unit, index)
        elif item.opcode == STORE:
            follow_store(watch, item, unit, index)
        elif item.opcode == GEMM or item.opcode == ALU:
            follow_loops(watch, item, Access(unit, index, False, True))
