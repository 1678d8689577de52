"""Explorers: which points of a space are measured next. They ask and are told, and never measure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vdla.explore.tune.model import CostModel, Measured
from vdla.explore.tune.points import Neighbours, Points

POPULATION = 32  # of the evolutionary explorer
FRESH = 0.1  # share of points that are drawn at random, beside the derived points
CHAINS = 64  # of simulated annealing
STEPS = 60  # of each chain
HOT, COLD = 1.0, 0.02  # temperatures, in standard deviations of the scores
DIVERSITY = 0.25  # what a value of a knob that the batch has already costs, in standard deviations


class Explorer(Protocol):
    """A search over numbered points."""

    def ask(self, count: int) -> list[int]:
        """Return at most `count` points that were not asked for before; none when all were."""
        ...

    def tell(self, places: Sequence[int], cycles: Sequence[float]) -> None:
        """Say what points cost, also of points that were never asked for; inf: they are illegal."""
        ...


@dataclass
class Random:
    """Points in random order."""

    points: Points
    seed: int

    def __post_init__(self) -> None:
        self.order = np.random.default_rng(self.seed).permutation(len(self.points))
        self.seen = np.zeros(len(self.points), bool)

    def ask(self, count: int) -> list[int]:
        """Return the next points of the order, without the points that were told."""
        places = [int(place) for place in self.order[~self.seen[self.order]][:count]]
        self.seen[places] = True
        return places

    def tell(self, places: Sequence[int], cycles: Sequence[float]) -> None:
        """Leave points out of what is asked for; what they cost does not matter."""
        self.seen[list(places)] = True


class Exhaustive(Random):
    """All points, in the order of their estimates."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.order = np.argsort(self.points.estimates, kind="stable")


@dataclass
class Informed(Random):
    """Points that follow from what was measured, and random points beside them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rng = np.random.default_rng(self.seed)
        self.neighbours = Neighbours(self.points)
        self.cycles: dict[int, float] = {}

    def tell(self, places: Sequence[int], cycles: Sequence[float]) -> None:
        """Keep what points cost."""
        super().tell(places, cycles)
        self.cycles |= dict(zip(places, cycles, strict=True))


@dataclass
class Evolutionary(Informed):
    """Points that are derived from the best so far, by changes of knobs and by crossing two."""

    def ask(self, count: int) -> list[int]:
        """Return children of the best points, and random points where these are too few."""
        if len(self.cycles) < POPULATION:
            return super().ask(count)
        parents = sorted(self.cycles, key=self.cycles.__getitem__)[:POPULATION]
        children: list[int] = []
        for _ in range(10 * count):
            child = self.child(parents)
            if len(children) < count and child is not None and not self.seen[child]:
                children.append(child)
                self.seen[child] = True
        return children + super().ask(count - len(children))

    def child(self, parents: Sequence[int]) -> int | None:
        """Return a point derived from parents, the first of which are the best; None if it is no point."""
        if self.rng.random() < FRESH:
            return None
        point, partner = (parents[int(len(parents) * self.rng.random() ** 2)] for _ in range(2))
        if self.rng.random() < 0.5:
            crossed = self.neighbours.crossed(point, partner, self.rng)
            if crossed is None:
                return None
            point = crossed
        return int(self.neighbours.mutated(np.array([point]), self.rng)[0])


@dataclass
class Annealing(Informed):
    """Simulated annealing over a learned cost model, which learns from every batch.

    Some points of a batch are random (ε-greedy). The others are the best that the chains met, of which each
    batch takes points with different knobs. Source: Chen et al., "Learning to Optimize Tensor Programs",
    NeurIPS 2018, section 4.
    """

    model: CostModel

    def ask(self, count: int) -> list[int]:
        """Return the best points that the chains met, and random points beside them."""
        fresh = int(self.rng.binomial(count, FRESH)) if self.cycles else 0
        chosen = self.chosen(count - fresh)
        self.seen[chosen] = True
        return chosen + super().ask(count - len(chosen))

    def chosen(self, count: int) -> list[int]:
        """Return the best points that the chains met, with different knobs."""
        scores = self.model.scores(self.points)
        met = self.annealed(scores)
        met = met[~self.seen[met]]
        spread = float(scores.std()) or 1.0
        taken: list[int] = []
        costs = np.zeros(len(met))
        for _ in range(min(count, len(met))):
            best = int(np.argmax(scores[met] / spread - costs))
            taken.append(int(met[best]))
            alike = (self.points.knobs[met] == self.points.knobs[met[best]]).mean(axis=1)
            costs += DIVERSITY / count * alike
            costs[best] = np.inf
        return taken

    def annealed(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the points that chains met on their way to high scores, each once."""
        best = sorted(self.cycles, key=self.cycles.__getitem__)[: CHAINS // 2]
        free = self.rng.integers(len(self.points), size=CHAINS - len(best))
        chains = np.concatenate([np.array(best, np.int64), free])
        met = [chains]
        for temperature in np.geomspace(HOT, COLD, STEPS) * (float(scores.std()) or 1.0):
            moved = self.neighbours.mutated(chains, self.rng)
            gain = (scores[moved] - scores[chains]) / temperature
            accepted = np.log(self.rng.random(CHAINS)) < gain
            chains = np.where(accepted, moved, chains)
            met.append(moved)
        return np.unique(np.concatenate(met))

    def tell(self, places: Sequence[int], cycles: Sequence[float]) -> None:
        """Keep what points cost, and let the model learn from all of it."""
        super().tell(places, cycles)
        measured = Measured.of(self.points, self.cycles)
        if measured is not None:
            self.model.learn(measured)


Making = Callable[[Points, int, CostModel], Explorer]
EXPLORERS: Mapping[str, Making] = {
    "model": Annealing,
    "evolutionary": lambda points, seed, model: Evolutionary(points, seed),
    "random": lambda points, seed, model: Random(points, seed),
    "exhaustive": lambda points, seed, model: Exhaustive(points, seed),
}
"""Explorers by their names; the first is the default."""
