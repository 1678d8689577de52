"""The error function in float32 and in float64."""

import math

import numpy as np
import pytest

from vdla.runtime.host import error_function
from vdla.runtime.host.error_function import BLOCK, erf

RNG = np.random.default_rng(0)


def exact(x: np.ndarray) -> np.ndarray:
    """Return the error function, computed in float64, in the type of x."""
    return np.array([math.erf(each) for each in x.ravel().tolist()]).astype(x.dtype).reshape(x.shape)


@pytest.mark.parametrize("reach", [1e-30, 1e-3, 1.0, 6.0])
def test_float32_results_are_those_of_float64_rounded(reach):
    x = RNG.uniform(-reach, reach, (3, BLOCK)).astype(np.float32)
    found, wanted = erf(x), exact(x)
    assert found.dtype == np.float32
    np.testing.assert_array_max_ulp(found, wanted, 1)
    assert (found != wanted).sum() <= 1  # one that lies between two float32 numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_and_signs(dtype):
    found = erf(np.array([0.0, -0.0, np.inf, -np.inf, 4, -4, np.nan], dtype))
    np.testing.assert_array_equal(found, np.array([0, 0, 1, -1, *[math.erf(4), -math.erf(4)], np.nan], dtype))
    np.testing.assert_array_equal(np.signbit(found[:6]), [False, True] * 3)


def test_elements_of_float32_are_not_handed_to_python(monkeypatch):
    monkeypatch.setattr(error_function, "_exact", None)
    assert erf(np.zeros(3, np.float32)).tolist() == [0, 0, 0]


def test_float64_is_exact():
    x = RNG.normal(size=(4, 50))
    np.testing.assert_array_equal(erf(x), exact(x))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3, 5), (BLOCK + 1,)])
def test_shapes_stay_and_strides_do_not_matter(shape):
    x = RNG.normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(erf(x), exact(x))
    np.testing.assert_array_equal(erf(x.T), exact(x.T))
