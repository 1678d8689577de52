#!/usr/bin/env python3
"""A tour: Verilog, programs of VTA's runtime, and a trained network that reads handwritten digits.

The network is quantised, compiled and run on the cycle simulator. Exit status 1 if a check fails: the int8
accuracy must be at least 95 %, and at most one point below the accuracy in float.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import numpy as np
from digit_text import bars, beside, drawn

import vdla
from vdla.api import Module
from vdla.cli._networks import status
from vdla.cli._options import needs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.onnx.load import load
from vdla.hw.spec.children import python_command
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.runtime.devices.registry import device_factory
from vdla.runtime.session.report import LayerReport, Report
from vdla.runtime.session.session import Outcome, Session
from vdla.runtime.vectors import load_vector, replay
from vdla.sim.trace.perfetto import write_perfetto

ROOT = Path(__file__).parent.parent
BUILD, EXAMPLE = ROOT / "build" / "demo", ROOT / "examples" / "digits"
sys.path.append(str(EXAMPLE))
from samples import Samples, split  # noqa: E402

MODEL = EXAMPLE / "digits.onnx"
CALIBRATION = 128  # training samples that calibrate the scales
LEAST_ACCURACY, GREATEST_LOSS = 0.95, 0.01
CLOCK_HZ = 100e6


def generate(config: AcceleratorConfig) -> None:
    """Write Verilog of the AXI top, as `vdla verilog` does."""
    click.echo(f"1. Verilog of the accelerator {config.name}: {config.macs_per_cycle} multipliers behind AXI")
    subprocess.run(
        [*python_command("vdla"), "verilog", "--config", config.name, "--top", "axi", "-o", str(BUILD)],
        check=True,
    )


def conform() -> None:
    """Replay the conformance vectors on the functional device."""
    vectors = [load_vector(path) for path in sorted((ROOT / "tests" / "vectors" / "vta").glob("*.npz"))]
    matching = sum(replay(vector, device_factory("functional")).conforms for vector in vectors)
    click.echo(
        f"2. Programs made by VTA's own runtime: {matching} of {len(vectors)} give VTA's DRAM, byte for byte"
    )
    if matching != len(vectors):
        sys.exit(1)


def compiled(config: AcceleratorConfig, training: Samples) -> Module:
    """Return the network in int8, its scales calibrated on training samples."""
    with status() as say:
        return vdla.compile(
            MODEL,
            config,
            samples=[{"image": image[None]} for image in training.images[:CALIBRATION]],
            progress=say,
        )


def float_scores(images: Iterable[np.ndarray]) -> np.ndarray:
    """Return float32[n, 10]: the network as it was trained, on the CPU."""
    graph = load(MODEL)
    return np.concatenate([interpret(graph, {"image": image[None]})["scores"] for image in images])


def device_scores(module: Module, images: np.ndarray) -> np.ndarray:
    """Return float32[n, 10]: every image a run on the cycle device."""
    session = module.session("cycle")
    with click.progressbar(
        images, label=f"   {len(images)} digits on the cycle device", file=sys.stderr
    ) as shown:
        return np.concatenate([session.run({"image": image[None]}).outputs["scores"] for image in shown])


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of images whose digit has the highest score."""
    return float(np.mean(scores.argmax(1) == labels))


def shortfall(exact: float, quantised: float) -> str:
    """Return what is wrong with an accuracy of int8 beside float's; "" where nothing is."""
    if quantised < LEAST_ACCURACY:
        return f"int8 is right on {quantised:.2%} of the digits; at least {LEAST_ACCURACY:.0%} was expected"
    if round(exact - quantised, 9) > GREATEST_LOSS:
        return (
            f"int8 is right on {quantised:.2%} of the digits and float on {exact:.2%}; at most "
            f"{GREATEST_LOSS * 100:g} point less was expected"
        )
    return ""


def layer_lines(report: Report) -> list[str]:
    """Return a table of where a run's cycles went; what costs the accelerator nothing is left out."""
    lines = [f"{'layer':12} {'operator':18} {'cycles':>8} {'us':>8} {'of multipliers':>15}"]
    return [
        *lines,
        *(_line(layer) for layer in report.layers if layer.cycles != 0),
        f"{'all':31} {report.cycles:8,} {_microseconds(report.cycles):8.2f} {report.utilisation:15.1%}",
    ]


