"""Checks of a model before import: names, order, operators, attributes."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from onnx import GraphProto, NodeProto, defs

from vdla.compiler.graph.onnx import domains, operators, quantised, spatial
from vdla.compiler.graph.onnx.call import Importer
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import producers, reads, subgraphs

IMPORTERS: dict[str, Importer] = {
    **operators.IMPORTERS,
    **spatial.IMPORTERS,
    **quantised.IMPORTERS,
}


def label_of(node: NodeProto, place: int) -> str:
    """Return the label of a node in messages: position in the file, operator, and name if it has one."""
    domain = "" if node.domain in MAIN_DOMAINS else f"{node.domain}."
    return f"node {place}, {domain}{node.op_type}{f' {node.name!r}' if node.name else ''}"


def refusal_of(node: NodeProto, opset: int) -> str | None:
    """Return why a node is not supported whatever its inputs; None, or "", if it may be supported."""
    held = [name for name, _ in subgraphs(node)]
    if held:
        return f"it holds a subgraph ({', '.join(held)}); control flow is not supported"
    if not is_known(node):
        return f"operator {node.op_type} is not supported"
    kind = domains.operator(node)
    if kind is not None:
        return domains.reason(node, kind)
    if not defs.has(node.op_type, opset, ""):
        return f"operator set {opset} has no operator {node.op_type}"
    schema = defs.get_schema(node.op_type, opset, "")
    return f"operator set {opset} no longer has it" if schema.deprecated else _attribute_reason(node, schema)


def is_known(node: NodeProto) -> bool:
    """Whether a node's operator has an importing function."""
    return domains.operator(node) is not None or (
        node.domain in MAIN_DOMAINS and (node.op_type in IMPORTERS or node.op_type == "Constant")
    )


def _attribute_reason(node: NodeProto, schema: defs.OpSchema) -> str | None:
    given = [attribute.name for attribute in node.attribute]
    for attribute in node.attribute:
        if attribute.name not in schema.attributes:
            return (
                f"it has an attribute {attribute.name!r}, which {node.op_type} does not have; it takes "
                f"{', '.join(schema.attributes) or 'none'}"
            )
        wanted = schema.attributes[attribute.name].type
        if attribute.type != wanted.value:
            return f"attribute {attribute.name} is not of the kind {wanted.name}"
    missing = [
        name for name, attribute in schema.attributes.items() if attribute.required and name not in given
    ]
    if missing:
        return f"attribute {missing[0]} is missing"
    return f"attribute {max(given, key=given.count)} is given twice" if len(set(given)) < len(given) else None


def order_problems(graph: GraphProto) -> Iterator[str]:
    """Yield a sentence for each value that is undefined or defined twice, and for a cycle."""
    made: set[str] = set()
    outside = {value.name for value in (*graph.input, *graph.initializer)}
    for place, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in made or name in outside:
                yield f"{label_of(node, place)}: it makes {name!r}, which exists already"
            made.add(name)
    try:
        TopologicalSorter(producers(graph)).prepare()
    except CycleError as error:
        cycle = (label_of(graph.node[place], place) for place in error.args[1])
        yield f"nodes form a cycle: {' → '.join(cycle)}"
    for place, node in enumerate(graph.node):
        for name in reads(node):
            if name not in outside and name not in made:
                yield f"{label_of(node, place)}: it reads {name!r}, which nothing makes"
    for value in graph.output:
        if value.name not in made and value.name not in outside:
            yield f"output {value.name!r}: nothing makes it"
