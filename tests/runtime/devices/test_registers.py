"""The register protocol that the RTL device and boards share."""

import pytest

from vdla.hw.spec.errors import AccessError, DeadlockError, InvalidInstructionError, UnfinishedError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.registers import COUNTERS, OFFSETS, Control, Fault
from vdla.runtime.devices.registers import raise_fault, read_counters, read_cycles, start_run


class Registers(dict):
    """Registers by name, which note the order of writes."""

    def __init__(self, **values: int) -> None:
        super().__init__({**dict.fromkeys(OFFSETS, 0), **values})
        self.written: list[tuple[str, int]] = []

    def read_register(self, name: str) -> int:
        return self[name]

    def write_register(self, name: str, value: int) -> None:
        self.written.append((name, value))


def test_control_is_written_after_the_stream():
    registers = Registers()
    start_run(registers, (3 << 32) + 16, 5)
    assert registers.written == [
        ("STREAM_ADDRESS", 16),
        ("STREAM_ADDRESS_HIGH", 3),
        ("STREAM_COUNT", 5),
        ("CONTROL", Control.START),
    ]


def test_cycles_have_two_registers_and_counters_their_names():
    counted = {name: place for place, name in enumerate(COUNTERS)}
    registers = Registers(CYCLES=7, CYCLES_HIGH=2, **counted)
    assert read_cycles(registers) == (2 << 32) + 7
    assert read_counters(registers) == counted


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.SRAM_OVERRUN | Fault.INVALID_INSTRUCTION, AccessError),
        (Fault.MEMORY_ERROR | Fault.UNFINISHED, AccessError),
        (Fault.INVALID_INSTRUCTION, InvalidInstructionError),
        (Fault.DEADLOCK, DeadlockError),
        (Fault.UNFINISHED, UnfinishedError),
    ],
)
def test_a_fault_is_the_error_that_says_most(fault, kind):
    with pytest.raises(kind):
        raise_fault(Registers(FAULT=fault), 9, lambda index: 0, TINY)
    raise_fault(Registers(), 9, lambda index: 0, TINY)
