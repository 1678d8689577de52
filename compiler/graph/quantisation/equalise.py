"""Channels of one tensor brought to like sizes: what makes it divides each channel by a factor, and the
products that read it multiply.

A tensor has one scale, weights one for each output channel. So it pays where few channels are far larger than
the others. Both errors follow from the sizes of channels and weights in closed form, and a tensor is changed
only where their sum falls.

Source: Nagel et al., Data-free quantization through weight equalization and bias correction, ICCV 2019,
section 4.1; Xiao et al., SmoothQuant, ICML 2023, section 4.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.rewrite import GraphBuilder

SHARES = (0.25, 0.5, 0.75, 1.0)  # of the differences between channels that go into the weights
WORTH = 0.8  # of the error before, that the error after must stay below
LARGEST_FACTOR = 1024.0
NORMS = ("LayerNormalization",)


class Link(NamedTuple):
    """A tensor whose channels can have other sizes.

    Attributes:
        name: the tensor.
        source: the node that divides them: a normalisation, or a product.
        bias: a sum behind the product that divides its constant; None: the product has its own bias, or none.
        readers: products that multiply them.
        axis: of its channels.
    """

    name: str
    source: Node
    bias: Node | None
    readers: tuple[Node, ...]
    axis: int


@dataclass
class Sizes:
    """Sizes of the channels of a tensor on samples.

    Attributes:
        greatest: the largest magnitude of each.
        power: the sum of squares of each.
        count: of elements of each.
        positive: no element is negative.
    """

    greatest: np.ndarray = field(default_factory=lambda: np.zeros(()))
    power: np.ndarray = field(default_factory=lambda: np.zeros(()))
    count: int = 0
    positive: bool = True

    def add(self, array: np.ndarray, axis: int) -> None:
        """Add a sample's elements."""
        others = tuple(place for place in range(array.ndim) if place != axis)
        self.greatest = np.maximum(self.greatest, np.abs(array).max(others))
        self.power = self.power + np.square(array, dtype=np.float64).sum(others)
        self.count += array.size // array.shape[axis]
        self.positive = self.positive and not array.min() < 0


def equalised(roles: Roles, samples: Iterable[Mapping[str, np.ndarray]]) -> Graph:
    """Return the float graph with channels of other sizes where that lowers the error of quantisation; it
    computes the same otherwise.

    Args:
        samples: a few inputs, which tell the sizes.
    """
    links = {link.name: link for node in roles.graph.nodes if (link := _link(roles, node)) is not None}
    if not links:
        return roles.graph
    sizes = {name: Sizes() for name in links}

    def look(made: Mapping[str, np.ndarray]) -> None:
        for name in made.keys() & links.keys():
            sizes[name].add(made[name], links[name].axis)

    for sample in samples:
        interpret(roles.graph, sample, lambda _, made: look(made))
    return _scaled(roles.graph, [(link, sizes[link.name]) for link in links.values()])


def _link(roles: Roles, node: Node) -> Link | None:
    """Return the tensor behind a node as a link; None where its channels must stay as they are."""
    graph, chain = roles.graph, roles.product_of(node) if node.outputs[0] in roles.products else (node,)
    name, bounds = chain[-1].outputs[0], [each for each in chain[1:] if each.outputs[0] not in roles.biases]
    norm = node.op in NORMS and node.integer("axis") in (-1, len(graph.types[name].shape) - 1)
    fixed = all(part in graph.constants for part in node.inputs[1:] if part)
    if not (norm or node.outputs[0] in roles.products) or not fixed or any(b.op != "Relu" for b in bounds):
        return None
    readers, rank = tuple(roles.readers[name]), len(graph.types[name].shape)
    axis = 1 if node.op in ("Conv", "ConvTranspose") else rank - 1
    if (
        not readers
        or name in graph.outputs
        or not all(_multiplies(roles, reader, name, axis) for reader in readers)
    ):
        return None
    bias = next((each for each in chain[1:] if each.outputs[0] in roles.biases), None)
    return Link(name, node, bias, readers, axis)


def _multiplies(roles: Roles, reader: Node, name: str, axis: int) -> bool:
    """Whether a product can multiply the channels of a tensor, which go along an axis, that it reads."""
    if reader.outputs[0] not in roles.products or reader.inputs[0] != name:
        return False
    shape = roles.graph.types[name].shape
    if reader.op == "Conv":
        return axis == 1 and reader.integer("group") in (1, shape[1])
    return axis == len(shape) - 1 and reader.op in ("Gemm", "MatMul")


def _inputs_axis(graph: Graph, reader: Node) -> int:
    """Return the axis of the weights that input channels go along."""
    if reader.op == "Conv":
        return 1 if reader.integer("group") == 1 else 0
    return 1 if reader.op == "Gemm" and reader.attributes["transB"] else 0


