"""Changes of shape that move no byte: the bytes in DRAM are the same before and after, and others are refused."""

from itertools import product
from math import prod

import numpy as np
import pytest

from tests.compiler.network.graphs import Net
from vdla.compiler.graph.nodes import Node
from vdla.compiler.network.views import VIEW_RULES, ViewCase, viewed
from vdla.compiler.rules import Unfit, unfit
from vdla.hw.spec.presets import TINY
from vdla.runtime.layout import IMAGE_RANK, Layout
from vdla.runtime.windows import Windows

RESHAPE = Node("Reshape", ("x",), ("y",))
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
SHAPES = [
    (6,), (1, 6), (6, 1), (2, 3), (2, 1, 3), (1, 2, 3), (1, 6, 1, 1), (1, 3, 2, 1), (1, 2, 1, 3), (1, 2, 3, 1),
    (2, 3, 1, 1), (1, 1, 2, 3), (1, 1, 1, 6), (1, 1, 6, 1), (3, 2, 1, 1), (3, 1, 2, 1), (3, 1, 1, 2),
]  # fmt: skip


def turned(perm: tuple[int, ...]) -> Node:
    return Node("Transpose", ("x",), ("y",), {"perm": perm})


def layouts(shape: tuple[int, ...]) -> list[Layout]:
    """Return layouts of a tensor: with rows or images in batches, and as stacks."""
    stacks = [stack for stack in (1, 2, 3) if prod(shape[:-1]) % stack == 0]
    turns = [Layout(shape, 2, 1, stack=stack, interleaved=True) for stack in stacks]
    divided = (Layout(shape, 2, 1, stack=stack) for stack in stacks)
    return [Layout(shape, 2, 1), Layout(shape, 2, 2), *divided, *turns]


@pytest.mark.parametrize("before", SHAPES, ids=str)
def test_the_bytes_of_a_view_are_those_of_its_input(before):
    values = np.arange(1, 7, dtype=np.int8).reshape(before)
    views = 0
    for layout, after in product(layouts(before), SHAPES):
        view = viewed(layout, RESHAPE, after)
        if view is not None:
            views += 1
            assert (view.shape, view.block, view.batch) == (after, layout.block, layout.batch)
            assert view.pack(values.reshape(after)).tobytes() == layout.pack(values).tobytes()
    assert views >= sum(not layout.interleaved for layout in layouts(before))
    if len(before) == IMAGE_RANK:
        for layout, perm in product(
            layouts(before), (TO_LAST, TO_FIRST, (0, 1, 3, 2), (0, 2, 1, 3), (1, 0, 2, 3))
        ):
            after = values.transpose(perm)
            view = viewed(layout, turned(perm), after.shape)
            if view is not None:
                assert view.shape == after.shape
                assert view.pack(after).tobytes() == layout.pack(values).tobytes()


PLAIN = {"block": 4, "batch": 1}


@pytest.mark.parametrize(
    ("layout", "after", "stack"),
    [
        (Layout((2, 3, 4, 5), **PLAIN), (2, 3, 20, 1), 0),
        (Layout((2, 3, 4, 5), 4, 2), (2, 3, 2, 10), 0),
        (Layout((2, 3, 4, 5), **PLAIN), (3, 2, 4, 5), None),
        (Layout((2, 3, 4, 5), **PLAIN), (2, 4, 3, 5), None),
        (Layout((2, 3, 4, 5), **PLAIN), (2, 3, 20), None),
        (Layout((2, 3, 4, 5), **PLAIN, stack=2), (2, 3, 5, 4), None),
        (Layout((2, 3, 4, 5), **PLAIN, stack=2), (6, 4, 5), 2),
        (Layout((2, 3, 4, 5), **PLAIN, stack=2), (3, 2, 4, 5), 2),
        (Layout((2, 3, 4, 5), **PLAIN, stack=1), (6, 4, 5), 0),
        (Layout((2, 3, 4, 5), **PLAIN, stack=1), (4, 6, 1, 5), 1),
        (Layout((1, 7, 1, 1), **PLAIN), (7,), 0),
        (Layout((1, 7, 1, 1), **PLAIN), (1, 1, 7), 0),
        (Layout((1, 7, 1, 1), **PLAIN), (1, 1, 1, 7), 1),
        (Layout((1, 7, 1, 1), **PLAIN), (7, 1), None),
        (Layout((1, 7, 1, 2), **PLAIN), (1, 14), None),
        (Layout((1, 7, 2, 1), **PLAIN), (1, 14), None),
        (Layout((2, 7, 1, 1), **PLAIN), (2, 7), None),
        (Layout((1, 7, 1, 1), 4, 2), (1, 7), 0),
        (Layout((1, 7, 1, 1), 4, 2), (1, 1, 1, 7), None),
        (Layout((7,), **PLAIN), (1, 7, 1, 1), 0),
        (Layout((1, 7), 4, 2), (1, 7, 1, 1), 0),
        (Layout((2, 7), **PLAIN), (2, 7, 1, 1), None),
        (Layout((2, 3, 7), **PLAIN), (6, 7), 0),
        (Layout((2, 3, 7), **PLAIN), (6, 1, 7, 1), None),
        (Layout((2, 3, 7), **PLAIN), (1, 3, 2, 7), 1),
        (Layout((2, 3, 7), 4, 2), (1, 3, 2, 7), None),
        (Layout((2, 3, 7), 4, 2), (1, 6, 7), 0),
        (Layout((2, 3, 7), **PLAIN), (3, 14), None),
        (Layout((), **PLAIN), (1,), None),
        (Layout((1,), **PLAIN), (), None),
    ],
    ids=str,
)
def test_a_change_of_shape_keeps_rows_or_pixels(layout, after, stack):
    view = viewed(layout, RESHAPE, after)
    assert view == (None if stack is None else Layout(after, layout.block, layout.batch, stack=stack))


