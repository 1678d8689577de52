"""Operators that only move int8 elements: Concat, Slice and Resize run on the accelerator."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.graph.integer_forms.lowering import IntegerForm, Lowering
from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.network.placed import OffloadCandidate, Offloaded, OperatorKind, Piece, operands
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.program_text import scalar_weights
from vdla.compiler.tasks.rearranging import RepeatTask
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.layout import IMAGE_RANK


def _axis(candidate: OffloadCandidate) -> str:
    """Describe a concatenation along an axis other than channels; "" if the rule holds."""
    layout = candidate.output().layout
    rank, image = len(layout.shape), len(layout.shape) == IMAGE_RANK
    axis = candidate.node.integer("axis") % rank
    if axis != (1 if image else rank - 1):
        return f"axis = {axis} of {rank} dimensions"
    return f"{layout.shape[0]} images" if image and layout.blocks[0] > 1 else ""


def _joins_blocks(candidate: OffloadCandidate) -> str:
    block = candidate.block
    names = candidate.node.inputs[:-1]
    channels = [candidate.operand(place).layout.image[1] for place in range(len(names))]
    return next(
        (
            f"operand {name} of {count} channels in blocks of {block}"
            for name, count in zip(names, channels, strict=True)
            if count % block
        ),
        "",
    )


def _concatenation(candidate: OffloadCandidate) -> Offloaded:
    operands = {f"A{place}": candidate.operand(place) for place in range(len(candidate.node.inputs))}
    pieces, begin = [], 0
    for name, stored in operands.items():
        elements = candidate.elements(stored.layout)
        pieces.append(Piece(ElementsTask(Elements.COPY, elements), {"A": (name, 0), "Z": ("Z", begin)}))
        begin += elements
    return candidate.as_tasks(tuple(pieces), operands, {})


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


def _slice(candidate: OffloadCandidate) -> Offloaded:
    """Return a Slice of whole blocks of channels, as a copy."""
    _, _, height, width = candidate.operand(0).layout.image
    begin = _cut(candidate)[0] // candidate.config.block_out * height * width
    task = ElementsTask(Elements.COPY, candidate.elements(candidate.output().layout))
    return candidate.as_tasks((Piece(task, {"A": ("A", begin)}),), {"A": 0}, {})


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
    single = {"sizes": (1, 1, *sizes[2:]), "scales": (1.0, 1.0, *scales[2:])}
    (numbers,) = evaluate("Resize", [places], {**candidate.node.attributes, **single})
    wanted = places.repeat(sizes[2] // height, 2).repeat(sizes[3] // width, 3)
    return "" if np.array_equal(numbers, wanted) else "coordinates that do not repeat pixels evenly"


def _repeated(candidate: OffloadCandidate) -> Offloaded:
    """Return a Resize that repeats the pixels of an image."""
    config = candidate.config
    _, blocks, height, width, *_ = candidate.operand(0).layout.blocks
    _, _, tall, wide = candidate.output().layout.image
    task = RepeatTask(blocks, height, width, (tall // height, wide // width), candidate.parts)
    weights = {"W": scalar_weights((1,), config)} if config.block_in == config.block_out else {}
    return candidate.as_tasks(task, {"X": 0}, weights)


def _moved(lowering: Lowering, site: Site) -> None:
    """Move int8 elements instead of real ones. The operands of a Concat are first requantised to a common
    scale."""
    node, out, operands = site.node, site.out, list(site.operands)
    if node.op == "Concat":
        operands = [lowering.with_quantisation(operand, site.result, out) for operand in operands]
    source = lowering.conversions.source(site.quantiser.inputs[0])
    names = tuple(operand.name for operand in operands)
    if (source, *names) not in lowering.moved:
        results = tuple(
            lowering.value(f"{name}_int8", TensorType(lowering.graph.types[name].shape, "int8"))
            for name in node.outputs
        )
        lowering.nodes.append(replace(node, inputs=names, outputs=results))
        lowering.moved |= {(real, *names): result for real, result in zip(node.outputs, results, strict=True)}
    lowering.rescaled(replace(operands[0], name=lowering.moved[source, *names]), out, site.result, None)


FORMS = dict.fromkeys(MOVES, IntegerForm(_moved))
OPERATORS: Mapping[str, OperatorKind] = {
    "Concat": OperatorKind(
        (
            operands(),
            Rule("channels of one image, or of a matrix", _axis),
            Rule("whole blocks of channels in all operands but the last", _joins_blocks),
        ),
        _concatenation,
    ),
    "Resize": OperatorKind(
        (
            operands(1),
            Rule("one image, and a batch of 1", _image),
            Rule("pixels repeated by whole factors", _repeats),
        ),
        _repeated,
    ),
    "Slice": OperatorKind(
        (
            operands(1),
            Rule("channels of one image, and a batch of 1", _channels),
            Rule("whole blocks of channels", _whole_blocks),
        ),
        _slice,
    ),
}
