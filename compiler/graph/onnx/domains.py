"""The operators of other domains than ONNX's that are imported, by domain."""

from collections.abc import Iterator, Mapping

from onnx import NodeProto

from vdla.compiler.graph.onnx import classical, contributed, fused, qonnx
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.written import KINDS, Contributed, Part, Written

MICROSOFT = "com.microsoft"
OPERATORS: Mapping[str, Mapping[str, Contributed]] = {
    MICROSOFT: dict(sorted({**contributed.QUANTISED, **fused.OPERATORS}.items())),
    classical.DOMAIN: classical.OPERATORS,
    **dict.fromkeys(qonnx.DOMAINS, qonnx.OPERATORS),
}


def operator(node: NodeProto) -> Contributed | None:
    """Return the operator of another domain that a node is; None where it is not imported."""
    return OPERATORS.get(node.domain, {}).get(node.op_type)


def reason(node: NodeProto, kind: Contributed) -> str:
    """Return what keeps a node from being imported, whatever its operands; "" where nothing does."""
    least, most = kind.inputs
    given = [place for place, name in enumerate(node.input) if name]
    if not least <= len(node.input) <= most or set(kind.required) - set(given):
        return f"it has {len(given)} inputs; {node.op_type} takes {least} to {most}"
    for attribute in node.attribute:
        wanted = kind.attributes.get(attribute.name)
        if wanted is None:
            known = ", ".join(kind.attributes) or "none"
            return f"it has an attribute {attribute.name!r}, which {node.op_type} has not; it takes {known}"
        if attribute.type != KINDS[wanted]:
            return f"attribute {attribute.name} is not of the kind {wanted.__name__}"
        if attribute.name == "channels_last" and attribute.i:
            return "attribute channels_last = 1 is not supported; it may be 0"
    return ""


def expanded(written: Written) -> Iterator[Part]:
    """Yield the operators of ONNX that stand for an operator of another domain, in order.

    Raises:
        RefusalError: a parameter is not known, or not supported.
    """
    kind = operator(written.node)
    assert kind is not None, f"{written.node.op_type} is not imported"
    yield from kind.expand(written)


def runs_elsewhere(node: NodeProto) -> bool:
    """Whether onnxruntime may run an operator."""
    return node.domain not in (*qonnx.DOMAINS, fused.BLOCKED)


def check_known(node: NodeProto) -> None:
    """Refuse an operator of a domain that onnxruntime does not run, and say what to do.

    Raises:
        RefusalError: the node is of a domain of QONNX, and not imported; or of the blocked layout of one CPU.
    """
    if node.domain in qonnx.DOMAINS and operator(node) is None:
        raise RefusalError(
            f"operator {node.op_type} of {node.domain} is not supported; {', '.join(qonnx.OPERATORS)} are: "
            "export the network with these, or as QDQ"
        )
    if node.domain == fused.BLOCKED:
        raise RefusalError(
            f"operator {node.op_type} of {node.domain} holds weights in the layout of one CPU; write the "
            "optimised file with ORT_ENABLE_EXTENDED, or give the file it was made of"
        )
