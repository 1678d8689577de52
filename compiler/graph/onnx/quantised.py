"""QuantizeLinear and DequantizeLinear, always with a zero point.

Source: ONNX operator specification, versions 10 to 25.
"""

import numpy as np

from vdla.compiler.graph.onnx.blocks import of_blocks
from vdla.compiler.graph.onnx.call import Call, Form, Importer, RefusalError


def quantisation(call: Call) -> Form | np.ndarray:
    """Add a zero point of 0 where there is none; name the axis where scales go along one, else 0."""
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
        raise RefusalError(f"zero point {call.input_type(2)} does not go with scale {scale}")
    integers = call.output_type if call.op == "QuantizeLinear" else call.input_type(0)
    point = call.inputs[2] if call.has(2) else np.zeros(scale.shape, integers.dtype)
    return Form(call.op, (*call.inputs[:2], point), {"axis": axis})


def dequantised_blocks(call: Call) -> np.ndarray:
    """Return constants that have a scale for each block of them as real numbers."""
    if call.op == "QuantizeLinear":
        call.require("block_size", 0)
    integers, scales = call.known(0, "x"), call.known(1, "x_scale")
    points = call.known(2, "x_zero_point") if call.has(2) else None
    return of_blocks(integers, scales, points, call.axis(), call.integer("block_size"))


IMPORTERS: dict[str, Importer] = {"DequantizeLinear": quantisation, "QuantizeLinear": quantisation}
