#!/usr/bin/env python3
"""Compare integer operators of networks with onnxruntime, and the accelerator with the integer operators.

Every model is imported and simplified as for compilation, quantised if it is not yet, and lowered.
onnxruntime runs the same quantised model, unoptimised, on the same random input. Every integer operator is
given onnxruntime's input tensors, and its result is compared with onnxruntime's. The network is then compiled
for the default configuration and run on the cycle device: its outputs must equal the outputs of the integer
operators bit for bit. Exit status 1 if results differ from onnxruntime's by more than 1, or the accelerator's
differ at all.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnx
from models.run import Tensors, unoptimised
from onnx import ModelProto

from vdla.cli._options import needs
from vdla.compiler.graph.interpret import interpret, run_node
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.onnx.export import export
from vdla.compiler.graph.onnx.importer import Importer
from vdla.compiler.graph.onnx.read import read_model
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.pipeline import INTEGERS, SIMPLIFY, Pipeline
from vdla.compiler.graph.quantise import quantise
from vdla.compiler.network.compile import FLOATS
from vdla.compiler.network.stages import plan_of
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.session.session import Session

PREPARE = Pipeline((*SIMPLIFY.passes, *FLOATS.passes))
CALIBRATION_SAMPLES = 2
NARROW = {"int8": 0, "uint8": 128}  # what int8 tensors have less
ALLOWED = 1
TIE = 1e-6  # relative difference of outputs that are taken as equal


@dataclass(frozen=True, slots=True)
class Subject:
    """A quantised network twice.

    Attributes:
        graph: ours, before it is lowered.
        model: onnxruntime's.
        names: what the model calls the values of the graph.
    """

    graph: Graph
    model: ModelProto
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of a model.

    Attributes:
        differences: the largest of each quantised layer, by the layer.
        rows, same_rows: vectors along the last dimension of the outputs, and how many of them have their
            greatest element at the same place.
        on_host: operators that make or read real numbers.
        cycles: of the accelerator.
        exact: its outputs equal the outputs of the integer operators.
    """

    differences: Mapping[str, int]
    rows: int
    same_rows: int
    on_host: Mapping[str, int]
    cycles: int
    exact: bool

    @property
    def largest(self) -> int:
        """The largest difference, in units of the last place."""
        return max(self.differences.values(), default=0)


def random_inputs(graph: Graph, seed: int) -> Tensors:
    """Return normally distributed floats, and small whole numbers."""
    rng = np.random.default_rng(seed)
    return {
        name: (
            rng.standard_normal(type_.shape) if type_.dtype == "float32" else rng.integers(0, 2, type_.shape)
        ).astype(type_.dtype)
        for name, type_ in graph.inputs.items()
    }


def subject_of(path: Path, seed: int) -> Subject:
    """Return the quantised network in a file; if it is not quantised, what our quantiser makes of it on
    random samples.

    Raises:
        GraphError: the model cannot be imported or calibrated.
    """
    importer = Importer(read_model(path), {})
    graph = PREPARE.run(DeadCode().run(importer.run()))
    if any(node.op.startswith(("Quantize", "QLinear")) for node in graph.nodes):
        return Subject(
            graph, onnx.load(path), {graph_name: name for name, graph_name in importer.names.items()}
        )
    graph = quantise(
        graph, [random_inputs(graph, seed + 1 + number) for number in range(CALIBRATION_SAMPLES)]
    ).graph
    return Subject(graph, export(graph), {name: name for name in graph.types})


def reference(subject: Subject, inputs: Tensors) -> Tensors:
    """Return what onnxruntime makes of the inputs: every quantised tensor and every output, by the graph's
    names."""
    graph, model = subject.graph, ModelProto()
    model.CopyFrom(subject.model)
    wanted = {
        name: subject.names[name]
        for node in graph.nodes
        for name in node.outputs
        if graph.types[name].dtype in NARROW and name in subject.names
    }
    shown = {output.name for output in model.graph.output}
    for graph_name, name in wanted.items():
        if name not in shown:
            code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(graph.types[graph_name].dtype))
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, code, None))
    wanted |= {graph_name: subject.names[graph_name] for graph_name in graph.outputs}
    arrays = unoptimised(model).run(
        list(wanted.values()), {subject.names[graph_name]: array for graph_name, array in inputs.items()}
    )
    return dict(zip(wanted, arrays, strict=True))


def layer_differences(lowered: Graph, inputs: Tensors, known: Tensors) -> dict[str, int]:
    """Run every node on what is known of its inputs; return how far integer operators are from what is known
    of their results."""
    values = {**lowered.constants, **inputs}
    differences: dict[str, int] = {}
    for node in lowered.nodes:
        values |= run_node(node, values, lowered.types)
        for name in known.keys() & set(node.outputs):
            expected = as_made(known[name], values[name].dtype).reshape(values[name].shape)
            if node.op != "QuantizeLinear" and str(expected.dtype) in NARROW:
                differences[f"{node.op} {name}"] = int(np.abs(values[name].astype(np.int64) - expected).max())
            values[name] = expected
    return differences


