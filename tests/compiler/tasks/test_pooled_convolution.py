"""A convolution with the max pooling of its result: exactly the maxima of the results, in few cycles."""

import numpy as np
import pytest
from generators.expected import convolved, greatest
from generators.making import Case

from tests.loading import load_file
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.network.packed_inputs import best_packed
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.pooled_convolution import Grouped, PooledTask, pools_sums
from vdla.compiler.tasks.pooling import MaximumTask
from vdla.compiler.te.operators.convolution import blocked_weights
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution, Pooling
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.layout import blocked
from vdla.runtime.requantise import parameter_words, requantise

STEM = ConvolutionTask(Convolution(3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3)))
STEM_POOLING = Pooling(64, 112, 112, (3, 3), (2, 2), (1, 1, 1, 1))


@pytest.fixture(scope="module")
def campaign():
    return load_file("scripts/random_operators.py")


def fused(
    channels: int, side: tuple[int, int], outputs: int, kernel, stride=(1, 1), pads=(0, 0, 0, 0), batch=1
):
    """Return the task of a 3x3 convolution with padding, and a pooling of its result."""
    size = Convolution(channels, *side, outputs, (3, 3), (1, 1), (1, 1, 1, 1), batch=batch)
    return PooledTask(ConvolutionTask(size), Pooling(outputs, *side, kernel, stride, pads, batch))


CASES = {
    "windows that share a row and a column": fused(3, (12, 10), 6, (3, 3), (2, 2), (1, 1, 1, 1)),
    "windows apart": fused(5, (8, 8), 4, (2, 2), (2, 2)),
    "a row before the first group": fused(3, (9, 9), 6, (3, 3), (2, 2)),
    "padding below and to the right": fused(3, (8, 8), 6, (3, 3), (2, 2), (0, 0, 1, 1)),
    "an odd number of rows": fused(2, (11, 7), 4, (3, 2), (2, 2), (1, 0, 1, 1), batch=2),
    "several shared rows": fused(2, (14, 11), 4, (5, 4), (3, 3), (2, 1, 2, 2)),
    "rows that no window holds": fused(2, (11, 10), 4, (2, 1), (3, 2)),
    "one row": fused(4, (1, 24), 9, (1, 4), (1, 4)),
}


def case_of(task: PooledTask, choice: Choice, config: AcceleratorConfig) -> Case:
    """Return a task on random data, with what NumPy makes of it."""
    rng, size = np.random.default_rng(5), task.convolution.size
    image = rng.integers(-128, 128, (size.batch, size.channels, size.height, size.width), np.int8)
    weights = rng.integers(-128, 128, (size.outputs, size.channels, *size.kernel), np.int8)
    words = parameter_words(
        rng.integers(-3000, 3000, size.outputs),
        rng.integers(1 << 14, 1 << 16, size.outputs),
        rng.integers(23, 26, size.outputs),
        rng.integers(-20, 20, size.outputs),
    )
    results = requantise(convolved(image, weights, size), words[:, :, None, None], config.acc_bits)
    assert len(np.unique(results)) > 100
    given = {
        "X": blocked(image, config.block_in, config.batch),
        "W": blocked_weights(weights, size, config),
        "P": blocked_parameters(words, config),
    }
    return Case(str(task), config, task.program(choice, config), given, greatest(results, task.pooling))


@pytest.mark.parametrize("name", CASES)
def test_the_greatest_sums_of_windows_give_the_greatest_results(campaign, name):
    task, config = CASES[name], TINY.with_changes(block_in=8)
    assert pools_sums(task.convolution, task.pooling, config)
    for threads in (1, 2, 3):
        if task.tile(config, threads) is not None:
            assert campaign.failures(case_of(task, Choice(threads), config), on_rtl=False) == []


def test_the_rtl_takes_the_same_cycles(campaign):
    task = CASES["windows that share a row and a column"]
    assert campaign.failures(case_of(task, Choice(2), TINY), on_rtl=True) == []


@pytest.mark.parametrize("name", CASES)
def test_a_window_holds_lines_of_two_groups(name):
    task = CASES[name]
    for axis in (task.rows, task.columns):
        for window in range(axis.windows):
            begin = window * axis.stride - axis.before
            due = set(range(begin, begin + axis.kernel)) & set(range(axis.extent))
            groups = [(window, line) for line in axis.used] + [(window - 1, line) for line in axis.shared]
            held = [
                group * axis.stride + axis.first + line for group, line in groups if axis.has(group, line)
            ]
            assert sorted(held) == sorted(due)
            assert axis.gathered is not None
            assert axis.has(window, axis.gathered)


def test_no_line_is_left_where_every_line_belongs_to_two_windows():
    assert Grouped(10, kernel=4, stride=2, before=1, windows=4).gathered is None
    assert Grouped(10, kernel=3, stride=2, before=1, windows=5).gathered == 0


@pytest.mark.parametrize(
    ("task", "config", "can"),
    [
        (CASES["windows apart"], TINY, True),
        (CASES["windows apart"], TINY.with_changes(alu_opcodes="ADD"), False),
        (CASES["windows apart"], TINY.with_changes(extensions=("overwrite", "pad_minimum")), False),
        (CASES["windows apart"], TINY.with_changes(acc_buffer_bytes=256), False),
        (fused(3, (9, 9), 6, (3, 3), (1, 1)), TINY, False),
        (fused(3, (9, 300), 6, (2, 2), (2, 2)), TINY, False),
    ],
)
def test_which_poolings_it_is_for(task, config, can):
    assert pools_sums(task.convolution, task.pooling, config) == can


def test_it_takes_little_more_than_its_slots():
    """A slot for each product of a sum, two maxima for each column of a window, and two for each window."""
    target = Target(DEFAULT)
    packed = best_packed(STEM, target)
    assert packed is not None
    task = PooledTask(packed.task(1), STEM_POOLING)
    products = 4 * 112 * 112 * packed.size.kernel[0] * packed.size.kernel[1]
    maxima = 4 * 56 * (2 * 112 + 2 * 56)
    cycles = simulated_cycles(task, Choice(2), target)
    assert products + maxima - 4 * (112 + 56) <= cycles < 1.02 * (products + maxima)
    apart = simulated_cycles(MaximumTask(STEM_POOLING), Choice(2), target)
    assert cycles < products + 0.7 * apart
