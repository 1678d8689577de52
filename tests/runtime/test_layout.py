"""The blocked layout: what is packed comes back, and stands where it should."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.runtime.layout import Layout, blocked, unblocked
from vdla.runtime.windows import Windows

POWERS = st.sampled_from((1, 2, 4, 8))
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=5).map(tuple)


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    """Return int8[shape] of which neighbours differ, none 0."""
    return (np.arange(np.prod(shape)) % 127 + 1).astype(np.int8).reshape(shape)


@given(SHAPES, POWERS, POWERS)
def test_what_is_packed_comes_back(shape, block, batch):
    layout, values = Layout(shape, block, batch), numbered(shape)
    packed = layout.pack(values)
    assert (packed.shape, packed.nbytes, packed.dtype) == (layout.blocks, layout.size, np.int8)
    assert np.count_nonzero(packed) == values.size  # zeros fill up
    back = layout.unpack(packed.reshape(-1).view(np.uint8))
    assert (back.dtype, back.flags.c_contiguous) == (np.int8, True)
    np.testing.assert_array_equal(back, values)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), POWERS)
def test_heads_stand_one_behind_another(rows, heads, channels, block):
    values = numbered((1, rows, heads, channels))
    layout = Layout(values.shape, block, 1, stack=heads, interleaved=True)
    apart = Layout((1, heads, rows, channels), block, 1, stack=heads)
    packed = layout.pack(values)
    np.testing.assert_array_equal(packed, apart.pack(values.swapaxes(1, 2)))
    np.testing.assert_array_equal(layout.unpack(packed.reshape(-1).view(np.uint8)), values)


@given(st.tuples(*[st.integers(1, 6)] * 4), POWERS, POWERS)
def test_an_element_of_an_image_stands_in_its_block(shape, block, batch):
    values = numbered(shape)
    packed = blocked(values, block, batch)
    for n, c, y, x in np.ndindex(shape):
        assert packed[n // batch, c // block, y, x, n % batch, c % block] == values[n, c, y, x]
    np.testing.assert_array_equal(unblocked(packed, *shape[:2]), values)


@given(st.integers(1, 9), st.integers(1, 9), POWERS, POWERS)
def test_an_element_of_a_matrix_stands_in_its_rows_block(rows, columns, block, batch):
    values = numbered((rows, columns))
    packed = Layout(values.shape, block, batch).pack(values)
    assert packed.shape == (1, -(-columns // block), -(-rows // batch), 1, batch, block)
    for row, column in np.ndindex(values.shape):
        assert packed[0, column // block, row // batch, 0, row % batch, column % block] == values[row, column]


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), POWERS)
def test_a_stack_stands_matrix_behind_matrix(images, heads, rows, columns, block):
    values = numbered((images, heads, rows, columns))
    layout = Layout(values.shape, block, 1, stack=images * heads)
    packed = layout.pack(values)
    assert (packed.shape, packed.nbytes) == (layout.blocks, layout.size)
    matrices = values.reshape(-1, rows, columns)
    alone = np.concatenate([Layout(matrix.shape, block, 1).pack(matrix) for matrix in matrices])
    np.testing.assert_array_equal(packed, alone)
    np.testing.assert_array_equal(layout.unpack(packed.reshape(-1)), values)


@pytest.mark.parametrize(
    "layout",
    [Layout((2, 3), 4, 1), Layout((1, 3, 8, 8), 4, 2, Windows(4, 2, 2, 6, 4, 12, (1, 0), border=-128))],
)
def test_a_layout_reads_back_equal(layout):
    assert msgspec.json.decode(msgspec.json.encode(layout), type=Layout) == layout


LAYOUT = {"shape": [1, 2, 3, 4], "block": 4, "batch": 1}
WINDOWS = {"lines": 1, "rows": 1, "advance": 1, "column": 1, "columns": 1, "step": 1, "pads": [0, 0]}


def is_taken(values: object, kind: type) -> bool:
    try:
        msgspec.convert(values, kind)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "values", "good", "bad"),
    [
        (Layout, LAYOUT, {"shape": [1] * 16}, {"shape": [1] * 17}),
        (Layout, LAYOUT, {"shape": [(1 << 31) - 1]}, {"shape": [1 << 31]}),
        (Layout, LAYOUT, {"block": 1}, {"block": 0}),
        (Layout, LAYOUT, {"stack": 0}, {"stack": -1}),
        (Layout, LAYOUT, {"windows": None}, {"more": 1}),
        (Windows, WINDOWS, {"columns": (1 << 31) - 1}, {"columns": 1 << 31}),
        (Windows, WINDOWS, {"lines": 1}, {"lines": 0}),
        (Windows, WINDOWS, {"rows": 1}, {"rows": 0}),
        (Windows, WINDOWS, {"advance": 1}, {"advance": 0}),
        (Windows, WINDOWS, {"column": 1}, {"column": 0}),
        (Windows, WINDOWS, {"step": 1}, {"step": 0}),
        (Windows, WINDOWS, {"elements": 1}, {"elements": 0}),
        (Windows, WINDOWS, {"pitch": 0}, {"pitch": -1}),
        (Windows, WINDOWS, {"border": -128}, {"border": -129}),
        (Windows, WINDOWS, {"border": 127}, {"border": 128}),
        (Windows, WINDOWS, {"pads": [0, 0]}, {"pads": [-1, 0]}),
        (Windows, WINDOWS, {"pads": [(1 << 31) - 1, 0]}, {"pads": [1 << 31, 0]}),
        (Windows, WINDOWS, {}, {"more": 1}),
    ],
)  # fmt: skip
def test_numbers_of_a_layout_have_bounds(kind, values, good, bad):
    assert is_taken(values | good, kind)
    assert not is_taken(values | bad, kind)


@pytest.mark.parametrize(("kind", "values"), [(Layout, LAYOUT), (Windows, WINDOWS)])
def test_a_layout_stays_as_it_is(kind, values):
    layout = msgspec.convert(values, kind)
    with pytest.raises(AttributeError, match="immutable"):
        setattr(layout, next(iter(values)), 1)
