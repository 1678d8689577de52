"""Packed lines hold rows of an image side by side, windows are their bytes, and pieces name each window once."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.runtime.layout import Layout, blocked
from vdla.runtime.windows import GatheredLines, Windows

SIDES, PADS = st.integers(1, 5), st.integers(0, 3)
BORDER = -7


def numbered(n: int, c: int, h: int, w: int) -> np.ndarray:
    return (np.arange(n * c * h * w) % 127 + 1).astype(np.int8).reshape(n, c, h, w)


@given(
    st.tuples(*[SIDES] * 4),
    st.tuples(PADS, PADS),
    st.tuples(SIDES, SIDES, SIDES),
    st.integers(0, 4),
    st.integers(1, 40),
)
def test_a_line_holds_rows_side_by_side_and_the_border(shape, pads, lines, more, pitch):
    n, c, h, w = shape
    count, rows, advance = lines
    column = rows * c + more
    windows = Windows(count, rows, advance, column, 1, 1, pads, pitch=pitch, border=BORDER)
    image = numbered(*shape)
    packed = windows.packed(image, 1)
    assert (packed.shape, packed.dtype) == ((n, count, pitch), np.int8)
    for number, line, byte in np.ndindex(packed.shape):
        x, place = divmod(byte, column)
        row, channel = divmod(place, c)
        y, x = line * advance + row - pads[0], x - pads[1]
        inside = row < rows and 0 <= y < h and 0 <= x < w
        assert packed[number, line, byte] == (image[number, channel, y, x] if inside else BORDER)


@given(st.tuples(*[SIDES] * 4), SIDES, SIDES, SIDES, st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
def test_windows_are_bytes_of_lines_in_blocks_of_channels(shape, columns, step, elements, block, batch):
    windows = Windows(2, 2, 1, 2 * shape[1] + 1, columns, step, (1, 2), elements=elements, border=BORDER)
    image = numbered(*shape)
    lines, applied = windows.packed(image, block), windows.apply(image, block)
    assert applied.shape == (shape[0], elements * block, 2, columns)
    for n, byte, line, x in np.ndindex(applied.shape):
        assert applied[n, byte, line, x] == lines[n, line, x * step + byte]
    layout = Layout(shape, block, batch, windows)
    packed = layout.pack(image)
    assert (packed.shape, packed.size) == (layout.blocks, layout.size)
    np.testing.assert_array_equal(packed, blocked(applied, block, batch))


@given(st.tuples(*[SIDES] * 4), st.tuples(SIDES, SIDES, SIDES), SIDES, SIDES, SIDES, st.tuples(PADS, PADS))
def test_packing_allocates_no_more_than_the_room_says(shape, lines, columns, step, elements, pads):
    windows = Windows(*lines, lines[1] * shape[1], columns, step, pads, elements=elements)
    n, c, h, w = shape
    around = n * c * max(windows.height, pads[0] + h) * (pads[1] + w)
    assert around + windows.packed(numbered(*shape), 4).size <= windows.room(shape, 4)


def test_packed_lines_have_the_size_of_their_pitch_and_read_back_equal():
    layout = Layout((2, 3, 8, 8), 16, 1, Windows(9, 1, 1, 3, 4, 6, (1, 1), pitch=48, border=5))
    assert (layout.image, layout.size) == ((2, 16, 9, 4), 2 * 9 * 48)
    packed = layout.pack(np.ones((2, 3, 8, 8), np.int8))
    assert (packed.nbytes, packed.flags.c_contiguous) == (layout.size, True)
    assert msgspec.json.decode(msgspec.json.encode(layout), type=Layout) == layout


def test_a_border_that_is_not_given_is_zero():
    image = np.full((1, 1, 2, 2), 9, np.int8)
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    assert Windows(4, 1, 1, 1, 1, 1, (1, 1), pitch=4).packed(image, 1).tolist() == padded[0].tolist()


@given(
    st.integers(1, 9),
    st.integers(0, 40),
    st.integers(1, 4),
    st.integers(1, 30),
    st.integers(0, 30),
    st.integers(1, 7),
)
def test_pieces_load_every_window_of_every_row_in_order(columns, element, height, width, stride, step):
    lines = GatheredLines(columns, step, columns * step + 5)
    expected = [element + row * stride + column for row in range(height) for column in range(width)]
    loaded = {}
    for part in lines.pieces(element, height, width, stride):
        assert part.stride or part.height == 1 or part.height * part.width <= 1 or stride == 0
        for row in range(part.height):
            for column in range(part.width):
                place = part.place + row * part.width + column
                assert place not in loaded
                loaded[place] = part.begin + row * part.stride + column * step
    places = [window // columns * lines.pitch + window % columns * step for window in expected]
    assert [loaded[place] for place in range(len(loaded))] == places


def test_a_piece_of_one_row_has_no_stride():
    assert [part.stride for part in GatheredLines(1, 3, 64).pieces(5, 1, 1, 7)] == [0]


@pytest.mark.parametrize(
    ("rows", "pieces"),
    [((7, 3, 2, 10), 1), ((5, 1, 20, 0), 1), ((3, 1, 5, 0), 2), ((0, 2, 5, 7), 3), ((0, 4, 5, 10), 1)],
)
def test_what_one_gather_can_load_is_one_piece(rows, pieces):
    assert len(list(GatheredLines(5, 3, 64).pieces(*rows))) == pieces
