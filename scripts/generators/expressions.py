"""Operators that are written as tensor expressions only, on random data, and what NumPy makes of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from generators.expected import convolved
from vdla.compiler.ir.nodes import Expr, all_of, cast, select
from vdla.compiler.tasks.elementwise import add
from vdla.compiler.tasks.pooling import max_pool
from vdla.compiler.te.operators.convolution import blocked_weights, conv2d
from vdla.compiler.te.operators.narrowing import LEAST, Scale, blocked_parameters, requantised
from vdla.compiler.te.operators.sizes import Convolution, Pooling, matrix_product
from vdla.compiler.te.tensor import Tensor, compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Parameter
from vdla.runtime.layout import blocked
from vdla.runtime.requantise import parameter_words, requantise


@dataclass(frozen=True)
class Expression:
    """One operator.

    Attributes:
        output: its tensor expression.
        given: arrays by placeholder.
        expected: the result, in the shape of `output`.
    """

    output: Tensor
    given: Mapping[str, np.ndarray]
    expected: np.ndarray


class _Maker:
    """Random data for one operator."""

    def __init__(self, config: AcceleratorConfig, seed: int) -> None:
        self.config, self.rng = config, np.random.default_rng(seed)
        self.acc = f"int{config.acc_bits}"

    def bytes(self, *shape: int) -> np.ndarray:
        """Return random int8 values of a shape."""
        return self.rng.integers(-128, 128, shape, np.int8)

    def image(self, size: Convolution) -> np.ndarray:
        """Return the random input int8[n, c, h, w] of a convolution."""
        return self.bytes(size.batch, size.channels, size.height, size.width)

    def out(self, values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Return [n, c, h, w] in blocks of outputs, in the shape of a tensor."""
        return blocked(values, self.config.block_out, self.config.batch).reshape(shape)

    def words(self, channels: int, shift: int) -> np.ndarray:
        """Return int64[4, channels]: parameters that divide by about 2^shift."""
        draw = self.rng.integers
        multiplier = draw(1 << 14, 1 << 15, channels)
        return parameter_words(
            draw(-3000, 3000, channels),
            multiplier,
            np.full(channels, shift + 15),
            draw(-9, 9, channels),
            -120,
            119,
        )

    def scaled(self, total: Tensor, name: str, channel: int | None) -> Tensor:
        """Return the requantisation of sums by parameters, of one dimension's channels or shared by all."""
        sets = 1 if channel is None else total.shape[channel]
        tile = total.shape[-2:]
        kept = placeholder((sets, len(Parameter), *tile), f"P{name}", self.acc)

        def element(*at: Expr) -> Expr:
            channel_index = 0 if channel is None else at[channel]
            return requantised(total[at], lambda row: kept[channel_index, int(row), at[-2], at[-1]])

        return compute(total.shape, element, f"Z{name}", [f"{axis.name}_{name}" for axis in total.axes])

    def kept(self, words: np.ndarray) -> np.ndarray:
        """Return int[channels / block_out, 4, batch, block_out]: the parameters of each channel."""
        return blocked_parameters(words, self.config)

    def shared(self, words: np.ndarray) -> np.ndarray:
        """Return int[1, 4, batch, block_out]: one channel's parameters for all."""
        return blocked_parameters(np.repeat(words, self.config.block_out, 1), self.config)


def sum_of_squares(
    config: AcceleratorConfig, seed: int = 0, channels: int = 24, elements: int = 20
) -> Expression:
    """Return the sum of squares over channels of int8[channels, elements, batch, block_out], requantised."""
    maker = _Maker(config, seed)
    shape = (elements, config.batch, config.block_out)
    inp, channel = placeholder((channels, *shape), "X", "int8"), reduce_axis(channels, "c")

    def square(e: Expr, b: Expr, j: Expr) -> Expr:
        value = cast(maker.acc, inp[channel, e, b, j])
        return sum_over(value * value, channel)

    given, words = maker.bytes(channels, *shape), maker.words(1, 11)
    totals = (given.astype(np.int64) ** 2).sum(0)
    return Expression(
        maker.scaled(compute(shape, square, "Y"), "", None),
        {"X": given, "P": maker.shared(words)},
        requantise(totals, words[:, :, None, None], config.acc_bits),
    )


