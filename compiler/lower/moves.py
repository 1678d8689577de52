"""Operators that only move int8 elements: Concat, Slice and Resize run on the accelerator."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.integer_forms.lowering import IntegerForm, Lowering
from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.nodes import Node, TensorType
from vdla.compiler.network.placed import OffloadCandidate, Offloaded, OperatorKind, Run, operands
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.program_text import scalar_weights
from vdla.compiler.tasks.rearranging import RepeatTask
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.layout import IMAGE_RANK, Layout

Numbers = NDArray[np.int64]


# Copies of whole elements


def _by_rows(numbers: Numbers, layout: Layout) -> Numbers:
    """Return the numbers of rows or images in the order of a tensor.

    Args:
        numbers: int64[elements in DRAM, batch].

    Returns:
        int64[rows or images, blocks of channels, pixels, parts of a block].
    """
    outer, channels, height, width, batch, _ = layout.blocks
    if len(layout.shape) == IMAGE_RANK:
        ordered = numbers.reshape(outer, channels, height * width, -1, batch)
    else:
        ordered = numbers.reshape(channels, height, 1, -1, batch).swapaxes(0, 1)
    rows = np.moveaxis(ordered, -1, 1).reshape(-1, *ordered.shape[1:-1])
    return rows[: prod(layout.shape[:-1]) if len(layout.shape) != IMAGE_RANK else layout.shape[0]]


def _in_dram(rows: Numbers, layout: Layout) -> Numbers:
    """Return what `_by_rows` returns as int64[elements in DRAM, batch]; rows of padding have the number
    -1."""
    batch = layout.batch
    whole = np.pad(rows, ((0, -len(rows) % batch), (0, 0), (0, 0), (0, 0)), constant_values=-1)
    elements = np.moveaxis(whole.reshape(-1, batch, *rows.shape[1:]), 1, -1)
    return (elements if len(layout.shape) == IMAGE_RANK else elements.swapaxes(0, 1)).reshape(-1, batch)


def _numbered(layout: Layout, parts: int, first: int = 0) -> Numbers:
    """Return int64[*shape, parts], with a block for `block` channels: the number of each row or image of each
    element. Those of an element in DRAM have consecutive numbers, from `first` on.

    Args:
        parts: elements of a block.
    """
    size = prod(layout.blocks[:-1]) * parts
    rows = _by_rows(np.arange(first, first + size).reshape(-1, layout.batch), layout)
    return rows.reshape(*_extents_in_blocks(layout), parts)


def _extents_in_blocks(layout: Layout) -> tuple[int, ...]:
    shape = list(layout.shape)
    shape[channel_axis(layout.shape)] = layout.blocks[1]
    return tuple(shape)


def channel_axis(shape: Sequence[int]) -> int:
    """Return the axis of the channels of an image or a matrix."""
    return 1 if len(shape) == IMAGE_RANK else len(shape) - 1


def _elements(numbers: Numbers, layout: Layout) -> Numbers | None:
    """Return the source element of each element of a result, in DRAM; None if the rows of an element come
    from several elements, or from other positions.

    Args:
        numbers: numbers of the result, as `_numbered` returns them.
        layout: layout of the result.
    """
    shape, channels = numbers.shape, channel_axis(layout.shape)
    pixels = prod(shape[channels + 1 : -1])
    rows = _in_dram(numbers.reshape(-1, shape[channels], pixels, shape[-1]), layout)
    first, batch = rows[:, :1], layout.batch
    whole = (first % batch == 0) & ((rows == first + np.arange(batch)) | (rows < 0)).all(1, keepdims=True)
    return first[:, 0] // batch if whole.all() else None


def _runs(elements: Numbers, sizes: Sequence[int]) -> tuple[Run, ...]:
    """Return the runs of the operands A0, A1 and so on, whose elements are numbered consecutively.

    Args:
        sizes: number of elements of each operand.
    """
    begins = np.cumsum([0, *sizes[:-1]])
    owners = np.searchsorted(begins, elements, "right") - 1
    ends = np.flatnonzero((np.diff(elements) != 1) | (np.diff(owners) != 0)) + 1
    firsts, counts = np.array([0, *ends]), np.diff([0, *ends, len(elements)])
    return tuple(
        Run(f"A{owners[at]}", int(elements[at] - begins[owners[at]]), int(count))
        for at, count in zip(firsts, counts, strict=True)
    )


def _copy(candidate: OffloadCandidate, runs: tuple[Run, ...]) -> Offloaded:
    """Return the copy of runs of elements of all operands."""
    inputs = {f"A{place}": candidate.operand(place) for place in range(len(candidate.node.inputs))}
    task = ElementsTask(Elements.COPY, candidate.elements(candidate.output().layout))
    return replace(candidate.as_tasks(task, inputs, {}), copied=runs)


MOST_RUNS = 4096  # of a copy; each may take an instruction
IN_RUNS = f"rows in whole elements of batch rows, and at most {MOST_RUNS} runs of elements"


def _violation(runs: tuple[Run, ...] | None, where: str, config: AcceleratorConfig) -> str:
    """Describe a copy of parts of elements, or of too many runs."""
    if runs is None:
        return f"{where} and batch = {config.batch}"
    return f"{len(runs)} runs of elements" if len(runs) > MOST_RUNS else ""


def _rank(candidate: OffloadCandidate) -> str:
    """Describe a volume; "" if the rule holds. Volumes become images, or operators on the host read them."""
    rank = len(candidate.output().layout.shape)
    return f"{rank} dimensions" if rank > IMAGE_RANK else ""


FEW_DIMENSIONS = Rule(f"at most {IMAGE_RANK} dimensions", _rank)


# Concat


def _concat_axis(candidate: OffloadCandidate) -> int:
    return candidate.node.integer("axis") % len(candidate.output().layout.shape)


def _axis(candidate: OffloadCandidate) -> str:
    """Describe a concatenation of columns of images; "" if the rule holds."""
    rank, axis = len(candidate.output().layout.shape), _concat_axis(candidate)
    return f"axis = {axis} of {rank} dimensions" if rank == IMAGE_RANK and axis == rank - 1 else ""


def _joins_blocks(candidate: OffloadCandidate) -> str:
    block = candidate.block
    names = candidate.node.inputs[:-1]
    if _concat_axis(candidate) != channel_axis(candidate.output().layout.shape):
        return ""
    channels = [candidate.operand(place).layout.image[1] for place in range(len(names))]
    return next(
        (
            f"operand {name} of {count} channels in blocks of {block}"
            for name, count in zip(names, channels, strict=True)
            if count % block
        ),
        "",
    )


def _joined_runs(candidate: OffloadCandidate) -> tuple[Run, ...] | None:
    """Return the runs of a Concat; None if the rows of an element come from several elements."""
    layouts = [candidate.operand(place).layout for place in range(len(candidate.node.inputs))]
    sizes = [candidate.elements(layout) for layout in layouts]
    begins = accumulate(sizes[:-1], initial=0)
    numbers = [
        _numbered(layout, candidate.parts, begin * layout.batch)
        for layout, begin in zip(layouts, begins, strict=True)
    ]
    elements = _elements(np.concatenate(numbers, _concat_axis(candidate)), candidate.output().layout)
    return None if elements is None else _runs(elements, sizes)


def _joins_rows(candidate: OffloadCandidate) -> str:
    axis = _concat_axis(candidate)
    extents = [candidate.shape(place)[axis] for place in range(len(candidate.node.inputs))]
    where = f"{', '.join(map(str, extents))} rows along axis {axis}"
    return _violation(_joined_runs(candidate), where, candidate.config)


def _concatenation(candidate: OffloadCandidate) -> Offloaded:
    runs = _joined_runs(candidate)
    assert runs is not None, "the rules hold"
    return _copy(candidate, runs)


# Slice


def _cuts(node: Node, shape: Sequence[int]) -> dict[int, range]:
    """Return the positions that a Slice takes along each of its axes."""
    attributes = (node.extents(name) for name in ("axes", "starts", "ends", "steps"))
    return {
        axis % len(shape): range(shape[axis])[start:end:step]
        for axis, start, end, step in zip(*attributes, strict=True)
    }


def _cuts_of(candidate: OffloadCandidate) -> dict[int, range]:
    return _cuts(candidate.node, candidate.shape(0))


def _sliced_axes(candidate: OffloadCandidate) -> str:
    """Describe a Slice of pixels, or of channels that are apart; "" if the rule holds."""
    shape, cuts = candidate.shape(0), _cuts_of(candidate)
    pixels = len(shape) == IMAGE_RANK and any(axis > 1 for axis in cuts)
    channels = cuts.get(channel_axis(shape), range(1))
    if not pixels and channels.step == 1:
        return ""
    node = candidate.node
    return f"axes {node.extents('axes')} and steps {node.extents('steps')} of {len(shape)} dimensions"


def _cuts_blocks(candidate: OffloadCandidate) -> str:
    shape, block = candidate.shape(0), candidate.block
    size = shape[channel_axis(shape)]
    cut = _cuts_of(candidate).get(channel_axis(shape), range(size))
    whole = cut.start % block == 0 and (cut.stop % block == 0 or cut.stop == size)
    return "" if whole else f"channels {cut.start} to {cut.stop} in blocks of {block}"


def _cut_runs(candidate: OffloadCandidate) -> tuple[Run, ...] | None:
    """Return the runs of a Slice; None if the rows of an element come from several elements."""
    layout = candidate.operand(0).layout
    numbers = _numbered(layout, candidate.parts)
    for axis, cut in _cuts_of(candidate).items():
        taken = np.array(cut)
        if axis == channel_axis(layout.shape):
            taken = np.arange(cut.start // layout.block, -(-cut.stop // layout.block))
        numbers = numbers.take(taken, axis)
    elements = _elements(numbers, candidate.output().layout)
    return None if elements is None else _runs(elements, [candidate.elements(layout)])


def _cuts_rows(candidate: OffloadCandidate) -> str:
    cuts = (f"{cut.start} to {cut.stop} along axis {axis}" for axis, cut in _cuts_of(candidate).items())
    return _violation(_cut_runs(candidate), f"rows {', '.join(cuts)}", candidate.config)


def _slice(candidate: OffloadCandidate) -> Offloaded:
    runs = _cut_runs(candidate)
    assert runs is not None, "the rules hold"
    return _copy(candidate, runs)


# Resize


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
    """Move int8 elements instead of real elements. The operands of a Concat are first requantised to a common
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
            FEW_DIMENSIONS,
            Rule("rows or channels of matrices, images, or channels or rows of images", _axis),
            Rule("whole blocks of channels in all operands but the last, along channels", _joins_blocks),
            Rule(IN_RUNS, _joins_rows),
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
            FEW_DIMENSIONS,
            Rule(
                "rows or contiguous channels of a matrix, images, or contiguous channels of images",
                _sliced_axes,
            ),
            Rule("whole blocks of channels", _cuts_blocks),
            Rule(IN_RUNS, _cuts_rows),
        ),
        _slice,
    ),
}
