"""Corrections of a float graph that lower its quantisation error: equalised channels and corrected biases.

Channel equalisation: a tensor's producer divides each channel by a factor, and its readers multiply by it. A
tensor has a single scale, while weights have a scale for each output channel. Equalisation lowers the error
if a few channels are far larger than the others. The errors of the tensor and of the weights follow from the
channel sizes in closed form; a tensor is equalised only if their sum falls.

Bias correction subtracts the mean rounding error of each output channel of a product from its bias. Only an
error common to all samples is a property of the network. The mean is therefore shrunk by its variance over
the samples, and a single sample corrects nothing.

Sources: Nagel et al., Data-free quantization through weight equalization and bias correction, ICCV 2019,
sections 4.1 and 4.2; Xiao et al., SmoothQuant, ICML 2023, section 4.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.normalisation import NORMALISATIONS
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantise_weights import WEIGHTED, outputs_axis, product_parts
from vdla.compiler.graph.rewrite import GraphBuilder

SHARES = (0.25, 0.5, 0.75, 1.0)  # exponents: the share of the channel differences moved into the weights
WORTH = 0.8  # equalisation must lower the error to less than this share
LARGEST_FACTOR = 1024.0
LEAST_SAMPLES = 2  # of bias correction
EQUALISING_SAMPLES = 2  # that channels are measured on, or more
EQUALISING_ROWS = 32  # of a normalisation, on all these samples


# Channel equalisation


class ScalableTensor(NamedTuple):
    """A tensor whose channels can be rescaled.

    Attributes:
        name: the tensor.
        source: the normalisation or product that divides the channels.
        bias: the sum after the product whose constant is divided too; None if the product itself has the
            bias, or no bias.
        readers: the products that multiply the channels.
        axis: the dimension of the channels.
    """

    name: str
    source: Node
    bias: Node | None
    readers: tuple[Node, ...]
    axis: int


@dataclass
class Sizes:
    """Statistics of the channels of a tensor on samples.

    Attributes:
        greatest: the largest magnitude of each channel.
        power: the sum of squares of each channel.
        count: the number of elements of each channel.
        positive: no element is negative.
    """

    greatest: np.ndarray = field(default_factory=lambda: np.zeros(()))
    power: np.ndarray = field(default_factory=lambda: np.zeros(()))
    count: int = 0
    positive: bool = True

    def add(self, array: np.ndarray, axis: int) -> None:
        """Accumulate the elements of a sample, whose channels are along `axis`."""
        reduced_axes = tuple(place for place in range(array.ndim) if place != axis)
        self.greatest = np.maximum(self.greatest, np.abs(array).max(reduced_axes))
        self.power = self.power + np.square(array, dtype=np.float64).sum(reduced_axes)
        self.count += array.size // array.shape[axis]
        self.positive = self.positive and not array.min() < 0


def with_equalised_channels(roles: Roles, samples: Sequence[Mapping[str, np.ndarray]]) -> Graph:
    """Return an equivalent float graph whose channels are equalised where that lowers the quantisation error.

    Args:
        samples: inputs; channels are measured on the first few.
    """
    tensors = {
        tensor.name: tensor
        for node in roles.graph.nodes
        if (tensor := _scalable_tensor(roles, node)) is not None
    }
    if not tensors:
        return roles.graph
    sizes = {name: Sizes() for name in tensors}

    def watch(_: Node, results: Mapping[str, np.ndarray]) -> None:
        for name in results.keys() & tensors.keys():
            sizes[name].add(results[name], tensors[name].axis)

    for sample in samples[: _enough_samples(roles.graph, tensors.values())]:
        interpret(roles.graph, sample, watch)
    return _with_scaled_channels(roles.graph, [(tensor, sizes[tensor.name]) for tensor in tensors.values()])


def _enough_samples(graph: Graph, tensors: Iterable[ScalableTensor]) -> int:
    """Return the number of samples on which each normalisation has enough rows: a step of a language model
    has a single row."""
    count = EQUALISING_SAMPLES
    for tensor in tensors:
        if tensor.source.op in NORMALISATIONS:
            shape = graph.types[tensor.name].shape
            count = max(count, -(-EQUALISING_ROWS * shape[tensor.axis] // prod(shape)))
    return count


def _scalable_tensor(roles: Roles, node: Node) -> ScalableTensor | None:
    """Return the tensor that a node and the operators fused with it produce; None if it cannot be
    rescaled."""
    graph, chain = roles.graph, roles.fused_chain(node) if node.result in roles.products else (node,)
    name, bounds = chain[-1].result, [each for each in chain[1:] if each.result not in roles.biases]
    norm = node.op in NORMALISATIONS and node.integer("axis") in (-1, len(graph.types[name].shape) - 1)
    fixed = all(part in graph.constants for part in node.inputs[1:] if part)
    if not (norm or node.result in roles.products) or not fixed or any(b.op != "Relu" for b in bounds):
        return None
    readers, rank = tuple(roles.readers(name)), len(graph.types[name].shape)
    axis = 1 if node.op in ("Conv", "ConvTranspose") else rank - 1
    if (
        not readers
        or name in graph.outputs
        or not all(_can_multiply_channels(roles, reader, name, axis) for reader in readers)
    ):
        return None
    bias = next((each for each in chain[1:] if each.result in roles.biases), None)
    return ScalableTensor(name, node, bias, readers, axis)


def _can_multiply_channels(roles: Roles, reader: Node, name: str, axis: int) -> bool:
    """Whether a node is a product that can multiply the channels, along `axis`, of the tensor `name`."""
    if reader.result not in roles.products or reader.inputs[0] != name:
        return False
    shape = roles.graph.types[name].shape
    if reader.op == "Conv":
        return axis == 1 and reader.integer("group") in (1, shape[1])
    return axis == len(shape) - 1 and reader.op in ("Gemm", "MatMul")


def _input_channel_axis(reader: Node) -> int:
    """Return the dimension of the input channels in the weights."""
    return 0 if _is_depthwise(reader) else 1 - outputs_axis(reader)


def _outputs_per_channel(graph: Graph, reader: Node) -> int:
    """Return the outputs per channel of a depthwise convolution; 1 for other products."""
    outputs: int = graph.constants[reader.inputs[1]].shape[0]
    return outputs // reader.integer("group") if _is_depthwise(reader) else 1


def _weights(graph: Graph, reader: Node) -> np.ndarray:
    """Return the magnitudes of the weights of a product, float64[input channels, outputs, kernel positions].

    For a depthwise convolution, outputs are the outputs per channel.
    """
    weights: np.ndarray = np.abs(graph.constants[reader.inputs[1]]).astype(np.float64)
    if _is_depthwise(reader):
        weights = weights.reshape(reader.integer("group"), -1, int(np.prod(weights.shape[2:])))
    else:
        weights = np.moveaxis(weights, _input_channel_axis(reader), 0)
        weights = weights.reshape(*weights.shape[:2], -1)
    return weights


def _is_depthwise(reader: Node) -> bool:
    return reader.op == "Conv" and reader.integer("group") > 1


def _error(graph: Graph, tensor: ScalableTensor, sizes: Sizes, factors: np.ndarray) -> float:
    """Return the power of the errors of the readers' results if channels are divided by `factors`.

    Rounding of the tensor and of the weights both contribute.
    """
    step = (sizes.greatest / factors).max() / (2 if sizes.positive else 1)
    power, total = sizes.power / sizes.count / np.square(factors), 0.0
    for reader in tensor.readers:
        weights = _weights(graph, reader) * factors[:, None, None]
        largest, places = np.square(weights.max(2)), weights.shape[2]
        total += step**2 * float(np.square(weights).sum())
        if _is_depthwise(reader):
            total += places * float((largest * power[:, None]).sum())
        else:
            total += places * float(largest.max(0).sum() * power.sum())
    return total


def _factors(graph: Graph, tensor: ScalableTensor, sizes: Sizes) -> np.ndarray | None:
    """Return the divisor of each channel, float64[channels]; None if no divisors lower the error enough."""
    largest = np.max([_weights(graph, reader).max((1, 2)) for reader in tensor.readers], axis=0)
    there = (sizes.greatest > 0) & (largest > 0)
    if not there.any() or not np.isfinite(sizes.power).all():
        return None
    channels = np.where(there, sizes.greatest, 1.0)
    weights = np.where(there, largest, 1.0)
    best, least = None, WORTH * _error(graph, tensor, sizes, np.ones(len(channels)))
    for share in SHARES:
        for inverse in (0.0, 1 - share):
            factors = channels**share / weights**inverse
            factors = factors / np.exp(np.log(factors[there]).mean())
            factors = np.where(there, np.clip(factors, 1 / LARGEST_FACTOR, LARGEST_FACTOR), 1.0)
            error = _error(graph, tensor, sizes, factors)
            if error < least:
                best, least = factors, error
    return best


def _with_scaled_channels(graph: Graph, tensors: Iterable[tuple[ScalableTensor, Sizes]]) -> Graph:
    builder = GraphBuilder(graph)
    nodes = {node.result: node for node in graph.nodes}

    def change(node: Node, place: int, factors: np.ndarray, axis: int) -> None:
        """Multiply a constant of a node along an axis; other readers of the constant are not affected."""
        node = nodes[node.result]
        name = node.inputs[place]
        array = np.atleast_1d(builder.constants[name] if name in builder.constants else graph.constants[name])
        shape = [1] * array.ndim
        shape[axis] = len(factors)
        along = factors.reshape(shape)
        scaled = builder.constant(f"{name}_equal", (array.astype(np.float64) * along).astype(np.float32))
        inputs = tuple(scaled if each == place else part for each, part in enumerate(node.inputs))
        nodes[node.result] = replace(node, inputs=inputs)

    for tensor, sizes in tensors:
        factors = _factors(graph, tensor, sizes)
        if factors is None:
            continue
        for node, place, axis in _divided_constants(graph, tensor):
            change(node, place, 1 / factors, axis)
        for reader in tensor.readers:
            repeated = np.repeat(factors, _outputs_per_channel(graph, reader))
            change(reader, 1, repeated, _input_channel_axis(reader))
    builder.nodes = [nodes[node.result] for node in graph.nodes]
    return builder.finished()


def _divided_constants(graph: Graph, tensor: ScalableTensor) -> Iterable[tuple[Node, int, int]]:
    """Return the constants to divide, each as its node, its input position and the axis of the channels."""
    source = tensor.source
    if source.op in NORMALISATIONS:
        return [(source, place, -1) for place, name in enumerate(source.inputs) if place and name]
    constants = [(source, 1, outputs_axis(source))]
    if len(source.inputs) > 2 and source.inputs[2]:
        constants.append((source, 2, -1))
    if tensor.bias is not None:
        constants.append(
            (tensor.bias, [name in graph.constants for name in tensor.bias.inputs].index(True), -1)
        )
    return constants


# Bias correction


class BiasedProduct(NamedTuple):
    """A product with a bias, in the float graph and in the quantised graph.

    Attributes:
        node: the product in the float graph.
        real: its input in the quantised graph, before quantisation.
        again: its input in the quantised graph, after dequantisation.
        weights: its weights in the quantised graph, after dequantisation.
    """

    node: Node
    real: str
    again: str
    weights: str


def with_corrected_biases(
    roles: Roles, quantised: Graph, samples: Sequence[Mapping[str, np.ndarray]]
) -> Graph:
    """Return the float graph with the mean errors of the quantised graph subtracted from its biases.

    The float graph is returned unchanged if there are fewer than `LEAST_SAMPLES` samples.

    Args:
        roles: the roles of the float graph.
        quantised: the quantised form of that graph.
        samples: inputs of the graphs.
    """
    if len(samples) < LEAST_SAMPLES:
        return roles.graph
    products, errors = list(_products(roles, quantised)), dict[str, list[np.ndarray]]()
    names = {name for product in products for name in product[1:]}
    for sample in samples:
        seen: dict[str, np.ndarray] = {}

        def watch(_: Node, results: Mapping[str, np.ndarray], seen: dict[str, np.ndarray] = seen) -> None:
            seen.update((name, results[name]) for name in results.keys() & names)

        interpret(quantised, sample, watch)
        seen |= sample
        for product in products:
            error = _mean_error(roles.graph, product, seen)
            errors.setdefault(product.node.result, []).append(error)
    return _with_biases_less(
        roles, {name: _common_error(np.stack(arrays)) for name, arrays in errors.items()}
    )


def _products(roles: Roles, quantised: Graph) -> Iterator[BiasedProduct]:
    """Yield the products whose bias can be corrected; both graphs have their products in the same order."""
    ours, theirs = (
        [node for node in graph.nodes if node.op in WEIGHTED] for graph in (roles.graph, quantised)
    )
    makers = DefUse(quantised).makers
    for node, quantised_node in zip(ours, theirs, strict=True):
        biased = node.op in ("Conv", "Gemm") or any(
            each.result in roles.biases for each in roles.readers(node.result)
        )
        if node.result in roles.products and biased and node.op != "ConvTranspose":
            back = makers[quantised_node.inputs[0]]
            yield BiasedProduct(
                node, makers[back.inputs[0]].inputs[0], quantised_node.inputs[0], quantised_node.inputs[1]
            )


def _mean_error(graph: Graph, product: BiasedProduct, seen: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the mean error of each output channel, float64[outputs], ignoring the effect of padding."""
    axis = 1 if product.node.op == "Conv" else seen[product.real].ndim - 1
    reduced_axes = tuple(place for place in range(seen[product.real].ndim) if place != axis)
    before, after = (
        seen[name].mean(reduced_axes, dtype=np.float64) for name in (product.real, product.again)
    )
    weights, outputs, _ = product_parts(graph, product.node)
    quantised = _means(product.node, seen[product.weights], outputs, after)
    error: np.ndarray = quantised - _means(product.node, weights, outputs, before)
    return error


