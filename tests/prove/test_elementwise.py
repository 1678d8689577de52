"""Operators that the host applies element by element, over elements."""

import numpy as np
import pytest

from vdla.prove.domain import Domain
from vdla.prove.elementwise import BY_ELEMENT, ByElement, Operand, bits_of, from_bits
from vdla.prove.functions import BYTES
from vdla.runtime.host.evaluate import evaluate

SCALE, ZERO = np.array(0.3, np.float32), np.array(-7, np.int8)
INT8 = BYTES.astype(np.int8)


def applied(domain, op, operands, shape, dtype, **attributes):
    return ByElement(domain, op, attributes, shape, dtype).result(operands)


def constants(*arrays):
    return [Operand.of_constant(array) for array in arrays]


def dequantised(domain, x, scale=SCALE, zero=ZERO, axis=0):
    return applied(
        domain,
        "DequantizeLinear",
        [Operand(x, "int8"), *constants(scale, zero)],
        x.shape,
        "float32",
        axis=axis,
    )


def values_of(domain, element, dtype):
    return from_bits(domain.functions.values[int(element["function"])], dtype)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "bool", "int32", "float32", "int64", "float64", "float16"]
)
def test_bits_tell_elements(dtype):
    array = np.array([[0, 1], [1, 0]]).astype(dtype)
    np.testing.assert_array_equal(from_bits(bits_of(array), dtype), array)


def test_a_chain_of_operators_on_one_byte_is_a_function_of_it():
    domain = Domain(1)
    x = domain.fresh("x", (2, 3))
    real = dequantised(domain, x)
    bent = applied(domain, "Tanh", [Operand(real, "float32")], x.shape, "float32")
    gated = applied(domain, "Mul", [Operand(bent, "float32"), Operand(real, "float32")], x.shape, "float32")
    back = applied(
        domain,
        "QuantizeLinear",
        [Operand(gated, "float32"), *constants(SCALE, ZERO)],
        x.shape,
        "int8",
        axis=0,
    )
    numbers = evaluate("DequantizeLinear", [INT8, SCALE, ZERO], {"axis": 0})[0]
    product = np.tanh(numbers) * numbers
    (expected,) = evaluate("QuantizeLinear", [product, SCALE, ZERO], {"axis": 0})
    assert (back == domain.apply(x, domain.functions.number(expected))).all()
    np.testing.assert_array_equal(values_of(domain, gated[0, 0], "float32"), product)


def test_scales_of_channels_follow_their_axis():
    domain = Domain(1)
    x = domain.fresh("x", (2, 3, 2))
    scales, zeros = np.array([0.5, 2, 3], np.float32), np.array([1, -2, 3], np.int8)
    result = dequantised(domain, x, scales, zeros, axis=1)
    for channel in range(3):
        expected = (INT8.astype(np.float32) - zeros[channel]) * scales[channel]
        np.testing.assert_array_equal(values_of(domain, result[1, channel, 0], "float32"), expected)


def test_other_operands_make_roots_of_their_own():
    domain = Domain(1)
    x, y = (dequantised(domain, domain.fresh(name, (4,))) for name in "xy")
    left, right = Operand(x, "float32"), Operand(y, "float32")
    total = applied(domain, "Sub", [left, right], (4,), "float32")
    assert (total == applied(domain, "Sub", [left, right], (4,), "float32")).all()
    assert not (total == applied(domain, "Sub", [right, left], (4,), "float32")).any()
    assert not (total == applied(domain, "Add", [left, right], (4,), "float32")).any()
    assert len(np.unique(total)) == 4
    swapped = Operand(x[[1, 0, 2, 3]], "float32")
    assert (total == applied(domain, "Sub", [swapped, right], (4,), "float32")).tolist() == [
        False,
        False,
        True,
        True,
    ]


def test_numbers_that_are_no_bytes_have_no_table():
    domain = Domain(1)
    x = domain.unknown(domain.kind("input", "x"), (4,), "float32")
    result = applied(domain, "Relu", [Operand(x, "float32")], (4,), "float32")
    assert domain.is_wide(result).all()
    again = applied(domain, "Relu", [Operand(result, "float32")], (4,), "float32")
    assert not (again == result).any()
    narrow = applied(
        domain, "QuantizeLinear", [Operand(x, "float32"), *constants(SCALE, ZERO)], (4,), "int8", axis=0
    )
    assert not domain.is_wide(narrow).any()


def test_constants_count():
    domain = Domain(1)
    x = domain.unknown(domain.kind("input", "x"), (2, 2), "float32")
    results = [
        applied(
            domain, "Mul", [Operand(x, "float32"), *constants(np.array(row, np.float32))], (2, 2), "float32"
        )
        for row in ([1.0, 2.0], [1.0, 3.0])
    ]
    assert (results[0] == results[1]).tolist() == [[True, False], [True, False]]


def test_operators_are_those_of_the_host():
    assert {"Add", "Where", "DequantizeLinear", "QuantizeLinear", "Gelu"} < BY_ELEMENT


def test_real_numbers_of_a_greatest_byte_are_functions_of_it():
    """The bits of non-negative real numbers rise with these, so the function could move to the members."""
    domain, least = Domain(1), np.array(-128, np.int8)
    greatest = domain.maximum(domain.fresh("x", (2, 3)))
    real = dequantised(domain, greatest, zero=least)
    halved = [Operand(real, "float32"), *constants(2 * SCALE, ZERO)]
    result = applied(domain, "QuantizeLinear", halved, (3,), "int8", axis=0)
    numbers = evaluate("DequantizeLinear", [INT8, SCALE, least], {"axis": 0})[0]
    (expected,) = evaluate("QuantizeLinear", [numbers, 2 * SCALE, ZERO], {"axis": 0})
    assert (result == domain.apply(greatest, domain.functions.number(expected))).all()
    assert result["kind"].all()
