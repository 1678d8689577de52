"""LOADs and STOREs of nests of loops: folded once for all values of the variables that cut them, recorded for each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from vdla.compiler.codegen.actions import Action, Operand, Values, box_of, moved, once_each, repeated, shifted
from vdla.compiler.codegen.fold import Dimension, Transfer, fold_transfer
from vdla.compiler.codegen.intrinsics import LEAST_PADDED, LOADS, PADDED
from vdla.compiler.codegen.kernel import Form, Nest, Ranges, boxes, conditions_of, evaluated, inside_box
from vdla.compiler.ir.nodes import Expr, IrError
from vdla.hw.spec.vocabulary import Parameter
from vdla.runtime.builder import Rows, StreamBuilder

Move = Callable[[int, str, int, Rows], None]  # records a transfer: element on chip, tensor, its element, rows


def load_of(name: str) -> str:
    """Return the name of a load without what it says of borders."""
    return name.removesuffix(LEAST_PADDED).removesuffix(PADDED)


@dataclass(frozen=True)
class Transfers:
    """Records transfers.

    Attributes:
        tensors: what the stream calls a program's parameters, where that is not their own name.
    """

    builder: StreamBuilder
    tensors: Mapping[str, str]

    def load(self, nest: Nest, chip: Operand, dram: Operand, inside: list[Expr]) -> Action:
        """Record LOADs; `inside` may say what lies in the tensor."""
        name = nest.call.name
        record = partial(self.builder.load, LOADS[load_of(name)], pad_minimum=name.endswith(LEAST_PADDED))
        return self.transfer(nest, chip, dram, conditions_of(inside[0]) if inside else [], lambda values: record)

    def store(self, nest: Nest, dram: Operand, chip: Operand, *kept: Operand) -> Action:
        """Record STOREs, one for each set of parameters: the loops over sets stand outside."""
        if not kept:
            return self.transfer(nest, chip, dram, [], lambda values: self.builder.store)
        walked = {name: nest.loops[name] for name, _ in kept[0].form.terms if name in nest.loops}
        inner = replace(nest, loops={name: extent for name, extent in nest.loops.items() if name not in walked})
        first = evaluated(kept[0].form)
        action = self.transfer(inner, chip, dram, [], lambda values: partial(self.builder.store, parameters=_parameter_set(first(values))))
        for name, extent in walked.items():
            action = repeated(name, extent, action)
        return action

    def transfer(self, nest: Nest, chip: Operand, dram: Operand, padding: list[Form], record_of: Callable[[Values], Move]) -> Action:
        """Record the transfers of a nest between its operands' memories; `padding` says what lies inside the tensor."""
        (here, on_chip), (there, in_dram) = (operand.form.parted(nest.loops) for operand in (chip, dram))
        first_on_chip, first_in_dram = evaluated(here), evaluated(there)
        tensor = self.tensors.get(dram.buffer.name, dram.buffer.name)

        def fold(values: Values) -> Iterator[Transfer]:
            for fixed, ranges in boxes(nest.conditions, nest.loops, values):
                yield from _transfers(on_chip, in_dram, padding, fixed, ranges)
        transfers = once_each((*nest.conditions, *padding), nest.loops, fold)

        def act(values: Values) -> None:
            on, off, record = first_on_chip(values), first_in_dram(values), record_of(values)
            for part in transfers(values):
                first = off + part.dram if part.rows.height else 0  # nothing but padding: read from nowhere
                record(on + part.chip, tensor, first, part.rows)
        return act


def _transfers(chip: Form, dram: Form, padding: list[Form], values: Values, ranges: Ranges) -> Iterator[Transfer]:
    """Return what moves a box of a nest's iterations."""
    loops, start = box_of(ranges)
    (here, on_chip), (there, in_dram) = (moved(form, values, loops, start) for form in (chip, dram))
    box = inside_box(tuple(shifted(form, start) for form in padding), loops, values)
    dimensions = [Dimension(trips, on_chip.get(name, 0), in_dram.get(name, 0), *(box[name] if box else (0, 0))) for name, trips in loops.items()]
    return fold_transfer(dimensions, here, there, inside=box is not None)


def _parameter_set(element: int) -> int:
    """Return the number of the set of parameters that begins with an accumulator."""
    number, rest = divmod(element, len(Parameter))
    if rest:
        raise IrError(f"parameters begin in accumulator {element}, which is no multiple of {len(Parameter)}; keep whole sets in a buffer")
    return number + 1
