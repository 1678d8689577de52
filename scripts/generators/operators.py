"""Random operators with random schedules on random data, and what NumPy makes of them."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from generators.points import program_at_random
from vdla.compiler.codegen.estimate import ranked_tiles
from vdla.compiler.codegen.maxima import identity_weights, maxima_tile, maximum_program, widens_maxima
from vdla.compiler.codegen.packing import blocked_parameters, blocked_weights
from vdla.compiler.codegen.schedules import schedule_conv2d, schedule_elementwise, schedule_max_pool
from vdla.compiler.codegen.sums import diagonal_weights, elements_of_a_sum, multiplies_sums, sum_program
from vdla.compiler.codegen.tiles import KEEPS, Work
from vdla.compiler.ir.nodes import Func, IrError
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.elementwise import add, multiply, requantise
from vdla.compiler.te.operators.narrowing import LEAST, Narrowing, Scale, Shift
from vdla.compiler.te.operators.pooling import max_pool
from vdla.compiler.te.operators.sizes import (
    Convolution,
    Pooling,
    Transposed,
    average_pool,
    blocks,
    matrix_product,
)
from vdla.compiler.te.operators.transposed import conv2d_transposed, one_phase, phase_weights
from vdla.compiler.te.operators.windows import conv2d_windows, in_windows, slides, window_weights
from vdla.compiler.te.schedule import Schedule
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host.convolution import conv_transpose
from vdla.runtime.layout import blocked, unblocked
from vdla.runtime.requantise import parameter_words
from vdla.runtime.requantise import requantise as requantised


@dataclass(frozen=True)
class Case:
    """One operator and how it is to be carried out.

    Attributes:
        text: what it is.
        func: its program.
        given: arrays by parameter, in blocks.
        expected: the result, int8[n, c, h, w].
    """

    text: str
    config: AcceleratorConfig
    func: Func
    given: Mapping[str, np.ndarray]
    expected: np.ndarray

    def result(self, out: np.ndarray) -> np.ndarray:
        """Return int8[n, c, h, w] of what the program wrote."""
        n, c, height, width = self.expected.shape
        tile = (self.config.batch, self.config.block_out)
        return unblocked(out.reshape(blocks(n, tile[0]), blocks(c, tile[1]), height, width, *tile), n, c)


def random_case(seed: int, configs: tuple[AcceleratorConfig, ...], *, derives: bool = False) -> Case:
    """Return a case that fits one of the configurations, the same for the same seed.

    Args:
        derives: its schedule is derived from its tensor expression; else it is the one by hand.
    """
    rng = random.Random(seed)
    while True:
        config, kind = rng.choice(configs), rng.choice(KINDS)
        try:
            return kind(_Maker(config, rng, derives=derives))
        except IrError:
            continue  # it does not fit the memories


class _Maker:
    """Random choices for one case."""

    def __init__(self, config: AcceleratorConfig, rng: random.Random, *, derives: bool) -> None:
        self.config, self.rng, self.derives = config, rng, derives
        self.data = np.random.default_rng(rng.getrandbits(32))
        self.threads = rng.choice((1, 2, 2, 3))

    def lowered(self, schedule: Schedule) -> Func:
        """Return the program of a schedule, or one that is derived from what it computes."""
        if self.derives:
            return program_at_random(schedule.outputs[0], self.config, self.rng)
        return schedule.lower()

    def bytes(self, *shape: int) -> np.ndarray:
        return self.data.integers(-128, 128, shape, np.int8)

    def activations(self, size) -> np.ndarray:
        return self.bytes(size.batch, size.channels, size.height, size.width)

    def blocked(self, values: np.ndarray, block: int) -> np.ndarray:
        return blocked(values, block, self.config.batch)

    def narrowing(self) -> Narrowing:
        if self.config.has(Extension.REQUANTISE) and self.rng.random() < 0.7:
            return Scale(self.rng.random() < 0.7)
        return Shift(self.rng.randint(0, 10), self.rng.random() < 0.5)

    def narrowed(self, totals: np.ndarray, narrowing: Narrowing) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return int8[n, c, h, w] of totals, and the parameters that make them, in blocks."""
        if isinstance(narrowing, Shift):
            rounded = _in_accumulators(totals + (1 << narrowing.amount >> 1), self.config)
            return np.clip(rounded >> narrowing.amount, 0 if narrowing.rectifies else LEAST, 127).astype(
                np.int8
            ), {}
        words = self.parameters(totals.shape[1] if narrowing.by_channel else 1)
        kept = blocked_parameters(
            words if narrowing.by_channel else np.repeat(words, self.config.block_out, 1), self.config
        )
        return requantised(totals, words[:, :, None, None], self.config.acc_bits), {"P": kept}

    def parameters(self, channels: int) -> np.ndarray:
        draw = self.data.integers
        least, greatest = np.sort(draw(-128, 128, (2, channels)), 0)
        return parameter_words(
            draw(-3000, 3000, channels),
            draw(0, 1 << 16, channels),
            draw(8, 28, channels),
            draw(-20, 20, channels),
            least,
            greatest,
        )

    def border(self) -> int:
        """Return what may stand around an input."""
        least = LEAST if self.config.has(Extension.PAD_MINIMUM) else 0
        any_value = self.rng.randint(LEAST, 127) if self.config.has(Extension.PAD_VALUE) else 0
        return self.rng.choice((0, least, any_value, any_value))

    def padding(self) -> tuple[int, int, int, int]:
        return tuple(self.rng.choice((0, 0, 1, 2)) for _ in range(4))


