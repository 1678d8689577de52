"""Per-channel scales and shifts become depthwise 1x1 convolutions, merged into the convolution before them.

`Add(Mul(x, scale), shift)` with constants for each channel of an image, and batch normalisation that stands
alone, are `Conv(x, scale, shift, group=channels)`; `Conv(Conv(x, w, b), scale, shift, group=channels)` is one
convolution with `w scale` and `b scale + shift`. Convolutions have an integer form, so these operators can
then be quantised. What changes all channels alike is a function of each element, which becomes a table or
part of a requantisation; it becomes a convolution only behind one, or where an image enters the network.

Source: Jacob et al., CVPR 2018, section 3.2.
"""

from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.affine import Affine, affine_of, is_pointwise
from vdla.compiler.graph.integer_forms.early import IMAGE_RANK
from vdla.compiler.graph.nodes import Attribute, Graph, Node, consumers
from vdla.compiler.graph.rewrite import Rewriting

CHANNEL_CONSTANT = (
    "a constant for each channel of an image, which becomes a depthwise Conv or goes into the one before"
)
CHANNELS = 1  # the axis of images that they go along
CONVERTED = ("Add", "BatchNormalization", "Mul")


@dataclass(frozen=True, slots=True)
class AffineToConv:
    """The pass."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with convolutions instead of per-channel scales and shifts."""
        return _merged(_converted(graph))


def _converted(graph: Graph) -> Graph:
    made, readers = Rewriting(graph), consumers(graph)
    joining = set(graph.inputs)
    for node in graph.nodes:
        (out, *_), image = node.outputs, len(graph.types[node.outputs[0]].shape) == IMAGE_RANK
        found = affine_of(graph, node, CHANNELS) if node.op in CONVERTED and image else None
        if found is not None and (found.x in joining or not _is_alike(found)):
            node = _depthwise(made, node, found)
        made.nodes.append(node)
        if node.op == "Conv" and len(readers[out]) == 1 and out not in graph.outputs:
            joining.add(out)
    return made.finished()


def _is_alike(change: Affine) -> bool:
    """Whether all channels are changed alike."""
    return all(bool((array == array[0]).all()) for array in (change.factors, change.shifts))


def _constants(made: Rewriting, node: Node, weights: np.ndarray, bias: np.ndarray) -> tuple[str, str]:
    """Add the weights and the bias of a convolution in place of `node`."""
    weights, bias = (np.ascontiguousarray(array, np.float32) for array in (weights, bias))
    return made.constant(f"{node.outputs[0]}_weight", weights), made.constant(f"{node.outputs[0]}_bias", bias)


def _depthwise(made: Rewriting, node: Node, change: Affine) -> Node:
    """Return the convolution that changes each channel."""
    names = _constants(made, node, change.factors.reshape(-1, 1, 1, 1), change.shifts)
    attributes: dict[str, Attribute] = {
        "dilations": (1, 1),
        "group": len(change.factors),
        "pads": (0, 0, 0, 0),
        "strides": (1, 1),
    }
    return Node("Conv", (change.x, *names), node.outputs, attributes, node.name)


def _merged(graph: Graph) -> Graph:
    """Let depthwise 1x1 convolutions go into the convolutions before them."""
    made, readers = Rewriting(graph), consumers(graph)
    convolutions: dict[str, Node] = {}
    for node in graph.nodes:
        before = convolutions.get(node.inputs[0]) if node.op == "Conv" and is_pointwise(graph, node) else None
        alone = node.inputs and len(readers[node.inputs[0]]) == 1 and node.inputs[0] not in graph.outputs
        if before is not None and alone and _fixed(graph, before, made):
            made.nodes.remove(before)
            node = _joined(graph, before, node, made)
        if node.op == "Conv":
            convolutions[node.outputs[0]] = node
        made.nodes.append(node)
    return made.finished()


def _fixed(graph: Graph, node: Node, made: Rewriting) -> bool:
    return all(name in graph.constants or name in made.constants for name in node.inputs[1:] if name)


def _joined(graph: Graph, before: Node, node: Node, made: Rewriting) -> Node:
    def array(name: str) -> np.ndarray:
        constants = made.constants if name in made.constants else graph.constants
        return constants[name].astype(np.float64)

    weights, factors = array(before.inputs[1]), array(node.inputs[1]).reshape(-1)
    bias = array(before.inputs[2]) if len(before.inputs) > 2 and before.inputs[2] else np.zeros(len(weights))
    shifts = array(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(len(weights))
    names = _constants(made, node, weights * factors.reshape(-1, 1, 1, 1), bias * factors + shifts)
    return replace(before, inputs=(before.inputs[0], *names), outputs=node.outputs)
