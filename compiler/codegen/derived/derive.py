"""From a tensor expression to a good program, with no schedule written by hand."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.points import Point, Points
from vdla.compiler.codegen.derived.trial import bytes_of
from vdla.compiler.codegen.derived.units import UnderivableError
from vdla.compiler.codegen.stream import emit
from vdla.compiler.ir.nodes import Func
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.target import Target
from vdla.runtime.stream.builder import Stream, StreamBuilder

TRIALS = 200
BATCH = 8  # neighbours that are measured before the best point is looked at again


@dataclass(frozen=True)
class Found:
    """The best point of a kernel that was measured.

    Attributes:
        cycles: of the kernel alone.
        trials: points that were measured.
        illegal: reasons and how many points were refused for each.
    """

    points: Points
    point: Point
    cycles: int
    trials: int
    illegal: dict[str, int]

    @property
    def program(self) -> Func:
        """The loop program."""
        return self.points.program(self.point)


@dataclass(frozen=True)
class Derived:
    """A tensor expression as programs of the accelerator, one after another.

    Attributes:
        target: that they were chosen for.
    """

    found: tuple[Found, ...]
    target: Target

    @property
    def stream(self) -> Stream:
        """The joined programs; tensors have the names that the expression gives them."""
        builder = StreamBuilder(self.target.config)
        for one in self.found:
            emit(one.program, builder)
        return builder.finish()

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of all tensors in DRAM, by name; those between two programs too."""
        buffers = [
            tensor.buffer
            for one in self.found
            for tensor in (*one.points.kernel.placeholders, one.points.kernel.output)
        ]
        return {buffer.name: bytes_of(buffer) for buffer in buffers}


def derive(output: Tensor, target: Target, *, trials: int = TRIALS, seed: int = 0) -> Derived:
    """Derive spaces of schedules for `output`, and take the best of `trials` points of each kernel.

    Raises:
        UnderivableError: instructions do not compute it, it does not fit on chip, or no trial was legal.
    """
    kernels = kernels_of(output, target.config)
    return Derived(tuple(best_of(Points(kernel, target, seed=seed), trials) for kernel in kernels), target)


def best_of(points: Points, trials: int) -> Found:
    """Return the point with the fewest cycles among `trials`: half have the best estimates, half are close to
    the best point so far.

    Raises:
        UnderivableError: all are illegal.
    """
    cycles: dict[int, float] = {}
    illegal: dict[str, int] = {}
    for place in _proposed(points, trials, cycles):
        trial = points.tried(place)
        cycles[place] = inf if trial.cycles is None else trial.cycles
        if trial.cycles is None:
            illegal[trial.reason] = illegal.get(trial.reason, 0) + 1
    best = min(cycles, key=cycles.__getitem__)
    if cycles[best] == inf:
        raise UnderivableError(
            f"{points.kernel.output.name}: all {len(cycles)} points that were tried are illegal: "
            f"{next(iter(illegal))}"
        )
    return Found(points, points.point(best), int(cycles[best]), len(cycles), illegal)


def _proposed(points: Points, trials: int, cycles: dict[int, float]) -> Iterator[int]:
    """Yield points to be measured, while their cycles come in."""
    order = np.argsort(points.estimates, kind="stable")
    yield from map(int, order[: -(-trials // 2)])
    while (left := min(trials, len(points)) - len(cycles)) > 0:
        best = min(cycles, key=cycles.__getitem__)
        distance = np.count_nonzero(points.knobs != points.knobs[best], axis=1).astype(float)
        distance[list(cycles)] = inf
        nearest = np.lexsort((points.estimates, distance))
        yield from map(int, nearest[: min(BATCH, left)])
