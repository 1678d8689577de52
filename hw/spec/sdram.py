"""An SDR SDRAM behind LiteDRAM's controller: the parameters of the second kind of memory.

The path of a beat, each stage with its registers:

* the AXI bridge of the accelerator: a queue of 4 write requests, a queue of 2 read beats; with an address
  guard, a write beat passes after its request;
* LiteDRAM's AXI port: one burst of reads and one burst of writes at a time, divided into beats; buffers of
  `read_depth` and `write_depth` beats; reads and writes alternate at the ends of bursts;
* the converter (`boards/sdram.py`): a cycle for each word of the SDRAM; it holds a beat ahead;
* one bank machine at a time: it opens and closes rows, with a precharge in the last access to a row;
* the multiplexer: changes between reads and writes, and a refresh every `refresh_interval` cycles, at which
  all rows are closed.

A model of the same registers is in the cycle simulator (`sim/timing/sdram.py`) and in front of the RTL
(`runtime/devices/rtl/sdram.hpp`). Timing does not depend on data.

Source: LiteDRAM 2024.12, controller and AXI port with their default settings, generic SDR PHY at the
controller's clock; checked by `scripts/measure_sdram.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.memory import MemoryParameters

MOST_CYCLES = 1 << 20
MOST_BUFFERED = 64
"""Commands or beats that a buffer of the controller can hold in the models."""
MOST_BANKS = 16
MOST_STAGES = 48
"""Registers that read or write strobes can pass in the models."""
PATH_CYCLES = 10
"""Registers from the acceptance of a read to its command, and from its last word to its beat: request,
arbiter, converter, two command buffers, word collector, two of the read buffer, two queues."""


@dataclass(frozen=True, slots=True)
class SdramParameters:
    """Timing of an SDR SDRAM and its controller. Times are in cycles of their common clock.

    The defaults describe an MT48LC16M16 at 50 MHz, the part of a ULX3S.

    Attributes:
        word_bits: width of the SDRAM.
        column_bits, bank_bits: address bits of a row's words, and of banks. Rows of all banks alternate.
        precharge, activate, write_recovery, write_to_read, refresh: tRP, tRCD, tWR, tWTR, tRFC.
        refresh_interval: tREFI.
        column_to_column: tCCD.
        row_to_row, row_cycle, row_active: tRRD, tRC, tRAS; 0: the part states none.
        cas_latency: from a read command to its data.
        read_latency, write_latency: of the PHY, from the enabling of data to the data.
        command_depth: commands that a bank machine holds ahead.
        read_depth, write_depth: beats in the buffers of the AXI port.
        read_time, write_time: for which reads or writes may keep the others waiting.
        refresh_phase: for which the refresh timer has run at the start of a run, below `refresh_interval`.

    Raises:
        ConfigError: a value is outside its range; the message names it.
    """

    word_bits: int = 16
    column_bits: int = 9
    bank_bits: int = 2
    precharge: int = 1
    activate: int = 1
    write_recovery: int = 1
    write_to_read: int = 2
    refresh: int = 4
    refresh_interval: int = 391
    column_to_column: int = 1
    row_to_row: int = 1
    row_cycle: int = 4
    row_active: int = 3
    cas_latency: int = 2
    read_latency: int = 3
    write_latency: int = 0
    command_depth: int = 8
    read_depth: int = 16
    write_depth: int = 16
    read_time: int = 32
    write_time: int = 16
    refresh_phase: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = _RANGES.get(field.name, (1, MOST_CYCLES))
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"memory {field.name} = {value!r} is outside {low}..{high}")
        if self.word_bits & (self.word_bits - 1):
            raise ConfigError(f"memory word_bits = {self.word_bits} is not a power of two")
        if self.refresh_phase >= self.refresh_interval:
            raise ConfigError(
                f"memory refresh_phase = {self.refresh_phase} is outside 0..{self.refresh_interval - 1}; it "
                "must be below refresh_interval"
            )

    def seen_from(self, config: AcceleratorConfig) -> MemoryParameters:
        """Return the reference memory that is most like this SDRAM: latency of a read in an idle controller,
        bandwidth without refresh and changes of rows.

        Raises:
            ConfigError: the accelerator's bus does not fit.
        """
        words = words_per_beat(self, config)
        latency = PATH_CYCLES + self.activate + self.read_latency + words
        return MemoryParameters(latency, self.read_depth, words)


AnyMemory = MemoryParameters | SdramParameters
KINDS: Mapping[str, type[MemoryParameters] | type[SdramParameters]] = {
    "reference": MemoryParameters,
    "sdram": SdramParameters,
}
"""The kinds of memory by the name that a target's file gives."""

_RANGES = {
    "word_bits": (8, 512),
    "column_bits": (1, 16),
    "bank_bits": (1, MOST_BANKS.bit_length() - 1),
    "refresh_interval": (100, MOST_CYCLES),
    "row_to_row": (0, MOST_CYCLES),
    "row_cycle": (0, MOST_CYCLES),
    "row_active": (0, MOST_CYCLES),
    "read_latency": (1, MOST_STAGES - 1),
    "write_latency": (0, MOST_STAGES - 1),
    "command_depth": (2, MOST_BUFFERED),
    "read_depth": (2, MOST_BUFFERED),
    "write_depth": (2, MOST_BUFFERED),
    "refresh_phase": (0, MOST_CYCLES),
}


