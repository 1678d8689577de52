#!/usr/bin/env python3
"""Compare devices with each other on random programs and random configurations.

Every program runs on the functional device in program order and in random legal interleavings, and on each
requested device. The final DRAM must be the same everywhere. Cycles and every counter must be the same on all
timed devices. Every eighth program stores into its instruction stream or into micro-ops that it loads: every
device must refuse it with the same error and leave DRAM unchanged. Exit status 1 on any difference.
"""

import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import numpy as np
from generators.programs import (
    IMAGE_BYTES,
    Program,
    random_config,
    random_program,
    self_storing_program,
)

from vdla.hw.spec.assembly import format_program
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.writing import write_text
from vdla.runtime.device import Device, RunResult
from vdla.runtime.devices.functional import FunctionalDevice

INTERLEAVINGS = 2
SELF_STORING_EVERY = 8  # programs
DRAM_BYTES = 2 * IMAGE_BYTES
MEMORIES = (
    MemoryParameters(),
    MemoryParameters(1, 1),
    MemoryParameters(7, 2),
    MemoryParameters(200, 64),
    MemoryParameters(1, 64),
    MemoryParameters(31, 5),
    MemoryParameters(64, 16, 3),
    MemoryParameters(9, 4, 2),
)


@dataclass
class Outcome:
    """What one configuration's programs showed."""

    configuration: str
    programs: int = 0
    self_storing: int = 0
    instructions: int = 0
    cycles: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)


def rtl_device(config: AcceleratorConfig, memory: MemoryParameters) -> Device:
    """Return the RTL device, built quickly rather than to run fast."""
    from vdla.runtime.devices.rtl.build import Optimise
    from vdla.runtime.devices.rtl.device import RtlDevice

    return RtlDevice(config, DRAM_BYTES, memory, optimise=Optimise.BUILD)


def cycle_device(config: AcceleratorConfig, memory: MemoryParameters) -> Device:
    """Return the cycle simulator."""
    from vdla.runtime.devices.cycle import CycleDevice

    return CycleDevice(config, DRAM_BYTES, memory)


DEVICES = {"cycle": cycle_device, "rtl": rtl_device}
Named = list[tuple[str, Device]]


def run_configuration(
    config_seed: int, first: int, count: int, devices: tuple[str, ...], save: Path
) -> Outcome:
    """Run `count` programs, seeds from `first` on, on one configuration."""
    config, began = random_config(config_seed), time.perf_counter()
    outcome = Outcome(config.name)
    reference = FunctionalDevice(config, DRAM_BYTES)
    untimed = [
        (f"functional[seed {order}]", FunctionalDevice(config, DRAM_BYTES, seed=order))
        for order in range(INTERLEAVINGS)
    ]
    timed = [
        [(f"{name}[{memory}]", DEVICES[name](config, memory)) for name in devices] for memory in MEMORIES
    ]
    for seed in range(first, first + count):
        held, length = untimed + timed[seed % len(MEMORIES)], random.Random(seed).randint(5, 100)
        if seed % SELF_STORING_EVERY == 0:
            run_self_storing(self_storing_program(config, seed, length), seed, reference, held, outcome, save)
        else:
            run_program(random_program(config, seed, length), seed, reference, held, outcome, save)
    outcome.seconds = time.perf_counter() - began
    return outcome


def run_program(
    program: Program, seed: int, reference: Device, devices: Named, outcome: Outcome, save: Path
) -> None:
    """Hold devices against `reference` on a program, and add what that showed to `outcome`."""
    _, expected = program.run_on(reference)
    measured: list[RunResult] = []
    for name, device in devices:
        difference = compare(program, device, expected, measured)
        if difference:
            outcome.differences.append(report(program, seed, name, difference, save))
    outcome.cycles += sum(result.cycles for result in measured)
    outcome.programs += 1
    outcome.instructions += len(program.instructions)


def run_self_storing(
    program: Program, seed: int, reference: Device, devices: Named, outcome: Outcome, save: Path
) -> None:
    """See every device refuse a program that would change itself, and add what that showed to `outcome`."""
    expected, _ = program.refusal_by(reference)
    for name, device in [("functional", reference), *devices]:
        difference = compare_refusal(program, device, str(expected))
        if difference:
            outcome.differences.append(report(program, seed, name, difference, save))
    outcome.programs += 1
    outcome.self_storing += 1
    outcome.instructions += len(program.instructions)


