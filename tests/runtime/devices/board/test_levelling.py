"""Read levelling against a model of a DDR3 DRAM: every window of delays at every bitslip."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from litedram.dfii import DFIInjector
from litex.soc.interconnect import csr_bus
from migen.sim import run_simulation

from tests.boards.test_board_file import FILE
from tests.runtime.devices.board.ddr3 import (
    CONTROL,
    CONTROLLER,
    CSR,
    HOST_WITH_CLOCK,
    STEPS,
    TABLE,
    Ddr3,
    Module,
)
from vdla.boards.board_file import MemoryTable
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.registers import IDENTITY, OFFSETS, VERSION
from vdla.runtime.devices.board.driver import Driver
from vdla.runtime.devices.board.levelling import LevellingError, Setting, _bytes, _words, level


def under_host(*modules: Module) -> Ddr3:
    """Return a DRAM whose commands the host gives."""
    return Ddr3(modules, {CONTROL: HOST_WITH_CLOCK})


@pytest.mark.parametrize("bitslip", range(TABLE.bitslips))
@pytest.mark.parametrize(
    ("delays", "chosen"), [(range(2, 6), 4), (range(8), 4), (range(5, 8), 6), (range(3, 4), 3)]
)
def test_a_module_is_set_to_the_middle_of_its_window(bitslip, delays, chosen):
    dram = under_host(Module(bitslip, delays), Module(3 - bitslip, range(1, 4), bitslip=2, delay=7))
    assert level(dram, CSR, TABLE) == (Setting(bitslip, chosen), Setting(3 - bitslip, 2))
    assert [(module.bitslip, module.delay) for module in dram.modules] == [
        (bitslip, chosen),
        (3 - bitslip, 2),
    ]
    assert (dram.are_aligned, dram.is_open) == (True, False)


def test_a_module_without_window_is_named():
    with pytest.raises(
        LevellingError, match=r"module 1 \(data lines 8 to 15\) reads right with none of 4 bitslips"
    ):
        level(under_host(Module(1, range(8)), Module(1, range(0))), CSR, TABLE)


def test_a_window_that_moves_afterwards_is_an_error():
    class Drifting(Module):
        def sampled(self, beats, noise):
            return super().sampled(beats, noise) if dram.modules[1].bitslip == 0 else [0] * len(beats)

    dram = under_host(Drifting(1, range(8)), Module(2, range(8)))
    with pytest.raises(
        LevellingError, match="read right while each module was levelled, and do not afterwards"
    ):
        level(dram, CSR, TABLE)


class Wire:
    """A link to a board with a DDR3 DRAM and registers that no run changes."""

    where, longest = "nowhere", 64

    def __init__(self, dram: Ddr3) -> None:
        digest = int(FILE.board.config_digest[:8], 16)
        registers = {"IDENTITY": IDENTITY, "VERSION": VERSION, "CONFIG_DIGEST": digest}
        self._dram = dram
        self._registers = {
            FILE.map.registers + offset: registers.get(name, 0) for name, offset in OFFSETS.items()
        }

    def settle(self) -> None:
        """Do nothing: no command is lost."""

    def read(self, address: int, count: int) -> list[int]:
        """Return words from a byte address."""
        if address in self._registers:
            return [self._registers[address + 4 * place] for place in range(count)]
        return self._dram.words(address, count)

    def write(self, address: int, words: list[int]) -> None:
        """Write a control register."""
        (value,) = words
        self._dram.write_ordered(address, value)


def driver(dram: Ddr3) -> Driver:
    """Return the driver of a board whose reads need levelling."""
    memory = MemoryTable(kind="DDR3", part="MT41K64M16", init=STEPS, levelling=TABLE)
    return Driver(msgspec.structs.replace(FILE, memory=memory, csr=CSR), Wire(dram))


def test_the_driver_levels_before_it_hands_the_dram_to_its_controller():
    dram = Ddr3((Module(3, range(2, 7)), Module(1, range(4, 7))))
    assert driver(dram).initialise()
    assert [(module.bitslip, module.delay) for module in dram.modules] == [(3, 4), (1, 5)]
    assert dram.values[CONTROL] == CONTROLLER
    assert not driver(dram).initialise()


def test_a_dram_that_cannot_be_levelled_is_refused():
    dram = Ddr3((Module(1, range(8)), Module(1, range(0))))
    with pytest.raises(
        DeviceError, match=r"the DRAM MT41K64M16 cannot be initialised: module 1 .* lower clock"
    ):
        driver(dram).initialise()
    assert dram.values[CONTROL] != CONTROLLER


def test_words_of_a_burst_stand_in_the_registers_as_litedram_orders_them():
    data = bytes(range(1, 9))
    injector = DFIInjector(addressbits=13, bankbits=3, nranks=1, databits=64, nphases=2)
    bus = csr_bus.Interface(data_width=32, address_width=14)
    bank = csr_bus.CSRBank(injector.get_csrs(), bus=bus, ordering="big")
    injector.submodules += bank
    first = next(place for place, csr in enumerate(bank.simple_csrs) if csr.name.startswith("pi1_wrdata"))
    stored_words = []

    def write() -> Iterator[Any]:
        for place, word in enumerate(_words(data)):
            yield from bus.write(first + place, word)
        yield
        stored_words.append((yield injector.pi1._wrdata.storage))

    run_simulation(injector, write())
    assert stored_words == [int.from_bytes(data, "little")]
    assert _bytes(_words(data)) == data