def _outputs_each(graph: Graph, reader: Node) -> int:
    """Return how many of its outputs a depthwise convolution makes of each channel; 1 for other products."""
    outputs: int = graph.constants[reader.inputs[1]].shape[0]
    return outputs // reader.integer("group") if _is_depthwise(reader) else 1


def _weights(graph: Graph, reader: Node) -> np.ndarray:
    """Return the magnitudes of the weights of a product, float64[input channels, outputs, places]; of a
    depthwise one, the outputs of each channel."""
    weights: np.ndarray = np.abs(graph.constants[reader.inputs[1]]).astype(np.float64)
    if _is_depthwise(reader):
        weights = weights.reshape(reader.integer("group"), -1, int(np.prod(weights.shape[2:])))
    else:
        weights = np.moveaxis(weights, _inputs_axis(graph, reader), 0)
        weights = weights.reshape(*weights.shape[:2], -1)
    return weights


def _is_depthwise(reader: Node) -> bool:
    return reader.op == "Conv" and reader.integer("group") > 1


def _error(graph: Graph, link: Link, sizes: Sizes, factors: np.ndarray) -> float:
    """Return the power of the errors of the readers' results, from rounding of the tensor and of the weights,
    if channels are divided by `factors`."""
    step = (sizes.greatest / factors).max() / (2 if sizes.positive else 1)
    power, total = sizes.power / sizes.count / np.square(factors), 0.0
    for reader in link.readers:
        weights = _weights(graph, reader) * factors[:, None, None]
        largest, places = np.square(weights.max(2)), weights.shape[2]
        total += step**2 * float(np.square(weights).sum())
        if _is_depthwise(reader):
            total += places * float((largest * power[:, None]).sum())
        else:
            total += places * float(largest.max(0).sum() * power.sum())
    return total


def _factors(graph: Graph, link: Link, sizes: Sizes) -> np.ndarray | None:
    """Return by what channels are divided; None where they stay."""
    largest = np.max([_weights(graph, reader).max((1, 2)) for reader in link.readers], axis=0)
    there = (sizes.greatest > 0) & (largest > 0)
    if not there.any() or not np.isfinite(sizes.power).all():
        return None
    channels = np.where(there, sizes.greatest, 1.0)
    weights = np.where(there, largest, 1.0)
    best, least = None, WORTH * _error(graph, link, sizes, np.ones(len(channels)))
    for share in SHARES:
        for inverse in (0.0, 1 - share):
            factors = channels**share / weights**inverse
            factors = factors / np.exp(np.log(factors[there]).mean())
            factors = np.where(there, np.clip(factors, 1 / LARGEST_FACTOR, LARGEST_FACTOR), 1.0)
            error = _error(graph, link, sizes, factors)
            if error < least:
                best, least = factors, error
    return best


def _scaled(graph: Graph, links: Iterable[tuple[Link, Sizes]]) -> Graph:
    made = GraphBuilder(graph)
    nodes = {node.outputs[0]: node for node in graph.nodes}

    def change(node: Node, place: int, factors: np.ndarray, axis: int) -> None:
        """Multiply a constant of a node along an axis; others that read it keep theirs."""
        node = nodes[node.outputs[0]]
        name = node.inputs[place]
        array = np.atleast_1d(made.constants[name] if name in made.constants else graph.constants[name])
        along = factors.reshape([-1 if each == axis % array.ndim else 1 for each in range(array.ndim)])
        own = made.constant(f"{name}_equal", (array.astype(np.float64) * along).astype(np.float32))
        inputs = tuple(own if each == place else part for each, part in enumerate(node.inputs))
        nodes[node.outputs[0]] = replace(node, inputs=inputs)

    for link, sizes in links:
        factors = _factors(graph, link, sizes)
        if factors is None:
            continue
        for node, place, axis in _divided(graph, link):
            change(node, place, 1 / factors, axis)
        for reader in link.readers:
            change(reader, 1, np.repeat(factors, _outputs_each(graph, reader)), _inputs_axis(graph, reader))
    made.nodes = [nodes[node.outputs[0]] for node in graph.nodes]
    return made.finished()


def _divided(graph: Graph, link: Link) -> Iterable[tuple[Node, int, int]]:
    """Yield the constants before a tensor that are divided: node, place and axis of the channels."""
    source = link.source
    if source.op in NORMS:
        return [(source, place, -1) for place, name in enumerate(source.inputs) if place and name]
    outputs = 1 if source.op in ("MatMul", "ConvTranspose") else 0
    outputs = outputs if source.op != "Gemm" else (0 if source.attributes["transB"] else 1)
    found = [(source, 1, outputs)]
    if len(source.inputs) > 2 and source.inputs[2]:
        found.append((source, 2, -1))
    if link.bias is not None:
        found.append((link.bias, [name in graph.constants for name in link.bias.inputs].index(True), -1))
    return found
