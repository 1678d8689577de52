"""How much of each stage of a kernel one iteration of its loops needs: in closed form, for many points at
once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.derived.kernels import Kernel
from vdla.compiler.codegen.nest import TILE_RANK
from vdla.compiler.ir.affine import Affine, affine
from vdla.compiler.ir.nodes import Expr, Scope, Var
from vdla.compiler.ir.rewrite import variables
from vdla.compiler.te.tensor import Reduce, Tensor

IntArray: TypeAlias = NDArray[np.int64]
Extents = Mapping[str, IntArray]  # of loops, by name: int64[n]


@dataclass(frozen=True)
class Reading:
    """One element that a stage reads: the affine forms of its subscripts, but those of its tile."""

    reader: Tensor
    forms: tuple[Affine, ...]


class Relations:
    """What the stages of a kernel read of each other."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.readings = {stage.name: tuple(_readings(stage, kernel)) for stage in kernel.stages}
        self.depends = self._depends()

    def _depends(self) -> dict[str, frozenset[str]]:
        """Return the output's loops with which the part of each stage that is needed moves."""
        found = {self.kernel.output.name: {axis.name: {axis.name} for axis in self.kernel.axes}}
        for stage in self.kernel.stages[-2::-1]:
            found[stage.name] = {axis.name: set() for axis in stage.axes[:-TILE_RANK]}
            for reading in self.readings[stage.name]:
                below = found[reading.reader.name]
                for axis, form in zip(stage.axes, reading.forms, strict=False):
                    for name in _loops_of(form):
                        found[stage.name][axis.name] |= below.get(name, set())
        return {name: frozenset().union(*axes.values()) for name, axes in found.items()}

    def invariant(self, stage: Tensor) -> list[str]:
        """Return the output's loops of several iterations that all need the same part of a stage."""
        return [
            axis.name
            for axis in self.kernel.axes
            if axis.extent > 1 and axis.name not in self.depends[stage.name]
        ]

    def overwritten_by(self, stage: Tensor) -> Tensor | None:
        """Return the stage that is computed in place of another, element by element; None where none is."""
        scope = self.kernel.units[stage.name].scope
        readers = self.kernel.readers(stage)
        if scope is not Scope.ACCUMULATOR or len(readers) != 1:
            return None
        (reader,) = readers
        in_place = self.kernel.units[reader.name].scope is scope and not isinstance(reader.value, Reduce)
        same = all(_is_identity(reading) for reading in self.readings[stage.name])
        return reader if in_place and same and reader.shape == stage.shape else None

    def in_place(self, stage: Tensor) -> bool:
        """Whether a stage needs no memory of its own."""
        names = [one.name for one in stage.inputs]
        return any(
            other.name in names and self.overwritten_by(other) is stage for other in self.kernel.stages
        )

    def boxes(self, stage: Tensor, extents: Extents) -> list[IntArray]:
        """Return the sides, but those of an element, of the box of a stage that is needed where loops of the
        output and of sums have these extents."""
        if stage is self.kernel.output:
            return [extents[axis.name] for axis in self.kernel.axes]
        readings = [(reading, self._loops(reading.reader, extents)) for reading in self.readings[stage.name]]
        shape = stage.shape[:-TILE_RANK]
        return [
            _side([(one.forms[place], loops) for one, loops in readings], extent)
            for place, extent in enumerate(shape)
        ]

    def _loops(self, reader: Tensor, extents: Extents) -> Extents:
        """Return the extents of a reader's loops."""
        own = zip(reader.axes, self.boxes(reader, extents), strict=False)
        loops = {axis.name: side for axis, side in own}
        return loops | {
            axis.name: extents[loop_of_sum(reader, axis.name)] for axis in self.kernel.sums(reader)
        }


def loop_of_sum(stage: Tensor, axis: str) -> str:
    """Return the name of a loop over a sum, which no other stage has."""
    return f"{stage.name}.{axis}"


def _readings(stage: Tensor, kernel: Kernel) -> Iterator[Reading]:
    for reader in kernel.readers(stage):
        for element in reader.elements:
            if element.tensor.name == stage.name:
                yield Reading(reader, tuple(affine(index) for index in element.indices[:-TILE_RANK]))


def _loops_of(form: Affine) -> set[str]:
    """Return the loops that a subscript depends on."""
    found: set[str] = set()
    for atom, _ in form.terms:
        found |= variables(atom)
    return found


def _is_identity(reading: Reading) -> bool:
    own: list[Expr] = [axis.var for axis in reading.reader.axes[:-TILE_RANK]]
    return [form.expr() for form in reading.forms] == own


def _side(forms: list[tuple[Affine, Extents]], extent: int) -> IntArray:
    """Return the elements along one axis, of `extent`, that these subscripts reach; all where one is not
    affine."""
    if not all(form.is_linear for form, _ in forms):
        return np.asarray(extent)
    spans = [_span(form, loops) for form, loops in forms]
    low = reduce(np.minimum, [span[0] for span in spans])
    high = reduce(np.maximum, [span[1] for span in spans])
    side: IntArray = np.minimum(high - low + 1, extent)
    return side


def _span(form: Affine, loops: Extents) -> tuple[IntArray, IntArray]:
    """Return the least and the greatest value of a subscript."""
    low = high = np.asarray(form.constant)
    for atom, factor in form.terms:
        assert isinstance(atom, Var), "only loops are terms of a linear form"
        move = factor * (loops.get(atom.name, np.asarray(1)) - 1)
        low, high = low + np.minimum(move, 0), high + np.maximum(move, 0)
    return low, high
