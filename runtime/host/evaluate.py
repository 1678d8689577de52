"""The operators by name, and the only way to run them.

An operator takes its parameters in the same form for all ONNX versions. Parameters that must be known before
a network runs (axes, shapes, padding, bounds) are attributes. Every attribute is explicit; none has to be
deduced.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import msgspec
import numpy as np

from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.limits import OPERATOR_BYTES, require_room
from vdla.hw.spec.showing import shown
from vdla.runtime.host import (
    convolution,
    elementwise,
    int8,
    int8_normalisation,
    logic,
    matrix,
    normalisation,
    onnx_runtime,
    pooling,
    quantise,
    resize,
    shape,
)
from vdla.runtime.host.room import room

Operator = Callable[..., "np.ndarray | tuple[np.ndarray, ...]"]

FAMILIES = (
    elementwise,
    logic,
    convolution,
    pooling,
    normalisation,
    matrix,
    quantise,
    shape,
    resize,
    int8,
    int8_normalisation,
    onnx_runtime,
)
OPERATORS: Mapping[str, Operator] = {
    op: function for family in FAMILIES for op, function in family.OPERATORS.items()
}


FAILURES = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, MemoryError)
"""What functions on arrays raise where inputs and attributes do not go together."""


class OperatorError(VdlaError):
    """An operator is unknown, or was given inputs or attributes that it does not take."""


@cache
def attributes_of(op: str) -> tuple[str, ...]:
    """Return the names of the attributes that `op` takes, all of which it needs.

    Raises:
        OperatorError: there is no such operator.
    """
    parameters = inspect.signature(operator(op)).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)


@cache
def _names_of(op: str) -> frozenset[str]:
    return frozenset(attributes_of(op))


def operator(op: str) -> Operator:
    """Return the function that carries out `op`.

    Raises:
        OperatorError: there is none.
    """
    if op not in OPERATORS:
        raise OperatorError(f"operator {op!r} is unknown; there are {', '.join(sorted(OPERATORS))}")
    return OPERATORS[op]


def evaluate(
    op: str, inputs: Sequence[np.ndarray | None], attributes: Mapping[str, object]
) -> list[np.ndarray]:
    """Run one operator.

    Args:
        inputs: an array each, in the operator's order; None for an optional input that is left out.
        attributes: exactly the attributes in `attributes_of(op)`.

    Returns:
        Its outputs, in the operator's order.

    Raises:
        OperatorError: the operator is unknown, an input or attribute is missing or too many, their shapes do
            not go together, or what it makes takes more than `OPERATOR_BYTES`.
    """
    function = operator(op)
    _check_attributes(op, attributes)
    try:
        with np.errstate(all="ignore"):  # infinities and NaN pass through, as IEEE 754 says
            size = room(op, inputs, attributes)
            if size > OPERATOR_BYTES:
                require_room(size, OPERATOR_BYTES, f"{_call(op, inputs)} takes", OperatorError)
            result = function(*inputs, **attributes)
    except FAILURES as error:
        raise OperatorError(f"{_call(op, inputs)}: {str(error) or type(error).__name__}") from error
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def _check_attributes(op: str, attributes: Mapping[str, object]) -> None:
    wanted = attributes_of(op)
    if attributes.keys() != _names_of(op):
        raise OperatorError(
            f"{op} has attributes {', '.join(attributes) or 'none'}; it takes {', '.join(wanted) or 'none'}"
        )


def check_types(op: str, attributes: Mapping[str, object]) -> None:
    """Refuse attributes that are not of the types that the operator's signature states; names are not
    checked.

    Raises:
        OperatorError: naming the attribute, its value and its type.
    """
    parameters = inspect.signature(operator(op)).parameters
    for name in parameters.keys() & attributes.keys():
        try:
            msgspec.convert(attributes[name], parameters[name].annotation)
        except msgspec.ValidationError as error:
            given = f"attribute {name} = {shown(attributes[name])}"
            raise OperatorError(f"{given} is not what {op} takes: {error}") from error


def _call(op: str, inputs: Sequence[np.ndarray | None]) -> str:
    return f"{op}({', '.join(map(_described, inputs))})"


def _described(array: np.ndarray | None) -> str:
    """Return type and shape, as in `float32[1, 3]`."""
    return "None" if array is None else f"{array.dtype}{list(array.shape)}"
