"""Read levelling of a DDR3 DRAM: the host finds when the PHY has to sample the data that it reads.

A module is a byte of the data bus with its strobe. LiteDRAM's PHY for the ECP5 has two settings for each
module: the delay of the read pulse, and a bitslip that shifts the beats of a burst. The right settings depend
on the board. The host measures them after the commands that initialise the DRAM, and before the controller
takes over. For each setting, the host writes random beats into a row and reads them back. It takes the middle
of the longest run of delays that read right.

Source: LiteDRAM, liblitedram, `sdram_read_leveling`; Lattice FPGA-TN-02035, "READ Pulse Positioning
Optimization".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Protocol

from vdla.boards.board_file import LevellingTable

SELECT, WRITE_ENABLE, COLUMN, ROW, WRITES_DATA, READS_DATA = (1 << bit for bit in range(6))
"""Bits of a command of LiteDRAM's DFI injector."""
ACTIVATE, PRECHARGE = ROW | SELECT, ROW | WRITE_ENABLE | SELECT
WRITE, READ = COLUMN | WRITE_ENABLE | SELECT | WRITES_DATA, COLUMN | SELECT | READS_DATA
BEATS = 4
"""Beats of the data bus in a phase of a burst."""
WORD_BYTES = 4
PATTERNS, CHECKS = 3, 16
"""Random bursts that are read for a setting, and for the settings that were chosen."""


class Bus(Protocol):
    """The control registers of LiteX."""

    def write_ordered(self, address: int, value: int) -> None:
        """Write a register, before anything that is written later."""

    def words(self, address: int, count: int) -> list[int]:
        """Return `count` words from a byte address."""


class LevellingError(Exception):
    """No setting reads right, or the chosen settings do not."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a module samples what it reads.

    Attributes:
        bitslip: beats by which a burst is shifted.
        delay: of the read pulse, in steps of the PHY.
    """

    bitslip: int
    delay: int


def level(bus: Bus, csr: Mapping[str, int], table: LevellingTable) -> tuple[Setting, ...]:
    """Find and set the setting of each module.

    The DRAM has to be initialised, and the DFI injector has to be under control of the host.

    Args:
        csr: byte address on the bus of each control register, by name.

    Raises:
        LevellingError: no setting of a module reads right, or the settings together do not.
    """
    phy = _Phy(bus, csr, table)
    settings = tuple(_best(phy, module, table) for module in range(table.modules))
    if not all(phy.reads_right(module, CHECKS) for module in range(table.modules)):
        raise LevellingError(
            f"the settings {', '.join(map(str, settings))} read right while each module was levelled, and "
            "do not afterwards"
        )
    return settings


def _best(phy: "_Phy", module: int, table: LevellingTable) -> Setting:
    """Set a module to the middle of the longest run of delays that read right; return that setting."""
    runs = [
        (bitslip, run)
        for bitslip in range(table.bitslips)
        for run in _runs(phy.right_delays(module, bitslip))
    ]
    if not runs:
        raise LevellingError(
            f"module {module} (data lines {8 * module} to {8 * module + 7}) reads right with none of "
            f"{table.bitslips} bitslips and {table.delays} delays"
        )
    bitslip, delays = max(runs, key=lambda each: len(each[1]))
    chosen = Setting(bitslip, delays[len(delays) // 2])
    phy.set(module, chosen)
    return chosen


def _runs(delays: Iterable[int]) -> list[list[int]]:
    """Return runs of consecutive numbers of an ascending sequence."""
    numbered = groupby(enumerate(delays), lambda each: each[1] - each[0])
    return [[delay for _, delay in run] for _, run in numbered]


class _Phy:
    """The PHY and the DFI injector, through their control registers."""

    def __init__(self, bus: Bus, csr: Mapping[str, int], table: LevellingTable) -> None:
        self._bus, self._csr, self._table = bus, csr, table
        self._random = Random(0)

    def right_delays(self, module: int, bitslip: int) -> list[int]:
        """Return the delays with which a module reads right at a bitslip."""
        right = []
        for delay in range(self._table.delays):
            self.set(module, Setting(bitslip, delay))
            if self.reads_right(module, PATTERNS):
                right.append(delay)
        return right

    def set(self, module: int, setting: Setting) -> None:
        """Set a module. All modules pause afterwards, which aligns their strobes."""
        self._select(1 << module)
        for name, steps in (("bitslip", setting.bitslip), ("inc", setting.delay)):
            reset = "rdly_dq_bitslip_rst" if name == "bitslip" else "rdly_dq_rst"
            self._write(f"dram_phy_{reset}", 1)
            for _ in range(steps):
                self._write(f"dram_phy_rdly_dq_{name}", 1)
        for modules in (0, (1 << self._table.modules) - 1, 0):
            self._select(modules)

    def reads_right(self, module: int, bursts: int) -> bool:
        """Return whether a module reads `bursts` random bursts as they were written."""
        return all(self._reads_burst(module) for _ in range(bursts))

    def _reads_burst(self, module: int) -> bool:
        table = self._table
        size = BEATS * table.modules
        written = [self._random.randbytes(size) for _ in range(table.phases)]
        self._command(0, ACTIVATE)
        for phase, data in enumerate(written):
            for place, value in enumerate(_words(data)):
                self._write(f"sdram_dfii_pi{phase}_wrdata", value, place)
        self._command(table.write_phase, WRITE)
        self._write("dram_phy_burstdet_clr", 1)
        self._command(table.read_phase, READ)
        self._command(0, PRECHARGE)
        if not self._read("dram_phy_burstdet_seen", 1)[0] >> module & 1:
            return False
        read = (
            _bytes(self._read(f"sdram_dfii_pi{phase}_rddata", size // WORD_BYTES))
            for phase in range(table.phases)
        )
        chosen = slice(module, None, table.modules)
        return all(sent[chosen] == received[chosen] for sent, received in zip(written, read, strict=True))

    def _command(self, phase: int, command: int) -> None:
        """Give the DRAM a command for row or column 0 of bank 0."""
        for name, value in (("address", 0), ("baddress", 0), ("command", command), ("command_issue", 1)):
            self._write(f"sdram_dfii_pi{phase}_{name}", value)

    def _select(self, modules: int) -> None:
        self._write("dram_phy_dly_sel", modules)

    def _write(self, name: str, value: int, place: int = 0) -> None:
        self._bus.write_ordered(self._csr[name] + WORD_BYTES * place, value)

    def _read(self, name: str, count: int) -> list[int]:
        return self._bus.words(self._csr[name], count)


def _words(data: bytes) -> list[int]:
    """Return a register's words, the most significant first, of its bytes, the least significant first."""
    places = range(len(data) - WORD_BYTES, -1, -WORD_BYTES)
    return [int.from_bytes(data[at : at + WORD_BYTES], "little") for at in places]


def _bytes(words: Sequence[int]) -> bytes:
    """Return what `_words` was made of."""
    return b"".join(word.to_bytes(WORD_BYTES, "little") for word in reversed(words))
