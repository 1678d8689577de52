"""Names of the fields of arrays, as Yosys needs them.

Yosys calls bit 3 of a signal `a[1]` the same as element 3 of row 1 of an array `a`: `a[1][3]`. abc9 joins
what it has mapped by such names. Where both stand in a design, it joins signals of different widths and stops
with a failed assertion. The names that Yosys gets therefore have other brackets, of which it makes none. They
sort as before, so Yosys chooses among equal signals as before.
"""

import re

_FIELD = re.compile(r"(?<=\\)[^\s\[\]]+(?:\[\d+\])+(?=\s)")
_INDEX = re.compile(r"\[(\d+)\]")
_MARKED = re.compile(r"<(\d+)>")


def with_marked_indices(verilog: str) -> str:
    """Return Verilog in which the fields of arrays have names with marks: `a<1><3>` in place of `a[1][3]`."""
    return _FIELD.sub(lambda field: _INDEX.sub(r"<\1>", field.group()), verilog)


def with_plain_indices(text: str) -> str:
    """Return names with the brackets that they had before `with_marked_indices`, wherever they stand."""
    return _MARKED.sub(r"[\1]", text)
