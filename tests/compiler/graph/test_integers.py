"""Scales as integers: precision, refused ratios, and bounds of stored values."""

from itertools import product as pairs_of
from math import inf

import numpy as np
import pytest

from vdla.compiler.graph.integers import (
    IntegerProduct,
    Quantisation,
    factors_and_shift,
    fits_sum,
    integer_product,
    multiplier_and_shift,
    scaling,
    signed_bytes,
)
from vdla.runtime.requantise import requantise

OUT = Quantisation(1.0, 0)


@pytest.mark.parametrize("zero", [-128, -1, 0, 1, 127])
def test_the_reach_of_a_sum_is_that_of_the_extreme_bytes(zero):
    weights, bias = np.array([[3, -5], [0, 7]], np.int16), np.array([-11.0, 2.0])
    ends = [byte - zero for byte in (-128, 127)]
    reach = IntegerProduct(weights, np.ones(2), bias).reach(Quantisation(1.0, zero))
    assert reach == max(8 * max(map(abs, ends)) + 11, 7 * max(map(abs, ends)) + 2)


def test_a_multiplier_and_a_shift_are_a_ratio_to_sixteen_bits():
    ratios = np.exp(np.random.default_rng(0).uniform(np.log(2.0**-46), np.log(2.0**15), 10_000))
    ratios = np.concatenate([ratios, 2.0 ** np.arange(-46, 15), 2.0 ** np.arange(-46, 15) * (1 - 2.0**-40)])
    multipliers, shifts = multiplier_and_shift(ratios)
    assert (multipliers.min(), multipliers.max() >> 16, shifts.min() < 0, shifts.max() >> 6) == (
        1 << 15,
        0,
        False,
        0,
    )
    assert np.abs(np.ldexp(multipliers.astype(float), -shifts) / ratios - 1).max() <= 2.0**-16


def test_tiny_ratios_have_the_largest_shift_that_six_bits_hold():
    multipliers, shifts = multiplier_and_shift(np.array([2.0**-60, 2.0**-70]))
    assert (multipliers.tolist(), shifts.tolist()) == ([8, 0], [63, 63])
    assert factors_and_shift([2.0**-60, 2.0**-61]) == ((8, 4), 63)


def test_a_sum_fits_thirty_two_bits_below_half_their_range():
    assert fits_sum(2**31 - 1)
    assert not fits_sum(2**31)


@pytest.mark.parametrize("ratio", [0.0, -1.0, inf, np.nan, 32768.0])
def test_a_ratio_out_of_range_is_refused(ratio):
    with pytest.raises(ValueError, match=r"^scales make a ratio of .*, which is outside 0\.\.32768$"):
        multiplier_and_shift(np.array([ratio]))


@pytest.mark.parametrize("ratios", [(1.0, 0.3), (63.9, 1e-3), (0.99999999, 0.5), (1e-9, 1e-9), (1.0, 1e-12)])
def test_sums_with_factors_are_within_half_a_step(ratios):
    factors, shift = factors_and_shift(ratios)
    assert max(factors) < 1 << 15
    for bytes_ in pairs_of((-255, -3, 0, 1, 255), repeat=2):
        exact, rounded = (
            sum(byte * ratio for byte, ratio in zip(bytes_, parts, strict=True))
            for parts in (ratios, factors)
        )
        assert abs(exact - rounded / 2**shift) <= 0.5


@pytest.mark.parametrize("ratio", [64.0, inf, 0.0])
def test_scales_too_far_apart_for_a_sum_are_refused(ratio):
    with pytest.raises(ValueError, match=r"^scales make a ratio of (64|inf|0), which is outside 0\.\.64$"):
        factors_and_shift([ratio, 0.0])


BOUNDS = [
    ((0.0, inf), (5, 127)),
    ((-inf, inf), (-128, 127)),
    ((-1.0, 2.6), (3, 10)),
    ((300.0, 400.0), (127, 127)),
    ((3.0, 1.0), (7, 7)),
    ((inf, inf), (127, 127)),
]


@pytest.mark.parametrize(("real", "stored"), BOUNDS)
def test_bounds_are_rounded_to_what_can_be_stored(real, stored):
    bounds = Quantisation(0.5, 5).bounded(*real)
    assert (bounds.least, bounds.greatest) == stored


def test_disjoint_bounds_clip_to_the_nearest_existing_bound():
    outer = Quantisation(1.0, 0).bounded(-9.0, -5.0)
    assert outer.bounded(0.0, inf) == Quantisation(1.0, 0, -5, -5)
    assert outer.bounded(-inf, -20.0) == Quantisation(1.0, 0, -9, -9)


def test_parameters_hold_scale_bias_zero_point_and_bounds():
    words = scaling(np.array([0.5]), 3, Quantisation(1.0, 10, 0, 50))
    assert requantise(np.array([1, 2, -100, 100]), words).tolist() == [12, 13, 0, 50]


def test_a_bias_beyond_the_accumulator_makes_the_scale_of_weights_coarser():
    product = integer_product(np.array([[100, 1]], np.int8), np.array([1e-9]), np.array([3.0]))
    words = product.parameters(Quantisation(1.0, 0), OUT)
    assert product.weights.tolist() == [[36, 0]]
    assert abs(words[0, 0]) <= 1 << 30
    assert requantise(np.array([0]), words).tolist() == [3]


def test_sums_that_could_leave_the_accumulator_are_refused():
    product = integer_product(np.full((1, 70_000), 127, np.int8), np.ones(1), np.zeros(1))
    with pytest.raises(ValueError, match=r"^sums of up to 2\.26695e\+09 do not fit 32 bits$"):
        product.parameters(Quantisation(1.0, -128), OUT)
    product.parameters(Quantisation(1.0, 0), OUT)


@pytest.mark.parametrize(
    ("wide", "parts"), [([-128, 127], 1), ([0], 1), ([-255], 2), ([254], 2), ([255, 3], 3)]
)
def test_whole_numbers_as_signed_bytes(wide, parts):
    pieces = signed_bytes(np.array(wide, np.int16))
    assert len(pieces) == parts
    assert sum(part.astype(int) for part in pieces).tolist() == wide
    assert {part.dtype for part in pieces} == {np.dtype(np.int8)}
