"""Groups: operators that run as one task, with one allocation of the scratchpads.

Values between the operators of a group stay on chip. Each rule of `GROUPINGS` joins an operator with
operators that were placed before it. A table lookup or a sum with a residual becomes the epilogue of its
producer, which the store unit executes after requantisation (`network/epilogues.py`). So does a layer
normalisation after a convolution. A max pooling takes the greatest sums of the convolution before it. A
convolution scales the channels of its image on the way into its products. A new way to fuse operators is
another rule.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from vdla.compiler.codegen.choose import by_simulator, least_estimate, simulated_cycles
from vdla.compiler.codegen.epilogue import NO_EPILOGUE, TABLE, InnerTable, table_of_entries
from vdla.compiler.codegen.normalising_stores import NORMAL
from vdla.compiler.codegen.space import space_of
from vdla.compiler.graph.nodes import Node
from vdla.compiler.lower.normalisation import parameters_of_layer_normalisation, without_columns
from vdla.compiler.network.epilogues import (
    BIAS_LIMIT,
    fused_node,
    producer_of,
    with_lookup,
    with_residual,
    with_softmax_of_products,
)
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import OffloadCandidate, Offloaded, Piece, Placements, Stored
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import PARAMETERS, WEIGHTS, Task
from vdla.compiler.tasks.chain import ChainTask
from vdla.compiler.tasks.chain_plan import Chain, chains
from vdla.compiler.tasks.convolution import ConvolutionTask, NarrowTask
from vdla.compiler.tasks.normalised_convolution import NormalisedTask, normalises_sums
from vdla.compiler.tasks.pooled_convolution import PooledTask, pools_sums
from vdla.compiler.tasks.pooling import MaximumTask, PoolingTask
from vdla.compiler.tasks.scaled_convolution import ScaledTask, scales_inputs
from vdla.compiler.tasks.scaling import FactorsTask
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import Pooling, blocks
from vdla.hw.spec.numerics import BYTE_BITS
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension, Parameter

PRODUCT = "Q"  # parameters of requantisation of scaled inputs
GREATEST_PRODUCT = 1 << 2 * (BYTE_BITS - 1)  # of two int8 numbers


Grouping = Callable[[Placements, Node, Target], Offloaded | None]
"""Returns the operator that does the work of a node and of operators placed before it, whose results are its
inner values; None if the rule does not apply. If it does the work of a part of an operator, the rule places
the other part anew."""


def grouped(placed: Placements, node: Node, target: Target) -> Offloaded | None:
    """Return `node` in a group with operators placed before it, by the first of `GROUPINGS` that applies."""
    groups = (grouping(placed, node, target) for grouping in GROUPINGS)
    return next((group for group in groups if group is not None), None)


def _with_normalisation(placed: Placements, node: Node, target: Target) -> Offloaded | None:
    """Return a layer normalisation as the epilogue of the convolution whose result it alone reads, if that
    takes fewer cycles than the two operators."""
    producer = producer_of(placed, node.inputs[0]) if node.op == "Int8LayerNormalization" else None
    separate = None if producer is None else offload(placed.graph, node, target)
    if producer is None or separate is None or isinstance(separate, Unfit):
        return None
    operator, layout = producer.operator, producer.layout
    task = operator.pieces[0].task
    if len(operator.pieces) > 1 or operator.epilogue != NO_EPILOGUE or not isinstance(task, ConvolutionTask):
        return None
    if not normalises_sums(task, target.config) or layout.image[:2] != (task.size.batch, task.size.outputs):
        return None
    fused = NormalisedTask(task, blocks(task.size.outputs, target.config.block_out))
    if isinstance(space_of(fused, target), Unfit):
        return None
    if _simulated(fused, target) >= _cycles_of((operator, separate), target):
        return None
    rest = task.size.outputs % target.config.block_out
    parameters = {
        PARAMETERS: without_columns(operator.constants[PARAMETERS], rest),
        NORMAL: parameters_of_layer_normalisation(OffloadCandidate(placed.graph, node, target)),
    }
    return replace(
        operator,
        node=fused_node(node, operator, node.inputs[1:]),
        pieces=(replace(operator.pieces[0], task=fused),),
        output=Stored(node.result, layout),
        constants={**operator.constants, **parameters},
        epilogue=fused.epilogue,
        inner=producer.inner,
        parts=(),
    )


def _with_pooling(placed: Placements, node: Node, target: Target) -> Offloaded | None:
    """Return a max pooling on the sums of the convolution whose result it alone reads, if that takes fewer
    cycles than the two operators."""
    producer = producer_of(placed, node.inputs[0]) if node.op == "Int8MaxPool" else None
    if producer is None or producer.operator.output.value != node.inputs[0]:
        return None
    operator, separate = producer.operator, offload(placed.graph, node, target)
    if isinstance(separate, Unfit) or not _never_decreases(operator):
        return None
    pooling = separate.pieces[0].task
    assert isinstance(pooling, MaximumTask | PoolingTask), f"{node.op} is a max pooling"
    packed = _packed_for(operator, pooling.size, placed, target)
    task = packed.pieces[0].task
    if not (
        isinstance(task, ConvolutionTask)
        and task.narrowing == Scale()
        and pools_sums(task, pooling.size, target.config)
    ):
        return None
    fused = PooledTask(task, pooling.size)
    cycles, alone = _simulated(fused, target), _cycles_of((operator,), target)
    if cycles >= alone and cycles >= alone + _simulated(pooling, target):
        return None
    return replace(
        packed,
        node=fused_node(node, operator, ()),
        pieces=(replace(packed.pieces[0], task=fused),),
        output=separate.output,
        inner=producer.inner,
    )


def _packed_for(operator: Offloaded, pooling: Pooling, placed: Placements, target: Target) -> Offloaded:
    """Return a convolution over windows that the host packs, with the windows that are best for a task that
    takes the greatest sums of a pooling, too. Return other convolutions unchanged."""
    if operator.inputs["X"].layout.windows is None:
        return operator
    node = placed.uses.makers[(*operator.inner, operator.node.result)[0]]
    packed = offload(placed.graph, node, target, packs=True, pooling=pooling)
    assert not isinstance(packed, Unfit), "the operator has been placed"
    constants = {**operator.constants, **packed.constants}
    return replace(operator, pieces=packed.pieces, inputs=packed.inputs, constants=constants)


def _with_scaled_inputs(placed: Placements, node: Node, target: Target) -> Offloaded | None:
    """Return a 1x1 convolution fused with the operator before it, which multiplies the channels of the image
    by factors. None unless only the convolution reads the scaled image, and the fused task takes fewer cycles
    than both operators."""
    producer = producer_of(placed, node.inputs[0]) if node.op == "Int8Conv" else None
    scaled = None if producer is None else _scaling_pieces(producer.operator)
    if producer is None or scaled is None or producer.operator.output.value != node.inputs[0]:
        return None
    product, separate = producer.operator, offload(placed.graph, node, target)
    if isinstance(separate, Unfit) or separate.inputs.get("X") != product.output:
        return None
    task, (diagonal, factors) = separate.pieces[0].task, scaled
    if len(separate.pieces) > 1 or not isinstance(task, ConvolutionTask):
        return None
    if isinstance(task, NarrowTask) or not task.size.is_pointwise or task.narrowing != Scale():
        return None
    outputs = blocks(task.size.outputs, target.config.block_out)
    fused = ScaledTask(factors.blocks, outputs, factors.elements, factors.units, factors.constants)
    if not scales_inputs(target.config, fused):
        return None
    if _simulated(fused, target) >= least_estimate(task, target) + _simulated(factors, target):
        return None
    constants = {name: each for name, each in product.constants.items() if name != PARAMETERS}
    return replace(
        separate,
        node=replace(node, inputs=(*product.node.inputs, *node.inputs[1:])),
        pieces=(diagonal, Piece(fused)),
        inputs={"X": product.inputs["A"], "F": product.inputs["F"]},
        constants={**separate.constants, **constants, PRODUCT: product.constants[PARAMETERS]},
        macs=separate.macs + product.macs,
        scratch=product.scratch,
        inner=producer.inner,
    )


def _scaling_pieces(operator: Offloaded) -> tuple[Piece, FactorsTask] | None:
    """Return the pieces of a product of an image and factors of channels on the multiplier array; None if an
    operator is another, or has an epilogue."""
    last = operator.pieces[-1].task
    if operator.epilogue != NO_EPILOGUE or not isinstance(last, FactorsTask):
        return None
    return operator.pieces[0], last


def _never_decreases(operator: Offloaded) -> bool:
    """Whether greater sums of a convolution never give smaller results: no sum wraps after the addition of
    its bias, and the table of the epilogue never decreases."""
    task = operator.pieces[0].task
    if len(operator.pieces) > 1 or not isinstance(task, ConvolutionTask):
        return False
    products = task.size.macs // (task.size.outputs * prod(task.size.out_size) * task.size.batch)
    greatest = products * GREATEST_PRODUCT
    biases = operator.constants[PARAMETERS][:, Parameter.BIAS].astype(np.int64)
    rises = (
        TABLE not in operator.constants
        or (np.diff(table_of_entries(operator.constants[TABLE]).astype(np.int64)) >= 0).all()
    )
    return bool(rises and greatest < BIAS_LIMIT and (np.abs(biases) < BIAS_LIMIT).all())


@lru_cache(maxsize=256)
def _simulated(task: Task, target: Target) -> int:
    """Return the simulated cycles of a task by its default choice, whose space is not empty."""
    space = space_of(task, target)
    assert not isinstance(space, Unfit), "its rule has checked the task"
    return simulated_cycles(task, by_simulator(space), target)


def _with_chain(placed: Placements, node: Node, target: Target) -> Offloaded | None:
    """Return a convolution in a chain with one or two operators before it, or with the last operators of the
    chain before it: the chain that saves the most cycles against the separate operators. None if none does.

    The other operators of a chain that is split are placed anew.
    """
    if node.op != "Int8Conv" or not target.config.has(Extension.FEEDBACK):
        return None
    producers = _linked_producers(placed, node)
    separate = offload(placed.graph, node, target) if producers else None
    if separate is None or isinstance(separate, Unfit) or not _is_link(separate):
        return None
    least, best = 0.0, None
    for before, head, tail in _tails(producers):
        chain, rest = _chained((*tail, separate), target), _chained(head, target)
        if chain is not None and (rest is not None or not head):
            after = (rest, chain) if rest is not None else (chain,)
            more = _cycles_of(after, target) - _cycles_of((*before, separate), target)
            if more < least:
                least, best = more, after
    if best is None:
        return None
    for rest in best[:-1]:
        placed.add(rest)
    return best[-1]


_Operators = tuple[Offloaded, ...]


def _tails(producers: Sequence[Offloaded]) -> Iterator[tuple[_Operators, _Operators, _Operators]]:
    """Yield each way to continue a chain from the operators before a convolution: the operators that change,
    the operators of a chain that stay together, and the operators that the convolution joins."""
    for count in range(len(producers), 0, -1):
        yield tuple(producers[-count:]), (), tuple(producers[-count:])
    parts = producers[-1].parts
    for count in range(1, len(parts)):
        yield (producers[-1],), parts[:-count], parts[-count:]


def _linked_producers(placed: Placements, node: Node) -> list[Offloaded]:
    """Return the operators, two at most and in order, that may precede a convolution in a chain."""
    producers: list[Offloaded] = []
    while len(producers) < 2:
        producer = producer_of(placed, node.inputs[0])
        if (
            producer is None
            or producer.operator.output.value != node.inputs[0]
            or not _is_link(producer.operator)
        ):
            break
        node = producer.operator.node
        producers.insert(0, producer.operator)
    return producers


def _is_link(operator: Offloaded) -> bool:
    """Whether an operator may be part of a chain."""
    return len(operator.pieces) == 1 and isinstance(_task(operator), ConvolutionTask | ChainTask)


def _task(operator: Offloaded) -> Task:
    return operator.pieces[0].task


def _stages(task: Task) -> tuple[ConvolutionTask, ...]:
    """Return the convolutions of a convolution or of a chain."""
    if isinstance(task, ChainTask):
        return task.chain.stages
    assert isinstance(task, ConvolutionTask), f"{task} is a convolution"
    return (task,)


def _chain_of(stages: Sequence[ConvolutionTask]) -> Chain | None:
    """Return convolutions as a chain; None if not exactly one of them, the first or second, slides."""
    match [stage.slides for stage in stages]:
        case [True, False]:
            return Chain(stages[0], None, stages[1])
        case [False, True]:
            return Chain(stages[1], stages[0])
        case [False, True, False]:
            return Chain(stages[1], stages[0], stages[2])
    return None


def _inner_names(operator: Offloaded, place: int) -> dict[str, str]:
    """Return the names in a chain of the constants of an operator that is not its last.

    Args:
        place: number of convolutions before the operator.
    """
    last = place + len(_stages(_task(operator))) - 1
    return {name: f"{name}{last}" for name in (WEIGHTS, PARAMETERS, TABLE)}


@lru_cache(maxsize=1024)
def least_cycles(task: Task, target: Target) -> float:
    """Return the cycles of a task: estimated for a convolution, simulated for other tasks."""
    if isinstance(task, ConvolutionTask):
        return least_estimate(task, target)
    return _simulated(task, target)


def _cycles_of(operators: Iterable[Offloaded], target: Target) -> float:
    """Return the cycles of the tasks of operators that run in sequence."""
    return sum(least_cycles(piece.task, target) for operator in operators for piece in operator.pieces)


def _chained(operators: tuple[Offloaded, ...], target: Target) -> Offloaded | None:
    """Return operators, each of which reads the result of the operator before it, as a chain; a single
    operator stays as it is. None if the target does not support the chain, or there is no operator. An
    operator may be a chain."""
    if len(operators) == 1:
        return operators[0]
    chain = _chain_of([stage for operator in operators for stage in _stages(_task(operator))])
    if chain is None or not chains(chain, target.config):
        return None
    first, last = operators[0], operators[-1]
    constants, inner, place = dict[str, np.ndarray](), list[InnerTable](), 0
    for operator in operators:
        names = {} if operator is last else _inner_names(operator, place)
        place += len(_stages(_task(operator)))
        constants |= {names.get(name, name): values for name, values in operator.constants.items()}
        inner += operator.epilogue.inner
        if names and operator.epilogue.table:
            inner.append(InnerTable(f"{names[PARAMETERS]}L", names[TABLE]))
    epilogue = replace(last.epilogue, inner=tuple(inner))
    if not epilogue.fits(target.config):
        return None
    further_inputs = tuple(name for operator in operators[1:] for name in operator.node.inputs[1:])
    chain_values = (name for operator in operators[:-1] for name in (*operator.inner, operator.node.result))
    return replace(
        first,
        node=fused_node(last.node, first, further_inputs),
        pieces=(Piece(ChainTask(chain)),),
        output=last.output,
        constants=constants,
        macs=sum(operator.macs for operator in operators),
        epilogue=epilogue,
        inner=(*chain_values, *last.inner),
        parts=tuple(part for operator in operators for part in operator.parts or (operator,)),
    )


GROUPINGS: tuple[Grouping, ...] = (
    with_lookup,
    with_residual,
    with_softmax_of_products,
    _with_normalisation,
    _with_pooling,
    _with_scaled_inputs,
    _with_chain,
)
"""The rules that join operators, in the order in which they are tried."""
