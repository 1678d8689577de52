#!/usr/bin/env python3
"""Compare networks with and without the extension `normalise` on the configuration `default`.

Without it, the host normalises rows between launches, and its time is not in the cycles. file: int8 files are
quantised by onnxruntime, float files by the kit. decibels: the signal to noise of the outputs against the
float network in onnxruntime, over three samples. The cycle simulator counts cycles with the reference memory.
The models are written first if they are missing.
"""

from itertools import product
from pathlib import Path

import click
import numpy as np
import onnx
from make_models import float_file, quantised_model
from models.catalogue import NETWORKS, Network
from models.run import run, session_of

import vdla
from vdla.api import Module
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.module.plan import random_inputs

MODELS = Path(__file__).parent.parent / "build" / "models"
OF_ROWS = ("convnext", "transformer", "vit")
SAMPLES, SEED = 3, 5
CALIBRATION, CALIBRATION_SEED = 8, 1  # samples of a float file
FILES = ("int8", "float")
CONFIGS = {
    "off": DEFAULT,
    "on": DEFAULT.with_changes(extensions=(*DEFAULT.extensions, Extension.NORMALISE)),
}
WIDTHS = {
    "network": -13,
    "file": -6,
    "normalise": 11,
    "launches": 10,
    "on host": 9,
    "cycles": 12,
    "multipliers": 13,
}
TITLES = "".join(f"{title:{'<' if width < 0 else '>'}{abs(width)}}" for title, width in WIDTHS.items())


def decibels(network: Network, module: Module) -> float:
    """Return the signal to noise of a module's outputs against the float network, in dB."""
    session, signal, noise = session_of(onnx.load(float_file(network, MODELS))), 0.0, 0.0
    for sample in network.samples(SAMPLES, SEED):
        outputs = module.run(sample, device="functional").outputs
        for name, expected in run(session, sample).items():
            signal += float(np.square(expected).sum())
            noise += float(np.square(expected - outputs[name]).sum())
    return 10 * float(np.log10(signal / noise))


def compiled(name: str, file: str, setting: str) -> Module:
    """Return a compiled network.

    Args:
        file: of FILES.
        setting: of CONFIGS.
    """
    if file == "int8":
        return vdla.compile(quantised_model(name, MODELS), CONFIGS[setting])
    network = NETWORKS[name]
    samples = list(network.samples(CALIBRATION, CALIBRATION_SEED))
    return vdla.compile(float_file(network, MODELS), CONFIGS[setting], samples=samples)


def line(name: str, file: str, setting: str) -> str:
    """Return the line of a network; see `compiled`."""
    module = compiled(name, file, setting)
    report = module.run(random_inputs(module.plan.inputs), device="cycle").report
    cycles = report.cycles or 0
    used = report.macs / DEFAULT.macs_per_cycle / cycles
    return (
        f"{name:13}{file:6}{setting:>11}{len(module.plan.launches):10}{len(module.plan.host_steps):9}"
        f"{cycles:12,}{used:13.1%}{decibels(NETWORKS[name], module):10.1f}"
    )


@click.command(help=__doc__)
@click.argument("networks", nargs=-1)
def main(networks: tuple[str, ...]) -> None:
    click.echo(f"{TITLES}{'decibels':>10}")
    for name in networks or OF_ROWS:
        for file, setting in product(FILES, CONFIGS):
            click.echo(line(name, file, setting))


if __name__ == "__main__":
    main()
