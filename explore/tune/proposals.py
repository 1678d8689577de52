"""Explorers for the choices of a space, which know what was measured of other spaces."""

from collections.abc import Sequence

from vdla.compiler.codegen.space import ChoiceSpace
from vdla.explore.tune.explorers import EXPLORERS, Explorer
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.model import Analytic, CostModel, Learned, Measured
from vdla.explore.tune.session import Making, Results
from vdla.hw.spec.extras import require_package

LEARNING = "model"  # the explorer whose model learns


def making(name: str, warm: tuple[Measured, ...] = ()) -> Making:
    """Return what makes the explorers of a name, one of EXPLORERS.

    Args:
        warm: what a model that learns knows from the beginning.

    Raises:
        ToolError: the explorer learns, and xgboost is not installed.
    """
    require_library(name, "name another with --explorer")
    points: dict[ChoiceSpace, SpacePoints] = {}

    def points_of(space: ChoiceSpace) -> SpacePoints:
        return points.setdefault(space, SpacePoints(space))

    def make(space: ChoiceSpace, seed: int, others: Sequence[tuple[ChoiceSpace, Results]]) -> Explorer:
        model: CostModel = Analytic()
        if name == LEARNING:
            measurements = [Measured.of(points_of(other_space), results) for other_space, results in others]
            model = Learned((*warm, *(measured for measured in measurements if measured is not None)))
        return EXPLORERS[name](points_of(space), seed, model)

    return make


def require_library(name: str, otherwise: str) -> None:
    """Refuse the explorer of a name where what it needs is not installed.

    Args:
        otherwise: what else to do than to install it.

    Raises:
        ToolError: the explorer learns, and xgboost is not installed.
    """
    if name == LEARNING:
        require_package("xgboost", f"the explorer {name}", otherwise)
