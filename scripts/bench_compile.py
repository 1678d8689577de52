#!/usr/bin/env python3
"""Measure how long `vdla compile` takes, including Python's start, each time in a separate process.

Each network has three rows: an empty cache folder, the cache that this process has filled, and the same
cache for a wider accelerator, whose tasks are all new. Python's bytecode and the machine code of the cycle
simulator, which are compiled once per installation, exist before. Each row is checked: a second process must
give the same module, and a wider accelerator another module from the same imported graph.

Seconds are CPU time and wall time, the minimum of several runs. The ratio is to a fixed loop that runs
beside them; use it to compare machines and days.
"""

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnx
from make_models import quantised_model

from vdla.hw.spec.children import python_command

ROOT = Path(__file__).parent.parent
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
REFERENCE_STEPS = 10_000_000
WIDER = ("--set", "block_out=32", "--set", "wgt_buffer_bytes=512KiB", "--set", "acc_buffer_bytes=256KiB")
OWN = ("PYTHONDONTWRITEBYTECODE", "PYTHONPROFILEIMPORTTIME", "VDLA_CACHE_DIR")


@dataclass(frozen=True)
class Seconds:
    """How long something took.

    Attributes:
        cpu: of the processor.
        clock: on the clock.
        ratio: of `cpu` to the processor time of the reference loop beside it.
    """

    cpu: float
    clock: float
    ratio: float


@dataclass(frozen=True)
class Place:
    """Where a network is compiled: a folder for its caches, its module and Python's bytecode."""

    folder: Path
    bytecode: Path

    @property
    def cache(self) -> Path:
        """The kit's cache."""
        return self.folder / "cache"

    @property
    def module(self) -> Path:
        """The module that was compiled last."""
        return self.folder / "out.vdla"

    def kept(self, kind: str) -> set[str]:
        """Return the entries of a kind that the cache holds."""
        folder = self.cache / kind
        return set(os.listdir(folder)) if folder.is_dir() else set()


def reference_seconds() -> float:
    """Return the processor's seconds for a fixed loop."""
    began, total = time.process_time(), 0
    for step in range(REFERENCE_STEPS):
        total += step & 7
    return time.process_time() - began


def compile_seconds(model: Path, place: Place, *options: str | Path) -> Seconds:
    """Return how long `vdla compile` takes in a separate process.

    Raises:
        click.ClickException: it failed.
    """
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    environment |= {"VDLA_CACHE_DIR": str(place.cache), "PYTHONPYCACHEPREFIX": str(place.bytecode)}
    reference = reference_seconds()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*python_command("vdla"), "compile", model, "-o", place.module, *options],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(f"{model}: {done.stderr}")
    after, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Seconds(cpu, clock, cpu / min(reference, reference_seconds()))


def measured(model: Path, place: Place, *options: str | Path) -> Iterator[tuple[str, Seconds]]:
    """Yield the rows of a network, by title; the place is empty before.

    Raises:
        click.ClickException: a row is not what its title says.
    """
    require(not place.cache.exists(), model, "the cache is not empty")
    yield "empty caches", compile_seconds(model, place, *options)
    first, modules, graphs = place.module.read_bytes(), place.kept("modules"), place.kept("graphs")
    require(len(modules) == len(graphs) == 1, model, "the first process has kept nothing")
    yield "a second process", compile_seconds(model, place, *options)
    require(place.module.read_bytes() == first, model, "a second process gives another module")
    require(place.kept("modules") == modules, model, "a second process has compiled again")
    yield "block_out = 32 with these caches", compile_seconds(model, place, *options, *WIDER)
    require(len(place.kept("modules")) == 2, model, "a wider accelerator was not compiled anew")
    require(place.kept("graphs") == graphs, model, "a wider accelerator has imported again")


def require(holds: bool, model: Path, problem: str) -> None:
    """Refuse to report a row that is not what it says."""
    if not holds:
        raise click.ClickException(f"{model.name}: {problem}")


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


def rows(model: Path, folder: Path, runs: int, *options: str | Path) -> dict[str, Seconds]:
    """Return the rows of a network, the quickest of `runs` each."""
    measurements: dict[str, list[Seconds]] = {}
    for _ in range(runs):
        with tempfile.TemporaryDirectory(dir=folder) as work_folder:
            for title, seconds in measured(model, Place(Path(work_folder), folder / "bytecode"), *options):
                measurements.setdefault(title, []).append(seconds)
    return {title: min(several, key=lambda row: row.ratio) for title, several in measurements.items()}


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
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1))
def main(models: Path, light: bool, runs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, densenet = Path(name), LIGHT / "light_densenet121.onnx"
        networks = {quantised_model(network, models): () for network in ("resnet18", "mobilenet")}
        if light:
            networks[densenet] = ("--calibrate", samples_of(densenet, folder))
        warm = Place(folder / "warm", folder / "bytecode")
        warm.folder.mkdir()
        compile_seconds(next(iter(networks)), warm)
        click.echo(f"{'model':58} {'CPU s':>8} {'wall s':>8} {'ratio':>8}")
        for model, options in networks.items():
            for title, seconds in rows(model, folder, runs, *options).items():
                label = f"{model.stem}, {title}"
                click.echo(f"{label:58} {seconds.cpu:8.2f} {seconds.clock:8.2f} {seconds.ratio:8.2f}")


if __name__ == "__main__":
    main()
