#!/usr/bin/env python3
"""Account for the cycles and the DRAM traffic of networks on the configuration `default`.

ideal: MACs divided by the number of multipliers. roofline: the sum over the layers of the larger of the ideal
and of the layer's operands and result, each once, at the speed of the bus. The cycles of layers are divided
by what bounds the layers. Megabytes are the data moved, and the operands and results, each once. The cycle
simulator counts cycles with the reference memory, in thousands. The models are written first if they are
missing.
"""

from collections import Counter
from pathlib import Path

import click
from make_models import quantised_model

import vdla
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT
from vdla.runtime.module.plan import random_inputs
from vdla.runtime.session.report import Report

MODELS = Path(__file__).parent.parent / "build" / "models"
NETWORKS = (
    "resnet18",
    "resnet50",
    "mobilenet",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "vit",
    "yolo",
    "shufflenet_v2",
    "convnext",
)
BOUNDS = ("compute", "memory", "latency")
TITLES = (
    f"{'network':20}{'ideal':>9}{'roofline':>10}{'cycles':>9}{'reached':>9}"
    + "".join(f"{bound:>9}" for bound in BOUNDS)
    + f"{'MB':>8}{'MB once':>9}"
)


def line(network: str, report: Report, config: AcceleratorConfig) -> str:
    """Return the line of a network from its report on a timed device."""
    cycles, roofline = report.cycles or 0, report.roofline_cycles or 0
    shares = Counter[str]()
    for layer in report.layers:
        shares[layer.bound] += layer.cycles or 0
    return (
        f"{network:20}{report.macs / config.macs_per_cycle / 1e3:9,.0f}{roofline / 1e3:10,.0f}"
        f"{cycles / 1e3:9,.0f}{roofline / cycles:9.1%}"
        + "".join(f"{shares[bound] / 1e3:9,.0f}" for bound in BOUNDS)
        + f"{report.bytes_moved / 1e6:8.1f}{report.bytes_once / 1e6:9.1f}"
    )


@click.command(help=__doc__)
@click.argument("networks", nargs=-1)
def main(networks: tuple[str, ...]) -> None:
    click.echo(TITLES)
    for network in networks or NETWORKS:
        module = vdla.compile(quantised_model(network, MODELS), DEFAULT)
        report = module.run(random_inputs(module.plan.inputs), device="cycle").report
        click.echo(line(network, report, DEFAULT))


if __name__ == "__main__":
    main()
