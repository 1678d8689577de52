#!/usr/bin/env python3
"""Check the example networks in all styles in which tools write quantised files.

A network is taken as a float file, and as onnxruntime's tools write it in each style. Files whose activations
are real numbers are quantised by the compiler on random samples. Every layer is given onnxruntime's inputs,
and may differ from its result by one in the last place; so may what is computed of them in float, by the
rounding of float32. The network is compiled for the configuration `default` and run on the cycle device,
which must equal the integer operators bit for bit; its streams are proved to do so for all inputs. What the
tools do not write counts apart. With a
journal, what was right or not written is not tried again. Exit status 1 if anything is refused or wrong.
"""

import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import click
import numpy as np
import onnx
from check_models import reference
from make_models import float_file, make_float
from models.catalogue import NETWORKS, Network
from models.run import session_of
from models.styles import STYLES
from onnx import ModelProto
from proving.check import proof_faults
from random_graphs import FLOAT, REFUSED, RIGHT, UNWRITTEN, WRONG, inputs_of, layer_faults, subject_of

from vdla.api import Module
from vdla.cli._options import needs
from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.network.stages import plan_of
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target

CALIBRATION_SAMPLES, CALIBRATION_SEED = 2, 1
ALL_STYLES = (FLOAT, *STYLES)
TITLES = (
    f"{'network':20} {'style':22} {'verdict':9} {'layers':>6} {'launches':>8} {'on accelerator':>14} "
    f"{'cycles':>12} {'s':>6}"
)


@dataclass(frozen=True)
class Outcome:
    """What came of a network in a style.

    Attributes:
        verdict: "unwritten" where onnxruntime's tools cannot write the network in the style.
        reason: why it is not right, in one line or more.
        layers: that were compared with onnxruntime.
        share: of the multiply-accumulates on the accelerator; None where there are none.
        cycles: of the accelerator.
    """

    network: str
    style: str
    verdict: str
    reason: str = ""
    layers: int = 0
    launches: int = 0
    share: float | None = None
    cycles: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        share = "-" if self.share is None else f"{self.share:.1%}"
        line = (
            f"{self.network:20} {self.style:22} {self.verdict:9} {self.layers:6} {self.launches:8} "
            f"{share:>14} {self.cycles:12,} {self.seconds:6.1f}"
        )
        return "\n".join([line, *(f"    {text}" for text in self.reason.splitlines())])


@dataclass(frozen=True)
class Task:
    """A network in a style, to be checked.

    Attributes:
        models: folder of the float models.
        keep: folder of models that are wrong.
    """

    network: str
    style: str
    models: Path
    keep: Path
    seed: int

    def outcome(self, began: float, verdict: str, reason: str = "", **figures: object) -> Outcome:
        """Return what came of it.

        Args:
            began: the time at which the check began, of `time.perf_counter`.
            figures: other fields of the outcome.
        """
        seconds = time.perf_counter() - began
        return Outcome(self.network, self.style, verdict, reason, **figures, seconds=seconds)


def written(network: Network, style: str, folder: Path) -> ModelProto:
    """Return a network in a style, as it is after onnxruntime has read it; errors are onnxruntime's."""
    model = onnx.load(float_file(network, folder))
    if style == FLOAT:
        return model
    samples = network.samples(CALIBRATION_SAMPLES, CALIBRATION_SEED)
    quantised = STYLES[style].quantised(model, samples, network.float_operators, network.float_behind)
    session_of(quantised)
    return quantised


def checked(task: Task) -> Outcome:
    """Return what comes of a network in a style; a model that is wrong is kept."""
    began = time.perf_counter()
    try:
        model = written(NETWORKS[task.network], task.style, task.models)
    except Exception as error:  # whatever a tool raises that is none of ours
        return task.outcome(began, UNWRITTEN, str(error).strip().partition("\n")[0])
    try:
        faults, figures = compared(model, task.seed)
    except GraphError as error:
        return task.outcome(began, REFUSED, str(error))
    except Exception:  # a traceback is what is looked for
        faults, figures = [traceback.format_exc()], {}
    if faults:
        task.keep.mkdir(parents=True, exist_ok=True)
        onnx.save(model, task.keep / f"{task.network}.{task.style}.onnx")
    return task.outcome(began, WRONG if faults else RIGHT, "\n".join(faults), **figures)


