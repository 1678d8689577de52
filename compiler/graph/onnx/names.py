"""Names of a model as names of a graph, which are Python identifiers."""

import keyword
import re
from collections.abc import Iterable

from onnx import NodeProto

LONGEST_NAME = 1000


def without_ends(node: NodeProto) -> NodeProto:
    """Return a node without the inputs and outputs that are left out at the end."""
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.input[len(trimmed(node.input)) :]
    del copy.output[len(trimmed(node.output)) :]
    return copy


def trimmed(names: Iterable[str]) -> list[str]:
    """Return names without the empty ones at the end."""
    names = list(names)
    while names and not names[-1]:
        names.pop()
    return names


def identifier(name: str) -> str:
    """Return a Python identifier that looks like `name`, or like the begin of a long one."""
    plain = re.sub(r"\W", "_", name[:LONGEST_NAME], flags=re.ASCII)
    plain = plain if plain[:1].isalpha() or (plain.strip("_") and not plain[0].isdigit()) else f"v{plain}"
    return f"{plain}_" if keyword.iskeyword(plain) else plain
