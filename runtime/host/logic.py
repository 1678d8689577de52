"""Comparisons, truth values and choice, element by element.

Source: ONNX operator specification, the operator of each entry in `OPERATORS`.
"""

import numpy as np


def where(condition: np.ndarray, then: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Return elements of `then` where the condition holds, else of `otherwise`."""
    return np.where(condition, then, otherwise)


OPERATORS = {
    "And": lambda a, b: a & b,
    "Equal": lambda a, b: a == b,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Not": lambda a: ~a,
    "Or": lambda a, b: a | b,
    "Where": where,
    "Xor": lambda a, b: a ^ b,
}
