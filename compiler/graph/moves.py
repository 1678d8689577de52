"""Operators that move the elements of a tensor without changing their values."""

RESHAPING = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that change the shape of their first input, but not the order of its elements."""

REARRANGING = (*RESHAPING, "Transpose")
"""Operators whose result is a permutation of the elements of their first input."""

PICKING = ("Gather", "Slice")
"""Operators whose result consists of elements of their first input."""
