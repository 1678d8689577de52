"""Operators that give the elements of a tensor other places, and leave each as it is."""

RESHAPING = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that change the shape of their first input, and not the order of its elements."""

REARRANGING = (*RESHAPING, "Transpose")
"""Operators whose result has every element of their first input once."""
