#!/usr/bin/env python3
"""A matrix product, scheduled step by step for a small accelerator and run on its cycle simulator.

The tensors are blocked: the last two dimensions are one element of an on-chip memory.

Source: the program of TVM's figure 5 (OSDI 2018).
"""

from collections.abc import Iterator

import numpy as np

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.stream import compile_stream, lower_to_calls
from vdla.compiler.ir.nodes import cast
from vdla.compiler.ir.text import print_calls, print_func
from vdla.compiler.te.schedule import Schedule, create_schedule
from vdla.compiler.te.tensor import Tensor, compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.presets import SMALL
from vdla.runtime.device import Device
from vdla.runtime.session.launch import place

CONFIG = SMALL
SIZE, BLOCK = 128, CONFIG.block_in
BLOCKS = SIZE // BLOCK


def state() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return A, B, the sums S and the result C, with C[y, x] = int8(sum over k of A[y, k] * B[x, k])."""
    left, right = (
        placeholder((SIZE, BLOCKS, 1, BLOCK), "A", "int8"),
        placeholder((BLOCKS, BLOCKS, BLOCK, BLOCK), "B", "int8"),
    )
    ko, ki = reduce_axis(BLOCKS, "ko"), reduce_axis(BLOCK, "ki")
    total = compute(
        (SIZE, BLOCKS, 1, BLOCK),
        lambda y, x, b, j: sum_over(
            cast("int32", left[y, ko, b, ki]) * cast("int32", right[x, ko, j, ki]), (ko, ki)
        ),
        "S",
    )
    return left, right, total, compute(total.shape, lambda y, x, b, j: cast("int8", total[y, x, b, j]), "C")


def steps() -> Iterator[tuple[str, Schedule]]:
    """Yield what each step does, and the schedule after it."""
    left, right, total, result = state()
    schedule = create_schedule(result)
    yield "Without a schedule: each stage computes its whole tensor.", schedule
    y, x, b, j = schedule[result].axis
    yo, xo, yi, xi = schedule[result].tile(y, x, 32, 8)
    schedule[result].reorder(yo, xo, yi, xi, b, j)
    schedule[total].set_scope("accumulator")
    schedule[total].compute_at(result, xo)
    yield "Tiled: each tile of C is accumulated on chip.", schedule
    inputs, weights = (
        schedule.cache_read(left, "input", [total], "AL"),
        schedule.cache_read(right, "weight", [total], "BL"),
    )
    (y, x, b, j), (k, ki) = schedule[total].axis, schedule[total].reduce_axis
    ko, kk = schedule[total].split(k, 4)
    schedule[total].reorder(ko, y, x, kk, b, j, ki)
    for cache in (inputs, weights):
        schedule[cache].compute_at(total, ko)
    yield "Operands cached in scratchpads, one chunk of the reduction at a time.", schedule
    intrinsics = accelerator(CONFIG)
    for tensor, intrinsic in (
        (inputs, intrinsics.load_inp),
        (weights, intrinsics.load_wgt),
        (total, intrinsics.gemm),
        (result, intrinsics.store),
    ):
        schedule[tensor].tensorize(schedule[tensor].axis[2], intrinsic)
    yield "Tensorized: loop nests replaced by the accelerator's instructions.", schedule


def pages() -> Iterator[tuple[str, str]]:
    """Yield a title and the program's text after each step."""
    for number, (title, schedule) in enumerate(steps()):
        func = schedule.lower("matrix_multiply")
        yield title, print_calls(func) if number == 3 else print_func(func)
    yield (
        "After the passes before emission: the first product overwrites the accumulators.",
        print_calls(lower_to_calls(func, CONFIG)),
    )


def run(device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Return the product of two random matrices, int8[m, n], computed on `device`, and by NumPy."""
    rng = np.random.default_rng(0)
    left, right = rng.integers(-8, 8, (SIZE, SIZE), np.int8), rng.integers(-8, 8, (SIZE, SIZE), np.int8)
    *_, (_, schedule) = steps()
    launch = place(
        device, compile_stream(schedule.lower("matrix_multiply"), CONFIG), dict.fromkeys("ABC", SIZE * SIZE)
    )
    launch.write("A", left)
    launch.write("B", right.reshape(BLOCKS, BLOCK, BLOCKS, BLOCK).swapaxes(1, 2))
    launch.run()
    return launch.read("C", (SIZE, SIZE), np.int8), (left.astype(np.int32) @ right.astype(np.int32).T).astype(
        np.int8
    )


if __name__ == "__main__":
    from vdla.runtime.devices.cycle import CycleDevice

    for heading, text in pages():
        print(f"# {heading}\n{text}")
    np.testing.assert_array_equal(*run(CycleDevice(CONFIG)))
    print("The cycle device's result equals NumPy's.")
