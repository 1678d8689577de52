"""Text of loop programs that are written directly, not lowered from a schedule."""

from collections.abc import Iterable, Mapping
from textwrap import indent

STEP = "    "


def nest(loops: Mapping[str, int], body: str, *, threads: str = "") -> str:
    """Return loops of these names and extents, from the outside in, around statements; the loop called
    `threads` is over virtual threads."""
    for name, extent in reversed(tuple(loops.items())):
        kind = "vthread" if name == threads else "range"
        body = f"for {name} in {kind}({extent}):\n{indent(body, STEP)}"
    return body


def function(params: Mapping[str, str], statements: Iterable[str]) -> str:
    """Return the program `main` with parameters of these types."""
    listed = ", ".join(f"{name}: {kind}" for name, kind in params.items())
    return f"def main({listed}):\n{indent(joined(statements), STEP)}"


def joined(statements: Iterable[str]) -> str:
    """Return statements one below the other."""
    return "".join(f"{statement.rstrip()}\n" for statement in statements)
