"""Names of a model as names of a graph, which can be printed."""

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


def printable(name: str) -> str:
    """Return a name as it is; "_" for characters that cannot be printed, and no more than the begin of a long
    one."""
    return "".join(letter if letter.isprintable() else "_" for letter in name[:LONGEST_NAME])
