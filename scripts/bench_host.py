#!/usr/bin/env python3
"""Measure the host steps of a network on one core: operators, and layout changes for the accelerator.

The table compares each step with a plain copy of the bytes that it reads and writes, a bound for every
implementation of the step. Every round runs all steps in turn, and the best time of each counts. The inputs
of the network and the results of the accelerator are random. A run on the functional device gives the share
of the host. Missing models are written first. Exit status 1 if the host takes more than half of a run.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"  # read when NumPy is imported

import sys  # noqa: E402
from collections.abc import Callable, Iterator, Sequence  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from functools import partial  # noqa: E402

import click  # noqa: E402
import numpy as np  # noqa: E402
from bench_functional import pin_to_one_core  # noqa: E402
from bench_network import MODELS, best  # noqa: E402
from make_models import quantised_model  # noqa: E402
from models.catalogue import NETWORKS  # noqa: E402

from vdla.cli._options import needs  # noqa: E402
from vdla.compiler.network.compile import compile_network  # noqa: E402
from vdla.hw.spec.presets import DEFAULT  # noqa: E402
from vdla.hw.spec.target import Target  # noqa: E402
from vdla.runtime.devices.functional import FunctionalDevice  # noqa: E402
from vdla.runtime.host.evaluate import evaluate  # noqa: E402
from vdla.runtime.module.plan import HostStep, LaunchStep, Plan, Value, random_inputs  # noqa: E402
from vdla.runtime.session.session import Session, Values  # noqa: E402

MEASURED = ("transformer", "lstm_cell", "resnet18")
SHARE_ALLOWED = 0.5
RUN = "run"


@dataclass(frozen=True)
class Step:
    """Something that the host does once in a run.

    Attributes:
        kind: an operator, "pack" or "unpack".
        work: carries it out.
        arrays: what it reads and writes, constants left out.
    """

    name: str
    kind: str
    work: Callable[[], object]
    arrays: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Figures:
    """Times of a network.

    Attributes:
        steps: seconds of each, and of a copy of its arrays.
        run: seconds of a whole run on the functional device.
    """

    steps: tuple[tuple[Step, float, float], ...]
    run: float

    @property
    def host(self) -> float:
        """Seconds of all steps."""
        return sum(seconds for _, seconds, _ in self.steps)

    @property
    def copies(self) -> float:
        """Seconds of all copies."""
        return sum(seconds for _, _, seconds in self.steps)


def steps_of(plan: Plan) -> Iterator[Step]:
    """Yield what the host does, in order."""
    rng, values = np.random.default_rng(0), {**plan.constants, **random_inputs(plan.inputs)}
    for step in plan.steps:
        if isinstance(step, HostStep):
            yield _operator(step, values, plan)
        else:
            yield from _crossings(step, values, rng)


def _operator(step: HostStep, values: Values, plan: Plan) -> Step:
    inputs = [values[name] if name else None for name in step.inputs]
    work = partial(evaluate, step.op, inputs, step.attributes)
    outputs = dict(zip(step.outputs, work(), strict=False))
    values |= outputs
    read = [values[name] for name in step.inputs if name and name not in plan.constants]
    return Step(step.name, step.op, work, (*read, *outputs.values()))


def _crossings(step: LaunchStep, values: Values, rng: np.random.Generator) -> Iterator[Step]:
    for pack in step.packs:
        work = partial(pack.layout.pack, values[pack.value])
        yield Step(pack.value, "pack", work, (values[pack.value], work()))
    for unpack in step.unpacks:
        held = rng.integers(-128, 128, unpack.layout.size, np.int8)
        work = partial(unpack.layout.unpack, held)
        values[unpack.value] = work()
        yield Step(unpack.value, "unpack", work, (held, values[unpack.value]))


def measure(plan: Plan, rounds: int) -> Figures:
    """Measure every step, its copy, and a whole run."""
    steps = list(steps_of(plan))
    session, inputs = (
        Session(FunctionalDevice(plan.config, plan.dram_bytes), plan),
        random_inputs(plan.inputs),
    )
    works = {RUN: lambda: session.run(inputs)}
    for number, step in enumerate(steps):
        works[f"{number}"], works[f"{number} copy"] = step.work, _copy(step.arrays)
    seconds = best(works, rounds)
    return Figures(
        tuple((step, seconds[f"{n}"], seconds[f"{n} copy"]) for n, step in enumerate(steps)), seconds[RUN]
    )


def _copy(arrays: Sequence[np.ndarray]) -> Callable[[], None]:
    """Return what moves as many bytes as arrays have, half of them read and half written."""
    source = np.ones(sum(array.nbytes for array in arrays) // 2, np.uint8)
    return partial(np.copyto, np.empty_like(source), source)


def table(figures: Figures) -> Iterator[str]:
    """Yield the lines of the report."""
    width = max((len(step.name) for step, _, _ in figures.steps), default=4)
    yield f"{'step':{width}}  {'':20} {'result':26} {'ms':>8} {'copy ms':>8} {'ratio':>7}"
    for step, seconds, copy in figures.steps:
        result = Value(step.arrays[-1].shape, str(step.arrays[-1].dtype))
        yield f"{step.name:{width}}  {step.kind:20} {result!s:26} {_times(seconds, copy)}"
    yield f"{'on the host':{width}}  {'':20} {'':26} {_times(figures.host, figures.copies)}"
    yield f"{'a whole run':{width}}  {'':20} {'':26} {figures.run * 1e3:8.3f}"
    met = figures.host <= SHARE_ALLOWED * figures.run
    yield f"{'ok   ' if met else 'SHORT'} {figures.host / figures.run:.1%} of a run on the host, at most " + (
        f"{SHARE_ALLOWED:.0%} allowed"
    )


def _times(seconds: float, copy: float) -> str:
    return f"{seconds * 1e3:8.3f} {copy * 1e3:8.3f} {seconds / copy:7.1f}"


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(tuple(NETWORKS)))
@click.option(
    "--rounds", default=30, show_default=True, type=click.IntRange(1), help="Runs of each that count."
)
@needs("measuring a network", "onnxruntime")
def main(names: tuple[str, ...], rounds: int) -> None:
    pin_to_one_core()
    all_met = True
    for name in names or MEASURED:
        figures = measure(compile_network(quantised_model(name, MODELS), Target(DEFAULT)).plan, rounds)
        click.echo("\n".join([name, *table(figures), ""]))
        all_met = all_met and figures.host <= SHARE_ALLOWED * figures.run
    sys.exit(0 if all_met else 1)


if __name__ == "__main__":
    main()
