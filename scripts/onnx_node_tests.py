"""Run the operator tests of the `onnx` package through the importer and the operators.

A test that has not "passed" has one of five verdicts. "Refused" and "wrong" are failures of the kit: no test
should have them where onnxruntime is installed. The other three are no failures:

- "unfed": inputs or outputs are no arrays of numbers, such as sequences, texts and floats of 8 bits
- "unrun": onnxruntime does not run the test either
- "theirs": onnxruntime ran all of the test, and its results differ from the results of the suite
"""

import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

import click
import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.text import print_graph
from vdla.runtime.host.dtypes import TENSOR_DTYPES
from vdla.runtime.host.onnx_runtime import PART, is_there, session_from

# Inputs of operators that a graph has as attributes or works out while importing; the suite feeds them when
# the network runs.
PARAMETERS = {
    "CastLike": (1,),
    "Clip": (1, 2),
    "ConstantOfShape": (0,),
    "Dropout": (1, 2),
    "Expand": (1,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}


HALVES, WIDE = ("bfloat16", "float16"), "float32"
BFLOAT16_STEPS = 2.0**-6
VERDICTS = ("passed", "refused", "wrong", "unfed", "unrun", "theirs")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a test, and why."""

    name: str
    verdict: str
    reason: str = ""


def cases(modules: Sequence[str] = ()) -> Iterator[TestCase]:
    """Yield the tests of single operators, of some modules of the suite or of all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the suite's arithmetic
        for module in modules:
            import_module(f"{node.__name__}.{module}")
        yield from node._NodeTestCases if modules else load_model_tests(kind="node")


def outcome(case: TestCase) -> Outcome:
    """Import, print, read back, interpret and compare a test."""
    try:
        inputs, expected = ([as_array(value) for value in values] for values in case.data_sets[0])
        model, fed = with_parameters(case.model, inputs)
        graph = load(model)
    except GraphError as error:
        if not all(map(is_fed, (*inputs, *expected))):
            return Outcome(case.name, "unfed", reason_of(error))
        return Outcome(case.name, "refused" if is_run(case.model, inputs) else "unrun", reason_of(error))
    try:
        again = parse_graph(print_graph(graph), graph.constants)
        if again != graph:
            return Outcome(case.name, "wrong", "the text reads back as another graph")
        comparison = compared(case, graph, fed, expected)
    except GraphError as error:
        return Outcome(case.name, "wrong" if is_run(case.model, inputs) else "unrun", str(error))
    return (
        replace(comparison, verdict="theirs")
        if comparison.verdict == "wrong" and is_theirs(graph)
        else comparison
    )


def as_array(value: object) -> object:
    """Return a tensor as an array; sequences and optional values as they are."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def is_fed(value: object) -> bool:
    """Whether a value is a tensor that a network may take in or give out."""
    return isinstance(value, np.ndarray) and str(value.dtype) in TENSOR_DTYPES


def is_theirs(graph: Graph) -> bool:
    """Whether a result is onnxruntime's: it ran all of a graph, or the numbers are random."""
    parts = [node for node in graph.nodes if node.op == PART]
    return len(parts) == len(graph.nodes) or any("Random" in node.name for node in parts)


def is_run(model: ModelProto, inputs: list) -> bool:
    """Whether onnxruntime, left alone, runs a model."""
    if not is_there():
        return True
    try:
        session = session_from(model.SerializeToString())
        session.run(None, {value.name: array for value, array in zip(model.graph.input, inputs, strict=True)})
    except Exception:  # onnxruntime's exceptions have no other class in common
        return False
    return True


def with_parameters(model: ModelProto, inputs: list) -> tuple[ModelProto, list[np.ndarray]]:
    """Return the model with parameters turned into constants, and the inputs that are left."""
    parameters = {
        name
        for each in model.graph.node
        for place in PARAMETERS.get(each.op_type, ())
        for name in each.input[place : place + 1]
        if name
    }
    changed = ModelProto()
    changed.CopyFrom(model)
    fed = []
    for value, array in zip(model.graph.input, inputs, strict=True):
        if value.name in parameters and isinstance(array, np.ndarray | np.generic):
            changed.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
        else:
            fed.append(array)
    return changed, fed


def compared(case: TestCase, graph: Graph, fed: list[np.ndarray], expected: list[np.ndarray]) -> Outcome:
    """Run a graph and compare its outputs at the suite's tolerances.

    Halves are fed as float32, which importing makes of them. bfloat16 comes out as float32, which the suite
    has rounded at every operator: it may differ by two steps of bfloat16.
    """
    given = zip(graph.inputs.items(), fed, strict=True)
    outputs = interpret(
        graph, {name: widened(array) if type_.dtype == WIDE else array for (name, type_), array in given}
    )
    for name, want in zip(graph.outputs, expected, strict=True):
        got = outputs[name]
        rtol = case.rtol
        if got.dtype == WIDE and str(want.dtype) == "bfloat16":
            got, rtol = got.astype(want.dtype), BFLOAT16_STEPS
        if got.dtype != want.dtype or got.shape != want.shape:
            return Outcome(
                case.name, "wrong", f"{name} is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
            )
        if not np.allclose(got, want, rtol=rtol, atol=case.atol, equal_nan=True):
            return Outcome(
                case.name,
                "wrong",
                f"{name} differs by up to {np.nanmax(np.abs(got.astype(float) - want.astype(float)))}",
            )
    return Outcome(case.name, "passed")


def widened(array: np.ndarray) -> np.ndarray:
    """Return an array of float16 or bfloat16 as float32; others as they are."""
    return array.astype(WIDE) if str(array.dtype) in HALVES else array


def reason_of(error: GraphError) -> str:
    """Return the first problem without the names of this model's parts."""
    lines = str(error).splitlines()
    text = lines[1] if len(lines) > 1 else lines[0]
    text = re.sub(r"^\s*[^:]*: ", "", text)
    return re.sub(r"'[^']*'|\[[^\]]*\]", "…", text)


@click.command()
@click.option("--match", default="", help="Run only tests whose name has this in it.")
@click.option("--verbose", is_flag=True, help="Name every test that was refused.")
def main(match: str, verbose: bool) -> None:
    """Run the tests; exit with 1 if any is wrong."""
    outcomes = [outcome(case) for case in cases() if match in case.name]
    counts = Counter(each.verdict for each in outcomes)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    print(f"onnx {onnx.__version__}: {len(outcomes)} tests, {told}")
    reasons = Counter(
        (each.verdict, each.reason) for each in outcomes if each.verdict in ("refused", "unrun")
    )
    for (verdict, reason), count in reasons.most_common():
        print(f"{count:6} {verdict}: {reason}")
        if verbose:
            alike = (each.name for each in outcomes if (each.verdict, each.reason) == (verdict, reason))
            print(f"       {' '.join(alike)}")
    for each in outcomes:
        if each.verdict in ("wrong", "theirs"):
            print(f"{each.verdict}: {each.name}: {each.reason}")
    sys.exit(counts["wrong"] > 0)


if __name__ == "__main__":
    main()
