"""Descriptions of boards: one TOML file for each, in `boards/descriptions/` or anywhere else.

A description with a table `[zynq]` is a `ZynqBoard`, which Vivado builds. Every other description is a
`Board`, which names the parts of LiteX that it needs: platform (pins), clock generator, PHY and model of its
memory. The fields of these classes and of their tables are the keys of the file.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from vdla.boards.board_file import LinkTable, MapTable
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.files import read_text, toml_values

FOLDER = Path(__file__).parent / "descriptions"
Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
VivadoName: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.:-]+$")]
Arguments: TypeAlias = Mapping[str, bool | int | float | str | list[int]]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a description; an unknown key is an error."""


class Platform(_Table, frozen=True, kw_only=True):
    """The board in litex-boards.

    Attributes:
        module: name of the module in `litex_boards.platforms` and in `litex_boards.targets`.
        arguments: of the platform's constructor.
        extension: name of a list of pins in that module, which is added to the platform; "" for none.
        clocks: name of the class of the target that generates clocks and resets.
    """

    module: str
    arguments: Arguments = {}
    extension: str = ""
    clocks: str = "_CRG"


class Memory(_Table, frozen=True, kw_only=True):
    """The DRAM of the board.

    Attributes:
        kind: type of DRAM.
        part: class of the DRAM part in `litedram.modules`.
        phy: class of the PHY in `litedram.phy`.
        rate: clock of the accelerator to clock of the DRAM.
        pads: name of its pins on the platform.
        arguments: of the PHY's constructor. A list stands for a dictionary from index to element.
        settings: attributes of the PHY's settings that differ from the PHY's values.
        tied: pins of the DRAM that have constant values.
    """

    kind: Literal["SDR", "DDR3"]
    part: str
    phy: str
    rate: Literal["1:1", "1:2"]
    pads: str
    arguments: Arguments = {}
    settings: Arguments = {}
    tied: Mapping[str, int] = {}


class Link(_Table, frozen=True, kw_only=True):
    """How the host reaches the board.

    Attributes:
        kind: protocol.
        pads: name of the serial port's pins on the platform.
        baud: bits per second.
        port: serial device that the host has with the usual drivers; a user may name another port.
    """

    kind: Literal["uartbone"]
    pads: str
    baud: Annotated[int, msgspec.Meta(ge=9600, le=12_000_000)]
    port: str


class _Common(_Table, frozen=True, kw_only=True):
    """Every board.

    Attributes:
        name: by which commands know it.
        title: manufacturer, model and FPGA.
        clock_mhz: system clock that builds ask for unless told otherwise.
    """

    name: str
    title: str
    clock_mhz: Positive


class Board(_Common, frozen=True, kw_only=True):
    """A board whose system LiteX makes.

    Attributes:
        flash: name of the board in openFPGALoader; "" if it has none.
        platform, memory, link: see their classes.
        first_seeds: seed of the placement that a build tries first, by the name of the target; 1 for others.
    """

    flash: str
    platform: Platform
    memory: Memory
    link: Link
    first_seeds: Mapping[str, Annotated[int, msgspec.Meta(ge=1)]] = {}

    def seeds(self, target: str, count: int) -> list[int]:
        """Return the seeds of the placements that a build of a target tries, in order."""
        first = self.first_seeds.get(target, 1)
        return [first, *(seed for seed in range(1, count + 1) if seed != first)][:count]


class Zynq(_Table, frozen=True, kw_only=True):
    """The processing system of a Zynq and what surrounds it.

    Attributes:
        system: Vivado's name of the processing system.
        part: Vivado's name of the FPGA.
        board_part: Vivado's name of the board without its version. Its board files hold the settings of the
            DDR.
        port: of the processing system's memory that the accelerator uses.
        ddr_bytes: of DDR that begins at byte 0 of that port.
    """

    system: Literal["processing_system7", "zynq_ultra_ps_e"]
    part: VivadoName
    board_part: VivadoName
    port: Literal["HP0", "HP1", "HP2", "HP3"]
    ddr_bytes: Annotated[int, msgspec.Meta(gt=0)]


class Capacity(_Table, frozen=True, kw_only=True):
    """What the FPGA has: LUT6, flip-flops, DSP blocks, block RAMs of 36 Kbit."""

    lut: int
    ff: int
    dsp: int
    block_ram: int


class ZynqBoard(_Common, frozen=True, kw_only=True):
    """A board whose system Vivado makes around the processing system of a Zynq.

    Attributes:
        zynq, capacity: see their classes.
        map: byte addresses that the processor uses. The accelerator reaches `memory` alone, which Linux must
            leave free.
        link: how the driver on the processor reaches these addresses.
    """

    zynq: Zynq
    capacity: Capacity
    map: MapTable
    link: LinkTable


AnyBoard: TypeAlias = Board | ZynqBoard


@cache
def board_names(kind: type[AnyBoard] | None = None) -> tuple[str, ...]:
    """Return the names of the boards that the kit describes, sorted.

    Args:
        kind: of the boards; None: all.
    """
    names = tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))
    return names if kind is None else tuple(name for name in names if isinstance(load_board(name), kind))


def load_board(name_or_path: str | Path) -> AnyBoard:
    """Return the board of that name, or the board that the `.toml` file describes.

    Raises:
        ConfigError: there is neither, or the file does not describe a board; with file, key and what is
            allowed.
    """
    path = Path(name_or_path)
    if str(name_or_path) in board_names():
        path = FOLDER / f"{name_or_path}.toml"
    elif path.suffix != ".toml":
        raise ConfigError(
            f"board {str(name_or_path)!r} is unknown; there are {', '.join(board_names())}, and files with "
            "the suffix .toml that describe a board"
        )
    try:
        values = toml_values(read_text(path), str(path))
        kind: type[AnyBoard] = ZynqBoard if "zynq" in values else Board
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{path} does not describe a board: {error}; docs/boards.md lists the keys"
        ) from error


def load_litex_board(name_or_path: str | Path) -> Board:
    """Return the board of that name, or the board that the file describes, if LiteX makes its system.

    Raises:
        ConfigError: as `load_board`, or Vivado makes the system of the board.
    """
    board = load_board(name_or_path)
    if isinstance(board, ZynqBoard):
        raise ConfigError(
            f"Vivado makes the system of board {board.name}; LiteX has {', '.join(board_names(Board))}"
        )
    return board
