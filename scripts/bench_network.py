#!/usr/bin/env python3
"""Measure ResNet-18 in int8 on one core, beside onnxruntime with one thread: on the same file, and on the
form that it computes fastest, uint8 activations and int8 weights per channel.

Every round runs all devices in turn, and the best processor time of each counts: everything has one thread,
and other processes do not disturb it. The cycle device is measured alone,
and as `vdla run` uses it, with a log and a report of every layer. "timing alone" is the cycle simulator on
the decoded streams. A small network is compiled first, so that the kit's native code, which takes ten
seconds after installation, is not counted. The model is written first if it is missing. Exit status 1 if a
requirement is missed.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"  # read when NumPy is imported

import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator, Mapping  # noqa: E402
from dataclasses import asdict, dataclass  # noqa: E402
from pathlib import Path  # noqa: E402

import click  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from bench_functional import pin_to_one_core  # noqa: E402
from make_models import quantised_model, unsigned_model  # noqa: E402
from models.run import run, session_of  # noqa: E402

from vdla.api import Module  # noqa: E402
from vdla.cli._options import needs  # noqa: E402
from vdla.compiler.graph.interpret import interpret  # noqa: E402
from vdla.compiler.network.compile import Compiled, compile_network  # noqa: E402
from vdla.hw.spec.memory import REFERENCE_MEMORY  # noqa: E402
from vdla.hw.spec.presets import DEFAULT  # noqa: E402
from vdla.hw.spec.target import Target  # noqa: E402
from vdla.runtime.devices.registry import device_factory  # noqa: E402
from vdla.runtime.module.plan import Plan, random_inputs  # noqa: E402
from vdla.runtime.session.session import Outcome, Session  # noqa: E402
from vdla.sim.timing.simulate import simulate  # noqa: E402

MODELS = Path(__file__).parent.parent / "build" / "models"
NETWORK = "resnet18"
WARM_UP = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
CYCLES_ALLOWED, HOST_NODES_ALLOWED, COMPILE_SECONDS_ALLOWED = 9_000_000, 2, 20.0
RATIO_ALLOWED, TIMING_RATIO_ALLOWED = 20.0, 5.0  # of onnxruntime's time on the same file
BASE, FASTEST, FUNCTIONAL, CYCLE, REPORTED, TIMING = (
    "onnxruntime int8",
    "onnxruntime uint8",
    "functional device",
    "cycle device",
    "cycle device, by layers",
    "timing alone",
)
Tensors = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Figures:
    """Figures of a network.

    Attributes:
        seconds: of the best run, by what ran.
        equal: the devices' outputs equal the interpreter's outputs, bit by bit.
        same_answer: onnxruntime gives the greatest value the same place in every output.
    """

    compile_seconds: float
    cycles: int
    utilisation: float
    host_nodes: tuple[str, ...]
    seconds: Mapping[str, float]
    equal: bool
    same_answer: bool

    def ratio(self, name: str, base: str = BASE) -> float:
        """Return the time of something in terms of onnxruntime's, in one of its forms."""
        return self.seconds[name] / self.seconds[base]


