"""The enumerations and fixed widths that the other tables use."""

from enum import IntEnum, StrEnum


class AluOpcode(IntEnum):
    """Operations of the ALU; the value is the encoding."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


VTA_ALU = (AluOpcode.MIN, AluOpcode.MAX, AluOpcode.ADD, AluOpcode.SHR, AluOpcode.MUL)
"""The operations that a configuration has unless it names others: VTA's operations."""


class Extension(StrEnum):
    """Extensions of VTA's instruction set, which a configuration switches on."""

    PAD_MINIMUM = "pad_minimum"
    OVERWRITE = "overwrite"
    REQUANTISE = "requantise"
    PAD_VALUE = "pad_value"
    DEPTHWISE = "depthwise"
    TABLE = "table"
    RESIDUAL = "residual"
    GATHER = "gather"
    ACC_HALVES = "acc_halves"
    FEEDBACK = "feedback"
    DEPTHWISE_ROWS = "depthwise_rows"
    NARROW_WEIGHTS = "narrow_weights"
    NORMALISE = "normalise"


NEEDED = {
    Extension.TABLE: Extension.REQUANTISE,
    Extension.RESIDUAL: Extension.REQUANTISE,
    Extension.DEPTHWISE_ROWS: Extension.DEPTHWISE,
    Extension.NORMALISE: Extension.TABLE,
}
"""The extension without which another means nothing."""


class Parameter(IntEnum):
    """Requantisation parameters of a STORE, one accumulator element each; see `numerics.requantise`."""

    BIAS = 0
    MULTIPLIER = 1
    SHIFT = 2  # and the zero point
    CLIP = 3  # the least and the greatest output


class NormalParameter(IntEnum):
    """Parameters of a NORMALISE that writes outputs, one accumulator element each; see
    `normalisation.normal_operands`."""

    ADDEND = 0
    FACTOR = 1
    COUNT = 2  # and the reciprocal of the count
    EPSILON = 3


class Statistic(IntEnum):
    """What a NORMALISE knows of the values of a row; the value is the encoding."""

    GREATEST = 0
    POWERS = 1
    MOMENTS = 2


class MemoryType(IntEnum):
    """Memories a LOAD or STORE names; the value is the encoding."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5
    TABLE = 6
    RES = 7


class Unit(IntEnum):
    """The three units that execute instructions, in the order in which data passes through them."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


VTA_INSTRUCTION_BITS = 128
VTA_UOP_BITS = 32
VTA_SRAM_BASE_BITS = 16
VTA_LOOP_BITS = 14
DRAM_BASE_BITS = 32
LEAST_WEIGHT_BITS = 2
"""Bits of the narrowest weight, on chip or in DRAM."""
