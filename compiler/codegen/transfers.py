"""Emission of LOADs and STOREs for loop nests. Transfers are computed once for all iterations of the outer
loops that they do not depend on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from vdla.compiler.codegen.emission import (
    Action,
    Emission,
    IndexedBuffer,
    Known,
    Values,
    box_of,
    first_and_steps,
    immediate,
    memoized,
    repeated,
    shifted,
)
from vdla.compiler.codegen.hardware_loops import Dimension, transfer_instructions
from vdla.compiler.codegen.nest import (
    AffineSum,
    Nest,
    Ranges,
    condition_boxes,
    conditions_of,
    evaluator,
    inside_box,
)
from vdla.compiler.ir.nodes import Expr, IrError
from vdla.compiler.operands.address_map import Move, Transfer
from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import MemoryType, Parameter


def load(memory: MemoryType, emission: Emission, nest: Nest, *, pad_minimum: bool = False) -> Action:
    """Emit LOADs: load(dst, src), load(dst, src, inside) or load(dst, src, inside, imm). Elements for which
    `inside` does not hold are padding: 0, the least value with `pad_minimum`, or the constant `imm`.

    Raises:
        IrError: the constant does not fit the field of the instruction.
    """
    chip, dram = emission.tiles(nest.call)
    inside, constant = nest.call.operands[2:3], nest.call.operands[3:]
    padding = [affine_sum for condition in inside for affine_sum in conditions_of(condition)]
    value = _pad_value(*constant) if constant else 0
    operand = emission.operand(dram.buffer)
    record = operand.load(emission.builder, memory, pad_minimum=pad_minimum, pad_value=value)
    return _transfer(nest, chip, dram, operand.tensor, padding, lambda values: record)


def _pad_value(constant: Expr) -> int:
    value, beyond = immediate(constant), 1 << isa.PAD_VALUE_BITS - 1
    if not -beyond <= value < beyond:
        raise IrError(f"a border of {value} is outside {-beyond}..{beyond - 1}, which LOADs can pad with")
    return value


def store(emission: Emission, nest: Nest) -> Action:
    """Emit STOREs: store(dst, src)."""
    dram, chip = emission.tiles(nest.call)
    record = emission.store(dram.buffer)
    return _transfer(nest, chip, dram, emission.operand(dram.buffer).tensor, [], lambda values: record)


def scaled_store(emission: Emission, nest: Nest) -> Action:
    """Emit STOREs that requantise: store_scaled(dst, src, kept) into DRAM, feed_scaled(dst, src, kept) into
    INP; a STORE per set of parameters. The loops over sets become the outer loops.

    Raises:
        IrError: parameters do not begin at a whole set.
    """
    dram, chip, kept = emission.tiles(nest.call)
    walked = {name: nest.loops[name] for name, _ in kept.index.terms if name in nest.loops}
    inner = replace(nest, loops={name: extent for name, extent in nest.loops.items() if name not in walked})
    first = evaluator(kept.index)

    @cache
    def record_with(parameters: int) -> Move:
        return emission.store(dram.buffer, _parameter_set(parameters), kept.buffer.name)

    action = _transfer(
        inner,
        chip,
        dram,
        emission.operand(dram.buffer).tensor,
        [],
        lambda values: record_with(first(values)),
    )
    for name, extent in walked.items():
        action = repeated(name, extent, action)
    return action


def _transfer(
    nest: Nest,
    chip: IndexedBuffer,
    dram: IndexedBuffer,
    tensor: str,
    padding: list[AffineSum],
    record_of: Callable[[Values], Move],
) -> Action:
    """Return the action that records the transfers of a nest.

    Args:
        tensor: name of the tensor in DRAM.
        padding: sums that must not be negative for an element to be inside the tensor.
        record_of: returns the recorder for values of the outer loop variables.
    """
    (here, on_chip), (there, in_dram) = (operand.index.split_by(nest.loops) for operand in (chip, dram))
    first_on_chip, first_in_dram = evaluator(here), evaluator(there)

    def mapped(values: Values) -> Iterator[Transfer]:
        for fixed, ranges in condition_boxes(nest.conditions, nest.loops, values):
            yield from _transfers(on_chip, in_dram, padding, fixed, ranges)

    transfers = memoized((*nest.conditions, *padding), nest.loops, mapped)

    def act(values: Values) -> None:
        on, off, record = first_on_chip(values), first_in_dram(values), record_of(values)
        for place, element, rows in transfers(values):
            first = off + element if rows.height else 0  # rows of padding have no address
            record(on + place, tensor, first, rows)

    return act


def _transfers(
    chip: AffineSum, dram: AffineSum, padding: list[AffineSum], values: Known, ranges: Ranges
) -> Iterator[Transfer]:
    """Return the transfers of a box of a nest's iterations."""
    loops, start = box_of(ranges)
    (here, on_chip), (there, in_dram) = (
        first_and_steps(affine_sum, values, loops, start) for affine_sum in (chip, dram)
    )
    box = inside_box(tuple(shifted(affine_sum, start) for affine_sum in padding), loops, values)
    dimensions = [
        Dimension(trips, on_chip.get(name, 0), in_dram.get(name, 0), *(box[name] if box else (0, 0)))
        for name, trips in loops.items()
    ]
    return transfer_instructions(dimensions, here, there, inside=box is not None)


def _parameter_set(element: int) -> int:
    """Return the number, from 1, of the parameter set that begins at accumulator `element`.

    Raises:
        IrError: no set begins there.
    """
    number, rest = divmod(element, len(Parameter))
    if rest:
        raise IrError(
            f"parameters begin in accumulator {element}, which is not a multiple of {len(Parameter)}; keep "
            "whole sets in a buffer"
        )
    return number + 1
