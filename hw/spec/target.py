"""The target: everything that the results, cycles, time and energy of an accelerator depend on."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import cached_property

from vdla.hw.spec.config import AcceleratorConfig, parameters
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import DEFAULT, PRESETS
from vdla.hw.spec.sdram import AnyMemory, SdramParameters, reference_like

REFERENCE_CLOCK_MHZ = 100.0
FASTEST_CLOCK_MHZ = 10_000.0


class ClockSource(StrEnum):
    """Where the clock of a target comes from."""

    PRESET = "preset"
    GIVEN = "given"
    ESTIMATED = "estimated"
    EXTRAPOLATED = "extrapolated"
    ROUTED = "routed"

    @property
    def text(self) -> str:
        """What reports say beside the clock."""
        return _CLOCK_TEXTS[self]


_CLOCK_TEXTS = {
    ClockSource.PRESET: "the preset's clock, not a design's",
    ClockSource.GIVEN: "from --set, --clock or the target's file",
    ClockSource.ESTIMATED: "estimated, see vdla timing --estimate",
    ClockSource.EXTRAPOLATED: "extrapolated: larger than every routed design, see vdla timing --estimate",
    ClockSource.ROUTED: "routed",
}


def _number(name: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} = {value!r} is not a number")
    if not low <= value <= high or math.isinf(value):
        limits = f"{low:g}..{high:g}" if math.isfinite(high) else f"the finite numbers from {low:g} on"
        raise ConfigError(f"{name} = {value!r} is outside {limits}")
    return float(value)


@dataclass(frozen=True, slots=True)
class EnergyTable:
    """Energy of events in pJ.

    Attributes:
        multiply_8_bits, multiply_32_bits: integer products.
        add_32_bits: integer sum.
        sram_8_kib, sram_32_kib, sram_1_mib: access to 64 bits of an on-chip memory of that size.
        dram: access to 64 bits of DRAM; the middle of the published range of 1,300 to 2,600.

    Raises:
        ConfigError: a value is not a finite number of at least 0.

    Source: M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, 45 nm at 0.9
    V. Nothing is scaled.
    """

    multiply_8_bits: float = 0.2
    multiply_32_bits: float = 3.1
    add_32_bits: float = 0.1
    sram_8_kib: float = 10.0
    sram_32_kib: float = 20.0
    sram_1_mib: float = 100.0
    dram: float = 1950.0

    def __post_init__(self) -> None:
        for event in fields(self):
            object.__setattr__(
                self, event.name, _number(f"energy.{event.name}", getattr(self, event.name), 0.0, math.inf)
            )


ENERGY_45NM = EnergyTable()


@dataclass(frozen=True)
class Target:
    """An accelerator with its memory, clock and energy table.

    Attributes:
        config: the accelerator. Width and longest burst of memory are its `bus_bits` and `burst_bytes`.
        memory: timing of the memory behind it: the reference memory, or an SDRAM.
        clock_mhz: turns cycles into time.
        energy: of events, in pJ.
        clock_source: where the clock comes from; no part of the digests. PRESET becomes GIVEN where the clock
            differs from the clock of all presets.

    Raises:
        ConfigError: the clock is not a number in 0..10,000, without 0; or the bus is too narrow for the
            SDRAM.
    """

    config: AcceleratorConfig = DEFAULT
    memory: AnyMemory = REFERENCE_MEMORY
    clock_mhz: float = REFERENCE_CLOCK_MHZ
    energy: EnergyTable = ENERGY_45NM
    clock_source: ClockSource = ClockSource.PRESET

    def __post_init__(self) -> None:
        clock = _number("clock_mhz", self.clock_mhz, 0.0, FASTEST_CLOCK_MHZ)
        if not clock:
            raise ConfigError("clock_mhz = 0 stands still; it must be greater")
        object.__setattr__(self, "clock_mhz", clock)
        reference_like(self.memory, self.config)  # refuses a bus that does not fit
        if self.clock_source is ClockSource.PRESET and clock != REFERENCE_CLOCK_MHZ:
            object.__setattr__(self, "clock_source", ClockSource.GIVEN)

    @property
    def name(self) -> str:
        """The configuration's name."""
        return self.config.name

    @property
    def bytes_per_cycle(self) -> float:
        """The most that memory moves."""
        return self.config.bus_bytes / self.estimated_memory.cycles_per_beat

    @property
    def estimated_memory(self) -> MemoryParameters:
        """The memory, or the reference memory that is most like an SDRAM."""
        return reference_like(self.memory, self.config)

    @property
    def clock_hz(self) -> float:
        """The clock in Hz."""
        return self.clock_mhz * 1e6

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything but names and the source of the clock."""
        return _digest({"config": parameters(self.config), **surroundings(self)})

    @cached_property
    def timing_digest(self) -> str:
        """SHA-256 (hex) of everything that cycles depend on: the configuration and its memory."""
        return _digest({"config": parameters(self.config), "memory": asdict(self.memory)})


TARGETS = {name: Target(config) for name, config in PRESETS.items()}
MEMORY_NAMES = tuple(parameter.name for parameter in fields(MemoryParameters))
SDRAM_NAMES = tuple(parameter.name for parameter in fields(SdramParameters))
ENERGY_NAMES = tuple(event.name for event in fields(EnergyTable))


def surroundings(target: Target) -> dict[str, object]:
    """Return everything that results depend on beside the configuration, as plain JSON values."""
    return {"clock_mhz": target.clock_mhz, "memory": asdict(target.memory), "energy": asdict(target.energy)}


def _digest(values: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
