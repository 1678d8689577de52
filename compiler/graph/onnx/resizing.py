"""Import of Resize and its predecessor Upsample in nearest mode, with explicit scales and sizes.

Source: ONNX operator specification, Resize (10 to 19), Upsample (9).
"""

import numpy as np

from vdla.compiler.graph.onnx.call import Form, Importer, OnnxCall, RefusalError, positive_axis
from vdla.runtime.host.resize import COORDINATES, ROUNDINGS


def upsample(call: OnnxCall) -> Form:
    """Import an Upsample as a Resize that repeats elements by the scales of its input."""
    return _nearest(call, _scales(call, 1), "asymmetric", "floor")


def resize(call: OnnxCall) -> Form:
    """Import a Resize by scales or sizes, for all dimensions or some; version 10 has no modes."""
    if call.opset < 11:
        return _nearest(call, _scales(call, 1), "asymmetric", "floor")
    call.require("coordinate_transformation_mode", *COORDINATES)
    call.require("nearest_mode", *ROUNDINGS)
    call.require("antialias", 0)
    call.require("keep_aspect_ratio_policy", "stretch")
    scales = _scales(call, 2) if call.has(2) and call.input_type(2).size else _scales_to(call)
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


def _scales_to(call: OnnxCall) -> tuple[float, ...]:
    """Return the scales that yield the sizes of the output."""
    return tuple(out / size for out, size in zip(call.output_type.shape, call.shape, strict=True))


IMPORTERS: dict[str, Importer] = {"Resize": resize, "Upsample": upsample}
