#!/usr/bin/env python3
"""Run a network on the cycle device and on the RTL, and compare outputs and cycles.

MODEL is a quantised ONNX model or a compiled module. The default is ResNet-18 in int8, written first if
it is missing. Inputs are random, the same each time. Exit status 1 if the two devices differ.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from make_models import quantised_model

import vdla
from vdla.api import Module
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.module.plan import random_inputs
from vdla.runtime.session.session import Outcome

MODELS = Path(__file__).parent.parent / "build" / "models"
DEVICES = ("cycle", "rtl")


@dataclass(frozen=True)
class Row:
    """A run on one device: wall seconds to make the device and place the network there, and to run it."""

    device: str
    outcome: Outcome
    ready_seconds: float

    def line(self) -> str:
        """Return it as a line of the table."""
        cycles, seconds = self.outcome.cycles, self.outcome.seconds
        return (
            f"{self.device:8} {cycles:12,} {self.ready_seconds:10.2f} {seconds:10.2f} "
            f"{cycles / seconds / 1e6:12.2f}"
        )


def measure(module: Module, device: str, inputs: Mapping[str, np.ndarray]) -> Row:
    """Run the network once on a device."""
    click.echo(
        f"{device}: preparing{', half a minute where the Verilog is not compiled yet' * (device == 'rtl')}",
        err=True,
    )
    began = time.perf_counter()
    session = module.session(device)
    ready = time.perf_counter() - began
    click.echo(f"{device}: running", err=True)
    return Row(device, session.run(inputs), ready)


def differences(first: Outcome, second: Outcome) -> Iterator[str]:
    """Yield what differs between two runs of a network: outputs, and cycles of launches."""
    for name, values in first.outputs.items():
        if not np.array_equal(values, second.outputs[name]):
            yield (
                f"output {name} differs in {np.count_nonzero(values != second.outputs[name])} of "
                f"{values.size} elements"
            )
    for ours, theirs in zip(first.launches, second.launches, strict=True):
        if ours.result.cycles != theirs.result.cycles:
            yield (
                f"{ours.step.stream} takes {ours.result.cycles:,} cycles here and "
                f"{theirs.result.cycles:,} there"
            )


@click.command(help=__doc__)
@click.argument("model", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--config", default="default", show_default=True, help="Preset or file, where a model is to be compiled."
)
def main(model: Path | None, config: str) -> None:
    try:
        path = model or quantised_model("resnet18", MODELS)
        module = vdla.load(path) if path.suffix == ".vdla" else vdla.compile(path, config)
        inputs = random_inputs(module.plan.inputs)
        rows = [measure(module, device, inputs) for device in DEVICES]
    except VdlaError as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"{path.name} for {module.plan.config.name}\n{'device':8} {'cycles':>12} {'ready in s':>10} "
        f"{'run in s':>10} {'M cycles/s':>12}"
    )
    click.echo("\n".join(row.line() for row in rows))
    mismatches = list(differences(rows[0].outcome, rows[1].outcome))
    click.echo("\n".join(f"DIFFER {text}" for text in mismatches) or "ok     outputs and cycles are equal")
    sys.exit(1 if mismatches else 0)


if __name__ == "__main__":
    main()
