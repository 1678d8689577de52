"""The data that the verifier needs of each instruction: its accesses on chip and in DRAM."""

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.errors import InvalidInstructionError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import DecodedStream, blocks, slots
from vdla.sim.records import IntArray, RecordArray, record_dtype


class Touch:
    """What the verifier reads of one instruction; fields that its form does not have are 0."""

    opcode: int
    element_bytes: int  # of the memory that a transfer names
    memory_type: int
    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int
    y_pad_1: int
    x_pad_0: int
    x_pad_1: int
    parameters: int
    reset: int
    overwrite: int
    uop_begin: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int
    dst_factor_in: int
    src_factor_out: int
    src_factor_in: int
    wgt_factor_out: int
    wgt_factor_in: int
    use_imm: int


TOUCH = record_dtype(Touch)
ENCODED = frozenset(Touch.__annotations__) - {"opcode", "element_bytes"}

FOLLOWED = tuple(form.opcode for form in (isa.Load, isa.Store, isa.Gemm, isa.Alu, isa.Finish))


def refuse_unknown(program: DecodedStream, order: IntArray) -> None:
    """Refuse instructions of which the verifier does not know what they touch.

    Args:
        order: int64[executed], indices of instructions.

    Raises:
        InvalidInstructionError: there is one.
    """
    unknown = order[~np.isin(program.opcode[order], FOLLOWED)]
    if unknown.size:
        index, known = int(unknown[0]), ", ".join(f"{opcode.name} ({opcode})" for opcode in sorted(FOLLOWED))
        raise InvalidInstructionError(
            f"instruction {index} ({program.word(index):#034x}) has opcode {program.opcode[index]}, "
            f"which the verifier does not know; it knows {known}",
            index,
        )


def touch_columns(program: DecodedStream) -> RecordArray:
    """Return TOUCH[n]; fields that an instruction does not have are 0."""
    columns = np.zeros(len(program), TOUCH)
    for block in blocks(len(program)):
        _fill(columns[block], program.part(block))
    return columns


def _fill(columns: RecordArray, program: DecodedStream) -> None:
    columns["opcode"] = program.opcode
    for form in (isa.Load, isa.Store, isa.Gemm, isa.Alu):
        chosen = program.opcode == form.opcode
        for name in ENCODED & slots(form, program.config).keys():
            columns[name][chosen] = program.column(form, name)
    sizes = np.zeros(8, np.int64)
    for memory in MemoryType:
        sizes[memory] = program.config.element_bytes(memory)
    columns["element_bytes"] = sizes[columns["memory_type"]]
