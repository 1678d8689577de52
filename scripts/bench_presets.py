#!/usr/bin/env python3
"""Measure networks in milliseconds on the presets that fit a device, and what their extensions bring.

Each network runs on a preset, and on the same preset with only the extensions that all of them have (`lean`).
The cycle simulator counts cycles with the reference memory. The clock of a preset is the routed figure of
docs/timing.md, or an estimate, marked ~; both columns of milliseconds are at that clock. A preset without a
clock has cycles alone. The models are written first if they are missing.
"""

from collections.abc import Iterator
from pathlib import Path

import click
from account_cycles import NETWORKS
from make_models import quantised_model

import vdla
from vdla.explore.silicon.estimate import silicon_of
from vdla.explore.silicon.result import ROUTED
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import ECP5_25F, ECP5_85F, LEAN, SMALL, TINY, ZYNQ_7020
from vdla.runtime.module.plan import random_inputs

MODELS = Path(__file__).parent.parent / "build" / "models"

FITTED = (TINY, SMALL, ECP5_25F, ECP5_85F, ZYNQ_7020)
FAMILIES = {ZYNQ_7020.name: "xc7"}
TITLES = (
    f"{'preset':11}{'MHz':>7}  {'network':18}{'lean':>13}{'cycles':>13}{'times as fast':>15}"
    f"{'lean ms':>10}{'ms':>10}"
)


def clock_of(config: AcceleratorConfig) -> tuple[str, float | None]:
    """Return the clock of a configuration as text, with ~ before an estimate, and in MHz; None if unknown."""
    silicon = silicon_of(config, FAMILIES.get(config.name, "ecp5"))
    if silicon.mhz is None:
        return "-", None
    return f"{'' if silicon.clock == ROUTED else '~'}{silicon.mhz:.1f}", silicon.mhz


def cycles_of(network: str, config: AcceleratorConfig) -> int:
    """Return the cycles of a network."""
    module = vdla.compile(quantised_model(network, MODELS), config)
    return module.run(random_inputs(module.plan.inputs), device="cycle").report.cycles


def line(name: str, clock: tuple[str, float | None], network: str, lean: int, cycles: int) -> str:
    """Return a line of the table."""
    text, mhz = clock
    times = [f"{each / mhz / 1000:.1f}" if mhz else "-" for each in (lean, cycles)]
    return (
        f"{name:11}{text:>7}  {network:18}{lean:>13,}{cycles:>13,}{lean / cycles:>15.2f}"
        f"{times[0]:>10}{times[1]:>10}"
    )


def lines(presets: tuple[AcceleratorConfig, ...], networks: tuple[str, ...]) -> Iterator[str]:
    """Yield a line for each preset and network."""
    for config in presets:
        clock, lean = clock_of(config), config.with_changes(extensions=LEAN)
        for network in networks:
            cycles = cycles_of(network, config)
            before = cycles if lean == config else cycles_of(network, lean)
            yield line(config.name, clock, network, before, cycles)


@click.command(help=__doc__)
@click.option("--preset", "names", multiple=True, type=click.Choice([each.name for each in FITTED]))
@click.argument("networks", nargs=-1)
def main(names: tuple[str, ...], networks: tuple[str, ...]) -> None:
    click.echo(TITLES)
    presets = tuple(each for each in FITTED if not names or each.name in names)
    for each in lines(presets, networks or NETWORKS):
        click.echo(each)


if __name__ == "__main__":
    main()
