#!/usr/bin/env python3
"""Two virtual threads, interleaved into one stream whose tokens let loads overlap with computation.

Source: the program of TVM's figure 8 (OSDI 2018).
"""

from collections.abc import Iterator

import numpy as np

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.stream import compile_stream, lower_to_calls
from vdla.compiler.ir.nodes import cast
from vdla.compiler.ir.text import print_calls
from vdla.compiler.te.schedule import Schedule, create_schedule
from vdla.compiler.te.tensor import compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.presets import TINY
from vdla.runtime.device import Device
from vdla.runtime.session.launch import place
from vdla.sim.decoded import decode_stream

CONFIG = TINY
ROWS, CHUNKS, OUTPUTS, BLOCK, THREADS = 16, 4, 8, CONFIG.block_in, 2


def scheduled(threads: int = THREADS) -> Schedule:
    """Return the schedule of a product whose output tiles are divided between virtual threads."""
    left, right = (
        placeholder((ROWS, CHUNKS, 1, BLOCK), "A", "int8"),
        placeholder((OUTPUTS, CHUNKS, BLOCK, BLOCK), "B", "int8"),
    )
    ko, ki = reduce_axis(CHUNKS, "k"), reduce_axis(BLOCK, "ki")
    total = compute(
        (ROWS, OUTPUTS, 1, BLOCK),
        lambda y, x, b, j: sum_over(
            cast("int32", left[y, ko, b, ki]) * cast("int32", right[x, ko, j, ki]), (ko, ki)
        ),
        "S",
    )
    result = compute(total.shape, lambda y, x, b, j: cast("int8", total[y, x, b, j]), "C")
    schedule, intrinsics = create_schedule(result), accelerator(CONFIG)
    y, x, b, j = schedule[result].axis
    thread, x = schedule[result].split(x, OUTPUTS // threads)
    schedule[result].reorder(thread, y, x, b, j)
    schedule[result].vthread(thread)
    schedule[total].set_scope("accumulator")
    schedule[total].compute_at(result, thread)
    inputs, weights = (
        schedule.cache_read(left, "input", [total], "AL"),
        schedule.cache_read(right, "weight", [total], "BL"),
    )
    (y, x, b, j), (k, ki) = schedule[total].axis, schedule[total].reduce_axis
    schedule[total].reorder(k, y, x, b, j, ki)
    for cache in (inputs, weights):
        schedule[cache].compute_at(total, k)
    for tensor, intrinsic in (
        (inputs, intrinsics.load_inp),
        (weights, intrinsics.load_wgt),
        (total, intrinsics.gemm),
        (result, intrinsics.store),
    ):
        schedule[tensor].tensorize(schedule[tensor].axis[2], intrinsic)
    return schedule


def pages() -> Iterator[tuple[str, str]]:
    """Yield a title and a text for each step: the threaded program, interleaved, and as instructions."""
    func = scheduled().lower("threads")
    yield "The program with a virtual thread loop.", print_calls(func)
    yield (
        "Interleaved, with separate buffers for each virtual thread.",
        print_calls(lower_to_calls(func, CONFIG)),
    )
    stream = compile_stream(func, CONFIG)
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), CONFIG)
    yield (
        "The instruction stream, with its tokens.",
        "\n".join(format_instruction(program.instruction(index)) for index in range(len(program))) + "\n",
    )


def run(device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Return the product of two random matrices, int8[m, n], computed on `device`, and by NumPy."""
    rng = np.random.default_rng(0)
    m, n, k = ROWS, OUTPUTS * BLOCK, CHUNKS * BLOCK
    left, right = rng.integers(-8, 8, (m, k), np.int8), rng.integers(-8, 8, (n, k), np.int8)
    launch = place(
        device, compile_stream(scheduled().lower("threads"), CONFIG), {"A": m * k, "B": n * k, "C": m * n}
    )
    launch.write("A", left)
    launch.write("B", right.reshape(OUTPUTS, BLOCK, CHUNKS, BLOCK).swapaxes(1, 2))
    launch.run()
    return launch.read("C", (m, n), np.int8), (left.astype(np.int32) @ right.astype(np.int32).T).astype(
        np.int8
    )


if __name__ == "__main__":
    from vdla.runtime.devices.cycle import CycleDevice

    for heading, text in pages():
        print(f"# {heading}\n{text}")
    np.testing.assert_array_equal(*run(CycleDevice(CONFIG)))
    print("The cycle device's result equals NumPy's.")
