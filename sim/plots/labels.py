"""Places for short labels in a crowded plot: near their points, clear of each other, of every point and of a
line.

Lengths are in points (1/72 inch), as font sizes are, so that a picture is the same at every resolution.
"""

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

FONT_SIZE = 8
CHARACTER = (0.68 * FONT_SIZE, 1.05 * FONT_SIZE)  # width and height of a digit, with a little air
MARKER = 6.0
LINE = 2.0
NEAREST, STEP = 8.5, 4.0
DIRECTIONS = 16


def place_labels(
    texts: Sequence[str], places: np.ndarray, points: np.ndarray, line: np.ndarray
) -> list[np.ndarray]:
    """Return where the middle of each text stands, from its place.

    Args:
        places: float64[texts, 2], what each text is the label of.
        points: float64[n, 2], all points of the plot.
        line: float64[m, 2], close places along a line that must stay legible.
    """
    taken = [*_boxes(points, (MARKER, MARKER)), *_boxes(line, (LINE, LINE))]
    offsets = []
    for text, place in zip(texts, places, strict=True):
        size = np.array([len(text) * CHARACTER[0], CHARACTER[1]])
        offset = next(way for way in _ways() if _is_clear(place + way, size, np.array(taken)))
        taken.append(np.concatenate([place + offset, size]))
        offsets.append(offset)
    return offsets


def _boxes(middles: np.ndarray, size: tuple[float, float]) -> np.ndarray:
    """Return float64[n, 4]: middle and size of a box around each place."""
    return np.hstack([middles, np.tile(size, (len(middles), 1))])


def _ways() -> Iterator[np.ndarray]:
    """Yield offsets, the nearest first, and of those downwards first."""
    angles = -np.pi / 2 + np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
    for ring in count():
        yield from (NEAREST + ring * STEP) * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _is_clear(middle: np.ndarray, size: np.ndarray, taken: np.ndarray) -> bool:
    gaps = np.abs(taken[:, :2] - middle) - (taken[:, 2:] + size) / 2
    return bool((gaps.max(axis=1) >= 0).all())
