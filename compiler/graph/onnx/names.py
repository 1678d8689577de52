"""Conversion of a model's names to printable names of a graph."""

from collections.abc import Iterable

from onnx import NodeProto

LONGEST_NAME = 1000


def without_trailing_names(node: NodeProto) -> NodeProto:
    """Return a node without trailing empty inputs and outputs."""
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.input[len(trimmed(node.input)) :]
    del copy.output[len(trimmed(node.output)) :]
    return copy


def trimmed(names: Iterable[str]) -> list[str]:
    """Return names without trailing empty names."""
    names = list(names)
    while names and not names[-1]:
        names.pop()
    return names


def printable(name: str) -> str:
    """Return a name truncated to `LONGEST_NAME`, with "_" for characters that cannot be printed."""
    return "".join(letter if letter.isprintable() else "_" for letter in name[:LONGEST_NAME])
