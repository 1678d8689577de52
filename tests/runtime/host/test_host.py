"""Operators on the CPU: against loops that say what they mean, exactness of integers, and what is refused."""

from itertools import product

import numpy as np
import pytest

from vdla.runtime.host.evaluate import OPERATORS, OperatorError, attributes_of, evaluate
from vdla.runtime.host.matrix import exact_matmul

RNG = np.random.default_rng(0)


def looped_conv(x, w, dilations, group, pads, strides):
    """Convolve two-dimensional images with loops over everything."""
    (n, _, height, width), (m, channels, kh, kw) = x.shape, w.shape
    sizes = ((height, kh), (width, kw))
    oh, ow = (
        (size + pads[d] + pads[d + 2] - (k - 1) * dilations[d] - 1) // strides[d] + 1
        for d, (size, k) in enumerate(sizes)
    )
    out = np.zeros((n, m, oh, ow), np.int64 if x.dtype.kind in "iu" else np.float64)
    for i, o, y, z, c, p, q in product(
        range(n), range(m), range(oh), range(ow), range(channels), range(kh), range(kw)
    ):
        row, column = y * strides[0] + p * dilations[0] - pads[0], z * strides[1] + q * dilations[1] - pads[1]
        if 0 <= row < height and 0 <= column < width:
            out[i, o, y, z] += out.dtype.type(
                x[i, o // (m // group) * channels + c, row, column]
            ) * out.dtype.type(w[o, c, p, q])
    return out


CONVOLUTIONS = [
    {"dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1)},
    {"dilations": (2, 1), "group": 2, "pads": (1, 0, 2, 1), "strides": (1, 2)},
    {"dilations": (1, 1), "group": 4, "pads": (1, 1, 1, 1), "strides": (2, 2)},
]


@pytest.mark.parametrize("how", CONVOLUTIONS)
def test_convolutions_equal_loops(how):
    x, w = (
        RNG.normal(size=(2, 4, 6, 5)).astype(np.float32),
        RNG.normal(size=(8, 4 // how["group"], 3, 2)).astype(np.float32),
    )
    (y,) = evaluate("Conv", [x, w, None], how)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, looped_conv(x, w, **how), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", CONVOLUTIONS)
def test_integer_convolutions_are_exact(how):
    x, w = (
        RNG.integers(0, 256, (1, 4, 6, 5), np.uint8),
        RNG.integers(-128, 128, (8, 4 // how["group"], 3, 2), np.int8),
    )
    point = np.array(7, np.uint8)
    (y,) = evaluate("ConvInteger", [x, w, point, None], how)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, looped_conv(x.astype(np.int64) - 7, w, **how))


@pytest.mark.parametrize("how", CONVOLUTIONS)
def test_a_transposed_convolution_is_the_adjoint_of_the_convolution(how):
    x, w = (
        RNG.normal(size=(1, 4, 6, 5)).astype(np.float32),
        RNG.normal(size=(8, 4 // how["group"], 3, 2)).astype(np.float32),
    )
    (y,) = evaluate("Conv", [x, w], how)
    other = RNG.normal(size=y.shape).astype(np.float32)
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], how["dilations"], strict=True)]
    reached = [
        (size - 1) * stride + span - how["pads"][d] - how["pads"][d + 2]
        for d, (size, stride, span) in enumerate(zip(y.shape[2:], how["strides"], spans, strict=True))
    ]
    more = [size - r for size, r in zip(x.shape[2:], reached, strict=True)]
    (back,) = evaluate("ConvTranspose", [other, w], {**how, "output_padding": more})
    assert back.shape == x.shape
    np.testing.assert_allclose((y * other).sum(), (x * back).sum(), rtol=1e-4)


@pytest.mark.parametrize("magnitude", [127, 1 << 15, 1 << 28])
def test_integer_products_are_exact_at_any_magnitude(magnitude):
    a, b = (RNG.integers(-magnitude, magnitude + 1, shape, np.int64) for shape in ((3, 600), (600, 2)))
    expected = [
        [int(sum(int(p) * int(q) for p, q in zip(row, column, strict=True))) for column in b.T] for row in a
    ]
    wrapped = [[(value + (1 << 31)) % (1 << 32) - (1 << 31) for value in row] for row in expected]
    np.testing.assert_array_equal(exact_matmul(a, b), wrapped)


@pytest.mark.parametrize(
    ("ceil_mode", "count_include_pad", "expected"),
    [
        (0, 0, [0.5, 2.0]),
        (0, 1, [1 / 3, 2.0]),
        (1, 0, [0.5, 2.0, 3.5]),
        (1, 1, [1 / 3, 2.0, 3.5]),
    ],
)
def test_average_pooling_counts_padding_where_asked_and_never_what_rounding_up_adds(
    ceil_mode, count_include_pad, expected
):
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    how = {
        "ceil_mode": ceil_mode,
        "count_include_pad": count_include_pad,
        "dilations": (1,),
        "kernel_shape": (3,),
        "pads": (1, 0),
        "strides": (2,),
    }
    (y,) = evaluate("AveragePool", [x[..., : 5 if ceil_mode else 4]], how)
    np.testing.assert_allclose(y[0, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "expected"),
    [
        ("Div", [[-7, 7, -8, 8], [2, -2, 2, -2]], {}, [-3, -3, -4, -4]),
        ("Mod", [[-7, 7], [3, -3]], {"fmod": 0}, [2, -2]),
        ("Mod", [[-7, 7], [3, -3]], {"fmod": 1}, [-1, 1]),
        ("Clip", [[-7, 0, 7]], {"min": -2, "max": 3}, [-2, 0, 3]),
        ("Clip", [[-7, 0, 7]], {"min": 5, "max": 3}, [3, 3, 3]),
        (
            "Slice",
            [[0, 1, 2, 3]],
            {"starts": (3,), "ends": (-5,), "axes": (0,), "steps": (-1,)},
            [3, 2, 1, 0],
        ),
        ("Pad", [[1, 2, 3]], {"mode": "constant", "pads": (1, -1), "value": 9}, [9, 1, 2]),
        ("Pad", [[1, 2, 3]], {"mode": "reflect", "pads": (2, 0), "value": 0}, [3, 2, 1, 2, 3]),
    ],
)
def test_integers_go_as_the_specification_says(op, inputs, attributes, expected):
    (y,) = evaluate(op, [np.array(part, np.int32) for part in inputs], attributes)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_integer_quotients_round_towards_zero_for_all_signs(dtype):
    least = max(np.iinfo(dtype).min, -9)
    pairs = [(a, b) for a in range(least, 10) for b in range(least, 10) if b]
    (y,) = evaluate("Div", [np.array(part, dtype) for part in zip(*pairs, strict=True)], {})
    assert y.dtype == dtype
    assert y.tolist() == [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]


def test_quantisation_rounds_ties_to_even_and_saturates():
    x = np.array([-1000, -2.5, -1.5, 0.5, 1.5, 1000], np.float32)
    (q,) = evaluate("QuantizeLinear", [x, np.array(1, np.float32), np.array(3, np.int8)], {"axis": 0})
    np.testing.assert_array_equal(q, [-128, 1, 1, 3, 5, 127])
    assert q.dtype == np.int8


def test_scales_go_along_their_axis():
    x, scale, point = (
        np.array([[4, 8], [6, 9]], np.int8),
        np.array([0.5, 3], np.float32),
        np.array([2, 0], np.int8),
    )
    (y,) = evaluate("DequantizeLinear", [x, scale, point], {"axis": 0})
    np.testing.assert_array_equal(y, [[1, 3], [18, 27]])


def test_what_does_not_fit_is_refused_with_types_and_shapes():
    with pytest.raises(
        OperatorError, match=r"^Add\(float32\[3\], float32\[2\]\): operands could not be broadcast"
    ):
        evaluate("Add", [np.ones(3, np.float32), np.ones(2, np.float32)], {})
    with pytest.raises(OperatorError, match=r"^Softmax has attributes axes; it takes axis$"):
        evaluate("Softmax", [np.ones(3, np.float32)], {"axes": (1,)})
    with pytest.raises(OperatorError, match=r"^operator 'Conf' is unknown; there are Abs, Add"):
        evaluate("Conf", [], {})
    with pytest.raises(OperatorError, match="3 channels are not 2 groups of 2"):
        evaluate(
            "Conv",
            [np.ones((1, 3, 4), np.float32), np.ones((2, 2, 1), np.float32)],
            {"dilations": [1], "group": 2, "pads": [0, 0], "strides": [1]},
        )


def test_every_operator_says_what_it_takes():
    assert attributes_of("Conv") == ("dilations", "group", "pads", "strides")
    assert all(isinstance(attributes_of(op), tuple) for op in OPERATORS)


TRUTH = {"And": [0, 0, 0, 1], "Or": [0, 1, 1, 1], "Xor": [0, 1, 1, 0], "Equal": [1, 0, 0, 1]}


@pytest.mark.parametrize("op", TRUTH)
def test_truth_tables(op):
    left, right = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    (result,) = evaluate(op, [left, right], {})
    assert result.dtype == bool
    assert result.tolist() == [bool(value) for value in TRUTH[op]]


def test_not_turns_truth_values_over():
    (result,) = evaluate("Not", [np.array([False, True])], {})
    assert result.tolist() == [True, False]


CASTS = [
    (np.array([-1.9, 2.9, 127.0], np.float32), "int8", [-1, 2, 127]),
    (np.array([-129, 300, 5], np.int32), "int8", [127, 44, 5]),
    (np.array([-1, 256], np.int64), "uint8", [255, 0]),
    (np.array([0, -3, 2], np.int32), "bool", [False, True, True]),
    (np.array([False, True]), "float32", [0.0, 1.0]),
    (np.array([-128, 127], np.int8), "int64", [-128, 127]),
]


@pytest.mark.parametrize(("values", "to", "expected"), CASTS)
def test_casts(values, to, expected):
    (result,) = evaluate("Cast", [values], {"to": to})
    assert result.dtype == np.dtype(to)
    assert result.tolist() == expected


def test_a_quantised_product_takes_scales_of_rows_and_columns():
    a, b = np.array([[10, 20], [30, 40]], np.int8), np.array([[1, 2], [3, 4]], np.int8)
    a_scale, b_scale = np.array([0.5, 0.25], np.float32), np.array([2.0, 4.0], np.float32)
    zero, y_scale = np.array(0, np.int8), np.array(8.0, np.float32)
    (y,) = evaluate("QLinearMatMul", [a, a_scale, zero, b, b_scale, zero, y_scale, zero], {})
    # sums [[70, 100], [150, 220]] times [[1/8, 1/4], [1/16, 1/8]], halves to even
    assert y.tolist() == [[9, 25], [9, 28]]


def test_bytes_change_their_sign_and_back():
    unsigned = np.array([[0, 127, 128, 255]], np.uint8)
    (signed,) = evaluate("FlipSign", [unsigned], {})
    np.testing.assert_array_equal(signed, np.array([[-128, -1, 0, 127]], np.int8), strict=True)
    (again,) = evaluate("FlipSign", [signed], {})
    np.testing.assert_array_equal(again, unsigned, strict=True)


def test_only_bytes_change_their_sign():
    with pytest.raises(OperatorError, match="bytes are flipped, not int16"):
        evaluate("FlipSign", [np.zeros(2, np.int16)], {})
