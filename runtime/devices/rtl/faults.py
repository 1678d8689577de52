"""The FAULT register as errors."""

from collections.abc import Callable

from vdla.hw.spec import codec
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import (
    AccessError,
    DeadlockError,
    EncodingError,
    InvalidInstructionError,
    ProgramError,
    UnfinishedError,
)
from vdla.hw.spec.registers import MEANING, Fault

# What is met first says most: an instruction that reached too far ran before the one that stopped the run.
_ERRORS = (
    (Fault.SRAM_OVERRUN, AccessError),
    (Fault.MEMORY_ERROR, AccessError),
    (Fault.DEADLOCK, DeadlockError),
    (Fault.UNFINISHED, UnfinishedError),
)


def error_of(
    fault: Fault, index: int, cycles: int, word_at: Callable[[int], int], config: AcceleratorConfig
) -> ProgramError:
    """Return the error that says what `fault` (not 0) means.

    Args:
        index: the register FAULT_INDEX.
        cycles: length of the run.
        word_at: returns the encoding of the instruction at a position of the stream.
    """
    first = next((row for row in _ERRORS[:2] if row[0] in fault), None)
    if first is None and Fault.INVALID_INSTRUCTION in fault:
        return _invalid_instruction(index, word_at(index), config)
    bit, kind = first or next(row for row in _ERRORS if row[0] in fault)
    return kind(
        f"{MEANING[Fault][bit]} (FAULT.{bit.name} after {cycles} cycles); "
        "run the stream on the functional device to see the instruction"
    )


def _invalid_instruction(index: int, word: int, config: AcceleratorConfig) -> InvalidInstructionError:
    return InvalidInstructionError(
        f"instruction {index} ({word:#034x}) has no meaning: {_reason(word, config)}", index
    )


def _reason(word: int, config: AcceleratorConfig) -> str:
    try:
        return f"it reads as {codec.decode(word, config)}, which this hardware refused"
    except EncodingError as error:
        return str(error)
