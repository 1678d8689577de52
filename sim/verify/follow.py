"""Following a stream: every access of every instruction.

The time is bounded by the instructions and the size of the memories on chip, not by loop steps.
"""

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.sim.compiled import part, whole
from vdla.sim.verify.loops import follow_loops
from vdla.sim.verify.shadow import Shadow
from vdla.sim.verify.touch import BEYOND, report, touch, touch_dram, touch_operand

LOAD, STORE, GEMM, ALU = (int(form.opcode) for form in (isa.Load, isa.Store, isa.Gemm, isa.Alu))
UOP, ACC = int(MemoryType.UOP), int(MemoryType.ACC)
PARAMETERS = len(Parameter)
ELEMENTS_AT_ONCE = 1 << 26
"""Elements that may be touched between two looks at Python's signals: below a second."""


def follow(order: np.ndarray, columns: np.ndarray, units: np.ndarray, shadow: Shadow, *rest: object) -> None:
    """Follow the instructions of `order`, a few at a time so that Ctrl-C is heard.

    Args:
        columns: TOUCH[n].
        units: uint8[n].
        rest: known, uops, words, widths, findings, state and dram_bytes, as for `_follow`.
    """
    at_once = max(1, ELEMENTS_AT_ONCE // shadow.dram_first)
    for begin in range(0, len(order), at_once):
        _follow(order[begin : begin + at_once], columns, units, shadow, *rest)


@part
def follow_load(item, index, unit, shadow, known, uops, words, findings, state, dram_bytes):
    """Follow a LOAD: padding and rows into a memory, micro-ops into the model of theirs."""
    memory = item.memory_type
    if item.x_size == 0:
        return
    rows, columns = item.y_pad_0 + item.y_size + item.y_pad_1, item.x_pad_0 + item.x_size + item.x_pad_1
    if item.sram_base + rows * columns > shadow.depth[memory]:
        report(findings, state, BEYOND, index, -1, memory, item.sram_base + rows * columns - 1)
        return
    for y in range(rows):
        inside = item.y_pad_0 <= y < item.y_pad_0 + item.y_size
        start = (item.dram_base + (y - item.y_pad_0) * item.x_stride) * item.element_bytes
        if inside and not touch_dram(
            shadow,
            start,
            item.x_size * item.element_bytes,
            unit,
            index,
            known,
            False,
            findings,
            state,
            dram_bytes,
        ):
            return
        for x in range(columns):
            element = item.sram_base + y * columns + x
            touch(
                shadow,
                shadow.first[memory] + element,
                unit,
                index,
                known,
                True,
                False,
                findings,
                state,
                memory,
                element,
            )
            if memory == UOP:
                read = inside and item.x_pad_0 <= x < item.x_pad_0 + item.x_size
                uops[element] = words[start // 4 + x - item.x_pad_0] if read else 0


@part
def follow_store(item, index, unit, shadow, known, findings, state, dram_bytes):
    """Follow a STORE: parameters, and accumulators to rows."""
    if item.x_size == 0:
        return
    if item.sram_base + item.y_size * item.x_size > shadow.depth[ACC]:
        report(findings, state, BEYOND, index, -1, ACC, item.sram_base + item.y_size * item.x_size - 1)
        return
    for row in range(PARAMETERS if item.parameters and item.y_size else 0):
        if not touch_operand(
            shadow,
            ACC,
            (item.parameters - 1) * PARAMETERS + row,
            unit,
            index,
            known,
            False,
            True,
            findings,
            state,
        ):
            return
    for y in range(item.y_size):
        start = (item.dram_base + y * item.x_stride) * item.element_bytes
        if not touch_dram(
            shadow,
            start,
            item.x_size * item.element_bytes,
            unit,
            index,
            known,
            True,
            findings,
            state,
            dram_bytes,
        ):
            return
        for x in range(item.x_size):
            element = item.sram_base + y * item.x_size + x
            touch(
                shadow,
                shadow.first[ACC] + element,
                unit,
                index,
                known,
                False,
                True,
                findings,
                state,
                ACC,
                element,
            )


@whole
def _follow(order, columns, units, shadow, known, uops, words, widths, findings, state, dram_bytes):
    """Follow the instructions of `order`; `findings` and their number in `state` tell what is wrong."""
    for place in range(order.size):
        index = order[place]
        item, unit = columns[index], units[index]
        if item.opcode == LOAD:
            follow_load(item, index, unit, shadow, known, uops, words, findings, state, dram_bytes)
        elif item.opcode == STORE:
            follow_store(item, index, unit, shadow, known, findings, state, dram_bytes)
        elif item.opcode == GEMM or item.opcode == ALU:
            follow_loops(item, index, unit, shadow, known, uops, widths, findings, state)