def energy_pooling(config: AcceleratorConfig, seed: int = 0, side: int = 9) -> Expression:
    """Return the sum of squares over windows of 3x3 pixels that overlap, of int8[c / block, y, x, batch,
    block]."""
    maker, out = _Maker(config, seed), (side - 3) // 2 + 1
    tile = (config.batch, config.block_out)
    inp = placeholder((2, side, side, *tile), "X", "int8")
    dy, dx = reduce_axis(3, "dy"), reduce_axis(3, "dx")

    def square(c: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Expr:
        value = cast(maker.acc, inp[c, y * 2 + dy, x * 2 + dx, b, j])
        return sum_over(value * value, (dy, dx))

    given, words = maker.bytes(*inp.shape), maker.words(2 * config.block_out, 9)
    squares = given.astype(np.int64) ** 2
    windows = np.lib.stride_tricks.sliding_window_view(squares, (3, 3), (1, 2))[:, ::2, ::2].sum((-1, -2))
    by_block = maker.kept(words).transpose(1, 0, 2, 3)[:, :, None, None]
    return Expression(
        maker.scaled(compute((2, out, out, *tile), square, "Y"), "", 0),
        {"X": given, "P": maker.kept(words)},
        requantise(windows, by_block, config.acc_bits),
    )


def product_and_sum(config: AcceleratorConfig, seed: int = 0, rows: int = 6) -> Expression:
    """Return X times W plus three times R, requantised: a matrix product with a residual of another scale."""
    maker = _Maker(config, seed)
    size = matrix_product(rows, 2 * config.block_out, 3 * config.block_in, config)
    product = conv2d(size, config, Scale()).total
    rest = placeholder(product.shape, "R", "int8")
    total = compute(
        product.shape,
        lambda *at: product[at] + cast(maker.acc, rest[at]) * 3,
        "S",
        [f"s{axis.name}" for axis in product.axes],
    )
    inp, weights = maker.image(size), maker.bytes(size.outputs, size.channels, 1, 1)
    residual, words = maker.bytes(size.batch, size.outputs, *size.out_size), maker.words(size.outputs, 9)
    totals = convolved(inp, weights, size) + 3 * residual.astype(np.int64)
    given = {
        "X": blocked(inp, config.block_in, config.batch),
        "W": blocked_weights(weights, size, config),
        "R": maker.out(residual, product.shape),
        "P": maker.kept(words),
    }
    expected = requantise(totals, words[:, :, None, None], config.acc_bits)
    return Expression(maker.scaled(total, "", 2), given, maker.out(expected, product.shape))


def separable_pair(config: AcceleratorConfig, seed: int = 0, side: int = 6) -> Expression:
    """Return a 3x3 depthwise convolution with a border, requantised, and a 1x1 convolution on its result."""
    maker, b, block = _Maker(config, seed), config.batch, config.block_in
    channels, outputs = 2 * block, 3 * config.block_out
    depthwise = Convolution(
        channels, side, side, channels, (3, 3), (1, 1), (1, 1, 1, 1), groups=channels, batch=b
    )
    pointwise = Convolution(channels, side, side, outputs, (1, 1), batch=b)
    image, kernels = maker.image(depthwise), maker.bytes(channels, 1, 3, 3)
    weights, words = maker.bytes(outputs, channels, 1, 1), (maker.words(channels, 8), maker.words(outputs, 9))
    middle = requantise(convolved(image, kernels, depthwise), words[0][:, :, None, None], config.acc_bits)
    result = requantise(convolved(middle, weights, pointwise), words[1][:, :, None, None], config.acc_bits)
    output, lane = _pair(maker, side), np.arange(block)
    diagonal = np.zeros((2, 3, 3, block, block), np.int8)
    diagonal[..., lane, lane] = kernels.reshape(2, block, 3, 3).transpose(0, 2, 3, 1)
    given = {
        "X": blocked(image, block, b)[0],
        "D": diagonal,
        "P1": maker.kept(words[0]),
        "W": blocked_weights(weights, pointwise, config)[0, :, :, 0, 0],
        "P2": maker.kept(words[1]),
    }
    return Expression(output, given, maker.out(result, output.shape))


def _pair(maker: _Maker, side: int) -> Tensor:
    """Return the expression of a separable pair: diagonal blocks of weights make the first depthwise."""
    config, acc = maker.config, maker.acc
    batch, i, o = config.batch, config.block_in, config.block_out
    inp, kernels = (
        placeholder((2, side, side, batch, i), "X", "int8"),
        placeholder((2, 3, 3, i, i), "D", "int8"),
    )
    weights = placeholder((3, 2, o, i), "W", "int8")
    dy, dx, k = reduce_axis(3, "dy"), reduce_axis(3, "dx"), reduce_axis(i, "k")
    ci, m = reduce_axis(2, "ci"), reduce_axis(i, "m")

    def border(c: Expr, y: Expr, x: Expr, b: Expr, k: Expr) -> Expr:
        inside = all_of(y >= 1, y < 1 + side, x >= 1, x < 1 + side)
        return select(inside, inp[c, y - 1, x - 1, b, k], 0)

    padded = compute((2, side + 2, side + 2, batch, i), border, "XP")

    def first(c: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Expr:
        return sum_over(
            cast(acc, padded[c, y + dy, x + dx, b, k]) * cast(acc, kernels[c, dy, dx, j, k]), (dy, dx, k)
        )

    between = maker.scaled(compute((2, side, side, batch, i), first, "Y"), "1", 0)

    def second(o: Expr, y: Expr, x: Expr, b: Expr, j: Expr) -> Expr:
        return sum_over(cast(acc, between[ci, y, x, b, m]) * cast(acc, weights[o, ci, j, m]), (ci, m))

    return maker.scaled(compute((3, side, side, batch, o), second, "T"), "2", 0)


def convolution(config: AcceleratorConfig, seed: int = 0, side: int = 7) -> Expression:
    """Return a convolution of 3x3 with strides of two and a border, requantised."""
    maker, channels = _Maker(config, seed), 2 * config.block_in
    size = Convolution(
        channels, side, side, 3 * config.block_out, (3, 3), (2, 2), (1, 1, 1, 1), batch=config.batch
    )
    output = conv2d(size, config, Scale()).out
    inp, weights, words = (
        maker.image(size),
        maker.bytes(size.outputs, channels, 3, 3),
        maker.words(size.outputs, 9),
    )
    expected = requantise(convolved(inp, weights, size), words[:, :, None, None], config.acc_bits)
    given = {
        "X": blocked(inp, config.block_in, config.batch),
        "W": blocked_weights(weights, size, config),
        "P": maker.kept(words)[None],
    }
    return Expression(output, given, maker.out(expected, output.shape))


def largest(config: AcceleratorConfig, seed: int = 0, side: int = 9) -> Expression:
    """Return a max pooling of 3x3 with strides of two and a border."""
    maker, channels = _Maker(config, seed), 2 * config.block_out
    size = Pooling(channels, side, side, (3, 3), (2, 2), (1, 1, 1, 1), batch=config.batch)
    inp = maker.bytes(config.batch, channels, side, side)
    padded = np.pad(inp, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=LEAST)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2].max((-1, -2))
    output = max_pool(size, config).out
    given = {"X": blocked(inp, config.block_out, config.batch)}
    return Expression(output, given, maker.out(windows, output.shape))


def addition(config: AcceleratorConfig, seed: int = 0, elements: int = 30) -> Expression:
    """Return the requantised sum of two tensors with factors."""
    maker, factors = _Maker(config, seed), (3, -5)
    output = add((2, elements), config, Scale(by_channel=False), factors=factors).out
    given = {name: maker.bytes(*output.shape) for name in "AB"}
    words = maker.words(1, 4)
    totals = sum(given[name].astype(np.int64) * factor for name, factor in zip("AB", factors, strict=True))
    given["P"] = maker.shared(words)
    return Expression(output, given, requantise(totals, words[:, :, None, None], config.acc_bits))


EXPRESSIONS: Mapping[str, Callable[[AcceleratorConfig], Expression]] = {
    "convolution": convolution,
    "matrix product and sum": product_and_sum,
    "sum of two tensors": addition,
    "max pooling": largest,
    "sum of squares over channels": sum_of_squares,
    "sum of squares over windows": energy_pooling,
    "separable pair": separable_pair,
}
"""Each makes an operator for a configuration, in a size that is soon simulated."""
