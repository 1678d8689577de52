"""``vdla run``."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import numpy as np

from vdla.api import Module, Run
from vdla.cli._devices import BOARD_OPTION, DEVICE, with_board
from vdla.cli._modules import MHZ, inputs_of, module_of, show_notes, step_name
from vdla.cli._networks import Recipe, status, takes_recipe, takes_tuning
from vdla.cli._options import CLOCK, INPUTS, OUTPUT_FILE, overrides_memory, takes_target
from vdla.cli._records import run_values
from vdla.cli._runs import launched, numbered
from vdla.cli._summaries import lists_layers, show_run
from vdla.cli._waves import show_waves, takes_waves
from vdla.compiler.codegen.tuned.best_records import TuningRecords
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.showing import short
from vdla.hw.spec.target import Target
from vdla.hw.spec.writing import check_writable
from vdla.runtime.arrays import write_npy, write_npz
from vdla.runtime.devices.registry import is_board, require_device
from vdla.runtime.devices.rtl.waves import Waves
from vdla.runtime.module.plan import HostStep, LaunchStep, Plan, Value, random_inputs
from vdla.runtime.samples import InputError
from vdla.sim.trace.perfetto import write_perfetto

NPY, NPZ = ".npy", ".npz"


@click.command()
@click.argument(
    "model", metavar="MODEL.vdla|MODEL.onnx", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@INPUTS
@click.option(
    "--output",
    metavar="OUT.npz|OUT.npy",
    type=OUTPUT_FILE,
    help="Where to write the outputs: .npy holds the only output of a network, .npz any number.",
)
@click.option("--device", default="functional", show_default=True, type=DEVICE)
@BOARD_OPTION
@CLOCK
@click.option(
    "--trace", metavar="T.json", type=OUTPUT_FILE, help="Write a timeline for ui.perfetto.dev (device cycle)."
)
@takes_waves
@lists_layers
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every layer.")
@overrides_memory
@takes_recipe
@takes_tuning
@takes_target
def command(
    model: Path,
    inputs: Path | None,
    output: Path | None,
    device: str,
    board: str | None,
    clock: float | None,
    trace: Path | None,
    waves: Waves | None,
    layers: bool,
    as_json: bool,
    recipe: Recipe,
    records: TuningRecords,
    target: Target,
    memory: Callable[[AnyMemory], AnyMemory],
) -> None:
    """Run a network: a module, or an ONNX model, which is compiled first.

    --config, --target, --set, --calibrate, --percentile, --float-layers, --float-share, --quality, --shape,
    --fix, --inputs, --outputs and --tuned apply to models only. A timed device uses the memory and the clock
    of the target that the network was compiled for, unless --latency, --depth, --cycles-per-beat or --clock
    override them. Every stream is verified before it runs.

    Prints a summary: what ran on the accelerator, its cycles beside the time of the host, what crossed
    between both, what cost most, and why operators ran on the host. With --layers also for each layer its
    cycles, multiply-accumulates, bytes, and what bounded it.
    """
    device = _checked_device(device, board, output, trace, waves)
    given = inputs_of(inputs, recipe)
    module = module_of(model, target, recipe, records)
    _check_output(module, output)
    chosen, clock_hz = memory(module.plan.target.memory), clock and clock * MHZ
    _check_memory(device, chosen, module.plan.target.memory)
    samples = _random(module.inputs) if given is None else given
    with status() as say:
        steps = _steps(say)
        done = module.run(samples, device, clock_hz=clock_hz, memory=chosen, waves=waves, progress=steps)
    _write(module.plan, done, output, trace, waves)
    _show(module.plan, done, layers, as_json)


def _checked_device(
    device: str, board: str | None, output: Path | None, trace: Path | None, waves: Waves | None
) -> str:
    """Return the device of a run; refuse files that it does not write, or that cannot be written."""
    if trace is not None and device != "cycle":
        raise click.UsageError("--trace needs --device cycle")
    device = with_board(device, board)
    _check_ending(output)
    check_writable(output, trace, waves.path if waves else None)
    require_device(device)
    return device


def _check_ending(output: Path | None) -> None:
    """Refuse a file for the outputs with the ending of another format."""
    if output is not None and output.suffix not in ("", NPY, NPZ):
        raise InputError(
            f"{output} has the ending {output.suffix}; outputs are written as {NPZ} or {NPY}: name a file "
            "with one of these endings"
        )


def _check_memory(device: str, chosen: AnyMemory, known: AnyMemory) -> None:
    """Refuse another memory for a board."""
    if is_board(device) and chosen != known:
        raise click.UsageError(
            "--latency, --depth and --cycles-per-beat choose the memory of a simulated device; a board has "
            "its DRAM: leave them out"
        )


def _check_output(module: Module, output: Path | None) -> None:
    """Refuse an .npy file for several outputs."""
    if output is not None and output.suffix == NPY and len(module.outputs) != 1:
        raise InputError(
            f"{output}: an .npy file holds one array, and the network makes {', '.join(module.outputs)}; "
            "name an .npz file"
        )


def _steps(say: Callable[[str], None]) -> Callable[[HostStep | LaunchStep], None]:
    """Return what shows each step of a run."""
    return lambda step: say(step_name(step))


def _show(plan: Plan, done: Run, layers: bool, as_json: bool) -> None:
    """Print the notes and the report of a run."""
    show_notes(done)
    if as_json:
        click.echo(json.dumps(run_values(plan, done.report, done.summary, done.memory), indent=1))
    else:
        show_run(done, layers)


def _write(plan: Plan, done: Run, output: Path | None, trace: Path | None, waves: Waves | None) -> None:
    """Write the files that were asked for."""
    if output is not None and output.suffix == NPY:
        write_npy(output, *done.outputs.values())
    elif output is not None:
        write_npz(output, done.outputs)
    if output is not None:
        click.echo(f"{output}: holds {short(', '.join(done.outputs))}", err=True)
    if trace is not None:
        _write_traces(plan, done, trace)
    if waves is not None:
        show_waves(waves, done.waveforms)


def _random(inputs: Mapping[str, Value]) -> dict[str, np.ndarray]:
    """Return random inputs, and print that they are random."""
    click.echo("no --input given: running on random numbers", err=True)
    return random_inputs(inputs)


def _write_traces(plan: Plan, done: Run, path: Path) -> None:
    """Write one timeline per launch."""
    runs = launched(plan, done.outcome, done.report, plan.name, done.memory)
    for file, run in numbered(path, runs):
        write_perfetto(run.timing, file, run.memory, run.layers)
        click.echo(f"{file}: open it in https://ui.perfetto.dev", err=True)
