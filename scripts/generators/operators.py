"""Random operators with random schedules on random data, and what NumPy makes of them."""

import random
from collections.abc import Callable

import numpy as np

from generators.expected import convolved
from generators.making import Case, Maker
from generators.pooling import max_pool, pooled_sums, widened_maximum
from vdla.compiler.codegen.estimate import ranked_tiles
from vdla.compiler.codegen.tiles import KEEPS, TilingProblem
from vdla.compiler.graph.integers import SUM_BITS
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.chain import ChainTask
from vdla.compiler.tasks.chain_plan import Chain, chains, plans
from vdla.compiler.tasks.convolution import ConvolutionTask, schedule_conv2d
from vdla.compiler.tasks.elementwise import (
    add,
    elements_at_a_time,
    multiply,
    requantise,
    schedule_elementwise,
)
from vdla.compiler.tasks.program_text import constant_inputs, scalar_weights
from vdla.compiler.tasks.scaled_convolution import ScaledTask, scales_inputs
from vdla.compiler.tasks.scaling import (
    SumTask,
    diagonal_weights,
    elements_of_a_sum,
    int8_parts,
    multiplies_sums,
)
from vdla.compiler.te.operators.convolution import (
    blocked_weights,
    conv2d,
    conv2d_transposed,
    conv2d_windows,
    phase_convolution,
    phase_weights,
    prefers_windows,
    window_weights,
    with_whole_windows,
)
from vdla.compiler.te.operators.narrowing import LEAST, Narrowing, Scale, Shift, blocked_parameters
from vdla.compiler.te.operators.sizes import (
    Convolution,
    Pooling,
    Transposed,
    average_pool,
    blocks,
    matrix_product,
)
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host.convolution import conv_transpose
from vdla.runtime.requantise import parameter_words
from vdla.runtime.requantise import requantise as requantised


def random_case(seed: int, configs: tuple[AcceleratorConfig, ...]) -> Case:
    """Return a case that fits one of the configurations, the same for the same seed."""
    rng = random.Random(seed)
    while True:
        config, kind = rng.choice(configs), rng.choice(KINDS)
        try:
            return kind(Maker(config, rng))
        except IrError:
            continue  # it does not fit the memories


