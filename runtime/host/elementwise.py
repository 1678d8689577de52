"""Operators that work element by element, with NumPy's broadcasting, which is ONNX's.

Source: ONNX operator specification, the operator of each function's entry in `OPERATORS`.
"""

import math
from functools import reduce
from typing import Literal

import numpy as np

from vdla.runtime.host.dtypes import TensorDtype
from vdla.runtime.host.error_function import erf


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
    """Return the remainder, with the sign of `a` if `fmod`, else with that of `b`."""
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
