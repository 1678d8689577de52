"""The accelerator's operators against sums of Python integers: uneven shapes, parameters per channel."""

from itertools import product

import numpy as np
import pytest

from vdla.hw.spec.numerics import requantise
from vdla.runtime.host.evaluate import OperatorError, evaluate
from vdla.runtime.host.int8 import int8_products
from vdla.runtime.requantise import parameter_words
from vdla.runtime.requantise import requantise as requantise_arrays

RNG = np.random.default_rng(0)
WORDS = parameter_words(*(np.array([number]) for number in (77, 41000, 25, -3, -120, 125)))


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, np.int8)


def int16(*shape: int) -> np.ndarray:
    """Return weights less a zero point."""
    return RNG.integers(-383, 384, shape, np.int16)


def parameters(channels: int) -> np.ndarray:
    """Return parameters that differ from channel to channel: int64[4, channels]."""
    number = np.arange(channels)
    return parameter_words(
        RNG.integers(-900, 900, channels),
        3000 + 500 * number,
        20 - number % 2,
        number - 3,
        number - 120,
        110 - number,
    )


def requantised(sums, words: np.ndarray, channel) -> np.ndarray:
    """Return sums, requantised by the definition; `channel` returns the channel of a place in `sums`."""
    results = np.zeros(sums.shape, np.int8)
    for place, value in np.ndenumerate(sums):
        results[place] = requantise(int(value), words[:, channel(place)].tolist(), 32)
    return results


WEIGHTS = pytest.mark.parametrize("weights", [int8, int16], ids=["int8", "int16"])


@WEIGHTS
def test_a_convolution_reads_its_border_and_has_parameters_for_each_channel(weights):
    x, w, words = int8(2, 4, 5, 6), weights(6, 2, 3, 2), parameters(6)
    how = {"border": -7, "dilations": (1, 2), "group": 2, "pads": (1, 0, 2, 1), "strides": (2, 1)}
    (y,) = evaluate("Int8Conv", [x, w, words], how)
    whole = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=-7).astype(int)
    sums = np.zeros((2, 6, 3, 5), int)
    for n, m, i, j, c, p, q in product(*map(range, (2, 6, 3, 5, 2, 3, 2))):
        sums[n, m, i, j] += whole[n, m // 3 * 2 + c, 2 * i + p, j + 2 * q] * int(w[m, c, p, q])
    np.testing.assert_array_equal(y, requantised(sums, words, lambda place: place[1]), strict=True)


@WEIGHTS
@pytest.mark.parametrize("zero", [0, -128, 9])
def test_a_transposed_convolution_spreads_an_image_less_its_zero_point(weights, zero):
    x, w, words = int8(2, 3, 2, 4), weights(3, 5, 3, 2), parameters(5)
    how = {"output_padding": (1, 0), "pads": (1, 0, 0, 1), "strides": (2, 3), "zero": zero}
    (y,) = evaluate("Int8ConvTranspose", [x, w, words], how)
    whole = np.zeros((2, 5, 6, 11), int)
    for n, c, i, j, m, p, q in product(*map(range, (2, 3, 2, 4, 5, 3, 2))):
        whole[n, m, 2 * i + p, 3 * j + q] += (int(x[n, c, i, j]) - zero) * int(w[c, m, p, q])
    sums = whole[:, :, 1:, :-1]
    np.testing.assert_array_equal(y, requantised(sums, words, lambda place: place[1]), strict=True)


@WEIGHTS
def test_a_product_has_parameters_for_each_column(weights):
    x, w, words = int8(2, 3, 7), weights(7, 5), parameters(5)
    (y,) = evaluate("Int8MatMul", [x, w, words], {})
    sums = x.astype(int) @ w.astype(int)
    np.testing.assert_array_equal(y, requantised(sums, words, lambda place: place[-1]), strict=True)


@pytest.mark.parametrize(("shape", "axis"), [((2, 5, 3, 4), 1), ((2, 3, 5), -1), ((5,), 0)])
@pytest.mark.parametrize(("factors", "sets"), [(5, 5), (1, 5), (5, 1), (1, 1)])
def test_channels_are_multiplied_by_factors_and_requantised(shape, axis, factors, sets):
    x, numbers, words = int8(*shape), int8(factors), parameters(sets)
    (y,) = evaluate("Int8Scale", [x, numbers, words], {"axis": axis})
    sums = np.zeros(shape, int)
    for place in np.ndindex(shape):
        sums[place] = int(x[place]) * int(numbers[place[axis] % factors])
    np.testing.assert_array_equal(y, requantised(sums, words, lambda place: place[axis] % sets), strict=True)


@pytest.mark.parametrize("kernel", [(3, 2), (7, 6)])
def test_windows_are_summed_with_their_border_and_requantised(kernel):
    x, words = int8(2, 3, 4, 5), parameters(1)
    how = {"border": -9, "kernel_shape": kernel, "pads": (1, 0, 2, 1), "strides": (2, 1)}
    (y,) = evaluate("Int8AveragePool", [x, words], how)
    whole = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=-9).astype(int)
    (high, wide), sums = kernel, np.zeros(y.shape, int)
    assert y.shape == (2, 3, (7 - high) // 2 + 1, 6 - wide + 1)
    for n, c, i, j in np.ndindex(y.shape):
        sums[n, c, i, j] = whole[n, c, 2 * i : 2 * i + high, j : j + wide].sum()
    np.testing.assert_array_equal(y, requantised(sums, words, lambda place: 0), strict=True)


@pytest.mark.parametrize("shape", [(2, 3, 5), (4, 7), (6,)])
@pytest.mark.parametrize(
    ("op", "how", "combine"),
    [
        ("Int8Add", {"factors": (3, -5)}, lambda a, b: 3 * a - 5 * b),
        ("Int8Mul", {"zeros": (4, -9)}, lambda a, b: (a - 4) * (b + 9)),
        ("Int8Requantise", {}, lambda a: a),
    ],
)
def test_elements_are_combined_and_requantised_with_one_set_of_parameters(op, how, combine, shape):
    inputs = [int8(*shape) for _ in range(1 if op == "Int8Requantise" else 2)]
    words = parameters(1)
    (y,) = evaluate(op, [*inputs, words], how)
    sums = combine(*(part.astype(int) for part in inputs))
    np.testing.assert_array_equal(y, requantised(sums, words, lambda place: 0), strict=True)


def test_the_greatest_of_a_window_is_never_padding():
    x = int8(2, 3, 4, 5) // 4 - 90
    how = {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1), "strides": (2, 1)}
    (y,) = evaluate("Int8MaxPool", [x], how)
    assert y.shape == (2, 3, 2, 5)
    whole = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 1)), constant_values=-128)
    for n, c, i, j in np.ndindex(2, 3, 2, 5):
        assert y[n, c, i, j] == whole[n, c, 2 * i : 2 * i + 3, j : j + 2].max()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_value_is_looked_up_from_the_least_on(dtype, order):
    table = RNG.permutation(np.arange(256)).astype(dtype)
    x = np.asarray(np.arange(-128, 128, dtype=np.int8).reshape(16, 16)[:, 3:], order=order)
    (y,) = evaluate("Int8Lookup", [x, table], {})
    np.testing.assert_array_equal(y, table[x.astype(int) + 128], strict=True)