def as_made(known: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return known values as our operators have them: uint8 as the int8 that stands for it."""
    less = NARROW.get(str(known.dtype), 0) - NARROW.get(str(dtype), 0)
    return (known.astype(np.int64) - less).astype(dtype) if less else known


def same_rows(actual: Iterable[np.ndarray], expected: Iterable[np.ndarray]) -> tuple[int, int]:
    """Return how many rows there are, and in how many the place of the greatest element is an expected
    place."""
    rows = same = 0
    for ours, theirs in zip(actual, expected, strict=True):
        ours, theirs = (
            np.atleast_1d(part).reshape(-1, part.shape[-1] if part.ndim else 1) for part in (ours, theirs)
        )
        chosen = np.take_along_axis(theirs, ours.argmax(axis=1)[:, None], axis=1)[:, 0]
        rows, same = (
            rows + len(ours),
            same + int(np.isclose(chosen, theirs.max(axis=1), rtol=TIE, atol=0).sum()),
        )
    return rows, same


def float_operators(graph: Graph) -> Counter[str]:
    """Count the operators that make or read real numbers."""

    def is_float(node: Node) -> bool:
        return any(graph.types[name].dtype == "float32" for name in (*node.inputs, *node.outputs) if name)

    return Counter(node.op for node in graph.nodes if is_float(node))


def compare(path: Path, seed: int) -> Comparison:
    """Compare one model.

    Raises:
        GraphError: the model cannot be imported or quantised.
    """
    subject = subject_of(path, seed)
    lowered = INTEGERS.run(subject.graph)
    inputs = random_inputs(subject.graph, seed)
    known = reference(subject, inputs)
    differences = layer_differences(lowered, inputs, known)
    interpreted = interpret(lowered, inputs)
    cycles, device_outputs = on_accelerator(lowered, inputs)
    exact = all(
        np.array_equal(device_outputs[name], interpreted[name], equal_nan=True) for name in lowered.outputs
    )
    return Comparison(
        differences,
        *same_rows(
            (interpreted[name] for name in lowered.outputs), (known[name] for name in lowered.outputs)
        ),
        float_operators(lowered),
        cycles,
        exact,
    )


def on_accelerator(lowered: Graph, inputs: Tensors) -> tuple[int, Tensors]:
    """Return the cycles and outputs of a network compiled for the default configuration."""
    plan = plan_of(lowered, Target(DEFAULT))
    outcome = Session(CycleDevice(plan.config, plan.dram_bytes), plan).run(inputs)
    return outcome.cycles or 0, outcome.outputs


def report(path: Path, comparison: Comparison, seconds: float) -> str:
    """Return the line of a model; lines of layers that are too far off follow."""
    host = ", ".join(f"{count} {op}" for op, count in sorted(comparison.on_host.items())) or "none"
    top = f"{comparison.same_rows:6} of {comparison.rows:<6}"
    line = (
        f"{path.stem:22} {len(comparison.differences):6} {comparison.largest:10} {top} "
        f"{comparison.cycles:12,} "
        f"{'yes' if comparison.exact else 'NO':>5} {seconds:6.1f}  {host}"
    )
    wrong = [
        f"    {layer}: {difference}"
        for layer, difference in comparison.differences.items()
        if difference > ALLOWED
    ]
    return "\n".join([line, *wrong])


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--light", is_flag=True, help="Also the models that the onnx package carries for its own tests."
)
@click.option("--seed", default=0, show_default=True, help="Of inputs and calibration samples.")
@needs("checking models", "onnxruntime")
def main(models: tuple[Path, ...], light: bool, seed: int) -> None:
    paths = models or tuple(sorted(Path("build/models").glob("*_int8.onnx")))
    if light:
        paths += tuple(sorted(Path(onnx.__file__).parent.glob("backend/test/data/light/*.onnx")))
    if not paths:
        raise click.ClickException(
            "build/models holds no .onnx files; make some with scripts/make_models.py, or name others"
        )
    click.echo(
        f"{'model':22} {'layers':>6} {'difference':>10} {'top-1':>9} {'':6} {'cycles':>12} {'exact':>5} "
        f"{'s':>6}  on the host in float"
    )
    wrong = False
    for path in paths:
        began = time.perf_counter()
        comparison = compare(path, seed)
        click.echo(report(path, comparison, time.perf_counter() - began))
        wrong |= comparison.largest > ALLOWED or not comparison.exact
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
