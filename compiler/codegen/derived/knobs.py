"""The rules of loops: what may be chosen for a kernel.

- tile: each loop of the output is split in tiles and what is inside one.
- chunk: each loop over a sum is split likewise; chunks stand outside.
- order: loops over tiles with which a load moves stand outside those with which it does not, one order for
  each load.
- threads: one loop over tiles becomes virtual threads.
- walk: inside a chunk, the sums of an element follow one another, or the elements of a sum.
- place: what a sum reads is computed for a chunk or for a tile. What is loaded and stays the same over some
  loops may also be loaded outside those of them that stand innermost, or once at first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.compiler.codegen.derived.boxes import Relations, loop_of_sum
from vdla.compiler.codegen.derived.kernels import Kernel
from vdla.compiler.te.tensor import Tensor

MOST_THREADS = 4
FEW = 32  # trips of a loop; up to here all sizes of tiles are offered that differ in their number
RATIO = 1.4  # from one number of tiles to the next, beyond

CHUNK, TILE, REUSE, FIRST = "chunk", "tile", "reuse", "first"
"""Where a stage is computed: in a chunk of the sum that reads it, in a tile of the output, outside the loops
at the end of the order that all need the same of it, or before all loops."""

WITHIN, ACROSS = "within", "across"
"""How a chunk is walked: the sum within an element is inside, or the loops across elements are."""

Value = int | str


@dataclass(frozen=True, slots=True)
class Knob:
    """One number or word of a point.

    Attributes:
        name: its kind, and what it is for.
        values: that it may have.
    """

    name: str
    values: tuple[Value, ...]


def sizes(extent: int) -> tuple[int, ...]:
    """Return the sizes of tiles of a loop, in ascending order: the least for each number of tiles."""
    numbers = {1.0}
    while (greatest := max(numbers)) < extent:
        numbers.add(greatest + 1 if extent <= FEW else max(greatest + 1, greatest * RATIO))
    return tuple(sorted({-(-extent // min(int(number), extent)) for number in numbers}))


def divisors(extent: int) -> tuple[int, ...]:
    """Return the sizes of chunks of a sum, all alike, in ascending order."""
    return tuple(size for size in sizes(extent) if extent % size == 0)


def knobs_of(kernel: Kernel, relations: Relations) -> tuple[Knob, ...]:
    """Return what may be chosen for a kernel; what has one value only is left out."""
    return tuple(knob for knob in _knobs(kernel, relations) if len(knob.values) > 1)


def _knobs(kernel: Kernel, relations: Relations) -> Iterator[Knob]:
    for axis in kernel.axes:
        yield Knob(f"tile {axis.name}", sizes(axis.extent))
    for stage in kernel.stages:
        for axis in kernel.sums(stage):
            yield Knob(f"chunk {loop_of_sum(stage, axis.name)}", divisors(axis.extent))
    yield Knob("order", tuple(orders(kernel, relations)))
    yield Knob("threads", tuple(range(1, MOST_THREADS + 1)))
    yield Knob("over", tuple(axis.name for axis in kernel.axes if axis.extent > 1))
    for stage in kernel.stages:
        if any(axis.extent > 1 for axis in kernel.sums(stage)):
            yield Knob(f"walk {stage.name}", (WITHIN, ACROSS))
    for stage in kernel.stages[:-1]:
        if relations.overwritten_by(stage) is None:
            yield Knob(f"place {stage.name}", places(stage, kernel, relations))


def orders(kernel: Kernel, relations: Relations) -> list[str]:
    """Return the orders of the loops over tiles, each as the names of all loops."""
    names = [axis.name for axis in kernel.axes]
    found = [" ".join(names)]
    for stage in kernel.stages[:-1]:
        same = relations.invariant(stage) if kernel.units[stage.name].loads else []
        found.append(" ".join([*(name for name in names if name not in same), *same]))
    return list(dict.fromkeys(found))


def places(stage: Tensor, kernel: Kernel, relations: Relations) -> tuple[str, ...]:
    """Return where a stage that is not overwritten may be computed."""
    reader, *others = kernel.readers(stage)
    summed = not others and any(axis.extent > 1 for axis in kernel.sums(reader))
    found = [CHUNK] * summed + [TILE]
    if kernel.units[stage.name].loads and relations.invariant(stage):
        found += [REUSE, FIRST]
    return tuple(found)