def _means(node: Node, weights: np.ndarray, outputs: int, inputs: np.ndarray) -> np.ndarray:
    """Return the means of a product's output channels, float64[outputs], from the means of its inputs."""
    rows = np.moveaxis(weights.astype(np.float64), outputs, 0)
    rows = rows.reshape(*rows.shape[:2], -1).sum(2)
    groups = node.integer("group") if node.op == "Conv" else 1
    parts = zip(np.split(rows, groups), np.split(inputs, groups), strict=True)
    return np.concatenate([part @ means for part, means in parts])


def _common_error(errors: np.ndarray) -> np.ndarray:
    """Return float64[channels]: the part of errors float64[samples, channels] common to all samples."""
    mean: np.ndarray = errors.mean(0)
    noise, power = errors.var(0, ddof=1) / len(errors), np.square(mean)
    common: np.ndarray = mean * np.maximum(0, 1 - noise / np.where(power > 0, power, 1))
    return common


def _with_biases_less(roles: Roles, errors: Mapping[str, np.ndarray]) -> Graph:
    """Return the float graph with the errors subtracted from the biases."""
    builder = GraphBuilder(roles.graph)
    for node in roles.graph.nodes:
        product = next((name for name in node.inputs if name in errors), "")
        if node.result in roles.biases and product:
            place = [name in roles.graph.constants for name in node.inputs].index(True)
            node = _subtract_from_constant(builder, node, place, errors[product])
        elif node.result in errors and node.op in ("Conv", "Gemm"):
            node = _subtract_from_constant(
                builder, node, 2, errors[node.result] / (node.real("beta", 1) or 1)
            )
        builder.nodes.append(node)
    return builder.finished()


def _subtract_from_constant(builder: GraphBuilder, node: Node, place: int, error: np.ndarray) -> Node:
    """Return a node with an error subtracted from its constant at `place`; a missing bias counts as 0."""
    name = node.inputs[place] if place < len(node.inputs) else ""
    bias = builder.graph.constants[name].astype(np.float64) if name else np.zeros(len(error))
    inputs = [*node.inputs, *[""] * (place + 1 - len(node.inputs))]
    inputs[place] = builder.constant(f"{name or node.result}_corrected", (bias - error).astype(np.float32))
    return replace(node, inputs=tuple(inputs))
