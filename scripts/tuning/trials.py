"""The searches of one task on one target, by every explorer and in one process, and what they leave."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.choose import by_simulator, simulated_cycles, stream_of
from vdla.compiler.codegen.estimate import costs_of
from vdla.compiler.codegen.space import ChoiceFamily, space_of
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Task
from vdla.explore.tune.explorers import EXPLORERS
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.measure import lower_bound, verify_alone
from vdla.explore.tune.model import Learned, Measured
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import MemoryType

BATCH = 16
HOPELESS = 4.0  # estimate over the cycles by default, from which on it stands for the cycles
WORTH_PROVING = 1.02  # best cycles over the bound, from which on more of the space is measured


class Searched(msgspec.Struct, frozen=True):
    """One search.

    Attributes:
        places, cycles: of its trials, in order.
        guessed: which of them, by position, were not simulated: their estimate is HOPELESS.
    """

    explorer: str
    seed: int
    places: list[int]
    cycles: list[int]
    guessed: list[int] = []


class TaskOutcome(msgspec.Struct, frozen=True):
    """What is known of a task on a target.

    Attributes:
        points: choices of its space.
        default: cycles of the compiler's default choice.
        roofline: cycles that the steps of the array, or the bytes that must move, take in any schedule.
        floor: cycles below which no choice of the space gets: measured, or by the choice's steps and bytes.
        best: the fewest cycles of any choice that was measured.
        proving: choices that were measured only for `floor`.
    """

    target: str
    task: str
    points: int
    default: int
    roofline: int
    floor: int
    best: int
    proving: int
    searched: list[Searched]


@dataclass
class Subject:
    """A task whose choices are simulated once each.

    Choices of very many small tiles take seconds to simulate and are never the best: their estimates stand
    for their cycles.
    """

    task: Task
    target: Target

    def __post_init__(self) -> None:
        space = space_of(self.task, self.target)
        assert not isinstance(space, Unfit), f"{self.task} does not fit {self.target.name}"
        self.points = SpacePoints(space)
        self.measured: dict[int, int] = {}
        self.default = by_simulator(space)
        self.hopeless = self.points.estimates > HOPELESS * simulated_cycles(
            self.task, self.default, self.target
        )

    def cycles(self, place: int) -> int:
        """Return the cycles of a choice, or its estimate if it is hopeless."""
        if self.hopeless[place]:
            return int(self.points.estimates[place])
        if place not in self.measured:
            self.measured[place] = simulated_cycles(self.task, self.points.choice(place), self.target)
        return self.measured[place]

    def search(self, name: str, seed: int, trials: int, warm: Sequence[Measured] = ()) -> Searched:
        """Search with an explorer; a learning explorer starts with what was measured of other spaces."""
        explorer, places = EXPLORERS[name](self.points, seed, Learned(tuple(warm))), list[int]()
        while len(places) < trials:
            asked = explorer.ask(min(BATCH, trials - len(places)))
            if not asked:
                break
            explorer.tell(asked, [float(self.cycles(place)) for place in asked])
            places += asked
        guessed = [number for number, place in enumerate(places) if self.hopeless[place]]
        return Searched(name, seed, places, [self.cycles(place) for place in places], guessed)

    def bounds(self) -> NDArray[np.float64]:
        """Return float64[n]: cycles that the steps and the bytes of each choice take at least."""
        return np.concatenate([_bounds(family) for family in self.points.space.families])

    def prove(self, most: int, roofline: int) -> tuple[int, int]:
        """Measure choices whose bound is below the best cycles, at most `most`; return the cycles below which
        no choice gets, and how many were measured."""
        bounds = np.maximum(self.bounds(), roofline)
        best, count = min(self.measured.values()), 0
        for place in np.argsort(bounds, kind="stable"):
            if bounds[place] >= best:
                return best, count
            if int(place) in self.measured:
                continue
            if count == most or best < WORTH_PROVING * bounds[place]:
                return int(bounds[place]), count
            best, count = min(best, self.cycles(int(place))), count + 1
        return best, count


def _bounds(family: ChoiceFamily) -> NDArray[np.float64]:
    """Return float64[n], lower bounds of the cycles: the greater of the cycles of the bus and of the array.

    The cycles of the array include the load before its first slot, at least a block of weights, and the store
    after its last slot, at least a block of outputs. A tile at a border may be smaller; no store is counted
    then.
    """
    if family.work is None or family.table is None:
        return np.zeros(len(family))
    work, table, costs = family.work, family.table, costs_of(family.work, family.table)
    beats = work.memory.cycles_per_beat / work.config.bus_bytes
    first = (1 if work.alike else work.kernel_blocks) * work.config.element_bytes(MemoryType.WGT)
    height, width = work.size.out_size
    whole = (height % table.rows == 0) & (width % table.columns == 0)
    last = whole * table.rows * table.columns * work.config.element_bytes(MemoryType.OUT)
    moved = costs.inputs.beats + costs.weights.beats + costs.outputs.beats
    slots = costs.slots + beats * (first + last)
    bounds: NDArray[np.float64] = np.maximum(slots, moved) + work.memory.latency
    return bounds


def search_task(
    name: str, task: Task, target: Target, plan: Sequence[tuple[str, int]], trials: int, proving: int
) -> TaskOutcome:
    """Find out about a task.

    Args:
        plan: explorers and seeds of the searches.
        proving: choices that may be measured for the proof alone.
    """
    subject = Subject(task, target)
    choice = subject.default
    stream = stream_of(task, choice, target.config)
    default = subject.points.space.place(choice)
    assert default is not None, "a space contains its default choice"
    default_cycles = subject.cycles(default)
    families = [family for family in subject.points.space.families if family.work]
    slots = min((int(costs_of(family.work, family.table).slots.min()) for family in families), default=0)
    roofline = max(lower_bound(stream, target), slots)
    subject.measured.clear()  # a search begins without the default
    searched = [subject.search(explorer, seed, trials) for explorer, seed in plan]
    subject.measured[default] = default_cycles
    verify_alone(
        stream_of(
            task,
            subject.points.choice(min(subject.measured, key=subject.measured.__getitem__)),
            target.config,
        )
    )
    floor, count = subject.prove(proving, roofline)
    best = min(subject.measured.values())
    return TaskOutcome(
        target.name, name, len(subject.points), default_cycles, roofline, floor, best, count, searched
    )
