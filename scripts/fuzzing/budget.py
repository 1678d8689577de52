"""Whether an input that is accepted is small enough to be run."""

from collections.abc import Iterable
from math import prod
from pathlib import Path

import numpy as np

from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.load import load as load_network
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.module.file import load as load_module
from vdla.runtime.vectors import load_vector
from vdla.sim.decoded import decode_stream
from vdla.sim.functional import counters

MOST_STEPS = 2_000_000
MOST_INPUT_ELEMENTS = 1 << 20
MOST_MACS = 5_000_000
STEPS = ("GEMM_STEPS", "ALU_STEPS")


def fits_vector(path: Path) -> bool:
    """Whether the program of a vector takes few steps; a file that is refused fits."""
    try:
        vector = load_vector(path)
        return _steps([vector.stream], vector.config) <= MOST_STEPS
    except VdlaError:
        return True


def fits_module(path: Path) -> bool:
    """Whether a module takes few steps and has inputs of few elements; a file that is refused fits."""
    try:
        plan = load_module(path)
    except VdlaError:
        return True
    streams = (
        plan.streams[launch.stream].words.view(np.uint8).reshape(-1, plan.config.instruction_bytes)
        for launch in plan.launches
    )
    elements = sum(prod(value.shape) for value in plan.inputs.values())
    return elements <= MOST_INPUT_ELEMENTS and _steps(streams, plan.config) <= MOST_STEPS


def fits_network(path: Path) -> bool:
    """Whether a network takes few multiplications; a refused network fits."""
    try:
        return macs(load_network(path)) <= MOST_MACS
    except VdlaError:
        return True


def macs(graph: Graph) -> int:
    """Return about how many elements and products a network computes."""
    return sum(
        sum(graph.types[name].size for name in node.outputs if name) * _reduced(graph, node.inputs)
        for node in graph.nodes
    )


def _reduced(graph: Graph, inputs: Iterable[str]) -> int:
    """Return how many products an element may be the sum of."""
    weights = (graph.constants[name] for name in inputs if name in graph.constants)
    return max((values.size // max(values.shape[0], 1) for values in weights if values.ndim > 1), default=1)


def _steps(streams: Iterable[np.ndarray], config: AcceleratorConfig) -> int:
    """Return the steps of GEMM and ALU instructions, and the bytes that transfers move."""
    total = 0
    for stream in streams:
        program = decode_stream(stream, config)
        total += sum(counters(program, np.arange(program.dispatched)).values())
    return total
