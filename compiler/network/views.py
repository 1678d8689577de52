"""Views: operators that change a tensor's shape but not its bytes in the accelerator's DRAM."""

from math import prod
from typing import NamedTuple

from msgspec import structs

from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.operands.interleaved import activation_block
from vdla.compiler.rules import Rule
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.layout import IMAGE_RANK, Layout

VIEWS = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
TO_CHANNELS_LAST, TO_CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
ROWS_AND_HEADS = (0, 2, 1, 3)


class ViewCase(NamedTuple):
    """An operator of `VIEWS` in its graph.

    Attributes:
        source: layout of its input in DRAM; None if the accelerator does not make the input.
    """

    graph: Graph
    node: Node
    config: AcceleratorConfig
    source: Layout | None

    @property
    def types(self) -> tuple[TensorType, TensorType]:
        """Types of input and result."""
        return self.graph.types[self.node.inputs[0]], self.graph.types[self.node.result]

    @property
    def layout(self) -> Layout | None:
        """Layout of the result in DRAM; None if bytes move."""
        before, after = self.types
        usual = Layout(before.shape, activation_block(self.config), self.config.batch)
        return viewed(self.source or usual, self.node, after.shape)


def _bytes(at: ViewCase) -> str:
    return "" if at.types[0].dtype == "int8" else f"input {at.node.inputs[0]} of {at.types[0].dtype}"


def _moved(at: ViewCase) -> str:
    return "" if at.layout is not None else f"a change of {at.types[0]} to {at.types[1]}"


def _outside(at: ViewCase) -> str:
    return "" if at.source is not None else f"input {at.node.inputs[0]} on the host"


VIEW_RULES: tuple[Rule[ViewCase], ...] = (
    Rule("int8 tensors", _bytes),
    Rule(
        "the same number of rows or pixels, and of channels, before and after (an image of one pixel is a "
        "row; Transpose between channels first and channels last converts images and rows; heads of whole "
        "blocks of channels may be divided and joined)",
        _moved,
    ),
    Rule("an input that an operator on the accelerator computes", _outside),
)


def viewed(layout: Layout, node: Node, shape: tuple[int, ...]) -> Layout | None:
    """Return the layout in DRAM of the result of an operator of `VIEWS`; None if bytes move.

    Args:
        layout: layout of the input.
        shape: shape of the result.
    """
    if node.op == "Transpose":
        return _turned(layout, node, shape)
    if _same_pixels(layout, shape):
        return structs.replace(layout, shape=shape)
    heads = _heads(layout, shape)
    if heads is not None:
        return heads
    rows = _rows(layout)
    if rows is None or not shape or layout.interleaved:
        return None
    if shape == (*rows, 1, 1) and rows[0] == 1:
        return structs.replace(layout, shape=shape, stack=0)
    if rows != _rows_of(shape):
        return None
    if len(shape) == IMAGE_RANK and layout.batch > 1:
        return None
    stack = layout.stack if layout.stack > 1 else int(len(shape) == IMAGE_RANK)
    return structs.replace(layout, shape=shape, stack=stack)


def _same_pixels(layout: Layout, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is stored as images, and `shape` has as many images, channels and pixels."""
    plain = layout.windows is None and not layout.stack
    if not plain or len(layout.shape) != IMAGE_RANK or len(shape) != IMAGE_RANK:
        return False
    return layout.shape[:2] == shape[:2] and prod(layout.shape) == prod(shape)


def _turned(layout: Layout, node: Node, shape: tuple[int, ...]) -> Layout | None:
    """Return the layout of images whose channels become the last dimension, or the first; None if bytes
    move."""
    if node.extents("perm") == ROWS_AND_HEADS and layout.stack > 1 and shape[0] == 1:
        matrices = layout.shape[2 if layout.interleaved else 1]
        if layout.stack == matrices:
            return structs.replace(layout, shape=shape, interleaved=not layout.interleaved)
    images = layout.shape[0] if len(layout.shape) == IMAGE_RANK and layout.batch == 1 else 0
    if images and node.extents("perm") == TO_CHANNELS_LAST and not layout.stack:
        return structs.replace(layout, shape=shape, stack=images)
    if layout.interleaved:
        return None
    if images and node.extents("perm") == TO_CHANNELS_FIRST and layout.stack == images:
        return structs.replace(layout, shape=shape, stack=0)
    return None


def _heads(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """Return the layout of [1, rows, channels] as [1, rows, heads, channels of a head], or the reverse; None
    for other changes of shape. A head is whole blocks of channels. Heads of a single row may stand before the
    row, too."""
    before = layout.shape
    if layout.batch > 1 or layout.windows is not None or before[:1] != shape[:1] or before[:1] != (1,):
        return None
    if layout.stack > 1:
        rows = prod(before[:-1]) // layout.stack
        joins = rows == 1 or (layout.interleaved and before[:-1] == (1, rows, layout.stack))
        whole = before[-1] % layout.block == 0 and shape == (1, rows, layout.stack * before[-1])
        return structs.replace(layout, shape=shape, stack=0, interleaved=False) if joins and whole else None
    if len(before) != IMAGE_RANK - 1 or layout.stack > 1 or len(shape) != IMAGE_RANK:
        return None
    rows, heads = before[1], before[-1] // max(1, shape[-1])
    if shape[-1] % layout.block or heads < 2 or shape[-1] * heads != before[-1]:
        return None
    if shape[1:3] == (rows, heads):
        return structs.replace(layout, shape=shape, stack=heads, interleaved=True)
    return (
        structs.replace(layout, shape=shape, stack=heads)
        if shape[1:3] == (heads, rows) and rows == 1
        else None
    )


def _rows(layout: Layout) -> tuple[int, int] | None:
    """Return the rows and channels of a tensor; None for several images, or images of several pixels."""
    shape = layout.shape
    if len(shape) == IMAGE_RANK and not layout.stack:
        n, channels, *pixel = shape
        return (1, channels) if n == 1 and pixel == [1, 1] else None
    return _rows_of(shape) if shape else None


def _rows_of(shape: tuple[int, ...]) -> tuple[int, int]:
    return prod(shape[:-1]), shape[-1]
