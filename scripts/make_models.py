#!/usr/bin/env python3
"""Write the example networks as ONNX files: NAME.onnx in float32, NAME_int8.onnx quantised by onnxruntime.

Weights, statistics and calibration data are random but seeded. The networks have the shapes of the published
networks, not their accuracy. Every file is checked and run once before it is written. Existing files stay.
"""

import time
from pathlib import Path

import click
import numpy as np
import onnx
from models.catalogue import NETWORKS, OPTIONAL, Network
from models.regions import regions
from models.run import Tensors, run, session_of

from vdla.cli._options import reports_errors
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.writing import write_bytes

CALIBRATION_SAMPLES = 8
SEED, CALIBRATION_SEED, TRIAL_SEED = 0, 1, 2


def float_file(network: Network, folder: Path) -> Path:
    """Return the file of the float model."""
    return folder / f"{network.name}.onnx"


def quantised_file(network: Network, folder: Path) -> Path:
    """Return the file of the quantised model."""
    return folder / f"{network.name}_int8.onnx"


def try_out(network: Network, model: onnx.ModelProto) -> Tensors:
    """Return the outputs of one run.

    Raises:
        click.ClickException: an output is not finite, or the same everywhere.
    """
    outputs = run(session_of(model), network.samples(1, TRIAL_SEED)[0])
    for name, values in outputs.items():
        if not np.isfinite(values).all() or values.std() == 0:
            raise click.ClickException(
                f"{network.name}: output {name} lies in {values.min()}..{values.max()}; finite values "
                "that differ were expected"
            )
    return outputs


def difference(expected: Tensors, actual: Tensors) -> float:
    """Return how far outputs are off, as a fraction of the expected outputs' deviation from their mean; the
    worst output counts."""
    return max(
        float(np.sqrt(np.mean((actual[name] - values) ** 2)) / values.std())
        for name, values in expected.items()
    )


def make(network: Network, folder: Path, force: bool) -> None:
    """Write the files of a network that are missing, or both, and say what they are.

    Raises:
        ToolError: onnxruntime, which runs and quantises them, is not installed.
    """
    require_package("onnxruntime", "making models")
    path, quantised = float_file(network, folder), quantised_file(network, folder)
    if force or not path.exists():
        make_float(network, path)
    if force or not quantised.exists():
        make_quantised(network, path, quantised)


def quantised_model(name: str, folder: Path) -> Path:
    """Return the file of a network's quantised model; it is written where it is missing."""
    path = quantised_file(NETWORKS[name], folder)
    if not path.exists():
        make(NETWORKS[name], folder, force=False)
    return path


def make_float(network: Network, path: Path) -> None:
    """Write the float model."""
    began = time.perf_counter()
    model = network.model(SEED)
    try_out(network, model)
    write_bytes(path, model.SerializeToString())
    _say(path, began, f"{len(model.graph.node)} nodes")


def unsigned_model(name: str, folder: Path) -> onnx.ModelProto:
    """Return a network in onnxruntime's fastest form, uint8 activations and int8 weights per channel; the
    float model is written where it is missing."""
    from models.quantise import quantise

    network = NETWORKS[name]
    make(network, folder, force=False)
    samples = network.samples(CALIBRATION_SAMPLES, CALIBRATION_SEED)
    left = network.float_operators, network.float_behind
    return quantise(float_file(network, folder), samples, *left, unsigned=True)


def make_quantised(network: Network, source: Path, path: Path) -> None:
    """Write the quantised form of the float model in `source`."""
    from models.quantise import quantise

    began = time.perf_counter()
    samples = network.samples(CALIBRATION_SAMPLES, CALIBRATION_SEED)
    model = quantise(source, samples, network.float_operators, network.float_behind)
    error = difference(try_out(network, onnx.load(source)), try_out(network, model))
    write_bytes(path, model.SerializeToString())
    _say(path, began, f"differs from float32 by {error:.1%}; between DequantizeLinear and QuantizeLinear:")
    for region, count in regions(model).items():
        click.echo(f"    {count:3} x {' '.join(region)}")


def _say(path: Path, began: float, text: str) -> None:
    click.echo(f"{path}: {path.stat().st_size / 1e6:.1f} MB, in {time.perf_counter() - began:.1f} s; {text}")


@click.command(help=__doc__)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/models"),
    show_default=True,
)
@click.option(
    "--only",
    type=click.Choice([*NETWORKS, *OPTIONAL]),
    multiple=True,
    help=f"Make this network; may be repeated. Made only by name: {', '.join(OPTIONAL)}.",
)
@click.option("--force", is_flag=True, help="Write files that are there again.")
@click.option("--list", "lists", is_flag=True, help="Name the networks and stop.")
@reports_errors
def main(output: Path, only: tuple[str, ...], force: bool, lists: bool) -> None:
    if lists:
        click.echo("\n".join(f"{network.name:18} {network.summary}" for network in NETWORKS.values()))
        return
    for name in only or NETWORKS:
        make({**NETWORKS, **OPTIONAL}[name], output, force)


if __name__ == "__main__":
    main()
