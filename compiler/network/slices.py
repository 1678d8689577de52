"""Parts of channels, and repeated pixels, on the accelerator: whole elements are moved."""

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.integer_forms.host import is_float
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.rewrite import Rewriting
from vdla.compiler.network.maker import Maker, Offloaded, Piece
from vdla.compiler.operands.interleaved import activation_block
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.constant_operands import scalar_weights
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.repeat import RepeatTask
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.layout import IMAGE_RANK

SPATIAL = 2


def sliced_before(graph: Graph, config: AcceleratorConfig) -> Graph:
    """Return a graph in which Slices make the parts of each Split that are whole blocks of channels."""
    made = Rewriting(graph)
    for node in graph.nodes:
        if node.op == "Split" and not is_float(graph, node) and _whole_parts(graph, node, config):
            made.nodes += _slices(node)
        else:
            made.nodes.append(node)
    return made.finished()


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
    begin, found = 0, []
    for name, size in zip(node.outputs, node.extents("split"), strict=False):
        cut = {"axes": (1,), "starts": (begin,), "ends": (begin + size,), "steps": (1,)}
        found.append(replace(node, op="Slice", outputs=(name,), attributes=cut, name=name))
        begin += size
    return found


def _cut(maker: Maker) -> tuple[int, int]:
    """Return the first channel of a Slice of channels, and one past its last."""
    (begin,), (end,) = maker.node.extents("starts"), maker.node.extents("ends")
    channels = maker.shape(0)[1]

    def inside(place: int) -> int:
        return min(max(place + channels if place < 0 else place, 0), channels)

    return inside(begin), inside(end)


def _channels(maker: Maker) -> str:
    node, shape = maker.node, maker.shape(0)
    axes = tuple(axis % len(shape) for axis in node.extents("axes"))
    if len(shape) != IMAGE_RANK or shape[0] != 1 or axes != (1,) or node.extents("steps") != (1,):
        return f"axes {node.extents('axes')} and steps {node.extents('steps')} of {len(shape)} dimensions"
    return "" if maker.config.batch == 1 else f"batch = {maker.config.batch}"


def _whole_blocks(maker: Maker) -> str:
    (begin, end), block = _cut(maker), maker.block
    whole = begin % block == 0 and (end % block == 0 or end == maker.shape(0)[1])
    return "" if whole else f"channels {begin} to {end} in blocks of {block}"


def part(maker: Maker) -> Offloaded:
    """Return the copy of some blocks of channels."""
    config, (name, layout) = maker.config, maker.operand(0)
    _, _, height, width = layout.image
    (begin, _), plane = _cut(maker), height * width
    out = maker.output()
    elements = out[1].size // config.block_out
    piece = Piece(ElementsTask(Elements.COPY, elements), begins={"A": begin // config.block_out * plane})
    return Offloaded(maker.node, (piece,), {"A": (name, layout)}, out)


def _image(maker: Maker) -> str:
    shape = maker.shape(0)
    if len(shape) != IMAGE_RANK or shape[0] != 1:
        return f"an operand of the shape {shape}"
    return "" if maker.config.batch == 1 else f"batch = {maker.config.batch}"


def _repeats(maker: Maker) -> str:
    """Say where elements are not repeated by whole factors."""
    _, channels, height, width = maker.shape(0)
    sizes, scales = maker.node.extents("sizes"), maker.node.attributes["scales"]
    assert isinstance(scales, tuple), "a Resize has a scale for each dimension"
    if sizes[1] != channels or sizes[2] % height or sizes[3] % width:
        return f"sizes {sizes} of an image {maker.shape(0)}"
    places = np.arange(height * width).reshape(1, 1, height, width)
    one = {"sizes": (1, 1, *sizes[SPATIAL:]), "scales": (1.0, 1.0, *scales[SPATIAL:])}
    (found,) = evaluate("Resize", [places], {**maker.node.attributes, **one})
    wanted = places.repeat(sizes[2] // height, 2).repeat(sizes[3] // width, 3)
    return "" if np.array_equal(found, wanted) else "coordinates that do not repeat pixels evenly"


def repeated(maker: Maker) -> Offloaded:
    """Return an image whose pixels are repeated."""
    (name, layout), out = maker.operand(0), maker.output()
    _, blocks, height, width, *_ = layout.blocks
    _, _, tall, wide = out[1].image
    factors, parts = (tall // height, wide // width), maker.block // maker.config.block_out
    task = RepeatTask(blocks, height, width, factors, parts)
    same = maker.config.block_in == maker.config.block_out
    weights = {"W": scalar_weights((1,), maker.config)} if same else {}
    return Offloaded(maker.node, (Piece(task),), {"X": (name, layout)}, out, weights)


SLICE_RULES = (
    Rule("channels of one image, and a batch of 1", _channels),
    Rule("whole blocks of channels", _whole_blocks),
)
REPEAT_RULES = (
    Rule("one image, and a batch of 1", _image),
    Rule("pixels repeated by whole factors", _repeats),
)
