#!/usr/bin/env python3
"""Derive schedules from tensor expressions, and compare them with those written by hand and with NumPy.

Operators that have a schedule by hand are measured on the configuration `default`: the best of so many points
of the derived space beside the choice that the compiler makes by default. Operators that have none run on
`tiny`: on the functional device in several orders, on the cycle simulator and on the RTL. Exit status 1 if a
result differs from NumPy's, if cycles of simulator and RTL differ, or if C7 takes over 10 % more cycles than
by hand.
"""

import sys
from collections.abc import Iterator

import click
import numpy as np
from generators.expressions import EXPRESSIONS, Expression, sum_of_squares
from on_devices import devices_of, differences

from vdla.compiler.codegen.choose import by_simulator, simulated_cycles
from vdla.compiler.codegen.derived.derive import Derived, derive
from vdla.compiler.codegen.derived.trial import bytes_of
from vdla.compiler.codegen.space import Space, space_of
from vdla.compiler.codegen.tasks import ConvolutionTask, Elements, ElementsTask, PoolingTask, Task
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.elementwise import add
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.pooling import max_pool
from vdla.compiler.te.operators.sizes import Convolution, Pooling, matrix_product
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.device import Device
from vdla.runtime.session.launch import place

C7 = Convolution(128, 28, 28, 256, (3, 3), (2, 2), (1, 1, 1, 1))
ALLOWED = 1.10  # cycles of C7, derived, over those by hand
DRAM_BYTES = 1 << 22


def by_hand() -> Iterator[tuple[str, Task, Tensor]]:
    """Yield operators that have a schedule: name, task and expression."""
    product, pooling, elements = (
        matrix_product(197, 768, 192, DEFAULT),
        Pooling(64, 56, 56, (3, 3), (2, 2), (1, 1, 1, 1)),
        56 * 56,
    )
    yield "C7", ConvolutionTask(C7), conv2d(C7, DEFAULT, Scale()).out
    yield "matrix product 197x192x768", ConvolutionTask(product), conv2d(product, DEFAULT, Scale()).out
    yield "max pooling 64x56x56", PoolingTask(pooling), max_pool(pooling, DEFAULT).out
    summed = add((1, elements), DEFAULT, Scale(by_channel=False))
    yield "sum of two 16x56x56", ElementsTask(Elements.ADD, elements, (1, 1)), summed.out


def run(device: Device, derived: Derived, case: Expression) -> tuple[int | None, np.ndarray]:
    """Return the cycles of a derived operator on a device, and its result."""
    launch = place(device, derived.stream, derived.sizes)
    for name, values in case.given.items():
        launch.write(name, values)
    cycles = launch.run().cycles
    return cycles, launch.read(case.output.name, case.output.shape, np.int8)


def failures(case: Expression, derived: Derived, *, on_rtl: bool) -> tuple[list[str], dict[str, int | None]]:
    """Return what is wrong with a derived operator, and its cycles by device."""
    devices = devices_of(derived.target.config, DRAM_BYTES, on_rtl=on_rtl)
    return differences(devices, lambda device: run(device, derived, case), case.expected)


def compare(trials: int) -> bool:
    """Print derived schedules beside those by hand; return whether C7 is as fast as it must be."""
    target, fast = Target(DEFAULT), True
    for name, task, output in by_hand():
        space = space_of(task, target)
        assert isinstance(space, Space), f"{name} fits"
        hand = simulated_cycles(task, by_simulator(space), target)
        (found,) = derive(output, target, trials=trials).found
        click.echo(
            f"{name}: by hand {hand}, derived {found.cycles} ({found.cycles / hand:.3f}), best of "
            f"{found.trials} of {len(found.points)} points, {sum(found.illegal.values())} illegal\n"
            f"  {found.point}"
        )
        fast &= name != "C7" or found.cycles <= ALLOWED * hand
    return fast


def bound(derived: Derived) -> int:
    """Return the least cycles of a derived operator: its slots, or what must move once."""
    config, total = derived.target.config, 0
    for one in derived.found:
        buffers = [tensor.buffer for tensor in one.points.kernel.placeholders]
        moved = sum(bytes_of(buffer) for buffer in (*buffers, one.points.kernel.output.buffer))
        beats = moved // config.bus_bytes * derived.target.memory.cycles_per_beat
        total += max(beats, int(one.points.work.steps.min()))
    return total


@click.command(help=__doc__)
@click.option("--trials", default=200, show_default=True, help="Points of each kernel that are measured.")
@click.option("--rtl/--no-rtl", default=True, show_default=True, help="Run new operators on the RTL, too.")
def main(trials: int, rtl: bool) -> None:
    fast, wrong = compare(trials), 0
    large = derive(sum_of_squares(DEFAULT, 0, 256, 196).output, Target(DEFAULT), trials=trials)
    (found,) = large.found
    click.echo(
        f"sum of squares over 256 channels of 56x56, default: {found.cycles} cycles, at least "
        f"{bound(large)}\n  {found.point}"
    )
    for name, make in EXPRESSIONS.items():
        case = make(TINY)
        derived = derive(case.output, Target(TINY), trials=trials)
        lines, cycles = failures(case, derived, on_rtl=rtl)
        wrong += bool(lines)
        shown = ", ".join(f"{device} {count}" for device, count in cycles.items() if count is not None)
        click.echo(
            f"{name}, tiny: {len(derived.found)} kernels, cycles: {shown}, {'; '.join(lines) or 'exact'}"
        )
    sys.exit(1 if wrong or not fast else 0)


if __name__ == "__main__":
    main()
