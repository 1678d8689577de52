"""QuantizeLinear and DequantizeLinear, always with a zero point; what ONNX does not know about a contributed
operator.

Source: ONNX operator specification, versions 10 to 25; those with blocks are refused.
"""

import numpy as np

from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.graph.onnx.call import Call, Form, Importer, RefusalError


def quantisation(call: Call) -> Form:
    """Add a zero point of 0 where there is none; name the axis where scales go along one, else 0."""
    call.require("block_size", 0)
    call.require("precision", 0, 1)  # float32
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


def contributed_types(types: tuple[TensorType | None, ...]) -> tuple[TensorType, ...]:
    """Return the type that QLinearAdd makes.

    Source: ONNX Runtime contrib operators, QLinearAdd.
    """
    left, right = (types[place] if place < len(types) else None for place in (0, 3))
    numbers = len(types) in (7, 8) and None not in (types[1], types[4], types[6])
    if left is None or right is None or not numbers:
        raise RefusalError(
            f"it has {len(types)} inputs; QLinearAdd takes A, A_scale, A_zero_point, B, B_scale, "
            "B_zero_point, C_scale, C_zero_point"
        )
    try:
        return (TensorType(np.broadcast_shapes(left.shape, right.shape), left.dtype),)
    except ValueError as error:
        raise RefusalError(f"{left} and {right} do not go together") from error


IMPORTERS: dict[str, Importer] = {"DequantizeLinear": quantisation, "QuantizeLinear": quantisation}