def best(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least processor time of each work, in seconds; they run in turn, and the first round does
    not count."""
    round_times = [{name: _seconds(work) for name, work in works.items()} for _ in range(rounds + 1)][1:]
    return {name: min(times[name] for times in round_times) for name in works}


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(path: Path, rounds: int) -> Figures:
    """Compile the model and measure it."""
    warm_up()
    began = time.perf_counter()
    compiled = compile_network(path, Target(DEFAULT))
    compile_seconds = time.perf_counter() - began
    plan, module = compiled.plan, Module(compiled.plan)
    reference = session_of(onnx.load(path), exact=False)  # exact sums may take longer
    fastest = session_of(unsigned_model(NETWORK, MODELS), exact=False)
    inputs = random_inputs(plan.inputs)
    sessions = {
        name: Session(device_factory(device)(plan.config, plan.dram_bytes), plan)
        for name, device in ((FUNCTIONAL, "functional"), (CYCLE, "cycle"))
    }
    outcomes = [session.run(inputs) for session in sessions.values()]
    works = {
        BASE: lambda: run(reference, inputs),
        FASTEST: lambda: run(fastest, inputs),
        FUNCTIONAL: lambda: sessions[FUNCTIONAL].run(inputs),
        CYCLE: lambda: sessions[CYCLE].run(inputs),
        REPORTED: lambda: module.run(inputs, "cycle"),
        TIMING: _timing_alone(outcomes[-1]),
    }
    seconds = best(works, rounds)
    report = module.run(inputs, "cycle").report
    return Figures(
        compile_seconds,
        report.cycles,
        report.utilisation,
        _host_nodes(plan),
        seconds,
        _equal(compiled, inputs, outcomes),
        _same_answer(run(reference, inputs), outcomes[0].outputs),
    )


def warm_up() -> None:
    """Compile a small network, so that the compiler's native code is there."""
    random = np.random.default_rng(0)
    compile_network(WARM_UP, Target(DEFAULT), samples=[{"image": random.random((1, 1, 8, 8), np.float32)}])


def _timing_alone(outcome: Outcome) -> Callable[[], object]:
    """Return what simulates every launch, decoded already."""
    launches = [(ran.launch.program(), ran.launch.stream_address) for ran in outcome.launches]
    return lambda: [
        simulate(program, REFERENCE_MEMORY, stream_address=address) for program, address in launches
    ]


def _host_nodes(plan: Plan) -> tuple[str, ...]:
    return tuple(step.op for step in plan.host_steps)


def _equal(compiled: Compiled, inputs: Tensors, outcomes: list[Outcome]) -> bool:
    expected = interpret(compiled.graph, inputs)
    return all(
        np.array_equal(outcome.outputs[name], values)
        for outcome in outcomes
        for name, values in expected.items()
    )


def _same_answer(expected: Tensors, actual: Tensors) -> bool:
    return all(actual[name].argmax() == values.argmax() for name, values in expected.items())


def judge(figures: Figures) -> dict[str, bool]:
    """Return whether each requirement is met."""
    limits = ((CYCLE, RATIO_ALLOWED), (REPORTED, RATIO_ALLOWED), (TIMING, TIMING_RATIO_ALLOWED))
    return {
        "outputs of both devices equal the interpreter's, and onnxruntime's answer is the same": figures.equal
        and figures.same_answer,
        f"at most {CYCLES_ALLOWED / 1e6:.1f} M cycles": figures.cycles <= CYCLES_ALLOWED,
        f"at most {HOST_NODES_ALLOWED} nodes on the host": len(figures.host_nodes) <= HOST_NODES_ALLOWED,
        f"compiled within {COMPILE_SECONDS_ALLOWED:g} s": figures.compile_seconds <= COMPILE_SECONDS_ALLOWED,
        **{
            f"{name} at most {allowed:g} times {BASE}": figures.ratio(name) <= allowed
            for name, allowed in limits
        },
    }


def table(figures: Figures) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{'':24} {'ms':>9} {'x int8':>7} {'x uint8':>8} {'M cycles/s':>11}"
    for name, seconds in figures.seconds.items():
        rate = (
            f"{figures.cycles / seconds / 1e6:11.1f}" if name in (CYCLE, REPORTED, TIMING) else f"{'-':>11}"
        )
        ratios = f"{figures.ratio(name):7.2f} {figures.ratio(name, FASTEST):8.2f}"
        yield f"{name:24} {seconds * 1e3:9.2f} {ratios} {rate}"
    yield f"\n{figures.cycles:,} cycles, {figures.utilisation:.1%} of the multipliers"
    yield f"{len(figures.host_nodes)} nodes on the host: {', '.join(figures.host_nodes)}"
    yield f"compiled in {figures.compile_seconds:.1f} s\n"
    yield from (f"{'ok   ' if met else 'SHORT'} {text}" for text, met in judge(figures).items())


@click.command(help=__doc__)
@click.option(
    "--rounds", default=9, show_default=True, type=click.IntRange(1), help="Runs of each that count."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@needs("measuring a network", "onnxruntime")
def main(rounds: int, as_json: bool) -> None:
    pin_to_one_core()
    path = quantised_model(NETWORK, MODELS)
    figures = measure(path, rounds)
    verdict = judge(figures)
    click.echo(
        json.dumps(asdict(figures) | {"met": verdict}, indent=1)
        if as_json
        else "\n".join([path.name, *table(figures)])
    )
    sys.exit(0 if all(verdict.values()) else 1)


if __name__ == "__main__":
    main()
