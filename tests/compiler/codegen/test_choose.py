"""Spaces, estimates, choices, and what is kept of them."""

import re
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np
import pytest

from vdla.compiler.codegen import choice_cache, choose
from vdla.compiler.codegen.choose import by_estimate, by_simulator, cycles_of_runs, simulated_cycles
from vdla.compiler.codegen.estimate import estimated_cycles, ranked_tiles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tiles import INPUTS, TileFootprint, Tiles, TilingProblem, fitting_tiles, table_of
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice, choice_from_json
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.pooling import PoolingTask
from vdla.compiler.te.operators.narrowing import AddingScale
from vdla.compiler.te.operators.sizes import Convolution, Pooling
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension

TARGET = Target(TINY)
CONVOLUTION = ConvolutionTask(Convolution(16, 8, 8, 16, padding=(1, 1, 1, 1)))
POOLING = PoolingTask(Pooling(4, 8, 8, (2, 2)))
SUM = ElementsTask(Elements.ADD, 64, (3, 4))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("task", [CONVOLUTION, POOLING, SUM], ids=lambda task: type(task).__name__)
def test_every_chooser_chooses_from_the_space(task):
    space = space_of(task, TARGET)
    assert len(space) >= 1
    assert by_estimate(space) in space
    assert by_simulator(space) in space
    assert Choice(7) not in space


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (
            ConvolutionTask(Convolution(4, 40, 400, 4, (20, 20))),
            "no tile of Convolution(channels=4, height=40",
        ),
        (
            PoolingTask(Pooling(4, 40, 40, (30, 30))),
            "a window of (30, 30) does not fit the accumulators of tiny",
        ),
        (SUM, "one element of add does not fit the accumulators of tiny"),
    ],
)
def test_what_does_not_fit_is_unfit_with_a_reason(task, reason):
    config = TINY.with_changes(inp_buffer_bytes=64, wgt_buffer_bytes=64, acc_buffer_bytes=64)
    unfit = space_of(task, Target(config))
    assert isinstance(unfit, Unfit)
    assert unfit.reason.startswith(reason)


def test_the_simulated_choice_is_at_least_as_good_as_the_estimated_one():
    space = space_of(CONVOLUTION, TARGET)
    simulated, estimated = (
        simulated_cycles(CONVOLUTION, choose(space), TARGET) for choose in (by_simulator, by_estimate)
    )
    assert simulated <= estimated


POINTWISE, BORDERED = Convolution(64, 28, 28, 128, (1, 1)), Convolution(64, 28, 28, 64, padding=(1, 1, 1, 1))


