"""How much memory an operator takes for what it makes, known from shapes and attributes before it runs.

Most operators make no more than their inputs hold, broadcast; `ELEMENTS` has the others.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from vdla.runtime.host.onnx_runtime import PART
from vdla.runtime.host.windows import spans

Inputs = Sequence[np.ndarray | None]
Attributes = Mapping[str, Any]  # as the operator's function takes them
Elements = Callable[[Inputs, Attributes], int]

WIDEST_BYTES = 8
OBJECT_BYTES = 64  # an element that NumPy hands to a function of Python
BY_ELEMENT = ("Erf", "Gelu")  # which take float64 for float32, and objects for other types


def room(op: str, inputs: Inputs, attributes: Attributes) -> int:
    """Return an upper bound of the bytes of the largest array that an operator makes.

    Raises:
        ValueError, TypeError, LookupError, ArithmeticError, AttributeError: inputs and attributes do not
            go together.
    """
    given = [x for x in inputs if x is not None]
    if op in BY_ELEMENT:
        item = WIDEST_BYTES if all(x.dtype == np.float32 for x in given) else OBJECT_BYTES
    else:
        is_float = any(x.dtype.kind == "f" for x in given)
        item = max(x.itemsize for x in given) if is_float else WIDEST_BYTES
    return item * ELEMENTS.get(op, _broadcast)(inputs, attributes)


def _broadcast(inputs: Inputs, attributes: Attributes) -> int:
    """Return the elements of all inputs, or of their common shape where that is more."""
    given = [x for x in inputs if x is not None]
    total, shapes = sum(x.size for x in given), {x.shape for x in given}
    try:
        return total if len(shapes) == 1 else max(total, prod(np.broadcast_shapes(*shapes)))
    except ValueError:  # they have no common shape: the operator broadcasts none, or refuses them itself
        return total


def _given(inputs: Inputs, place: int) -> np.ndarray:
    """Return an input that must not be left out."""
    array = inputs[place]
    if array is None:
        raise ValueError(f"input {place} is left out")
    return array


def _per_channel(axis: int | None = None) -> Elements:
    """Return the elements of an operator that shapes all inputs but the first as vectors along an axis:
    `axis`, or its attribute."""

    def elements(inputs: Inputs, attributes: Attributes) -> int:
        x = _given(inputs, 0)
        along = attributes["axis"] if axis is None else axis
        channels = x.shape[along] if x.ndim else 1
        widest = max((vector.size for vector in inputs[1:] if vector is not None), default=1)
        return x.size * (widest if channels == 1 else 1)

    return elements


def _windowed(w: int = 1) -> Elements:
    """Return the elements of a convolution with weights at `w`: padded image, windows, and result."""

    def elements(inputs: Inputs, attributes: Attributes) -> int:
        x, kernels, last = _given(inputs, 0), _given(inputs, w), inputs[-1]
        outputs, _, *kernel = kernels.shape
        image, out = _slid(x.shape[2:], kernel, **attributes)
        per_channel = last.size if outputs == 1 and last is not None else outputs
        return x.shape[0] * max(x.shape[1] * image, x.shape[1] * out * prod(kernel), per_channel * out)

    return elements


def _pooled(inputs: Inputs, attributes: Attributes) -> int:
    image = prod(_with_border(_given(inputs, 0).shape[2:], attributes["pads"]))
    reach = prod(
        2 * (stride + size)
        for stride, size in zip(attributes["strides"], attributes["kernel_shape"], strict=True)
    )
    return prod(_given(inputs, 0).shape[:2]) * (image + reach * bool(attributes.get("ceil_mode")))


def _with_border(shape: Sequence[int], pads: Sequence[int]) -> list[int]:
    """Return the extents of an image with a border."""
    ends = zip(shape, pads[: len(shape)], pads[len(shape) :], strict=True)
    return [size + begin + end for size, begin, end in ends]


def _slid(
    shape: Sequence[int],
    kernel: Sequence[int],
    *,
    dilations: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
    **others: object,
) -> tuple[int, int]:
    """Return the elements of a padded image, and how many windows it has."""
    sizes = _with_border(shape, pads)
    windows = [
        max((size - span) // stride + 1, 0)
        for size, span, stride in zip(sizes, spans(kernel, dilations), strides, strict=True)
    ]
    return prod(sizes), prod(windows)


def _spread(inputs: Inputs, attributes: Attributes) -> int:
    """Return the elements of a transposed convolution: the windows, and the result before it is cut."""
    x, w = _given(inputs, 0), _given(inputs, 1)
    _, per_group, *kernel = w.shape
    dilations, group = attributes.get("dilations", [1] * len(kernel)), attributes.get("group", 1)
    lengths = zip(
        x.shape[2:],
        attributes["strides"],
        spans(kernel, dilations),
        attributes["output_padding"],
        strict=True,
    )
    out = prod((size - 1) * step + span + more for size, step, span, more in lengths)
    return x.shape[0] * per_group * group * max(prod(x.shape[2:]) * prod(kernel), out)


def _product(b: int = 1) -> Elements:
    """Return the elements of a product of matrices, the second at place `b`."""

    def elements(inputs: Inputs, attributes: Attributes) -> int:
        left, right = _given(inputs, 0), _given(inputs, b)
        rows = left.shape[-1 if attributes.get("transA") else -2] if left.ndim > 1 else 1
        columns = right.shape[-2 if attributes.get("transB") else -1] if right.ndim > 1 else 1
        stacked = prod(np.broadcast_shapes(left.shape[:-2], right.shape[:-2])) * rows * columns
        widest = max(
            (x.size for x in inputs if x is not None and x is not left and x is not right), default=1
        )
        return max(left.size, right.size, stacked * (widest if 1 in (rows, columns) else 1))

    return elements


def _products(inputs: Inputs, attributes: Attributes) -> int:
    """Return the elements of the largest part of an operand or of the result, or of the whole result."""
    rows, columns, depth = attributes["size"]
    return max(prod(attributes["shape"]), rows * columns, depth * max(rows, columns))


def _padded(inputs: Inputs, attributes: Attributes) -> int:
    x, pads = _given(inputs, 0), attributes["pads"]
    return prod(
        max(size, size + begin + end)
        for size, begin, end in zip(x.shape, pads[: x.ndim], pads[x.ndim :], strict=True)
    )


def _gathered(inputs: Inputs, attributes: Attributes) -> int:
    x, indices = _given(inputs, 0), _given(inputs, 1)
    return indices.size * (x.size // max(x.shape[attributes["axis"]], 1))


def _counted(inputs: Inputs, attributes: Attributes) -> int:
    start, limit, delta = (_given(inputs, place).item() for place in range(3))
    return max(ceil((limit - start) / delta), 0)


def _resized(inputs: Inputs, attributes: Attributes) -> int:
    return prod(max(pair) for pair in zip(_given(inputs, 0).shape, attributes["sizes"], strict=True))


def _expanded(inputs: Inputs, attributes: Attributes) -> int:
    return prod(np.broadcast_shapes(_given(inputs, 0).shape, tuple(attributes["shape"])))


ELEMENTS: Mapping[str, Elements] = {
    "AveragePool": _pooled,
    "BatchNormalization": _per_channel(axis=1),
    "ConstantOfShape": lambda inputs, attributes: prod(attributes["shape"]),
    "Conv": _windowed(),
    "ConvInteger": _windowed(),
    "ConvTranspose": _spread,
    "DequantizeLinear": _per_channel(),
    "Expand": _expanded,
    "Gather": _gathered,
    "Gemm": _product(),
    "InstanceNormalization": _per_channel(axis=1),
    "Int8AveragePool": _pooled,
    "Int8Conv": _windowed(),
    "Int8ConvTranspose": _spread,
    "Int8Lookup": lambda inputs, attributes: 2 * _given(inputs, 0).size,
    "Int8MatMul": _product(),
    "Int8MaxPool": _pooled,
    "Int8Products": _products,
    "Int8Scale": _per_channel(),
    "Int8Softmax": lambda inputs, attributes: _given(inputs, 0).size,
    "MatMul": _product(),
    "MatMulInteger": _product(),
    "MaxPool": _pooled,
    PART: lambda inputs, attributes: sum(x.size for x in inputs if x is not None),
    "Pad": _padded,
    "QLinearConv": _windowed(3),
    "QLinearMatMul": _product(3),
    "QuantizeLinear": _per_channel(),
    "Range": _counted,
    "Resize": _resized,
    "Tile": lambda inputs, attributes: _given(inputs, 0).size * prod(attributes["repeats"]),
}
