"""Explorers for the choices of a space, which know what was measured of other spaces."""

from collections.abc import Sequence

from vdla.compiler.codegen.space import Space
from vdla.explore.tune.explorers import EXPLORERS, Explorer
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.model import Analytic, CostModel, Learned, Measured
from vdla.explore.tune.session import Making, Results

LEARNING = "model"  # the explorer whose model learns


def making(name: str) -> Making:
    """Return what makes the explorers of a name, one of EXPLORERS.

    Raises, when the learning explorer is made:
        ToolError: xgboost is not installed.
    """
    points: dict[Space, SpacePoints] = {}

    def points_of(space: Space) -> SpacePoints:
        return points.setdefault(space, SpacePoints(space))

    def make(space: Space, seed: int, others: Sequence[tuple[Space, Results]]) -> Explorer:
        model: CostModel = Analytic()
        if name == LEARNING:
            found = [Measured.of(points_of(other), results) for other, results in others]
            model = Learned(tuple(one for one in found if one is not None))
        return EXPLORERS[name](points_of(space), seed, model)

    return make
