"""The supported operators of domains other than ONNX's, by domain.

Of the domain `ai.onnx.ml`, that is `Scaler`: exported pipelines (StandardScaler, then a perceptron) begin
with it, and ONNX's shape inference does not support it, so the whole network would stay on the host.

Source: ONNX, Operators-ml.md.
"""

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, TensorProto

from vdla.compiler.graph.onnx import contributed, qonnx
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.foreign import KINDS, ForeignNode, ForeignOperator, OnnxNode

MICROSOFT, CLASSICAL = "com.microsoft", "ai.onnx.ml"


def _scaler(node: ForeignNode) -> None:
    """Scaler: `(x - offset) * scale` in float32, with scalar parameters or a number for each feature.

    Raises:
        RefusalError: a parameter has neither a single number nor a number for each feature.
    """
    shape, last = node.input_type(0).shape, node.input(0)
    if node.input_type(0).dtype != "float32":
        last = node.add("Cast", last, to=TensorProto.FLOAT)
    for name, op in (("offset", "Sub"), ("scale", "Mul")):
        numbers = np.array(node.attribute(name, tuple, ()), np.float32)
        if numbers.size not in (1, *shape[-1:]):
            raise RefusalError(
                f"attribute {name} has {numbers.size} numbers; it takes 1, or one for each of the "
                f"{shape[-1] if shape else 1} features"
            )
        last = node.add(op, last, numbers)


SCALING: Mapping[str, ForeignOperator] = {
    "Scaler": ForeignOperator((1, 1), {"offset": list, "scale": list}, _scaler, "Mul"),
}
OPERATORS: Mapping[str, Mapping[str, ForeignOperator]] = {
    MICROSOFT: dict(sorted({**contributed.QUANTISED, **contributed.FUSED}.items())),
    CLASSICAL: SCALING,
    **dict.fromkeys(qonnx.DOMAINS, qonnx.OPERATORS),
}


def operator(node: NodeProto) -> ForeignOperator | None:
    """Return the foreign operator of a node, or None if it is not supported."""
    return OPERATORS.get(node.domain, {}).get(node.op_type)


def reason(node: NodeProto, kind: ForeignOperator) -> str:
    """Return why a node cannot be imported, judged by its inputs and attributes; "" if it can."""
    least, most = kind.inputs
    given = [place for place, name in enumerate(node.input) if name]
    if not least <= len(node.input) <= most or set(kind.required) - set(given):
        return f"it has {len(given)} inputs; {node.op_type} takes {least} to {most}"
    for attribute in node.attribute:
        wanted = kind.attributes.get(attribute.name)
        if wanted is None:
            known = ", ".join(kind.attributes) or "none"
            subject = f"it has an attribute {attribute.name!r}"
            return f"{subject}, which {node.op_type} does not have; it takes {known}"
        if attribute.type != KINDS[wanted]:
            return f"attribute {attribute.name} is not of the kind {wanted.__name__}"
        if attribute.name == "channels_last" and attribute.i:
            return "attribute channels_last = 1 is not supported; it may be 0"
    return ""


def expanded(node: ForeignNode) -> list[OnnxNode]:
    """Return the ONNX nodes that implement a node of another domain, in order.

    Raises:
        RefusalError: a parameter is not known or not supported.
    """
    kind = operator(node.proto)
    assert kind is not None, f"{node.op} is not imported"
    kind.expand(node)
    node.steps[-1].proto.output[0] = node.proto.output[0]
    return node.steps


def runs_elsewhere(node: NodeProto) -> bool:
    """Whether onnxruntime may support a node."""
    return node.domain not in (*qonnx.DOMAINS, contributed.BLOCKED)


def check_known(node: NodeProto) -> None:
    """Check that a node of a domain without onnxruntime support is imported.

    Raises:
        RefusalError: the node is an unsupported QONNX operator, or an operator on blocked CPU layouts.
    """
    if node.domain in qonnx.DOMAINS and operator(node) is None:
        raise RefusalError(
            f"operator {node.op_type} of {node.domain} is not supported; {', '.join(qonnx.OPERATORS)} are: "
            "export the network with these, or as QDQ"
        )
    if node.domain == contributed.BLOCKED:
        raise RefusalError(
            f"operator {node.op_type} of {node.domain} holds weights in a CPU-specific layout; write the "
            "optimised file with ORT_ENABLE_EXTENDED, or compile the original file"
        )
