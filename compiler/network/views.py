"""Views: operators that change a tensor's shape, but no byte of it in the accelerator's DRAM."""

from typing import NamedTuple

from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.rules import Rule
from vdla.runtime.layout import IMAGE_RANK

VIEWS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")


class Viewed(NamedTuple):
    """An operator of `VIEWS` in its graph.

    Attributes:
        inside: the accelerator makes its input.
    """

    graph: Graph
    node: Node
    inside: bool

    @property
    def types(self) -> tuple[TensorType, TensorType]:
        """What is changed, and into what."""
        return self.graph.types[self.node.inputs[0]], self.graph.types[self.node.outputs[0]]


def _bytes(at: Viewed) -> str:
    return "" if at.types[0].dtype == "int8" else f"input {at.node.inputs[0]} of {at.types[0].dtype}"


def _moved(at: Viewed) -> str:
    return "" if same_bytes(*at.types) else f"a change of {at.types[0]} to {at.types[1]}"


def _outside(at: Viewed) -> str:
    return "" if at.inside else f"input {at.node.inputs[0]} on the host"


VIEW_RULES: tuple[Rule[Viewed], ...] = (
    Rule("int8 tensors", _bytes),
    Rule("as many rows of as many channels before and after; an image is one row if it is one pixel", _moved),
    Rule("an input that the accelerator makes", _outside),
)


def same_bytes(one: TensorType, other: TensorType) -> bool:
    """Whether two shapes of an int8 tensor stand alike in the accelerator's DRAM: as many rows of as many
    channels, where one pixel of one image is a row."""
    return one.dtype == other.dtype == "int8" and _rows(one) == _rows(other) is not None


def _rows(type_: TensorType) -> tuple[int, int] | None:
    """Return the rows and channels of a tensor; None for images of more than one pixel, or several."""
    if len(type_.shape) == IMAGE_RANK:
        n, channels, *pixel = type_.shape
        return (1, channels) if n == 1 and pixel == [1, 1] else None
    return (type_.size // type_.shape[-1], type_.shape[-1]) if type_.shape else None
