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
    Rule("one row, or one pixel of one image, of the same channels before and after", _moved),
    Rule("an input that the accelerator makes", _outside),
)


def same_bytes(one: TensorType, other: TensorType) -> bool:
    """Whether two shapes of an int8 tensor stand alike in the accelerator's DRAM: one pixel, or one row, of
    the same channels."""
    return one.dtype == other.dtype == "int8" and _single_row(one) == _single_row(other) is not None


def _single_row(type_: TensorType) -> int | None:
    """Return the channels of a tensor of one pixel an image, or one row; None where there are more."""
    if len(type_.shape) == IMAGE_RANK:
        n, channels, *pixel = type_.shape
        return channels if n == 1 and pixel == [1, 1] else None
    return type_.shape[-1] if type_.shape and type_.size == type_.shape[-1] else None
