"""Chains of convolutions: exactly the results of the separate operators, in fewer cycles."""

import numpy as np
import pytest
from generators.expected import convolved
from generators.making import Case

from tests.loading import load_file
from vdla.compiler.codegen.blocked_layout import blocked_parameters, blocked_weights
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.chain import ChainTask, chains
from vdla.compiler.tasks.chain_plan import Chain
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.te.operators.convolution import window_weights, with_whole_windows
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import blocked
from vdla.runtime.requantise import parameter_words, requantise

FED = DEFAULT.with_changes(extensions=tuple(Extension))
NARROW = FED.with_changes(
    block_in=8,
    block_out=8,
    inp_buffer_bytes=4096,
    wgt_buffer_bytes=4096,
    acc_buffer_bytes=8192,
    uop_buffer_bytes=4096,
)


@pytest.fixture(scope="module")
def campaign():
    return load_file("scripts/random_operators.py")


def chain(
    side: tuple[int, int],
    channels: int,
    kernel=(3, 3),
    stride=(1, 1),
    pads=(1, 1, 1, 1),
    *,
    before: int = 0,
    after: int = 0,
    border: int = 0,
    batch: int = 1,
):
    """Return the function from a configuration to the task of a depthwise convolution of `channels`; `before`
    and `after` are the channels that an expansion reads and a projection computes, 0 without them."""
    size = Convolution(channels, *side, channels, kernel, stride, pads, groups=channels, batch=batch)

    def pointwise(inputs: int, outputs: int, height: int, width: int) -> ConvolutionTask | None:
        size = Convolution(inputs or 1, height, width, outputs or 1, (1, 1), batch=batch)
        return ConvolutionTask(size) if inputs and outputs else None

    def on(config: AcceleratorConfig) -> Chain:
        return Chain(
            ConvolutionTask(with_whole_windows(size, config), border=border, slides=True),
            pointwise(before, channels, *side),
            pointwise(channels, after, *size.out_size),
        )

    return on


CASES = {
    "inverted residual": chain((6, 6), 24, before=10, after=12),
    "all three, in several tiles": chain((12, 10), 48, before=10, after=12, border=-128),
    "strides": chain((12, 12), 40, (3, 3), (2, 2), before=5, after=20, border=7),
    "expansion and window": chain((12, 12), 40, before=9, border=5),
    "window and projection": chain((12, 12), 24, after=30, border=-128),
    "window of stride 2 and projection": chain((13, 11), 30, stride=(2, 2), after=30, border=3),
    "a larger kernel": chain((10, 9), 24, (5, 5), (1, 1), (2, 2, 2, 2), before=8, after=8, border=1),
    "a larger kernel of stride 2": chain((14, 13), 16, (5, 5), (2, 2), (2, 2, 2, 2), before=8, border=1),
    "no border": chain((9, 9), 16, pads=(0, 0, 0, 0), before=8, after=8),
    "a border above alone": chain((11, 12), 3, stride=(2, 2), pads=(2, 0, 0, 0), before=28, border=89),
    "a border below several tiles": chain((12, 9), 24, (5, 3), pads=(2, 1, 2, 1), before=8, after=8, border=3),
    "more results than inputs": chain((5, 4), 9, (1, 3), pads=(1, 2, 1, 2), after=5, border=4),
    "images": chain((12, 8), 24, before=8, after=8, border=9, batch=3),
    "a single row": chain((1, 9), 17, (1, 3), (1, 1), (0, 1, 0, 1), before=8, after=8, border=2),
}


def results_of(task: ChainTask, config: AcceleratorConfig) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the results of NumPy on random data, and the arrays by parameter of the program."""
    rng, first = np.random.default_rng(7), task.chain.stages[0].size
    image = rng.integers(-128, 128, (first.batch, first.channels, first.height, first.width), np.int8)
    given = {"X": blocked(image, config.block_in, config.batch)}
    for place, stage in enumerate(task.chain.stages):
        size, name = stage.size, "" if stage is task.chain.stages[-1] else str(place)
        weights = rng.integers(-128, 128, (size.outputs, size.channels // size.groups, *size.kernel), np.int8)
        words = parameter_words(
            rng.integers(-3000, 3000, size.outputs),
            rng.integers(1 << 14, 1 << 16, size.outputs),
            rng.integers(23, 26, size.outputs),
            rng.integers(-20, 20, size.outputs),
        )
        sums = convolved(image, weights, size, stage.border)
        image = requantise(sums, words[:, :, None, None], config.acc_bits)
        packed = window_weights if stage.slides else blocked_weights
        given |= {f"W{name}": packed(weights, size, config), f"P{name}": blocked_parameters(words, config)}
    return image, given


def case_of(task: ChainTask, choice: Choice, config: AcceleratorConfig) -> Case:
    """Return a task on random data, with the results of NumPy."""
    image, given = results_of(task, config)
    assert len(np.unique(image)) > 50
    return Case(str(task), config, task.program(choice, config), given, image)


@pytest.mark.parametrize("config", [FED, NARROW], ids=["default", "small memories"])
@pytest.mark.parametrize("name", CASES)
def test_a_chain_gives_the_results_of_its_convolutions(campaign, name, config):
    convolutions, ran = CASES[name](config), 0
    assert chains(convolutions, config)
    task = ChainTask(convolutions)
    for choice in (Choice(1), Choice(2), Choice(2, parts=2)):
        if task.tile(config, choice.copies) is not None:
            ran += 1
            assert campaign.failures(case_of(task, choice, config), on_rtl=False) == []
    assert ran