def _convolution(maker: Maker) -> Case:
    rng = maker.rng
    groups = rng.choice((1, 1, 1, 2, 4, 5))
    size = Convolution(
        groups * rng.randint(1, 40 // groups),
        rng.randint(1, 12),
        rng.randint(1, 12),
        groups * rng.randint(1, 40 // groups),
        (rng.choice((1, 2, 3)), rng.choice((1, 1, 3))),
        (rng.choice((1, 1, 2)), rng.choice((1, 2))),
        maker.padding(),
        (rng.choice((1, 1, 2)), 1),
        groups,
        rng.choice((1, 1, 2)),
    )
    border = maker.border()
    return _product(maker, size, maker.bytes(size.outputs, size.channels // groups, *size.kernel), border)


def _depthwise(maker: Maker) -> Case:
    rng, channels = maker.rng, maker.rng.randint(1, 40)
    size = Convolution(
        channels,
        rng.randint(3, 12),
        rng.randint(3, 12),
        channels,
        (3, 3),
        rng.choice(((1, 1), (2, 2))),
        maker.padding(),
        groups=channels,
    )
    return _product(maker, size, maker.bytes(channels, 1, 3, 3))


def _windows(maker: Maker) -> Case:
    """Return a depthwise convolution whose kernel slides in windows of columns."""
    rng, channels = maker.rng, maker.rng.randint(1, 40)
    size = Convolution(
        channels,
        rng.randint(3, 12),
        rng.randint(3, 12),
        channels,
        (rng.choice((1, 2, 3, 3, 4, 5, 7)), rng.choice((1, 2, 3, 3, 4, 5, 7, 8))),
        (rng.randint(1, 3), rng.randint(1, 2)),
        maker.padding(),
        (rng.choice((1, 1, 2)), 1),
        channels,
        rng.choice((1, 1, 2)),
    )
    if not prefers_windows(size, maker.config):
        raise IrError("there is no DEPTHWISE")
    border = rng.choice((0, LEAST)) if maker.config.has(Extension.PAD_MINIMUM) else 0
    return _product(
        maker, size, maker.bytes(channels, 1, *size.kernel), border, with_whole_windows(size, maker.config)
    )


def _matrix_product(maker: Maker) -> Case:
    rng = maker.rng
    size = matrix_product(rng.randint(1, 20), rng.randint(1, 60), rng.randint(1, 60), maker.config)
    return _product(maker, size, maker.bytes(size.outputs, size.channels, 1, 1))


def _average(maker: Maker) -> Case:
    rng, channels = maker.rng, maker.rng.randint(1, 40)
    kernel = (rng.randint(1, 4), rng.randint(1, 4))
    size = average_pool(
        Pooling(
            channels,
            rng.randint(4, 9),
            rng.randint(4, 9),
            kernel,
            (rng.randint(1, 2), rng.randint(1, 2)),
            maker.padding(),
        )
    )
    weights, config, narrowing = (
        np.ones((channels, 1, *kernel), np.int8),
        maker.config,
        _whole(maker.narrowing()),
    )
    if rng.random() < 0.5 or config.block_in != config.block_out:
        return _product(maker, size, weights)
    inp, work = (
        maker.activations(size),
        TilingProblem(size, config, maker.threads, isinstance(narrowing, Scale), alike=True),
    )
    tiles = rng.choice(ranked_tiles(work, keeps=KEEPS))
    expected, kept = maker.narrowed(convolved(inp, weights, size), narrowing)
    func = schedule_conv2d(
        conv2d(size, config, narrowing, alike=True), size, config, threads=maker.threads, tiles=tiles
    ).lower()
    given = {"X": maker.blocked(inp, config.block_in), "W": np.eye(config.block_out, dtype=np.int8), **kept}
    return Case(
        f"{size}, alike, {narrowing}, {tiles}, {maker.threads} threads", config, func, given, expected
    )


def _product(
    maker: Maker,
    size: Convolution,
    weights: np.ndarray,
    border: int = 0,
    windows: Convolution | None = None,
) -> Case:
    """Return a convolution; `windows`: how its kernel slides in windows, if it does."""
    config, narrowing, inp = maker.config, _whole(maker.narrowing()), maker.activations(size)
    work = TilingProblem(
        windows or size, config, maker.threads, isinstance(narrowing, Scale), slides=bool(windows)
    )
    tiles = maker.rng.choice(ranked_tiles(work, keeps=KEEPS))
    expected, kept = maker.narrowed(convolved(inp, weights, size, border), narrowing)
    define, pack = (conv2d_windows, window_weights) if windows else (conv2d, blocked_weights)
    operator = define(work.size, config, narrowing, border=border)
    func = schedule_conv2d(operator, work.size, config, threads=maker.threads, tiles=tiles).lower()
    given = {"X": maker.blocked(inp, config.block_in), "W": pack(weights, work.size, config), **kept}
    how = f"{narrowing}, border {border}, {tiles}, {maker.threads} threads"
    return Case(
        f"{size}, {'windows, ' * bool(windows)}{how}",
        config,
        func,
        given,
        expected,
    )


def _transposed(maker: Maker) -> Case:
    rng, config, narrowing = maker.rng, maker.config, _whole(maker.narrowing())
    size = Transposed(
        rng.randint(1, 20),
        rng.randint(1, 6),
        rng.randint(1, 6),
        rng.randint(1, 20),
        (rng.randint(1, 5), rng.randint(1, 5)),
        (rng.randint(1, 2), rng.randint(1, 2)),
        tuple(rng.choice((0, 1, 1, 2)) for _ in range(4)),
        (rng.randint(0, 1), 0),
    )
    if min(size.out_size) < 1:
        raise IrError("nothing is left of the result")
    phase = phase_convolution(size)
    tiles = rng.choice(
        ranked_tiles(TilingProblem(phase, config, maker.threads, isinstance(narrowing, Scale)), keeps=KEEPS)
    )
    inp, weights = maker.activations(size), maker.bytes(size.channels, size.outputs, *size.kernel)
    sums = conv_transpose(
        inp.astype(np.float64),
        weights.astype(np.float64),
        dilations=(1, 1),
        group=1,
        output_padding=size.extra,
        pads=size.padding,
        strides=size.stride,
    )
    expected, kept = maker.narrowed(sums.astype(np.int64), narrowing)
    operator = conv2d_transposed(size, config, narrowing)
    func = schedule_conv2d(operator, phase, config, threads=maker.threads, tiles=tiles).lower()
    given = {"X": maker.blocked(inp, config.block_in), "W": phase_weights(weights, size, config), **kept}
    return Case(f"{size}, {narrowing}, {tiles}, {maker.threads} threads", config, func, given, expected)


def _whole(narrowing: Narrowing) -> Narrowing:
    """Return a narrowing of convolutions: every channel has its parameters."""
    return narrowing if isinstance(narrowing, Shift) else Scale()


def _chain(maker: Maker) -> Case:
    """Return a depthwise convolution with a convolution before it, a 1x1 convolution after it, or both, as a
    chain: any of its tiles."""
    rng, config = maker.rng, maker.config
    sides, batch = (rng.randint(1, 14), rng.randint(1, 14)), rng.choice((1, 1, 2))
    inputs, channels, outputs = (rng.randint(1, 40) for _ in range(3))
    window = Convolution(
        channels,
        *sides,
        channels,
        (rng.choice((1, 2, 3, 3, 5)), rng.choice((1, 3, 3, 3, 5))),
        (rng.choice((1, 1, 2)), rng.choice((1, 2))),
        maker.padding(),
        groups=channels,
        batch=batch,
    )
    if not prefers_windows(window, config):
        raise IrError("there is no DEPTHWISE")
    expands, projects = rng.choice(((True, True), (True, False), (False, True)))
    last = Convolution(channels, *window.out_size, outputs, (1, 1), batch=batch)
    chain = Chain(
        ConvolutionTask(with_whole_windows(window, config), border=maker.border(), slides=True),
        ConvolutionTask(_expansion(rng, window, inputs)) if expands else None,
        ConvolutionTask(last) if projects else None,
    )
    if config.acc_bits < SUM_BITS or not chains(chain, config):
        raise IrError("there is no path to the inputs, or no tile fits")
    fused, given, choice = ChainTask(chain), dict[str, np.ndarray](), Choice(rng.randint(1, 3))
    tile = rng.choice([plan.tile for plan in plans(chain, config, choice.copies)])
    values = maker.activations(chain.stages[0].size)
    given["X"] = maker.blocked(values, config.block_in)
    for place, stage in enumerate(chain.stages):
        size, name = stage.size, "" if stage is chain.stages[-1] else str(place)
        weights = maker.bytes(size.outputs, size.channels // size.groups, *size.kernel)
        values, kept = maker.narrowed(convolved(values, weights, size, stage.border), Scale())
        pack = window_weights if stage.slides else blocked_weights
        given |= {f"W{name}": pack(weights, size, config), f"P{name}": kept["P"]}
    return Case(f"{fused}, {tile}", config, fused.tiled(tile, choice, config), given, values)


def _expansion(rng: random.Random, window: Convolution, inputs: int) -> Convolution:
    """Return a convolution of `inputs` channels, without a border, whose result a depthwise convolution
    reads."""
    kernel, stride = (rng.choice((1, 1, 1, 2, 3)), rng.choice((1, 1, 1, 3))), (rng.choice((1, 1, 2)), 1)
    sides = zip((window.height, window.width), stride, kernel, strict=True)
    read = ((side - 1) * step + taps for side, step, taps in sides)
    return Convolution(inputs, *read, window.channels, kernel, stride, batch=window.batch)


def _elementwise(maker: Maker) -> Case:
    rng, config, narrowing = maker.rng, maker.config, maker.narrowing()
    shape = (maker.rng.randint(1, 2), rng.randint(1, 30), rng.randint(1, 12), rng.randint(1, 12))
    first, second = maker.bytes(*shape), maker.bytes(*shape)
    wide_first, wide_second = first.astype(np.int64), second.astype(np.int64)
    flat = (blocks(shape[1], config.block_out), blocks(shape[0], config.batch) * shape[2] * shape[3])
    if flat[0] > 1 and blocks(shape[0], config.batch) > 1:
        raise IrError("blocks of channels stand apart in a batch")
    zeros = rng.randint(-9, 9), rng.randint(-9, 9)
    factors = rng.choice((1, 7, -300)), rng.choice((1, 100))
    sums, products = (
        wide_first * factors[0] + wide_second * factors[1],
        (wide_first - zeros[0]) * (wide_second - zeros[1]),
    )
    statements = (
        (lambda: requantise(flat, config, narrowing), wide_first, "requantise"),
        (lambda: add(flat, config, narrowing, factors=factors), sums, f"add {factors}"),
        (lambda: multiply(flat, config, narrowing, zeros=zeros), products, f"multiply {zeros}"),
    )
    statement, total, text = rng.choice(statements)
    operator = statement()
    expected, kept = maker.narrowed(total, narrowing)
    given = {
        name: maker.blocked(values, config.block_out)
        for name, values in zip("AB", (first, second), strict=True)
    }
    sets = 0 if operator.narrowed.parameters is None else operator.narrowed.parameters.shape[0]
    tile = elements_at_a_time(config, sets, len(operator.inputs), maker.threads)
    tile = max(1, min(tile, blocks(flat[1], maker.threads)))
    func = schedule_elementwise(operator, tile, config, threads=maker.threads).lower()
    return Case(
        f"{text}, {shape}, {narrowing}, {maker.threads} threads",
        config,
        func,
        {tensor.name: given[tensor.name] for tensor in operator.inputs} | kept,
        expected,
    )


def _scaled_sum(maker: Maker) -> Case:
    """A sum by the multiplier array, of any whole number of elements."""
    rng, config = maker.rng, maker.config
    shape = (1, config.block_out, 1, rng.choice((1, 2, rng.randint(3, 60), rng.randint(61, 1500))))
    factors = rng.randint(-32768, 32639), rng.choice((0, 1, -128, 127, 255, 32639, -32768))
    if not multiplies_sums(config, factors):
        raise IrError("the multiplier array makes no such sum")
    first, second = maker.bytes(*shape), maker.bytes(*shape)
    threads = rng.choice([count for count in (1, 2, 3) if elements_of_a_sum(config, count) > 0])
    expected, kept = maker.narrowed(
        first.astype(np.int64) * factors[0] + second * np.int64(factors[1]), Scale(False)
    )
    given = {
        name: maker.blocked(values, config.block_out)
        for name, values in zip("AB", (first, second), strict=True)
    }
    return Case(
        f"scaled sum {factors}, {shape}, {threads} threads",
        config,
        SumTask(shape[3]).program(Choice(threads), config),
        {**given, **kept, "W": diagonal_weights(factors, config)},
        expected,
    )


def _scaled_convolution(maker: Maker) -> Case:
    """A 1x1 convolution of an image whose channels are scaled on the way into its products."""
    rng, config = maker.rng, maker.config
    channels, outputs = rng.randint(1, 8) * config.block_in, rng.randint(1, 5) * config.block_out
    height, width = rng.randint(1, 14), rng.randint(1, 14)
    zeros = rng.choice((0, 0, 5, -128)), rng.choice((0, 0, -7, 127))
    numbers, inputs = int8_parts(-zeros[1]), int8_parts(-zeros[0])
    sizes = channels // config.block_in, outputs // config.block_out, height * width
    task = ScaledTask(*sizes, len(numbers), len(inputs))
    if config.batch > 1 or not scales_inputs(config, task):
        raise IrError("no factor is a weight, or it does not fit")
    choice = maker.choice(lambda copies: task.tile(config, copies) is not None)
    image, factors = maker.bytes(1, channels, height, width), maker.bytes(channels)
    words = parameter_words(*(np.array([value]) for value in (zeros[0] * zeros[1], 30_000, 21, 3, -120, 125)))
    wide = image.astype(np.int64)
    products = (wide - zeros[0]) * factors[:, None, None] - wide * zeros[1]
    scaled = requantised(products, words[:, :, None, None], config.acc_bits)
    size = Convolution(channels, height, width, outputs, (1, 1))
    weights = maker.bytes(outputs, channels, 1, 1)
    expected, kept = maker.narrowed(convolved(scaled, weights, size), Scale())
    given = {
        "X": maker.blocked(image, config.block_in),
        "Q": blocked_parameters(np.repeat(words, config.block_out, 1), config),
        "D": np.stack([np.diag(part) for part in factors.reshape(-1, config.block_in)]),
        "W": blocked_weights(weights, size, config),
        **({"K": scalar_weights(numbers, config)} if numbers else {}),
        **({"C": constant_inputs(inputs, config)} if inputs else {}),
    }
    return Case(f"{task}, {choice}", config, task.program(choice, config), {**given, **kept}, expected)


KINDS: tuple[Callable[[Maker], Case], ...] = (
    _convolution,
    _convolution,
    _transposed,
    _depthwise,
    _windows,
    _windows,
    _matrix_product,
    _average,
    max_pool,
    _elementwise,
    _elementwise,
    _scaled_sum,
    widened_maximum,
    pooled_sums,
    _scaled_convolution,
    _chain,
    _chain,
)
