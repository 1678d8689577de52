"""The enumerations and fixed widths that every other table is written in."""

from enum import IntEnum, StrEnum


class AluOpcode(IntEnum):
    """Operations of the ALU; the value is the encoding."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4
    NARROW = 5


VTA_ALU_OPCODES = (AluOpcode.MIN, AluOpcode.MAX, AluOpcode.ADD, AluOpcode.SHR, AluOpcode.MUL)


class Extension(StrEnum):
    """Switches for what goes beyond VTA's instruction set."""

    PAD_MINIMUM = "pad_minimum"
    OVERWRITE = "overwrite"


class MemoryType(IntEnum):
    """Memories a LOAD or STORE names; the value is the encoding."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


INSTRUCTION_BITS = 128
INSTRUCTION_BYTES = INSTRUCTION_BITS // 8
UOP_BITS = 32
SRAM_BASE_BITS = 16
DRAM_BASE_BITS = 32
