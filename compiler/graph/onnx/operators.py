"""Import of operators on whole tensors: elementwise, reductions, products, shapes and positions.

Every operator of `vdla.runtime.host` that ONNX has is imported. It gets the attributes that its function
takes: all explicit, dimensions as non-negative numbers, and parameters that are inputs in some versions as
attributes.

Source: ONNX operator specification and its changelog.
"""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import defs

from vdla.compiler.graph.nodes import Attribute, TensorType
from vdla.compiler.graph.onnx.call import Form, Importer, OnnxCall, RefusalError, distinct_axes, positive_axis
from vdla.compiler.graph.onnx.tensors import shortest
from vdla.runtime.host.evaluate import OPERATORS, attributes_of

REDUCTIONS = tuple(op for op in OPERATORS if op.startswith("Reduce"))
WITHOUT_EFFECT_ON_ONE = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
AS_INPUTS: Mapping[str, tuple[str, ...]] = {
    "Clip": ("min", "max"),
    "Expand": ("shape",),
    "Pad": ("pads", "value"),
    "Reshape": ("shape",),
    "Slice": ("starts", "ends", "axes", "steps"),
    "Split": ("split",),
    "Squeeze": ("axes",),
    "Tile": ("repeats",),
    "Unsqueeze": ("axes",),
    **dict.fromkeys(REDUCTIONS, ("axes",)),
}
"""Attributes of the graph's operators that are inputs in ONNX, from the second input on."""
REQUIRED = {"spatial": 1, "stash_type": 1, "training_mode": 0}
"""Attributes that must have a value: inference, and accumulation in float32."""
IGNORED = {*REQUIRED, "allowzero", "momentum", "noop_with_empty_axes", "num_outputs"}
"""Attributes without a further effect once the types of outputs are known."""
DEFAULTS: Mapping[str, Attribute] = {"mode": "DCR", "select_last_index": 0}
"""Values of attributes in versions that do not have them."""


def uniform(call: OnnxCall) -> Form:
    """Import an operator by the readers of its attributes; inputs that become attributes are dropped."""
    for name, value in REQUIRED.items():
        call.require(name, value)
    names = attributes_of(call.op)
    more = sorted(set(call.attributes) - {*names, *IGNORED})
    if more:
        raise RefusalError(f"attribute {more[0]} is not supported")
    inputs = call.inputs[:1] if call.op in AS_INPUTS else call.inputs
    return Form(call.op, inputs, {name: _read(call, name) for name in names})


def _read(call: OnnxCall, name: str) -> Attribute:
    """Return an attribute by its reader; without a reader, its value or its default."""
    reader = READERS.get(f"{call.op}.{name}", READERS.get(name))
    if reader is not None:
        return reader(call)
    value = call.attributes[name] if name in call.attributes else DEFAULTS[name]
    assert not isinstance(value, np.ndarray), f"attribute {name} of {call.op} is a tensor"
    return value


def _last_axis(call: OnnxCall) -> int:
    """Return the axis of a Flatten, which may equal the rank."""
    axis = call.integer("axis")
    return axis if axis == call.rank else call.axis()


def _axes(call: OnnxCall) -> tuple[int, ...]:
    """Return the axes of a reduction; without axes, it reduces all dimensions."""
    axes = call.integers("axes", 1)
    return distinct_axes(axes, call.rank) if axes else tuple(range(call.rank))


def _dropped_axes(call: OnnxCall) -> tuple[int, ...]:
    """Return the axes of a Squeeze; without axes, it drops every dimension of extent 1."""
    axes = call.integers("axes", 1)
    unit_axes = tuple(axis for axis, size in enumerate(call.shape) if size == 1)
    return distinct_axes(axes, call.rank) if axes else unit_axes


def _new_axes(call: OnnxCall) -> tuple[int, ...]:
    """Return the axes of an Unsqueeze, which are dimensions of the result."""
    return distinct_axes(call.needed_integers("axes", 1), len(call.output_type.shape))


