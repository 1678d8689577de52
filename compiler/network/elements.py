"""Max pooling, elementwise operators, and concatenated channels on the accelerator."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.codegen.blocked_layout import blocked_parameters
from vdla.compiler.codegen.epilogue import TABLE, Epilogue, table_entries
from vdla.compiler.network.channelwise import by_alu, by_channel, factor_place, multiplies
from vdla.compiler.network.placed import (
    OffloadCandidate,
    Offloaded,
    OperatorKind,
    Piece,
    alu,
    constants,
    of_channels,
    operands,
)
from vdla.compiler.network.slices import REPEAT_RULES, SLICE_RULES, part, repeated
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.constant_operands import scalar_weights
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.pooling import MaximumTask, PoolingTask, pools_by_multiplier
from vdla.compiler.tasks.scaling import SumTask, diagonal_weights, multiplies_sums
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.runtime.layout import IMAGE_RANK, Layout
from vdla.runtime.requantise import parameter_words


def _max_pool(candidate: OffloadCandidate) -> Offloaded:
    n, channels, height, width = candidate.shape(0)
    node = candidate.node
    size = Pooling(
        channels, height, width, node.pair("kernel_shape"), node.pair("strides"), node.border("pads"), n
    )
    widens, parts = pools_by_multiplier(candidate.config, size), candidate.block // candidate.config.block_out
    return Offloaded(
        candidate.node,
        (Piece(MaximumTask(size) if widens else PoolingTask(size, parts, parts)),),
        {"X": candidate.operand(0)},
        candidate.output(),
        {"W": scalar_weights((1,), candidate.config)} if widens else {},
    )


def _alike(candidate: OffloadCandidate) -> str:
    """Describe operands and results of different shapes; "" if the rule holds."""
    names = [name for name in candidate.node.inputs if name not in candidate.graph.constants]
    shapes = [candidate.graph.types[name].shape for name in (*names, *candidate.node.outputs)]
    return "" if len(set(shapes)) == 1 else f"operands of the shapes {' and '.join(map(str, shapes[:-1]))}"


def _elements(
    candidate: OffloadCandidate, kind: Elements, inputs: int, constants: tuple[int, ...] = ()
) -> Offloaded:
    config, out = candidate.config, candidate.output()
    operands = {name: candidate.operand(place) for place, name in enumerate("AB"[:inputs])}
    parameters = blocked_parameters(of_channels(candidate.constant(inputs), config.block_out), config)
    return Offloaded(
        candidate.node,
        (Piece(ElementsTask(kind, _count(out[1], candidate), constants)),),
        operands,
        out,
        {"P": parameters},
    )


def _count(layout: Layout, candidate: OffloadCandidate) -> int:
    """Return how many elements of `batch x block_out` numbers a tensor has."""
    return layout.size // (candidate.config.batch * candidate.config.block_out)


def _add(candidate: OffloadCandidate) -> Offloaded:
    """Return a sum, computed by the multiplier array if it supports the factors, else by the ALU."""
    factors = candidate.node.extents("factors")
    by_alu = _elements(candidate, Elements.ADD, 2, factors)
    if not multiplies_sums(candidate.config, factors):
        return by_alu
    weights = diagonal_weights(factors, candidate.config)
    return replace(
        by_alu,
        pieces=(Piece(SumTask(_count(by_alu.output[1], candidate))),),
        constants={**by_alu.constants, "W": weights},
    )


def _factors(candidate: OffloadCandidate) -> str:
    """Describe operands of different shapes, unless one has a factor for each channel of the other; "" if
    the rule holds."""
    if factor_place(candidate.graph, candidate.node) is None:
        return _alike(candidate)
    batch = candidate.config.batch
    return "" if batch == 1 else f"factors of channels and batch = {batch}"


def _multiply(candidate: OffloadCandidate) -> Offloaded:
    place = factor_place(candidate.graph, candidate.node)
    if place is not None:
        return by_channel(candidate, place) if multiplies(candidate.config) else by_alu(candidate, place)
    return _elements(candidate, Elements.MULTIPLY, 2, candidate.node.extents("zeros"))


def _requantise(candidate: OffloadCandidate) -> Offloaded:
    return _elements(candidate, Elements.REQUANTISE, 1)


def _lookup(candidate: OffloadCandidate) -> Offloaded:
    """Return a table lookup in the epilogue of a requantisation that keeps values."""
    config, out = candidate.config, candidate.output()
    parameters = blocked_parameters(of_channels(SAME, config.block_out), config)
    task = ElementsTask(Elements.REQUANTISE, _count(out[1], candidate))
    return Offloaded(
        candidate.node,
        (Piece(task),),
        {"A": candidate.operand(0)},
        out,
        {"P": parameters, TABLE: table_entries(candidate.constant(1))},
        epilogue=Epilogue(table=1),
    )


def _bytes(candidate: OffloadCandidate) -> str:
    dtype = candidate.constant(1).dtype
    return "" if dtype == np.int8 else f"a table of {dtype}"


def _tables(config: AcceleratorConfig) -> str:
    return "" if config.has(Extension.TABLE) else f"the extension {Extension.TABLE} switched off"


def _axis(candidate: OffloadCandidate) -> str:
    """Describe a concatenation along an axis other than channels; "" if the rule holds."""
    layout = candidate.output()[1]
    rank, image = len(layout.shape), len(layout.shape) == IMAGE_RANK
    axis = candidate.node.integer("axis") % rank
    if axis != (1 if image else rank - 1):
        return f"axis = {axis} of {rank} dimensions"
    return f"{layout.shape[0]} images" if image and layout.blocks[0] > 1 else ""


def _whole_blocks(candidate: OffloadCandidate) -> str:
    block = candidate.block
    names = candidate.node.inputs[:-1]
    channels = [candidate.operand(place)[1].image[1] for place in range(len(names))]
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
    for name, (_, layout) in operands.items():
        elements = _count(layout, candidate)
        pieces.append(Piece(ElementsTask(Elements.COPY, elements), {"A": name}, begin))
        begin += elements
    return Offloaded(candidate.node, tuple(pieces), operands, candidate.output())


PARAMETERS = constants(-1)
SAME = parameter_words(*(np.array([value]) for value in (0, 1, 0)))  # keep int8 values
SHAPES = Rule("operands of one shape", _alike)
FACTORS = Rule("operands of one shape, or a factor for each channel of one image and a batch of 1", _factors)
PAIR = PARAMETERS, operands(2), SHAPES
ADD_MUL = (alu(AluOpcode.ADD, AluOpcode.MUL),)
OPERATORS: Mapping[str, OperatorKind] = {
    "Concat": OperatorKind(
        (
            operands(),
            Rule("channels of one image, or of a matrix", _axis),
            Rule("whole blocks of channels in all operands but the last", _whole_blocks),
        ),
        _concatenation,
    ),
    "Int8Add": OperatorKind(PAIR, _add, ADD_MUL),
    "Int8Lookup": OperatorKind(
        (PARAMETERS, operands(1), SHAPES, Rule("a table of int8", _bytes)),
        _lookup,
        (Rule(f"the extension {Extension.TABLE}", _tables, enabling(Extension.TABLE)),),
    ),
    "Int8MaxPool": OperatorKind((operands(1),), _max_pool, (alu(AluOpcode.MAX, AluOpcode.ADD),)),
    "Int8Mul": OperatorKind((PARAMETERS, operands(2), FACTORS), _multiply, ADD_MUL),
    "Resize": OperatorKind((operands(1), *REPEAT_RULES), repeated),
    "Slice": OperatorKind((operands(1), *SLICE_RULES), part),
    "Int8Requantise": OperatorKind((PARAMETERS, operands(1), SHAPES), _requantise),
}
