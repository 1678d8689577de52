"""Softmax and layer normalisation of int8 rows."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
from msgspec import structs

from vdla.compiler.codegen.normalising_stores import NORMAL, POWERS, power_entries
from vdla.compiler.network.placed import (
    SAME,
    OffloadCandidate,
    Offloaded,
    OperatorKind,
    Stored,
    constants,
    operands,
)
from vdla.compiler.operands.interleaved import activation_block
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.normalising import NormalisingTask
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import NORMALISABLE, AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.normalisation import (
    COUNT_BITS,
    LEFT_OUT_BIT,
    NormalOperands,
    count_operands,
    normal_parameters,
)
from vdla.hw.spec.vocabulary import Extension, NormalParameter, Parameter
from vdla.runtime.layout import IMAGE_RANK, Layout

LONGEST = (1 << COUNT_BITS) - 1


def _layout(candidate: OffloadCandidate, stack: int) -> Layout:
    """Return the layout of rows in which input 0 lies, if it lies in the accelerator's DRAM.

    Args:
        stack: matrices of a tensor of as many dimensions as images that comes from elsewhere.
    """
    layout = candidate.lying(0).layout
    if layout.stack or len(layout.shape) != IMAGE_RANK:
        return layout
    return structs.replace(layout, stack=stack)


def _operator(
    candidate: OffloadCandidate, layout: Layout, task: NormalisingTask, constant: Mapping[str, np.ndarray]
) -> Offloaded:
    """Return the normalisation of rows in a layout by a task."""
    rest = candidate.shape(0)[-1] % layout.block
    words = np.concatenate([SAME, SAME], axis=1).repeat(layout.block, axis=1) if rest else SAME
    parameters = without_columns(candidate.parameters(task.sets * layout.block, words), rest)
    values = {"A": Stored(candidate.node.inputs[0], layout)}
    output = Stored(candidate.node.result, layout)
    operator = candidate.as_tasks(task, values, {"P": parameters, **constant}, output=output)
    return replace(operator, epilogue=task.epilogue)


def without_columns(parameters: np.ndarray, rest: int) -> np.ndarray:
    """Return parameters of requantisation, int32[blocks, 4, 1, block], that leave out the columns of the last
    block behind the first `rest`; 0: the last block is whole."""
    left = parameters.copy()
    if rest:
        left[-1, Parameter.CLIP, :, rest:] |= 1 << LEFT_OUT_BIT
    return left


def constants_of_softmax(candidate: OffloadCandidate) -> dict[str, np.ndarray]:
    """Return the constants of a softmax in the epilogue of a task: the table of powers, and a set of
    parameters of normalisation. If columns of the last block do not exist, another set gives 0 there."""
    powers, factor, addend = map(candidate.constant, (1, 2, 3))
    block = candidate.config.block_out
    rest = candidate.shape(0)[-1] % block
    words = np.zeros((len(NormalParameter), block * (1 + (rest > 0))), np.int64)
    words[NormalParameter.ADDEND], words[NormalParameter.FACTOR] = int(addend), int(factor)
    if rest:
        words[:, block + rest :] = 0
    return {NORMAL: blocked_parameters(words, candidate.config), POWERS: power_entries(powers)}


def _softmax(candidate: OffloadCandidate) -> Offloaded:
    layout = _layout(candidate, prod(candidate.shape(0)[:-2]))
    return _operator(candidate, layout, _task(layout, is_softmax=True), constants_of_softmax(candidate))


def parameters_of_layer_normalisation(candidate: OffloadCandidate) -> np.ndarray:
    """Return the parameters of a layer normalisation as accumulators hold them, in blocks."""
    node = candidate.node
    factors, addends = (candidate.constant(place).astype(np.int64) for place in (1, 2))
    count = count_operands(len(factors), centred=bool(node.integer("centred")))
    words = normal_parameters(NormalOperands(addends, factors, *count, node.integer("epsilon")))
    return blocked_parameters(np.stack(np.broadcast_arrays(*words)), candidate.config)


def _layer_normalisation(candidate: OffloadCandidate) -> Offloaded:
    layout, constant = _layout(candidate, 1), {NORMAL: parameters_of_layer_normalisation(candidate)}
    return _operator(candidate, layout, _task(layout, is_softmax=False), constant)


def _task(layout: Layout, *, is_softmax: bool) -> NormalisingTask:
    """Return the task for the rows of a layout."""
    matrices, columns, rows, _ = layout.image
    partial = columns % layout.block > 0
    return NormalisingTask(matrices, blocks(columns, layout.block), rows, is_softmax, partial)


def _axis(candidate: OffloadCandidate) -> str:
    axis, rank = candidate.node.integer("axis"), len(candidate.shape(0))
    return "" if axis % rank == rank - 1 else f"axis = {axis} of {rank} dimensions"


def _columns(candidate: OffloadCandidate) -> str:
    columns = candidate.shape(0)[-1]
    return "" if columns <= LONGEST else f"rows of {columns} columns"


def _normal_sets(candidate: OffloadCandidate) -> str:
    columns = candidate.shape(0)[-1]
    return "" if columns <= _most_columns(candidate.block) else f"rows of {columns} columns"


def _most_columns(block: int) -> int:
    """Return the most columns whose parameters the accumulators hold beside the parameters that keep
    values."""
    return (MOST_PARAMETER_SETS - 2) * block


def _stage(config: AcceleratorConfig) -> str:
    if Extension.NORMALISE not in config.extensions:
        return f"the extension {Extension.NORMALISE} switched off"
    if not config.has(Extension.NORMALISE):
        return f"batch = {config.batch}"
    if activation_block(config) == config.block_out:
        return ""
    return f"block_in = {config.block_in} and block_out = {config.block_out}"


STAGE = Rule(
    f"the extension {Extension.NORMALISE}, a batch of {NORMALISABLE[0]}, and block_in of at most block_out",
    _stage,
    enabling(Extension.TABLE, Extension.NORMALISE),
)
LAST = Rule("the last axis", _axis)
COLUMNS = Rule(f"rows of at most {LONGEST} columns", _columns)
OPERATORS: Mapping[str, OperatorKind] = {
    "Int8LayerNormalization": OperatorKind(
        (
            constants(1, 2),
            operands(1),
            Rule(f"rows of at most {MOST_PARAMETER_SETS - 2} blocks of block_out columns", _normal_sets),
        ),
        _layer_normalisation,
        (STAGE,),
    ),
    "Int8Softmax": OperatorKind((constants(1, 2, 3), operands(1), LAST, COLUMNS), _softmax, (STAGE,)),
}
