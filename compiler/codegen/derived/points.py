"""The space of a kernel: its points, their features, and what they take."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.derived.boxes import IntArray, Relations
from vdla.compiler.codegen.derived.build import schedule_of
from vdla.compiler.codegen.derived.features import FloatArray, Work, features_of
from vdla.compiler.codegen.derived.kernels import Kernel
from vdla.compiler.codegen.derived.knobs import Knob, Value, knobs_of
from vdla.compiler.codegen.derived.table import Table
from vdla.compiler.codegen.derived.trial import Trial, tried
from vdla.compiler.codegen.derived.units import UnderivableError
from vdla.compiler.ir.nodes import Func, IrError
from vdla.compiler.te.schedule import Schedule
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.target import Target

MOST_POINTS = 50_000  # of a space that is sampled
DRAWS = 4  # for each point of the sample: some do not fit on chip, some are the same
ROUNDS = 6  # of changes to the points with the best estimates
PARENTS = 2_000


@dataclass(frozen=True)
class Point:
    """A schedule of a kernel: the values of its knobs.

    Attributes:
        kernel: digest of the kernel's text and its configuration.
        values: by knob.
    """

    kernel: str
    values: Mapping[str, Value]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of kernel and values."""
        return digest_of([self.kernel, json.dumps(dict(self.values), sort_keys=True)])

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())

    def to_json(self) -> dict[str, object]:
        """Return it as plain JSON values, which `Points.from_json` reads."""
        return {"kernel": self.kernel, "values": dict(self.values)}


class Points:
    """The points of a kernel on a target: all legal ones, or a sample.

    Of programs that are the same, one point is kept. Half of a sample is drawn at random. The other half
    comes from changes to points with the best estimates, one or two knobs at a time.

    Args:
        most: points of a sample.
        seed: of the sample.

    Raises:
        UnderivableError: no point fits the memories.
    """

    def __init__(self, kernel: Kernel, target: Target, *, most: int = MOST_POINTS, seed: int = 0) -> None:
        self.kernel, self.target = kernel, target
        self.relations = Relations(kernel)
        self.space = knobs_of(kernel, self.relations)
        self.table = self._table(most, np.random.default_rng(seed))
        if not len(self.table):
            raise UnderivableError(
                f"{kernel.output.name}: no tile of it fits the memories of {target.config.name}; "
                "give it larger buffers"
            )

    def __len__(self) -> int:
        return len(self.table)

    @property
    def knobs(self) -> NDArray[np.int64]:
        """int64[n, k]: one row for each point; the places of its values in those of the knobs, `space`."""
        return self.table.rows

    @cached_property
    def work(self) -> Work:
        """What the points move and compute."""
        return Work(self.table, self.target.memory)

    @cached_property
    def features(self) -> FloatArray:
        """float64[n, f]; see `features_of`."""
        return features_of(self.work)

    @cached_property
    def estimates(self) -> FloatArray:
        """float64[n]: estimated cycles."""
        return self.work.cycles()

    def point(self, place: int) -> Point:
        """Return one of the points."""
        return Point(self.digest, self.table.values(place))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the kernel's text and its configuration."""
        return digest_of([str(self.kernel), self.kernel.config.digest])

    def place(self, point: Point) -> int | None:
        """Return the place of a point; None where it is not among the points."""
        own = self._places.get(self._row(point.values).tobytes())
        return own if point.kernel == self.digest else None

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {row.tobytes(): place for place, row in enumerate(self.table.rows)}

    def from_json(self, values: Mapping[str, Any]) -> Point:
        """Return the point that `Point.to_json` gave as plain JSON values.

        Raises:
            IrError: they are none of this kernel's.
        """
        point = Point(str(values.get("kernel")), dict(values.get("values", {})))
        self._row(point.values)
        if point.kernel != self.digest:
            raise IrError(f"the point belongs to kernel {point.kernel[:12]}, not to {self.digest[:12]}")
        return point

    def _row(self, values: Mapping[str, Value]) -> IntArray:
        if set(values) != {knob.name for knob in self.space}:
            raise IrError(
                f"a point of {self.kernel.output.name} has values for "
                f"{', '.join(knob.name for knob in self.space)}, not for {', '.join(values) or 'nothing'}"
            )
        return np.array([_place_of(knob, values[knob.name]) for knob in self.space], np.int64)

    # Programs

    def schedule(self, point: Point) -> Schedule:
        """Return the schedule of a point."""
        table = self.table.of(self._row(point.values)[None])
        levels = {name: int(level[0]) for name, level in table.levels.items()}
        return schedule_of(self.kernel, self.relations, point.values, levels)

    def program(self, point: Point) -> Func:
        """Return the loop program of a point, verified.

        Raises:
            IrError: it is illegal; saying why.
        """
        return self.schedule(point).lower(self.kernel.output.name)

    def tried(self, place: int) -> Trial:
        """Lower, verify and simulate a point."""
        return tried(lambda: self.program(self.point(place)), self.target)

    def measure(self, place: int) -> float:
        """Return the cycles of a point; inf where it is illegal."""
        trial = self.tried(place)
        return inf if trial.cycles is None else float(trial.cycles)

    # The sample

    def _table(self, most: int, rng: np.random.Generator) -> Table:
        """Return the points: all of them, if there are no more than so many draws of a sample."""
        radices = [len(knob.values) for knob in self.space]
        empty = Table(self.kernel, self.relations, self.space, np.zeros((0, len(radices)), np.int64))
        if (total := prod(radices)) <= DRAWS * most:
            every = np.stack(np.unravel_index(np.arange(total), radices or [1]), 1)[:, : len(radices)]
            found = _distinct(empty.of(every.astype(np.int64)))
        else:
            found = _distinct(empty.of(rng.integers(0, radices, (DRAWS * most, len(radices)))))
            found = self._half(found, most - most // 2, rng)
            found = self._climbed(found, radices, rng)
        return found if len(found) <= most else self._half(found, most, rng)

    def _half(self, found: Table, most: int, rng: np.random.Generator) -> Table:
        """Return `most` points, half of them those with the best estimates, the others at random."""
        if len(found) <= most:
            return found
        order = np.argsort(Work(found, self.target.memory).cycles(), kind="stable")
        others = rng.permutation(order[most // 2 :])[: most - most // 2]
        return found.of(found.rows[np.sort(np.concatenate([order[: most // 2], others]))])

    def _climbed(self, found: Table, radices: list[int], rng: np.random.Generator) -> Table:
        """Return the points and what changes to the best of them lead to."""
        for _ in range(ROUNDS):
            if not len(found):
                return found
            order = np.argsort(Work(found, self.target.memory).cycles(), kind="stable")[:PARENTS]
            children = found.rows[order].copy()
            for _ in range(2):
                column = rng.integers(0, len(radices), len(children))
                children[np.arange(len(children)), column] = rng.integers(0, np.array(radices)[column])
            found = _distinct(found.of(np.concatenate([found.rows, children])))
        return found


def _distinct(table: Table) -> Table:
    """Return the legal points of a table, each program once."""
    legal = table.of(table.rows[table.legal()])
    return table.of(np.unique(legal.canonical(), axis=0)) if len(legal) else legal


def _place_of(knob: Knob, value: Value) -> int:
    if type(value) not in (int, str) or value not in knob.values:
        raise IrError(f"{knob.name} = {value!r} is none of {', '.join(map(str, knob.values))}")
    return knob.values.index(value)
