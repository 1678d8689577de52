#!/usr/bin/env python3
"""Compile random networks in all styles of files, and compare them with onnxruntime.

A seed gives a network of float operators, a style in which a tool writes it, and a configuration. Networks
that stay in float are quantised by the compiler. Every quantised layer is given onnxruntime's inputs, and may
differ from its result by one in the last place; so may what is computed of them in float, by the rounding of
float32. The accelerator must equal the integer operators bit for bit, and its streams are proved to do so
for all inputs. A network that is refused with a
reason counts apart. Networks that are wrong are kept in a folder. With a journal, seeds that are right are
not tried again. Exit status 1 if anything is wrong.
"""

import json
import random
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import click
import numpy as np
import onnx
from check_models import NARROW, Subject, as_made, random_inputs, reference
from generators.graphs import Network, random_network
from models.run import Tensors, session_of
from models.styles import STYLES
from onnx import ModelProto
from proving.check import proof_faults

from vdla.cli._options import needs
from vdla.compiler.codegen.choose import by_estimate
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.interpret import interpret, run_node
from vdla.compiler.graph.nodes import Graph, GraphError, Node
from vdla.compiler.graph.onnx.export import export
from vdla.compiler.graph.onnx.importer import Importer
from vdla.compiler.graph.onnx.read import read_model
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.graph.quantise import quantise
from vdla.compiler.network.compile import simplified
from vdla.compiler.network.stages import plan_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.session.session import Session

Known = Mapping[str, np.ndarray]
FLOAT = "float"
CONFIGS: tuple[AcceleratorConfig, ...] = (
    DEFAULT,
    SMALL,
    TINY.with_changes(name="all", extensions=tuple(Extension)),
    TINY.with_changes(name="rows", batch=2, block_in=8, extensions=tuple(Extension)),
)
CALIBRATION_SAMPLES = 4
LAST_PLACE = 1
ONE_TENSOR_MOVES = ("Reshape", "Transpose", "Slice", "Split", "Flatten", "Squeeze", "Unsqueeze")
MOST_JOINED = 6  # rounded values within a table, all of which may be one off
QUANTISED = ("DynamicQuantize", "QLinear", "Quantize")
TOLERANCE = 2e-3  # of float results, relative to the largest
RIGHT, WRONG, REFUSED, UNWRITTEN = "right", "wrong", "refused", "unwritten"


@dataclass(frozen=True)
class Outcome:
    """What came of a seed.

    Attributes:
        verdict: "unwritten" where onnxruntime's quantiser cannot write the network in the style.
        layers: quantised layers that were compared.
    """

    seed: int
    style: str
    config: str
    verdict: str
    reason: str = ""
    layers: int = 0


@dataclass(frozen=True)
class Case:
    """A network to try."""

    seed: int
    network: Network
    style: str
    config: AcceleratorConfig

    def outcome(self, verdict: str, reason: str = "", layers: int = 0) -> Outcome:
        """Return what came of it."""
        return Outcome(self.seed, self.style, self.config.name, verdict, reason, layers)


def case_of(seed: int) -> Case:
    """Return the network, the style and the configuration of a seed."""
    rng = random.Random(seed)
    style = rng.choice([FLOAT, *STYLES])
    return Case(seed, random_network(seed), style, rng.choice(CONFIGS))


def written(case: Case) -> ModelProto | None:
    """Return the network in its style; None where onnxruntime's tools fail."""
    if case.style == FLOAT:
        return case.network.model
    samples = case.network.samples(CALIBRATION_SAMPLES, case.seed)
    style = STYLES[case.style]
    try:
        model = style.quantised(case.network.model, samples)
        session_of(model)
    except Exception:  # whatever a tool raises that is none of ours
        return None
    return model


def subject_of(model: ModelProto, seed: int) -> tuple[Subject, Graph]:
    """Return the network twice, and as it is lowered; a network whose activations are real numbers is
    quantised first, on random samples.

    Raises:
        GraphError: it is refused.
    """
    importer = Importer(read_model(model), {})
    raw = importer.run()
    simple = simplified(raw, calibrates=True)
    if any(node.op.startswith(QUANTISED) for node in simple.nodes):
        return Subject(
            raw, model, {graph_name: model_name for model_name, graph_name in importer.names.items()}
        ), simple
    samples = [random_inputs(raw, seed + more) for more in range(CALIBRATION_SAMPLES)]
    graph = quantise(simple, samples).graph
    return Subject(graph, export(graph), {name: name for name in graph.types}), graph


def inputs_of(graph: Graph, seed: int) -> Tensors:
    """Return random inputs; bytes of all values."""
    rng, inputs = np.random.default_rng(seed), random_inputs(graph, seed)
    for name, type_ in graph.inputs.items():
        if type_.dtype in NARROW:
            limits = np.iinfo(type_.dtype)
            inputs[name] = rng.integers(limits.min, limits.max + 1, type_.shape).astype(type_.dtype)
    return inputs


