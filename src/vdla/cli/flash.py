"""``vdla flash``."""

import json
import shlex
from pathlib import Path

import click

from vdla.boards.board_file import (
    BITSTREAM,
    FILE_NAME,
    REPORT,
    BoardFile,
    bitstream_digest,
    read_board_file,
)
from vdla.boards.tools import LOADER, Tool, loader
from vdla.cli._options import reports_errors
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.limits import read_at_most

LARGEST_BITSTREAM_BYTES = 64 << 20
SECONDS = 300
"""After which openFPGALoader is ended. Writing a flash of 16 MiB takes about one minute."""


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--permanent", is_flag=True, help="Write the board's flash memory, which the FPGA loads at power-up."
)
@click.option(
    "--cable", metavar="NAME", default="", help="Cable, as openFPGALoader names it.  [default: the board's]"
)
@click.option("--dry-run", is_flag=True, help="Check the build and print the command; run nothing.")
@reports_errors
def command(folder: Path, permanent: bool, cable: str, dry_run: bool) -> None:
    """Load a build of vdla build into the FPGA of its board, with openFPGALoader.

    The bitstream must be the bitstream that board.toml names. The FPGA forgets it at power-down, unless
    --permanent is given.
    """
    arguments = loader_arguments(folder.resolve(), permanent, cable)
    click.echo(shlex.join([LOADER, *arguments]))
    if not dry_run:
        flash(loader("vdla flash"), arguments, folder)
        click.echo(f"{folder}: loaded")


def loader_arguments(folder: Path, permanent: bool, cable: str = "") -> list[str]:
    """Return the arguments with which openFPGALoader loads the build in a folder.

    Args:
        permanent: write the flash memory of the board, which the FPGA loads at power-up. Otherwise the
            bitstream is lost at power-down.
        cable: of openFPGALoader; "": the board's.

    Raises:
        ConfigError: the folder does not hold a whole build, or its board is unknown to openFPGALoader.
    """
    file = read_board_file(folder)
    if not file.board.loader:
        raise ConfigError(
            f"{folder / FILE_NAME}: board.loader is empty: {LOADER} is not used for board "
            f"{file.board.name}; load {BITSTREAM} with the tool of the board's manufacturer"
        )
    _check(folder, file)
    options = ["--cable", cable] if cable else []
    return [
        "--board",
        file.board.loader,
        *options,
        "--write-flash" if permanent else "--write-sram",
        str(folder / BITSTREAM),
    ]


def _check(folder: Path, file: BoardFile) -> None:
    """Refuse a bitstream that is not the bitstream of its `board.toml`.

    Raises:
        ConfigError: a file is missing, damaged, or of another build.
    """
    try:
        sources = str(json.loads(read_at_most(folder / REPORT, 1 << 20, ConfigError))["sources"])
        bitstream = read_at_most(folder / BITSTREAM, LARGEST_BITSTREAM_BYTES, ConfigError)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder} does not hold a whole build: {error}; write one with vdla build --board "
            f"{file.board.name} -o {folder}"
        ) from error
    if bitstream_digest(sources, bitstream) != file.board.digest:
        raise ConfigError(
            f"{folder / BITSTREAM} is damaged, or is of another build than {FILE_NAME}: their digests "
            f"differ; repeat vdla build --board {file.board.name} -o {folder}"
        )


def flash(tool: Tool, arguments: list[str], folder: Path) -> None:
    """Run openFPGALoader.

    Raises:
        ToolError: it fails, for instance because no cable is connected, or takes more than SECONDS.
    """
    tool.run(arguments, folder, seconds=SECONDS)
