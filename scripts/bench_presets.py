#!/usr/bin/env python3
"""Measure networks in milliseconds on the presets that fit a device, at the clocks at which they were routed.

Cycles are those of the cycle simulator with the reference memory. Clocks are the routed figures of
docs/timing.md; a preset without one has cycles alone. The models are made first if they are missing.
"""

from collections.abc import Iterator
from pathlib import Path

import click
from make_models import quantised_model

import vdla
from vdla.explore.silicon.estimate import silicon_of
from vdla.explore.silicon.result import ROUTED
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import ECP5_25F, ECP5_85F, SMALL, TINY, ZYNQ_7020
from vdla.runtime.module.plan import random_inputs

MODELS = Path(__file__).parent.parent / "build" / "models"

FITTED = (TINY, SMALL, ECP5_25F, ECP5_85F, ZYNQ_7020)
NETWORKS = ("resnet18", "mobilenet")


def routed_mhz(config: AcceleratorConfig) -> float | None:
    """Return the clock at which a configuration was routed on ECP5; None where it was not."""
    silicon = silicon_of(config, "ecp5")
    return silicon.mhz if silicon.clock == ROUTED else None


def cycles_of(network: str, config: AcceleratorConfig) -> int:
    """Return the cycles of a network."""
    module = vdla.compile(quantised_model(network, MODELS), config)
    return module.run(random_inputs(module.plan.inputs), device="cycle").report.cycles


def line(name: str, mhz: float | None, network: str, cycles: int) -> str:
    """Return a line of the table."""
    clock, time = (f"{mhz:.1f}", f"{cycles / mhz / 1000:.1f}") if mhz else ("-", "-")
    return f"{name:12}{clock:>8}  {network:10}{cycles:>14,}{time:>10}"


def lines() -> Iterator[str]:
    """Yield a line for each preset and network."""
    for config in FITTED:
        mhz = routed_mhz(config)
        for network in NETWORKS:
            yield line(config.name, mhz, network, cycles_of(network, config))


@click.command(help=__doc__)
def main() -> None:
    click.echo(f"{'preset':12}{'MHz':>8}  {'network':10}{'cycles':>14}{'ms':>10}")
    for one in lines():
        click.echo(one)


if __name__ == "__main__":
    main()
