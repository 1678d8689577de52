"""The verifier of graphs: invariants that hold after the importer and after every pass."""

from collections.abc import Iterator

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
    for problem in _problems(graph):
        raise GraphError(f"graph {graph.name}: {problem}")


def _problems(graph: Graph) -> Iterator[str]:
    """Yield a sentence for each problem. Later checks rely on earlier checks, so the first counts."""
    yield from _given_problems(graph)
    defined = set(graph.inputs) | set(graph.constants)
    for node in graph.nodes:
        yield from _node_problems(node, defined)
        defined |= set(node.outputs)
    for name in graph.outputs:
        if name not in defined:
            yield f"output {name!r} is not a value of the graph"
    yield from _state_problems(graph)
    extra = sorted(set(graph.types) - defined)
    if extra:
        yield f"types has {', '.join(extra)}, which nothing defines"
    for name in (graph.name, *defined):
        if not name or not name.isprintable():
            yield f"the name {name!r} is empty, or has characters that cannot be printed"
    for name in defined:
        yield from _type_problems(name, graph.types.get(name))


def _given_problems(graph: Graph) -> Iterator[str]:
    """Yield the problems of inputs and constants."""
    both = sorted(set(graph.inputs) & set(graph.constants))
    if both:
        yield f"{', '.join(both)} is both an input and a constant"
    constants = {name: type_of(array) for name, array in graph.constants.items()}
    for kind, types in (("input", graph.inputs), ("constant", constants)):
        for name, type_ in types.items():
            if graph.types.get(name) != type_:
                yield f"{kind} {name!r} is {type_}, but types says {graph.types.get(name)}"


def _state_problems(graph: Graph) -> Iterator[str]:
    """Yield the problems of inputs that take the value of an output of the run before."""
    for name, state in graph.states.items():
        if name not in graph.inputs or state.output not in graph.outputs:
            yield f"state {name!r} takes {state.output!r}; a state is an input that takes an output"
        elif graph.types[name] != graph.types[state.output]:
            yield (
                f"state {name!r} is {graph.types[name]}, and takes {state.output!r}, which is "
                f"{graph.types[state.output]}"
            )


def _node_problems(node: Node, defined: set[str]) -> Iterator[str]:
    if not node.outputs:
        yield f"{node.op} {node.name!r} has no output"
    if node.op not in OPERATORS:
        yield f"{node}: operator {node.op!r} is unknown"
    taken = attributes_of(node.op)
    if sorted(node.attributes) != sorted(taken):
        given = ", ".join(node.attributes) or "none"
        yield f"{node} has attributes {given}; {node.op} takes {', '.join(taken) or 'none'}"
    for name in node.inputs:
        if name and name not in defined:
            yield f"{node} reads {name!r}, which nothing before it defines"
    for place, name in enumerate(node.outputs):
        if name in defined or name in node.outputs[:place]:
            yield f"{node} defines {name!r}, which is defined already"


def _type_problems(name: str, type_: object) -> Iterator[str]:
    if not isinstance(type_, TensorType):
        yield f"value {name!r} has no type"
    elif type_.dtype not in TENSOR_DTYPES:
        yield f"value {name!r} is {type_}; element types are {', '.join(TENSOR_DTYPES)}"
    elif not all(isinstance(size, int) and size >= UNKNOWN for size in type_.shape):
        yield f"value {name!r} is {type_}; extents are at least 0, or {UNKNOWN} if only known in a run"
