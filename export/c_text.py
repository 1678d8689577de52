"""C text: identifiers, types, initialisers."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from vdla.hw.spec.errors import VdlaError

WIDTH = 110
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "bool": "uint8_t",
}
"""Types of elements in C, by their NumPy names."""

KEYWORDS = frozenset(
    (
        *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum"),
        *("extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return"),
        *("short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void"),
        *("volatile", "while"),
    )
)
UNSAFE_IN_COMMENTS = re.compile(r"[^A-Za-z0-9 _.,:;()<>=+\[\]-]")
LEAST_INT64 = -(1 << 63)


class ExportError(VdlaError):
    """A module that cannot be written as C, or a name that C does not take."""


def c_type(dtype: str, subject: str) -> str:
    """Return the C type of an element type; `subject` is the value that has it.

    Raises:
        ExportError: C has none.
    """
    if dtype not in C_TYPES:
        raise ExportError(
            f"{subject} holds {dtype}, which has no type in C99; there are {', '.join(C_TYPES)}; "
            "convert it in the network"
        )
    return C_TYPES[dtype]


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return a C identifier for each name; they differ in more than case."""
    taken: dict[str, str] = {}
    lowered: set[str] = set()
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        base = f"x{base}" if base[0].isdigit() or base[0] == "_" else base
        base = f"{base}_" if base in KEYWORDS else base
        number, identifier = 1, base
        while identifier.lower() in lowered:
            number += 1
            identifier = f"{base}_{number}"
        lowered.add(identifier.lower())
        taken[name] = identifier
    return taken


def comment(text: str) -> str:
    """Return a comment on one line, with `_` for characters that could end it."""
    return f"/* {UNSAFE_IN_COMMENTS.sub('_', text)} */"


def number(value: np.generic) -> str:
    """Return a literal of the type of a NumPy scalar; floats are exact."""
    if isinstance(value, np.floating):
        return _float(value)
    whole = int(value.item())
    if whole == LEAST_INT64:
        return "INT64_MIN"
    if isinstance(value, np.uint64):
        return f"UINT64_C({whole:#x})"
    return f"INT64_C({whole})" if isinstance(value, np.int64) else str(whole)


def _float(value: np.floating) -> str:
    sign = "-" if np.signbit(value) else ""
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return f"{sign}INFINITY"
    return float(value).hex() + ("f" if isinstance(value, np.float32) else "")


def sizes(values: Sequence[int]) -> str:
    """Return an initialiser of integers."""
    return f"{{{', '.join(map(str, values))}}}"


def array(declaration: str, values: np.ndarray) -> str:
    """Return the definition of an array, whose declaration has no extent yet."""
    literals = [number(value) for value in np.ascontiguousarray(values).reshape(-1)]
    return f"{declaration}[{len(literals)}] = {{\n{lines(literals)}}};\n"


def words(declaration: str, values: np.ndarray) -> str:
    """Return the definition of an array of uint64_t, whose declaration has no extent yet."""
    return f"{declaration}[{values.size}] = {{\n{lines([f'0x{word:x}u' for word in values.tolist()])}}};\n"


def lines(literals: Sequence[str]) -> str:
    """Return literals, separated by commas, on lines of a readable length."""
    each = max(1, WIDTH // (max(map(len, literals), default=1) + 2))
    rows = (literals[first : first + each] for first in range(0, len(literals), each))
    return "".join(f"    {', '.join(row)},\n" for row in rows)
