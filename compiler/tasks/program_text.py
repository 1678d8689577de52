"""Text of loop programs that are written directly, not lowered from a schedule."""

from collections.abc import Iterable, Mapping
from textwrap import indent

STEP = "    "


def nest(loops: Mapping[str, int], body: str, *, threads: str = "") -> str:
    """Return a nest of loops (extents by name, outermost first) around statements. The loop called `threads`
    becomes virtual threads."""
    for name, extent in reversed(tuple(loops.items())):
        kind = "vthread" if name == threads else "range"
        body = f"for {name} in {kind}({extent}):\n{indent(body, STEP)}"
    return body


def function(params: Mapping[str, str], statements: Iterable[str]) -> str:
    """Return the text of a program `main` with parameters `params` (types by name)."""
    listed = ", ".join(f"{name}: {kind}" for name, kind in params.items())
    return f"def main({listed}):\n{indent(joined(statements), STEP)}"


def joined(statements: Iterable[str]) -> str:
    """Return the statements as a text with a line break after each."""
    return "".join(f"{statement.rstrip()}\n" for statement in statements)