def _parts(call: OnnxCall) -> tuple[int, ...]:
    """Return the sizes of all parts of a Split."""
    parts = [part for part in call.outputs if part is not None]
    if len(parts) < len(call.outputs):
        raise RefusalError("the sizes of its parts cannot be known")
    return tuple(part.shape[call.axis()] for part in parts)


READERS: Mapping[str, Callable[[OnnxCall], Attribute]] = {
    "Flatten.axis": _last_axis,
    "Squeeze.axes": _dropped_axes,
    "Unsqueeze.axes": _new_axes,
    "axes": _axes,
    "axis": OnnxCall.axis,
    "perm": lambda call: call.extents("perm", tuple(reversed(range(call.rank)))),
    "repeats": lambda call: call.needed_integers("repeats", 1),
    "shape": lambda call: call.output_type.shape,
    "split": _parts,
}
"""Readers of attributes, by name or by operator and name."""


def reduction(call: OnnxCall) -> Form:
    """Import a reduction; with `noop_with_empty_axes` and without axes, it reduces no dimension."""
    if call.integers("axes", 1) or not call.attributes.get("noop_with_empty_axes"):
        return uniform(call)
    if call.op not in WITHOUT_EFFECT_ON_ONE:
        raise RefusalError("noop_with_empty_axes without axes is not supported")
    return Form("Identity", call.inputs[:1])


def cast(call: OnnxCall) -> Form:
    """Import a Cast; saturation and rounding modes apply only to unsupported types."""
    return Form("Cast", call.inputs[:1], {"to": call.output_type.dtype})


def clip(call: OnnxCall) -> Form:
    """Import a Clip with bounds from attributes or inputs; a missing bound is the limit of the type."""
    kind = np.dtype(call.input_type(0).dtype)
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    bounds = {"min": limits.min, "max": limits.max}
    for place, name in enumerate(bounds, 1):
        if call.input(place):
            bounds[name] = call.known(place, name).item()
        elif name in call.attributes:
            bounds[name] = call.attributes[name]
    return Form(
        "Clip",
        call.inputs[:1],
        {name: shortest(bound) if kind.kind == "f" else int(bound) for name, bound in bounds.items()},
    )


def dropout(call: OnnxCall) -> Form:
    """Import a Dropout; refuse training mode."""
    if call.input(2) and call.known(2, "training_mode").item():
        raise RefusalError("training_mode is true; export the network for inference")
    return Form("Dropout", call.inputs[:1])


def softmax(call: OnnxCall) -> Form:
    """Import Softmax and LogSoftmax; before version 13, the dimensions from `axis` on are flattened."""
    axis = call.axis()
    rows, columns = int(np.prod(call.shape[:axis])), int(np.prod(call.shape[axis:]))
    if call.opset >= 13 or columns == call.shape[axis]:
        return Form(call.op, call.inputs, {"axis": axis})
    matrix = TensorType((rows, columns), call.input_type(0).dtype)
    flat = Form("Flatten", call.inputs, {"axis": axis}, matrix)
    return Form("Reshape", (Form(call.op, (flat,), {"axis": 1}, matrix),), {"shape": call.shape})


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
    if call.input(2):
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


def where(call: OnnxCall) -> Form:
    """Import a Where. If all elements of a constant condition are equal, the result is the selected input."""
    condition = call.values[0]
    if condition is not None and condition.size and condition.min() == condition.max():
        chosen = 1 if condition.flat[0] else 2
        if call.input_type(chosen) == call.output_type:
            return Form("Identity", (call.inputs[chosen],))
    return uniform(call)


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
    **{op: uniform for op in OPERATORS if defs.has(op)},
    **dict.fromkeys(REDUCTIONS, reduction),
    "Cast": cast,
    "CastLike": cast,
    "Clip": clip,
    "ConstantOfShape": constant_of_shape,
    "Dropout": dropout,
    "LogSoftmax": softmax,
    "Pad": pad,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "Softmax": softmax,
    "Where": where,
}
