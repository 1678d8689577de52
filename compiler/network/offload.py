"""Integer operators on the accelerator: each as a loop program, with the tensors it reads and writes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from vdla.compiler.codegen.choose import best_tiles
from vdla.compiler.codegen.packing import blocked_parameters, blocked_weights
from vdla.compiler.codegen.schedules import schedule_conv2d, schedule_elementwise, schedule_max_pool
from vdla.compiler.codegen.tiles import Work
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.to_integers import BORDERS, MOVES
from vdla.compiler.ir.nodes import Func, IrError
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.elementwise import Elementwise, add, copy, multiply, requantise
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.pooling import max_pool
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed, blocks, matrix_product
from vdla.compiler.te.operators.transposed import conv2d_transposed, one_phase, phase_weights
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.runtime.layout import IMAGE_RANK, Fold, Layout

SUM_BITS = 32  # of the sums that the integer operators are defined by
CANDIDATES = 6  # tiles that are simulated for a convolution
CONVERSIONS = ("DequantizeLinear", "DequantizedSoftmax", "QuantizeLinear")
THREADS = (2, 1)  # virtual threads, in order of preference


class OffloadError(Exception):
    """An operator cannot run on the accelerator; the text is the reason, for the report."""


@dataclass(frozen=True)
class Program:
    """A loop program that is, or is a part of, an operator.

    Attributes:
        names: the operator's names for its parameters, where they are not the program's own.
        begin: the element of the operator's result Z with which its own begins.
    """

    func: Func
    names: Mapping[str, str] = field(default_factory=dict)
    begin: int = 0


@dataclass(frozen=True)
class Offloaded:
    """An operator as the accelerator carries it out.

    Attributes:
        programs: in order.
        inputs: by the programs' parameter, the graph's value and how it must stand in DRAM.
        output: the graph's value that is their result Z, and how it stands in DRAM.
        constants: arrays by the programs' parameter.
        macs: multiply-accumulates of the operator itself.
    """

    node: Node
    programs: tuple[Program, ...]
    inputs: Mapping[str, tuple[str, Layout]]
    output: tuple[str, Layout]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    macs: int = 0


def offload(graph: Graph, node: Node, config: AcceleratorConfig, *, folds: bool = False) -> Offloaded:
    """Return an operator as `config` carries it out.

    Args:
        folds: its input comes from the host and may be folded.

    Raises:
        OffloadError: it cannot.
    """
    if node.op not in OPERATORS:
        raise OffloadError(_foreign(graph, node))
    _check(config)
    try:
        return OPERATORS[node.op](_Maker(graph, node, config, folds))
    except IrError as error:
        raise OffloadError(str(error).splitlines()[0]) from error


def _foreign(graph: Graph, node: Node) -> str:
    """Return why an operator is none of the accelerator's."""
    if node.op in CONVERSIONS:
        return "converts between real numbers and int8"
    if any(graph.types[name].dtype == "float32" for name in (*node.inputs, *node.outputs) if name):
        return "computes with real numbers"
    return "moves single elements" if node.op in MOVES else "is not among the accelerator's operators"


def _check(config: AcceleratorConfig) -> None:
    """Refuse configurations that the integer operators do not describe."""
    if config.acc_bits != SUM_BITS:
        raise OffloadError(f"acc_bits = {config.acc_bits}: sums of networks have {SUM_BITS} bits")
    missing = [extension for extension in (Extension.REQUANTISE, Extension.PAD_MINIMUM) if not config.has(extension)]
    if missing:
        raise OffloadError(f"the configuration has switched off {', '.join(missing)}")


@dataclass(frozen=True)
class _Maker:
    graph: Graph
    node: Node
    config: AcceleratorConfig
    folds: bool

    def shape(self, place: int) -> tuple[int, ...]:
        return self.graph.types[self.node.inputs[place]].shape

    def constant(self, place: int) -> np.ndarray:
        name = self.node.inputs[place]
        if name not in self.graph.constants:
            raise OffloadError(f"{name} is no constant")
        return self.graph.constants[name]

    def operand(self, place: int, block: int, fold: Fold | None = None) -> tuple[str, Layout]:
        name = self.node.inputs[place]
        if name in self.graph.constants:
            raise OffloadError(f"its operand {name} is a constant")
        if self.graph.types[name].dtype != "int8":
            raise OffloadError(_foreign(self.graph, self.node))
        if not self.shape(place):
            raise OffloadError(f"its operand {name} is a single number")
        return name, Layout(self.shape(place), block, self.config.batch, fold)

    def output(self) -> tuple[str, Layout]:
        name = self.node.outputs[0]
        return name, Layout(self.graph.types[name].shape, self.config.block_out, self.config.batch)

    def needs(self, *operations: AluOpcode) -> None:
        missing = [operation.name for operation in operations if operation not in self.config.alu_opcodes]
        if missing:
            raise OffloadError(f"the configuration's ALU has no {', '.join(missing)}")


