"""Operators as tensor expressions, lowered without a schedule, mean what their definitions say, in blocks of
any sizes."""

import numpy as np
import pytest
from generators.expected import convolved, greatest

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.tasks.elementwise import ElementwiseTensors, add, copy, multiply, requantise
from vdla.compiler.tasks.pooling import max_pool
from vdla.compiler.te.operators.convolution import blocked_weights, conv2d, conv2d_transposed, phase_weights
from vdla.compiler.te.operators.narrowing import Narrowing, Scale, Shift, blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed, average_pool, blocks
from vdla.compiler.te.schedule import create_schedule
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.presets import TINY
from vdla.runtime.host.convolution import conv_transpose
from vdla.runtime.layout import blocked, unblocked
from vdla.runtime.requantise import parameter_words
from vdla.runtime.requantise import requantise as requantised

CONFIGS = {
    "even": TINY.with_changes(block_in=2, block_out=2),
    "wide in": TINY.with_changes(batch=2, block_in=4, block_out=2),
    "wide out": TINY.with_changes(block_in=2, block_out=4, acc_bits=16),
}
CONVOLUTIONS = {
    "bordered": Convolution(3, 4, 3, 5, (3, 2), (1, 1), (1, 0, 2, 1)),
    "strided and dilated": Convolution(2, 5, 6, 3, (2, 2), (1, 2), (0, 1, 1, 0), (2, 3)),
    "rows left out": Convolution(3, 5, 3, 2, (1, 2), (2, 1)),
    "rows left out in a border": Convolution(3, 4, 3, 2, (1, 1), (3, 2), (1, 2, 0, 1)),
    "groups that share a block": Convolution(6, 2, 3, 9, (2, 1), groups=3, batch=3),
    "groups of whole blocks": Convolution(8, 2, 2, 8, (1, 2), groups=2, batch=2),
}
RNG = np.random.default_rng(11)
LEAST = -128


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, np.int8)


def output_of(out: Tensor, given: dict[str, np.ndarray]) -> np.ndarray:
    """Return what the program of a tensor writes."""
    func = create_schedule(out).lower()
    (buffer,) = [buffer for buffer in func.params if buffer.name not in given]
    result = np.full(buffer.shape, 99, np.int8)
    interpret(func, {**given, buffer.name: result})
    return result


def image_of(result: np.ndarray, n: int, c: int, height: int, width: int, config) -> np.ndarray:
    """Return int8[n, c, h, w] of blocks in any order of dimensions that has images, blocks and pixels."""
    tile = (config.batch, config.block_out)
    shape = (blocks(n, tile[0]), blocks(c, tile[1]), height, width, *tile)
    return unblocked(result.reshape(shape), n, c)


