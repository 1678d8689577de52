"""A digit and its scores as text for a terminal."""

import numpy as np

SHADES = " .:-=+*#%@"
BAR = 30  # characters of the longest


def drawn(image: np.ndarray) -> list[str]:
    """Return [h, w], 0 for paper to 1 for ink, as lines of text; a pixel is two characters wide."""
    return ["".join(2 * SHADES[round(float(ink) * (len(SHADES) - 1))] for ink in row) for row in image]


def bars(scores: np.ndarray) -> list[str]:
    """Return [n] scores as a line each; the greatest has the longest bar and is marked, negative scores have
    no bar."""
    greatest = max(float(scores.max()), np.finfo(np.float32).tiny)
    lines = [
        f"{digit} {score:8.2f} {'#' * round(BAR * max(float(score), 0) / greatest)}"
        for digit, score in enumerate(scores)
    ]
    lines[scores.argmax()] += " <"
    return lines


def beside(left: list[str], right: list[str]) -> list[str]:
    """Return two blocks of text side by side; the left, which has no more lines, stands in the middle."""
    width, missing = max(map(len, left)), len(right) - len(left)
    whole = [*[""] * (missing // 2), *left, *[""] * (missing - missing // 2)]
    return [f"|{first:{width}}|   {second}".rstrip() for first, second in zip(whole, right, strict=True)]
