"""Import of operators with windows, with explicit padding, strides and dilations, and of Resize and Upsample,
with explicit scales and sizes.

Source: ONNX operator specification, Conv, ConvInteger, ConvTranspose, QLinearConv, MaxPool, AveragePool,
Resize (10 to 19), Upsample (9).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.graph.onnx.call import Form, Importer, InvalidError, OnnxCall, RefusalError, positive_axis
from vdla.runtime.host.resize import COORDINATES, ROUNDINGS
from vdla.runtime.host.windows import spans

SAME = ("SAME_UPPER", "SAME_LOWER")


def convolution(call: OnnxCall) -> Form:
    """Import Conv, ConvInteger and QLinearConv; the kernel has the extents of the weights.

    Shape inference does not check that the channels of the weights match the input.
    """
    place, group = 3 if call.op == "QLinearConv" else 1, call.integer("group")
    kernel = _kernel_of(call, place)
    outputs, inputs = call.input_type(place).shape[:2]
    if group < 1 or outputs % group or call.shape[1] != inputs * group:
        raise InvalidError(
            f"weights of {outputs} outputs and {inputs} inputs in {group} groups do not match an input "
            f"{call.types[0]}"
        )
    steps = _steps(call, kernel)
    return Form(call.op, call.inputs, {**steps, "group": group, "pads": _pads(call, kernel, steps)})


def conv_transpose(call: OnnxCall) -> Form:
    """Import a ConvTranspose; explicit or automatic output sizes become pads and output padding."""
    kernel = _kernel_of(call, 1)
    steps, more = _steps(call, kernel), call.extents("output_padding", (0,) * len(kernel))
    if "output_shape" not in call.attributes and _auto_pad(call) not in SAME:
        pads = _pads(call, kernel, steps)
    else:
        sizes, spanned = call.output_type.shape[2:], spans(kernel, steps["dilations"])
        parts = zip(call.shape[2:], steps["strides"], spanned, more, sizes, strict=True)
        totals = [(size - 1) * stride + span + extra - out for size, stride, span, extra, out in parts]
        more = tuple(extra + max(-total, 0) for extra, total in zip(more, totals, strict=True))
        pads = _halves(call, [max(total, 0) for total in totals])
    group = call.integer("group")
    return Form("ConvTranspose", call.inputs, {**steps, "group": group, "output_padding": more, "pads": pads})


def pool(call: OnnxCall) -> Form:
    """Import MaxPool and AveragePool; `ceil_mode` has no effect with automatic padding."""
    kernel = call.extents("kernel_shape")
    if len(kernel) != call.rank - 2:
        raise InvalidError(f"kernel_shape {kernel} does not match an input of rank {call.rank}")
    steps = _steps(call, kernel)
    attributes = {**steps, "kernel_shape": kernel, "pads": _pads(call, kernel, steps)}
    ceil = call.integer("ceil_mode", 0) if _auto_pad(call) == "NOTSET" else 0
    counted = {name: call.integer(name) for name in ("count_include_pad",) if call.op == "AveragePool"}
    return Form(call.op, call.inputs, {**attributes, "ceil_mode": ceil, **counted})


def _kernel_of(call: OnnxCall, place: int) -> tuple[int, ...]:
    kernel = call.input_type(place).shape[2:]
    if len(kernel) != call.rank - 2 or not kernel:
        raise InvalidError(f"weights {call.input_type(place)} do not match an input {call.types[0]}")
    if call.attributes.get("kernel_shape", kernel) != kernel:
        raise InvalidError(
            f"kernel_shape {call.attributes['kernel_shape']} is not the kernel of the weights "
            f"{call.input_type(place)}"
        )
    return kernel


def _steps(call: OnnxCall, kernel: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the attributes `strides` and `dilations`."""
    steps = {name: call.extents(name, (1,) * len(kernel)) for name in ("strides", "dilations")}
    if any(len(step) != len(kernel) for step in steps.values()):
        raise InvalidError(
            f"strides {steps['strides']} and dilations {steps['dilations']} do not match a kernel {kernel}"
        )
    return steps


def _auto_pad(call: OnnxCall) -> str:
    call.require("auto_pad", "NOTSET", "VALID", *SAME)
    return call.attribute("auto_pad", str, "NOTSET")


def _pads(call: OnnxCall, kernel: tuple[int, ...], steps: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the padding at the begin of each dimension, then at the end of each."""
    count = 2 * len(kernel)
    if _auto_pad(call) in SAME:
        sizes = zip(call.shape[2:], steps["strides"], spans(kernel, steps["dilations"]), strict=True)
        return _halves(
            call, [max((-(-size // stride) - 1) * stride + span - size, 0) for size, stride, span in sizes]
        )
    pads = call.extents("pads", (0,) * count) if _auto_pad(call) == "NOTSET" else (0,) * count
    if len(pads) != count or min(pads, default=0) < 0:
        raise RefusalError(
            f"pads {pads} do not match a kernel {kernel}; they must be {count} numbers, none negative"
        )
    return pads


def _halves(call: OnnxCall, totals: Sequence[int]) -> tuple[int, ...]:
    """Split padding between begin and end; an odd element goes to the end, or to the begin for SAME_LOWER."""
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*small, *large) if call.attributes["auto_pad"] == "SAME_UPPER" else (*large, *small)


# Resize


def resize(call: OnnxCall) -> Form:
    """Import Resize and Upsample by scales or sizes, for all dimensions or some.

    An Upsample, and a Resize of version 10, repeat elements by the scales of their input.
    """
    if call.op == "Upsample" or call.opset < 11:
        return _nearest(call, _scales(call, 1), "asymmetric", "floor")
    call.require("coordinate_transformation_mode", *COORDINATES)
    call.require("nearest_mode", *ROUNDINGS)
    call.require("antialias", 0)
    call.require("keep_aspect_ratio_policy", "stretch")
    if call.input(2) and call.input_type(2).size:
        scales = _scales(call, 2)
    else:
        scales = tuple(out / size for out, size in zip(call.output_type.shape, call.shape, strict=True))
    coordinates = call.attribute("coordinate_transformation_mode", str)
    return _nearest(call, scales, coordinates, call.attribute("nearest_mode", str))


def _nearest(call: OnnxCall, scales: tuple[float, ...], coordinates: str, rounding: str) -> Form:
    call.require("mode", "nearest")
    return Form(
        "Resize",
        call.inputs[:1],
        {
            "coordinate_transformation_mode": coordinates,
            "nearest_mode": rounding,
            "scales": scales,
            "sizes": call.output_type.shape,
        },
    )


def _scales(call: OnnxCall, place: int) -> tuple[float, ...]:
    given = call.known(place, "scales").ravel()
    axes = call.extents("axes", tuple(range(call.rank)))
    if len(given) != len(axes) or not (np.isfinite(given) & (given > 0)).all():
        raise RefusalError(f"scales {given.tolist()} are not a positive number for each of the axes {axes}")
    by_axis = {positive_axis(axis, call.rank): float(scale) for axis, scale in zip(axes, given, strict=True)}
    return tuple(by_axis.get(axis, 1.0) for axis in range(call.rank))


IMPORTERS: dict[str, Importer] = {
    "AveragePool": pool,
    "Conv": convolution,
    "ConvInteger": convolution,
    "ConvTranspose": conv_transpose,
    "MaxPool": pool,
    "QLinearConv": convolution,
    "Resize": resize,
    "Upsample": resize,
}
