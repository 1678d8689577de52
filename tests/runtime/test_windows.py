"""Packed pixels: their rows stand as bytes behind each other, and pieces name every window once, in order."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.runtime.layout import Layout, SpaceToDepth
from vdla.runtime.windows import Windows

SIDES = st.integers(1, 5)


@settings(deadline=None)
@given(
    SIDES, SIDES, SIDES, SIDES, st.integers(0, 3), st.integers(0, 3), st.integers(-4, 3), st.integers(1, 40)
)
def test_rows_hold_pixels_with_their_channels_last_and_the_border(n, c, h, w, top, left, below, pitch):
    below = max(below, 1 - h)
    image = (np.arange(n * c * h * w) % 127 + 1).astype(np.int8).reshape(n, c, h, w)
    windows = Windows(1, 1, pitch, (top, left, below), -7)
    packed = windows.pack(image)
    assert (packed.shape, packed.dtype, packed.flags.c_contiguous) == (
        (n, h + top + below, pitch),
        np.int8,
        True,
    )
    for number, y, byte in np.ndindex(packed.shape):
        x, channel = divmod(byte, c)
        row, column = y - top, x - left
        inside = 0 <= row < h and 0 <= column < w
        assert packed[number, y, byte] == (image[number, channel, row, column] if inside else -7)


@settings(deadline=None)
@given(
    st.integers(1, 9),
    st.integers(0, 40),
    st.integers(1, 4),
    st.integers(1, 30),
    st.integers(0, 30),
    st.integers(1, 7),
)
def test_pieces_load_every_window_of_every_row_in_order(columns, element, height, width, stride, step):
    windows = Windows(columns, step, columns * step + 5, (0, 0, 0))
    expected = [element + row * stride + column for row in range(height) for column in range(width)]
    found = {}
    for part in windows.pieces(element, height, width, stride):
        assert part.stride or part.height == 1 or part.height * part.width <= 1 or stride == 0
        for row in range(part.height):
            for column in range(part.width):
                place = part.place + row * part.width + column
                assert place not in found
                found[place] = part.begin + row * part.stride + column * step
    places = [window // columns * windows.pitch + window % columns * step for window in expected]
    assert [found[place] for place in range(len(found))] == places


def test_a_piece_of_one_row_has_no_stride():
    assert [part.stride for part in Windows(1, 3, 64, (0, 0, 0)).pieces(5, 1, 1, 7)] == [0]


@pytest.mark.parametrize(
    ("rows", "pieces"),
    [((7, 3, 2, 10), 1), ((5, 1, 20, 0), 1), ((3, 1, 5, 0), 2), ((0, 2, 5, 7), 3), ((0, 4, 5, 10), 1)],
)
def test_what_one_gather_can_load_is_one_piece(rows, pieces):
    assert len(list(Windows(5, 3, 64, (0, 0, 0)).pieces(*rows))) == pieces


def test_a_layout_of_windows_has_the_size_of_its_rows_and_reads_back_equal():
    layout = Layout((2, 3, 8, 8), 16, 1, None, Windows(4, 6, 48, (1, 1, 0), 5))
    assert (layout.image, layout.size) == ((2, 16, 9, 4), 2 * 9 * 48)
    assert layout.pack(np.ones((2, 3, 8, 8), np.int8)).nbytes == layout.size
    assert msgspec.json.decode(msgspec.json.encode(layout), type=Layout) == layout


def test_a_border_that_is_not_given_is_zero():
    image = np.full((1, 1, 2, 2), 9, np.int8)
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    assert Windows(1, 1, 4, (1, 1, 1)).pack(image).tolist() == padded[0].tolist()
    assert SpaceToDepth((1, 1), (1, 1, 1, 1)).apply(image).tolist() == padded.tolist()
