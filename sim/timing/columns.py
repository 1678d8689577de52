"""The data that timing needs of each instruction: counts, addresses and token edges."""

from typing import Annotated, TypeAlias

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import COUNTED_MEMORIES
from vdla.hw.spec.units import TOKEN_EDGES
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.sim.decoded import DecodedStream, blocks
from vdla.sim.records import Int32, IntArray, Narrow, RecordArray, Records, record_dtype


class TimedInstruction:
    """What the engine reads of one instruction."""

    unit: Narrow
    pops: Narrow  # a bit for each of TOKEN_EDGES
    pushes: Narrow
    transfers: bool  # it is a LOAD or STORE
    finishes: bool
    valid: bool
    beats: Narrow  # place of its memory in COUNTED_MEMORIES
    slots: int  # of the compute pipeline; 1 where it has no step
    address: int  # bytes
    stride_bytes: int
    row_bytes: int
    rows: Int32  # that move data; 0 where none does
    row_steps: Int32  # cycles that the scratchpad's port needs for a row: as many as lanes
    lead_steps: Int32  # cycles of padding before the first row,
    gap_steps: Int32  # between two rows,
    tail_steps: Int32  # and behind the last
    parameters: Annotated[int, np.int8]  # that a STORE reads before its rows
    lane_bytes: Annotated[int, np.int16]  # that one such cycle moves: an element, or a beat of a wider one


TimedProgram: TypeAlias = Records[TimedInstruction]
INSTRUCTION = record_dtype(TimedInstruction)
assert len(TOKEN_EDGES) <= 8


def timing_columns(program: DecodedStream) -> RecordArray:
    """Return INSTRUCTION[n] for the n instructions of `program`."""
    columns = np.zeros(len(program), INSTRUCTION)
    for block in blocks(len(program)):
        _fill(columns[block], program.part(block))
    return columns


def _fill(columns: RecordArray, program: DecodedStream) -> None:
    bits = 1 << np.arange(len(TOKEN_EDGES))
    columns["unit"], columns["valid"] = program.unit, program.valid
    columns["pops"], columns["pushes"] = program.pops @ bits, program.pushes @ bits
    columns["finishes"] = program.opcode == isa.Opcode.FINISH
    columns["slots"] = 1
    for form in (isa.Load, isa.Store):
        _fill_transfers(columns, program, form)
    for loop in (isa.Gemm, isa.Alu):
        rows = program.opcode == loop.opcode
        columns["slots"][rows] = np.maximum(steps(program, loop) * _slots_per_step(program, loop), 1)


def steps(program: DecodedStream, form: type[isa.Gemm | isa.Alu]) -> IntArray:
    """Return int64[...], the micro-op steps of every instruction of `form`, in program order."""
    begin, end, outer, inner = (
        program.column(form, name) for name in ("uop_begin", "uop_end", "iter_out", "iter_in")
    )
    micro_ops: IntArray = np.maximum(end - begin, 0)
    return outer * inner * micro_ops


def _slots_per_step(program: DecodedStream, form: type[isa.Gemm | isa.Alu]) -> IntArray | int:
    """Return pipeline slots of a step: an ALU step with two accumulator operands fetches one in a slot of its
    own."""
    return 1 if form is isa.Gemm else np.where(program.column(form, "use_imm"), 1, 2)


def _fill_transfers(columns: RecordArray, program: DecodedStream, form: type[isa.Load | isa.Store]) -> None:
    chosen = program.opcode == form.opcode
    memory, base, height, width, stride = (
        program.column(form, name) for name in ("memory_type", "dram_base", "y_size", "x_size", "x_stride")
    )
    element = _element_bytes(program.config)[memory]
    lane = np.minimum(element, program.config.bus_bytes)
    rows = np.where(width > 0, height, 0)
    values = {
        "transfers": True,
        "beats": _PLACES[memory],
        "address": base * element,
        "stride_bytes": stride * element,
        "row_bytes": width * element,
        "rows": rows,
        "row_steps": width * (element // np.maximum(lane, 1)),
        "lane_bytes": lane,
    }
    if form is isa.Load:
        values |= _padding(program, rows, width)
    elif program.config.has(Extension.REQUANTISE):
        values["parameters"] = np.where(
            (program.column(form, "parameters") > 0) & (rows > 0), len(Parameter), 0
        )
    for name, value in values.items():
        columns[name][chosen] = value


def _padding(program: DecodedStream, rows: IntArray, width: IntArray) -> dict[str, IntArray]:
    """Return the padding before, between and behind the rows; a LOAD with no columns has none."""
    top, bottom, left, right = (
        program.column(isa.Load, f"{axis}_pad_{side}") for axis in "yx" for side in (0, 1)
    )
    row = left + width + right
    lead = np.where(rows > 0, top * row + left, (top + bottom) * row)
    tail = np.where(rows > 0, right + bottom * row, 0)
    return {
        "lead_steps": np.where(width > 0, lead, 0),
        "gap_steps": left + right,
        "tail_steps": np.where(width > 0, tail, 0),
    }


def _element_bytes(config: AcceleratorConfig) -> IntArray:
    """Return int64[8]: bytes of an element by memory type; 0 where there is no such memory."""
    sizes = np.zeros(1 << isa.field_of(isa.Load, "memory_type", config).width, np.int64)
    for memory in MemoryType:
        sizes[memory] = config.element_bytes(memory)
    return sizes


_PLACES = np.zeros(8, np.uint8)
for _memory in MemoryType:
    _PLACES[_memory] = COUNTED_MEMORIES.index(MemoryType.ACC if _memory is MemoryType.ACC_8BIT else _memory)