def _convolution(maker: _Maker) -> Case:
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


def _depthwise(maker: _Maker) -> Case:
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


def _windows(maker: _Maker) -> Case:
    """Return a depthwise convolution whose kernel slides in windows of columns."""
    rng, channels = maker.rng, maker.rng.randint(1, 40)
    size = Convolution(
        channels,
        rng.randint(3, 12),
        rng.randint(3, 12),
        channels,
        (rng.randint(1, 5), rng.choice((2, 3, 3, 4, 5, 7))),
        (rng.randint(1, 3), rng.randint(1, 2)),
        maker.padding(),
        (rng.choice((1, 1, 2)), 1),
        channels,
        rng.choice((1, 1, 2)),
    )
    if not slides(size, maker.config):
        raise IrError("there is no DEPTHWISE")
    border = rng.choice((0, LEAST)) if maker.config.has(Extension.PAD_MINIMUM) else 0
    return _product(maker, size, maker.bytes(channels, 1, *size.kernel), border, in_windows(size))


def _matrix_product(maker: _Maker) -> Case:
    rng = maker.rng
    size = matrix_product(rng.randint(1, 20), rng.randint(1, 60), rng.randint(1, 60), maker.config)
    return _product(maker, size, maker.bytes(size.outputs, size.channels, 1, 1))


def _average(maker: _Maker) -> Case:
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
        Work(size, config, maker.threads, isinstance(narrowing, Scale), alike=True),
    )
    tiles = rng.choice(ranked_tiles(work, keeps=KEEPS))
    expected, kept = maker.narrowed(convolved(inp, weights, size), narrowing)
    func = maker.lowered(
        schedule_conv2d(
            conv2d(size, config, narrowing, alike=True), size, config, threads=maker.threads, tiles=tiles
        )
    )
    given = {"X": maker.blocked(inp, config.block_in), "W": np.eye(config.block_out, dtype=np.int8), **kept}
    return Case(
        f"{size}, alike, {narrowing}, {tiles}, {maker.threads} threads", config, func, given, expected
    )


def _product(
    maker: _Maker,
    size: Convolution,
    weights: np.ndarray,
    border: int = 0,
    windows: Convolution | None = None,
) -> Case:
    """Return a convolution; `windows`: how its kernel slides in windows, if it does."""
    config, narrowing, inp = maker.config, _whole(maker.narrowing()), maker.activations(size)
    work = Work(windows or size, config, maker.threads, isinstance(narrowing, Scale), slides=bool(windows))
    tiles = maker.rng.choice(ranked_tiles(work, keeps=KEEPS))
    expected, kept = maker.narrowed(convolved(inp, weights, size, border), narrowing)
    define, pack = (conv2d_windows, window_weights) if windows else (conv2d, blocked_weights)
    operator = define(work.size, config, narrowing, border=border)
    func = maker.lowered(schedule_conv2d(operator, work.size, config, threads=maker.threads, tiles=tiles))
    given = {"X": maker.blocked(inp, config.block_in), "W": pack(weights, work.size, config), **kept}
    how = f"{narrowing}, border {border}, {tiles}, {maker.threads} threads"
    return Case(
        f"{size}, {'windows, ' * bool(windows)}{how}",
        config,
        func,
        given,
        expected,
    )