def _line(layer: LayerReport) -> str:
    figures = (
        f"{'host':>8}"
        if layer.cycles is None
        else f"{layer.cycles:8,} {_microseconds(layer.cycles):8.2f} {layer.utilisation:15.1%}"
    )
    return f"{layer.name:12} {layer.op:18} {figures}"


def _microseconds(cycles: int) -> float:
    return cycles / CLOCK_HZ * 1e6


def confirm(module: Module, image: np.ndarray, expected: Outcome) -> None:
    """Run a digit on the RTL: the same scores in the same cycles, or exit; where there are no tools for it,
    say so."""
    click.echo("   the same digit on the RTL (Verilog is compiled for half a minute, once)")
    try:
        device = device_factory("rtl")(module.plan.config, module.plan.dram_bytes, optimise="build")
    except ToolError as error:
        click.echo(f"   skipped: {error}")
        return
    outcome = Session(device, module.plan).run({"image": image})
    if outcome.cycles != expected.cycles or not np.array_equal(
        outcome.outputs["scores"], expected.outputs["scores"]
    ):
        sys.exit(f"the RTL differs: {outcome.cycles} cycles, not {expected.cycles}, or other scores")
    click.echo(f"   {outcome.cycles:,} cycles on the RTL too, and the same scores")


def recognise(config: AcceleratorConfig) -> None:
    """Compile the network for digits, run it on every test digit, and show a digit with its scores."""
    training, test = split()
    click.echo(
        f"3. Handwritten digits: a trained network, quantised by {CALIBRATION} training samples and "
        f"compiled for {config.name}"
    )
    module = compiled(config, training)
    scores = device_scores(module, test.images)
    exact, quantised = accuracy(float_scores(test.images), test.labels), accuracy(scores, test.labels)
    click.echo(
        f"   {len(test)} digits it has never seen: {quantised:.2%} right in int8 on the accelerator, "
        f"{exact:.2%} in float on the CPU"
    )
    if problem := shortfall(exact, quantised):
        sys.exit(problem)
    outcome = account(module, training, test.images[:1])
    confirm(module, test.images[:1], outcome)
    write_views(outcome)
    click.echo(f"   the network says {scores[0].argmax()}, and {test.labels[0]} is right:")
    click.echo(indented(beside(drawn(test.images[0, 0]), bars(scores[0]))))


def account(module: Module, training: Samples, image: np.ndarray) -> Outcome:
    """Print what a digit costs, layer by layer, and in all on larger accelerators; return its run."""
    run = module.run({"image": image}, "cycle", clock_hz=CLOCK_HZ)
    click.echo(f"   one digit, at {CLOCK_HZ / 1e6:g} MHz:\n{indented(layer_lines(run.report))}")
    for config in (SMALL, DEFAULT):
        cycles = compiled(config, training).run({"image": image}, "cycle").report.cycles
        click.echo(f"   compiled for {config.name}, {config.macs_per_cycle} multipliers: {cycles:,} cycles")
    return run.outcome


def write_views(outcome: Outcome) -> None:
    """Write a timeline of a run's first launch, and a picture of it."""
    from vdla.sim.plots.files import save
    from vdla.sim.plots.timeline import timeline

    timing = outcome.launches[0].timing
    write_perfetto(timing, BUILD / "digit.json", REFERENCE_MEMORY)
    save(timeline(timing), BUILD / "digit.png")
    folder = BUILD.relative_to(ROOT)
    click.echo(
        f"   what each unit did, and who waited for whom: {folder / 'digit.png'}, or "
        f"{folder / 'digit.json'} in ui.perfetto.dev"
    )


def indented(lines: Iterable[str]) -> str:
    """Return lines as text, set in."""
    return "\n".join(f"   {line}" for line in lines)


@click.command(help=__doc__)
@needs("the demonstration", "matplotlib", "sklearn")
def main() -> None:
    generate(TINY)
    conform()
    recognise(TINY)
    click.echo("Next: vdla --help, docs/networks.md, make test.")


if __name__ == "__main__":
    main()
