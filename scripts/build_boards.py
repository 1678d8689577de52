#!/usr/bin/env python3
"""Build bitstreams for boards, and write what they reach to docs/boards.json and the table of docs/boards.md.

Each row of `ROWS` is a board, a target and a clock to ask for, built as `vdla build` builds it. The fastest
of the placements is stored, whether its timing is met or not. A row takes from ten minutes to an hour;
finished stages are kept.
"""

import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from vdla.boards.board_file import BITSTREAM
from vdla.boards.build import build
from vdla.boards.description import Board, board_names, load_litex_board
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import ClockSource
from vdla.hw.spec.target_files import load
from vdla.hw.spec.writing import write_text

DOCS = Path(__file__).parents[1] / "docs"
STORE, PAGE = DOCS / "boards.json", DOCS / "boards.md"
ROWS = {
    ("ulx3s-85f", "small"): 70.0,
    ("ulx3s-85f", "tiny"): 70.0,
    ("colorlight-i9", "small"): 50.0,
    ("ecpix-5-85f", "small"): 60.0,
    ("orangecrab-85f", "small"): 60.0,
}
"""Clock to ask for, in MHz, by names of board and target."""
HEAD = (
    "| board | target | MHz asked | MHz reached | timing | LUT4 | multipliers | block RAMs | DRAM, MB/s "
    "| bitstream, bytes | wall time, s |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
)
BEGIN, END = "<!-- Table of docs/boards.json: scripts/build_boards.py -->\n", "<!-- End of the table -->\n"


def measured(board: str, target: str, clock_mhz: float, seeds: int) -> dict[str, Any]:
    """Build a row; return its report, with the size of the bitstream in bytes.

    Raises:
        VdlaError: as `vdla.boards.build.build`.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "build"
        described = load_litex_board(board)
        asked = replace(load(target), clock_mhz=clock_mhz, clock_source=ClockSource.GIVEN)
        report = build(described, asked, folder, click.echo, seeds, allow_slow_clock=True)
        return {**asdict(report), "bitstream_bytes": (folder / BITSTREAM).stat().st_size}


def stored() -> list[dict[str, Any]]:
    """Return the rows of the store, in its order."""
    rows: list[dict[str, Any]] = json.loads(STORE.read_text()) if STORE.exists() else []
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table, and the boards without a row as a sentence."""
    lines = [
        f"| {row['board']} | {row['target']} | {row['mhz_asked']:g} | {row['mhz']:.1f} | "
        f"{'met' if row['met'] else 'not met'} | {row['lut']:,} of {row['lut_of_device']:,} | "
        f"{row['dsp']} of {row['dsp_of_device']} | {row['block_ram']} of {row['block_ram_of_device']} | "
        f"{row['memory_megabytes_per_second']:g} | {row['bitstream_bytes']:,} | "
        f"{sum(row['seconds'].values()):.0f} |\n"
        for row in rows
    ]
    rest = [name for name in board_names(Board) if name not in {row["board"] for row in rows}]
    only = f"\nElaborated by the tests, and not built to a bitstream yet: {', '.join(rest)}.\n" * bool(rest)
    return HEAD * bool(lines) + "".join(lines) + only


def page_with(text: str, rows: list[dict[str, Any]]) -> str:
    """Return the page with the table of `rows` between its marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table(rows) + END + rest.split(END)[1]


@click.command(help=__doc__)
@click.option("--board", "boards", multiple=True, metavar="NAME", help="Build only the rows of this board.")
@click.option(
    "--target", "targets", multiple=True, metavar="NAME", help="Build only the rows of this target."
)
@click.option("--seeds", type=click.IntRange(1, 100), default=3, show_default=True, help="Placements to try.")
def main(boards: tuple[str, ...], targets: tuple[str, ...], seeds: int) -> None:
    rows = {(row["board"], row["target"]): row for row in stored()}
    for (board, target), clock_mhz in ROWS.items():
        if (boards and board not in boards) or (targets and target not in targets):
            continue
        try:
            rows[board, target] = measured(board, target, clock_mhz, seeds)
        except VdlaError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(2)
        ordered = [rows[key] for key in ROWS if key in rows]
        write_text(STORE, json.dumps(ordered, indent=1) + "\n")
        write_text(PAGE, page_with(PAGE.read_text(), ordered))
        click.echo(f"{board}, {target}: {rows[board, target]['mhz']:.1f} MHz")


if __name__ == "__main__":
    main()
