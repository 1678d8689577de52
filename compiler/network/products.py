"""Convolutions and matrix products on the accelerator."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from vdla.compiler.codegen.choose import best_tiles
from vdla.compiler.codegen.packing import blocked_parameters, blocked_weights
from vdla.compiler.codegen.schedules import schedule_conv2d
from vdla.compiler.codegen.tiles import Tiles, Work
from vdla.compiler.graph.passes.to_integers import BORDERS
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.network.folding import fold_of, folded_size, folded_weights
from vdla.compiler.network.maker import THREADS, Maker, Offloaded, OffloadError, Program, of_channels
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import Convolution, Transposed, matrix_product
from vdla.compiler.te.operators.transposed import conv2d_transposed, one_phase, phase_weights
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.layout import IMAGE_RANK, Fold

CANDIDATES = 6  # tiles that are simulated for a convolution


def _convolution(maker: Maker) -> Offloaded:
    """Weights and parameters constant; any strides, dilations, groups and padding, with 0 or -128."""
    n, channels, height, width = maker.shape(0)
    weights, attributes = maker.constant(1), maker.node.attributes
    if attributes["border"] not in BORDERS:
        raise OffloadError(f"a border of {attributes['border']}; the accelerator pads with {' or '.join(map(str, BORDERS))}")
    size = Convolution(channels, height, width, weights.shape[0], weights.shape[2:], attributes["strides"], attributes["pads"],
                       attributes["dilations"], attributes["group"], n)
    fold = fold_of(size, attributes["border"], maker.config) if maker.folds else None
    if fold is not None:
        return _product(maker, folded_size(size, fold), folded_weights(weights, fold), 0, size.macs, fold)
    if _sums_windows(size, weights, maker.config):
        return _sum_of_windows(maker, size)
    return _product(maker, size, weights, attributes["border"], size.macs)


def _sums_windows(size: Convolution, weights: np.ndarray, config: AcceleratorConfig) -> bool:
    """Whether each output channel sums windows of one input channel, as average pooling does, so that every block of weights is the unit matrix."""
    return size.groups == size.channels == size.outputs and config.block_in == config.block_out and bool((weights == 1).all())


def _sum_of_windows(maker: Maker, size: Convolution) -> Offloaded:
    config = maker.config
    threads, tiles = _best(size, config, alike=True)
    operator = conv2d(size, config, Scale(), border=maker.node.attributes["border"], alike=True)
    func = schedule_conv2d(operator, size, config, threads=threads, tiles=tiles).lower()
    unit = np.eye(config.block_out, dtype=np.int8).reshape(operator.wgt.shape)
    parameters = blocked_parameters(of_channels(maker.constant(2), size.outputs), config)
    return Offloaded(maker.node, (Program(func),), {"X": maker.operand(0, config.block_in)}, maker.output(), {"W": unit, "P": parameters}, size.macs)


def _transposed(maker: Maker) -> Offloaded:
    """Weights and parameters constant; strides 1 or 2, or of which one divides the padding; they divide the result."""
    n, channels, height, width = maker.shape(0)
    weights, attributes, config = maker.constant(1), maker.node.attributes, maker.config
    size = Transposed(channels, height, width, weights.shape[1], weights.shape[2:], attributes["strides"], attributes["pads"],
                      attributes["output_padding"], n)
    phase = one_phase(size)
    threads, tiles = _best(phase, config)
    func = schedule_conv2d(conv2d_transposed(size, config, Scale()), phase, config, threads=threads, tiles=tiles).lower()
    constants = {"W": phase_weights(weights, size, config), "P": blocked_parameters(of_channels(maker.constant(2), size.outputs), config)}
    return Offloaded(maker.node, (Program(func),), {"X": maker.operand(0, config.block_in)}, maker.output(), constants, size.macs)


def _matrix_product(maker: Maker) -> Offloaded:
    """Weights and parameters constant; rows of any number of dimensions but 4."""
    weights, operand = maker.constant(1), maker.operand(0, maker.config.block_in)
    if len(operand[1].shape) == IMAGE_RANK:
        raise OffloadError(f"its rows have {IMAGE_RANK} dimensions, which stand as images")
    rows = prod(maker.shape(0)[:-1])
    size = matrix_product(rows, weights.shape[1], weights.shape[0], maker.config)
    return _product(maker, size, weights.T[:, :, None, None], 0, rows * weights.size)


def _product(maker: Maker, size: Convolution, weights: np.ndarray, border: int, macs: int, fold: Fold | None = None) -> Offloaded:
    config = maker.config
    threads, tiles = _best(size, config)
    func = schedule_conv2d(conv2d(size, config, Scale(), border=border), size, config, threads=threads, tiles=tiles).lower()
    constants = {"W": blocked_weights(weights, size, config), "P": blocked_parameters(of_channels(maker.constant(2), size.outputs), config)}
    return Offloaded(maker.node, (Program(func),), {"X": maker.operand(0, config.block_in, fold)}, maker.output(), constants, macs)


def _best(size: Convolution, config: AcceleratorConfig, *, alike: bool = False) -> tuple[int, Tiles]:
    """Return the virtual threads that fit, the most wanted first, and their best tiles."""
    problems = []
    for threads in THREADS:
        try:
            return threads, best_tiles(Work(size, config, threads, True, alike), CANDIDATES)
        except IrError as error:
            problems.append(error)
    raise problems[-1]


OPERATORS: Mapping[str, Callable[[Maker], Offloaded]] = {
    "Int8Conv": _convolution, "Int8ConvTranspose": _transposed, "Int8MatMul": _matrix_product,
}
