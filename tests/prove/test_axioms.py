"""Each axiom holds, for all values that are few, and for random values of the rest."""

import numpy as np
import pytest

from vdla.hw.spec import normalisation, numerics
from vdla.hw.spec.vocabulary import Statistic
from vdla.prove.axioms import Axiom
from vdla.prove.elementwise import BY_ELEMENT
from vdla.prove.functions import BYTES
from vdla.runtime.host.evaluate import OperatorError, attributes_of, evaluate
from vdla.runtime.host.int8_normalisation import moments_operands

RNG = np.random.default_rng(1)
SUMS = sorted(
    {*range(-300, 300), *RNG.integers(-(1 << 31), 1 << 31, 300).tolist(), -(1 << 31), (1 << 31) - 1}
)


def words(bias=0, multiplier=1, shift=0, zero=0, least=-128, greatest=127):
    return numerics.requantise_parameters(bias, multiplier, shift, zero, least, greatest)


def check_odd_multiplier():
    for multiplier in (0, 2, 4, 6, 40, 256, 65534, 32768):
        for shift in (1, 2, 3, 15, 16, 31, 40, 63):
            for value in SUMS:
                even = numerics.requantise(value, words(5, multiplier, shift, -3), 32)
                odd = numerics.requantise(value, words(5, multiplier // 2, shift - 1, -3), 32)
                assert even == odd


def check_bounds_as_function():
    for least, greatest in ((-128, 127), (0, 127), (-5, 9), (7, 7), (9, -5), (-128, -128)):
        for value in SUMS:
            bounded = numerics.requantise(value, words(7, 321, 9, 3, least, greatest), 32)
            whole = numerics.requantise(value, words(7, 321, 9, 3), 32)
            assert bounded == max(least, min(whole, greatest))


def check_residual_as_sum():
    for factor, other, addend in ((1, 1, 0), (32767, -32768, 1 << 30), (-300, 17, -77)):
        for value, residual in RNG.integers(-128, 128, (300, 2)).tolist():
            residual_words = numerics.residual_parameters(addend, (factor, other), 9, 3, -100, 90)
            total = value * factor + residual * other
            assert abs(total + addend) < 1 << 31
            assert numerics.add_residual(value, residual, residual_words) == numerics.requantise(
                total, words(addend, 1, 9, 3, -100, 90), 32
            )


def check_greatest_of_set():
    for values in RNG.integers(-128, 128, (300, 4)).tolist():
        shuffled = [values[place] for place in RNG.integers(0, 4, 9)]
        assert max(values) == max([*shuffled, *values[::-1]])
        least_of_first = min(values[0], 20)
        assert max(max(values[0], least_of_first), values[1]) == max(
            max(values[0], least_of_first), max(values[1], least_of_first)
        )


def check_monotone_of_greatest():
    for _ in range(300):
        rising = np.sort(RNG.integers(-128, 128, 256))
        values = RNG.integers(0, 256, 5)
        assert rising[values.max()] == rising[values].max()
        assert rising[::-1][values.max()] == rising[::-1][values].min()


def check_greatest_of_sums():
    for _ in range(200):
        bias, multiplier, shift, zero, least, greatest = (
            int(RNG.integers(low, high))
            for low, high in (
                (-(1 << 31), 1 << 31),
                (0, 1 << 16),
                (0, 64),
                (-128, 128),
                (-128, 128),
                (-128, 128),
            )
        )
        given = words(bias, multiplier, shift, zero, least, greatest)
        sums = [value for value in SUMS if -(1 << 31) <= value + bias < 1 << 31]
        results = [numerics.requantise(value, given, 32) for value in sums]
        assert results == sorted(results)
    most = (1 << 31) - 1
    assert numerics.requantise(most, words(bias=1), 32) < numerics.requantise(
        0, words(bias=1), 32
    )  # it wraps


def check_by_element():
    """The host's operators give the same at all places of arrays of all lengths, for all bytes."""
    checked = 0
    for op in sorted(BY_ELEMENT - {"QuantizeLinear", "DequantizeLinear"}):
        if attributes_of(op):
            continue
        for count in (1, 2, 3):
            x = (BYTES / 17).astype(np.float32)
            try:
                (whole,) = evaluate(op, [x] * count, {})
            except OperatorError:
                continue
            pieces = [evaluate(op, [x[place : place + 1]] * count, {})[0] for place in range(256)]
            shifted = [evaluate(op, [x[place:]] * count, {})[0] for place in (1, 3, 7)]
            assert np.concatenate(pieces).tobytes() == whole.tobytes(), op
            for place, part in zip((1, 3, 7), shifted, strict=True):
                assert part.tobytes() == whole[place:].tobytes(), op
            checked += 1
    assert checked > 30


def check_order_of_row():
    for row in RNG.integers(-128, 128, (200, 9)).tolist():
        shuffled = RNG.permutation(row).tolist()
        powers = RNG.integers(0, 1 << 16, 256).tolist()
        assert statistics_of(row, powers) == statistics_of(shuffled, powers)


def statistics_of(row, powers):
    """Return the statistics of a row, gathered in two parts."""
    statistics = normalisation.RowStatistics()
    for statistic in Statistic:
        for part in (row[:4], row[4:]):
            statistics = normalisation.gathered(statistic, statistics, part, powers)
    return statistics


def check_normalised_row():
    for width in (1, 2, 7, 100):
        x = RNG.integers(-128, 128, (20, width)).astype(np.int8)
        powers = RNG.integers(0, 1 << 16, 256).astype(np.uint16)
        factors = RNG.integers(-(1 << 15), 1 << 15, width).astype(np.int16)
        addends = RNG.integers(-(1 << 26), 1 << 26, width).astype(np.int32)
        shared = evaluate("Int8Softmax", [x, powers, factors[0], addends[0]], {"axis": 1})[0]
        normal = evaluate("Int8LayerNormalization", [x, factors, addends], {"centred": 1, "epsilon": 77})[0]
        operands = moments_operands(width, 77, 1)
        for row, *outputs in zip(x.tolist(), shared.tolist(), normal.tolist(), strict=True):
            statistics = statistics_of(row, powers.tolist())
            for place, value in enumerate(row):
                own = operands._replace(factor=int(factors[place]), addend=int(addends[place]))
                same = operands._replace(factor=int(factors[0]), addend=int(addends[0]))
                assert [each[place] for each in outputs] == [
                    normalisation.normalised(Statistic.POWERS, statistics, value, powers.tolist(), same),
                    normalisation.normalised(Statistic.MOMENTS, statistics, value, None, own),
                ]


CHECKS = {
    Axiom.ODD_MULTIPLIER: check_odd_multiplier,
    Axiom.BOUNDS_AS_FUNCTION: check_bounds_as_function,
    Axiom.RESIDUAL_AS_SUM: check_residual_as_sum,
    Axiom.BY_ELEMENT: check_by_element,
    Axiom.GREATEST_OF_SET: check_greatest_of_set,
    Axiom.MONOTONE_OF_GREATEST: check_monotone_of_greatest,
    Axiom.GREATEST_OF_SUMS: check_greatest_of_sums,
    Axiom.ORDER_OF_ROW: check_order_of_row,
    Axiom.NORMALISED_ROW: check_normalised_row,
}


@pytest.mark.parametrize("axiom", Axiom)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_axiom(axiom):
    CHECKS[axiom]()
    assert axiom.value.endswith(".")
