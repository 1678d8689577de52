"""Five kinds of operator go through the same rules; what is derived is exact and fast."""

import numpy as np
import pytest
from generators.expressions import EXPRESSIONS, convolution, separable_pair, sum_of_squares
from generators.operators import random_case

from tests.loading import load_file
from vdla.compiler.codegen.choose import best_tiles, cycles_of
from vdla.compiler.codegen.derived.derive import Derived, Found, best_of, derive
from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.points import Points
from vdla.compiler.codegen.derived.trial import Trial
from vdla.compiler.codegen.derived.units import UnderivableError
from vdla.compiler.codegen.schedules import schedule_conv2d
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.codegen.tiles import Work
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.narrowing import Scale
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.target import Target

FEW = 6  # points at random of each operator
WIDE = TINY.with_changes(name="wide", batch=2, block_in=8, block_out=8, acc_buffer_bytes=16384)


@pytest.fixture(scope="module")
def bench():
    return load_file("scripts/bench_derived.py")


@pytest.mark.parametrize("config", [TINY, SMALL, WIDE], ids=lambda config: config.name)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_points_at_random_are_exact(bench, name, config):
    case, rng = EXPRESSIONS[name](config), np.random.default_rng(len(name))
    spaces = [Points(kernel, Target(config), most=500) for kernel in kernels_of(case.output, config)]
    for _ in range(FEW):
        chosen = [points.point(int(rng.integers(len(points)))) for points in spaces]
        found = tuple(Found(points, point, 0, 0, {}) for points, point in zip(spaces, chosen, strict=True))
        lines, _ = bench.failures(case, Derived(found, Target(config)), on_rtl=False)
        assert lines == [], chosen


@pytest.mark.parametrize("seed", range(400, 412))
def test_random_operators_are_exact_at_random_points(seed):
    """Convolutions, groups, windows, transposed ones, poolings and sums, on nine configurations."""
    campaign = load_file("scripts/random_operators.py")
    case = random_case(seed, campaign.CONFIGS, derives=True)
    assert campaign.failures(case, on_rtl=False) == []


@pytest.mark.parametrize("make", [sum_of_squares, separable_pair])
def test_new_operators_are_exact_on_the_rtl_in_the_same_cycles(bench, make):
    case = make(TINY)
    lines, cycles = bench.failures(case, derive(case.output, Target(TINY), trials=16), on_rtl=True)
    assert lines == []
    assert cycles["rtl"] == cycles["cycle"]


def test_c7_is_within_a_tenth_of_the_schedule_by_hand(bench):
    target = Target(DEFAULT)
    operator = conv2d(bench.C7, DEFAULT, Scale())
    tiles = best_tiles(Work(bench.C7, DEFAULT, 2, scales=True))
    hand = cycles_of(
        compile_stream(schedule_conv2d(operator, bench.C7, DEFAULT, tiles=tiles).lower(), DEFAULT)
    )
    (found,) = derive(operator.out, target, trials=40).found
    assert found.cycles <= 1.10 * hand


def test_the_best_trial_is_taken_and_the_search_is_deterministic():
    target = Target(TINY)
    one, other = (derive(convolution(TINY).output, target, trials=24).found[0] for _ in range(2))
    assert one.point == other.point
    assert (one.trials, one.illegal) == (24, {})
    assert one.cycles == one.points.measure(one.points.place(one.point))
    estimated = int(np.argmin(one.points.estimates))
    assert one.cycles <= one.points.measure(estimated)


def test_no_more_points_are_tried_than_there_are():
    (found,) = derive(EXPRESSIONS["sum of two tensors"](TINY).output, Target(TINY), trials=10_000).found
    assert found.trials == len(found.points) < 10_000


def test_kernels_are_joined_and_what_lies_between_has_room():
    case = separable_pair(TINY)
    derived = derive(case.output, Target(TINY), trials=4)
    assert {name: derived.sizes[name] for name in ("Z1", "Z2")} == {"Z1": 2 * 36 * 4, "Z2": 3 * 36 * 4}
    assert derived.sizes["P1"] == 2 * 4 * 4 * 4
    assert set(derived.stream.tensors) - {"micro-ops"} == set(derived.sizes)


def test_illegal_points_are_counted_with_their_reasons(monkeypatch):
    (kernel,) = kernels_of(convolution(TINY).output, TINY)
    points = Points(kernel, Target(TINY), most=100)
    trials = iter([Trial(None, "too large"), Trial(None, "too large"), Trial(700), Trial(900)])
    monkeypatch.setattr(points, "tried", lambda place: next(trials))
    found = best_of(points, 4)
    assert (found.cycles, found.trials, found.illegal) == (700, 4, {"too large": 2})


def test_an_error_says_why_nothing_was_legal(monkeypatch):
    (kernel,) = kernels_of(convolution(TINY).output, TINY)
    points = Points(kernel, Target(TINY), most=100)
    monkeypatch.setattr(points, "tried", lambda place: Trial(None, "too large"))
    with pytest.raises(UnderivableError, match=r"^Z: all 3 points that were tried are illegal: too large$"):
        best_of(points, 3)