def _convolution(maker: _Maker) -> Offloaded:
    """Weights and parameters constant; any strides, dilations, groups and padding, with 0 or -128."""
    n, channels, height, width = maker.shape(0)
    weights, attributes = maker.constant(1), maker.node.attributes
    if attributes["border"] not in BORDERS:
        raise OffloadError(f"a border of {attributes['border']}; the accelerator pads with {' or '.join(map(str, BORDERS))}")
    size = Convolution(channels, height, width, weights.shape[0], weights.shape[2:], attributes["strides"], attributes["pads"],
                       attributes["dilations"], attributes["group"], n)
    fold = _fold(size, attributes["border"], maker.config) if maker.folds else None
    if fold is not None:
        return _product(maker, folded_size(size, fold), folded_weights(weights, fold), 0, size.macs, fold)
    return _product(maker, size, weights, attributes["border"], size.macs)


def _transposed(maker: _Maker) -> Offloaded:
    """Weights and parameters constant; strides 1 or 2, or of which one divides the padding; they divide the result."""
    n, channels, height, width = maker.shape(0)
    weights, attributes, config = maker.constant(1), maker.node.attributes, maker.config
    size = Transposed(channels, height, width, weights.shape[1], weights.shape[2:], attributes["strides"], attributes["pads"],
                      attributes["output_padding"], n)
    phase = one_phase(size)
    threads, tiles = _best(phase, config)
    func = schedule_conv2d(conv2d_transposed(size, config, Scale()), phase, config, threads=threads, tiles=tiles).lower()
    constants = {"W": phase_weights(weights, size, config), "P": blocked_parameters(_of_channels(maker.constant(2), size.outputs), config)}
    return Offloaded(maker.node, (Program(func),), {"X": maker.operand(0, config.block_in)}, maker.output(), constants, size.macs)


def _matrix_product(maker: _Maker) -> Offloaded:
    """Weights and parameters constant; rows of any number of dimensions but 4."""
    weights, operand = maker.constant(1), maker.operand(0, maker.config.block_in)
    if len(operand[1].shape) == IMAGE_RANK:
        raise OffloadError(f"its rows have {IMAGE_RANK} dimensions, which stand as images")
    rows = prod(maker.shape(0)[:-1])
    size = matrix_product(rows, weights.shape[1], weights.shape[0], maker.config)
    return _product(maker, size, weights.T[:, :, None, None], 0, rows * weights.size)


def _product(maker: _Maker, size: Convolution, weights: np.ndarray, border: int, macs: int, fold: Fold | None = None) -> Offloaded:
    config = maker.config
    threads, tiles = _best(size, config)
    func = schedule_conv2d(conv2d(size, config, Scale(), border=border), size, config, threads=threads, tiles=tiles).lower()
    constants = {"W": blocked_weights(weights, size, config), "P": blocked_parameters(_of_channels(maker.constant(2), size.outputs), config)}
    return Offloaded(maker.node, (Program(func),), {"X": maker.operand(0, config.block_in, fold)}, maker.output(), constants, macs)


def _best(size: Convolution, config: AcceleratorConfig):
    """Return the virtual threads that fit, the most wanted first, and their best tiles."""
    problems = []
    for threads in THREADS:
        try:
            return threads, best_tiles(Work(size, config, threads, scales=True), CANDIDATES)
        except IrError as error:
            problems.append(error)
    raise problems[-1]


def _of_channels(words: np.ndarray, channels: int) -> np.ndarray:
    return np.broadcast_to(words, (len(words), channels))


