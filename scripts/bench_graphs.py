#!/usr/bin/env python3
"""Measure how the time to compile grows with the nodes of a network, stage by stage.

Generated networks (`generators/large.py`) of one form each are compiled for `default`, in this process and
without the kit's cache. Seconds are processor time. The last column is the exponent of the nodes that
the time of a stage follows between the smallest and the largest network: 1 is linear, 2 is quadratic. It is
left out where the largest network takes less than 0.2 seconds.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import click
import numpy as np
from generators.large import KINDS
from onnx import ModelProto

from vdla.api import Module, target_of
from vdla.compiler.codegen.choose import by_simulator
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.pipeline import SIMPLIFY, Pipeline
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.network.compile import FLOATS, integers_of
from vdla.compiler.network.stages import parts_of, plan_of_parts
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.module.file import from_bytes, to_bytes

LEAST = 0.2  # seconds of a stage that has an exponent
CALIBRATED = ("float_convs",)
DEVICES = ("functional", "cycle")
Seconds = dict[str, float]


class Stages:
    """The seconds of the stages of a network."""

    def __init__(self) -> None:
        self.seconds: Seconds = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the processor's seconds of what is done within."""
        began = time.process_time()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.process_time() - began

    def passes(self, graph: Graph, pipeline: Pipeline) -> Graph:
        """Run the passes of a pipeline, a stage each."""
        for each in pipeline.passes:
            with self.timed(f"pass {type(each).__name__}"):
                graph = each.run(graph)
        return graph


def measured(kind: str, model: ModelProto) -> Seconds:
    """Return the seconds of each stage of a network, up to the stage that refuses it."""
    stages = Stages()
    try:
        _compile_and_run(stages, model.SerializeToString(), calibrates=kind in CALIBRATED)
    except VdlaError as error:
        click.echo(f"{kind}: refused: {str(error).splitlines()[0][:200]}")
    return stages.seconds


def _compile_and_run(stages: Stages, data: bytes, *, calibrates: bool) -> None:
    target = target_of("default")
    with stages.timed("import"):
        graph = load(data)
    graph = stages.passes(stages.passes(graph, SIMPLIFY), FLOATS)
    inputs = {name: np.zeros(type_.shape, type_.dtype) for name, type_ in graph.inputs.items()}
    with stages.timed("quantise, integers"):
        graph = integers_of(graph, [inputs] if calibrates else None, Options()).graph
    with stages.timed("place"):
        graph, parts = parts_of(graph, target)
    with stages.timed("lower and link"):
        plan = plan_of_parts(graph, parts, target, choose=by_simulator)
    with stages.timed("write module"):
        module = to_bytes(plan)
    with stages.timed("read module"):
        plan = from_bytes(module)
    for device in DEVICES:
        with stages.timed(f"run {device}"):
            Module(plan).run(inputs, device=device)


def show(kind: str, counts: tuple[int, ...], timings: list[Seconds]) -> None:
    """Print a row for each stage that takes time, and a row for their sum."""
    sums = [sum(seconds.values()) for seconds in timings]
    rows = {stage: [seconds.get(stage, 0.0) for seconds in timings] for stage in timings[-1]}
    shown = {stage: row for stage, row in rows.items() if row[-1] >= LEAST}
    for stage, row in {**shown, "all": sums}.items():
        cells = "".join(f"{seconds:10.2f}" for seconds in row)
        click.echo(f"{kind:14} {stage:28}{cells}{exponent(counts, row):>10}")


def exponent(counts: tuple[int, ...], row: list[float]) -> str:
    """Return the exponent of the nodes that seconds follow."""
    if len(row) < 2 or row[-1] < LEAST or row[0] <= 0:
        return ""
    return f"{math.log(row[-1] / row[0]) / math.log(counts[-1] / counts[0]):.2f}"


@click.command(help=__doc__)
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="A form; all by default."
)
@click.option("--nodes", default="1000,10000", show_default=True, help="How many nodes, with commas between.")
def main(kinds: tuple[str, ...], nodes: str) -> None:
    counts = tuple(int(count) for count in nodes.split(","))
    if any(smaller >= larger for smaller, larger in pairwise(counts)) or min(counts) < 1:
        raise click.BadParameter(f"{nodes} is not of the form 1000,10000 with growing numbers")
    click.echo(f"{'form':14} {'stage':28}{''.join(f'{count:10}' for count in counts)}  exponent")

    measured("convs", KINDS["convs"](100))  # machine code is compiled before anything is measured
    for kind in kinds or tuple(KINDS):
        show(kind, counts, [measured(kind, KINDS[kind](count)) for count in counts])


if __name__ == "__main__":
    main()
