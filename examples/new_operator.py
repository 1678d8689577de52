#!/usr/bin/env python3
"""An operator that the kit does not have, written as a tensor expression only: its schedule is derived.

It computes the sum of squares over channels and divides it by 2^10.
"""

from functools import cache

import click
import numpy as np

from vdla.compiler.codegen.derived.derive import Derived, derive
from vdla.compiler.ir.nodes import cast, maximum, minimum
from vdla.compiler.te.tensor import Tensor, compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.session.launch import place

CONFIG = TINY
CHANNELS, PIXELS, LANES = 24, 20, CONFIG.block_out
TRIALS = 40


def energy() -> Tensor:
    """Return the expression: int8[20, 1, 4] of int8[24, 20, 1, 4], a channel at a time."""
    image, c = placeholder((CHANNELS, PIXELS, 1, LANES), "X", "int8"), reduce_axis(CHANNELS, "c")
    total = compute(
        (PIXELS, 1, LANES),
        lambda p, b, j: sum_over(cast("int32", image[c, p, b, j]) * cast("int32", image[c, p, b, j]), c),
        "S",
    )
    return compute(
        total.shape, lambda p, b, j: cast("int8", minimum(maximum(total[p, b, j] >> 10, 0), 127)), "Z"
    )


@cache
def derived() -> Derived:
    """Return the best of some points of its space."""
    return derive(energy(), Target(CONFIG), trials=TRIALS)


def run(device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Return the result on a device, and what NumPy computes."""
    image = np.random.default_rng(0).integers(-128, 128, (CHANNELS, PIXELS, 1, LANES), np.int8)
    operator = derived()
    launch = place(device, operator.stream, operator.sizes)
    launch.write("X", image)
    launch.run()
    expected = np.clip((image.astype(np.int64) ** 2).sum(0) >> 10, 0, 127).astype(np.int8)
    return launch.read("Z", expected.shape, np.int8), expected


def main() -> None:
    (found,) = derived().found
    click.echo(
        f"kernel\n{found.points.kernel}\n\nbest of {found.trials} of {len(found.points)} points, "
        f"{found.cycles} cycles"
    )
    click.echo("\n".join(f"  {name} = {value}" for name, value in found.point.values.items()))
    result, expected = run(CycleDevice(CONFIG, 1 << 20))
    click.echo(f"equal to NumPy: {np.array_equal(result, expected)}")


if __name__ == "__main__":
    main()