def _transposed(maker: _Maker) -> Case:
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
    phase = one_phase(size)
    tiles = rng.choice(
        ranked_tiles(Work(phase, config, maker.threads, isinstance(narrowing, Scale)), keeps=KEEPS)
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
    func = maker.lowered(schedule_conv2d(operator, phase, config, threads=maker.threads, tiles=tiles))
    given = {"X": maker.blocked(inp, config.block_in), "W": phase_weights(weights, size, config), **kept}
    return Case(f"{size}, {narrowing}, {tiles}, {maker.threads} threads", config, func, given, expected)


def _whole(narrowing: Narrowing) -> Narrowing:
    """Return a narrowing of convolutions: parameters are those of channels."""
    return narrowing if isinstance(narrowing, Shift) else Scale()


def convolved(inp: np.ndarray, weights: np.ndarray, size: Convolution, border: int = 0) -> np.ndarray:
    """Return int64[n, o, oh, ow]: the sums of int8[n, c, h, w] and int8[o, c / groups, kh, kw]."""
    (top, left, below, right), (sy, sx), (ey, ex), (height, width) = (
        size.padding,
        size.stride,
        size.dilation,
        size.out_size,
    )
    padded = np.pad(
        inp.astype(np.int64), ((0, 0), (0, 0), (top, below), (left, right)), constant_values=border
    )
    grouped = padded.reshape(size.batch, size.groups, size.channels // size.groups, *padded.shape[2:])
    kernels = weights.astype(np.int64).reshape(size.groups, size.outputs // size.groups, *weights.shape[1:])
    total = np.zeros((size.batch, size.groups, size.outputs // size.groups, height, width), np.int64)
    for dy, dx in np.ndindex(*size.kernel):
        window = grouped[
            ..., dy * ey : dy * ey + (height - 1) * sy + 1 : sy, dx * ex : dx * ex + (width - 1) * sx + 1 : sx
        ]
        total += np.einsum("goc,ngchw->ngohw", kernels[..., dy, dx], window)
    return total.reshape(size.batch, size.outputs, height, width)


def _max_pool(maker: _Maker) -> Case:
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
    func = maker.lowered(schedule_max_pool(max_pool(size, config), size, config, threads=maker.threads))
    return Case(
        f"{size}, {maker.threads} threads",
        config,
        func,
        {"X": maker.blocked(inp, config.block_out)},
        _greatest(inp, size),
    )


def _widened_maximum(maker: _Maker) -> Case:
    """A pooling through the multiplier array, of windows that each have inputs of their own."""
    rng, config = maker.rng, maker.config
    stride = rng.randint(1, 3), rng.randint(1, 3)
    kernel = tuple(rng.randint(1, 2 * step - 1) for step in stride)
    padding = tuple(rng.randint(0, side - 1) for side in (*kernel, *kernel))
    extents = rng.randint(5, 25), rng.randint(5, 25)
    size = Pooling(rng.randint(1, 20), *extents, kernel, stride, padding, rng.randint(1, 2))
    if not widens_maxima(config, size):
        raise IrError("it does not fit, or a border has no padding")
    threads = rng.choice([count for count in (1, 2, 3) if maxima_tile(size, config, count) is not None])
    inp = maker.activations(size)
    return Case(
        f"{size} widened, {threads} threads",
        config,
        maximum_program(size, config, threads=threads),
        {"X": maker.blocked(inp, config.block_out), "W": identity_weights(config)},
        _greatest(inp, size),
    )


def _greatest(inp: np.ndarray, size: Pooling) -> np.ndarray:
    (top, left, below, right), (height, width) = size.padding, size.out_size
    padded = np.pad(inp, ((0, 0), (0, 0), (top, below), (left, right)), constant_values=LEAST)
    windows = [
        padded[
            ...,
            dy : dy + (height - 1) * size.stride[0] + 1 : size.stride[0],
            dx : dx + (width - 1) * size.stride[1] + 1 : size.stride[1],
        ]
        for dy, dx in np.ndindex(*size.kernel)
    ]
    return np.max(windows, 0)


def _elementwise(maker: _Maker) -> Case:
    rng, config, narrowing = maker.rng, maker.config, maker.narrowing()
    shape = (maker.rng.randint(1, 2), rng.randint(1, 30), rng.randint(1, 12), rng.randint(1, 12))
    first, second = maker.bytes(*shape), maker.bytes(*shape)
    wide, other = first.astype(np.int64), second.astype(np.int64)
    flat = (blocks(shape[1], config.block_out), blocks(shape[0], config.batch) * shape[2] * shape[3])
    if flat[0] > 1 and blocks(shape[0], config.batch) > 1:
        raise IrError("blocks of channels stand apart in a batch")
    zeros = rng.randint(-9, 9), rng.randint(-9, 9)
    factors = rng.choice((1, 7, -300)), rng.choice((1, 100))
    sums, products = (
        wide * factors[0] + other * factors[1],
        (wide - zeros[0]) * (other - zeros[1]),
    )
    statements = (
        (lambda: requantise(flat, config, narrowing), wide, "requantise"),
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
    func = maker.lowered(schedule_elementwise(operator, config, threads=maker.threads))
    return Case(
        f"{text}, {shape}, {narrowing}, {maker.threads} threads",
        config,
        func,
        {tensor.name: given[tensor.name] for tensor in operator.inputs} | kept,
        expected,
    )


def _scaled_sum(maker: _Maker) -> Case:
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
        sum_program(shape[3], config, threads=threads),
        {**given, **kept, "W": diagonal_weights(factors, config)},
        expected,
    )


def _in_accumulators(total: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Return int64[...]: what accumulators hold of sums."""
    return total.astype(f"int{config.acc_bits}").astype(np.int64)


KINDS: tuple[Callable[[_Maker], Case], ...] = (
    _convolution,
    _convolution,
    _transposed,
    _depthwise,
    _windows,
    _windows,
    _matrix_product,
    _average,
    _max_pool,
    _elementwise,
    _elementwise,
    _scaled_sum,
    _widened_maximum,
)
