"""Operators element by element, against Python's arithmetic where their forms change; the error function."""

import math

import numpy as np
import pytest

from vdla.runtime.host import elementwise
from vdla.runtime.host.elementwise import BLOCK, erf
from vdla.runtime.host.evaluate import evaluate

X = np.array([-7.5, -3.0, -1.0, -0.25, -0.0, 0.0, 0.4, 1.0, 2.5, 3.0, 7.5], np.float32)
RNG = np.random.default_rng(0)


def normal(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


def near_normal(x: float) -> float:
    return (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def bounded(x: float) -> float:
    return min(max(x, 0.0), 1.0)


FORMULAS = {
    ("Abs",): abs,
    ("Ceil",): math.ceil,
    ("Cos",): math.cos,
    ("Dropout",): float,
    ("Elu", ("alpha", 0.7)): lambda x: x if x >= 0 else 0.7 * math.expm1(x),
    ("Erf",): math.erf,
    ("Exp",): math.exp,
    ("Floor",): math.floor,
    ("Gelu", ("approximate", "none")): lambda x: x * normal(x),
    ("Gelu", ("approximate", "tanh")): lambda x: x * near_normal(x),
    ("HardSigmoid", ("alpha", 0.3), ("beta", 0.6)): lambda x: bounded(0.3 * x + 0.6),
    ("HardSwish",): lambda x: x * bounded(x / 6 + 0.5),
    ("Identity",): float,
    ("LeakyRelu", ("alpha", 0.3)): lambda x: x if x >= 0 else 0.3 * x,
    ("Neg",): lambda x: -x,
    ("Relu",): lambda x: max(x, 0.0),
    ("Round",): round,
    ("Sigmoid",): lambda x: 1 / (1 + math.exp(-x)),
    ("Sign",): lambda x: (x > 0) - (x < 0),
    ("Sin",): math.sin,
    ("Softplus",): lambda x: math.log1p(math.exp(x)),
    ("Softsign",): lambda x: x / (1 + abs(x)),
    ("Tanh",): math.tanh,
    ("Clip", ("min", -1.5), ("max", 2)): lambda x: min(max(x, -1.5), 2),
}
POSITIVE = {"Log": math.log, "Sqrt": math.sqrt, "Reciprocal": lambda x: 1 / x}


@pytest.mark.parametrize("op", FORMULAS, ids=str)
def test_each_element_is_that_of_the_formula(op):
    name, *attributes = op
    (y,) = evaluate(name, [X], dict(attributes))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, [FORMULAS[op](float(x)) for x in X], rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("op", POSITIVE)
def test_each_positive_element_is_that_of_the_formula(op):
    (y,) = evaluate(op, [X[X > 0]], {})
    np.testing.assert_allclose(y, [POSITIVE[op](float(x)) for x in X[X > 0]], rtol=1e-6, atol=1e-7)


A, B, C = np.array([[3.0], [-5.0]], np.float32), np.array([2.0, -4.0, 7.0], np.float32), np.float32([1, 2, 4])


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        ("Add", [A, B], [[5, -1, 10], [-3, -9, 2]]),
        ("Sub", [A, B], [[1, 7, -4], [-7, -1, -12]]),
        ("Mul", [A, B], [[6, -12, 21], [-10, 20, -35]]),
        ("Div", [A, C], [[3, 1.5, 0.75], [-5, -2.5, -1.25]]),
        ("PRelu", [A, B], [[3, 3, 3], [-10, 20, -35]]),
        ("Max", [A, B, C], [[3, 3, 7], [2, 2, 7]]),
        ("Min", [A, B, C], [[1, -4, 3], [-5, -5, -5]]),
        ("Sum", [A, B, C], [[6, 1, 14], [-2, -7, 6]]),
        ("Mean", [A, B, C], [[2, 1 / 3, 14 / 3], [-2 / 3, -7 / 3, 2]]),
        ("Max", [A], [[3], [-5]]),
        ("Greater", [A, B], [[True, True, False], [False, False, False]]),
        ("GreaterOrEqual", [C, C[::-1]], [False, True, True]),
        ("Greater", [C, C[::-1]], [False, False, True]),
        ("Less", [C, C[::-1]], [True, False, False]),
        ("LessOrEqual", [C, C[::-1]], [True, True, False]),
        ("Equal", [C, C[::-1]], [False, True, False]),
        ("Where", [np.array([[True], [False]]), B, C], [[2, -4, 7], [1, 2, 4]]),
    ],
)
def test_inputs_are_combined_with_broadcasting(op, inputs, expected):
    (y,) = evaluate(op, inputs, {})
    assert y.dtype == (bool if np.array(expected).dtype == bool else np.float32)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        (np.int32([2, 3, -2]), np.int32([5, 2, 3]), np.int32([32, 9, -8])),
        (np.int32([4, 9]), np.float32([0.5, 0.5]), np.int32([2, 3])),
        (np.int64([(1 << 53) + 1]), np.int64([1]), np.int64([(1 << 53) + 1])),
        (np.float32([4, 9]), np.int32([2, -1]), np.float32([16, 1 / 9])),
        (np.float32([4]), np.float32([0.5]), np.float32([2])),
    ],
)
def test_a_power_has_the_type_of_its_base(base, exponent, expected):
    (y,) = evaluate("Pow", [base, exponent], {})
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_large_numbers_do_not_overflow_where_the_result_does_not():
    (y,) = evaluate("Softplus", [np.float32([-500, 0, 500])], {})
    np.testing.assert_allclose(y, [0, math.log(2), 500], rtol=1e-6)


def test_types_of_integers_stay():
    for op, attributes in (("Relu", {}), ("Abs", {}), ("Clip", {"min": -1, "max": 3}), ("Identity", {})):
        (y,) = evaluate(op, [np.int8([-5, 2, 9])], attributes)
        assert y.dtype == np.int8, op


def exact(x: np.ndarray) -> np.ndarray:
    """Return the error function, computed in float64, in the type of x."""
    return np.array([math.erf(each) for each in x.ravel().tolist()]).astype(x.dtype).reshape(x.shape)


@pytest.mark.parametrize("reach", [1e-30, 1e-3, 1.0, 6.0])
def test_float32_results_are_those_of_float64_rounded(reach):
    x = RNG.uniform(-reach, reach, (3, BLOCK)).astype(np.float32)
    result, wanted = erf(x), exact(x)
    assert result.dtype == np.float32
    np.testing.assert_array_max_ulp(result, wanted, 1)
    assert (result != wanted).sum() <= 1  # a result that lies between two float32 numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_and_signs(dtype):
    result = erf(np.array([0.0, -0.0, np.inf, -np.inf, 4, -4, np.nan], dtype))
    np.testing.assert_array_equal(
        result, np.array([0, 0, 1, -1, *[math.erf(4), -math.erf(4)], np.nan], dtype)
    )
    np.testing.assert_array_equal(np.signbit(result[:6]), [False, True] * 3)


def test_elements_of_float32_are_not_handed_to_python(monkeypatch):
    monkeypatch.setattr(elementwise, "_exact", None)
    assert erf(np.zeros(3, np.float32)).tolist() == [0, 0, 0]


def test_float64_is_exact():
    x = RNG.normal(size=(4, 50))
    np.testing.assert_array_equal(erf(x), exact(x))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3, 5), (BLOCK + 1,)])
def test_shapes_stay_and_strides_do_not_matter(shape):
    x = RNG.normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(erf(x), exact(x))
    np.testing.assert_array_equal(erf(x.T), exact(x.T))
