"""Numbers as pages hold them."""

import math

DIGITS = 5  # of a number that is no integer: more than a page shows


def short(value: object) -> object:
    """Return a value for JSON: floats rounded, whole floats as integers, None for what is not finite."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else float(f"{value:.{DIGITS}g}")
