#!/usr/bin/env python3
"""Compare the kit's quantisation of float models with onnxruntime's: signal to noise of each output in
decibels, on samples that neither was calibrated with.

Each MODEL.onnx has its samples beside it, in MODEL.npz: one array per input, with one more dimension in
front. Every second sample calibrates, the others test. The kit quantises as it does by default, and all that
it can (quality fast) where that keeps layers in float; onnxruntime takes MinMax, int8, weights per channel.
Needs onnxruntime.
"""

from pathlib import Path

import click
import numpy as np
import onnx
from accuracy.compare import Outcome, floats, ours, theirs
from models.run import Tensors
from onnx.version_converter import convert_version
from onnxruntime.quantization import CalibrationMethod

from vdla.cli._options import reports_errors
from vdla.compiler.graph.quantisation.judge import noise_of
from vdla.compiler.graph.quantisation.options import Options, quality_db
from vdla.runtime.arrays import read_npz
from vdla.runtime.samples import InputError

PER_CHANNEL = 13  # the opset since which DequantizeLinear has an axis


def samples_beside(model: Path) -> list[Tensors]:
    """Return the samples of a model; the errors of `read_npz`, and InputError where there are none."""
    path = model.with_suffix(".npz")
    if not path.exists():
        raise InputError(f"{model} has no samples beside it: {path} is missing")
    arrays = read_npz(path)
    count = min(map(len, arrays.values()))
    return [{name: np.asarray(array[place]) for name, array in arrays.items()} for place in range(count)]


def noise(wanted: list[Tensors], outcome: Outcome) -> str:
    """Return the signal to noise of each output of real numbers."""
    names = [name for name, array in wanted[0].items() if array.dtype.kind == "f"]
    noises = [
        noise_of(name, [array[name] for array in wanted], [array[name] for array in outcome.outputs])
        for name in names
    ]
    return " ".join("exact" if ratio.decibels is None else f"{ratio.decibels:.1f}" for ratio in noises)


def outcomes(model: onnx.ModelProto, calibration: list[Tensors], test: list[Tensors]) -> list[Outcome]:
    """Return what the kit and onnxruntime make of test samples."""
    version = next(each.version for each in model.opset_import if each.domain == "")
    newer = model if version >= PER_CHANNEL else convert_version(model, PER_CHANNEL)
    kit_outcomes = [ours(model, calibration, test, Options())]
    if kit_outcomes[0].in_float:
        kit_outcomes.append(ours(model, calibration, test, Options(target_db=quality_db("fast"))))
    try:
        return [*kit_outcomes, *theirs(newer, calibration, test, (CalibrationMethod.MinMax,))]
    except Exception as error:  # onnxruntime and onnx raise many kinds
        click.echo(f"onnxruntime: {type(error).__name__}: {str(error).splitlines()[0]}", err=True)
        return kit_outcomes


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@reports_errors
def main(models: tuple[Path, ...]) -> None:
    click.echo(f"{'network':20} {'quantised by':44} {'dB of each output':28} seconds")
    for path in models:
        samples = samples_beside(path)
        calibration, test = samples[::2], samples[1::2]
        model = onnx.load(path)
        wanted = floats(model, test)
        for place, outcome in enumerate(outcomes(model, calibration, test)):
            name = "" if place else path.stem
            click.echo(f"{name:20} {outcome.how:44} {noise(wanted, outcome):28} {outcome.seconds:7.1f}")


if __name__ == "__main__":
    main()
