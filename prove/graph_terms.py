"""What an element of a graph's value is computed of: the terms of its sum, or the members of its maximum."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node
from vdla.prove.functions import BYTES
from vdla.prove.reference import MOVED_INPUTS
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.windows import sliding_windows
from vdla.runtime.requantise import requantise

Index = tuple[int, ...]
OUTSIDE = -1


@dataclass(frozen=True, slots=True, eq=False)
class GraphRead:
    """An element of a value, or a function of it.

    Attributes:
        value, index: the element.
        function: int64[256], its results for the bytes -128 to 127; None: the element itself.
    """

    value: str
    index: Index
    function: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class GraphTerm:
    """A term of a sum: a product of activations, or of none for a border, times a number.

    Attributes:
        reads: the activations, at most two.
        factor: the number.
        weight: the number in the graph, as "w[3, 0, 1, 1]"; "" if it is no weight.
    """

    reads: tuple[GraphRead, ...]
    factor: int
    weight: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """An element that an Int8Add adds last.

    Attributes:
        value, index: the element.
        results: int8[256, 256], the result for each byte of the sum before, and each byte of the residual.
    """

    value: str
    index: Index
    results: np.ndarray


@dataclass(frozen=True)
class GraphElement:
    """How a graph computes an element.

    Attributes:
        value, index: the element whose terms these are, before a table and a residual.
        terms: of the sum; None if the operator is no sum.
        members: of the maximum; None if it is no maximum.
        parameters: int64[4], of the requantisation of the sum, or of each member; None if there is none.
        table: int8[256], the table that the result is looked up in; None if there is no table.
        added: the residual; None if there is no residual.
    """

    value: str
    index: Index
    terms: tuple[GraphTerm, ...] | None = None
    members: "tuple[GraphElement, ...] | None" = None
    parameters: np.ndarray | None = None
    table: np.ndarray | None = None
    added: Residual | None = None

    @property
    def sums(self) -> "tuple[GraphElement, ...]":
        """The members of a maximum, or the element itself."""
        return (self,) if self.members is None else self.members

    @property
    def is_known(self) -> bool:
        """Whether it is a sum, or a maximum of sums."""
        return all(each.terms is not None for each in self.sums)

    @property
    def reads(self) -> set[str]:
        """The values whose elements it is computed of."""
        terms = [term for each in self.sums for term in each.terms or ()]
        added = set() if self.added is None else {self.added.value}
        return added | {read.value for term in terms for read in term.reads}


def element_of(graph: Graph, value: str, index: Index, standing: set[str]) -> GraphElement:
    """Return how a graph computes an element of a value.

    Args:
        standing: values that are in DRAM before; an Int8Add of another value adds an element of these last.
    """
    makers = {name: node for node in graph.nodes for name in node.outputs}
    table: np.ndarray | None = None
    added = None
    while value not in standing and (node := makers.get(value)) is not None:
        looked_up = _table(graph, node, index, standing)
        if looked_up is not None:
            table = looked_up if table is None else table[looked_up.astype(np.int64) - BYTES[0]]
            value = node.inputs[0]
        elif node.op in MOVED_INPUTS:
            source = _moved_from(graph, node, value, index)
            if source is None:
                break
            value, index = source
        elif node.op == "Int8Add" and added is None and set(node.inputs[:2]) - standing:
            value, other = sorted(node.inputs[:2], key=lambda name: name in standing)
            place = _of_operand(index, graph.types[other].shape)
            added = Residual(other, place, _sums_of_bytes(graph, node, value, index))
            index = _of_operand(index, graph.types[value].shape)
        else:
            break
    node = None if value in standing else makers.get(value)
    if node is None:
        return GraphElement(value, index, _itself(value, index), table=table, added=added)
    if node.op == "Int8MaxPool":
        return _greatest(graph, node, index, standing, GraphElement(value, index, table=table, added=added))
    if node.op not in FORMS:
        return GraphElement(value, index, table=table, added=added)
    form, number = FORMS[node.op]
    parameters = _parameters(graph.constants[node.inputs[number]], node, index)
    terms = tuple(form(graph, node, index))
    return GraphElement(value, index, terms, None, parameters, table, added)


def _sums_of_bytes(graph: Graph, node: Node, first: str, index: Index) -> np.ndarray:
    """Return what an Int8Add makes of each byte of its operand `first`, and each of the other, int8[256,
    256]."""
    factors = node.extents("factors")
    first_factor, other_factor = factors if node.inputs[0] == first else factors[::-1]
    words = _parameters(graph.constants[node.inputs[2]], node, index)
    return requantise(BYTES[:, None] * first_factor + BYTES * other_factor, words.reshape(4, 1, 1))


def _itself(value: str, index: Index) -> tuple[GraphTerm, ...]:
    return (GraphTerm((GraphRead(value, index),), 1),)


def _greatest(
    graph: Graph, node: Node, index: Index, standing: set[str], outer: GraphElement
) -> GraphElement:
    """Return how a graph computes the greatest of a window. Each member has the same parameters and table;
    the table is composed with the table of `outer`."""
    places = [place for _, place in _windowed(graph, node, index, range(index[1], index[1] + 1))]
    members = tuple(
        element_of(graph, node.inputs[0], place, standing) for place in places if place != (OUTSIDE,)
    )
    inner, table = members[0].table, outer.table
    if inner is not None:
        table = inner if table is None else table[inner.astype(np.int64) - BYTES[0]]
    return replace(outer, members=members, parameters=members[0].parameters, table=table)


def _table(graph: Graph, node: Node, index: Index, standing: set[str]) -> np.ndarray | None:
    """Return the table that an operator looks up, int8[256]; None if it is no function of a byte.

    Requantisation and scaling of a value that is not in DRAM are functions of its bytes.
    """
    if node.op == "Int8Lookup":
        return graph.constants[node.inputs[1]].view(np.int8).reshape(-1)
    if node.op not in ("Int8Requantise", "Int8Scale") or node.inputs[0] in standing:
        return None
    form, place = FORMS[node.op]
    (term,) = form(graph, node, index)
    words = _parameters(graph.constants[node.inputs[place]], node, index)
    return requantise(BYTES * term.factor, words[:, None])


def _moved_from(graph: Graph, node: Node, value: str, index: Index) -> tuple[str, Index] | None:
    """Return the element that an operator moves to an element of its result; None of a border."""
    moved = [name for name in node.inputs[: MOVED_INPUTS[node.op]] if name not in graph.constants]
    if len(moved) != len(node.inputs[: MOVED_INPUTS[node.op]]):
        return None
    others = [graph.constants[name] if name else None for name in node.inputs[len(moved) :]]
    shapes = [graph.types[name].shape for name in moved]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    places = [
        np.arange(first, last).reshape(shape)
        for first, last, shape in zip(ends, ends[1:], shapes, strict=False)
    ]
    attributes = {**node.attributes, "value": OUTSIDE} if node.op == "Pad" else node.attributes
    results = evaluate(node.op, [*places, *others], attributes)
    place = int(results[node.outputs.index(value)][index])
    if place == OUTSIDE:
        return None
    number = int(np.searchsorted(ends, place, side="right")) - 1
    return moved[number], _index(place - int(ends[number]), shapes[number])


def _index(place: int, shape: tuple[int, ...]) -> Index:
    return tuple(int(each) for each in np.unravel_index(place, shape))


def _parameters(words: np.ndarray, node: Node, index: Index) -> np.ndarray:
    """Return the parameters of an element's channel, int64[4]."""
    columns = words.reshape(len(words), -1)
    axis = {"Int8MatMul": -1, "Int8Products": -1}.get(node.op, 1)
    axis = node.integer("axis") if node.op == "Int8Scale" else axis
    return columns[:, index[axis] if columns.shape[1] > 1 else 0].astype(np.int64)


