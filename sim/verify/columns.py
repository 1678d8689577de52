"""What the verifier needs to know of each instruction: what it touches on chip and in DRAM, one record
each."""

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.errors import InvalidInstructionError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.program import Program, blocks, slots

TRANSFER = (
    "memory_type",
    "sram_base",
    "dram_base",
    "y_size",
    "x_size",
    "x_stride",
    "y_pad_0",
    "y_pad_1",
    "x_pad_0",
    "x_pad_1",
    "parameters",
)
LOOP = (
    "reset",
    "overwrite",
    "uop_begin",
    "uop_end",
    "iter_out",
    "iter_in",
    "dst_factor_out",
    "dst_factor_in",
    "src_factor_out",
    "src_factor_in",
    "wgt_factor_out",
    "wgt_factor_in",
    "use_imm",
)
TOUCH = np.dtype(
    [("opcode", np.int64), ("element_bytes", np.int64), *((name, np.int64) for name in (*TRANSFER, *LOOP))]
)

FOLLOWED = tuple(form.opcode for form in (isa.Load, isa.Store, isa.Gemm, isa.Alu, isa.Finish))


def refuse_unknown(program: Program, order: np.ndarray) -> None:
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


def touch_columns(program: Program) -> np.ndarray:
    """Return TOUCH[n]; fields that an instruction does not have are 0."""
    columns = np.zeros(len(program), TOUCH)
    for block in blocks(len(program)):
        _fill(columns[block], program.part(block))
    return columns


def _fill(columns: np.ndarray, program: Program) -> None:
    columns["opcode"] = program.opcode
    for form in (isa.Load, isa.Store, isa.Gemm, isa.Alu):
        chosen = program.opcode == form.opcode
        for name in (set(TRANSFER) | set(LOOP)) & slots(form, program.config).keys():
            columns[name][chosen] = program.column(form, name)
    sizes = np.zeros(8, np.int64)
    for memory in MemoryType:
        sizes[memory] = program.config.element_bytes(memory)
    columns["element_bytes"] = sizes[columns["memory_type"]]
