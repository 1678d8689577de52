"""What an element of a graph's value is computed of: the terms of its sum, or the members of its maximum."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node
from vdla.prove.functions import BYTES
from vdla.prove.reference import MOVED_INPUTS
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.windows import sliding_windows
from vdla.runtime.requantise import requantise

Index = tuple[int, ...]
OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class GraphTerm:
    """A term of a sum: an element of a value, or the border, times a number.

    Attributes:
        value, index: the element; `value` is "" of a border.
        factor: the number.
        weight: the number in the graph, as "w[3, 0, 1, 1]"; "" if it is no weight.
        border: the constant in place of an element.
    """

    value: str
    index: Index
    factor: int
    weight: str = ""
    border: int = 0


@dataclass(frozen=True)
class GraphElement:
    """How a graph computes an element.

    Attributes:
        terms: of the sum, or the members of the maximum; None if the operator has neither.
        is_sum: whether it is a sum.
        parameters: int64[4], of the sum's requantisation; None if the sum is not requantised.
        table: int8[256], the table that the result is looked up in; None if there is no table.
        added: the residual, as a value and an index; None if there is no residual.
    """

    terms: tuple[GraphTerm, ...] | None = None
    is_sum: bool = True
    parameters: np.ndarray | None = None
    table: np.ndarray | None = None
    added: tuple[str, Index] | None = None


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
            added = other, _of_operand(index, graph.types[other].shape)
            index = _of_operand(index, graph.types[value].shape)
        else:
            break
    node = None if value in standing else makers.get(value)
    if node is None:
        return GraphElement((GraphTerm(value, index, 1),), table=table, added=added)
    found, place = FORMS.get(node.op, (None, None))
    terms = None if found is None else tuple(found(graph, node, index))
    parameters = None if place is None else _parameters(graph.constants[node.inputs[place]], node, index)
    return GraphElement(terms, node.op != "Int8MaxPool", parameters, table, added)


def _table(graph: Graph, node: Node, index: Index, standing: set[str]) -> np.ndarray | None:
    """Return the table that an operator looks up, int8[256]; None if it is no function of a byte.

    Requantisation and scaling of a value that is not in DRAM are functions of its bytes.
    """
    if node.op == "Int8Lookup":
        return graph.constants[node.inputs[1]].view(np.int8).reshape(-1)
    if node.op not in ("Int8Requantise", "Int8Scale") or node.inputs[0] in standing:
        return None
    form, place = FORMS[node.op]
    assert form is not None
    assert place is not None
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
    for those in its border."""
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
            yield GraphTerm(x, (index[0], at[0], *(place for place, _ in places)), factor, name)
            yield GraphTerm("", (), factor, name, -zero)


def _average_pool(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    for _, place in _windowed(graph, node, index, range(index[1], index[1] + 1)):
        yield _term(node.inputs[0], place, 1, node)


def _max_pool(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    for _, place in _windowed(graph, node, index, range(index[1], index[1] + 1)):
        if place != (OUTSIDE,):
            yield GraphTerm(node.inputs[0], place, 1)


def _term(value: str, place: Index, factor: int, node: Node, weight: str = "") -> GraphTerm:
    if place == (OUTSIDE,):
        return GraphTerm("", (), factor, weight, node.integer("border"))
    return GraphTerm(value, place, factor, weight)


def _matmul(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    x, w = node.inputs[:2]
    column = graph.constants[w][:, index[-1]]
    for k, factor in enumerate(column.tolist()):
        yield GraphTerm(x, (*index[:-1], k), factor, f"{w}{[k, index[-1]]}")


def _scale(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    x, factors = node.inputs[:2]
    values = graph.constants[factors].reshape(-1)
    channel = index[node.integer("axis")] if values.size > 1 else 0
    yield GraphTerm(x, index, int(values[channel]), f"{factors}[{channel}]")


def _add(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    for name, factor in zip(node.inputs[:2], node.extents("factors"), strict=True):
        yield GraphTerm(name, _of_operand(index, graph.types[name].shape), factor)


def _of_operand(index: Index, shape: tuple[int, ...]) -> Index:
    """Return where an operand that broadcasts has the element for an element of the result."""
    inner = index[len(index) - len(shape) :]
    return tuple(place if extent > 1 else 0 for place, extent in zip(inner, shape, strict=True))


def _requantise(graph: Graph, node: Node, index: Index) -> Iterator[GraphTerm]:
    yield GraphTerm(node.inputs[0], index, 1)


Terms = Callable[[Graph, Node, Index], Iterator[GraphTerm]]
FORMS: Mapping[str, tuple[Terms | None, int | None]] = {
    "Int8Add": (_add, 2),
    "Int8AveragePool": (_average_pool, 1),
    "Int8Conv": (_conv, 2),
    "Int8ConvTranspose": (_conv_transpose, 2),
    "Int8MatMul": (_matmul, 2),
    "Int8MaxPool": (_max_pool, None),
    "Int8Mul": (None, 2),
    "Int8Products": (None, 2),
    "Int8Requantise": (_requantise, 1),
    "Int8Scale": (_scale, 2),
}
"""The terms of operators, and which input holds the parameters. Int8Mul and Int8Products sum products of
activations, which have no terms here."""
