"""Import of operators on shapes and positions, with non-negative axes and explicit extents.

Source: ONNX operator specification and its changelog.
"""

import numpy as np

from vdla.compiler.graph.onnx.call import Form, Importer, OnnxCall, RefusalError, distinct_axes, positive_axis
from vdla.compiler.graph.onnx.tensors import shortest


def reshape(call: OnnxCall) -> Form:
    """Import a Reshape with its full shape; ONNX allows inferred extents."""
    return Form("Reshape", call.inputs[:1], {"shape": call.output_type.shape})


def expand(call: OnnxCall) -> Form:
    """Import an Expand with its full shape; in ONNX, 1 keeps an extent."""
    return Form("Expand", call.inputs[:1], {"shape": call.output_type.shape})


def flatten(call: OnnxCall) -> Form:
    """Import a Flatten with a non-negative axis, which may equal the rank."""
    axis = call.integer("axis")
    return Form("Flatten", call.inputs, {"axis": axis if axis == call.rank else call.axis()})


def squeeze(call: OnnxCall) -> Form:
    """Import a Squeeze; without axes, it drops every dimension of extent 1."""
    axes = call.integers("axes", 1)
    dropped = (
        distinct_axes(axes, call.rank)
        if axes
        else tuple(axis for axis, size in enumerate(call.shape) if size == 1)
    )
    return Form("Squeeze", call.inputs[:1], {"axes": dropped})


def unsqueeze(call: OnnxCall) -> Form:
    """Import an Unsqueeze, whose axes are dimensions of the result."""
    return Form(
        "Unsqueeze",
        call.inputs[:1],
        {"axes": distinct_axes(call.needed_integers("axes", 1), len(call.output_type.shape))},
    )


def transpose(call: OnnxCall) -> Form:
    """Import a Transpose; without a permutation, it reverses the dimensions."""
    return Form("Transpose", call.inputs, {"perm": call.extents("perm", tuple(reversed(range(call.rank))))})


def along_axis(call: OnnxCall) -> Form:
    """Import Concat, Gather and GatherElements."""
    return Form(call.op, call.inputs, {"axis": call.axis()})


def split(call: OnnxCall) -> Form:
    """Import a Split with the sizes of all parts."""
    axis = call.axis()
    parts = [part for part in call.outputs if part is not None]
    if len(parts) < len(call.outputs):
        raise RefusalError("the sizes of its parts cannot be known")
    return Form("Split", call.inputs[:1], {"axis": axis, "split": tuple(part.shape[axis] for part in parts)})


def tile(call: OnnxCall) -> Form:
    """Import a Tile with constant repeats."""
    return Form("Tile", call.inputs[:1], {"repeats": call.needed_integers("repeats", 1)})


def slice_(call: OnnxCall) -> Form:
    """Import a Slice with positions clipped to the extents.

    The end of a reversed slice that includes the first element is `-extent - 1`.
    """
    starts, ends = call.needed_integers("starts", 1), call.needed_integers("ends", 2)
    axes, steps = call.integers("axes", 3), call.integers("steps", 4)
    axes = (
        tuple(positive_axis(axis, call.rank) for axis in axes)
        if axes is not None
        else tuple(range(len(starts)))
    )
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise RefusalError(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} do not go together")
    cuts = [
        _bounded(start, end, step, call.shape[axis])
        for start, end, step, axis in zip(starts, ends, steps, axes, strict=True)
    ]
    return Form(
        "Slice",
        call.inputs[:1],
        {
            "axes": axes,
            "ends": tuple(end for _, end in cuts),
            "starts": tuple(start for start, _ in cuts),
            "steps": steps,
        },
    )


def _bounded(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    start, end, _ = slice(start, end, step).indices(size)
    return start, end if end >= 0 else -size - 1


def pad(call: OnnxCall) -> Form:
    """Import a Pad with pads for all dimensions."""
    call.require("mode", "constant", "reflect", "edge", "wrap")
    pads, axes = call.needed_integers("pads", 1), call.integers("axes", 3)
    axes = tuple(range(call.rank)) if axes is None else tuple(positive_axis(axis, call.rank) for axis in axes)
    if len(pads) != 2 * len(axes):
        raise RefusalError(f"pads {pads} are not two for each of the axes {axes}")
    full = [0] * (2 * call.rank)
    for place, axis in enumerate(axes):
        full[axis], full[call.rank + axis] = pads[place], pads[len(axes) + place]
    return Form(
        "Pad",
        call.inputs[:1],
        {"mode": call.attribute("mode", str), "pads": tuple(full), "value": _pad_value(call)},
    )


def _pad_value(call: OnnxCall) -> float | int:
    if call.has(2):
        value: float = call.known(2, "value").item()
    else:
        value = call.attribute("value", float, 0.0)
    return shortest(value) if np.dtype(call.input_type(0).dtype).kind == "f" else int(value)


def shape(call: OnnxCall) -> np.ndarray:
    """Return the constant result of a Shape."""
    return np.array(call.shape[call.integer("start", 0) : call.integer("end", call.rank)], np.int64)


def size(call: OnnxCall) -> np.ndarray:
    """Return the constant result of a Size."""
    return np.array(call.input_type(0).size, np.int64)


def constant_of_shape(call: OnnxCall) -> Form:
    """Import a ConstantOfShape with an explicit shape; the default value is a float32 0."""
    value = call.attribute("value", np.ndarray, np.zeros(1, np.float32))
    number = shortest(value.item()) if value.dtype == np.float32 else value.item()
    return Form(
        "ConstantOfShape",
        (),
        {"dtype": call.output_type.dtype, "shape": call.output_type.shape, "value": number},
    )


IMPORTERS: dict[str, Importer] = {
    "Concat": along_axis,
    "ConstantOfShape": constant_of_shape,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": along_axis,
    "GatherElements": along_axis,
    "Pad": pad,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