def narrowed(totals: np.ndarray, narrowing: Narrowing, config) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return int8[n, c, h, w] of sums, and the parameters that make them."""
    sums = totals.astype(f"int{config.acc_bits}").astype(np.int64)
    if isinstance(narrowing, Shift):
        rounded = (sums + (1 << narrowing.amount >> 1)).astype(f"int{config.acc_bits}")
        return np.clip(rounded >> narrowing.amount, 0 if narrowing.rectifies else LEAST, 127).astype(
            np.int8
        ), {}
    channels = totals.shape[1] if narrowing.by_channel else 1
    draw = RNG.integers
    least, most = np.sort(draw(-128, 128, (2, channels)), 0)
    words = parameter_words(
        draw(-300, 300, channels),
        draw(1, 1 << 15, channels),
        draw(14, 24, channels),
        draw(-9, 9, channels),
        least,
        most,
    )
    kept = words if narrowing.by_channel else np.repeat(words, config.block_out, 1)
    return requantised(sums, words[:, :, None, None], config.acc_bits), {
        "P": blocked_parameters(kept, config)
    }


SETTINGS = {
    "even": (CONFIGS["even"], Scale(), -5),
    "wide in": (CONFIGS["wide in"], Scale(), LEAST),
    "wide out": (CONFIGS["wide out"], Shift(7, True), 0),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, setting):
    size, (config, narrowing, border) = CONVOLUTIONS[name], SETTINGS[setting]
    image = integers(size.batch, size.channels, size.height, size.width)
    weights = integers(size.outputs, size.channels // size.groups, *size.kernel)
    expected, kept = narrowed(convolved(image, weights, size, border), narrowing, config)
    given = {"X": blocked(image, config.block_in, config.batch), "W": blocked_weights(weights, size, config)}
    if kept:
        given["P"] = kept["P"].reshape(len(given["W"]), -1, *kept["P"].shape[1:])
    result = output_of(conv2d(size, config, narrowing, border=border).out, given)
    pixels = image_of(result, size.batch, size.outputs, *size.out_size, config)
    np.testing.assert_array_equal(pixels, expected)


def test_weights_that_are_all_alike_stand_once():
    size, config = average_pool(Pooling(5, 3, 4, (2, 3), (1, 1), (1, 0, 0, 0))), CONFIGS["even"]
    image = integers(1, 5, 3, 4)
    expected, kept = narrowed(convolved(image, np.ones((5, 1, 2, 3), np.int8), size), Scale(), config)
    given = {"X": blocked(image, 2, 1), "W": np.eye(2, dtype=np.int8).reshape(1, 1, 1, 1, 1, 2, 2)}
    given["P"] = kept["P"][:, None]
    result = output_of(conv2d(size, config, Scale(), alike=True).out, given)
    np.testing.assert_array_equal(image_of(result, 1, 5, *size.out_size, config), expected)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(
    "size",
    [
        Pooling(3, 4, 5, (2, 3), (1, 2), (1, 2, 0, 1)),
        Pooling(2, 5, 3, (3, 1), (2, 1), (2, 0, 1, 0), batch=3),
        Pooling(4, 4, 3, (1, 2), (2, 1)),
    ],
    ids=["bordered", "three images", "without a border"],
)
def test_the_greatest_of_windows(size, config):
    image = RNG.integers(-128, -100, (size.batch, size.channels, size.height, size.width), np.int8)
    result = output_of(max_pool(size, config).out, {"X": blocked(image, config.block_out, config.batch)})
    pixels = image_of(result, size.batch, size.channels, *size.out_size, config)
    np.testing.assert_array_equal(pixels, greatest(image, size))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "size",
    [
        Transposed(3, 2, 3, 5, (3, 2), (2, 1), (1, 0, 0, 1)),
        Transposed(5, 3, 2, 2, (2, 5), (1, 2), (0, 1, 1, 1), (0, 1)),
        Transposed(2, 2, 2, 3, (4, 3), (2, 3), (1, 0, 1, 0)),
    ],
    ids=["tall steps", "wide steps", "both"],
)
def test_transposed_convolutions(size, setting):
    config, narrowing, _ = SETTINGS[setting]
    image = integers(size.batch, size.channels, size.height, size.width)
    weights = integers(size.channels, size.outputs, *size.kernel)
    sums = conv_transpose(
        image.astype(np.float64),
        weights.astype(np.float64),
        dilations=(1, 1),
        group=1,
        output_padding=size.extra,
        pads=size.padding,
        strides=size.stride,
    )
    expected, kept = narrowed(sums.astype(np.int64), narrowing, config)
    given = {"X": blocked(image, config.block_in, config.batch), "W": phase_weights(weights, size, config)}
    result = output_of(conv2d_transposed(size, config, narrowing).out, given | kept)
    np.testing.assert_array_equal(
        image_of(result, size.batch, size.outputs, *size.out_size, config), expected
    )


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(
    "narrowing",
    [Shift(3), Shift(0, True), Scale(True), Scale(False)],
    ids=["shift", "bounded", "by channel", "by block"],
)
def test_operators_on_elements(narrowing, config):
    first, second = integers(1, 5, 1, 3), integers(1, 5, 1, 3)
    wide, other = first.astype(np.int64), second.astype(np.int64)
    shape = (blocks(5, config.block_out), 3)
    cases: list[tuple[ElementwiseTensors, np.ndarray]] = [
        (requantise(shape, config, narrowing), wide),
        (add(shape, config, narrowing), wide + other),
        (add(shape, config, narrowing, factors=(7, -30)), 7 * wide - 30 * other),
        (add(shape, config, narrowing, factors=(1, 5)), wide + 5 * other),
        (multiply(shape, config, narrowing), wide * other),
        (multiply(shape, config, narrowing, zeros=(9, -128)), (wide - 9) * (other + 128)),
        (multiply(shape, config, narrowing, zeros=(0, 3)), wide * (other - 3)),
    ]
    operands = {
        name: blocked(values, config.block_out, config.batch)
        for name, values in (("A", first), ("B", second))
    }
    for operator, totals in cases:
        expected, kept = narrowed(totals, narrowing, config)
        assert isinstance(narrowing, Scale) or (expected.min() < 0) == (narrowing.amount > 0)
        given = {tensor.name: operands[tensor.name].reshape(tensor.shape) for tensor in operator.inputs}
        result = image_of(output_of(operator.out, given | kept), 1, 5, 1, 3, config)
        np.testing.assert_array_equal(result, expected)
    copied = output_of(
        copy(shape, config).out, {"A": operands["A"].reshape(*shape, config.batch, config.block_out)}
    )
    np.testing.assert_array_equal(image_of(copied, 1, 5, 1, 3, config), first)
