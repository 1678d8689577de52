"""Max pooling, element-wise operators, Concat, Slice and Resize on the accelerator."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.codegen.epilogue import TABLE, Epilogue, table_entries
from vdla.compiler.network.channelwise import by_alu, by_channel, factor_place, multiplies
from vdla.compiler.network.placed import (
    OffloadCandidate,
    Offloaded,
    OperatorKind,
    Piece,
    alu,
    constants,
    operands,
)
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.constant_operands import scalar_weights
from vdla.compiler.tasks.elementwise import FORMS, Elements, ElementsForm, ElementsTask
from vdla.compiler.tasks.pooling import MaximumTask, PoolingTask, pools_by_multiplier
from vdla.compiler.tasks.rearranging import RepeatTask
from vdla.compiler.tasks.scaling import SumTask, diagonal_weights, multiplies_sums
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.layout import IMAGE_RANK
from vdla.runtime.requantise import parameter_words

SPATIAL = 2
SAME = parameter_words(*(np.array([value]) for value in (0, 1, 0)))  # keep int8 values
Make = Callable[[OffloadCandidate], Offloaded]


def _max_pool(candidate: OffloadCandidate) -> Offloaded:
    (n, channels, height, width), node, config = candidate.shape(0), candidate.node, candidate.config
    size = Pooling(
        channels, height, width, node.pair("kernel_shape"), node.pair("strides"), node.border("pads"), n
    )
    if pools_by_multiplier(config, size):
        return candidate.as_tasks(MaximumTask(size), {"X": 0}, {"W": scalar_weights((1,), config)})
    return candidate.as_tasks(PoolingTask(size, candidate.parts, candidate.parts), {"X": 0}, {})


# Elementwise operators


def _alike(candidate: OffloadCandidate) -> str:
    """Describe operands and results of different shapes; "" if the rule holds."""
    names = [name for name in candidate.node.inputs if name not in candidate.graph.constants]
    shapes = [candidate.graph.types[name].shape for name in (*names, *candidate.node.outputs)]
    return "" if len(set(shapes)) == 1 else f"operands of the shapes {' and '.join(map(str, shapes[:-1]))}"


def _elementwise(kind: Elements, form: ElementsForm) -> Make:
    """Return the placement of an element-wise operator."""

    def make(candidate: OffloadCandidate) -> Offloaded:
        constants = candidate.node.extents(form.constants) if form.constants else ()
        task = ElementsTask(kind, candidate.elements(candidate.output().layout), constants)
        inputs = dict(zip("AB", range(form.operands), strict=False))
        return candidate.as_tasks(task, inputs, {"P": candidate.parameters()})

    return make


def _add(candidate: OffloadCandidate) -> Offloaded:
    """Return a sum, computed by the multiplier array if it supports the factors, else by the ALU."""
    factors = candidate.node.extents("factors")
    if not multiplies_sums(candidate.config, factors):
        return BY_ALU["Int8Add"].make(candidate)
    task = SumTask(candidate.elements(candidate.output().layout))
    weights = diagonal_weights(factors, candidate.config)
    return candidate.as_tasks(task, {"A": 0, "B": 1}, {"P": candidate.parameters(), "W": weights})


def _factors(candidate: OffloadCandidate) -> str:
    """Describe operands of different shapes, unless one has a factor for each channel of the other; "" if
    the rule holds."""
    if factor_place(candidate.graph, candidate.node) is None:
        return _alike(candidate)
    batch = candidate.config.batch
    return "" if batch == 1 else f"factors of channels and batch = {batch}"


def _multiply(candidate: OffloadCandidate) -> Offloaded:
    place = factor_place(candidate.graph, candidate.node)
    if place is None:
        return BY_ALU["Int8Mul"].make(candidate)
    return (by_channel if multiplies(candidate.config) else by_alu)(candidate, place)


def _lookup(candidate: OffloadCandidate) -> Offloaded:
    """Return a table lookup in the epilogue of a requantisation that keeps values."""
    task = ElementsTask(Elements.REQUANTISE, candidate.elements(candidate.output().layout))
    constants = {"P": candidate.parameters(words=SAME), TABLE: table_entries(candidate.constant(1))}
    return replace(candidate.as_tasks(task, {"A": 0}, constants), epilogue=Epilogue(table=1))


def _bytes(candidate: OffloadCandidate) -> str:
    dtype = candidate.constant(1).dtype
    return "" if dtype == np.int8 else f"a table of {dtype}"


def _tables(config: AcceleratorConfig) -> str:
    return "" if config.has(Extension.TABLE) else f"the extension {Extension.TABLE} switched off"


# Concat, Slice and Resize


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
    single = {"sizes": (1, 1, *sizes[SPATIAL:]), "scales": (1.0, 1.0, *scales[SPATIAL:])}
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


PARAMETERS = constants(-1)
SHAPES = Rule("operands of one shape", _alike)
FACTORS = Rule("operands of one shape, or a factor for each channel of one image and a batch of 1", _factors)
ADD_MUL = (alu(AluOpcode.ADD, AluOpcode.MUL),)
BY_ALU: Mapping[str, OperatorKind] = {
    form.op: OperatorKind(
        (PARAMETERS, operands(form.operands), SHAPES),
        _elementwise(kind, form),
        (alu(*form.alu),) if form.alu else (),
    )
    for kind, form in FORMS.items()
    if form.op
}
OPERATORS: Mapping[str, OperatorKind] = {
    **BY_ALU,
    "Concat": OperatorKind(
        (
            operands(),
            Rule("channels of one image, or of a matrix", _axis),
            Rule("whole blocks of channels in all operands but the last", _joins_blocks),
        ),
        _concatenation,
    ),
    "Int8Add": replace(BY_ALU["Int8Add"], make=_add),
    "Int8Lookup": OperatorKind(
        (PARAMETERS, operands(1), SHAPES, Rule("a table of int8", _bytes)),
        _lookup,
        (Rule(f"the extension {Extension.TABLE}", _tables, enabling(Extension.TABLE)),),
    ),
    "Int8MaxPool": OperatorKind((operands(1),), _max_pool, (alu(AluOpcode.MAX, AluOpcode.ADD),)),
    "Int8Mul": OperatorKind((PARAMETERS, operands(2), FACTORS), _multiply, ADD_MUL),
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
