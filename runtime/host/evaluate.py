"""The operators by name, and the one way to run them.

An operator here takes its parameters in one form whatever ONNX version they came from: what must be known before a network runs (axes,
shapes, padding, bounds) is an attribute, every attribute is given, and nothing is left to be deduced.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.hw.spec.errors import VdlaError
from vdla.runtime.host import (
    convolution,
    elementwise,
    indexing,
    logic,
    matrix,
    normalisation,
    pooling,
    quantise,
    reduce,
    resize,
    shape,
)

Operator = Callable[..., "np.ndarray | tuple[np.ndarray, ...]"]

FAMILIES = (elementwise, logic, convolution, pooling, normalisation, matrix, quantise, reduce, shape, indexing, resize)
OPERATORS: Mapping[str, Operator] = {op: function for family in FAMILIES for op, function in family.OPERATORS.items()}


class OperatorError(VdlaError):
    """An operator is unknown, or was given inputs or attributes that it does not take."""


def attributes_of(op: str) -> tuple[str, ...]:
    """Return the names of the attributes that `op` takes, all of which it needs.

    Raises:
        OperatorError: there is no such operator.
    """
    parameters = inspect.signature(operator(op)).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)


def operator(op: str) -> Operator:
    """Return the function that carries out `op`.

    Raises:
        OperatorError: there is none.
    """
    if op not in OPERATORS:
        raise OperatorError(f"operator {op!r} is unknown; there are {', '.join(sorted(OPERATORS))}")
    return OPERATORS[op]


def evaluate(op: str, inputs: Sequence[np.ndarray | None], attributes: Mapping[str, object]) -> list[np.ndarray]:
    """Run one operator.

    Args:
        inputs: one array each, in the operator's order; None for an optional one that is left out.
        attributes: exactly those of `attributes_of(op)`.

    Returns:
        Its outputs, in the operator's order.

    Raises:
        OperatorError: the operator is unknown, an input or attribute is missing or too many, or their shapes do not go together.
    """
    function = operator(op)
    _check_attributes(op, attributes)
    try:
        with np.errstate(all="ignore"):  # infinities and NaN pass through, as IEEE 754 says
            result = function(*inputs, **attributes)
    except (ValueError, TypeError, IndexError) as error:
        raise OperatorError(f"{op}({', '.join(map(_described, inputs))}): {error}") from error
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def _check_attributes(op: str, attributes: Mapping[str, object]) -> None:
    wanted = attributes_of(op)
    if sorted(wanted) != sorted(attributes):
        raise OperatorError(f"{op} has attributes {', '.join(attributes) or 'none'}; it takes {', '.join(wanted) or 'none'}")


def _described(array: np.ndarray | None) -> str:
    """Return type and shape, as in `float32[1, 3]`."""
    return "None" if array is None else f"{array.dtype}{list(array.shape)}"
