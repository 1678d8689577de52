#!/usr/bin/env python3
"""Measure how long networks take to compile, each in a process of its own, with empty and with filled caches.

Times are of the processor, beside those of a fixed loop in the same run: ratios compare machines and days.
    The caches are in a temporary folder.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import onnx
from make_models import quantised_model

ROOT = Path(__file__).parent.parent
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
REFERENCE_STEPS = 10_000_000
WIDER = ("--set", "block_out=32", "--set", "wgt_buffer_bytes=512KiB", "--set", "acc_buffer_bytes=256KiB")


def reference_seconds() -> float:
    """Return the processor's seconds for a fixed loop."""
    began, total = time.process_time(), 0
    for step in range(REFERENCE_STEPS):
        total += step & 7
    return time.process_time() - began


def compile_seconds(model: Path, folder: Path, *options: str | Path) -> tuple[float, float]:
    """Return the processor's and the clock's seconds of `vdla compile` in a process of its own.

    Args:
        folder: of the caches.

    Raises:
        click.ClickException: it failed.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "vdla", "compile", model, "-o", folder / "out.vdla", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "VDLA_CACHE_DIR": str(folder / "cache")},
        check=False,
    )
    if done.returncode:
        raise click.ClickException(f"{model}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - began


def samples_of(model: Path, folder: Path) -> Path:
    """Write a sample of random inputs of a float model; return its file."""
    graph = onnx.load(model).graph
    constants = {tensor.name for tensor in graph.initializer}
    shapes = {
        value.name: [part.dim_value for part in value.type.tensor_type.shape.dim]
        for value in graph.input
        if value.name not in constants
    }
    path = folder / f"{model.stem}.npz"
    random = np.random.default_rng(0)
    np.savez(
        path, **{name: random.standard_normal((1, *shape), np.float32) for name, shape in shapes.items()}
    )
    return path


def report(title: str, seconds: tuple[float, float], reference: float) -> None:
    """Print a row."""
    click.echo(f"{title:48} {seconds[0]:8.2f} {seconds[1]:8.2f} {seconds[0] / reference:8.2f}")


@click.command(help=__doc__)
@click.option(
    "--models",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / "build" / "models",
    show_default=True,
)
@click.option(
    "--light/--no-light", default=True, help="Measure light_densenet121 too, which is quantised first."
)
def main(models: Path, light: bool) -> None:
    resnet, mobilenet, densenet = (
        quantised_model("resnet18", models),
        quantised_model("mobilenet", models),
        LIGHT / "light_densenet121.onnx",
    )
    reference = min(reference_seconds() for _ in range(3))
    click.echo(
        f"the reference loop takes {reference:.2f} s\n{'model':48} {'CPU s':>8} {'wall s':>8} {'ratio':>8}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report("resnet18_int8, empty caches", compile_seconds(resnet, folder), reference)
        report("resnet18_int8, a second process", compile_seconds(resnet, folder), reference)
        report(
            "resnet18_int8, block_out = 32 with these caches",
            compile_seconds(resnet, folder, *WIDER),
            reference,
        )
        report("mobilenet_int8, its first time", compile_seconds(mobilenet, folder), reference)
        report("mobilenet_int8, a second process", compile_seconds(mobilenet, folder), reference)
        if light:
            calibration = ("--calibrate", samples_of(densenet, folder))
            report(
                "light_densenet121, quantised, its first time",
                compile_seconds(densenet, folder, *calibration),
                reference,
            )
            report(
                "light_densenet121, quantised, a second process",
                compile_seconds(densenet, folder, *calibration),
                reference,
            )


if __name__ == "__main__":
    main()
