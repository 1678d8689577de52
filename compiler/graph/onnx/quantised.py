"""Import of QuantizeLinear and DequantizeLinear, with an explicit zero point.

Source: ONNX operator specification, versions 10 to 25.
"""

import numpy as np

from vdla.compiler.graph.onnx.blocks import dequantise_blocks
from vdla.compiler.graph.onnx.call import Form, Importer, OnnxCall, RefusalError


def quantisation(call: OnnxCall) -> Form | np.ndarray:
    """Add a missing zero point of 0; the axis is 0 if the scale is a scalar."""
    call.require("precision", 0, 1)  # float32
    if call.integer("block_size", 0):
        return dequantised_blocks(call)
    scale, axis = call.input_type(1), 0
    if scale.size > 1:
        axis = call.axis()
        if scale.shape != (call.shape[axis],):
            raise RefusalError(
                f"scale {scale} is neither one number nor one for each of the {call.shape[axis]} of axis "
                f"{axis}"
            )
    if call.has(2) and call.input_type(2).size != scale.size:
        raise RefusalError(f"zero point {call.input_type(2)} does not match scale {scale}")
    integers = call.output_type if call.op == "QuantizeLinear" else call.input_type(0)
    point = call.inputs[2] if call.has(2) else np.zeros(scale.shape, integers.dtype)
    return Form(call.op, (*call.inputs[:2], point), {"axis": axis})


def dequantised_blocks(call: OnnxCall) -> np.ndarray:
    """Return the dequantised constant of a DequantizeLinear with a scale for each block."""
    if call.op == "QuantizeLinear":
        call.require("block_size", 0)
    integers, scales = call.known(0, "x"), call.known(1, "x_scale")
    points = call.known(2, "x_zero_point") if call.has(2) else None
    return dequantise_blocks(integers, scales, points, call.axis(), call.integer("block_size"))


IMPORTERS: dict[str, Importer] = {"DequantizeLinear": quantisation, "QuantizeLinear": quantisation}
