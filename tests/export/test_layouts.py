"""Tensors that C packs have the bytes of `Layout.pack`, and come back."""

import numpy as np
import pytest

from tests.export.programs import outcome
from vdla.export.c_text import sizes
from vdla.export.network import layout_values, window_values
from vdla.runtime.layout import Layout
from vdla.runtime.windows import Windows

LAYOUTS = {
    "image": Layout((2, 5, 3, 4), 4, 1),
    "image of whole blocks": Layout((1, 8, 3, 3), 8, 1),
    "images in batches": Layout((3, 5, 2, 3), 4, 2),
    "image of one channel": Layout((1, 1, 4, 4), 16, 1),
    "vector": Layout((7,), 4, 1),
    "matrix": Layout((3, 6), 4, 1),
    "matrix in batches": Layout((5, 6), 4, 4),
    "rows of five dimensions": Layout((2, 3, 1, 2, 5), 4, 8),
    "stack": Layout((2, 3, 4, 5), 4, 1, stack=6),
    "stack in turn": Layout((1, 3, 2, 5), 4, 1, stack=2, interleaved=True),
    "stack of one": Layout((4, 5), 8, 1, stack=1),
}
WINDOWS = {
    "lines": Layout((2, 3, 6, 7), 16, 1, Windows(7, 1, 1, 3, 4, 6, (1, 1), pitch=40)),
    "lines of two rows": Layout((1, 2, 6, 5), 8, 1, Windows(3, 2, 2, 4, 5, 4, (0, 1), pitch=32, border=-7)),
    "lines with gaps in columns": Layout((1, 1, 5, 5), 4, 1, Windows(5, 1, 1, 2, 4, 2, (0, 0), pitch=16)),
    "single windows": Layout((1, 1, 7, 9), 8, 1, Windows(5, 2, 2, 2, 5, 2, (1, 0), border=5)),
    "windows of several elements": Layout((2, 1, 7, 9), 4, 1, Windows(3, 3, 2, 3, 4, 3, (0, 1), elements=3)),
    "windows in batches": Layout((3, 2, 6, 6), 4, 2, Windows(4, 2, 1, 4, 3, 4, (1, 1), elements=2, border=9)),
}


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    """Return int8[shape] of which neighbours differ, none 0."""
    return (np.arange(np.prod(shape)) % 127 + 1).astype(np.int8).reshape(shape)


def case(layout: Layout) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], str]:
    """Return inputs, results and statements of a layout."""
    given = {"tensor": numbered(layout.shape)}
    packed = np.full(layout.size, 99, np.int8)
    if layout.windows is not None:
        values = sizes(window_values(layout, layout.windows))
        text = f"    static const struct vdla_windows windows = {values};\n\n"
        return given, {"packed": packed}, f"{text}    vdla_pack_windows(packed, tensor, &windows);"
    text = f"    static const struct vdla_layout layout = {sizes(layout_values(layout))};\n\n"
    text += "    vdla_pack(packed, tensor, &layout);\n    vdla_unpack(back, packed, &layout);"
    return given, {"packed": packed, "back": given["tensor"]}, text


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    """Return what C makes of each layout."""
    layouts = LAYOUTS | WINDOWS
    folder = tmp_path_factory.mktemp("c")
    cases = [case(layout) for layout in layouts.values()]
    return dict(zip(layouts, outcome(folder, cases, "vdla_layout"), strict=True))


@pytest.mark.parametrize("title", LAYOUTS | WINDOWS)
def test_a_tensor_is_packed_as_the_kit_packs_it(results, title):
    layout = (LAYOUTS | WINDOWS)[title]
    expected = layout.pack(numbered(layout.shape)).reshape(-1)
    np.testing.assert_array_equal(results[title]["packed"], expected)


@pytest.mark.parametrize("title", LAYOUTS)
def test_a_tensor_comes_back(results, title):
    np.testing.assert_array_equal(results[title]["back"], numbered(LAYOUTS[title].shape))