def _fold(size: Convolution, border: int, config: AcceleratorConfig) -> Fold | None:
    """Return how the input of a strided convolution of few channels is folded; None where that saves nothing."""
    (sy, sx), (ky, kx) = size.stride, size.kernel
    steps, folded = (rows * columns * blocks(channels, config.block_in) for rows, columns, channels in (
        (ky, kx, size.channels), (-(-ky // sy), -(-kx // sx), size.channels * sy * sx)))
    if size.groups != 1 or tuple(size.dilation) != (1, 1) or folded >= steps:
        return None
    (top, left, *_), (rows, columns) = size.padding, size.out_size
    below, right = (rows + -(-ky // sy) - 1) * sy - top - size.height, (columns + -(-kx // sx) - 1) * sx - left - size.width
    return Fold((sy, sx), (top, left, below, right), border)


def folded_size(size: Convolution, fold: Fold) -> Convolution:
    """Return the convolution with stride 1 that a folded one becomes."""
    _, channels, rows, columns = fold.shape((size.batch, size.channels, size.height, size.width))
    kernel = -(-size.kernel[0] // fold.stride[0]), -(-size.kernel[1] // fold.stride[1])
    return Convolution(channels, rows, columns, size.outputs, kernel, batch=size.batch)


def folded_weights(weights: np.ndarray, fold: Fold) -> np.ndarray:
    """Return int8[o, c, kh, kw] for the folded input: zeros where the kernel ends inside a gathered pixel."""
    (sy, sx), (o, c, kh, kw) = fold.stride, weights.shape
    whole = np.pad(weights, ((0, 0), (0, 0), (0, -kh % sy), (0, -kw % sx)))
    parts = whole.reshape(o, c, whole.shape[2] // sy, sy, whole.shape[3] // sx, sx).transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(parts.reshape(o, c * sy * sx, *parts.shape[4:]))


def _max_pool(maker: _Maker) -> Offloaded:
    """Any window, strides and padding; the ALU has MAX and ADD."""
    maker.needs(AluOpcode.MAX, AluOpcode.ADD)
    n, channels, height, width = maker.shape(0)
    attributes, config = maker.node.attributes, maker.config
    size = Pooling(channels, height, width, attributes["kernel_shape"], attributes["strides"], attributes["pads"], n)
    operator = max_pool(size, config)
    func = _scheduled(lambda threads: schedule_max_pool(operator, size, config, threads=threads).lower())
    return Offloaded(maker.node, (Program(func),), {"X": maker.operand(0, config.block_out)}, maker.output())


def _elementwise(maker: _Maker, inputs: int, state: Callable[[tuple[int, int]], Elementwise]) -> Offloaded:
    config, out, words = maker.config, maker.output(), maker.constant(inputs)
    operands = {name: maker.operand(place, config.block_out) for place, name in enumerate("AB"[:inputs])}
    if any(layout != out[1] for _, layout in operands.values()):
        raise OffloadError("its operands differ in shape")
    operator = state((1, out[1].size // (config.batch * config.block_out)))
    func = _scheduled(lambda threads: schedule_elementwise(operator, config, threads=threads).lower())
    return Offloaded(maker.node, (Program(func),), operands, out, {"P": blocked_parameters(_of_channels(words, config.block_out), config)})


def _add(maker: _Maker) -> Offloaded:
    """Two operands of one shape, neither constant; the ALU has ADD and MUL."""
    maker.needs(AluOpcode.ADD, AluOpcode.MUL)
    factors = maker.node.attributes["factors"]
    return _elementwise(maker, 2, lambda shape: add(shape, maker.config, Scale(by_channel=False), factors=factors))


def _multiply(maker: _Maker) -> Offloaded:
    """Two operands of one shape, neither constant; the ALU has ADD and MUL."""
    maker.needs(AluOpcode.ADD, AluOpcode.MUL)
    zeros = maker.node.attributes["zeros"]
    return _elementwise(maker, 2, lambda shape: multiply(shape, maker.config, Scale(by_channel=False), zeros=zeros))


def _requantise(maker: _Maker) -> Offloaded:
    """Any shape but that of a single number."""
    return _elementwise(maker, 1, lambda shape: requantise(shape, maker.config, Scale(by_channel=False)))


def _concatenation(maker: _Maker) -> Offloaded:
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
        func = _scheduled(lambda threads, operator=operator: schedule_elementwise(operator, config, threads=threads).lower())
        programs.append(Program(func, {"A": name}, begin))
        begin += elements
    return Offloaded(maker.node, tuple(programs), operands, out)


def _scheduled(schedule: Callable[[int], Func]) -> Func:
    """Return the program with the most virtual threads that fit."""
    problems = []
    for threads in THREADS:
        try:
            return schedule(threads)
        except IrError as error:
            problems.append(error)
    raise problems[-1]


OPERATORS: Mapping[str, Callable[[_Maker], Offloaded]] = {
    "Concat": _concatenation, "Int8Add": _add, "Int8Conv": _convolution, "Int8ConvTranspose": _transposed, "Int8MatMul": _matrix_product,
    "Int8MaxPool": _max_pool, "Int8Mul": _multiply, "Int8Requantise": _requantise,
}
