"""Elements of another type than an input takes, where that type holds them."""

import numpy as np

from vdla.runtime.samples import InputError

NUMBERS = "biuf"


def of_type(array: np.ndarray, dtype: str, who: str) -> np.ndarray:
    """Return an array with elements of a type. Real numbers are rounded to numbers of a narrower type;
    integers must be held exactly.

    Args:
        dtype: as NumPy calls it; a type that NumPy does not have is left to whoever reads the array.
        who: the input, as messages call it.

    Raises:
        InputError: the type does not hold an element.
    """
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        return array
    if array.dtype == wanted:
        return array
    if array.dtype.kind not in NUMBERS or wanted.kind not in NUMBERS:
        raise InputError(f"{who} is of {array.dtype}, not {dtype}")
    with np.errstate(all="ignore"):  # what is lost is told below
        converted = array.astype(wanted)
        held = _are_held(array, converted)
    if not held.all():
        lost = array.reshape(-1)[int(np.argmin(held.reshape(-1)))]
        raise InputError(
            f"{who} is of {array.dtype} and holds {lost}, which {dtype} does not; convert it before"
        )
    return converted


def _are_held(array: np.ndarray, converted: np.ndarray) -> np.ndarray:
    """Return which elements are the same in another type, bool of the array's shape."""
    if array.dtype.kind == converted.dtype.kind == "f":
        held: np.ndarray = np.isfinite(converted) | ~np.isfinite(array)
    else:
        held = (converted.astype(array.dtype) == array) & ((converted < 0) == (array < 0))
    return held
