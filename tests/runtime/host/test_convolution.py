"""Convolutions as matrix products of windows, copied at once or in pieces."""

import numpy as np
import pytest

from vdla.runtime.host import convolution
from vdla.runtime.host.convolution import conv, conv_integer

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
    found = np.zeros((len(x), len(w), *out))
    for image, channel, *place in np.ndindex(*found.shape):
        first = channel // outputs * channels
        parts = zip(place, strides, spans, dilations, strict=True)
        window = (slice(at * step, at * step + span, every) for at, step, span, every in parts)
        part = x[(image, slice(first, first + channels), *window)].astype(np.float64)
        found[(image, channel, *place)] = (part * w[channel]).sum()
    return found


@pytest.mark.parametrize("piece", [1, 50, 400, 1 << 20])
@pytest.mark.parametrize("title", SHAPES)
def test_pieces_of_any_size_make_the_same(title, piece, monkeypatch):
    monkeypatch.setattr(convolution, "PIECE", piece)
    shape, kernels, group, strides, dilations = SHAPES[title]
    x, w = RNG.integers(-128, 128, shape, np.int8), RNG.integers(-128, 128, kernels, np.int8)
    rest = {"dilations": dilations, "group": group, "pads": (0,) * 2 * len(strides), "strides": strides}
    wanted = by_definition(x, w, group, strides, dilations)
    found = conv_integer(x, w, **rest)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted)
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
    found = convolution._by_groups(x, w, (1, 1), 1, (1, 1), multiply)
    assert max(sizes) == most * 4
    assert sum(sizes) == 4 * 48
    np.testing.assert_array_equal(found, 27)
