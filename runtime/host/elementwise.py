"""Operators that work element by element, with NumPy's broadcasting, which is ONNX's.

The error function is its Taylor series around the nearest of many points. The next term that is left out is
below 1e-13, so float32 results equal the rounded results of float64 arithmetic.

Source: ONNX operator specification, the operator of each function's entry in `OPERATORS`; Abramowitz and
Stegun, Handbook of mathematical functions, 7.1.1 and 7.1.19.
"""

import math
from functools import cache, reduce
from typing import Literal

import numpy as np

from vdla.runtime.host.dtypes import TensorDtype

FINENESS = 1 << 10  # points per unit
FARTHEST = 4.0  # from where on float32 holds nothing nearer to the result than 1
BLOCK = 1 << 14  # elements at a time, so that what is computed of them stays in the processor's cache

_exact = np.frompyfunc(math.erf, 1, 1)


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function of each element, in the type of x; of NaN it is NaN."""
    if x.dtype != np.float32:
        return np.asarray(_exact(x.astype(np.float64))).astype(x.dtype)
    output = np.empty(x.shape, np.float32)
    elements, results = np.ascontiguousarray(x).reshape(-1), output.reshape(-1)
    for start in range(0, elements.size, BLOCK):
        block = elements[start : start + BLOCK]
        results[start : start + BLOCK] = np.copysign(_of_magnitudes(np.abs(block)), block)
    return output


def _of_magnitudes(magnitudes: np.ndarray) -> np.ndarray:
    """Return the error function of float32[n] that are not negative, float64[n]."""
    values, slopes = _points()
    places = np.rint(np.fmin(magnitudes, FARTHEST) * FINENESS).astype(np.intp)
    near = places / FINENESS
    rest = np.minimum(magnitudes, FARTHEST) - near
    series = rest * (1 - rest * (near - rest * (2 * near * near - 1) / 3))
    interpolated: np.ndarray = values[places] + slopes[places] * series
    return interpolated


@cache
def _points() -> tuple[np.ndarray, np.ndarray]:
    """Return the function and its first derivative at the points, float64[points] each."""
    points = np.arange(int(FARTHEST * FINENESS) + 1) / FINENESS
    slopes = 2 / math.sqrt(math.pi) * np.exp(-np.square(points))
    return np.array([math.erf(point) for point in points]), slopes


def div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Divide; integers round towards zero."""
    if a.dtype.kind == "f":
        return a / b
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype)


def power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Raise to a power; the result has the type of `base`."""
    wide = base.astype(np.float64) if exponent.dtype.kind == "f" and base.dtype.kind != "f" else base
    return np.power(wide, exponent).astype(base.dtype)


def mod(a: np.ndarray, b: np.ndarray, *, fmod: int) -> np.ndarray:
    """Return the remainder, with the sign of `a` if `fmod`, else with the sign of `b`."""
    return np.fmod(a, b) if fmod else np.mod(a, b)


def relu(x: np.ndarray) -> np.ndarray:
    """Return x where it is positive, else 0."""
    return np.maximum(x, x.dtype.type(0))


def leaky_relu(x: np.ndarray, *, alpha: float) -> np.ndarray:
    """Return x, multiplied by `alpha` where it is negative."""
    return np.where(x < 0, x * x.dtype.type(alpha), x)


def prelu(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return x, multiplied by `slope` where it is negative."""
    return np.where(x < 0, x * slope, x)


def elu(x: np.ndarray, *, alpha: float) -> np.ndarray:
    """Return x where it is positive, else alpha (exp(x) - 1)."""
    return np.where(x < 0, alpha * np.expm1(x), x)


def clip(x: np.ndarray, *, min: float | int, max: float | int) -> np.ndarray:
    """Bound each element; where `min` is above `max`, all become `max`."""
    return np.minimum(np.maximum(x, x.dtype.type(min)), x.dtype.type(max))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def hard_sigmoid(x: np.ndarray, *, alpha: float, beta: float) -> np.ndarray:
    """Return alpha x + beta, bounded by 0 and 1."""
    return np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), 0, 1)


def hard_swish(x: np.ndarray) -> np.ndarray:
    """Return x times its hard sigmoid with slope 1/6 and offset 1/2."""
    return x * hard_sigmoid(x, alpha=1 / 6, beta=0.5)


def softplus(x: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(x)), without overflow."""
    return np.logaddexp(x, x.dtype.type(0))


def softsign(x: np.ndarray) -> np.ndarray:
    """Return x / (1 + |x|)."""
    return x / (1 + np.abs(x))


def gelu(x: np.ndarray, *, approximate: Literal["none", "tanh"]) -> np.ndarray:
    """Return x times the normal distribution's value at x, exactly ("none") or by its usual approximation
    ("tanh")."""
    if approximate == "tanh":
        return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return x * (1 + erf(x / math.sqrt(2))) / 2


def total(*inputs: np.ndarray) -> np.ndarray:
    """Add all inputs."""
    return reduce(np.add, inputs)


def mean(*inputs: np.ndarray) -> np.ndarray:
    """Return the mean of all inputs."""
    return total(*inputs) / len(inputs)


def maximum(*inputs: np.ndarray) -> np.ndarray:
    """Return the greatest of all inputs."""
    return reduce(np.maximum, inputs)


def minimum(*inputs: np.ndarray) -> np.ndarray:
    """Return the least of all inputs."""
    return reduce(np.minimum, inputs)


def identity(x: np.ndarray) -> np.ndarray:
    """Return x; dropout does no more once a network is trained."""
    return x


def cast(x: np.ndarray, *, to: TensorDtype) -> np.ndarray:
    """Convert to the type `to`: floats round towards zero, integers wrap."""
    return x.astype(to)


OPERATORS = {
    "Abs": lambda x: np.abs(x),
    "Add": lambda a, b: a + b,
    "Cast": cast,
    "Ceil": lambda x: np.ceil(x),
    "Clip": clip,
    "Cos": lambda x: np.cos(x),
    "Div": div,
    "Dropout": identity,
    "Elu": elu,
    "Erf": erf,
    "Exp": lambda x: np.exp(x),
    "Floor": lambda x: np.floor(x),
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Identity": identity,
    "LeakyRelu": leaky_relu,
    "Log": lambda x: np.log(x),
    "Max": maximum,
    "Mean": mean,
    "Min": minimum,
    "Mod": mod,
    "Mul": lambda a, b: a * b,
    "Neg": lambda x: -x,
    "PRelu": prelu,
    "Pow": power,
    "Reciprocal": lambda x: 1 / x,
    "Relu": relu,
    "Round": lambda x: np.rint(x),
    "Sigmoid": sigmoid,
    "Sign": lambda x: np.sign(x),
    "Sin": lambda x: np.sin(x),
    "Softplus": softplus,
    "Softsign": softsign,
    "Sqrt": lambda x: np.sqrt(x),
    "Sub": lambda a, b: a - b,
    "Sum": total,
    "Tanh": lambda x: np.tanh(x),
}
