"""The verifier of graphs: invariants that hold after the importer and after every pass."""

from vdla.compiler.graph.nodes import Graph, GraphError, Node, TensorType, type_of
from vdla.runtime.host.dtypes import TENSOR_DTYPES, UNKNOWN
from vdla.runtime.host.evaluate import OPERATORS, attributes_of


def verify(graph: Graph) -> None:
    """Check a graph: names, types, operators and attributes; each value is defined once, before its first
    use.

    It follows that the graph has no cycles.

    Raises:
        GraphError: naming the invalid node or value and the problem.
    """
    defined = _check_given(graph)
    for node in graph.nodes:
        _check_node(graph, node, defined)
        defined |= set(node.outputs)
    for name in graph.outputs:
        _require(name in defined, graph, f"output {name!r} is not a value of the graph")
    extra = sorted(set(graph.types) - defined)
    _require(not extra, graph, f"types has {', '.join(extra)}, which nothing defines")
    for name in (graph.name, *defined):
        _require(
            bool(name) and name.isprintable(),
            graph,
            f"the name {name!r} is empty, or has characters that cannot be printed",
        )
    for name in defined:
        _check_type(graph, name)


def _check_given(graph: Graph) -> set[str]:
    """Check inputs and constants; return their names."""
    both = sorted(set(graph.inputs) & set(graph.constants))
    _require(not both, graph, f"{', '.join(both)} is both an input and a constant")
    for name, type_ in graph.inputs.items():
        _require(
            graph.types.get(name) == type_,
            graph,
            f"input {name!r} is {type_}, but types says {graph.types.get(name)}",
        )
    for name, array in graph.constants.items():
        _require(
            graph.types.get(name) == type_of(array),
            graph,
            f"constant {name!r} is {type_of(array)}, but types says {graph.types.get(name)}",
        )
    return set(graph.inputs) | set(graph.constants)


def _check_node(graph: Graph, node: Node, defined: set[str]) -> None:
    _require(bool(node.outputs), graph, f"{node.op} {node.name!r} has no output")
    _require(node.op in OPERATORS, graph, f"{node}: operator {node.op!r} is unknown")
    _require(
        sorted(node.attributes) == sorted(attributes_of(node.op)),
        graph,
        f"{node} has attributes {', '.join(node.attributes) or 'none'}; {node.op} takes "
        f"{', '.join(attributes_of(node.op)) or 'none'}",
    )
    for name in node.inputs:
        _require(
            name == "" or name in defined, graph, f"{node} reads {name!r}, which nothing before it defines"
        )
    for place, name in enumerate(node.outputs):
        _require(
            name not in defined and name not in node.outputs[:place],
            graph,
            f"{node} defines {name!r}, which is defined already",
        )


def _check_type(graph: Graph, name: str) -> None:
    type_ = graph.types.get(name)
    if not isinstance(type_, TensorType):
        raise _error(graph, f"value {name!r} has no type")
    _require(
        type_.dtype in TENSOR_DTYPES,
        graph,
        f"value {name!r} is {type_}; element types are {', '.join(TENSOR_DTYPES)}",
    )
    _require(
        all(isinstance(size, int) and size >= UNKNOWN for size in type_.shape),
        graph,
        f"value {name!r} is {type_}; extents are at least 0, or {UNKNOWN} if only known in a run",
    )


def _require(holds: bool, graph: Graph, problem: str) -> None:
    if not holds:
        raise _error(graph, problem)


def _error(graph: Graph, problem: str) -> GraphError:
    return GraphError(f"graph {graph.name}: {problem}")
