"""Chains of convolutions: exactly the results of the separate operators, in fewer cycles."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from generators.expected import convolved
from generators.making import Case

from tests.loading import load_file
from vdla.compiler.codegen.choose import cycles_of, least_estimate, simulated_cycles
from vdla.compiler.codegen.stream import compile_stream, lower_to_calls
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.tasks import chain as chain_program
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.chain import ChainTask
from vdla.compiler.tasks.chain_plan import Chain, ChainPlan, ChainTile, chains, plans
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.te.operators.convolution import blocked_weights, window_weights, with_whole_windows
from vdla.compiler.te.operators.narrowing import AddingScale, blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host.windows import spans
from vdla.runtime.layout import blocked, unblocked
from vdla.runtime.requantise import parameter_words, requantise

FED = DEFAULT
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
    first: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1), (1, 1)),
):
    """Return the function from a configuration to the task of a depthwise convolution of `channels`; `before`
    and `after` are the channels that an expansion reads and a projection computes, 0 without them; `first`
    holds kernel, stride and dilation of the expansion."""
    size = Convolution(channels, *side, channels, kernel, stride, pads, groups=channels, batch=batch)

    def pointwise(inputs: int, outputs: int, height: int, width: int) -> ConvolutionTask | None:
        size = Convolution(inputs or 1, height, width, outputs or 1, (1, 1), batch=batch)
        return ConvolutionTask(size) if inputs and outputs else None

    def expansion() -> ConvolutionTask | None:
        taps, steps, apart = first
        read = (
            (extent - 1) * step + span
            for extent, step, span in zip(side, steps, spans(taps, apart), strict=True)
        )
        size = Convolution(before or 1, *read, channels, taps, steps, dilation=apart, batch=batch)
        return ConvolutionTask(size) if before else None

    def on(config: AcceleratorConfig) -> Chain:
        return Chain(
            ConvolutionTask(with_whole_windows(size, config), border=border, slides=True),
            expansion(),
            pointwise(channels, after, *size.out_size),
        )

    return on


KERNEL = ((3, 3), (2, 2), (1, 1))
LINES = ((3, 1), (2, 1), (1, 1))
APART = ((2, 3), (1, 2), (3, 2))

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
    "a border below several tiles": chain(
        (12, 9), 24, (5, 3), pads=(2, 1, 2, 1), before=8, after=8, border=3
    ),
    "more results than inputs": chain((5, 4), 9, pads=(2, 2, 2, 2), after=5, border=4),
    "parameters of an expansion and a window in turn": chain((3, 3), 520, before=8, border=7),
    "parameters of all three in turn": chain((3, 3), 520, before=8, after=9, border=7),
    "parameters of a window and a projection in turn": chain((3, 3), 1100, after=9, border=7),
    "images": chain((12, 8), 24, before=8, after=8, border=9, batch=3),
    "a kernel in the expansion": chain((12, 10), 24, before=5, after=9, border=4, first=KERNEL),
    "an expansion of windows of lines": chain((12, 12), 16, before=16, border=2, first=LINES),
    "an expansion with dilation": chain((8, 9), 24, stride=(2, 2), before=20, after=8, first=APART),
    "a single row": chain((1, 9), 17, (1, 3), (1, 1), (0, 1, 0, 1), before=8, after=8, border=2),
}


SMALL = {
    "all three": chain((5, 4), 9, before=3, after=4, border=-5),
    "strides": chain((5, 6), 9, stride=(2, 2), before=3, after=4, border=-5),
    "expansion and window": chain((4, 5), 9, before=3, border=6),
    "window and projection": chain((4, 5), 9, after=3, border=6),
}


def without(extension: Extension) -> AcceleratorConfig:
    """Return the configuration without an extension."""
    return FED.with_changes(extensions=tuple(each for each in Extension if each is not extension))


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
    assert len(np.unique(image)) > 30
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


TILES = {
    "strips": ("all three, in several tiles", {"rows": 6, "columns": 5}),
    "strips of whole columns": ("all three, in several tiles", {"rows": 12, "columns": 2}),
    "strips of a single unit": ("inverted residual", {"rows": 2, "columns": 3, "blocks": 3}),
    "many narrow strips": ("inverted residual", {"rows": 3, "columns": 1, "blocks": 1}),
    "strips with strides": ("strides", {"rows": 2, "columns": 3, "blocks": 1}),
    "strips of results apart": ("strides", {"rows": 3, "columns": 2, "blocks": 1}),
    "strips without a projection": ("expansion and window", {"rows": 4, "columns": 6}),
    "strips without an expansion": ("window and projection", {"rows": 4, "columns": 4}),
    "strips of images": ("images", {"rows": 6, "columns": 4}),
    "strips with a larger kernel": ("a larger kernel", {"rows": 5, "columns": 3}),
    "strips with rows of border below": ("a border below several tiles", {"rows": 3, "columns": 3}),
    "strips with a kernel in the expansion": ("a kernel in the expansion", {"rows": 4, "columns": 5}),
    "parts of few units": ("window and projection", {"parts": 2}),
    "parts of a unit": ("window and projection", {"rows": 3, "columns": 3, "parts": 2, "blocks": 3}),
    "parts of kept weights": ("window and projection", {"rows": 6, "columns": 4, "parts": 2, "blocks": 1}),
    "parts in strips": ("window and projection", {"rows": 6, "columns": 6, "parts": 4, "copies": 2}),
    "strips of more results than inputs": ("more results than inputs", {"rows": 7, "columns": 3}),
}
"""The case, and sizes of a tile."""


def tile_of(task: ChainTask, config: AcceleratorConfig, sizes: dict[str, int]) -> ChainTile:
    """Return the best tile with these sizes."""
    fitting = [
        plan
        for plan in plans(task.chain, config, 2)
        if all(getattr(plan.tile, name) == size for name, size in sizes.items())
    ]
    return min(fitting, key=lambda plan: plan.cycles).tile


def tiled_case(name: str) -> Case:
    """Return the case of a tile on random data, with the results of NumPy."""
    case, sizes = TILES[name]
    task = ChainTask(CASES[case](NARROW))
    image, given = results_of(task, NARROW)
    program = task.tiled(tile_of(task, NARROW, sizes), Choice(2), NARROW)
    return Case(str(task), NARROW, program, given, image)


@pytest.mark.parametrize("name", TILES)
def test_every_tile_gives_the_results_of_the_convolutions(campaign, name):
    assert campaign.failures(tiled_case(name), on_rtl=False) == []


@pytest.mark.parametrize("name", ["all three, in several tiles", "window and projection"])
def test_the_rtl_takes_the_same_cycles(campaign, name):
    task = ChainTask(CASES[name](NARROW))
    assert campaign.failures(case_of(task, Choice(2), NARROW), on_rtl=True) == []


@pytest.mark.parametrize("name", ["strips with a kernel in the expansion", "parts in strips"])
def test_the_rtl_takes_the_same_cycles_for_a_tile(campaign, name):
    assert campaign.failures(tiled_case(name), on_rtl=True) == []


@pytest.mark.parametrize("name", SMALL)
def test_a_program_of_a_chain_means_its_convolutions(name):
    """The interpreter, which defines loop programs, has the results of NumPy."""
    task, config = ChainTask(SMALL[name](NARROW)), NARROW
    image, given = results_of(task, config)
    func = lower_to_calls(task.program(Choice(1), config), config, verify_each=True)
    out = next(param for param in func.params if param.name == "Z")
    given["Z"] = np.zeros(out.shape, np.int8)
    interpret(func, {param.name: given[param.name].reshape(param.shape) for param in func.params})
    np.testing.assert_array_equal(unblocked(given["Z"], *image.shape[:2]), image)


@pytest.mark.parametrize(
    ("make", "config", "can"),
    [
        (CASES["inverted residual"], FED, True),
        (CASES["inverted residual"], without(Extension.FEEDBACK), False),
        (CASES["inverted residual"], FED.with_changes(acc_buffer_bytes=2048), False),
        (chain((6, 6), 24, (1, 3), pads=(1, 1, 1, 1), before=10), FED, False),
    ],
)
def test_which_convolutions_it_is_for(make, config, can):
    assert chains(make(FED), config) is can


def test_only_pointwise_convolutions_with_parameters_of_channels_are_around_a_window():
    whole = CASES["inverted residual"](FED)
    dense = replace(whole.projection, size=replace(whole.projection.size, kernel=(3, 3)))
    adding = replace(whole.expansion, narrowing=AddingScale())
    assert not chains(replace(whole, projection=dense), FED)
    assert not chains(replace(whole, expansion=adding), FED)
    assert chains(replace(whole, projection=replace(whole.projection, narrowing=AddingScale())), FED)


@pytest.mark.parametrize("faulty", [{"padding": (1, 1, 1, 1), "kernel": (3, 3)}, {"groups": 2}])
def test_an_expansion_has_neither_a_border_nor_groups(faulty):
    whole = CASES["inverted residual"](FED)
    assert not chains(
        replace(whole, expansion=replace(whole.expansion, size=replace(whole.expansion.size, **faulty))), FED
    )


@pytest.mark.parametrize(
    "make",
    [
        chain((14, 14), 576, before=96, after=96),
        chain((28, 28), 192, before=32, after=32),
        chain((56, 56), 144, stride=(2, 2), before=24, after=32),
    ],
)
def test_the_estimate_is_near_the_simulated_cycles(make):
    task = ChainTask(make(FED))
    tile = task.tile(FED, 2)
    assert ChainPlan(task.chain, tile, FED).cycles == pytest.approx(cycles_by(task, tile), rel=0.1)


def cycles_by(task: ChainTask, tile: ChainTile) -> int:
    """Return the simulated cycles of a tile."""
    return cycles_of(compile_stream(task.tiled(tile, Choice(2), FED), FED))


def test_strips_take_fewer_cycles_than_whole_rows():
    """Strips share fewer pixels with their neighbours than rows that are as large."""
    task = ChainTask(chain((56, 56), 96, before=24, after=24)(FED))
    assert task.tile(FED, 2).columns < 56
    assert cycles_by(task, task.tile(FED, 2)) < 0.95 * cycles_by(task, tile_of(task, FED, {"columns": 56}))


def test_parts_keep_weights_on_chip():
    """All weights of the projection together would be loaded for every tile."""
    task = ChainTask(chain((14, 14), 512, after=512)(FED))
    tile = task.tile(FED, 2)
    assert tile.parts == 2
    assert ChainPlan(task.chain, tile, FED).keeps_weights
    assert not ChainPlan(task.chain, replace(tile, parts=1), FED).keeps_weights
    assert cycles_by(task, tile) < 0.97 * cycles_by(task, tile_of(task, FED, {"parts": 1}))


def test_weights_of_the_next_part_are_loaded_while_others_are_in_use():
    task = ChainTask(chain((14, 14), 512, after=512)(FED))
    slots = 32 * 14 * 14 * (32 + 2)  # the window of a channel is computed for each of two parts
    assert cycles_by(task, task.tile(FED, 2)) < 1.12 * slots


def test_of_plans_that_differ_in_buffers_those_with_most_are_chosen_from():
    convolutions = CASES["all three, in several tiles"](FED)
    for plan in plans(convolutions, FED, 2):
        most = min(2, plan.steps)
        assert plan.fits
        if plan.tile.copies < most:
            assert not replace(plan, tile=replace(plan.tile, copies=most)).fits


def test_it_takes_little_more_than_its_slots():
    """A block of MobileNetV2: six products for each expanded pixel, six for each projected pixel."""
    make = chain((14, 14), 576, before=96, after=96)
    cycles = simulated_cycles(ChainTask(make(FED)), Choice(2), Target(FED))
    products = 36 * 14 * 14 * (6 + 6)
    assert products < cycles < 1.2 * products
    apart = sum(least_estimate(stage, Target(FED)) for stage in make(FED).stages)
    assert cycles < 0.8 * apart


@pytest.mark.parametrize("name", CASES)
def test_halves_of_blocks_change_no_result(campaign, monkeypatch, name):
    monkeypatch.setattr(chain_program, "LEAST_HALF", 1)
    task = ChainTask(CASES[name](NARROW))
    assert campaign.failures(case_of(task, Choice(2), NARROW), on_rtl=False) == []


def test_halves_of_blocks_shorten_the_waits(monkeypatch):
    task = ChainTask(chain((14, 14), 128, before=128, after=128)(FED))
    halved = cycles_of(compile_stream(task.program(Choice(2), FED), FED))
    monkeypatch.setattr(chain_program, "LEAST_HALF", inf)
    assert halved < 0.98 * cycles_of(compile_stream(task.program(Choice(2), FED), FED))


def test_residuals_are_added_to_the_results_of_a_chain():
    task = ChainTask(CASES["inverted residual"](FED))
    assert not task.adds_residual
    assert task.narrowed(AddingScale()).adds_residual
    assert ChainTask(CASES["expansion and window"](FED)).narrowed(AddingScale()).narrowing == AddingScale()
