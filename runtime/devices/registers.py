"""The register protocol of a run, which the RTL device and boards share: start, results, faults as errors."""

from collections.abc import Callable
from typing import Protocol

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
from vdla.hw.spec.registers import COUNTERS, MEANING, Control, Fault

WORD_MASK = 0xFFFFFFFF
STREAM_REGISTERS = ("STREAM_ADDRESS", "STREAM_ADDRESS_HIGH", "STREAM_COUNT")
"""The registers that say what a run executes."""
# The first error says most: an instruction that reached too far ran before the run was stopped.
_ERRORS = (
    (Fault.SRAM_OVERRUN, AccessError),
    (Fault.MEMORY_ERROR, AccessError),
    (Fault.DEADLOCK, DeadlockError),
    (Fault.UNFINISHED, UnfinishedError),
)


class RegisterReader(Protocol):
    """Values of the registers of `vdla.hw.spec.registers`, by name."""

    def read_register(self, name: str) -> int:
        """Return the value of a register."""
        ...


class RegisterPort(RegisterReader, Protocol):
    """Access to the registers."""

    def write_register(self, name: str, value: int) -> None:
        """Write a register."""
        ...


def stream_values(address: int, count: int) -> dict[str, int]:
    """Return the values of STREAM_REGISTERS for the `count` instructions at byte `address` of DRAM."""
    return dict(zip(STREAM_REGISTERS, (address & WORD_MASK, address >> 32, count), strict=True))


def start_run(port: RegisterPort, address: int, count: int) -> None:
    """Start a run of the `count` instructions at byte `address` of DRAM; CONTROL is written last."""
    for name, value in stream_values(address, count).items():
        port.write_register(name, value)
    port.write_register("CONTROL", Control.START)


def read_cycles(port: RegisterReader) -> int:
    """Return the cycles of the last run."""
    return port.read_register("CYCLES") | port.read_register("CYCLES_HIGH") << 32


def read_counters(port: RegisterReader) -> dict[str, int]:
    """Return the counters of the last run, by name."""
    return {name: port.read_register(name) for name in COUNTERS}


def raise_fault(
    port: RegisterReader, cycles: int, word_at: Callable[[int], int], config: AcceleratorConfig
) -> None:
    """Raise the error that says why the hardware stopped the last run, if it did.

    Args:
        cycles: length of the run.
        word_at: returns the encoding of the instruction at a position of the stream.

    Raises:
        ProgramError: the register FAULT is not 0.
    """
    fault = Fault(port.read_register("FAULT"))
    if fault:
        raise error_of(fault, port.read_register("FAULT_INDEX"), cycles, word_at, config)


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
