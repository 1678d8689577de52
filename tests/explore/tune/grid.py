"""A space of points whose best point is known."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

SIDE = 12


@dataclass(frozen=True, eq=False)
class Grid:
    """Points of three knobs, some of which are missing; cycles rise with the distance from `best`."""

    best: tuple[int, int, int] = (3, 7, 5)
    skew: float = 0.0  # of the estimates

    @cached_property
    def knobs(self):
        rows = np.stack(np.meshgrid(*[np.arange(SIDE)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
        return rows[rows.sum(axis=1) % 5 != 1]

    @cached_property
    def cycles(self):
        away = self.knobs - np.array(self.best)
        return 1000.0 + 20 * (away**2).sum(axis=1) + 15 * (away[:, 0] * away[:, 1])

    @cached_property
    def features(self):
        return np.concatenate([self.knobs, self.knobs**2], axis=1).astype(np.float64)

    @cached_property
    def estimates(self):
        return np.where(self.skew, 1000 + self.skew * self.knobs[:, 0], 1.0)

    def __len__(self):
        return len(self.knobs)
