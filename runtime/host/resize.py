"""Resizing to the nearest element.

Source: ONNX operator specification, Resize, with mode "nearest".
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

Coordinates = Literal[
    "align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"
]
Rounding = Literal["ceil", "floor", "round_prefer_ceil", "round_prefer_floor"]

# Where the centre of an element of the result lies in the input: by the result's index, both sizes, and the
# scale.
COORDINATES: dict[Coordinates, Callable[[np.ndarray, int, int, float], np.ndarray]] = {
    "align_corners": lambda index, size, out, scale: index * ((size - 1) / max(out - 1, 1)),
    "asymmetric": lambda index, size, out, scale: index / scale,
    "half_pixel": lambda index, size, out, scale: (index + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda index, size, out, scale: (
        size / 2 * (1 - out / (scale * size)) + (index + 0.5) / scale - 0.5
    ),
    "pytorch_half_pixel": lambda index, size, out, scale: (
        (index + 0.5) / scale - 0.5 if out > 1 else np.zeros_like(index)
    ),
}
ROUNDINGS: dict[Rounding, Callable[[np.ndarray], np.ndarray]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda place: np.floor(place + 0.5),
    "round_prefer_floor": lambda place: np.ceil(place - 0.5),
}


def resize(
    x: np.ndarray,
    *,
    coordinate_transformation_mode: Coordinates,
    nearest_mode: Rounding,
    scales: Sequence[float],
    sizes: Sequence[int],
) -> np.ndarray:
    """Return x in the shape `sizes`, each element the nearest of x.

    Args:
        coordinate_transformation_mode: one of `COORDINATES`.
        nearest_mode: one of `ROUNDINGS`.
        scales: size of the result by the size of x, in each dimension; they count where sizes are rounded.
    """
    for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        if size != x.shape[axis] or scale != 1:
            x = np.take(
                x,
                _places(x.shape[axis], size, scale, coordinate_transformation_mode, nearest_mode),
                axis=axis,
            )
    return x


def _places(size: int, out: int, scale: float, coordinates: Coordinates, rounding: Rounding) -> np.ndarray:
    """Return the index of the nearest element for each of `out` places."""
    centres = COORDINATES[coordinates](np.arange(out, dtype=np.float64), size, out, scale)
    return np.clip(ROUNDINGS[rounding](centres), 0, size - 1).astype(np.int64)


OPERATORS = {"Resize": resize}
