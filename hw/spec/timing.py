"""Fixed sizes inside the hardware that timing depends on; RTL and cycle simulator share them."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.hw.spec.window import window_columns


class Client(IntEnum):
    """The clients of the DMA, which takes the request of the least value first."""

    FETCH = 0
    COMPUTE = 1
    STORE = 2
    LOAD = 3

    @property
    def reads(self) -> bool:
        """Whether its requests are reads; else they are writes."""
        return self is not Client.STORE


BURSTS_FETCHED_AHEAD = 4
"""Bursts of instructions that fetch may ask for ahead of dispatch."""

ARRIVED_BEATS = 2
"""Read beats that the DMA holds for clients that are not ready."""

LOADS_IN_PROGRESS = 4
"""LOADs that a load engine may have started and not yet written: all but the first wait."""

BURSTS_STORED_AHEAD = 2
"""Bursts of the store unit's data that wait for memory."""

STORE_REQUESTS_AHEAD = 4
"""Requests of the store unit that wait for memory."""

COUNTER_READ_CYCLES = 11
"""Cycles for which the register port must hold the address of a counter until its value is there."""

QUIET_CYCLES = 16
"""Cycles without any activity after which a run that has not finished is stopped."""

MOST_GEMM_STAGES = 8
"""The most registers from operands to the accumulator adder, `gemm_stages`, that a configuration has."""

OPERAND_STAGE = 5
"""Cycles from a slot's issue to its operands standing in registers at the multiplier array."""

FORWARDED = 3
"""Slots whose results may not be in ACC yet when a later slot reads it."""


STORE_READ_STAGES = 2
"""Cycles from a read of the store unit until its data stand in a register behind the scratchpad."""

REQUANTISE_STAGES = 9
"""Cycles that the store unit needs to requantise what it has read: choice of the part, sum with the bias,
partial products, product, shift in two steps, zero point, upper and lower limit."""


TABLE_STAGES = 3
"""Cycles from a requantised value to its entry in a table: the element, in two; the choice of the entry."""

RESIDUAL_STAGES = 8
"""Cycles that the store unit needs to add a residual: products, their sum, the sum with the addend, shift in
two steps, zero point, upper and lower limit."""

DISTANCE_STAGES = 1
"""Cycles from a requantised value to its distance from its row's greatest value."""

NORMALISE_STAGES = 7
"""Cycles that the store unit needs to normalise what tables give: operand, product, shift in two steps,
product with the factor, sum with the addend, saturation."""

NORMAL_SETS = 8
"""Sets of parameters of normalisation that the store unit holds, for reads in the stages."""

_EXTENSION_STAGES = {
    Extension.REQUANTISE: REQUANTISE_STAGES,
    Extension.TABLE: TABLE_STAGES,
    Extension.RESIDUAL: RESIDUAL_STAGES,
    Extension.NORMALISE: DISTANCE_STAGES + NORMALISE_STAGES,
}


def store_stages(extensions: Iterable[Extension], read_stages: int = STORE_READ_STAGES) -> int:
    """Return the cycles from a read of the store unit until its beat enters the queue, of which `read_stages`
    pass until its data stand in a register.

    Args:
        extensions: those that have an effect.

    The queue of beats is deeper by one less than this, for the reads in the stages; the queue of requests by
    one less than with STORE_READ_STAGES.
    """
    return read_stages + sum(_EXTENSION_STAGES.get(extension, 0) for extension in extensions)


def store_read_stages(acc_ports: int, gemm_stages: int) -> int:
    """Return the cycles from a read of the store unit until its data stand in a register.

    If ACC has a single read port, the read takes the slot of the next cycle, which must first come to that
    port.
    """
    return STORE_READ_STAGES + (1 + given_stage(gemm_stages) if acc_ports == 1 else 0)


def given_stage(gemm_stages: int) -> int:
    """Return the cycles from a slot's issue to the addresses of its accumulators."""
    return execute_stage(gemm_stages) - 2


def execute_stage(gemm_stages: int) -> int:
    """Return the cycles from a slot's issue to its accumulator update."""
    return OPERAND_STAGE + gemm_stages


def retire_stage(gemm_stages: int) -> int:
    """Return the cycles from a slot's issue to the write of its result, which retires a last slot."""
    return execute_stage(gemm_stages) + 1


def alu_delay(opcode: AluOpcode, stages: int) -> int:
    """Return the cycles from the operands of an ALU lane to its result, in an ALU of `alu_stages`."""
    if opcode == AluOpcode.MUL:
        return stages  # registers before the multipliers, and behind them
    return stages - 1 if opcode == AluOpcode.SHR else 0  # a register within the shifter


def depthwise_slots(sums: Any, stride_2: Any, wide: Any = 0) -> Any:
    """Return the slots of a row of a DEPTHWISE with `sums` > 0 sums (numbers or integer arrays): as many as
    the first window has columns, then one or two for each further window."""
    return (sums - 1) * (1 + stride_2) + window_columns(wide)


def alu_slots(pieces: int, opcode: AluOpcode, stages: int, sources: int = 0) -> int:
    """Return the slots of an ALU step: `sources`, one for each of the `pieces` of an element, and the lanes'
    delay."""
    return sources + pieces + alu_delay(opcode, stages)


def source_slots(acc_ports: int, use_imm: Any) -> Any:
    """Return the slots in front of an ALU step (number or integer array) which only read: its second
    accumulator, where ACC has one read port; none where `use_imm` is 1."""
    return (1 - use_imm) * (acc_ports == 1)