@pytest.mark.parametrize("gathers", [True, False], ids=["gather", "no gather"])
@pytest.mark.parametrize("size", [POINTWISE, BORDERED], ids=["pointwise", "bordered"])
@pytest.mark.parametrize(("block_in", "block_out"), [(16, 8), (8, 16)])
def test_estimates_know_what_alternating_planes_cost(block_in, block_out, size, gathers):
    left = [extension for extension in DEFAULT.extensions if gathers or extension is not Extension.GATHER]
    config = DEFAULT.with_changes(block_in=block_in, block_out=block_out, extensions=tuple(left))
    target = Target(config)
    task = ConvolutionTask(size, reads=max(1, block_out // block_in), writes=max(1, block_in // block_out))
    space = space_of(task, target)
    choice = by_estimate(space)
    (estimate,) = estimated_cycles(space.usual.work, table_of(choice.tiles))
    assert 0.85 < estimate / simulated_cycles(task, choice, target) < 1.15


def test_tiles_are_of_whole_rows_where_stores_scatter():
    target = Target(DEFAULT.with_changes(block_in=32))
    task = ConvolutionTask(Convolution(64, 56, 56, 128, (1, 1)), writes=2)
    scattered, plain = (
        simulated_cycles(task, by_estimate(space_of(each, target)), target)
        for each in (task, replace(task, writes=1))
    )
    assert scattered < 0.85 * plain


def test_more_threads_are_chosen_where_they_hide_stores():
    """And only there: with few outputs for each input, two threads do."""
    target = Target(DEFAULT)
    wide, deep = (ConvolutionTask(Convolution(512, 14, 14, outputs, (1, 1))) for outputs in (512, 64))
    chosen = {task: by_simulator(space_of(task, target)) for task in (wide, deep)}
    assert (chosen[wide].threads, chosen[deep].threads) == (4, 2)
    space = space_of(wide, target)
    assert chosen[wide] in space
    assert len(space) > len(space.usual) + len(space.more)
    fewer = by_simulator(replace(space, more=None))
    assert simulated_cycles(wide, chosen[wide], target) < simulated_cycles(wide, fewer, target)


def test_inputs_are_kept_where_that_saves_many_cycles(monkeypatch):
    """A product with many outputs loads its inputs once for all of them."""
    target, task = Target(DEFAULT), ConvolutionTask(Convolution(256, 128, 1, 1024, (1, 1)))
    chosen = by_simulator(space_of(task, target))
    monkeypatch.setattr(choose, "CONVINCING", inf)
    other = by_simulator(space_of(task, target))
    assert (chosen.tiles.keeps == INPUTS) > (other.tiles.keeps == INPUTS)
    assert simulated_cycles(task, chosen, target) < 0.95 * simulated_cycles(task, other, target)


@pytest.mark.parametrize(
    ("size", "most"),
    [(Convolution(128, 28, 28, 128, padding=(1, 1, 1, 1)), 2), (Convolution(512, 14, 14, 512, (1, 1)), 6)],
    ids=["the multipliers are busy", "the multipliers stall"],
)
def test_few_candidates_are_simulated_where_the_multipliers_are_busy(size, most, monkeypatch):
    asked = []

    def counted(task, choice, target):
        asked.append(choice)
        return simulated_cycles(task, choice, target)

    monkeypatch.setattr(choose, "simulated_cycles", counted)
    space = space_of(ConvolutionTask(size), Target(DEFAULT))
    chosen = by_simulator(space)
    assert len(set(asked)) == len(asked) <= most
    assert (len(asked) > 2) == (most > 2)
    every = [simulated_cycles(space.task, choice, space.target) for choice in asked]
    assert simulated_cycles(space.task, chosen, space.target) == min(every)


ESTIMATED = [
    Convolution(64, 14, 14, 64, padding=(1, 1, 1, 1)),
    Convolution(64, 28, 28, 128, (1, 1)),
    Convolution(128, 1, 1, 256, (1, 1)),
]


BATCH_4 = DEFAULT.with_changes(name="batch4", batch=4)
POINTWISE = Convolution(64, 56, 56, 256, (1, 1))
NEAR_CASES = {
    **{f"{size.channels} to {size.outputs}": (ConvolutionTask(size), DEFAULT) for size in ESTIMATED},
    "residuals": (ConvolutionTask(POINTWISE, AddingScale()), DEFAULT),
    "bound by the bus": (ConvolutionTask(POINTWISE), BATCH_4),
    "residuals, bound by the bus": (ConvolutionTask(POINTWISE, AddingScale()), BATCH_4),
    "parameters in rounds": (ConvolutionTask(Convolution(512, 7, 7, 2048, (1, 1))), BATCH_4),
    "many requests": (ConvolutionTask(Convolution(32, 112, 112, 48, (1, 1), (2, 2))), DEFAULT),
}


@pytest.mark.parametrize("name", NEAR_CASES)
def test_the_estimate_is_near_the_simulator(name):
    task, config = NEAR_CASES[name]
    space = space_of(task, Target(config))
    estimates = estimated_cycles(space.usual.work, space.usual.table)
    for place in np.argsort(estimates)[:2]:
        cycles = simulated_cycles(space.task, space.usual.choice(int(place)), space.target)
        assert estimates[place] == pytest.approx(cycles, rel=0.08)


@pytest.mark.parametrize(
    ("size", "cycles"), list(zip(ESTIMATED, (29_827, 27_922, 4_989), strict=True)), ids=str
)
def test_the_estimate_has_the_constants_that_were_fitted(size, cycles):
    """Whoever changes a constant fits it to simulations again, and then changes these figures."""
    work = space_of(ConvolutionTask(size), Target(DEFAULT)).usual.work
    assert round(estimated_cycles(work, fitting_tiles(work)).min()) == cycles


def test_candidates_far_from_the_best_estimate_are_left_out():
    work = space_of(ConvolutionTask(ESTIMATED[0]), Target(DEFAULT)).usual.work
    every, near, best = (ranked_tiles(work, within=share) for share in (inf, 1.05, 1.0))
    estimates = np.sort(estimated_cycles(work, fitting_tiles(work)))
    assert len(every) == len(estimates) > len(near) > len(best) >= 1
    assert len(near) == np.count_nonzero(estimates <= 1.05 * estimates[0])
    assert every[: len(near)] == near


def test_tiles_follow_the_memory():
    task = ConvolutionTask(Convolution(64, 56, 56, 128, (1, 1), (2, 2)))
    far = Target(DEFAULT, MemoryParameters(400))
    near_choice, far_choice = (by_simulator(space_of(task, target)) for target in (Target(DEFAULT), far))
    assert near_choice != far_choice
    assert simulated_cycles(task, far_choice, far) < simulated_cycles(task, near_choice, far)


def test_equal_work_on_another_memory_is_other_work():
    assert TilingProblem(CONVOLUTION.size, TINY, 2, scales=True) != TilingProblem(
        CONVOLUTION.size, TINY, 2, scales=True, memory=MemoryParameters(400)
    )


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"threads": 0, "tiles": None, "parts": 1},
        {"threads": True, "tiles": None, "parts": 1},
        {"threads": 2, "tiles": None},
        {"threads": 2, "tiles": {"outputs": 1}, "parts": 1},
        {
            "threads": 2,
            "tiles": dict.fromkeys(("outputs", "rows", "columns", "inputs"), 1) | {"keeps": "all"},
            "parts": 1,
        },
    ],
)
def test_what_is_no_choice_is_refused(values):
    with pytest.raises((KeyError, TypeError, ValueError)):
        choice_from_json(values)


