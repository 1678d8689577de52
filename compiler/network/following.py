"""Operators that follow another on its way out: a table behind it.

The store unit carries them out behind requantisation, so that the first result is never stored.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vdla.compiler.codegen.after import TABLE
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.network.maker import Offloaded
from vdla.hw.spec.numerics import (
    ENTRIES_OF_ELEMENT,
    TABLE_ENTRIES,
)
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension

PARAMETERS = "P"  # of requantisation, as programs name them


class Follower(NamedTuple):
    """An operator that follows another.

    Attributes:
        place: of the other among those that were placed before.
        both: carried out at once.
    """

    place: int
    both: Offloaded


def following(graph: Graph, node: Node, placed: Sequence[object], target: Target) -> Follower | None:
    """Return an operator together with the one whose result it alone reads; None where the store unit cannot
    carry it out."""
    if node.op == "Int8Lookup" and target.config.has(Extension.TABLE):
        return _looked_up(graph, node, placed)
    return None


def _first(graph: Graph, name: str, placed: Sequence[object]) -> tuple[int, Offloaded] | None:
    """Return the operator on the accelerator that makes and requantises a value that is read once, and its
    place."""
    readers = sum(name == used for other in graph.nodes for used in other.inputs)
    if readers != 1 or name in graph.outputs:
        return None
    for place, one in enumerate(placed):
        if isinstance(one, Offloaded) and one.output[0] == name:
            return (place, one) if PARAMETERS in one.constants else None
    return None


def _joined(node: Node, one: Offloaded, others: tuple[str, ...]) -> Node:
    """Return the first operator, with the result of the one that follows and what that reads besides."""
    return replace(one.node, inputs=(*one.node.inputs, *others), outputs=node.outputs)


def _looked_up(graph: Graph, node: Node, placed: Sequence[object]) -> Follower | None:
    x, name = node.inputs
    found, table = _first(graph, x, placed), graph.constants.get(name)
    if found is None or table is None or found[1].after.table or table.dtype != np.int8:
        return None
    place, one = found
    # TABLE has the entries of values from 0 on first
    entries = np.roll(table, -TABLE_ENTRIES // 2).reshape(-1, ENTRIES_OF_ELEMENT)
    both = replace(
        one,
        node=_joined(node, one, (name,)),
        output=(node.outputs[0], one.output[1]),
        constants={**one.constants, TABLE: entries},
        after=replace(one.after, table=1),
    )
    return Follower(place, both)
