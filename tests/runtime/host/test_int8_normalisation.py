"""Softmax and layer normalisation in integers, against the arithmetic of NORMALISE row by row."""

import numpy as np
import pytest

from vdla.hw.spec.normalisation import NormalOperands, RowStatistics, gathered, normalised
from vdla.hw.spec.vocabulary import Statistic
from vdla.runtime.host.evaluate import OperatorError, evaluate
from vdla.runtime.host.int8_normalisation import moments_operands

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Give each test the same random numbers, whichever tests ran before it."""
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def some(bits: int, *shape: int) -> np.ndarray:
    """Return signed numbers of `bits` bits."""
    return RNG.integers(-(1 << bits - 1), 1 << bits - 1, shape)


def bytes_between(least: int, greatest: int, *shape: int) -> np.ndarray:
    return RNG.integers(least, greatest + 1, shape).astype(np.int8)


def softmax_of(row: list[int], powers: list[int], factor: int, addend: int) -> list[int]:
    """Return the outputs of a row, as the definition computes them."""
    statistics = gathered(Statistic.GREATEST, RowStatistics(), row, powers)
    statistics = gathered(Statistic.POWERS, statistics, row, powers)
    normal = NormalOperands(addend, factor, 0, 0, 0, 0)
    return [normalised(Statistic.POWERS, statistics, value, powers, normal) for value in row]


def normals_of(row: list[int], factors: list[int], addends: list[int], normal: NormalOperands) -> list[int]:
    """Return the outputs of a row, as the definition computes them."""
    statistics = gathered(Statistic.MOMENTS, RowStatistics(), row, None)
    return [
        normalised(Statistic.MOMENTS, statistics, value, None, normal._replace(factor=factor, addend=addend))
        for value, factor, addend in zip(row, factors, addends, strict=True)
    ]


ROWS = {
    "all values": bytes_between(-128, 127, 40, 33),
    "near values": bytes_between(3, 5, 40, 20),
    "equal values": np.repeat(np.arange(-128, 128).astype(np.int8)[:, None], 16, axis=1),
    "single values": bytes_between(-128, 127, 20, 1),
    "pairs": bytes_between(-128, 127, 20, 2),
    "long rows": bytes_between(-128, 127, 2, 3000),
    "long equal rows": np.full((1, 65535), -128, np.int8),
}
WIDTHS = {"narrow": (8, 20, 10), "wide": (16, 32, 32)}
"""Bits of factors, of addends and of epsilon."""


@pytest.mark.parametrize("power_bits", [1, 6, 16])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("title", ROWS)
def test_softmax_is_that_of_the_instruction(title, width, power_bits):
    x, (factor_bits, addend_bits, _) = ROWS[title], WIDTHS[width]
    powers = RNG.integers(0, 1 << power_bits, 256).astype(np.uint16)
    factor, addend = np.int16(some(factor_bits)), np.int32(some(addend_bits))
    (result,) = evaluate("Int8Softmax", [x, powers, factor, addend], {"axis": 1})
    expected = [softmax_of(row, powers.tolist(), int(factor), int(addend)) for row in x.tolist()]
    assert result.dtype == np.int8
    assert result.tolist() == expected


@pytest.mark.parametrize(("factor", "addend"), [(32767, 2**31 - 1), (-32768, -(2**31)), (32767, -(2**31))])
def test_the_widest_parameters_do_not_wrap(factor, addend):
    x, powers = np.array([[5, 5, 127]], np.int8), np.full(256, 65535, np.uint16)
    (result,) = evaluate("Int8Softmax", [x, powers, np.int16(factor), np.int32(addend)], {"axis": 1})
    assert result.tolist() == [softmax_of([5, 5, 127], powers.tolist(), factor, addend)]


def test_a_row_without_powers_is_the_addend():
    given = [bytes_between(-9, 9, 2, 5), np.zeros(256, np.uint16), np.int16(99), np.int32(7 << 18)]
    assert evaluate("Int8Softmax", given, {"axis": 1})[0].tolist() == [[7] * 5] * 2


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_is_along_its_axis(axis):
    x = bytes_between(-128, 127, 3, 4, 5)
    parameters = [RNG.integers(0, 65536, 256).astype(np.uint16), np.int16(1024), np.int32(1 << 17)]
    (result,) = evaluate("Int8Softmax", [x, *parameters], {"axis": axis})
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    (moved,) = evaluate("Int8Softmax", [rows, *parameters], {"axis": -1})
    np.testing.assert_array_equal(result, np.moveaxis(moved, -1, axis))
    assert result.flags.c_contiguous


def test_the_order_of_elements_does_not_change_their_softmax():
    x, order = bytes_between(-128, 127, 1, 5000), RNG.permutation(5000)
    parameters = [RNG.integers(0, 65536, 256).astype(np.uint16), np.int16(30000), np.int32(1 << 17)]
    (result,), (permuted,) = (
        evaluate("Int8Softmax", [y, *parameters], {"axis": 1}) for y in (x, x[:, order])
    )
    np.testing.assert_array_equal(permuted, result[:, order])


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("title", ROWS)
def test_layer_normalisation_is_that_of_the_instruction(title, width, centred):
    x, (factor_bits, addend_bits, epsilon_bits) = ROWS[title], WIDTHS[width]
    factors = some(factor_bits, x.shape[1]).astype(np.int16)
    addends = some(addend_bits, x.shape[1]).astype(np.int32)
    for epsilon in (0, int(RNG.integers(1 << epsilon_bits))):
        attributes = {"centred": centred, "epsilon": epsilon}
        (result,) = evaluate("Int8LayerNormalization", [x, factors, addends], attributes)
        normal = moments_operands(x.shape[1], epsilon, centred)
        expected = [normals_of(row, factors.tolist(), addends.tolist(), normal) for row in x.tolist()]
        assert result.dtype == np.int8
        assert result.tolist() == expected


@pytest.mark.parametrize(
    ("count", "exponent", "reciprocal"),
    [(1, 0, 65535), (3, 1, 43691), (768, 9, 43691), (1024, 10, 65535), (65535, 15, 32769)],
)
def test_the_reciprocal_of_the_count_has_16_bits(count, exponent, reciprocal):
    assert moments_operands(count, 5, 1)[2:] == (count, exponent, reciprocal, 5)
    assert moments_operands(count, 5, 0).reciprocal == 0


@pytest.mark.parametrize("count", [0, 65536])
def test_rows_of_other_lengths_are_refused(count):
    given = [np.zeros((1, count), np.int8), np.zeros(count, np.int16), np.zeros(count, np.int32)]
    with pytest.raises(OperatorError, match=rf"a row has {count} values, which is outside 1..65535"):
        evaluate("Int8LayerNormalization", given, {"centred": 1, "epsilon": 0})
