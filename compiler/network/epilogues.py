"""Operators that the epilogue of their producer computes: table lookups, sums with a residual, softmax.

The store unit executes the epilogue after requantisation, so the result of the producer is stored nowhere.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vdla.compiler.codegen.epilogue import NO_EPILOGUE, RESIDUAL, SUM, TABLE, table_entries
from vdla.compiler.codegen.space import space_of
from vdla.compiler.graph.by_element import table_of
from vdla.compiler.graph.nodes import Node
from vdla.compiler.lower.activation_products import with_softmax
from vdla.compiler.lower.normalisation import constants_of_softmax
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import OffloadCandidate, Offloaded, Placements, Stored
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import PARAMETERS, Task
from vdla.compiler.tasks.chain import ChainTask
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.tasks.scaled_convolution import ScaledTask
from vdla.compiler.te.operators.narrowing import AddingScale, Scale
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import MULTIPLIER_BITS, requantise_operands, residual_parameters
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import Layout

BIAS_LIMIT = 1 << 30  # sums with smaller biases do not wrap


class Producer(NamedTuple):
    """An operator that can take an epilogue.

    Attributes:
        layout: layout of the value after the views, and of the epilogue's result.
        inner: inner values of the operator, its result, and the results of the views.
    """

    operator: Offloaded
    layout: Layout
    inner: tuple[str, ...]


def producer_of(placed: Placements, name: str) -> Producer | None:
    """Return the operator on the accelerator that makes and requantises a value; None if the value is read
    more than once, or an epilogue already adds a residual or normalises."""
    inner: tuple[str, ...] = ()
    layout: Layout | None = None
    while placed.uses.is_read_once(name) and (operator := placed.maker(name)) is not None:
        inner, layout = (name, *inner), layout or operator.output.layout
        if isinstance(operator, Offloaded):
            if PARAMETERS not in operator.constants or not operator.epilogue.splits:
                return None
            return Producer(operator, layout, (*operator.inner, *inner))
        name = operator.node.inputs[0]
    return None


def fused_node(node: Node, operator: Offloaded, further_inputs: tuple[str, ...]) -> Node:
    """Return the producer's node with the result of the epilogue `node`, and with `further_inputs`."""
    return replace(operator.node, inputs=(*operator.node.inputs, *further_inputs), outputs=node.outputs)


def with_lookup(placed: Placements, node: Node, target: Target) -> Offloaded | None:
    """Return a table lookup as the epilogue of the producer of its operand."""
    table = table_of(placed.graph, node) if target.config.has(Extension.TABLE) else None
    producer = producer_of(placed, node.inputs[0]) if table is not None else None
    if table is None or producer is None or producer.operator.epilogue.table:
        return None
    operator = producer.operator
    epilogue = replace(operator.epilogue, table=1)
    if not epilogue.fits(target.config):
        return None
    return replace(
        operator,
        node=fused_node(node, operator, node.inputs[1:]),
        output=Stored(node.result, producer.layout),
        constants={**operator.constants, TABLE: table_entries(table)},
        epilogue=epilogue,
        inner=producer.inner,
        parts=(),
    )


def with_residual(placed: Placements, node: Node, target: Target) -> Offloaded | None:
    """Return a sum as the epilogue of the later of the producers of its operands that can take it."""
    graph = placed.graph
    if node.op != "Int8Add" or not target.config.has(Extension.RESIDUAL):
        return None
    if isinstance(offload(graph, node, target), Unfit):
        return None
    producers = [
        (*producer, operand)
        for operand in (0, 1)
        if (producer := producer_of(placed, node.inputs[operand])) is not None
    ]
    producers.sort(key=lambda each: -placed.numbers[each[0].node.result])
    for operator, layout, inner, operand in producers:
        words = _sum_parameters(graph.constants[node.inputs[2]], node.extents("factors"), operand)
        task = _residual_task(operator, target)
        if words is not None and task is not None:
            residual = node.inputs[1 - operand]
            return replace(
                operator,
                node=fused_node(node, operator, (residual, node.inputs[2])),
                pieces=(*operator.pieces[:-1], replace(operator.pieces[-1], task=task)),
                inputs={**operator.inputs, RESIDUAL: Stored(residual, layout)},
                output=Stored(node.result, layout),
                constants={**operator.constants, SUM: _blocked(words, target.config)},
                epilogue=replace(operator.epilogue, adds=True),
                inner=inner,
                parts=(),
            )
    return None


def with_softmax_of_products(placed: Placements, node: Node, target: Target) -> Offloaded | None:
    """Return a softmax as the epilogue of the products of activations that make its rows."""
    if node.op != "Int8Softmax" or isinstance(offload(placed.graph, node, target), Unfit):
        return None
    producer = producer_of(placed, node.inputs[0])
    if producer is None or producer.operator.node.op != "Int8Products":
        return None
    operator = producer.operator
    if operator.epilogue != NO_EPILOGUE or producer.layout != operator.output.layout:
        return None
    constants = constants_of_softmax(OffloadCandidate(placed.graph, node, target))
    joined = with_softmax(operator, constants)
    if joined is None or isinstance(space_of(joined.pieces[-1].task, target), Unfit):
        return None
    return replace(
        joined,
        node=fused_node(node, operator, node.inputs[1:]),
        output=Stored(node.result, producer.layout),
        inner=producer.inner,
        parts=(),
    )


def _residual_task(operator: Offloaded, target: Target) -> Task | None:
    """Return the last task of an operator with a residual added in its epilogue; None if it has no legal
    choice, or another piece has the epilogue, too."""
    *earlier, last = operator.pieces
    task = last.task
    if last.operands or any(piece.epilogue != NO_EPILOGUE for piece in earlier):
        return None
    adding: Task
    if isinstance(task, ScaledTask):
        adding = replace(task, adds_residual=True)
    elif isinstance(task, ConvolutionTask | TransposedTask | ChainTask) and task.narrowing == Scale():
        adding = _with_narrowing(task, AddingScale())
    else:
        return None
    return None if isinstance(space_of(adding, target), Unfit) else adding


def _with_narrowing(task: ConvolutionTask | TransposedTask | ChainTask, narrowing: Scale) -> Task:
    if isinstance(task, ChainTask):
        return task.narrowed(narrowing)
    return replace(task, narrowing=narrowing)


def _sum_parameters(words: np.ndarray, factors: Sequence[int], operand: int) -> tuple[int, ...] | None:
    """Return the parameters of a residual sum; None if the store unit cannot compute it exactly. The
    multiplier of the sum must be a power of two, which is taken off the shift.

    Args:
        words: int64[4, n]: requantisation parameters of the sum.
        operand: which operand, 0 or 1, is the result of the producer.
    """
    if words.size != len(words):
        return None
    bias, multiplier, shift, zero, least, greatest = map(int, requantise_operands(words.reshape(-1).tolist()))
    spare = multiplier.bit_length() - 1
    limit = 1 << MULTIPLIER_BITS - 1
    if multiplier != 1 << max(spare, 0) or spare > shift or abs(bias) >= BIAS_LIMIT:
        return None
    if not all(-limit <= factor < limit for factor in factors):
        return None
    ordered = factors[operand], factors[1 - operand]
    return residual_parameters(bias, ordered, shift - spare, zero, least, greatest)


def _blocked(words: Sequence[int], config: AcceleratorConfig) -> np.ndarray:
    """Return int32[4, batch, block_out]: the parameters as accumulators hold them."""
    column = np.array(words, np.int64).astype(np.int32).reshape(-1, 1, 1)
    return np.ascontiguousarray(np.broadcast_to(column, (len(words), config.batch, config.block_out)))
