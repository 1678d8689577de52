"""``vdla area``."""

import json
from dataclasses import asdict

import click

from vdla.cli._options import reports_errors, takes_config_alone
from vdla.hw.spec.config import AcceleratorConfig

SHOWN_UNITS = 12


@click.command()
@click.option(
    "--target",
    "family",
    type=click.Choice(["ecp5", "xc7"]),
    default="ecp5",
    show_default=True,
    help="FPGA family.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
@takes_config_alone
def command(config: AcceleratorConfig, family: str, as_json: bool) -> None:
    """Synthesise the core; count LUTs, flip-flops, DSPs and block RAMs of the whole and of each unit.

    Figures are after synthesis by Yosys, before placement. They are kept: the second call with equal hardware
    synthesises nothing.
    """
    from vdla.explore.silicon.families import RESOURCES
    from vdla.explore.silicon.synthesis import area_of

    area = area_of(config, family, lambda line: click.echo(line, err=True))
    if as_json:
        head = {"config": config.name, "digest": config.digest, "target": family}
        click.echo(json.dumps({**head, **asdict(area)}, indent=1))
        return
    click.echo(
        f"{config.name} on {family}: {area.lut:g} LUT, {area.ff:g} FF, {area.dsp:g} DSP, "
        f"{area.block_ram:g} block RAM"
    )
    width = max(map(len, area.hierarchy))
    click.echo(f"{'unit':{width}} {'LUT':>8} {'FF':>8} {'DSP':>6} {'block RAM':>9}")
    for unit, of_unit in list(area.hierarchy.items())[:SHOWN_UNITS]:
        counts = [f"{of_unit[kind]:g}" for kind in RESOURCES]
        click.echo(f"{unit:{width}} {counts[0]:>8} {counts[1]:>8} {counts[2]:>6} {counts[3]:>9}")
    if len(area.hierarchy) > SHOWN_UNITS:
        click.echo(f"and {len(area.hierarchy) - SHOWN_UNITS} smaller units; --json lists all of them")
