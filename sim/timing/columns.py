"""The data that timing needs of each instruction: counts, addresses and token edges."""

from typing import Annotated, Any, TypeAlias

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.consistency import MOST_ELEMENTS
from vdla.hw.spec.footprint import chip_access, dram_access, forms_in_dram, stepping_forms
from vdla.hw.spec.memories import LOADED_INTO_ACC, UNREAD_BY_STEPS, counted_as
from vdla.hw.spec.registers import COUNTED_MEMORIES
from vdla.hw.spec.touched import Fields, rows_in_dram, total
from vdla.hw.spec.units import TOKEN_EDGES
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.sim.decoded import DecodedStream, blocks
from vdla.sim.records import Int32, IntArray, Narrow, RecordArray, Records, record_dtype
from vdla.sim.rows import element_bytes, moved_memories
from vdla.sim.timing.steps import step_rows


class TimedInstruction:
    """What the engine reads of one instruction."""

    unit: Narrow
    pops: Narrow  # a bit for each of TOKEN_EDGES
    pushes: Narrow
    transfers: bool  # it is a LOAD or STORE
    finishes: bool
    ordered: bool  # a LOAD whose steps wait for an empty pipeline,
    settles: bool  # or for a pipeline with slots of the latest instruction alone
    beside: bool  # a LOAD that may run beside slots which do not read what it writes
    uop_begin: Int32  # of the micro-ops that it reads, or that such a LOAD writes; the first,
    uop_end: Int32  # and the micro-op behind the last
    reads_two: bool  # each of its slots reads two accumulators, one of them at the shadow's port
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
    parameters: Annotated[int, np.int8]  # that a STORE or NORMALISE reads before its rows
    feeds: bool  # a STORE or NORMALISE that writes INP
    gathers_rows: bool  # a NORMALISE that writes nothing
    kind: Narrow  # of a NORMALISE with rows, see `normal_kind`; 0: of no kind
    inputs: bool  # a LOAD or GATHER that writes INP
    lane_bytes: Annotated[int, np.int16]  # that such a cycle, or a STORE's read, moves
    gathers: bool  # elements of its rows begin anywhere,
    step_bytes: Narrow  # so far from each other


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
    present = set(np.flatnonzero(np.bincount(program.opcode)).tolist())
    for form in (form for form in forms_in_dram() if form.opcode in present):
        _fill_transfers(columns, program, form)
    for form in (form for form in stepping_forms() if form.opcode in present):
        rows = program.opcode == form.opcode
        columns["slots"][rows] = np.maximum(_slots(program, form), 1)
        for name in ("uop_begin", "uop_end"):
            columns[name][rows] = program.column(form, name)
        if form is isa.Alu and program.config.acc_ports > 1:
            columns["reads_two"][rows] = (program.steps(form) > 0) & (program.column(form, "use_imm") == 0)


def _slots(program: DecodedStream, form: type[isa.Instruction]) -> IntArray:
    """Return the pipeline slots of instructions of a form; 0 where they make no step."""
    steps = program.steps(form)
    rows = step_rows(program, form, steps)
    slots: IntArray = steps * rows.each
    if form is isa.Depthwise:
        slots += steps // rows.steps * (rows.first - rows.each)
    return slots