def compared(model: ModelProto, seed: int) -> tuple[list[str], Mapping[str, object]]:
    """Return what is wrong with a network, and fields of its outcome.

    Raises:
        GraphError: it is refused.
    """
    subject, prepared = subject_of(model, seed)
    lowered = INTEGERS.run(prepared)
    inputs = inputs_of(subject.graph, seed)
    faults, layers = layer_faults(lowered, inputs, reference(subject, inputs), subject.graph)
    plan = plan_of(lowered, Target(DEFAULT), choose=cached())
    faults += proof_faults(plan, lowered)
    run = Module(plan).run(inputs, "cycle")
    for name, expected in interpret(lowered, inputs).items():
        if not np.array_equal(expected, run.outputs[name], equal_nan=True):
            count = np.count_nonzero(expected != run.outputs[name])
            faults.append(f"{name}: {count} elements on the accelerator differ")
    summary = run.summary
    return faults, {
        "layers": layers,
        "launches": summary.launches,
        "share": summary.mac_share,
        "cycles": summary.cycles or 0,
    }


def outcomes_of(tasks: list[Task], jobs: int) -> Iterator[Outcome]:
    """Yield what comes of tasks, as soon as it is known, from so many processes; from this process, if `jobs`
    is 1."""
    if jobs == 1:
        quiet()
        yield from map(checked, tasks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=quiet) as pool:
        for done in as_completed([pool.submit(checked, task) for task in tasks]):
            yield done.result()


def quiet() -> None:
    """Let onnxruntime say nothing but errors."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)


def done_before(journal: Path | None) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes in a journal that are not to be tried again, by network and style; the last
    outcome counts."""
    if journal is None or not journal.exists():
        return {}
    outcomes = [Outcome(**json.loads(line)) for line in journal.read_text().splitlines()]
    last = {(outcome.network, outcome.style): outcome for outcome in outcomes}
    return {key: outcome for key, outcome in last.items() if outcome.verdict in (RIGHT, UNWRITTEN)}


def by_size(names: Iterable[str], folder: Path) -> list[str]:
    """Return networks, the smallest first, so that faults show early; missing float models are written."""
    for name in names:
        if not float_file(NETWORKS[name], folder).exists():
            make_float(NETWORKS[name], float_file(NETWORKS[name], folder))
    return sorted(names, key=lambda name: float_file(NETWORKS[name], folder).stat().st_size)


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return the counts in one line."""
    outcomes = list(outcomes)
    counts = Counter(outcome.verdict for outcome in outcomes)
    in_one_launch = sum(outcome.verdict == RIGHT and outcome.launches == 1 for outcome in outcomes)
    return (
        f"{len(outcomes)} files: {counts[RIGHT]} right, {in_one_launch} of them in one launch, "
        f"{counts[REFUSED]} refused, {counts[UNWRITTEN]} that onnxruntime's tools do not write, "
        f"{counts[WRONG]} wrong; "
        f"{sum(outcome.layers for outcome in outcomes)} layers compared"
    )


@click.command(help=__doc__)
@click.argument("networks", nargs=-1, type=click.Choice(list(NETWORKS)))
@click.option(
    "--style",
    "styles",
    multiple=True,
    type=click.Choice(ALL_STYLES),
    help="Only this style; may be repeated.",
)
@click.option("--seed", default=0, show_default=True, help="Of inputs, and samples of the compiler.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), help="Outcomes, one a line.")
@click.option(
    "--models",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/models"),
    show_default=True,
    help="Folder of float models; missing models are made.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/check_styles"),
    show_default=True,
    help="Folder of models that are wrong.",
)
@needs("checking styles", "onnxruntime")
def main(
    networks: tuple[str, ...],
    styles: tuple[str, ...],
    seed: int,
    jobs: int,
    journal: Path | None,
    models: Path,
    keep: Path,
) -> None:
    before, names = done_before(journal), by_size(networks or tuple(NETWORKS), models)
    wanted = [(name, style) for name in names for style in styles or ALL_STYLES]
    tasks = [Task(*key, models, keep, seed) for key in wanted if key not in before]
    outcome_of = {key: before[key] for key in wanted if key in before}
    click.echo("\n".join([TITLES, *map(str, outcome_of.values())]))
    for outcome in outcomes_of(tasks, jobs):
        click.echo(outcome)
        outcome_of[outcome.network, outcome.style] = outcome
        if journal is not None:
            with journal.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
    click.echo(summary(outcome_of.values()))
    sys.exit(any(outcome.verdict in (REFUSED, WRONG) for outcome in outcome_of.values()))


if __name__ == "__main__":
    main()
