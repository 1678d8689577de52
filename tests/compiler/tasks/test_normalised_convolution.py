"""A convolution whose STOREs normalise: exactly the sums of the convolution, in few cycles."""

from dataclasses import replace

import numpy as np
import pytest
from generators.expected import convolved
from generators.making import Case

from tests.loading import load_file
from vdla.compiler.codegen.choose import by_simulator, simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.normalised_convolution import NormalisedTask, normalises_sums
from vdla.compiler.tasks.normalising import NormalisingTask
from vdla.compiler.te.operators.convolution import blocked_weights, window_weights, with_whole_windows
from vdla.compiler.te.operators.narrowing import AddingScale, blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution, blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import NORMAL_ROWS
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import blocked
from vdla.runtime.requantise import parameter_words, requantise

EVERY = DEFAULT.with_changes(extensions=tuple(Extension))
SMALL = TINY.with_changes(name="eight", block_in=8, block_out=8, extensions=tuple(Extension))


@pytest.fixture(scope="module")
def campaign():
    return load_file("scripts/random_operators.py")


def depthwise(channels: int, side: tuple[int, int], kernel: int, stride=(1, 1), batch=1) -> Convolution:
    """Return the sizes of a depthwise convolution with a border."""
    pads, square = (kernel // 2,) * 4, (kernel, kernel)
    return Convolution(channels, *side, channels, square, stride, pads, groups=channels, batch=batch)


CASES = {
    "a single tile": depthwise(12, (6, 5), 3),
    "smaller last tiles": depthwise(20, (23, 19), 7),
    "strides": depthwise(9, (15, 14), 5, (2, 2)),
    "images": depthwise(17, (9, 8), 3, batch=2),
    "windows with dilation": replace(depthwise(9, (12, 12), 3), dilation=(3, 1), padding=(3, 1, 3, 1)),
    "products": Convolution(10, 11, 9, 20, (3, 3), (1, 2), (1, 1, 1, 1)),
    "products with dilation": Convolution(10, 11, 9, 20, (2, 3), dilation=(2, 3)),
    "more pixels than the store unit has rows": Convolution(7, 20, 21, 9, (1, 1)),
    "rows of a matrix": Convolution(20, 300, 1, 17, (1, 1)),
}


def task_of(size: Convolution, config: AcceleratorConfig, border: int = 0) -> NormalisedTask:
    """Return the task of a convolution; a depthwise convolution slides windows."""
    slides = size.groups > 1
    wide = with_whole_windows(size, config) if slides else size
    convolution = ConvolutionTask(wide, border=border, slides=slides)
    return NormalisedTask(convolution, blocks(size.outputs, config.block_out))


def case_of(size: Convolution, choice: Choice, config: AcceleratorConfig) -> Case:
    """Return a convolution on random data without its epilogue, with what NumPy makes of it."""
    rng, task = np.random.default_rng(5), task_of(size, config)
    image = rng.integers(-128, 128, (size.batch, size.channels, size.height, size.width), np.int8)
    kernels = size.outputs, size.channels // size.groups, *size.kernel
    weights = rng.integers(-128, 128, kernels, np.int8)
    words = parameter_words(
        rng.integers(-3000, 3000, size.outputs),
        rng.integers(1 << 14, 1 << 16, size.outputs),
        rng.integers(23, 26, size.outputs),
        rng.integers(-20, 20, size.outputs),
    )
    pack = window_weights if task.convolution.slides else blocked_weights
    given = {
        "X": blocked(image, config.block_in, config.batch),
        "W": pack(weights, task.convolution.size, config),
        "P": blocked_parameters(words, config),
    }
    results = requantise(convolved(image, weights, size), words[:, :, None, None], config.acc_bits)
    return Case(str(task), config, task.program(choice, config), given, results)


@pytest.mark.parametrize("config", [SMALL, EVERY], ids=["small", "default"])
@pytest.mark.parametrize("size", CASES.values(), ids=CASES)
def test_the_program_computes_the_convolution(campaign, size, config):
    for choice in (Choice(1), Choice(2), Choice(2, parts=2)):
        if task_of(size, config).tile(config, choice.copies) is not None:
            assert campaign.failures(case_of(size, choice, config), on_rtl=False) == []


@pytest.mark.parametrize("size", CASES.values(), ids=CASES)
def test_a_tile_has_a_row_for_each_pixel_and_the_ring_a_unit_for_each_block(size):
    task = task_of(size, SMALL)
    tile = task.tile(SMALL, 1)
    assert tile is not None
    assert tile.pixels <= NORMAL_ROWS
    assert task.blocks <= tile.ring <= task.blocks + 1


@pytest.mark.parametrize(
    ("changes", "can"),
    [
        ({}, True),
        ({"alike": True}, False),
        ({"reads": 2}, False),
        ({"writes": 2}, False),
        ({"narrowing": AddingScale()}, False),
        ({"slides": True}, True),
        ({"size": Convolution(64, 8, 8, 64, groups=2)}, False),
    ],
    ids=str,
)
def test_which_convolutions_it_is_for(changes, can):
    task = replace(ConvolutionTask(Convolution(16, 8, 8, 16)), **changes)
    assert normalises_sums(task, EVERY) == can


@pytest.mark.parametrize(("channels", "fits"), [(31 * 16, True), (31 * 16 + 1, False)])
def test_the_parameters_of_all_blocks_are_on_chip_at_once(channels, fits):
    assert (task_of(depthwise(channels, (3, 3), 3), EVERY).tile(EVERY, 1) is not None) == fits


@pytest.mark.parametrize(("channels", "side"), [(40, 56), (80, 28), (160, 14), (320, 7)])
def test_it_takes_three_quarters_of_the_cycles_of_both_operators(channels, side):
    target = Target(EVERY)
    task = task_of(depthwise(channels, (side, side), 7), EVERY)
    alone = NormalisingTask(1, task.blocks, side * side, False, channels % 16 > 0)
    fused, *both = (
        simulated_cycles(each, by_simulator(space_of(each, target)), target)
        for each in (task, task.convolution, alone)
    )
    assert fused < 0.76 * sum(both)
