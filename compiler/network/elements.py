"""Pooling, operators on elements, and joined channels on the accelerator."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.codegen.blocked_layout import blocked_parameters
from vdla.compiler.codegen.epilogue import TABLE, Epilogue, table_entries
from vdla.compiler.network.maker import Kind, Maker, Offloaded, Piece, alu, constants, of_channels, operands
from vdla.compiler.network.planes import by_alu, by_channel, factor_place, multiplies
from vdla.compiler.network.slices import REPEAT_RULES, SLICE_RULES, part, repeated
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.constant_operands import scalar_weights
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.max_pool_alu import PoolingTask
from vdla.compiler.tasks.max_pool_multiplier import MaximumTask, pools_by_multiplier
from vdla.compiler.tasks.scaled_sum import SumTask, diagonal_weights, multiplies_sums
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.runtime.layout import IMAGE_RANK, Layout
from vdla.runtime.requantise import parameter_words


def _max_pool(maker: Maker) -> Offloaded:
    n, channels, height, width = maker.shape(0)
    node = maker.node
    size = Pooling(
        channels, height, width, node.pair("kernel_shape"), node.pair("strides"), node.border("pads"), n
    )
    widens, parts = pools_by_multiplier(maker.config, size), maker.block // maker.config.block_out
    return Offloaded(
        maker.node,
        (Piece(MaximumTask(size) if widens else PoolingTask(size, parts, parts)),),
        {"X": maker.operand(0)},
        maker.output(),
        {"W": scalar_weights((1,), maker.config)} if widens else {},
    )


def _alike(maker: Maker) -> str:
    """Say where operands and result differ in shape."""
    names = [name for name in maker.node.inputs if name not in maker.graph.constants]
    shapes = [maker.graph.types[name].shape for name in (*names, *maker.node.outputs)]
    return "" if len(set(shapes)) == 1 else f"operands of the shapes {' and '.join(map(str, shapes[:-1]))}"


def _elements(maker: Maker, kind: Elements, inputs: int, constants: tuple[int, ...] = ()) -> Offloaded:
    config, out = maker.config, maker.output()
    operands = {name: maker.operand(place) for place, name in enumerate("AB"[:inputs])}
    parameters = blocked_parameters(of_channels(maker.constant(inputs), config.block_out), config)
    return Offloaded(
        maker.node,
        (Piece(ElementsTask(kind, _count(out[1], maker), constants)),),
        operands,
        out,
        {"P": parameters},
    )


def _count(layout: Layout, maker: Maker) -> int:
    """Return the elements of a tensor, of `batch x block_out` numbers each."""
    return layout.size // (maker.config.batch * maker.config.block_out)


def _add(maker: Maker) -> Offloaded:
    """Return a sum by the multiplier array where it can make it, else by the ALU."""
    factors = maker.node.extents("factors")
    by_alu = _elements(maker, Elements.ADD, 2, factors)
    if not multiplies_sums(maker.config, factors):
        return by_alu
    weights = diagonal_weights(factors, maker.config)
    return replace(
        by_alu,
        pieces=(Piece(SumTask(_count(by_alu.output[1], maker))),),
        constants={**by_alu.constants, "W": weights},
    )


def _factors(maker: Maker) -> str:
    """Say where operands differ in shape, and none has a factor for each channel of the other."""
    if factor_place(maker.graph, maker.node) is None:
        return _alike(maker)
    batch = maker.config.batch
    return "" if batch == 1 else f"factors of channels and batch = {batch}"


def _multiply(maker: Maker) -> Offloaded:
    place = factor_place(maker.graph, maker.node)
    if place is not None:
        return by_channel(maker, place) if multiplies(maker.config) else by_alu(maker, place)
    return _elements(maker, Elements.MULTIPLY, 2, maker.node.extents("zeros"))


def _requantise(maker: Maker) -> Offloaded:
    return _elements(maker, Elements.REQUANTISE, 1)


def _lookup(maker: Maker) -> Offloaded:
    """Return a table behind a requantisation that changes nothing."""
    config, out = maker.config, maker.output()
    parameters = blocked_parameters(of_channels(SAME, config.block_out), config)
    task = ElementsTask(Elements.REQUANTISE, _count(out[1], maker))
    return Offloaded(
        maker.node,
        (Piece(task),),
        {"A": maker.operand(0)},
        out,
        {"P": parameters, TABLE: table_entries(maker.constant(1))},
        after=Epilogue(table=1),
    )


def _bytes(maker: Maker) -> str:
    dtype = maker.constant(1).dtype
    return "" if dtype == np.int8 else f"a table of {dtype}"


def _tables(config: AcceleratorConfig) -> str:
    return "" if config.has(Extension.TABLE) else f"the extension {Extension.TABLE} switched off"


def _axis(maker: Maker) -> str:
    """Say where something else than channels is joined."""
    layout = maker.output()[1]
    rank, image = len(layout.shape), len(layout.shape) == IMAGE_RANK
    axis = maker.node.integer("axis") % rank
    if axis != (1 if image else rank - 1):
        return f"axis = {axis} of {rank} dimensions"
    return f"{layout.shape[0]} images" if image and layout.blocks[0] > 1 else ""


def _whole_blocks(maker: Maker) -> str:
    block = maker.block
    names = maker.node.inputs[:-1]
    channels = [maker.operand(place)[1].image[1] for place in range(len(names))]
    return next(
        (
            f"operand {name} of {count} channels in blocks of {block}"
            for name, count in zip(names, channels, strict=True)
            if count % block
        ),
        "",
    )


def _concatenation(maker: Maker) -> Offloaded:
    operands = {f"A{place}": maker.operand(place) for place in range(len(maker.node.inputs))}
    pieces, begin = [], 0
    for name, (_, layout) in operands.items():
        elements = _count(layout, maker)
        pieces.append(Piece(ElementsTask(Elements.COPY, elements), {"A": name}, begin))
        begin += elements
    return Offloaded(maker.node, tuple(pieces), operands, maker.output())


PARAMETERS = constants(-1)
SAME = parameter_words(*(np.array([value]) for value in (0, 1, 0)))  # leave int8 as it is
SHAPES = Rule("operands of one shape", _alike)
FACTORS = Rule("operands of one shape, or a factor for each channel of one image and a batch of 1", _factors)
PAIR = PARAMETERS, operands(2), SHAPES
ADD_MUL = (alu(AluOpcode.ADD, AluOpcode.MUL),)
OPERATORS: Mapping[str, Kind] = {
    "Concat": Kind(
        (
            operands(),
            Rule("channels of one image, or of a matrix", _axis),
            Rule("whole blocks of channels in all operands but the last", _whole_blocks),
        ),
        _concatenation,
    ),
    "Int8Add": Kind(PAIR, _add, ADD_MUL),
    "Int8Lookup": Kind(
        (PARAMETERS, operands(1), SHAPES, Rule("a table of int8", _bytes)),
        _lookup,
        (Rule(f"the extension {Extension.TABLE}", _tables, enabling(Extension.TABLE)),),
    ),
    "Int8MaxPool": Kind((operands(1),), _max_pool, (alu(AluOpcode.MAX, AluOpcode.ADD),)),
    "Int8Mul": Kind((PARAMETERS, operands(2), FACTORS), _multiply, ADD_MUL),
    "Resize": Kind((operands(1), *REPEAT_RULES), repeated),
    "Slice": Kind((operands(1), *SLICE_RULES), part),
    "Int8Requantise": Kind((PARAMETERS, operands(1), SHAPES), _requantise),
}
