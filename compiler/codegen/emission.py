"""The context of emission, and intrinsics with their emitters.

Emitters return actions: compiled statements of loop programs, built once and run for many values of the loop
variables.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TypeVar

from vdla.compiler.codegen.nest import AffineSum, Nest, Ranges, element_index
from vdla.compiler.ir.calls import Call, Intrinsic
from vdla.compiler.ir.nodes import Buffer, Const, Expr, Read, Scope
from vdla.compiler.operands.address_map import Move, Operand
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.stream.builder import Rows, StreamBuilder

Item = TypeVar("Item")
Values = dict[str, int]
Known = Mapping[str, int]  # read-only values of loop variables
Action = Callable[[Values], None]


@dataclass(frozen=True)
class IndexedBuffer:
    """A buffer that an instruction accesses, and the index of the accessed element."""

    buffer: Buffer
    index: AffineSum


def sequence(actions: list[Action]) -> Action:
    """Return the action that runs `actions` in order."""

    def act(values: Values) -> None:
        for action in actions:
            action(values)

    return act


def repeated(name: str, extent: int, action: Action) -> Action:
    """Return the action that runs `action` for every value of the loop variable `name`."""

    def act(values: Values) -> None:
        for value in range(extent):
            values[name] = value
            action(values)
        del values[name]

    return act


def bound(name: str, value: Callable[[Known], int], action: Action) -> Action:
    """Return the action that runs `action` with a value as the variable `name`."""

    def act(values: Values) -> None:
        values[name] = value(values)
        action(values)
        del values[name]

    return act


def conditional(conditions: list[AffineSum], action: Action) -> Action:
    """Return the action that runs `action` if all conditions hold, that is, no sum is negative."""

    def act(values: Values) -> None:
        if all(affine_sum.at(values, {})[0] >= 0 for affine_sum in conditions):
            action(values)

    return act


def memoized(
    sums: Iterable[AffineSum], loops: Mapping[str, int], compute: Callable[[Values], Iterable[Item]]
) -> Callable[[Values], tuple[Item, ...]]:
    """Return `compute` with a cache.

    Args:
        sums: all sums that the result of `compute` depends on.
        loops: loops of the nest. The key of the cache holds the values of all other variables of `sums`.
    """
    names = sorted({name for affine_sum in sums for name, _ in affine_sum.terms if name not in loops})
    key_of = itemgetter(*names) if names else lambda values: None
    cache: dict[object, tuple[Item, ...]] = {}

    def cached_items(values: Values) -> tuple[Item, ...]:
        key = key_of(values)
        items = cache.get(key)
        if items is None:
            items = cache[key] = tuple(compute(values))
        return items

    return cached_items


def box_of(ranges: Ranges) -> tuple[dict[str, int], Values]:
    """Return the extents and the first iterations of the loops of a box, by name."""
    return {name: high - low for name, (low, high) in ranges.items()}, {
        name: low for name, (low, _) in ranges.items()
    }


def first_and_steps(
    affine_sum: AffineSum, values: Known, loops: Mapping[str, int], start: Values
) -> tuple[int, dict[str, int]]:
    """Return the element of an operand in the first iteration of a box, and its step per loop."""
    fixed, free = affine_sum.at(values, loops)
    return fixed + sum(factor * start[name] for name, factor in free), dict(free)


def shifted(affine_sum: AffineSum, start: Values) -> AffineSum:
    """Return a condition on loops from `start` on as a condition on loops from 0 on."""
    return AffineSum(
        affine_sum.constant + sum(factor * start.get(name, 0) for name, factor in affine_sum.terms),
        affine_sum.terms,
    )


@dataclass(frozen=True)
class Emission:
    """The recorder of instructions, and the positions of buffers.

    Attributes:
        builder: records the instructions.
        operands: positions of the program's parameters in DRAM, by name. By default a parameter is the tensor
            of the same name.
        scaled: returns the recorder of STOREs that requantise by a set of parameters; None:
            `StreamBuilder.store`.
        tables: numbers of the tables on chip of STOREs into INP, by the buffer of their parameters.
        bases: first element of each on-chip buffer, by name.
    """

    builder: StreamBuilder
    operands: Mapping[str, Operand]
    scaled: Callable[[int], Move] | None = None
    tables: Mapping[str, int] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)

    @property
    def config(self) -> AcceleratorConfig:
        """The configuration of the accelerator."""
        return self.builder.config

    def operand(self, buffer: Buffer) -> Operand:
        """Return the position of a program's parameter in DRAM."""
        return self.operands.get(buffer.name) or Operand(buffer.name)

    def store(self, buffer: Buffer, parameters: int = 0, kept: str = "") -> Move:
        """Return the recorder of STOREs to a parameter of the program, or to a buffer of inputs on chip.

        Args:
            parameters: number of the set by which STOREs requantise; 0: no requantisation.
            kept: name of the buffer that holds the set.
        """
        if buffer.scope is Scope.INPUT:
            return self._fed_back(parameters, self.tables.get(kept, 0))
        if parameters and self.scaled is not None:
            record = self.scaled(parameters)
        else:
            record = partial(self.builder.store, parameters=parameters)
        return self.operand(buffer).address_map.store(record)

    def _fed_back(self, parameters: int, table: int) -> Move:
        def store(chip: int, tensor: str, element: int, rows: Rows) -> None:
            self.builder.feed_back(chip, element, rows, parameters=parameters, table=table)

        return store

    def tiles(self, call: Call) -> list[IndexedBuffer]:
        """Return the tile operands of a call, with the indices of their elements."""
        return [self._indexed(operand) for operand in call.operands if isinstance(operand, Read)]

    def _indexed(self, tile: Read) -> IndexedBuffer:
        base = self.bases.get(tile.buffer.name)
        begin = self.operand(tile.buffer).begin if base is None else base
        return IndexedBuffer(tile.buffer, element_index(tile, begin))


def immediate(operand: Expr) -> int:
    """Return the value of an operand that is a constant of the instruction."""
    assert isinstance(operand, Const), "the verifier lets only constants be immediate"
    return int(operand.value)


Emit = Callable[[Emission, Nest], Action]


@dataclass(frozen=True, slots=True)
class HardwareIntrinsic(Intrinsic):
    """An intrinsic of the accelerator.

    Attributes:
        emit: returns the action that records the instructions of a loop nest around a call.
    """

    emit: Emit = field(compare=False, repr=False)
