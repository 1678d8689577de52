#!/usr/bin/env python3
"""Plant faults in compiled streams, and check that proofs refuse all that change results.

Streams come from random networks in all styles of files, or from MODELS. Faults are of the kinds that a
compiler makes. They change an address, a step of a loop, padding, a parameter set, a number of trips, a
window of a pooling, factors of scaled inputs, or a STORE into the inputs on chip. They swap a block of
weights, leave out a micro-op or the load of a tile, or prefetch too early. A broken stream runs on the
functional model, on random inputs and on inputs at the ends of their range, next to the unbroken stream.
There are six verdicts:

caught  results differ, and the proof refuses the stream
missed  results differ, and the stream is proved: the proof is wrong
same    results are equal on all inputs, and the stream is proved
hidden  results are equal on all inputs, the proof refuses the stream, and the result of a layer differs that
        is left in DRAM, or handed to the host: what comes after it does not show the difference
unsafe  results are equal on all inputs, the proof refuses the stream, and so does the verifier: it reads what
        nothing has written, or results depend on the order of the units
unseen  nothing differs on any input, and only the proof refuses the stream: printed for a reader, with the
        difference that the proof names

A stream that is not proved before it is broken is an alarm. With a journal, the same command continues where
it was stopped. Exit status 1 if a fault was missed, or there was an alarm.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import click
import numpy as np
from proving.check import proof_faults, proof_of
from proving.faults import KINDS, Fault, planted
from random_graphs import CONFIGS, case_of, inputs_of, subject_of, written

from vdla.cli._options import needs
from vdla.compiler.codegen.choose import by_estimate
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.network.compile import integer_graph
from vdla.compiler.network.stages import plan_of
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import Target
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import Plan, Value
from vdla.runtime.session.placement import place_plan
from vdla.runtime.session.session import Session

CAUGHT, MISSED, SAME, HIDDEN, UNSAFE, UNSEEN = VERDICTS = (
    "caught",
    "missed",
    "same",
    "hidden",
    "unsafe",
    "unseen",
)
ALARM = "alarm"
MAGNITUDES = (1, 10, 0.1, 100)
FEW, MANY, MOST = 4, 40, 400
"""Random inputs: for every fault, for faults that did not show on a few, and for faults that only the proof
refuses."""
Inputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """What came of a fault.

    Attributes:
        subject: seed of a random network, or name of a model.
        number: of the fault in its subject; -1 for the unbroken stream.
        difference: what the proof names.
    """

    subject: str
    number: int
    kind: str
    text: str
    verdict: str
    difference: str = ""

    def __str__(self) -> str:
        where = f"{self.subject}, fault {self.number} ({self.kind})"
        return f"{self.verdict}: {where}: {self.text}\n    {self.difference}"


@dataclass(frozen=True)
class Subject:
    """A compiled network.

    Attributes:
        lowered: graph of integer operators that it was compiled from.
    """

    name: str
    lowered: Graph
    plan: Plan

    def inputs(self, count: int) -> Iterator[Inputs]:
        """Yield inputs: all zero, at the ends of their range, then random, reals of several magnitudes."""
        yield {name: np.zeros_like(array) for name, array in inputs_of(self.lowered, 0).items()}
        rng = np.random.default_rng(0)
        yield {name: _extreme(array, rng) for name, array in inputs_of(self.lowered, 0).items()}
        for seed in range(count):
            factor = MAGNITUDES[seed % len(MAGNITUDES)]
            yield {
                name: array * array.dtype.type(factor) if array.dtype.kind == "f" else array
                for name, array in inputs_of(self.lowered, seed).items()
            }


def _extreme(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    low, high = (
        (-100.0, 100.0) if array.dtype.kind == "f" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    )
    return rng.choice(np.array([low, high], array.dtype), array.shape)


def random_subject(seed: int) -> Subject | None:
    """Return the network of a seed; None if no tool writes it, the kit refuses it, or all of it runs on the
    host."""
    case = case_of(seed)
    model = written(case)
    if model is None:
        return None
    try:
        lowered = INTEGERS.run(subject_of(model, seed)[1])
        plan = plan_of(lowered, Target(case.config), choose=by_estimate)
    except GraphError:
        return None
    return Subject(str(seed), lowered, plan) if plan.launches else None


def model_subject(path: Path) -> Subject:
    """Return a quantised model of a file, compiled for the first configuration."""
    from vdla.compiler.graph.onnx.load import load

    lowered = integer_graph(load(path))
    return Subject(path.stem, lowered, plan_of(lowered, Target(CONFIGS[0]), choose=by_estimate))


def results(plan: Plan, inputs: Inputs) -> list[bytes]:
    """Return the outputs of a run without verification; nothing if the device refuses the stream."""
    try:
        session = Session(FunctionalDevice(plan.config, plan.dram_bytes), plan, verifies=False)
        return [array.tobytes() for array in session.run(inputs).outputs.values()]
    except VdlaError:
        return []


def shows(subject: Subject, fault: Fault, count: int) -> bool:
    """Whether a fault changes a result on any of these inputs: zeros, the ends of their range, and `count`
    random inputs."""
    return any(
        results(subject.plan, inputs) != results(fault.plan, inputs) for inputs in subject.inputs(count)
    )


def left_in_dram(plan: Plan, inputs: Inputs) -> list[bytes]:
    """Return the results of layers as a run without verification leaves them in DRAM; nothing if the device
    refuses the stream."""
    tensors = place_plan(FunctionalDevice(plan.config, plan.dram_bytes), plan, verifies=False).tensors
    device = FunctionalDevice(plan.config, plan.dram_bytes)
    layers = [layer.result for launch in plan.launches for layer in launch.layers if layer.result is not None]
    try:
        Session(device, plan, verifies=False).run(inputs)
    except VdlaError:
        return []
    parts = (
        (result, device.copy_out(tensors[result.tensor].address, result.layout.size)) for result in layers
    )
    return [result.layout.unpack(np.asarray(data).view(np.int8)).tobytes() for result, data in parts]


def handed_over(plan: Plan, inputs: Inputs) -> list[bytes]:
    """Return the values that launches hand to the host, as `results` does the outputs."""
    crossings = [crossing for launch in plan.launches for crossing in launch.unpacks]
    values = {crossing.value: Value(crossing.layout.shape, "int8") for crossing in crossings}
    return results(replace(plan, outputs=values), inputs)


def is_hidden(subject: Subject, fault: Fault) -> bool:
    """Whether a fault changes the result of a layer that is left in DRAM or handed to the host, on some
    inputs."""
    plans = subject.plan, fault.plan
    return any(
        look(plans[0], inputs) != look(plans[1], inputs)
        for inputs in subject.inputs(FEW)
        for look in (left_in_dram, handed_over)
    )


def is_unsafe(plan: Plan) -> bool:
    """Whether the verifier refuses a stream of a plan."""
    try:
        session = Session(FunctionalDevice(plan.config, plan.dram_bytes), plan)
        for launch in plan.launches:
            session.launch(launch)
    except VdlaError:
        return True
    return False


def _without_results(subject: Subject, fault: Fault) -> str:
    """Return the verdict on a fault that is refused, and changes no result on many inputs."""
    if is_hidden(subject, fault):
        return HIDDEN
    if is_unsafe(fault.plan):
        return UNSAFE
    return CAUGHT if shows(subject, fault, MOST) else UNSEEN


def judged(subject: Subject, number: int, fault: Fault) -> Outcome:
    """Return what comes of a fault."""
    proof = proof_of(fault.plan, subject.lowered, seed=number)
    changed = shows(subject, fault, FEW) or shows(subject, fault, MANY)
    if changed:
        verdict = MISSED if proof.proved else CAUGHT
    elif proof.proved:
        verdict = SAME
    else:
        verdict = _without_results(subject, fault)
    return Outcome(subject.name, number, fault.kind, fault.text, verdict, proof.difference)


def outcomes_of(subject: Subject, faults: int) -> Iterator[Outcome]:
    """Yield what comes of a subject's faults; an alarm alone if it is not proved before it is broken."""
    alarms = proof_faults(subject.plan, subject.lowered)
    if alarms:
        yield Outcome(subject.name, -1, "", "the unbroken stream", ALARM, alarms[0])
        return
    yield Outcome(subject.name, -1, "", "the unbroken stream", SAME)
    kinds = list(KINDS)
    for number in range(faults):
        rng = Random(f"{subject.name} {number}")
        fault = planted(subject.plan, kinds[number % len(kinds)], rng)
        if fault is not None:
            yield judged(subject, number, fault)


