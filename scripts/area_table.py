#!/usr/bin/env python3
"""Write docs/area.md: the presets on each FPGA family, from `vdla area`."""

from pathlib import Path

import click

from vdla.explore.silicon.families import FAMILIES
from vdla.explore.silicon.synthesis import area_of
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.writing import write_text

PAGE = Path(__file__).parent.parent / "docs" / "area.md"
HEAD = """# Area
FPGA resources of the core, for people who choose a device or a configuration. The figures come from synthesis
by Yosys, before placement. `vdla area --config small --target ecp5` estimates one row; `make area` writes
this page. Block RAMs are DP16KD (18 Kbit) on ECP5 and units of 36 Kbit on xc7.

| configuration | target | LUT | FF | DSP | block RAM |
|---|---|---|---|---|---|
"""


@click.command(help=__doc__)
def main() -> None:
    rows = "".join(row(config, target) for config in (TINY, SMALL, DEFAULT) for target in FAMILIES)
    write_text(PAGE, HEAD + rows)
    click.echo(HEAD + rows)


def row(config, target: str) -> str:
    """Return one line of the table."""
    try:
        area = area_of(config, target)
    except ToolError as error:
        return f"| {config.name} | {target} | {error} | | | |\n"
    return (
        f"| {config.name} | {target} | "
        + " | ".join(f"{getattr(area, kind):,g}" for kind in ("lut", "ff", "dsp", "block_ram"))
        + " |\n"
    )


if __name__ == "__main__":
    main()
