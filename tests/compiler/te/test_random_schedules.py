"""Random sequences of schedule primitives: the scheduled program computes what the plain program computes."""

import random

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.nodes import all_of, cast, maximum, select
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.text import print_func
from vdla.compiler.ir.types import DTYPES
from vdla.compiler.te.schedule import ScheduleError, create_schedule
from vdla.compiler.te.tensor import compute, max_over, placeholder, reduce_axis, sum_over


def convolution():
    image, weight = placeholder((5, 7, 7), "X", "int8"), placeholder((4, 5, 3, 3), "W", "int8")
    padded = compute((5, 9, 9), lambda c, y, x: select(inside(y, x), image[c, y - 1, x - 1], 0), "P")
    c, dy, dx = reduce_axis(5, "ci"), reduce_axis(3, "dy"), reduce_axis(3, "dx")
    out = compute(
        (4, 4, 4),
        lambda o, y, x: sum_over(
            cast("int32", padded[c, y * 2 + dy, x * 2 + dx]) * cast("int32", weight[o, c, dy, dx]),
            (c, dy, dx),
        ),
        "Y",
    )
    return compute((4, 4, 4), lambda o, y, x: cast("int8", maximum(out[o, y, x] >> 5, 0)), "Z")


def inside(y, x):
    return all_of(y >= 1, y < 8, x >= 1, x < 8)


def multiply():
    left, right, k = (
        placeholder((7, 10), "L", "int8"),
        placeholder((9, 10), "R", "int8"),
        reduce_axis(10, "k"),
    )
    return compute(
        (7, 9), lambda y, x: sum_over(cast("int32", left[y, k]) * cast("int32", right[x, k]), k), "Z"
    )


def pooled():
    image, dy, dx = placeholder((9, 9), "X", "int8"), reduce_axis(3, "dy"), reduce_axis(3, "dx")
    return compute((4, 4), lambda y, x: max_over(image[y * 2 + dy, x * 2 + dx], (dy, dx)), "Z")


def scramble(schedule, rng):
    """Apply random primitives; primitives that cannot be applied refuse."""
    for _ in range(rng.randint(2, 14)):
        handle = schedule[rng.choice(schedule.stages).tensor]
        loops = handle.loops
        try:
            match rng.randrange(7):
                case 0 | 1:
                    handle.split(rng.choice(loops), rng.randint(1, 5))
                case 2:
                    place = rng.randrange(len(loops))
                    handle.fuse(*loops[place : place + 2])
                case 3:
                    handle.reorder(*rng.sample(loops, rng.randint(2, len(loops))))
                case 4 | 5:
                    other = rng.choice(schedule.stages)
                    handle.compute_at(other.tensor, rng.choice(other.leaves))
                case 6:
                    handle.compute_inline() if rng.random() < 0.5 else schedule.cache_write(
                        handle._stage.tensor, "accumulator"
                    )
        except (ScheduleError, ValueError, TypeError):
            continue


@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(30, 60))]
)
@pytest.mark.parametrize("build", [convolution, multiply, pooled])
def test_random_schedules_give_the_same_result(build, seed):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    schedule = create_schedule(build())
    plain = schedule.lower()
    scramble(schedule, rng)
    func = schedule.lower()
    assert parse_func(print_func(func)) == func
    inputs = {
        buffer.name: numbers.integers(-100, 100, buffer.shape).astype(DTYPES[buffer.dtype].numpy)
        for buffer in plain.params
    }
    plain_arrays, scheduled_arrays = (
        {name: array.copy() for name, array in inputs.items()} for _ in range(2)
    )
    interpret(plain, plain_arrays)
    interpret(func, scheduled_arrays)
    np.testing.assert_array_equal(scheduled_arrays["Z"], plain_arrays["Z"])
