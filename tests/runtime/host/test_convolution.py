"""Convolutions as matrix products of windows, copied at once or in pieces."""

import numpy as np
import pytest

from vdla.runtime.host import convolution
from vdla.runtime.host.convolution import conv, conv_integer, conv_transpose

RNG = np.random.default_rng(0)
SHAPES = {  # of the image, of the weights, groups, strides, dilations
    "an image": ((2, 3, 9, 8), (4, 3, 3, 2), 1, (2, 1), (1, 2)),
    "each channel for itself": ((2, 6, 7, 5), (6, 1, 3, 3), 6, (1, 1), (1, 1)),
    "groups of channels": ((1, 4, 6, 11), (6, 2, 2, 3), 2, (1, 2), (2, 1)),
    "a line": ((2, 2, 23), (3, 2, 4), 1, (3,), (1,)),
    "a row": ((1, 2, 1, 40), (3, 2, 1, 5), 1, (1, 2), (1, 1)),
    "a block": ((1, 2, 5, 4, 6), (2, 2, 2, 2, 3), 1, (1, 1, 1), (1, 1, 1)),
    "single elements": ((2, 3, 4, 5), (6, 3, 1, 1), 1, (1, 1), (1, 1)),
}


def by_definition(x, w, group, strides, dilations):
    """Return the convolution without borders, one result after another, in float64."""
    channels, outputs = w.shape[1], w.shape[0] // group
    spans = [(size - 1) * step + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    out = [(size - span) // step + 1 for size, span, step in zip(x.shape[2:], spans, strides, strict=True)]
    sums = np.zeros((len(x), len(w), *out))
    for image, channel, *place in np.ndindex(*sums.shape):
        first = channel // outputs * channels
        parts = zip(place, strides, spans, dilations, strict=True)
        window = (slice(at * step, at * step + span, every) for at, step, span, every in parts)
        part = x[(image, slice(first, first + channels), *window)].astype(np.float64)
        sums[(image, channel, *place)] = (part * w[channel]).sum()
    return sums


@pytest.mark.parametrize("piece", [1, 50, 400, 1 << 20])
@pytest.mark.parametrize("title", SHAPES)
def test_pieces_of_any_size_make_the_same(title, piece, monkeypatch):
    monkeypatch.setattr(convolution, "PIECE", piece)
    shape, kernels, group, strides, dilations = SHAPES[title]
    x, w = RNG.integers(-128, 128, shape, np.int8), RNG.integers(-128, 128, kernels, np.int8)
    rest = {"dilations": dilations, "group": group, "pads": (0,) * 2 * len(strides), "strides": strides}
    wanted = by_definition(x, w, group, strides, dilations)
    integer = conv_integer(x, w, **rest)
    assert integer.dtype == np.int32
    np.testing.assert_array_equal(integer, wanted)
    real = conv(x.astype(np.float32), w.astype(np.float32), **rest)
    assert real.dtype == np.float32
    np.testing.assert_array_equal(real, wanted)  # sums below 2**24 are exact


@pytest.mark.parametrize(("piece", "most"), [(1, 1), (2 * 4 * 27, 2), (100 * 4 * 27, 48)])
def test_no_more_windows_are_copied_at_a_time_than_a_piece_holds(piece, most, monkeypatch):
    monkeypatch.setattr(convolution, "PIECE", piece)
    sizes = []

    def multiply(kernels: np.ndarray, columns: np.ndarray) -> np.ndarray:
        sizes.append(columns.shape[-1])
        return np.matmul(kernels, columns)

    x, w = np.ones((1, 3, 6, 50), np.float32), np.ones((2, 3, 3, 3), np.float32)
    sums = convolution._by_groups(x, w, (1, 1), 1, (1, 1), multiply)
    assert max(sizes) == most * 4
    assert sum(sizes) == 4 * 48
    np.testing.assert_array_equal(sums, 27)


@pytest.mark.parametrize(
    ("piece", "most"), [(100, 1), (288, 1), (2 * 288, 2), (3 * 288 - 1, 2), (3 * 288, 3)]
)
def test_groups_are_copied_together_where_a_piece_holds_them(piece, most, monkeypatch):
    monkeypatch.setattr(convolution, "PIECE", piece)
    shapes = []

    def multiply(kernels: np.ndarray, columns: np.ndarray) -> np.ndarray:
        shapes.append(columns.shape)
        return np.matmul(kernels, columns)

    x, w = np.ones((1, 4, 6, 10), np.float32), np.ones((4, 1, 3, 3), np.float32)  # windows of 9 x 4 x 8
    convolution._by_groups(x, w, (1, 1), 4, (1, 1), multiply)
    assert max(groups for groups, *_ in shapes) == most
    assert sum(groups * size * places for groups, size, places in shapes) == 4 * 288


@pytest.mark.parametrize("piece", [2 * 16 * 9 * 32 * 32, convolution.PIECE])
def test_the_windows_of_small_images_are_copied_at_once(piece, monkeypatch):
    monkeypatch.setattr(convolution, "PIECE", piece)
    shapes = []

    def multiply(kernels: np.ndarray, columns: np.ndarray) -> np.ndarray:
        shapes.append(columns.shape)
        return np.matmul(kernels, columns)

    x, w = np.ones((2, 16, 34, 34), np.float32), np.ones((2, 16, 3, 3), np.float32)
    convolution._by_groups(x, w, (1, 1), 1, (1, 1), multiply)
    assert shapes == [(2, 1, 16 * 9, 32 * 32)]


SPREAD = {  # of the image, of the weights, groups, strides, dilations, output padding, cut off
    "an image": ((2, 3, 4, 5), (3, 4, 3, 2), 1, (2, 1), (1, 2), (1, 0), (1, 0, 2, 1)),
    "groups of channels": ((1, 4, 2, 3), (4, 3, 2, 3), 2, (3, 2), (2, 1), (0, 1), (0, 1, 0, 0)),
    "each channel for itself": ((2, 3, 3, 2), (3, 1, 2, 2), 3, (1, 2), (1, 1), (0, 0), (0, 0, 1, 0)),
    "a line": ((2, 2, 6), (2, 3, 4), 1, (3,), (2,), (2,), (1, 3)),
}


def spread_by_definition(x, w, group, strides, dilations, more, pads):
    """Return the transposed convolution, one product after another."""
    inputs, outputs, rank = x.shape[1] // group, w.shape[1], len(strides)
    sizes = [
        (size - 1) * step + (kernel - 1) * every + 1 + behind
        for size, step, kernel, every, behind in zip(
            x.shape[2:], strides, w.shape[2:], dilations, more, strict=True
        )
    ]
    sums = np.zeros((len(x), outputs * group, *sizes))
    for image, channel, *place in np.ndindex(*x.shape):
        for output, *offset in np.ndindex(*w.shape[1:]):
            at = [
                where * step + tap * every
                for where, step, tap, every in zip(place, strides, offset, dilations, strict=True)
            ]
            product = x[(image, channel, *place)] * w[(channel, output, *offset)]
            sums[(image, channel // inputs * outputs + output, *at)] += product
    cut = (slice(pads[axis], sizes[axis] - pads[rank + axis]) for axis in range(rank))
    return sums[(slice(None), slice(None), *cut)]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("title", SPREAD)
def test_a_transposed_convolution_spreads_each_element_over_its_window(title, has_bias):
    shape, kernels, group, strides, dilations, more, pads = SPREAD[title]
    x, w = (RNG.integers(-9, 10, extents).astype(np.float32) for extents in (shape, kernels))
    bias = RNG.integers(1, 9, kernels[1] * group).astype(np.float32) if has_bias else None
    rest = {"dilations": dilations, "group": group, "output_padding": more, "pads": pads, "strides": strides}
    wanted = spread_by_definition(x, w, group, strides, dilations, more, pads)
    if has_bias:
        wanted = wanted + bias.reshape(1, -1, *[1] * len(strides))
    result = conv_transpose(x, w, bias, **rest)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("title", SHAPES)
def test_borders_are_zeros_and_a_bias_is_added_to_its_channel(title):
    shape, kernels, group, strides, dilations = SHAPES[title]
    x, w = (RNG.integers(-9, 10, extents).astype(np.float32) for extents in (shape, kernels))
    bias, rank = RNG.integers(1, 9, kernels[0]).astype(np.float32), len(strides)
    pads = tuple(range(1, 2 * rank + 1))
    wide = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    wanted = by_definition(wide, w, group, strides, dilations) + bias.reshape(1, -1, *[1] * rank)
    rest = {"dilations": dilations, "group": group, "pads": pads, "strides": strides}
    np.testing.assert_array_equal(conv(x, w, bias, **rest), wanted)


@pytest.mark.parametrize("zeros", [np.int8(3), np.int8([3]), np.int8([1, -2, 3, 4])])
def test_a_convolution_of_integers_pads_with_the_zero_point(zeros):
    x, w = RNG.integers(0, 256, (2, 3, 5, 4), np.uint8), RNG.integers(-128, 128, (4, 3, 2, 3), np.int8)
    left = np.pad(x.astype(int) - 7, [(0, 0), (0, 0), (1, 0), (2, 3)])
    right = w.astype(int) - np.broadcast_to(zeros, 4).astype(int)[:, None, None, None]
    wanted = by_definition(left, right, 1, (1, 2), (1, 1))
    rest = {"dilations": (1, 1), "group": 1, "pads": (1, 2, 0, 3), "strides": (1, 2)}
    result = conv_integer(x, w, np.uint8(7), np.asarray(zeros), **rest)
    np.testing.assert_array_equal(result, wanted.astype(np.int32), strict=True)


def test_channels_that_are_not_those_of_the_groups_are_refused():
    with pytest.raises(ValueError, match=r"^3 channels are not 2 groups of 2$"):
        conv(
            np.ones((1, 3, 4), np.float32),
            np.ones((2, 2, 1), np.float32),
            dilations=(1,),
            group=2,
            pads=(0, 0),
            strides=(1,),
        )