@pytest.mark.parametrize(
    "layout",
    [
        Layout((1, 3, 4, 6), 4, 1, Windows(2, 2, 2, 6, 3, 12, (0, 0))),
        Layout((1, 3, 4, 6), 4, 1, Windows(4, 1, 1, 3, 4, 3, (0, 0), pitch=24)),
    ],
    ids=["windows", "lines"],
)
def test_windows_and_packed_lines_are_no_images(layout):
    assert viewed(layout, RESHAPE, (1, 3, 6, 4)) is None


@pytest.mark.parametrize(
    ("layout", "perm", "after", "stack"),
    [
        (Layout((2, 3, 4, 5), **PLAIN), TO_LAST, (2, 4, 5, 3), 2),
        (Layout((1, 3, 4, 5), **PLAIN), TO_LAST, (1, 4, 5, 3), 1),
        (Layout((2, 3, 4, 5), 4, 2), TO_LAST, (2, 4, 5, 3), None),
        (Layout((2, 3, 4, 5), **PLAIN, stack=2), TO_LAST, (2, 4, 5, 3), None),
        (Layout((2, 3, 4, 5), **PLAIN), TO_FIRST, (2, 5, 3, 4), None),
        (Layout((2, 3, 4, 5), **PLAIN, stack=2), TO_FIRST, (2, 5, 3, 4), 0),
        (Layout((2, 3, 4, 5), **PLAIN, stack=1), TO_FIRST, (2, 5, 3, 4), None),
        (Layout((2, 3, 4, 5), **PLAIN), (0, 1, 3, 2), (2, 3, 5, 4), None),
        (Layout((3, 4, 5), **PLAIN), (0, 2, 1), (3, 5, 4), None),
    ],
    ids=str,
)
def test_a_transpose_makes_rows_of_pixels_or_pixels_of_rows(layout, perm, after, stack):
    view = viewed(layout, turned(perm), after)
    assert view == (None if stack is None else Layout(after, layout.block, layout.batch, stack=stack))


@pytest.mark.parametrize(
    ("before", "after", "interleaved"),
    [
        (Layout((1, 3, 8), **PLAIN), (1, 3, 2, 4), True),
        (Layout((1, 3, 8), **PLAIN, stack=1), (1, 3, 2, 4), True),
        (Layout((1, 3, 2, 4), **PLAIN, stack=2, interleaved=True), (1, 3, 8), False),
        (Layout((1, 3, 6), **PLAIN), (1, 3, 2, 3), None),
        (Layout((1, 3, 8), 4, 2), (1, 3, 2, 4), None),
        (Layout((2, 3, 8), **PLAIN), (2, 3, 2, 4), None),
        (Layout((1, 3, 2, 4), **PLAIN, stack=2, interleaved=True), (1, 6, 4), None),
        (Layout((1, 3, 2, 4), **PLAIN, stack=2, interleaved=True), (3, 8), None),
    ],
    ids=str,
)
def test_heads_of_whole_blocks_are_views(before, after, interleaved):
    view = viewed(before, RESHAPE, after)
    stack = after[2] if interleaved else 0
    expected = Layout(after, before.block, before.batch, stack=stack, interleaved=bool(interleaved))
    assert view == (None if interleaved is None else expected)


def test_heads_of_a_single_row_stand_before_it():
    row, heads = Layout((1, 1, 8), **PLAIN), Layout((1, 2, 1, 4), **PLAIN, stack=2)
    assert viewed(row, RESHAPE, (1, 2, 1, 4)) == heads
    assert viewed(heads, RESHAPE, (1, 1, 8)) == row
    assert viewed(Layout((1, 2, 3, 4), **PLAIN, stack=2), RESHAPE, (1, 3, 8)) is None


def test_a_transpose_of_rows_and_heads_is_a_view():
    apart, together = Layout((1, 2, 3, 4), **PLAIN, stack=2), Layout((1, 3, 2, 4), 4, 1, None, 2, True)
    assert viewed(together, turned((0, 2, 1, 3)), (1, 2, 3, 4)) == apart
    assert viewed(apart, turned((0, 2, 1, 3)), (1, 3, 2, 4)) == together
    other = Layout((1, 6, 2, 4), **PLAIN, stack=2)
    assert viewed(other, turned((0, 2, 1, 3)), (1, 2, 6, 4)) is None


def test_what_is_no_view_says_why():
    net = Net()
    x, words = net.input(2, 12), net.input(2, 12, dtype="int64")
    for name in (x, words):
        for shape in ((24,), (1, 2, 12)):
            net.reshape(name, *shape)
    graph = net.graph(*(node.outputs[0] for node in net.nodes))
    standing = Layout((2, 12), 8, 1)

    def reason(node: Node, standing: Layout | None) -> str:
        refusal = unfit(node.op, VIEW_RULES, ViewCase(graph, node, TINY.with_changes(block_in=8), standing))
        return refusal.reason if isinstance(refusal, Unfit) else ""

    moved, kept, of_words, _ = graph.nodes
    takes = [f"; the accelerator takes {rule.takes}" for rule in VIEW_RULES]
    assert reason(kept, standing) == ""
    assert reason(moved, standing) == f"Reshape with a change of int8[2, 12] to int8[24]{takes[1]}"
    assert reason(kept, None) == f"Reshape with input {x} on the host{takes[2]}"
    assert reason(of_words, standing) == f"Reshape with input {words} of int64{takes[0]}"
    for given in (standing, None):  # as it stands, and as it would
        at = ViewCase(graph, kept, TINY.with_changes(block_in=8), given)
        assert at.layout == Layout((1, 2, 12), 8, 1)
