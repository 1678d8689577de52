"""Pooling, operators on elements, and joined channels on the accelerator."""

from collections.abc import Callable, Mapping

from vdla.compiler.codegen.packing import blocked_parameters
from vdla.compiler.codegen.schedules import schedule_elementwise, schedule_max_pool
from vdla.compiler.network.maker import Maker, Offloaded, OffloadError, Program, of_channels, scheduled
from vdla.compiler.te.operators.elementwise import Elementwise, add, copy, multiply, requantise
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.pooling import max_pool
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.runtime.layout import IMAGE_RANK


def _max_pool(maker: Maker) -> Offloaded:
    """Any window, strides and padding; the ALU has MAX and ADD."""
    maker.needs(AluOpcode.MAX, AluOpcode.ADD)
    n, channels, height, width = maker.shape(0)
    attributes, config = maker.node.attributes, maker.config
    size = Pooling(channels, height, width, attributes["kernel_shape"], attributes["strides"], attributes["pads"], n)
    operator = max_pool(size, config)
    func = scheduled(lambda threads: schedule_max_pool(operator, size, config, threads=threads).lower())
    return Offloaded(maker.node, (Program(func),), {"X": maker.operand(0, config.block_out)}, maker.output())


def _elementwise(maker: Maker, inputs: int, state: Callable[[tuple[int, int]], Elementwise]) -> Offloaded:
    config, out, words = maker.config, maker.output(), maker.constant(inputs)
    operands = {name: maker.operand(place, config.block_out) for place, name in enumerate("AB"[:inputs])}
    if any(layout != out[1] for _, layout in operands.values()):
        raise OffloadError("its operands differ in shape")
    operator = state((1, out[1].size // (config.batch * config.block_out)))
    func = scheduled(lambda threads: schedule_elementwise(operator, config, threads=threads).lower())
    return Offloaded(maker.node, (Program(func),), operands, out, {"P": blocked_parameters(of_channels(words, config.block_out), config)})


def _add(maker: Maker) -> Offloaded:
    """Two operands of one shape, neither constant; the ALU has ADD and MUL."""
    maker.needs(AluOpcode.ADD, AluOpcode.MUL)
    factors = maker.node.attributes["factors"]
    return _elementwise(maker, 2, lambda shape: add(shape, maker.config, Scale(by_channel=False), factors=factors))


def _multiply(maker: Maker) -> Offloaded:
    """Two operands of one shape, neither constant; the ALU has ADD and MUL."""
    maker.needs(AluOpcode.ADD, AluOpcode.MUL)
    zeros = maker.node.attributes["zeros"]
    return _elementwise(maker, 2, lambda shape: multiply(shape, maker.config, Scale(by_channel=False), zeros=zeros))


def _requantise(maker: Maker) -> Offloaded:
    """Any shape but that of a single number."""
    return _elementwise(maker, 1, lambda shape: requantise(shape, maker.config, Scale(by_channel=False)))


def _concatenation(maker: Maker) -> Offloaded:
    """Along channels, all operands but the last with whole blocks of them; one image, or a matrix."""
    config, out, attributes = maker.config, maker.output(), maker.node.attributes
    operands = {f"A{place}": maker.operand(place, config.block_out) for place in range(len(maker.node.inputs))}
    layouts = [layout for _, layout in operands.values()]
    image = len(out[1].shape) == IMAGE_RANK
    if attributes["axis"] % len(out[1].shape) != (1 if image else len(out[1].shape) - 1) or (image and out[1].blocks[0] > 1):
        raise OffloadError("it does not join the channels of one image, or of a matrix")
    if any(layout.image[1] % config.block_out for layout in layouts[:-1]):
        raise OffloadError(f"its operands have channels that are no multiple of {config.block_out}")
    programs, begin = [], 0
    for name, layout in zip(operands, layouts, strict=True):
        elements = layout.size // (config.batch * config.block_out)
        operator = copy((1, elements), config)
        func = scheduled(lambda threads, operator=operator: schedule_elementwise(operator, config, threads=threads).lower())
        programs.append(Program(func, {"A": name}, begin))
        begin += elements
    return Offloaded(maker.node, tuple(programs), operands, out)


OPERATORS: Mapping[str, Callable[[Maker], Offloaded]] = {
    "Concat": _concatenation, "Int8Add": _add, "Int8MaxPool": _max_pool, "Int8Mul": _multiply, "Int8Requantise": _requantise,
}