def compare_refusal(program: Program, device: Device, expected: str) -> str:
    """Run `program` on `device`, which must refuse it in the words `expected`; return what differs."""
    try:
        error, changed = program.refusal_by(device)
    except VdlaError as failure:
        return f"{type(failure).__name__}: {failure}"
    if error is None:
        return "it stores into itself and ran"
    if changed:
        return f"it was refused, but {changed} bytes of DRAM changed"
    return "" if str(error) == expected else f"it was refused with {str(error)!r} instead of {expected!r}"


def compare(program: Program, device: Device, expected: np.ndarray, measured: list[RunResult]) -> str:
    """Run `program` on `device`; return how DRAM, or its time from the times in `measured`, differs, or
    nothing. Append the result there."""
    try:
        result, image = program.run_on(device)
    except VdlaError as error:
        return f"{type(error).__name__}: {error}"
    wrong = np.flatnonzero(image != expected)
    if wrong.size:
        return f"{wrong.size} bytes differ, the first at {wrong[0]:#x}"
    if result.cycles is None:
        return ""
    measured.append(result)
    return compare_time(result, measured[0])


def compare_time(result: RunResult, expected: RunResult) -> str:
    """Return how cycles and counters of two runs differ, or nothing."""
    if result.cycles != expected.cycles:
        return f"{result.cycles} cycles instead of {expected.cycles}"
    wrong = [
        f"{name} = {result.counters[name]} instead of {value}"
        for name, value in expected.counters.items()
        if result.counters[name] != value
    ]
    return "; ".join(wrong)


def report(program: Program, seed: int, name: str, difference: str, save: Path) -> str:
    """Save the failing program as assembly and return one line about it."""
    path = save / f"{program.config.name}_{seed}.asm"
    write_text(path, format_program(program.instructions))
    return f"{program.config.name} seed {seed} on {name}: {difference} ({path})"


def summary(outcomes: list[Outcome]) -> str:
    """Return what was run."""
    programs, instructions, self_storing = (
        sum(getattr(outcome, name) for outcome in outcomes)
        for name in ("programs", "instructions", "self_storing")
    )
    return (
        f"{programs} programs, {instructions} instructions, {self_storing} programs that store into "
        f"themselves, {len(outcomes)} configurations"
    )


@click.command(help=__doc__)
@click.option("--programs", default=2000, show_default=True, help="programs in all")
@click.option("--configurations", default=12, show_default=True)
@click.option("--seed", default=0, show_default=True, help="first configuration seed")
@click.option("--jobs", default=2, show_default=True)
@click.option(
    "--device",
    "devices",
    multiple=True,
    default=("cycle", "rtl"),
    show_default=True,
    type=click.Choice(list(DEVICES)),
)
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    default=Path("build/random_programs"),
    show_default=True,
    help="where failing programs are written",
)
@click.option("--json", "as_json", is_flag=True)
def main(
    programs: int,
    configurations: int,
    seed: int,
    jobs: int,
    devices: tuple[str, ...],
    save: Path,
    as_json: bool,
) -> None:
    each = -(-programs // configurations)
    outcomes = []
    with ProcessPoolExecutor(jobs) as pool:
        futures = [
            pool.submit(
                run_configuration,
                seed + index,
                1000 * index,
                min(each, programs - index * each),
                devices,
                save,
            )
            for index in range(configurations)
        ]
        for future in as_completed(futures):
            outcomes.append(future.result())
            done = outcomes[-1]
            click.echo(
                f"{done.configuration}: {done.programs} programs, {len(done.differences)} differences, "
                f"{done.seconds:.0f} s",
                err=True,
            )
    differences = [line for outcome in outcomes for line in outcome.differences]
    if as_json:
        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    else:
        click.echo(f"{summary(outcomes)}, devices {', '.join(devices)}: {len(differences)} differences")
        click.echo("\n".join(differences[:20]))
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
