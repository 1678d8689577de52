"""`board.toml`: what the driver knows of a bitstream. A build writes it, and the driver reads nothing else.

The fields of `BoardFile` and of its tables are the keys of the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from vdla.hw.spec import target_files
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.files import read_text, toml_values
from vdla.hw.spec.target import Target

FILE_NAME, BITSTREAM, REPORT = "board.toml", "bitstream.bit", "report.json"
"""The files of a build."""
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Address: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Count: TypeAlias = Annotated[int, msgspec.Meta(gt=0)]
Step: TypeAlias = tuple[Address, Address, Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file; an unknown key is an error."""


class BoardTable(_Table, frozen=True, kw_only=True):
    """What was built.

    Attributes:
        name: of the board.
        clock_mhz: system clock, which the accelerator counts its cycles in.
        config_digest: digest (hex) of the accelerator's configuration; the register CONFIG_DIGEST holds its
            first 32 bits.
        digest: SHA-256 (hex) of the bitstream's sources and of the bitstream; of the sources alone if
            the user makes the bitstream.
        target: the whole target, as text in TOML.
        loader: name of the board in openFPGALoader; "" for a board that it does not load.
    """

    name: str
    clock_mhz: Annotated[float, msgspec.Meta(gt=0)]
    config_digest: Digest
    digest: Digest
    target: str
    loader: str = ""


class LinkTable(_Table, frozen=True, kw_only=True):
    """How the host reaches the board.

    Attributes:
        kind: "uartbone" (serial), "etherbone" (UDP), or "devmem" (the driver runs on the board's processor
            and maps physical memory).
        port: serial device, socket://HOST:PORT, the host name of an Etherbone board, or the device file of
            physical memory.
        baud: bits per second of a serial port.
        quiet_ms: milliseconds of silence after which the board drops a command that it received in part.
        answer_seconds: limit of time of an answer.
        run_seconds: limit of time of a run.
    """

    kind: Literal["uartbone", "etherbone", "devmem"]
    port: str
    baud: Annotated[int, msgspec.Meta(gt=0)] = 115200
    quiet_ms: Annotated[float, msgspec.Meta(ge=0)] = 120.0
    answer_seconds: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    run_seconds: Annotated[float, msgspec.Meta(gt=0)] = 60.0


class MapTable(_Table, frozen=True, kw_only=True):
    """Byte addresses on the bus of the system on chip.

    Attributes:
        registers: of the accelerator's registers.
        memory: of DRAM. The accelerator's addresses of DRAM start at 0.
        memory_bytes: of DRAM.
    """

    registers: Address
    memory: Address
    memory_bytes: Annotated[int, msgspec.Meta(gt=0, le=1 << 32)]


class LevellingTable(_Table, frozen=True, kw_only=True):
    """The read levelling of a PHY, which the host performs (`vdla.runtime.devices.board.levelling`).

    Attributes:
        modules: bytes of the data bus, each with its strobe.
        delays, bitslips: settings that a module has.
        phases: of the DFI, in which a burst is transferred.
        read_phase, write_phase: in which the commands READ and WRITE are given.
    """

    modules: Count
    delays: Count
    bitslips: Count
    phases: Count
    read_phase: Annotated[int, msgspec.Meta(ge=0)]
    write_phase: Annotated[int, msgspec.Meta(ge=0)]


class MemoryTable(_Table, frozen=True, kw_only=True):
    """DRAM and its initialisation, which the host performs: the system on chip has no CPU.

    Attributes:
        kind: "SDR", "DDR3", "PS" for DDR that a processing system initialises, or "model" for a memory that
            needs no initialisation.
        part: of the DRAM.
        init: steps in order: address of a control register on the bus, value to write, microseconds to wait
            after the write.
        levelling: of the PHY's reads; None if the PHY needs none.
    """

    kind: str
    part: str
    init: tuple[Step, ...] = ()
    levelling: LevellingTable | None = None


class BoardFile(_Table, frozen=True, kw_only=True):
    """The contents of a file.

    Attributes:
        board, link, map, memory: see their classes.
        csr: byte address on the bus of each control register of LiteX, by name.
    """

    board: BoardTable
    link: LinkTable
    map: MapTable
    memory: MemoryTable
    csr: Mapping[str, Address] = {}

    @property
    def target(self) -> Target:
        """The target that was built.

        Raises:
            ConfigError: `board.target` is not a target, or not that of `board.config_digest`.
        """
        target = target_files.from_toml(self.board.target, f"{FILE_NAME}, board.target")
        if target.config.digest != self.board.config_digest:
            raise ConfigError(
                f"{FILE_NAME}: board.config_digest = {self.board.config_digest[:8]}..., and the "
                f"configuration in board.target has {target.config.digest[:8]}...; build the board again"
            )
        return target


def bitstream_digest(sources: str, bitstream: bytes) -> str:
    """Return the digest of a build: of the digest of what place and route read, and of the bitstream."""
    return digest_of([sources, bitstream])


def to_toml(file: BoardFile) -> str:
    """Return a board file as TOML, which `from_toml` reads back equal."""
    tables: dict[str, dict[str, object]] = msgspec.to_builtins(file)
    return "\n".join(f"[{table}]\n{_lines(values)}" for table, values in tables.items() if values)


def _lines(values: Mapping[str, object]) -> str:
    """Return the keys of a table with their values as TOML; TOML has no None."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items() if value is not None)


def _value(value: object) -> str:
    """Return a value as TOML: numbers, texts, lists of lists of numbers, and tables of numbers."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
        case [[*_], *_]:
            return "[\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def from_toml(text: str, filename: str = "<text>") -> BoardFile:
    """Return the board file in `text`.

    Raises:
        ConfigError: it is not TOML, or not a board file; with file, key and what is allowed.
    """
    try:
        return msgspec.convert(toml_values(text, filename), BoardFile)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{filename} is not a board file: {error}; vdla build --board writes such files"
        ) from error


def read_board_file(path: Path) -> BoardFile:
    """Return the board file at `path`, or in the folder `path`.

    Raises:
        ConfigError: it cannot be read, or is not a board file.
    """
    file = path / FILE_NAME if path.is_dir() else path
    return from_toml(read_text(file), str(file))