def subjects_of(models: tuple[Path, ...], done: set[str], first: int) -> Iterator[Subject]:
    """Yield the subjects that are not in `done`: of models if there are any, else random networks without
    end."""
    if models:
        yield from (model_subject(path) for path in models if path.stem not in done)
        return
    seed = first
    while True:
        subject = None if str(seed) in done else random_subject(seed)
        if subject is not None:
            yield subject
        seed += 1


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the counts of verdicts by kind of fault."""
    outcomes = [outcome for outcome in outcomes if outcome.number >= 0]
    lines = [f"{'fault':14}{'planted':>9}" + "".join(f"{verdict:>9}" for verdict in VERDICTS)]
    for kind in (*KINDS, "all"):
        counts = Counter(outcome.verdict for outcome in outcomes if kind in ("all", outcome.kind))
        lines.append(f"{kind:14}{counts.total():9}" + "".join(f"{counts[verdict]:9}" for verdict in VERDICTS))
    return "\n".join(lines)


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--faults", default=1000, show_default=True, help="Number of faults in all.")
@click.option("--each", default=16, show_default=True, help="Faults planted in each network, at most.")
@click.option("--seed", default=0, show_default=True, help="Of the first random network.")
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), help="Outcomes, one a line.")
@needs("broken streams", "onnxruntime")
def main(models: tuple[Path, ...], faults: int, each: int, seed: int, journal: Path | None) -> None:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    lines = journal.read_text().splitlines() if journal is not None and journal.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    for subject in subjects_of(models, {outcome.subject for outcome in outcomes}, seed):
        if sum(outcome.number >= 0 for outcome in outcomes) >= faults:
            break
        fresh = list(outcomes_of(subject, each))
        outcomes += fresh
        for outcome in fresh:
            if outcome.verdict in (MISSED, UNSEEN, ALARM):
                click.echo(outcome)
        if journal is not None:
            with journal.open("a") as file:
                file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in fresh)
    alarms = sum(outcome.verdict == ALARM for outcome in outcomes)
    networks = len({outcome.subject for outcome in outcomes})
    click.echo(f"{table(outcomes)}\n{networks} networks, {alarms} alarms on unbroken streams")
    sys.exit(any(outcome.verdict in (MISSED, ALARM) for outcome in outcomes))


if __name__ == "__main__":
    main()
