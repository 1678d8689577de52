#!/usr/bin/env python3
"""Prove networks on several configurations, and time the proof beside the cycle simulation.

Each network is compiled for each configuration and proved against its graph of integer operators; then it
runs on the cycle simulator, which computes its results, too. A process compiles each network; another process
loads the module, proves it and runs it. The memory is the largest that the second process took until the end
of the proof, as `vdla prove` takes it. Seconds are processor time, of all threads of a proof together, so
other processes hardly change them. With a journal, the same command continues where it was stopped. Exit
status 1 if a network is not proved, or a bound is 2^-60 or more.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ParamSpec, TypeVar

import click
from compare_networks import CONFIGS as COMPARED
from proving.check import MOST_PROBABLE

import vdla
from vdla.cli import THREADS
from vdla.hw.spec.presets import DEFAULT, PAPER
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import random_inputs

MODELS = Path(__file__).parent.parent / "build" / "models"
CONFIGS = {
    **COMPARED,
    "paper": PAPER,
    "32x32": DEFAULT.with_changes(name="32x32", block_in=32, block_out=32),
    "8x16": DEFAULT.with_changes(name="8x16", block_in=8),
}
TITLES = (
    f"{'network':20}{'config':9}{'result':>11}{'bound':>8}{'layers':>8}{'elements':>13}{'proof s':>9}"
    f"{'cycle s':>9}{'MiB':>7}  axioms"
)


@dataclass(frozen=True)
class Row:
    """What is measured of a network on a configuration.

    Attributes:
        bound: of the failure probability, as a power of two.
        proof_seconds, cycle_seconds: of the processor, for the proof and for the run on the cycle simulator.
        mebibytes: largest memory of the process until the end of the proof.
        difference: "" if it is proved.
    """

    network: str
    config: str
    proved: bool
    failure_probability: float
    bound: str
    axioms: tuple[str, ...]
    layers: int
    elements: int
    proof_seconds: float
    cycle_seconds: float
    mebibytes: int
    difference: str

    @property
    def is_right(self) -> bool:
        """Whether the network is proved, with a bound that is low enough."""
        return self.proved and self.failure_probability < MOST_PROBABLE

    def __str__(self) -> str:
        line = (
            f"{self.network:20}{self.config:9}{'proved' if self.proved else 'NOT PROVED':>11}{self.bound:>8}"
            f"{self.layers:8}{self.elements:13,}{self.proof_seconds:9.2f}{self.cycle_seconds:9.2f}{self.mebibytes:7}"
            f"  {', '.join(self.axioms) or '-'}"
        )
        return f"{line}\n    {self.difference}" if self.difference else line


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_process(
    function: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Return the result of a function, which a separate process computes."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **named).result()


def row_of(path: Path, config: str) -> Row:
    """Compile, prove and simulate a network, in two processes."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "network.vdla"
        in_process(write_module, path, config, file)
        return in_process(measure, file, path.stem.removesuffix("_int8"), config)


def write_module(path: Path, config: str, file: Path) -> None:
    """Compile a network, and write its module to a file."""
    vdla.compile(path, Target(CONFIGS[config])).save(file)


def measure(file: Path, network: str, config: str) -> Row:
    """Prove and simulate the module of a network."""
    module = vdla.load(file)
    began = time.process_time()
    proof = module.prove()
    proof_seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    began = time.process_time()
    module.run(random_inputs(module.inputs), "cycle")
    return Row(
        network,
        config,
        proof.proved,
        proof.failure_probability,
        proof.bound,
        proof.axioms,
        len(proof.layers),
        sum(layer.elements for layer in proof.layers),
        proof_seconds,
        time.process_time() - began,
        memory,
        proof.difference,
    )


def rows_of(journal: Path | None) -> dict[tuple[str, str], Row]:
    """Return the rows of a journal by network and configuration; the last of each counts."""
    if journal is None or not journal.exists():
        return {}
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    parsed = [Row(**{**row, "axioms": tuple(row["axioms"])}) for row in rows]
    return {(row.network, row.config): row for row in parsed}


def summary(rows: Iterable[Row]) -> str:
    """Return the counts in one line."""
    rows = list(rows)
    right = sum(row.is_right for row in rows)
    worst = max(rows, key=lambda row: row.failure_probability)
    axioms = sorted({name for row in rows for name in row.axioms})
    slower = sum(row.proof_seconds > row.cycle_seconds for row in rows)
    return (
        f"{right} of {len(rows)} proved; the highest bound is {worst.bound}, of {worst.network} on "
        f"{worst.config}; at most {max(row.mebibytes for row in rows)} MiB; {slower} take longer than their "
        f"cycle simulation; axioms: {', '.join(axioms) or 'none'}"
    )


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--config",
    "configs",
    multiple=True,
    type=click.Choice(list(CONFIGS)),
    default=("default",),
    show_default=True,
    help="May be repeated.",
)
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), help="Rows, one a line.")
def main(models: tuple[Path, ...], configs: tuple[str, ...], journal: Path | None) -> None:
    paths = models or tuple(sorted(MODELS.glob("*_int8.onnx")))
    if not paths:
        raise click.ClickException(
            "build/models holds no models; make them with scripts/make_models.py, or name others"
        )
    known = {key: row for key, row in rows_of(journal).items() if row.is_right}
    wanted = [(path, config) for config in configs for path in paths]
    rows = []
    os.environ.update(dict.fromkeys(THREADS, "1"))  # as the command line does; the processes below read it
    click.echo(TITLES)
    for path, config in wanted:
        row = known.get((path.stem.removesuffix("_int8"), config))
        if row is None:
            row = row_of(path, config)
            if journal is not None:
                with journal.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        rows.append(row)
        click.echo(row)
    click.echo(summary(rows))
    sys.exit(not all(row.is_right for row in rows))


if __name__ == "__main__":
    main()
