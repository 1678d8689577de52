"""Operators that only move int8 elements: Concat, Slice, Transpose and Resize run on the accelerator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from vdla.compiler.graph.integer_forms.lowering import IntegerForm, Lowering
from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.network.placed import OffloadCandidate, Offloaded, OperatorKind, Run, Stored, operands
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.program_text import scalar_weights
from vdla.compiler.tasks.rearranging import RepeatTask
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.layout import IMAGE_RANK, Layout

Numbers = NDArray[np.int64]


# Copies of whole elements


def _in_blocks(layout: Layout) -> Layout:
    """Return the layout of a tensor that has a single number for each block of channels."""
    shape = list(layout.shape)
    shape[channel_axis(layout)] = layout.blocks[1]
    return structs.replace(layout, shape=tuple(shape), block=1)


def _numbered(layout: Layout, parts: int, first: int = 0) -> Numbers:
    """Return int64[*shape, parts], with a block for `block` channels: the number of each row or image of each
    element. Those of an element in DRAM have consecutive numbers, from `first` on.

    Args:
        parts: elements of a block.
    """
    whole = _in_blocks(layout)
    numbers = np.arange(whole.size).reshape(-1, 1, layout.batch)
    of_parts = first + numbers // layout.batch * layout.batch * parts + numbers % layout.batch
    of_parts = of_parts + layout.batch * np.arange(parts).reshape(-1, 1)
    return np.stack([whole.arranged(part) for part in np.moveaxis(of_parts, 1, 0)], axis=-1)


def channel_axis(layout: Layout) -> int:
    """Return the axis of the channels of an image or a matrix."""
    return 1 if len(layout.shape) == IMAGE_RANK and not layout.stack else len(layout.shape) - 1


def _elements(numbers: Numbers, layout: Layout) -> Numbers | None:
    """Return the source element of each element of a result, in DRAM; None if the rows of an element come
    from several elements, or from other positions.

    Args:
        numbers: numbers of the result, as `_numbered` returns them.
        layout: layout of the result.
    """
    whole, batch = _in_blocks(layout), layout.batch
    of_parts = [whole.pack(part + 1) - 1 for part in np.moveaxis(numbers, -1, 0)]  # padding gets -1
    rows = np.stack([part.reshape(-1, batch) for part in of_parts], axis=1).reshape(-1, batch)
    first = rows[:, :1]
    in_place = (first % batch == 0) & ((rows == first + np.arange(batch)) | (rows < 0)).all(1, keepdims=True)
    return first[:, 0] // batch if in_place.all() else None


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


def _copy(candidate: OffloadCandidate, numbers: Numbers, result: Layout) -> Offloaded | None:
    """Return the copy of whole elements of all operands; None if an element has rows of several elements.

    Args:
        numbers: numbers of the result, as `_numbered` returns them for the operands one behind another.
        result: layout of the result.
    """
    sources = _operands(candidate)
    elements = _elements(numbers, result)
    if elements is None:
        return None
    runs = _runs(elements, [candidate.elements(source.layout) for source in sources])
    inputs = {f"A{place}": source for place, source in enumerate(sources)}
    task, output = (
        ElementsTask(Elements.COPY, candidate.elements(result)),
        Stored(candidate.node.result, result),
    )
    return replace(candidate.as_tasks(task, inputs, {}, output=output), copied=runs)


MOST_RUNS = 4096  # of a copy; each may take an instruction
IN_RUNS = f"rows in whole elements of batch rows, and at most {MOST_RUNS} runs of elements"


def _violation(copy: Offloaded | None, where: str, config: AcceleratorConfig) -> str:
    """Describe a copy of parts of elements, or of too many runs."""
    if copy is None:
        return f"{where} and batch = {config.batch}"
    return f"{len(copy.copied)} runs of elements" if len(copy.copied) > MOST_RUNS else ""


def _operands(candidate: OffloadCandidate) -> list[Stored]:
    """Return the operands in their layouts. Operands that the host hands over are stacks of matrices if an
    operand on the accelerator is."""
    lying = [candidate.lying(place) for place in range(len(candidate.node.inputs))]
    if not any(_is_stack(each.layout) for each in lying if each.value in candidate.layouts):
        return lying
    stacks = (structs.replace(each.layout, stack=prod(each.layout.shape[:-2])) for each in lying)
    return [
        each
        if each.value in candidate.layouts or len(each.layout.shape) < IMAGE_RANK
        else Stored(each.value, stack)
        for each, stack in zip(lying, stacks, strict=True)
    ]


def _is_stack(layout: Layout) -> bool:
    """Whether a tensor of four dimensions is a stack of the matrices that are its last two dimensions."""
    matrices = prod(layout.shape[:-2])
    return len(layout.shape) == IMAGE_RANK and layout.stack == matrices and not layout.interleaved


def _result(candidate: OffloadCandidate, axis: int) -> Layout | None:
    """Return the layout of a result whose channels are axis `axis`; None if there is none. If an operand is a
    stack of as many matrices as the result, the result is a stack, too."""
    usual = candidate.output().layout
    if usual.batch > 1:
        return usual if channel_axis(usual) == axis else None
    matrices = prod(usual.shape[:-2])
    stacks = {operand.layout.stack for operand in _operands(candidate)}
    rows_of_image = structs.replace(usual, stack=matrices if {matrices} & stacks else 1)
    layouts = (usual, rows_of_image) if matrices == 1 or rows_of_image.stack == 1 else (rows_of_image, usual)
    return next((layout for layout in layouts if channel_axis(layout) == axis), None)


def _rank(candidate: OffloadCandidate) -> str:
    """Describe a volume; "" if the rule holds. Volumes become images, or operators on the host read them."""
    rank = len(candidate.output().layout.shape)
    return f"{rank} dimensions" if rank > IMAGE_RANK else ""


FEW_DIMENSIONS = Rule(f"at most {IMAGE_RANK} dimensions", _rank)


# Concat


def _concat_axis(candidate: OffloadCandidate) -> int:
    return candidate.node.integer("axis") % len(candidate.output().layout.shape)


def _joins_blocks(candidate: OffloadCandidate) -> str:
    """Describe operands of which not all are images or all rows, or parts of blocks; "" if the rule holds."""
    block, names = candidate.block, candidate.node.inputs
    layouts = [operand.layout for operand in _operands(candidate)]
    axes = {channel_axis(layout) for layout in layouts}
    if len(axes) > 1:
        return "operands that are images and operands that are rows"
    if axes != {_concat_axis(candidate)}:
        return ""
    channels = [layout.image[1] for layout in layouts[:-1]]
    return next(
        (
            f"operand {name} of {count} channels in blocks of {block}"
            for name, count in zip(names, channels, strict=False)
            if count % block
        ),
        "",
    )


def _concatenation(candidate: OffloadCandidate) -> Offloaded | None:
    """Return a Concat as a copy; None if the rows of an element come from several elements."""
    layouts = [operand.layout for operand in _operands(candidate)]
    sizes = [candidate.elements(layout) * layout.batch for layout in layouts]
    numbers = [
        _numbered(layout, candidate.parts, begin)
        for layout, begin in zip(layouts, accumulate(sizes[:-1], initial=0), strict=True)
    ]
    result = _result(candidate, channel_axis(layouts[0]))
    assert result is not None, "the result has the dimensions of the operands"
    return _copy(candidate, np.concatenate(numbers, _concat_axis(candidate)), result)


def _joins_rows(candidate: OffloadCandidate) -> str:
    axis = _concat_axis(candidate)
    extents = [candidate.shape(place)[axis] for place in range(len(candidate.node.inputs))]
    where = f"{', '.join(map(str, extents))} rows along axis {axis}"
    return _violation(_concatenation(candidate), where, candidate.config)


# Slice


def _cuts(candidate: OffloadCandidate) -> dict[int, range]:
    """Return the positions that a Slice takes along each of its axes."""
    shape = candidate.shape(0)
    attributes = (candidate.node.extents(name) for name in ("axes", "starts", "ends", "steps"))
    return {
        axis % len(shape): range(shape[axis])[start:end:step]
        for axis, start, end, step in zip(*attributes, strict=True)
    }


def _cuts_blocks(candidate: OffloadCandidate) -> str:
    """Describe a Slice of parts of blocks, or of channels that are apart; "" if the rule holds."""
    axis, block = channel_axis(candidate.lying(0).layout), candidate.block
    size = candidate.shape(0)[axis]
    cut = _cuts(candidate).get(axis, range(size))
    if cut.step != 1:
        return f"channels in steps of {cut.step}"
    whole = cut.start % block == 0 and (cut.stop % block == 0 or cut.stop == size)
    return "" if whole else f"channels {cut.start} to {cut.stop} in blocks of {block}"


def _slice(candidate: OffloadCandidate) -> Offloaded | None:
    """Return a Slice as a copy; None if the rows of an element come from several elements."""
    layout = candidate.lying(0).layout
    numbers, channels = _numbered(layout, candidate.parts), channel_axis(layout)
    for axis, cut in _cuts(candidate).items():
        taken = np.array(cut)
        if axis == channels:
            taken = np.arange(cut.start // layout.block, -(-cut.stop // layout.block))
        numbers = numbers.take(taken, axis)
    result = _result(candidate, channels)
    assert result is not None, "the result has the dimensions of the input"
    return _copy(candidate, numbers, result)


def _cuts_rows(candidate: OffloadCandidate) -> str:
    cuts = (f"{cut.start} to {cut.stop} along axis {axis}" for axis, cut in _cuts(candidate).items())
    return _violation(_slice(candidate), f"rows {', '.join(cuts)}", candidate.config)


# Transpose


def _lies_in_dram(candidate: OffloadCandidate) -> str:
    (name,) = candidate.node.inputs
    return "" if name in candidate.layouts else f"input {name} on the host"


def _perm(candidate: OffloadCandidate) -> str:
    return f"perm = {candidate.node.extents('perm')} of {candidate.shape(0)}"


def _turned(candidate: OffloadCandidate) -> Layout | None:
    """Return the layout of the result of a Transpose, in which the channels of its input are channels; None
    if these are no channels of a result."""
    perm = candidate.node.extents("perm")
    return _result(candidate, perm.index(channel_axis(candidate.lying(0).layout)))


def _turns_channels(candidate: OffloadCandidate) -> str:
    return "" if _turned(candidate) is not None else _perm(candidate)


def _transposition(candidate: OffloadCandidate) -> Offloaded | None:
    """Return a Transpose as a copy; None if the rows of an element come from several elements."""
    perm, result = candidate.node.extents("perm"), _turned(candidate)
    assert result is not None, "channels stay channels"
    numbers = _numbered(candidate.lying(0).layout, candidate.parts)
    return _copy(candidate, numbers.transpose(*perm, len(perm)), result)


def _turns_rows(candidate: OffloadCandidate) -> str:
    return _violation(_transposition(candidate), _perm(candidate), candidate.config)


def _made(copy: Callable[[OffloadCandidate], Offloaded | None]) -> Callable[[OffloadCandidate], Offloaded]:
    """Return `copy` as a function of operators whose rules hold."""

    def make(candidate: OffloadCandidate) -> Offloaded:
        offloaded = copy(candidate)
        assert offloaded is not None, "the rules hold"
        return offloaded

    return make


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
            operands(constant=True),
            FEW_DIMENSIONS,
            Rule("whole blocks of channels in all operands but the last, along channels", _joins_blocks),
            Rule(IN_RUNS, _joins_rows),
        ),
        _made(_concatenation),
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
            Rule("whole blocks of channels", _cuts_blocks),
            Rule(IN_RUNS, _cuts_rows),
        ),
        _made(_slice),
    ),
    "Transpose": OperatorKind(
        (
            operands(1),
            Rule("an input that an operator on the accelerator computes", _lies_in_dram),
            Rule("channels of images or rows that stay channels", _turns_channels),
            Rule(IN_RUNS, _turns_rows),
        ),
        _made(_transposition),
    ),
}