def faults(case: Case, model: ModelProto) -> tuple[list[str], int]:
    """Return what is wrong with a network, and how many layers were compared.

    Raises:
        GraphError: it is refused.
    """
    subject, prepared = subject_of(model, case.seed)
    lowered = INTEGERS.run(prepared)
    inputs = inputs_of(subject.graph, case.seed)
    differences, layers = layer_faults(lowered, inputs, reference(subject, inputs), subject.graph)
    plan = plan_of(lowered, Target(case.config), choose=by_estimate)
    outputs = Session(FunctionalDevice(plan.config, plan.dram_bytes), plan).run(inputs).outputs
    for name, array in interpret(lowered, inputs).items():
        if not np.array_equal(array, outputs[name], equal_nan=True):
            differences.append(
                f"{name}: {np.count_nonzero(array != outputs[name])} elements on the accelerator differ"
            )
    return differences + proof_faults(plan, lowered), layers


def layer_faults(lowered: Graph, inputs: Tensors, known: Known, graph: Graph) -> tuple[list[str], int]:
    """Run every operator on what onnxruntime makes of its inputs, as far as that is known; return how results
    differ from what is known of them, and how many were compared.

    Integers that onnxruntime does not tell, as our joined operators compute them, may be one off, so real
    numbers computed from them may be one step off.
    """
    values, differences, layers = {**lowered.constants, **inputs}, [], 0
    makers = DefUse(lowered).makers
    for node in lowered.nodes:
        values |= run_node(node, values, lowered.types)
        is_open = node.op == "DequantizeLinear" and node.inputs[0] in makers and node.inputs[0] not in known
        step = float(np.max(values[node.inputs[1]])) if is_open else 0.0
        for name in known.keys() & set(node.outputs):
            expected = _as_image(as_made(known[name], values[name].dtype), values[name])
            difference = far_off(values[name], expected, step)
            layers += 1
            given = {**inputs, **known}
            begin = {*_known_before(node, makers, given), *node.inputs}
            begin |= _same(given, [values[each] for each in node.inputs if each])
            if difference and not joins_steps(graph, begin, name, given, values[name]):
                differences.append(f"{node.op} {name}: {difference}")
            values[name] = expected
    return differences, layers


def _known_before(node: Node, makers: Mapping[str, Node], known: Known) -> set[str]:
    """Return the known values of which the inputs of a node are computed, the nearest of each."""
    waiting, nearest = [*node.inputs], set[str]()
    while waiting:
        name = waiting.pop()
        if name in known:
            nearest.add(name)
        elif name in makers:
            waiting += makers[name].inputs
    return nearest


def _same(known: Known, arrays: Iterable[np.ndarray]) -> set[str]:
    """Return the names of the known integers that some arrays hold, perhaps in another shape or as int8."""
    return {
        name
        for array in arrays
        for name, integers in known.items()
        if integers.size == array.size > 0 and integers.dtype.kind in "iu"
        if np.array_equal(as_made(integers, array.dtype).reshape(-1), array.reshape(-1))
    }


def joins_steps(graph: Graph, begin: Iterable[str], name: str, known: Known, result: np.ndarray) -> bool:
    """Whether a result may be what several quantised operators, applied in turn, compute from known values.

    Each of them must agree with onnxruntime on onnxruntime's inputs. Each may be one off, and the operators
    after it may enlarge the difference.

    Args:
        graph: before it was lowered.
        begin: the inputs of the single node that stands for these operators of `graph`.
    """
    first = {given: known[given] for given in (*begin, *graph.inputs) if given in known and given != name}
    steps = _steps_to(graph, name, first)
    theirs = {**graph.constants, **first}
    for step in steps:
        results = run_node(step, theirs, graph.types)
        if any(far_off(array, known[value]) for value, array in results.items() if value in known):
            return False
        theirs |= {value: known.get(value, array) for value, array in results.items()}
    inner = [step.outputs[0] for step in steps if _rounds(step, graph) and step.outputs[0] != name]
    if not steps or len(inner) > MOST_JOINED:
        return False
    runs = [
        as_made(_run_off(graph, steps, first, dict(zip(inner, off, strict=True)))[name], result.dtype)
        for off in product((-1, 0, 1), repeat=len(inner))
    ]
    result = _as_image(result, runs[0])
    slack = LAST_PLACE if result.dtype.kind in "iu" else TOLERANCE * max(float(np.abs(runs).max()), 1e-3)
    low, high = (bound(np.array(runs, np.float64), axis=0) for bound in (np.min, np.max))
    return bool(np.all(result >= low - slack) and np.all(result <= high + slack))


def _rounds(step: Node, graph: Graph) -> bool:
    """Whether a step quantises, unless its input is a constant, or a moved tensor of the same scale and zero
    point."""
    if step.op != "QuantizeLinear" or step.inputs[0] in graph.constants:
        return False
    makers = DefUse(graph).makers
    maker = makers.get(step.inputs[0])
    while maker is not None and maker.op in ONE_TENSOR_MOVES:
        maker = makers.get(maker.inputs[0])
    return maker is None or maker.op != "DequantizeLinear" or maker.inputs[1:] != step.inputs[1:]