def _windowed(graph: Graph, node: Node, index: Index, channels: range) -> Iterator[tuple[Index, Index]]:
    """Yield the places (channel, y, x) of an element's window, and where they are in the image; (OUTSIDE,)
    for places in its border."""
    image, is_conv = graph.types[node.inputs[0]].shape, node.op == "Int8Conv"
    top, left, below, right = node.extents("pads")
    kernel = graph.constants[node.inputs[1]].shape[2:] if is_conv else node.extents("kernel_shape")
    dilations = node.extents("dilations") if is_conv else (1, 1)
    numbers = np.arange(int(np.prod(image))).reshape(image)[index[0] : index[0] + 1, channels]
    whole = np.pad(numbers, ((0, 0), (0, 0), (top, below), (left, right)), constant_values=OUTSIDE)
    windows = sliding_windows(whole, kernel, node.extents("strides"), dilations)
    window = windows[0, :, index[2], index[3]]
    for at in np.ndindex(window.shape):
        place = int(window[at])
        yield at, (OUTSIDE,) if place == OUTSIDE else _index(place, image)


def _conv(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    x, w = node.inputs[:2]
    weights, group = graph.constants[w], node.integer("group")
    outputs, depth = weights.shape[:2]
    first = index[1] // (outputs // group) * depth
    for at, place in _windowed(graph, node, index, range(first, first + depth)):
        yield _term(x, place, int(weights[(index[1], *at)]), node, f"{w}{[index[1], *at]}")


def _conv_transpose(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    x, w = node.inputs[:2]
    weights, image, zero = graph.constants[w], graph.types[x].shape, node.integer("zero")
    starts = [place + pad for place, pad in zip(index[2:], node.extents("pads"), strict=False)]
    for at in np.ndindex(weights.shape[0], *weights.shape[2:]):
        places = [
            divmod(start - offset, stride)
            for start, offset, stride in zip(starts, at[1:], node.extents("strides"), strict=True)
        ]
        if all(not rest and 0 <= place < size for (place, rest), size in zip(places, image[2:], strict=True)):
            factor = int(weights[at[0], index[1], at[1], at[2]])
            name = f"{w}{[at[0], index[1], *at[1:]]}"
            source = GraphRead(x, (index[0], at[0], *(place for place, _ in places)))
            yield GraphTerm((source,), factor, name)
            yield GraphTerm((), -zero * factor, name)


def _average_pool(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    for _, place in _windowed(graph, node, index, range(index[1], index[1] + 1)):
        yield _term(node.inputs[0], place, 1, node)


def _term(value: str, place: Index, factor: int, node: Node, weight: str = "") -> GraphTerm:
    if place == (OUTSIDE,):
        return GraphTerm((), factor * node.integer("border"), weight)
    return GraphTerm((GraphRead(value, place),), factor, weight)


def _matmul(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    x, w = node.inputs[:2]
    column = graph.constants[w][:, index[-1]]
    for k, factor in enumerate(column.tolist()):
        yield GraphTerm((GraphRead(x, (*index[:-1], k)),), factor, f"{w}{[k, index[-1]]}")


def _scale(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    x, factors = node.inputs[:2]
    values = graph.constants[factors].reshape(-1)
    channel = index[node.integer("axis")] if values.size > 1 else 0
    yield GraphTerm((GraphRead(x, index),), int(values[channel]), f"{factors}[{channel}]")


def _add(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    for name, factor in zip(node.inputs[:2], node.extents("factors"), strict=True):
        yield GraphTerm((GraphRead(name, _of_operand(index, graph.types[name].shape)),), factor)


def _multiply(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    yield GraphTerm(
        tuple(
            GraphRead(name, _of_operand(index, graph.types[name].shape), BYTES - zero if zero else None)
            for name, zero in zip(node.inputs[:2], node.extents("zeros"), strict=True)
        ),
        1,
    )


def _products(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    """Yield the products of a row of the first operand's part and a column, or row, of the second's."""
    (rows, columns, depth), places = node.extents("size"), node.extents("places")
    row, column = int(np.ravel_multi_index(index[:-1], node.extents("shape")[:-1])), index[-1]
    corners = zip(
        *(
            zip(firsts[::2], firsts[1::2], strict=True)
            for firsts in (places, node.extents("a_places"), node.extents("b_places"))
        ),
        strict=True,
    )
    (first, last), (a_row, a_column), (b_row, b_column) = next(
        corner
        for corner in corners
        if 0 <= row - corner[0][0] < rows and 0 <= column - corner[0][1] < columns
    )
    names = [*node.inputs[3:], "", ""]
    functions = [
        (graph.constants[name].view(np.int8).reshape(-1).astype(np.int64) if name else BYTES) - zero
        if name or zero
        else None
        for name, zero in zip(names, node.extents("zeros"), strict=False)
    ]
    for k in range(depth):
        inner = (column - last, k) if node.integer("transposed") else (k, column - last)
        corner = a_row + row - first, a_column + k
        other = b_row + inner[0], b_column + inner[1]
        yield GraphTerm(
            tuple(
                GraphRead(name, _of_matrix(place, graph.types[name].shape), function)
                for name, place, function in zip(node.inputs[:2], (corner, other), functions, strict=True)
            ),
            1,
        )


def _of_matrix(place: Index, shape: tuple[int, ...]) -> Index:
    """Return where an element of a matrix is in the tensor that the matrix was made of."""
    return (*_index(place[0], shape[:-1]), place[1])


def _of_operand(index: Index, shape: tuple[int, ...]) -> Index:
    """Return where an operand that broadcasts has the element for an element of the result."""
    inner = index[len(index) - len(shape) :]
    return tuple(place if extent > 1 else 0 for place, extent in zip(inner, shape, strict=True))


def _requantise(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    yield from _itself(node.inputs[0], index)


Terms = Callable[[Graph, Node, Index], Iterator[GraphTerm]]
FORMS: Mapping[str, tuple[Terms, int]] = {
    "Int8Add": (_add, 2),
    "Int8AveragePool": (_average_pool, 1),
    "Int8Conv": (_conv, 2),
    "Int8ConvTranspose": (_conv_transpose, 2),
    "Int8MatMul": (_matmul, 2),
    "Int8Mul": (_multiply, 2),
    "Int8Products": (_products, 2),
    "Int8Requantise": (_requantise, 1),
    "Int8Scale": (_scale, 2),
}
"""The terms of operators that requantise a sum, and which input holds the parameters."""