# Kept


def never(space):
    pytest.fail(f"{space} was chosen again")


def test_a_choice_is_made_once(cache):
    space = space_of(CONVOLUTION, TARGET)
    choice = choice_cache.cached(by_estimate)(space)
    assert choice_cache.cached(never)(space) == choice
    assert len(list((cache / "choices").iterdir())) == 1


@pytest.mark.parametrize(
    "target", [Target(TINY, MemoryParameters(65)), Target(TINY.with_changes(bus_bits=128))]
)
def test_another_memory_or_configuration_chooses_anew(cache, target):
    choice_cache.cached(by_estimate)(space_of(CONVOLUTION, TARGET))
    choice_cache.cached(by_estimate)(space_of(CONVOLUTION, target))
    assert len(list((cache / "choices").iterdir())) == 2


def test_the_clock_does_not_choose_anew(cache):
    choice_cache.cached(by_estimate)(space_of(CONVOLUTION, TARGET))
    choice_cache.cached(never)(space_of(CONVOLUTION, replace(TARGET, clock_mhz=50)))
    assert len(list((cache / "choices").iterdir())) == 1


def test_another_compiler_chooses_anew(cache, monkeypatch):
    choice_cache.cached(by_estimate)(space_of(CONVOLUTION, TARGET))
    monkeypatch.setattr(choice_cache, "task_version", lambda: "another")
    choice_cache.cached(by_estimate)(space_of(CONVOLUTION, TARGET))
    assert len(list((cache / "choices").iterdir())) == 2