def _as_image(array: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return an array in the shape of `like` if only sizes of 1 differ, as in rows that became images; else
    the array as it is."""
    same = [size for size in array.shape if size > 1] == [size for size in like.shape if size > 1]
    return array.reshape(like.shape) if same else array


def _run_off(graph: Graph, steps: Iterable[Node], begin: Known, off: Mapping[str, int]) -> Tensors:
    """Return what steps make where some quantised values are off by whole numbers."""
    values = {**graph.constants, **begin}
    for step in steps:
        values |= run_node(step, values, graph.types)
        for name in off.keys() & set(step.outputs):
            limits = np.iinfo(values[name].dtype)
            moved = np.clip(values[name].astype(np.int64) + off[name], limits.min, limits.max)
            values[name] = moved.astype(values[name].dtype)
    return values


def _steps_to(graph: Graph, name: str, begin: Known) -> list[Node]:
    """Return the nodes of a graph that make a value of others; none where they need still others."""
    makers, wanted, needed = DefUse(graph).makers, [name], set()
    while wanted:
        value = wanted.pop()
        if not value or value in begin or value in graph.constants:
            continue
        if value not in makers:
            return []
        if id(makers[value]) not in needed:
            needed.add(id(makers[value]))
            wanted += makers[value].inputs
    return [node for node in graph.nodes if id(node) in needed]


def far_off(result: np.ndarray, expected: np.ndarray, step: float = 0.0) -> str:
    """Say how a result differs from the expected result by more than is allowed; "" where it does not.

    Args:
        step: that real numbers may be off beside the rounding of float32.
    """
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"it is {result.dtype}{list(result.shape)}, not {expected.dtype}{list(expected.shape)}"
    if result.dtype.kind in "iub":
        most = int(np.abs(result.astype(np.int64) - expected.astype(np.int64)).max())
        return f"it is {most} off" if most > LAST_PLACE else ""
    finite = np.isfinite(expected)
    if not np.array_equal(result[~finite], expected[~finite], equal_nan=True):
        return "infinities or nan stand at other places"
    allowed = step + TOLERANCE * max(float(np.abs(expected[finite]).max(initial=0)), 1e-3)
    most = float(np.abs(result[finite] - expected[finite]).max(initial=0))
    return "" if most <= allowed else f"it is {most:g} off, and {allowed:g} is allowed"


def tried(case: Case, folder: Path) -> Outcome:
    """Return what comes of a case; a model that is wrong is kept in a folder."""
    model = written(case)
    if model is None:
        return case.outcome(UNWRITTEN)
    try:
        differences, layers = faults(case, model)
    except GraphError as error:
        return case.outcome(REFUSED, str(error))
    except Exception:  # a traceback is what is looked for
        differences, layers = [traceback.format_exc()], 0
    if not differences:
        return case.outcome(RIGHT, "", layers)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / f"{case.seed}.onnx")
    return case.outcome(WRONG, "\n".join(differences), layers)


def done_before(journal: Path | None) -> dict[int, Outcome]:
    """Return the outcomes in a journal, by seed."""
    if journal is None or not journal.exists():
        return {}
    lines = journal.read_text().splitlines()
    return {outcome.seed: outcome for line in lines for outcome in [Outcome(**json.loads(line))]}


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return the counts, and why networks were refused."""
    outcomes = list(outcomes)
    counts = Counter(outcome.verdict for outcome in outcomes)
    reasons = Counter(
        outcome.reason.splitlines()[-1].strip() for outcome in outcomes if outcome.verdict == REFUSED
    )
    layers = sum(outcome.layers for outcome in outcomes)
    lines = [
        f"{len(outcomes)} networks: {counts[RIGHT]} right, {counts[REFUSED]} refused, {counts[UNWRITTEN]} "
        f"that onnxruntime's tools do not write, {counts[WRONG]} wrong; {layers} layers compared",
        *(f"{count:6} refused: {reason}" for reason, count in reasons.most_common()),
    ]
    return "\n".join(lines)


@click.command(help=__doc__)
@click.option("--graphs", default=500, show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the first network.")
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), help="Outcomes, one a line.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/random_graphs"),
    show_default=True,
    help="Folder of models that are wrong.",
)
@needs("random graphs", "onnxruntime")
def main(graphs: int, seed: int, journal: Path | None, keep: Path) -> None:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    before, outcomes = done_before(journal), []
    with click.progressbar(
        range(seed, seed + graphs), file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as seeds:
        for number in seeds:
            outcome = before.get(number)
            if outcome is None or outcome.verdict == WRONG:
                outcome = tried(case_of(number), keep)
                if journal is not None:
                    with journal.open("a") as file:
                        file.write(json.dumps(asdict(outcome)) + "\n")
            outcomes.append(outcome)
            if outcome.verdict == WRONG:
                where = f"{keep / str(number)}.onnx"
                click.echo(f"seed {number}, {outcome.style} on {outcome.config}, {where}:\n{outcome.reason}")
    click.echo(summary(outcomes))
    sys.exit(any(outcome.verdict == WRONG for outcome in outcomes))


if __name__ == "__main__":
    main()
