"""Operators that follow another on its way out: a table behind it, or a sum with another tensor.

The store unit carries them out behind requantisation, so that the first result is never stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vdla.compiler.codegen.epilogue import RESIDUAL, SUM, TABLE, table_entries
from vdla.compiler.codegen.space import space_of
from vdla.compiler.graph.by_element import table_of
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.network.maker import Offloaded, OnHost, Placed, View
from vdla.compiler.network.offload import offload
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.convolution import ConvolutionTask, TiledTask, TransposedTask
from vdla.compiler.te.operators.narrowing import AddingScale, Scale
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import (
    MULTIPLIER_BITS,
    requantise_operands,
    residual_parameters,
)
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import Layout


class Placements:
    """The operators of a graph that have been placed so far, in order, by numbers that only grow.

    Args:
        readers: the nodes that read each value, once for each read.
    """

    def __init__(self, graph: Graph, readers: Mapping[str, list[Node]]) -> None:
        self.graph, self._readers = graph, readers
        self._placed: dict[int, Placed] = {}
        self._makers: dict[str, int] = {}
        self._next = 0

    def add(self, one: Placed, without: Iterable[int] = ()) -> None:
        """Place an operator last, which also does what the operators of the numbers `without` did."""
        for number in without:
            del self._placed[number]
        self._placed[self._next] = one
        if not isinstance(one, OnHost):
            made = (one.output[0],) if isinstance(one, Offloaded) else one.node.outputs
            self._makers |= dict.fromkeys(made, self._next)
        self._next += 1

    def maker(self, name: str) -> tuple[int, Offloaded | View] | None:
        """Return the number of the operator on the accelerator that makes a value, and the operator; None
        where there is none."""
        number = self._makers.get(name)
        one = None if number is None else self._placed.get(number)
        return None if number is None or one is None or isinstance(one, OnHost) else (number, one)

    def is_read_once(self, name: str) -> bool:
        """Whether one operator alone reads a value, once, and it does not leave the network."""
        return len(self._readers[name]) == 1 and name not in self.graph.outputs

    def in_order(self) -> list[Placed]:
        """Return the operators."""
        return list(self._placed.values())


PARAMETERS = "P"  # of requantisation, as programs name them
LARGEST_ADDEND = 1 << 30  # sums with it do not wrap


class Follower(NamedTuple):
    """An operator that follows another.

    Attributes:
        places: of the other, and of changes of shape between both, among those that were placed before.
        both: carried out at once.
    """

    places: tuple[int, ...]
    both: Offloaded


def following(placed: Placements, node: Node, target: Target) -> Follower | None:
    """Return an operator together with the one whose result it alone reads; None where the store unit cannot
    carry it out."""
    table = table_of(placed.graph, node) if target.config.has(Extension.TABLE) else None
    if table is not None:
        return _looked_up(placed, node, table)
    if node.op == "Int8Add" and target.config.has(Extension.RESIDUAL):
        return _added(placed, node, target)
    return None


class _First(NamedTuple):
    """An operator that another may follow, and its place and those of changes of shape behind it.

    Attributes:
        layout: how the value stands that the other reads, and its own result.
    """

    places: tuple[int, ...]
    one: Offloaded
    layout: Layout


def _first(placed: Placements, name: str) -> _First | None:
    """Return the operator on the accelerator that makes and requantises a value that is read once."""
    places: list[int] = []
    layout: Layout | None = None
    while placed.is_read_once(name) and (maker := placed.maker(name)) is not None:
        place, one = maker
        places.append(place)
        if isinstance(one, Offloaded):
            follows = PARAMETERS in one.constants and not one.after.adds
            return _First(tuple(reversed(places)), one, layout or one.output[1]) if follows else None
        layout, name = layout or one.layout, one.node.inputs[0]
    return None


def _joined(node: Node, one: Offloaded, others: tuple[str, ...]) -> Node:
    """Return the first operator, with the result of the one that follows and what that reads besides."""
    return replace(one.node, inputs=(*one.node.inputs, *others), outputs=node.outputs)


def _looked_up(placed: Placements, node: Node, table: np.ndarray) -> Follower | None:
    found = _first(placed, node.inputs[0])
    if found is None or found.one.after.table:
        return None
    one = found.one
    both = replace(
        one,
        node=_joined(node, one, node.inputs[1:]),
        output=(node.outputs[0], found.layout),
        constants={**one.constants, TABLE: table_entries(table)},
        after=replace(one.after, table=1),
    )
    return Follower(found.places, both)


def _added(placed: Placements, node: Node, target: Target) -> Follower | None:
    graph = placed.graph
    if isinstance(offload(graph, node, target), Unfit):
        return None
    found = [(*first, own) for own in (0, 1) if (first := _first(placed, node.inputs[own])) is not None]
    for places, one, layout, own in sorted(found, key=lambda each: -each[0][0]):
        words = _sum_parameters(graph.constants[node.inputs[2]], node.extents("factors"), own)
        task = _adding(one, target)
        if words is not None and task is not None:
            residual = node.inputs[1 - own]
            both = replace(
                one,
                node=_joined(node, one, (residual, node.inputs[2])),
                pieces=(replace(one.pieces[0], task=task),),
                inputs={**one.inputs, RESIDUAL: (residual, layout)},
                output=(node.outputs[0], layout),
                constants={**one.constants, SUM: _blocked(words, target.config)},
                after=replace(one.after, adds=True),
            )
            return Follower(places, both)
    return None


def _adding(one: Offloaded, target: Target) -> TiledTask | None:
    """Return the task of an operator behind which residuals are added; None where there is none."""
    task = one.pieces[0].task
    if not isinstance(task, ConvolutionTask | TransposedTask) or task.narrowing != Scale():
        return None
    adding = replace(task, narrowing=AddingScale())
    return None if isinstance(space_of(adding, target), Unfit) else adding


def _sum_parameters(words: np.ndarray, factors: Sequence[int], own: int) -> tuple[int, ...] | None:
    """Return the parameters of a sum whose operand `own` is requantised before; None where the store unit
    would make another sum: the sum's multiplier must be a power of two, which a smaller shift stands for."""
    if words.size != len(words):
        return None
    bias, multiplier, shift, zero, least, greatest = map(int, requantise_operands(words.reshape(-1).tolist()))
    spare = multiplier.bit_length() - 1
    limit = 1 << MULTIPLIER_BITS - 1
    if multiplier != 1 << max(spare, 0) or spare > shift or abs(bias) >= LARGEST_ADDEND:
        return None
    if not all(-limit <= factor < limit for factor in factors):
        return None
    both = factors[own], factors[1 - own]
    return residual_parameters(bias, both, shift - spare, zero, least, greatest)


def _blocked(words: Sequence[int], config: AcceleratorConfig) -> np.ndarray:
    """Return int32[4, batch, block_out]: the parameters as accumulators hold them."""
    column = np.array(words, np.int64).astype(np.int32).reshape(-1, 1, 1)
    return np.ascontiguousarray(np.broadcast_to(column, (len(words), config.batch, config.block_out)))
