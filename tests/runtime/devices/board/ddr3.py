"""A model of a DDR3 DRAM behind LiteDRAM's PHY for the ECP5, as the host sees it: control registers.

It insists on what the hardware needs. An instance with `host` commands takes them as a DRAM does: a row is open or
closed, data comes in the phase of the command. A module reads right at its bitslip within a window of delays, after
all modules have paused together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from vdla.boards.board_file import LevellingTable

TABLE = LevellingTable(modules=2, delays=8, bitslips=4, phases=2, read_phase=0, write_phase=1)
CONTROL = 0x1000
HOST_WITH_CLOCK, CONTROLLER = 0xE, 0x1
STEPS = ((CONTROL, HOST_WITH_CLOCK, 0), (CONTROL, CONTROLLER, 0))
_PHY = ("dly_sel", "rdly_dq_rst", "rdly_dq_inc", "rdly_dq_bitslip_rst", "rdly_dq_bitslip", "burstdet_clr")
CSR: Mapping[str, int] = {
    "sdram_dfii_control": CONTROL,
    **{f"dram_phy_{name}": 0x800 + 4 * place for place, name in enumerate((*_PHY, "burstdet_seen"))},
    **{
        f"sdram_dfii_pi{phase}_{name}": 0x1000 + 0x20 * phase + offset
        for phase in range(TABLE.phases)
        for name, offset in {
            "command": 4,
            "command_issue": 8,
            "address": 0xC,
            "baddress": 0x10,
            "wrdata": 0x14,
            "rddata": 0x1C,
        }.items()
    },
}
"""Addresses of the control registers, as `vdla build` lists them for the ECPIX-5."""
NAMES = {
    address + 4 * word: (name, word)
    for name, address in CSR.items()
    for word in range(2 if name.endswith("data") else 1)
}
ACTIVATE, PRECHARGE, WRITE, READ = 0b001001, 0b001011, 0b010111, 0b100101
BEATS = 4 * TABLE.phases


@dataclass
class Module:
    """A byte of the data bus.

    Attributes:
        right: the bitslip with which it reads right.
        delays: with which it reads at all.
    """

    right: int
    delays: range
    bitslip: int = 0
    delay: int = 0

    def sampled(self, beats: list[int], noise: Random) -> list[int]:
        """Return what is read of the beats of a burst."""
        if self.delay not in self.delays:
            return [noise.randrange(256) for _ in beats]
        shift = (self.bitslip - self.right) % TABLE.bitslips
        return [*(noise.randrange(256) for _ in range(shift)), *beats][: len(beats)]


@dataclass
class Ddr3:
    """Control registers of LiteDRAM, and the DRAM behind them."""

    modules: tuple[Module, ...]
    values: dict[int, int] = field(default_factory=dict)
    beats: list[list[int]] = field(default_factory=lambda: [[0] * BEATS for _ in range(TABLE.modules)])
    seen: int = 0
    is_open: bool = False
    are_aligned: bool = True
    noise: Random = field(default_factory=lambda: Random(1))

    def write_ordered(self, address: int, value: int) -> None:
        """Write a control register."""
        name, _ = NAMES[address]
        before = self.values.get(address, 0)
        self.values[address] = value
        selected = self.values.get(CSR["dram_phy_dly_sel"], 0)
        if name == "dram_phy_dly_sel" and before == (1 << TABLE.modules) - 1 and value == 0:
            self.are_aligned = True
        elif name == "dram_phy_burstdet_clr":
            self.seen = 0
        elif name.startswith("dram_phy_rdly"):
            self.are_aligned = False
            for place, module in enumerate(self.modules):
                if selected >> place & 1:
                    _set(module, name)
        elif name.endswith("command_issue"):
            self._command(int(name[len("sdram_dfii_pi")]))

    def words(self, address: int, count: int) -> list[int]:
        """Return words from a byte address."""
        return [self._word(address + 4 * place) for place in range(count)]

    def _word(self, address: int) -> int:
        return self.seen if address == CSR["dram_phy_burstdet_seen"] else self.values.get(address, 0)

    def _command(self, phase: int) -> None:
        """Do what the DRAM does, if the host controls it."""
        if self.values.get(CONTROL) != HOST_WITH_CLOCK:
            return
        command = self.values[CSR[f"sdram_dfii_pi{phase}_command"]]
        if command == ACTIVATE:
            assert not self.is_open, "a row is open"
            self.is_open = True
        elif command == PRECHARGE:
            self.is_open = False
        elif command == WRITE and phase == TABLE.write_phase and self.is_open:
            data = b"".join(self._data(each) for each in range(TABLE.phases))
            self.beats = [list(data[module :: TABLE.modules]) for module in range(TABLE.modules)]
        elif command == READ and phase == TABLE.read_phase and self.is_open:
            self._read()

    def _read(self) -> None:
        """Sample a burst of the open row."""
        is_right = self.are_aligned and not self.values[CSR["dram_phy_dly_sel"]]
        data = bytearray(BEATS * TABLE.modules)
        for place, (module, beats) in enumerate(zip(self.modules, self.beats, strict=True)):
            if is_right and module.delay in module.delays:
                self.seen |= 1 << place
            sampled = module.sampled(beats, self.noise) if is_right else [0] * BEATS
            data[place :: TABLE.modules] = bytes(sampled)
        half = len(data) // TABLE.phases
        for phase in range(TABLE.phases):
            value = int.from_bytes(data[half * phase : half * (phase + 1)], "little")
            first = CSR[f"sdram_dfii_pi{phase}_rddata"]
            self.values[first], self.values[first + 4] = value >> 32, value & 0xFFFF_FFFF

    def _data(self, phase: int) -> bytes:
        """Return the bytes that a phase of a burst writes."""
        first = CSR[f"sdram_dfii_pi{phase}_wrdata"]
        value = self.values[first] << 32 | self.values[first + 4]
        return value.to_bytes(4 * TABLE.modules, "little")


def _set(module: Module, name: str) -> None:
    """Do what a write of a register of the PHY does to a selected module."""
    if name.endswith("bitslip_rst"):
        module.bitslip = 0
    elif name.endswith("bitslip"):
        module.bitslip = (module.bitslip + 1) % TABLE.bitslips
    elif name.endswith("inc"):
        module.delay = (module.delay + 1) % TABLE.delays
    else:
        module.delay = 0