def renamed(file):
    file.rename(file.with_name("other"))


def changed(file):
    file.write_bytes(file.read_bytes().replace(b'"rows": ', b'"rows": 1'))


@pytest.mark.parametrize("change", [changed, renamed, lambda file: file.write_bytes(b"")])
def test_a_choice_that_was_altered_is_not_followed(cache, change):
    space = space_of(CONVOLUTION, TARGET)
    choice = choice_cache.cached(by_estimate)(space)
    change(*(cache / "choices").iterdir())
    assert choice_cache.read(choice_cache.key_of(space)) is None
    assert choice_cache.read("other") is None
    assert choice_cache.cached(by_estimate)(space) == choice


def test_a_choice_that_is_not_in_its_space_is_not_followed(cache):
    space = space_of(CONVOLUTION, TARGET)
    choice_cache.write(choice_cache.key_of(space), Choice(2, Tiles(10_000, 1, 1, 1)))
    assert choice_cache.cached(by_estimate)(space) in space


def test_a_cache_that_cannot_be_used_is_done_without(monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", "/dev/null/cache")
    space = space_of(CONVOLUTION, TARGET)
    assert choice_cache.cached(by_estimate)(space) == by_estimate(space)
    assert choice_cache.read(choice_cache.key_of(space)) is None


@pytest.mark.parametrize(
    ("small", "named"),
    [
        ({"inp_buffer_bytes": 16}, ["inp_buffer_bytes"]),
        ({"wgt_buffer_bytes": 64}, ["wgt_buffer_bytes"]),
        ({"wgt_buffer_bytes": 64, "uop_buffer_bytes": 64}, ["wgt_buffer_bytes", "uop_buffer_bytes"]),
    ],
)
def test_a_convolution_without_a_tile_names_the_buffers_that_are_too_small(small, named):
    task = ConvolutionTask(Convolution(16, 8, 8, 16, (3, 3), padding=(1, 1, 1, 1)))
    space = space_of(task, replace(TARGET, config=TARGET.config.with_changes(**small)))
    assert isinstance(space, Unfit)
    reason, _, cure = space.reason.partition("; ")
    assert cure == f"use larger {' and '.join(named)}"
    for name in named:
        taken, given = (
            int(text.replace(",", ""))
            for text in re.search(rf"([\d,]+) bytes where {name} = ([\d,]+)", reason).groups()
        )
        assert given == small[name] < taken
        small = small | {name: 1 << (taken - 1).bit_length()}
    assert not isinstance(space_of(task, replace(TARGET, config=TARGET.config.with_changes(**small))), Unfit)


def test_choices_with_more_threads_are_simulated_where_estimates_are_too_high_for_all():
    """With a batch of four, the bus bounds this product, and its estimates are 15 % too high."""
    space = space_of(
        ConvolutionTask(Convolution(2048, 7, 7, 512, (1, 1))),
        Target(DEFAULT.with_changes(name="batch of four", batch=4)),
    )
    choice = by_simulator(space)
    assert choice.threads == 4
    two = by_estimate(space)
    assert two.threads == 2
    assert simulated_cycles(space.task, choice, space.target) < simulated_cycles(
        space.task, two, space.target
    )


def test_weights_that_last_are_loaded_at_once():
    """A step of a recurrence: a single run would be faster with weights in two halves, one after the other."""
    space = space_of(ConvolutionTask(Convolution(128, 1, 1, 128, (1, 1))), Target(DEFAULT))
    single, lasting = by_simulator(space), by_simulator(replace(space, lasting=True))
    work, runs = space.usual.work, partial(cycles_of_runs, space.task, target=space.target)
    at_once = [TileFootprint(work, table_of(each.tiles)).all_weights.all() for each in (single, lasting)]
    assert at_once == [False, True]
    assert runs(lasting) < 0.6 * runs(single)
    assert lasting in space
