"""Where the elements of a tensor stand: as layouts pack them, and what fills up a batch."""

import numpy as np
import pytest

from vdla.prove.launches import positions_of
from vdla.runtime.layout import Layout
from vdla.runtime.windows import Windows

LAYOUTS = {
    "image": Layout((1, 5, 3, 4), 4, 1),
    "images": Layout((3, 5, 3, 4), 4, 2),
    "rows": Layout((5, 6), 4, 2),
    "rows of many ranks": Layout((2, 3, 6), 4, 4),
    "stack": Layout((2, 3, 6), 4, 1, stack=2),
    "lines": Layout((1, 3, 4, 4), 16, 1, Windows(6, 1, 1, 3, 4, 3, (1, 0), pitch=32, border=5)),
    "windows": Layout((1, 3, 5, 5), 4, 1, Windows(3, 3, 2, 10, 3, 4, (1, 1), elements=2, border=-7)),
    "windows of images": Layout((3, 1, 5, 5), 4, 2, Windows(3, 2, 2, 2, 3, 3, (1, 1), border=-7)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_elements_stand_where_the_layout_packs_them(name):
    layout = LAYOUTS[name]
    values = np.random.default_rng(1).integers(-128, 128, layout.shape, np.int8)
    positions = positions_of(layout)
    packed = positions.padding.copy()
    packed[positions.bytes] = values.reshape(-1)[positions.numbers]
    assert packed.tolist() == layout.pack(values).reshape(-1).tolist()
    assert positions.size == layout.size


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_fills_up_a_batch_is_what_another_batch_would_hold(name):
    layout = LAYOUTS[name]
    full = {
        "images": (4, 5, 3, 4),
        "rows": (6, 6),
        "rows of many ranks": (2, 4, 6),
        "windows of images": (4, 1, 5, 5),
    }.get(name, layout.shape)
    held = positions_of(Layout(full, layout.block, layout.batch, layout.windows, layout.stack))
    added = np.setdiff1d(held.bytes, positions_of(layout).bytes)
    beyond = positions_of(layout).beyond
    assert np.isin(added, beyond).all()
    assert not np.isin(positions_of(layout).bytes, beyond).any()
    assert bool(beyond.size) == (full != layout.shape)
