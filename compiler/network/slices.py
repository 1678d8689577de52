"""Slices of channels, and repeated pixels (Resize), on the accelerator, which moves whole elements."""

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.integer_forms.reasons import is_float
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.network.placed import OffloadCandidate, Offloaded, Piece
from vdla.compiler.operands.interleaved import activation_block
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.constant_operands import scalar_weights
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.rearranging import RepeatTask
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.layout import IMAGE_RANK

SPATIAL = 2


def with_slices(graph: Graph, config: AcceleratorConfig) -> Graph:
    """Return a graph with Slices in place of each Split into whole blocks of channels."""
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        if node.op == "Split" and not is_float(graph, node) and _whole_parts(graph, node, config):
            builder.nodes += _slices(node)
        else:
            builder.nodes.append(node)
    return builder.finished()


def _whole_parts(graph: Graph, node: Node, config: AcceleratorConfig) -> bool:
    type_ = graph.types[node.inputs[0]]
    sizes = node.extents("split")
    return (
        _is_image(type_)
        and config.batch == 1
        and node.integer("axis") % IMAGE_RANK == 1
        and not any(size % activation_block(config) for size in sizes[:-1])
    )


def _is_image(type_: TensorType) -> bool:
    return type_.dtype == "int8" and len(type_.shape) == IMAGE_RANK and type_.shape[0] == 1


def _slices(node: Node) -> list[Node]:
    begin, slices = 0, []
    for name, size in zip(node.outputs, node.extents("split"), strict=False):
        cut = {"axes": (1,), "starts": (begin,), "ends": (begin + size,), "steps": (1,)}
        slices.append(replace(node, op="Slice", outputs=(name,), attributes=cut, name=name))
        begin += size
    return slices


def _cut(candidate: OffloadCandidate) -> tuple[int, int]:
    """Return the first channel of a Slice of channels, and one past its last."""
    (begin,), (end,) = candidate.node.extents("starts"), candidate.node.extents("ends")
    channels = candidate.shape(0)[1]

    def inside(place: int) -> int:
        return min(max(place + channels if place < 0 else place, 0), channels)

    return inside(begin), inside(end)


def _channels(candidate: OffloadCandidate) -> str:
    node, shape = candidate.node, candidate.shape(0)
    axes = tuple(axis % len(shape) for axis in node.extents("axes"))
    if len(shape) != IMAGE_RANK or shape[0] != 1 or axes != (1,) or node.extents("steps") != (1,):
        return f"axes {node.extents('axes')} and steps {node.extents('steps')} of {len(shape)} dimensions"
    return "" if candidate.config.batch == 1 else f"batch = {candidate.config.batch}"


def _whole_blocks(candidate: OffloadCandidate) -> str:
    (begin, end), block = _cut(candidate), candidate.block
    whole = begin % block == 0 and (end % block == 0 or end == candidate.shape(0)[1])
    return "" if whole else f"channels {begin} to {end} in blocks of {block}"


def part(candidate: OffloadCandidate) -> Offloaded:
    """Return a Slice of whole blocks of channels, as a copy."""
    config, (name, layout) = candidate.config, candidate.operand(0)
    _, _, height, width = layout.image
    (begin, _), plane = _cut(candidate), height * width
    out = candidate.output()
    elements = out[1].size // config.block_out
    piece = Piece(ElementsTask(Elements.COPY, elements), begins={"A": begin // config.block_out * plane})
    return Offloaded(candidate.node, (piece,), {"A": (name, layout)}, out)


def _image(candidate: OffloadCandidate) -> str:
    shape = candidate.shape(0)
    if len(shape) != IMAGE_RANK or shape[0] != 1:
        return f"an operand of the shape {shape}"
    return "" if candidate.config.batch == 1 else f"batch = {candidate.config.batch}"


def _repeats(candidate: OffloadCandidate) -> str:
    """Describe a Resize that does not repeat pixels by whole factors; "" if the rule holds."""
    _, channels, height, width = candidate.shape(0)
    sizes, scales = candidate.node.extents("sizes"), candidate.node.attributes["scales"]
    assert isinstance(scales, tuple), "a Resize has a scale for each dimension"
    if sizes[1] != channels or sizes[2] % height or sizes[3] % width:
        return f"sizes {sizes} of an image {candidate.shape(0)}"
    places = np.arange(height * width).reshape(1, 1, height, width)
    single = {"sizes": (1, 1, *sizes[SPATIAL:]), "scales": (1.0, 1.0, *scales[SPATIAL:])}
    (numbers,) = evaluate("Resize", [places], {**candidate.node.attributes, **single})
    wanted = places.repeat(sizes[2] // height, 2).repeat(sizes[3] // width, 3)
    return "" if np.array_equal(numbers, wanted) else "coordinates that do not repeat pixels evenly"


def repeated(candidate: OffloadCandidate) -> Offloaded:
    """Return a Resize that repeats the pixels of an image."""
    (name, layout), out = candidate.operand(0), candidate.output()
    _, blocks, height, width, *_ = layout.blocks
    _, _, tall, wide = out[1].image
    factors, parts = (tall // height, wide // width), candidate.block // candidate.config.block_out
    task = RepeatTask(blocks, height, width, factors, parts)
    same = candidate.config.block_in == candidate.config.block_out
    weights = {"W": scalar_weights((1,), candidate.config)} if same else {}
    return Offloaded(candidate.node, (Piece(task),), {"X": (name, layout)}, out, weights)


SLICE_RULES = (
    Rule("channels of one image, and a batch of 1", _channels),
    Rule("whole blocks of channels", _whole_blocks),
)
REPEAT_RULES = (
    Rule("one image, and a batch of 1", _image),
    Rule("pixels repeated by whole factors", _repeats),
)
