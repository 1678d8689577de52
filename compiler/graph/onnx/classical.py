"""Operators of the domain `ai.onnx.ml` that scale features, as operators of ONNX.

Exported pipelines (StandardScaler, then a perceptron) begin with `Scaler`. ONNX's shape inference does not
know it, so the whole network would stay on the host.

Source: ONNX, Operators-ml.md.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import TensorProto

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.written import Contributed, Part, Written

DOMAIN = "ai.onnx.ml"


def _scaler(written: Written) -> Iterator[Part]:
    """Scaler: `(x - offset) * scale` in float32, with a number for each feature or a single number.

    Raises:
        RefusalError: there are neither as many numbers as features, nor a single number.
    """
    shape, last = written.type(0).shape, written.input(0)
    if written.type(0).dtype != "float32":
        yield written.part("Cast", [last], written.made("cast"), to=TensorProto.FLOAT)
        last = written.made("cast")
    steps = (("offset", "Sub", written.made("centred")), ("scale", "Mul", written.out))
    for name, op, out in steps:
        numbers = np.array(written.attributes.get(name, ()), np.float32)
        if numbers.size not in (1, *shape[-1:]):
            raise RefusalError(
                f"attribute {name} has {numbers.size} numbers; it takes 1, or one for each of the "
                f"{shape[-1] if shape else 1} features"
            )
        yield written.constant(written.made(name), numbers)
        yield written.part(op, [last, written.made(name)], out)
        last = out


OPERATORS: Mapping[str, Contributed] = {
    "Scaler": Contributed((1, 1), {"offset": list, "scale": list}, _scaler, "Mul", (0,)),
}
