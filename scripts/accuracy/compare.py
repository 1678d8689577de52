"""Quantisation of a float model by the kit and by onnxruntime, and how near both are."""

import contextlib
import io
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from models.quantise import Samples
from models.run import Tensors, run, session_of
from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.quantise import quantise
from vdla.compiler.network.compile import imported
from vdla.compiler.network.source import Source

METHODS = (CalibrationMethod.MinMax, CalibrationMethod.Entropy, CalibrationMethod.Percentile)


@dataclass(frozen=True)
class Outcome:
    """What a quantised network makes of the test samples.

    Attributes:
        how: it was quantised.
        outputs: of each sample.
        seconds: that quantisation took.
        in_float: how many layers stay in float.
    """

    how: str
    outputs: list[Tensors]
    seconds: float
    in_float: int = 0


def floats(model: onnx.ModelProto, test: list[Tensors]) -> list[Tensors]:
    """Return what the float model makes of samples, by onnxruntime."""
    session = session_of(model)
    return [run(session, sample) for sample in test]


def ours(
    model: onnx.ModelProto, calibration: list[Tensors], test: list[Tensors], options: Options
) -> Outcome:
    """Return what the kit's quantisation makes of samples."""
    graph = imported(Source(model.SerializeToString())).graph
    began = time.perf_counter()
    quantised = quantise(graph, calibration, options)
    seconds = time.perf_counter() - began
    how = f"vdla, {quantised.criterion}" + (
        f", {len(quantised.in_float)} layers in float" if quantised.in_float else ""
    )
    return Outcome(
        how, [interpret(quantised.graph, sample) for sample in test], seconds, len(quantised.in_float)
    )


def theirs(
    model: onnx.ModelProto,
    calibration: list[Tensors],
    test: list[Tensors],
    methods: Sequence[CalibrationMethod] = METHODS,
) -> Iterator[Outcome]:
    """Yield what onnxruntime's quantisation makes of samples, by each of these methods: int8 activations,
    weights per channel, its other defaults."""
    with tempfile.TemporaryDirectory(prefix="accuracy.") as name:
        source, prepared, target = (Path(name) / part for part in ("a.onnx", "b.onnx", "c.onnx"))
        onnx.save(model, source)
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        for method in methods:
            began = time.perf_counter()
            with _silent():
                quantize_static(
                    prepared,
                    target,
                    Samples(calibration),
                    quant_format=QuantFormat.QDQ,
                    per_channel=True,
                    activation_type=QuantType.QInt8,
                    weight_type=QuantType.QInt8,
                    calibrate_method=method,
                )
            seconds = time.perf_counter() - began
            yield Outcome(f"onnxruntime, {method.name}", floats(onnx.load(target), test), seconds)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Drop what onnxruntime prints while it calibrates."""
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def cosine(wanted: list[Tensors], outputs: list[Tensors]) -> float:
    """Return the cosine of all outputs as two vectors."""
    wanted_vector, output_vector = (
        np.concatenate([part.reshape(-1) for each in several for part in each.values()]).astype(np.float64)
        for several in (wanted, outputs)
    )
    return float(
        wanted_vector
        @ output_vector
        / np.sqrt((wanted_vector @ wanted_vector) * (output_vector @ output_vector))
    )