@pytest.mark.parametrize(
    ("x", "size"), [(np.zeros(2, np.int8), 255), (np.zeros(2, np.int8), 257), (np.zeros(2, np.uint8), 256)]
)
def test_a_table_of_another_size_and_other_indices_are_refused(x, size):
    with pytest.raises(OperatorError, match="a table has the 256 values of int8"):
        evaluate("Int8Lookup", [x, np.zeros(size, np.int8)], {})


@pytest.mark.parametrize("dtype", ["int16", "uint16", "bool", "float32"])
def test_only_integers_of_a_byte_change_their_sign(dtype):
    with pytest.raises(OperatorError, match=f"bytes are flipped, not {dtype}"):
        evaluate("FlipSign", [np.zeros(2, dtype)], {})


def i8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, np.int8)


def expected(a: np.ndarray, b: np.ndarray, zeros: tuple[int, int]) -> np.ndarray:
    """Return the requantised product of matrices, stacked in the leading dimensions."""
    sums = (a.astype(np.int64) - zeros[0]) @ (b.astype(np.int64) - zeros[1])
    return requantise_arrays(sums, WORDS.reshape(4, *[1] * sums.ndim))


@pytest.mark.parametrize("zeros", [(0, 0), (-128, 127)])
def test_heads_side_by_side_and_one_below_the_other(zeros):
    queries, keys = i8(1, 7, 3 * 4), i8(1, 9, 5 + 3 * 4)
    scores = int8_products(
        queries,
        keys,
        WORDS,
        a_places=(0, 0, 0, 4, 0, 8),
        b_places=(0, 5, 0, 9, 0, 13),
        places=(0, 0, 7, 0, 14, 0),
        shape=(3, 7, 9),
        size=(7, 9, 4),
        transposed=1,
        zeros=zeros,
    )
    heads = queries.reshape(7, 3, 4).transpose(1, 0, 2), keys[0, :, 5:].reshape(9, 3, 4).transpose(1, 2, 0)
    assert np.array_equal(scores, expected(*heads, zeros))
    values = i8(9, 2 * 3)
    joined = int8_products(
        scores,
        values,
        WORDS,
        a_places=(0, 0, 14, 0),
        b_places=(0, 0, 0, 3),
        places=(0, 3, 0, 0),
        shape=(7, 6),
        size=(7, 3, 9),
        transposed=0,
        zeros=zeros,
    )
    first, last = (expected(scores[head], values[:, at : at + 3], zeros) for head, at in ((0, 0), (2, 3)))
    assert np.array_equal(joined, np.hstack([last, first]))


@pytest.mark.parametrize("place", [0, 1])
def test_operands_may_be_looked_up_first(place):
    operands, table = [i8(3, 4), i8(4, 5)], i8(256)
    tables = [table if place == number else None for number in (0, 1)]
    whole = {"a_places": (0, 0), "b_places": (0, 0), "places": (0, 0), "shape": (3, 5), "size": (3, 5, 4)}
    products = int8_products(*operands, WORDS, *tables, **whole, transposed=0, zeros=(3, 4))
    operands[place] = table[operands[place].astype(int) + 128]
    assert np.array_equal(products, expected(*operands, (3, 4)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"a_places": (1, 0)}, "3x2 elements from row 1, column 0 on leave a matrix of 3x4"),
        ({"b_places": (0, 3)}, "5x2 elements from row 0, column 3 on leave a matrix of 5x4"),
        ({"places": (-1, 0)}, "3x5 elements from row -1, column 0 on leave a matrix of 3x5"),
        ({"places": (0,)}, "are no pairs of a row and a column"),
        ({"places": (0, 0, 0, 0)}, "zip"),
        ({"size": (3, 5)}, "unpack"),
    ],
)
def test_parts_stay_inside_their_matrices(changed, message):
    whole = {
        "a_places": (0, 0),
        "b_places": (0, 0),
        "places": (0, 0),
        "shape": (3, 5),
        "size": (3, 5, 2),
        "transposed": 1,
        "zeros": (0, 0),
    }
    with pytest.raises(OperatorError, match=message):
        evaluate("Int8Products", [i8(3, 4), i8(5, 4), WORDS], {**whole, **changed})