def _fill_transfers(columns: np.ndarray, program: DecodedStream, form: type[isa.Instruction]) -> None:
    chosen, access, fields = program.opcode == form.opcode, dram_access(form), program.fields(form)
    memory = moved_memories(program, form)
    element, width = element_bytes(memory, fields, program.config), total(access.inner.every, fields)
    lane = _lane_bytes(program.config, form, element)
    moved = rows_in_dram(access, fields, element)
    rows = np.where(width > 0, moved.count, 0)
    values = {
        "transfers": True,
        "beats": _PLACES[memory],
        "address": moved.begin,
        "stride_bytes": moved.stride,
        "row_bytes": moved.width,
        "rows": rows,
        "row_steps": width * (element // np.maximum(lane, 1)),
        "lane_bytes": lane,
    }
    if form is isa.Gather:
        values |= {"gathers": True, "step_bytes": fields("step"), "ordered": True, "inputs": True}
    if form in (isa.Load, isa.Gather):
        values |= _padding(program, form, rows, width)
    if form is isa.Load:
        values |= _order(fields) | {"inputs": memory == MemoryType.INP}
    if form is isa.Store:
        values["feeds"] = fields("memory_type") == MemoryType.INP
        sets = np.where(fields("residual") > 0, 2, 1)
        values["parameters"] = np.where((fields("parameters") > 0) & (rows > 0), sets * len(Parameter), 0)
    if form is isa.Normalise:
        values |= _normalisation(fields, rows)
    for name, value in values.items():
        columns[name][chosen] = value


def _normalisation(fields: Fields, rows: IntArray) -> dict[str, IntArray]:
    """Return what the store unit's timing needs of NORMALISEs only."""
    writes, moves = fields("normal") > 0, rows > 0
    sets = (fields("parameters") > 0).astype(np.int64) + writes
    return {
        "feeds": writes & (fields("memory_type") == MemoryType.INP),
        "gathers_rows": ~writes,
        "kind": np.where(moves, normal_kind(fields("statistic"), writes), 0),
        "parameters": np.where(moves, sets * len(Parameter), 0),
    }


def normal_kind(statistic: Any, writes: Any) -> Any:
    """Return the kind of NORMALISEs (numbers or integer arrays) that have rows, from 1 on."""
    return 1 + 2 * statistic + writes


def _lane_bytes(config: AcceleratorConfig, form: type[isa.Instruction], element: IntArray) -> IntArray:
    """Return the bytes that a cycle of a scratchpad's port moves for an instruction of a form."""
    if form in (isa.Store, isa.Normalise):
        return np.full(len(element), config.store_read_bytes)
    whole: IntArray = element if form is isa.Gather else np.minimum(element, config.bus_bytes)
    return whole


def _order(fields: Fields) -> dict[str, IntArray]:
    """Return what `vdla.hw.uop_guard` and the write half know of LOADs: what each must wait for."""
    pushes, base = (fields("push_prev") | fields("push_next")) != 0, fields("sram_base")
    memory = fields("memory_type")
    micro_ops, unread_by_steps = memory == MemoryType.UOP, np.isin(memory, UNREAD_BY_STEPS)
    other_half = (fields("beside") != 0) & np.isin(memory, LOADED_INTO_ACC) & ~pushes
    padding = fields("y_pad_0") | fields("y_pad_1") | fields("x_pad_0") | fields("x_pad_1")
    return {
        "ordered": pushes | ~(micro_ops | unread_by_steps | other_half),
        "settles": other_half,
        "beside": ~pushes & (unread_by_steps | micro_ops & (fields("y_size") == 1) & (padding == 0))
        | other_half,
        "uop_begin": np.where(micro_ops, base, MOST_ELEMENTS),  # apart from all
        "uop_end": base + fields("x_size"),
    }


def _padding(
    program: DecodedStream, form: type[isa.Instruction], rows: IntArray, width: IntArray
) -> dict[str, IntArray]:
    """Return the padding before, between and behind the rows; instructions with no columns have none."""
    access, fields = chip_access(form), program.fields(form)
    top, bottom, left, right = (
        total(pad, fields) for axis in (access.outer, access.inner) for pad in (axis.before, axis.behind)
    )
    row = left + width + right
    lead = np.where(rows > 0, top * row + left, (top + bottom) * row)
    tail = np.where(rows > 0, right + bottom * row, 0)
    return {
        "lead_steps": np.where(width > 0, lead, 0),
        "gap_steps": left + right,
        "tail_steps": np.where(width > 0, tail, 0),
    }


_PLACES = np.zeros(8, np.uint8)
for _memory in MemoryType:
    _PLACES[_memory] = COUNTED_MEMORIES.index(counted_as(_memory))
