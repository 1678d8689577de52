"""Points: what a search sees of a space of schedules."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Points(Protocol):
    """The legal points of a space, which are numbered from 0."""

    def __len__(self) -> int: ...

    @property
    def knobs(self) -> NDArray[np.int64]:
        """int64[n, k]: the points as numbers. Points that differ in few columns are alike."""
        ...

    @property
    def features(self) -> NDArray[np.float64]:
        """float64[n, f]: what a cost model knows of them."""
        ...

    @property
    def estimates(self) -> NDArray[np.float64]:
        """float64[n]: the cycles of an analytic model; 1 for every point where there is none."""
        ...


TRIES = 12  # of changes that may lead to a neighbour
BOTH = 0.4  # chance of changing two knobs at once
FAR = 0.3  # chance of any value of a knob instead of the next value


class Neighbours:
    """Which points are alike, by their knobs.

    A row of knobs has a code: the places of its values among the values that occur, as digits. Codes of
    points are sorted, so that many rows are looked up at once.
    """

    def __init__(self, points: Points) -> None:
        columns = [np.unique(column, return_inverse=True) for column in points.knobs.T]
        self.digits = np.stack([digits for _, digits in columns], axis=1)
        self.counts = np.array([len(values) for values, _ in columns])
        self.weights = np.concatenate([[1], np.cumprod(self.counts[:-1])])
        codes = self.digits @ self.weights
        self.order = np.argsort(codes)
        self.codes = codes[self.order]
        self.moving = np.flatnonzero(self.counts > 1)

    def places(self, digits: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[n]: the points that have these digits, int64[n, k]; -1 where none has."""
        codes = digits @ self.weights
        where = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        places: NDArray[np.int64] = np.where(self.codes[where] == codes, self.order[where], -1)
        return places

    def mutated(self, places: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return int64[n]: for each point a point that differs in one or two knobs, mostly by one step; the
        point itself where several tries give none."""
        moved = places.copy()
        for _ in range(TRIES if len(self.moving) else 0):
            stays = np.flatnonzero(moved == places)
            if not len(stays):
                break
            neighbours = self.places(self._changed(self.digits[places[stays]], rng))
            moved[stays] = np.where(neighbours >= 0, neighbours, places[stays])
        return moved

    def _changed(self, digits: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        rows = np.arange(len(digits))
        for times in range(2):
            knobs = rng.choice(self.moving, size=len(digits))
            step = digits[rows, knobs] + rng.choice((-1, 1), size=len(digits))
            anywhere = rng.integers(self.counts[knobs])
            value = np.where(rng.random(len(digits)) < FAR, anywhere, step)
            changes = rng.random(len(digits)) < (BOTH if times else 1)
            digits[rows, knobs] = np.where(
                changes, np.clip(value, 0, self.counts[knobs] - 1), digits[rows, knobs]
            )
        return digits

    def crossed(self, first: int, second: int, rng: np.random.Generator) -> int | None:
        """Return a point that has some knobs of each of two; None where what is drawn is no point."""
        mask = rng.random(len(self.counts)) < 0.5
        place = int(self.places(np.where(mask, self.digits[first], self.digits[second])[None])[0])
        return None if place < 0 else place
