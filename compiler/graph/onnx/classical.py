"""Expansion of feature scaling operators of the domain `ai.onnx.ml` into ONNX operators.

Exported pipelines (StandardScaler, then a perceptron) begin with `Scaler`. ONNX's shape inference does not
support it, so the whole network would stay on the host.

Source: ONNX, Operators-ml.md.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import TensorProto

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.foreign import ForeignNode, ForeignOperator, OnnxNode

DOMAIN = "ai.onnx.ml"


def _scaler(node: ForeignNode) -> Iterator[OnnxNode]:
    """Scaler: `(x - offset) * scale` in float32, with scalar parameters or a number for each feature.

    Raises:
        RefusalError: a parameter has neither a single number nor a number for each feature.
    """
    shape, last = node.type(0).shape, node.input(0)
    if node.type(0).dtype != "float32":
        yield node.operator("Cast", [last], node.temporary("cast"), to=TensorProto.FLOAT)
        last = node.temporary("cast")
    steps = (("offset", "Sub", node.temporary("centred")), ("scale", "Mul", node.out))
    for name, op, out in steps:
        numbers = np.array(node.attributes.get(name, ()), np.float32)
        if numbers.size not in (1, *shape[-1:]):
            raise RefusalError(
                f"attribute {name} has {numbers.size} numbers; it takes 1, or one for each of the "
                f"{shape[-1] if shape else 1} features"
            )
        yield node.constant(node.temporary(name), numbers)
        yield node.operator(op, [last, node.temporary(name)], out)
        last = out


OPERATORS: Mapping[str, ForeignOperator] = {
    "Scaler": ForeignOperator((1, 1), {"offset": list, "scale": list}, _scaler, "Mul", (0,)),
}
