"""The supported operators, and checks of a model before import: names, order, operators, attributes."""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from onnx import AttributeProto, GraphProto, NodeProto, defs

from vdla.compiler.graph.onnx import attention, contributed, operators, qonnx, quantised, recurrent, spatial
from vdla.compiler.graph.onnx.call import ForeignOperator, Importer, kinds_of
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import producers, reads, subgraphs

IMPORTERS: dict[str, Importer] = {**operators.IMPORTERS, **spatial.IMPORTERS, **quantised.IMPORTERS}
FOREIGN: Mapping[str, Mapping[str, ForeignOperator]] = {
    **contributed.OPERATORS,
    "": {**attention.STANDARD, **contributed.STANDARD, **recurrent.RECURRENT},
    **dict.fromkeys(qonnx.DOMAINS, qonnx.OPERATORS),
}
"""The operators that are expanded into other operators, by domain."""
ONLY_HERE: Mapping[str, str] = {
    **dict.fromkeys(
        qonnx.DOMAINS,
        f"is not supported; {', '.join(qonnx.OPERATORS)} are: export the network with these, or as QDQ",
    ),
    contributed.BLOCKED: "holds weights in a CPU-specific layout; write the optimised file with "
    "ORT_ENABLE_EXTENDED, or compile the original file",
}
"""Domains that onnxruntime does not run, with the refusal of their other operators."""


def label_of(node: NodeProto, place: int) -> str:
    """Return the label of a node in messages: position in the file, operator, and name if it has a name."""
    domain = "" if node.domain in MAIN_DOMAINS else f"{node.domain}."
    return f"node {place}, {domain}{node.op_type}{f' {node.name!r}' if node.name else ''}"


def refusal_of(node: NodeProto, opset: int) -> str:
    """Return why a node is not supported whatever its inputs; "" if it may be supported."""
    held = [name for name, _ in subgraphs(node)]
    foreign = foreign_operator(node)
    if held:
        return f"it holds a subgraph ({', '.join(held)}); control flow is not supported"
    if foreign is not None:
        return _foreign_reason(node, foreign)
    if node.domain in ONLY_HERE:
        return f"operator {node.op_type} of {node.domain} {ONLY_HERE[node.domain]}"
    if node.domain not in MAIN_DOMAINS or (node.op_type not in IMPORTERS and node.op_type != "Constant"):
        return f"operator {node.op_type} is not supported"
    if not defs.has(node.op_type, opset, ""):
        return f"operator set {opset} has no operator {node.op_type}"
    schema = defs.get_schema(node.op_type, opset, "")
    required = [name for name, attribute in schema.attributes.items() if attribute.required]
    return (
        f"operator set {opset} no longer has it"
        if schema.deprecated
        else _attribute_reason(node, kinds_of(schema), required)
    )


def foreign_operator(node: NodeProto) -> ForeignOperator | None:
    """Return the operator of a node that is expanded; None if the importer knows no expansion."""
    domain = "" if node.domain in MAIN_DOMAINS else node.domain
    return FOREIGN.get(domain, {}).get(node.op_type)


def _foreign_reason(node: NodeProto, kind: ForeignOperator) -> str:
    least, most = kind.inputs
    given = [place for place, name in enumerate(node.input) if name]
    if not least <= len(node.input) <= most or set(kind.required) - set(given):
        return f"it has {len(given)} inputs; {node.op_type} takes {least} to {most}"
    if any(attribute.name == "channels_last" and attribute.i for attribute in node.attribute):
        return "attribute channels_last = 1 is not supported; it may be 0"
    return _attribute_reason(node, kind.attributes)


def _attribute_reason(node: NodeProto, kinds: Mapping[str, str], required: Sequence[str] = ()) -> str:
    given = [attribute.name for attribute in node.attribute]
    for attribute in node.attribute:
        if attribute.name not in kinds:
            return (
                f"it has an attribute {attribute.name!r}, which {node.op_type} does not have; it takes "
                f"{', '.join(kinds) or 'none'}"
            )
        if AttributeProto.AttributeType.Name(attribute.type) != kinds[attribute.name]:
            return f"attribute {attribute.name} is not of the kind {kinds[attribute.name]}"
    missing = [name for name in required if name not in given]
    if missing:
        return f"attribute {missing[0]} is missing"
    return f"attribute {max(given, key=given.count)} is given twice" if len(set(given)) < len(given) else ""


def order_problems(graph: GraphProto) -> Iterator[str]:
    """Yield a sentence for each value that is undefined or defined twice, and for a cycle."""
    defined: set[str] = set()
    outside = {value.name for value in (*graph.input, *graph.initializer)}
    for place, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in defined or name in outside:
                yield f"{label_of(node, place)}: it makes {name!r}, which exists already"
            defined.add(name)
    try:
        TopologicalSorter(producers(graph)).prepare()
    except CycleError as error:
        cycle = (label_of(graph.node[place], place) for place in error.args[1])
        yield f"nodes form a cycle: {' → '.join(cycle)}"
    for place, node in enumerate(graph.node):
        for name in reads(node):
            if name not in outside and name not in defined:
                yield f"{label_of(node, place)}: it reads {name!r}, which nothing makes"
    for value in graph.output:
        if value.name not in defined and value.name not in outside:
            yield f"output {value.name!r}: nothing makes it"
