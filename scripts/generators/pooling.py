"""Random max poolings with random schedules on random data, and what NumPy makes of them."""

import random

from generators.expected import convolved, greatest
from generators.making import Case, Maker
from vdla.compiler.graph.integers import SUM_BITS
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.pooled_convolution import PooledTask, pools_sums
from vdla.compiler.tasks.pooling import MaximumTask, PoolingTask, pools_by_multiplier
from vdla.compiler.tasks.program_text import scalar_weights
from vdla.compiler.te.operators.convolution import blocked_weights
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import Convolution, Pooling


def max_pool(maker: Maker) -> Case:
    """Return a max pooling of int8 inputs by the ALU."""
    rng = maker.rng
    kernel = (rng.randint(2, 3), rng.randint(1, 3))
    padding = tuple(rng.randint(0, side - 1) for side in (*kernel, *kernel))
    size = Pooling(
        rng.randint(1, 20),
        rng.randint(3, 12),
        rng.randint(3, 12),
        kernel,
        (rng.randint(1, 2), rng.randint(1, 2)),
        padding,
        rng.randint(1, 2),
    )
    inp, config = maker.activations(size), maker.config
    func = PoolingTask(size).program(Choice(maker.threads), config)
    return Case(
        f"{size}, {maker.threads} threads",
        config,
        func,
        {"X": maker.blocked(inp, config.block_out)},
        greatest(inp, size),
    )


def widened_maximum(maker: Maker) -> Case:
    """Return a max pooling through the multiplier array, whose windows may overlap by more than half."""
    rng, config = maker.rng, maker.config
    stride = rng.randint(1, 3), rng.randint(1, 3)
    kernel = tuple(rng.randint(1, rng.choice((2 * step - 1, 7))) for step in stride)
    padding = tuple(rng.randint(0, side - 1) for side in (*kernel, *kernel))
    extents = rng.randint(5, 25), rng.randint(5, 25)
    size = Pooling(rng.randint(1, 20), *extents, kernel, stride, padding, rng.randint(1, 2))
    if not pools_by_multiplier(config, size):
        raise IrError("it does not fit, or a border has no padding")
    threads = rng.choice([count for count in (1, 2, 3) if MaximumTask(size).tile(config, count) is not None])
    inp = maker.activations(size)
    return Case(
        f"{size} widened, {threads} threads",
        config,
        MaximumTask(size).program(Choice(threads), config),
        {"X": maker.blocked(inp, config.block_out), "W": scalar_weights((1,), config)},
        greatest(inp, size),
    )


def pooled_sums(maker: Maker) -> Case:
    """Return a convolution with the max pooling of its result, whose sums stay in the accumulators."""
    rng, config = maker.rng, maker.config
    groups = rng.choice((1, 1, 1, 2))
    size = Convolution(
        groups * rng.randint(1, 20),
        rng.randint(4, 20),
        rng.randint(4, 20),
        groups * rng.randint(1, 20),
        (rng.choice((1, 2, 3)), rng.choice((1, 1, 3))),
        (rng.choice((1, 1, 2)), rng.choice((1, 2))),
        maker.padding(),
        (rng.choice((1, 1, 2)), 1),
        groups,
        rng.choice((1, 1, 2)),
    )
    pooling = _pooling_of(rng, size)
    fused = PooledTask(ConvolutionTask(size, border=maker.border()), pooling)
    if config.acc_bits < SUM_BITS or not pools_sums(fused.convolution, pooling, config):
        raise IrError("it does not fit, or sums may wrap")
    choice = maker.choice(lambda copies: fused.tile(config, copies) is not None)
    weights, inp = maker.bytes(size.outputs, size.channels // groups, *size.kernel), maker.activations(size)
    sums = convolved(inp, weights, size, fused.convolution.border)
    results, kept = maker.narrowed(sums, Scale())
    return Case(
        f"{fused}, {choice}",
        config,
        fused.program(choice, config),
        {"X": maker.blocked(inp, config.block_in), "W": blocked_weights(weights, size, config), **kept},
        greatest(results, pooling),
    )


def _pooling_of(rng: random.Random, size: Convolution) -> Pooling:
    """Return a max pooling of a convolution's result."""
    stride = rng.randint(1, 3), rng.randint(1, 3)
    kernel = tuple(rng.randint(1, 2 * step - 1) for step in stride)
    padding = tuple(rng.randint(0, side - 1) for side in (*kernel, *kernel))
    return Pooling(size.outputs, *size.out_size, kernel, stride, padding, size.batch)
