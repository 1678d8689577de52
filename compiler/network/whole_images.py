"""Transposed convolutions of images less their zero point, which read several images that sum up to these.

One whose kernel is its stride sums no pixels but those of the image. So it can read the image itself, and its
biases stand for the zero point; but each phase has its own ones, which only `phases` can make.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import Rewriting
from vdla.hw.spec.vocabulary import Parameter
from vdla.runtime.host.evaluate import evaluate

BYTES = np.arange(-128, 128).astype(np.int8).reshape(1, 1, 16, 16)
LARGEST_BIAS = 1 << 30


def of_whole_images(graph: Graph, others: Collection[str] = ()) -> tuple[Graph, frozenset[str]]:
    """Return a graph in which such transposed convolutions read the image itself, with parameters int64[4,
    phases * outputs], phase by phase; and the names of their results.

    Args:
        others: results of those that stay as they are.
    """
    makers = {name: node for node in graph.nodes for name in node.outputs}
    made, found = Rewriting(graph), set[str]()
    for node in graph.nodes:
        whole = None if node.outputs[0] in others else _whole(made, node, makers)
        made.nodes.append(node if whole is None else whole)
        if whole is not None:
            found.add(node.outputs[0])
    return (DeadCode().run(made.finished()) if found else graph), frozenset(found)


def _whole(made: Rewriting, node: Node, makers: Mapping[str, Node]) -> Node | None:
    """Return a transposed convolution that reads one image instead of its parts; None for others."""
    graph = made.graph
    if node.op != "Int8ConvTranspose" or any(name not in graph.constants for name in node.inputs[1:]):
        return None
    weights, words = (graph.constants[name] for name in node.inputs[1:])
    if any(node.extents("pads")) or node.pair("strides") != weights.shape[2:]:
        return None
    image, less = _image(graph, makers, makers.get(node.inputs[0]))
    if image is None:
        return None
    channels, outputs = graph.types[image].shape[1], weights.shape[1]
    own = weights[:channels]
    if not np.array_equal(weights, np.tile(own, (len(weights) // channels, 1, 1, 1))):
        return None
    bias = less * own.astype(np.int64).sum(0).transpose(1, 2, 0).reshape(-1, outputs)
    each = np.broadcast_to(words.astype(np.int64)[:, None], (len(words), len(bias), outputs)).copy()
    each[Parameter.BIAS] += bias
    if np.abs(each[Parameter.BIAS]).max() >= LARGEST_BIAS:
        return None
    names = (
        made.constant(f"{node.inputs[1]}_whole", own),
        made.constant(f"{node.inputs[2]}_whole", each.reshape(len(words), -1).astype(words.dtype)),
    )
    return replace(node, inputs=(image, *names))


def _image(graph: Graph, makers: Mapping[str, Node], node: Node | None) -> tuple[str | None, int]:
    """Return the image to whose values the images that an operator puts behind each other sum up, but for a
    number that is added to all; None where there is none."""
    parts = [] if node is None else _parts(graph, makers, node)
    if node is None or not parts:
        return None, 0
    image, values = parts[0][0], [part for _, part in parts]
    more = sum(value.astype(np.int64) for value in values) - BYTES
    alike = all(name == image for name, _ in parts) and bool((more == more.flat[0]).all())
    return (image, int(more.flat[0])) if alike else (None, 0)


def _parts(graph: Graph, makers: Mapping[str, Node], node: Node) -> list[tuple[str, np.ndarray]]:
    """Return the images that an operator puts behind each other: the image from which each is made, and what
    its channels become for each byte."""
    source = node.inputs[0]
    if node.op == "Int8Conv" and all(name in graph.constants for name in node.inputs[1:]):
        weights, channels = graph.constants[node.inputs[1]], graph.types[source].shape[1]
        count = max(len(weights) // channels, 1)
        ones = np.tile(np.eye(channels, dtype=np.int8), (count, 1))[..., None, None]
        if not np.array_equal(weights, ones):
            return []
        values = _of_bytes(graph, node, channels)
        return [(source, part) for part in np.split(values, count, 1)]
    if node.op != "Concat" or node.integer("axis") != 1:
        return []
    own = [makers.get(name) for name in node.inputs]
    if any(
        each is None or each.op != "Int8Requantise" or each.inputs[1] not in graph.constants for each in own
    ):
        return []
    return [
        (each.inputs[0], _of_bytes(graph, each, graph.types[each.inputs[0]].shape[1])) for each in own if each
    ]


def _of_bytes(graph: Graph, node: Node, channels: int) -> np.ndarray:
    """Return what an operator makes of an image whose channels hold each byte."""
    constants = [graph.constants[name] for name in node.inputs[1:]]
    (found,) = evaluate(node.op, [BYTES.repeat(channels, 1), *constants], dict(node.attributes))
    return found
