"""Pooling, operators on elements, and joined channels on the accelerator."""

from collections.abc import Iterator, Mapping

from vdla.compiler.codegen.packing import blocked_parameters
from vdla.compiler.codegen.tasks import Elements, ElementsTask, PoolingTask
from vdla.compiler.network.maker import Kind, Maker, Offloaded, Piece, of_channels
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.runtime.layout import IMAGE_RANK, Layout


def _pool_reasons(maker: Maker) -> Iterator[str]:
    yield from maker.without_alu(AluOpcode.MAX, AluOpcode.ADD)
    yield from maker.without_operands(0)


def _max_pool(maker: Maker) -> Offloaded:
    n, channels, height, width = maker.shape(0)
    attributes = maker.node.attributes
    size = Pooling(
        channels, height, width, attributes["kernel_shape"], attributes["strides"], attributes["pads"], n
    )
    return Offloaded(
        maker.node,
        (Piece(PoolingTask(size)),),
        {"X": maker.operand(0, maker.config.block_out)},
        maker.output(),
    )


def _two_reasons(maker: Maker) -> Iterator[str]:
    yield from maker.without_alu(AluOpcode.ADD, AluOpcode.MUL)
    yield from _elements_reasons(maker, 2)


def _one_reasons(maker: Maker) -> Iterator[str]:
    return _elements_reasons(maker, 1)


def _elements_reasons(maker: Maker, inputs: int) -> Iterator[str]:
    yield from maker.without_constants(inputs)
    yield from maker.without_operands(*range(inputs))
    if any(maker.operand(place, maker.config.block_out)[1] != maker.output()[1] for place in range(inputs)):
        yield "its operands differ in shape"


def _elements(maker: Maker, kind: Elements, inputs: int, constants: tuple[int, ...] = ()) -> Offloaded:
    config, out = maker.config, maker.output()
    operands = {name: maker.operand(place, config.block_out) for place, name in enumerate("AB"[:inputs])}
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
    return _elements(maker, Elements.ADD, 2, tuple(maker.node.attributes["factors"]))


def _multiply(maker: Maker) -> Offloaded:
    return _elements(maker, Elements.MULTIPLY, 2, tuple(maker.node.attributes["zeros"]))


def _requantise(maker: Maker) -> Offloaded:
    return _elements(maker, Elements.REQUANTISE, 1)


def _concatenation_reasons(maker: Maker) -> Iterator[str]:
    yield from maker.without_operands(*range(len(maker.node.inputs)))
    layout = maker.output()[1]
    image, axis = len(layout.shape) == IMAGE_RANK, maker.node.attributes["axis"] % len(layout.shape)
    if axis != (1 if image else len(layout.shape) - 1) or (image and layout.blocks[0] > 1):
        yield "it does not join the channels of one image, or of a matrix"
    block = maker.config.block_out
    if any(maker.operand(place, block)[1].image[1] % block for place in range(len(maker.node.inputs) - 1)):
        yield f"its operands have channels that are no multiple of {block}"


def _concatenation(maker: Maker) -> Offloaded:
    operands = {
        f"A{place}": maker.operand(place, maker.config.block_out) for place in range(len(maker.node.inputs))
    }
    pieces, begin = [], 0
    for name, (_, layout) in operands.items():
        elements = _count(layout, maker)
        pieces.append(Piece(ElementsTask(Elements.COPY, elements), {"A": name}, begin))
        begin += elements
    return Offloaded(maker.node, tuple(pieces), operands, maker.output())


PAIR = "two operands of one shape, neither constant; the ALU has ADD and MUL"
OPERATORS: Mapping[str, Kind] = {
    "Concat": Kind(
        "along channels, all operands but the last with whole blocks of them; one image, or a matrix",
        _concatenation_reasons,
        _concatenation,
    ),
    "Int8Add": Kind(PAIR, _two_reasons, _add),
    "Int8MaxPool": Kind("any window, strides and padding; the ALU has MAX and ADD", _pool_reasons, _max_pool),
    "Int8Mul": Kind(PAIR, _two_reasons, _multiply),
    "Int8Requantise": Kind("any shape but that of a single number", _one_reasons, _requantise),
}
