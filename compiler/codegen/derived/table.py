"""Points of a kernel's space as numbers: what each needs on chip, which are legal, and which are the same."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from vdla.compiler.codegen.derived.boxes import IntArray, Relations, loop_of_sum
from vdla.compiler.codegen.derived.kernels import Kernel
from vdla.compiler.codegen.derived.knobs import CHUNK, FIRST, REUSE, Knob, Value
from vdla.compiler.codegen.stream import SCRATCHPADS
from vdla.compiler.ir.nodes import Scope
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import MemoryType, Parameter


@dataclass(frozen=True, eq=False)
class Table:
    """Points of a kernel: int64[n, k], for each knob the place of its value."""

    kernel: Kernel
    relations: Relations
    knobs: tuple[Knob, ...]
    rows: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, rows: IntArray) -> "Table":
        """Return a table of other points."""
        return Table(self.kernel, self.relations, self.knobs, rows)

    @cached_property
    def _columns(self) -> Mapping[str, int]:
        return {knob.name: column for column, knob in enumerate(self.knobs)}

    def values(self, row: int) -> dict[str, Value]:
        """Return the values of a point, by knob."""
        return {knob.name: knob.values[place] for knob, place in zip(self.knobs, self.rows[row], strict=True)}

    def number(self, name: str, default: int) -> IntArray:
        """Return int64[n]: the values of a knob; `default` where there is none."""
        if name not in self._columns:
            return np.full(len(self.rows), default)
        column = self._columns[name]
        return np.array(self.knobs[column].values, np.int64)[self.rows[:, column]]

    def chosen(self, name: str, value: Value) -> np.ndarray:
        """Return bool[n]: whether a knob has a value; a knob that there is none of has none."""
        if name not in self._columns:
            return np.zeros(len(self.rows), bool)
        column = self._columns[name]
        values = self.knobs[column].values
        return (
            self.rows[:, column] == values.index(value) if value in values else np.zeros(len(self.rows), bool)
        )

    @property
    def one(self) -> IntArray:
        """int64[n]: ones."""
        return np.ones(len(self.rows), np.int64)

    # Loops over tiles

    @cached_property
    def tiles(self) -> dict[str, IntArray]:
        """Iterations inside a tile, by loop of the output."""
        return {axis.name: self.number(f"tile {axis.name}", 1) for axis in self.kernel.axes}

    @cached_property
    def threads(self) -> IntArray:
        """Virtual threads."""
        return self.number("threads", 1)

    @cached_property
    def apart(self) -> dict[str, IntArray]:
        """Virtual threads by loop of the output: 1 but for one loop."""
        several = [axis.name for axis in self.kernel.axes if axis.extent > 1]
        if len(several) == 1:
            return {
                axis.name: self.threads if axis.extent > 1 else np.ones_like(self.threads)
                for axis in self.kernel.axes
            }
        return {
            axis.name: np.where(self.chosen("over", axis.name), self.threads, 1) for axis in self.kernel.axes
        }

    @cached_property
    def trips(self) -> dict[str, IntArray]:
        """Tiles, by loop of the output."""
        return {axis.name: -(-axis.extent // self.tiles[axis.name]) for axis in self.kernel.axes}

    @cached_property
    def outer(self) -> dict[str, IntArray]:
        """Iterations of the loops over tiles, outside virtual threads."""
        return {name: -(-trips // self.apart[name]) for name, trips in self.trips.items()}

    @cached_property
    def positions(self) -> dict[str, IntArray]:
        """Places of the loops over tiles, from the outside in."""
        names = [axis.name for axis in self.kernel.axes]
        if "order" not in self._columns:
            return {name: np.full(len(self.rows), place) for place, name in enumerate(names)}
        column = self._columns["order"]
        orders = [str(order).split(" ") for order in self.knobs[column].values]
        return {
            name: np.array([order.index(name) for order in orders])[self.rows[:, column]] for name in names
        }

    # Loops over sums

    @cached_property
    def chunks(self) -> dict[str, IntArray]:
        """Iterations inside a chunk, by loop over a sum."""
        return {
            loop_of_sum(stage, axis.name): self.number(f"chunk {loop_of_sum(stage, axis.name)}", 1)
            for stage in self.kernel.stages
            for axis in self.kernel.sums(stage)
        }

    def chunk_trips(self, stage: Tensor) -> IntArray:
        """Return the chunks of a stage's sum."""
        return prod(
            (
                -(-axis.extent // self.chunks[loop_of_sum(stage, axis.name)])
                for axis in self.kernel.sums(stage)
            ),
            start=self.one,
        )

    # Places

    @property
    def inside(self) -> int:
        """The level of a tile: inside all loops over tiles and virtual threads."""
        return len(self.kernel.axes) + 1

    @cached_property
    def levels(self) -> dict[str, IntArray]:
        """Where each stage is computed: inside so many loops over tiles; `inside`: in a tile; one more: in a
        chunk."""
        found = {self.kernel.output.name: np.zeros(len(self.rows), np.int64)}
        for stage in self.kernel.stages[-2::-1]:
            over = self.relations.overwritten_by(stage)
            found[stage.name] = self._level(stage) if over is None else found[over.name]
        return found

    def _level(self, stage: Tensor) -> IntArray:
        knob = f"place {stage.name}"
        level = np.full(len(self.rows), self.inside)
        level = np.where(self.chosen(knob, CHUNK), self.inside + 1, level)
        level = np.where(self.chosen(knob, REUSE), self._reuse(stage), level)
        return np.where(self.chosen(knob, FIRST), 0, level)

    def _reuse(self, stage: Tensor) -> IntArray:
        """Return the level inside all loops of several iterations with which a stage moves."""
        level = np.zeros(len(self.rows), np.int64)
        for name in self.relations.depends[stage.name]:
            level = np.maximum(level, np.where(self.outer[name] > 1, self.positions[name] + 1, 0))
        return level

    def reader(self, stage: Tensor) -> Tensor:
        """Return the sum in whose chunks a stage may be computed."""
        over = self.relations.overwritten_by(stage)
        return self.kernel.readers(stage)[0] if over is None else self.reader(over)

    def extents(self, stage: Tensor) -> dict[str, IntArray]:
        """Return the extents of all loops as far as they are inside the place of a stage."""
        level = self.levels[stage.name]
        found = {}
        for axis in self.kernel.axes:
            fixed = np.minimum(self.tiles[axis.name] * self.apart[axis.name], axis.extent)
            several = np.where(self.positions[axis.name] < level, fixed, axis.extent)
            found[axis.name] = np.where(level >= self.inside, self.tiles[axis.name], several)
        for other in self.kernel.stages:
            own = other is self.reader(stage) if stage is not self.kernel.output else False
            for axis in self.kernel.sums(other):
                name = loop_of_sum(other, axis.name)
                chunk = (level > self.inside) & own
                found[name] = np.where(chunk, self.chunks[name], axis.extent)
        return found

    @cached_property
    def sides(self) -> dict[str, list[IntArray]]:
        """The sides of the box that is computed of each stage at its place, but those of an element."""
        return {stage.name: list(self._sides(stage)) for stage in self.kernel.stages[:-1]}

    def _sides(self, stage: Tensor) -> Iterator[IntArray]:
        first = self.levels[stage.name] == 0  # before all loops: all of it, whether it is read or not
        boxes = self.relations.boxes(stage, self.extents(stage))
        for side, extent in zip(boxes, stage.shape, strict=False):
            yield np.where(first, extent, side)

    @cached_property
    def elements(self) -> dict[str, IntArray]:
        """Elements of the box that is computed of each stage at its place."""
        return {name: prod(sides, start=self.one) for name, sides in self.sides.items()}

    def times(self, stage: Tensor) -> IntArray:
        """Return how often a stage is computed."""
        level = self.levels[stage.name]
        found = self.one
        for axis in self.kernel.axes:
            trips = np.where(level >= self.inside, self.trips[axis.name], self.outer[axis.name])
            found = found * np.where(self.positions[axis.name] < level, trips, 1)
        return found * np.where(level > self.inside, self.chunk_trips(self.reader(stage)), 1)

    @cached_property
    def used(self) -> dict[MemoryType, IntArray]:
        """Elements of each memory that are taken."""
        found = {memory: np.zeros(len(self.rows), np.int64) for memory in SCRATCHPADS.values()}
        for stage in self.kernel.stages[:-1]:
            if not self.relations.in_place(stage):
                memory = SCRATCHPADS[self.kernel.units[stage.name].scope]
                found[memory] = found[memory] + self._taken(stage)
        return found

    def _taken(self, stage: Tensor) -> IntArray:
        """Return the elements that a stage takes in all virtual threads."""
        of_threads = np.where(self.levels[stage.name] >= self.inside, self.threads, 1)
        taken: IntArray = self.elements[stage.name] * of_threads
        return taken

    def legal(self) -> np.ndarray:
        """Return bool[n]: whether all fits on chip, and every virtual thread has a tile."""
        fits = np.ones(len(self.rows), bool)
        for memory, taken in self.used.items():
            fits &= taken <= self.kernel.config.depth(memory)
        for stage in self.kernel.stages[:-1]:
            if self.kernel.units[stage.name].scope is Scope.PARAMETERS:
                fits &= self._taken(stage) <= MOST_PARAMETER_SETS * len(Parameter)
        for name, trips in self.trips.items():
            fits &= trips >= self.apart[name]
        return fits

    # Points that are the same

    def canonical(self) -> IntArray:
        """Return the rows with the first of all values that make the same program."""
        rows = self.rows.copy()
        for column, knob in enumerate(self.knobs):
            kind, _, name = knob.name.partition(" ")
            if knob.name == "over":
                rows[self.threads == 1, column] = 0
            elif knob.name == "order":
                rows[:, column] = self._first_alike(
                    [self._nesting(str(order)) for order in knob.values], column
                )
            elif kind == "place":
                stage = next(one for one in self.kernel.stages if one.name == name)
                alike = [self._depth(self._with(column, place), stage) for place in range(len(knob.values))]
                rows[:, column] = self._first_alike(alike, column)
        return rows

    def _with(self, column: int, place: int) -> "Table":
        """Return the points with another value of one knob."""
        rows = self.rows.copy()
        rows[:, column] = place
        return self.of(rows)

    def _first_alike(self, keys: list[IntArray], column: int) -> IntArray:
        """Return the first place whose key is that of the present one."""
        every = np.stack(keys)
        own = every[self.rows[:, column], np.arange(len(self.rows))]
        first: IntArray = np.argmax(every == own, axis=0)
        return first

    def _nesting(self, order: str) -> IntArray:
        """Return a number for the loops of several iterations in an order."""
        names = [axis.name for axis in self.kernel.axes]
        key = np.zeros(len(self.rows), np.int64)
        for name in order.split(" "):
            several = self.outer[name] > 1
            key = np.where(several, key * (len(names) + 1) + names.index(name) + 1, key)
        return key

    def _depth(self, table: "Table", stage: Tensor) -> IntArray:
        """Return the number of loops of several iterations around a stage."""
        level = table.levels[stage.name]
        depth = np.zeros(len(self.rows), np.int64)
        for name, outer in self.outer.items():
            depth += (outer > 1) & (self.positions[name] < level)
        depth += (self.threads > 1) & (level >= self.inside)
        chunked = (self.chunk_trips(self.reader(stage)) > 1) & (level > self.inside)
        found: IntArray = depth + chunked
        return found
