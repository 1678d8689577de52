"""``vdla build``."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path

import click

from vdla.boards.description import Board, ZynqBoard, board_names, load_board
from vdla.cli._live import duration
from vdla.cli._options import OUTPUT_FILE, reports_errors, takes_target
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.target import Target

PACKAGES = ("litex", "litedram", "litex_boards")
FAMILY = "xc7"
"""FPGA family of the area on Zynq boards. UltraScale+ has the same LUTs and block RAMs, and DSP blocks that
are at least as wide."""


@click.command()
@click.option(
    "--board",
    "board_name",
    required=True,
    metavar="NAME|FILE",
    help=f"A board ({', '.join(board_names())}), or a .toml file that describes a board.",
)
@click.option("-o", "--output", "folder", required=True, type=OUTPUT_FILE, help="Folder to write into.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Placements to try until the timing is met.",
)
@click.option(
    "--allow-slow-clock",
    is_flag=True,
    help="Write the bitstream even if the timing is not met at the clock asked.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@reports_errors
@takes_target
def command(
    target: Target, board_name: str, folder: Path, seeds: int, allow_slow_clock: bool, as_json: bool
) -> None:
    """Build a bitstream: an accelerator with DRAM and a link to the host, for an FPGA board.

    Writes bitstream.bit, report.json, and board.toml, which the driver reads. The system clock is the board's
    unless the target has one (--set clock_mhz=60). Nothing is written if the timing is not met.

    Finished stages are kept: a build that was interrupted goes on where it stopped.

    For a Zynq board, writes a Vivado project instead: Verilog, and build.tcl, which makes the bitstream.
    """
    board = load_board(board_name)
    if isinstance(board, ZynqBoard):
        if seeds != 1:
            raise ConfigError(f"--seeds {seeds} is for boards without Vivado; leave it out for {board.name}")
        _project(board, target, folder, allow_slow_clock, as_json)
    else:
        for package in PACKAGES:
            require_package(package, "vdla build")
        _bitstream(board, target, folder, seeds, allow_slow_clock, as_json)


def _tell(line: str) -> None:
    """Show the progress."""
    click.echo(line, err=True)


def _project(board: ZynqBoard, target: Target, folder: Path, allow_slow_clock: bool, as_json: bool) -> None:
    """Write a Vivado project, and print its report."""
    from vdla.boards.zynq import COMMAND, NOT_RUN, write_project  # imports Amaranth
    from vdla.explore.silicon.families import RESOURCES
    from vdla.explore.silicon.synthesis import area_of

    area = area_of(target.config, FAMILY, _tell)
    taken = {resource: getattr(area, resource) for resource in RESOURCES}
    report = write_project(board, target, folder, taken, allow_slow_clock)
    if as_json:
        click.echo(json.dumps(asdict(report), indent=1))
        return
    of = report.capacity
    click.echo(f"{report.board}, {report.target}: a Vivado project for {report.mhz_asked:g} MHz, {NOT_RUN}")
    click.echo(
        f"core after synthesis by Yosys: {area.lut:,.0f} of {of['lut']:,.0f} LUTs, {area.dsp:g} of "
        f"{of['dsp']:g} DSP blocks, {area.block_ram:g} of {of['block_ram']:g} block RAMs, {area.ff:,.0f} of "
        f"{of['ff']:,.0f} flip-flops"
    )
    click.echo(f"make the bitstream: cd {shlex.quote(str(folder))} && {COMMAND}")
    click.echo(folder)


def _bitstream(
    board: Board, target: Target, folder: Path, seeds: int, allow_slow_clock: bool, as_json: bool
) -> None:
    """Build a bitstream, and print its report."""
    from vdla.boards.build import build  # imports LiteX and Amaranth

    report = build(board, target, folder, _tell, seeds, allow_slow_clock)
    if as_json:
        click.echo(json.dumps(asdict(report), indent=1))
        return
    state = "met" if report.met else "NOT met"
    click.echo(
        f"{report.board}, {report.target}: {report.mhz:.1f} MHz reached, {report.mhz_asked:g} MHz asked, "
        f"timing {state} (seed {report.seed})"
    )
    click.echo(
        f"{report.lut:,} of {report.lut_of_device:,} LUT4, {report.dsp} of {report.dsp_of_device} multi"
        f"pliers, {report.block_ram} of {report.block_ram_of_device} block RAMs, {report.ff:,} flip-flops"
    )
    model = "models it" if report.memory_modelled else "has no model of it"
    click.echo(
        f"DRAM: {report.memory_bytes_per_cycle:g} bytes a cycle, {report.memory_megabytes_per_second:g} MB/s "
        f"(the cycle simulator {model})"
    )
    click.echo(f"slowest path: {report.slowest}")
    times = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in report.seconds.items())
    click.echo(f"wall time when the stages ran: {times}")
    click.echo(folder)