def reference_like(memory: AnyMemory, config: AcceleratorConfig) -> MemoryParameters:
    """Return the reference memory that is most like a memory; estimates take it.

    Raises:
        ConfigError: the accelerator's bus does not fit.
    """
    return memory if isinstance(memory, MemoryParameters) else memory.seen_from(config)


def memory_of(values: Mapping[str, int]) -> AnyMemory:
    """Return the memory that has the parameters `values`, of either kind.

    Raises:
        ConfigError: a value is outside its range, or no memory has these names.
    """
    for kind in KINDS.values():
        if values.keys() == {field.name for field in fields(kind)}:
            return kind(**values)
    raise ConfigError(
        f"memory has the parameters {', '.join(values) or 'none'}; a memory has "
        + ", or ".join(", ".join(field.name for field in fields(kind)) for kind in KINDS.values())
    )


_SUPPORTED = {
    "phy.memtype": "SDR",
    "phy.nphases": 1,
    "phy.nranks": 1,
    "timing.tFAW": None,
    "timing.tZQCS": None,
    "cmd_buffer_buffered": False,
    "with_auto_precharge": True,
    "with_refresh": True,
    "refresh_postponing": 1,
    "address_mapping": "ROW_BANK_COL",
    "bank_byte_alignment": 0,
}


def controller_parameters(settings: Any) -> SdramParameters:
    """Return the parameters of a LiteDRAM controller; no number is measured or fitted.

    Args:
        settings: of the controller (`litedram.core.controller.ControllerSettings`), with `phy`, `geom` and
            `timing`, whose times LiteDRAM computes from the part's data sheet and the clock.

    Raises:
        ConfigError: the controller has a setting that the models do not cover; the message names it.
    """
    for name, supported in _SUPPORTED.items():
        value = settings
        for part in name.split("."):
            value = getattr(value, part)
        if value != supported:
            raise ConfigError(
                f"LiteDRAM's setting {name} = {value!r} is not modelled; it must be {supported!r}"
            )
    phy, geometry, timing = settings.phy, settings.geom, settings.timing
    return SdramParameters(
        word_bits=phy.databits,
        column_bits=geometry.colbits,
        bank_bits=geometry.bankbits,
        precharge=timing.tRP,
        activate=timing.tRCD,
        write_recovery=timing.tWR,
        write_to_read=timing.tWTR,
        refresh=timing.tRFC,
        refresh_interval=timing.tREFI,
        column_to_column=timing.tCCD,
        row_to_row=timing.tRRD or 0,
        row_cycle=timing.tRC or 0,
        row_active=timing.tRAS or 0,
        cas_latency=phy.cwl,
        read_latency=phy.read_latency,
        write_latency=phy.write_latency,
        command_depth=settings.cmd_buffer_depth,
        read_time=settings.read_time,
        write_time=settings.write_time,
    )


def words_per_beat(memory: SdramParameters, config: AcceleratorConfig) -> int:
    """Return the words of the SDRAM in a beat of the accelerator's bus.

    Raises:
        ConfigError: the bus is not at least twice as wide as the SDRAM.
    """
    words = config.bus_bits // memory.word_bits
    if words < 2:
        raise ConfigError(
            f"bus_bits = {config.bus_bits} is too narrow for an SDRAM of memory word_bits = "
            f"{memory.word_bits}; set bus_bits to at least {2 * memory.word_bits}"
        )
    return words


def sdram_timing(memory: SdramParameters, config: AcceleratorConfig) -> dict[str, int]:
    """Return what the models of the memory take, in the order in which they take it.

    Times of 0 are limits that the part does not state.

    Raises:
        ConfigError: the accelerator's bus does not fit.
    """
    return {
        "words": words_per_beat(memory, config),
        "guarded": config.axi_address_width < config.address_bits,
        "word_shift": (memory.word_bits // 8).bit_length() - 1,
        "column_bits": memory.column_bits,
        "bank_bits": memory.bank_bits,
        "precharge": memory.precharge,
        "activate": memory.activate,
        "row_cycle": memory.row_cycle,
        "row_active": memory.row_active,
        "row_to_row": memory.row_to_row,
        "column_to_column": memory.column_to_column,
        "write_to_precharge": memory.cas_latency + memory.write_recovery + memory.column_to_column,
        "write_to_read": memory.cas_latency + memory.write_to_read + memory.column_to_column,
        "read_to_write": memory.read_latency - 1,
        "refresh_cycles": memory.precharge + memory.refresh + 1,
        "refresh_interval": memory.refresh_interval,
        "first_refresh": memory.refresh_interval - 1 - memory.refresh_phase,
        "read_stages": memory.read_latency + 1,
        "write_stages": memory.write_latency + 1,
        "command_depth": memory.command_depth,
        "read_depth": memory.read_depth,
        "write_depth": memory.write_depth,
        "read_time": memory.read_time,
        "write_time": memory.write_time,
    }
