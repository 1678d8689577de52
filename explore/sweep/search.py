"""Search: a sampler chooses the points of a sweep with a limited budget.

The sampler is Optuna's: the tree-structured Parzen estimator by default, which needs fewer evaluations than
genetic search. Points are chosen in batches of a fixed size, so that the choice depends on the specification
alone, and neither on the number of workers nor on their speed. An interrupted search chooses the same points
again and takes what was measured from its folder.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.parameters import LISTS, Value
from vdla.explore.sweep.space import MOST_COMBINATIONS, Point, Space
from vdla.explore.sweep.specification import Specification
from vdla.explore.sweep.tables import OK, PointRow

if TYPE_CHECKING:
    import optuna

AREA = ("lut", "ff", "dsp", "block_ram")
LEAST_BATCH, BATCHES = 4, 32
MOST_TRIES = 20  # of the sampler for a point that is new and satisfies the constraints
STARTUP = 10  # random points before the sampler learns


def require_known(specification: Specification) -> None:
    """Refuse a search for what is not measured.

    Raises:
        SweepError: an objective is an area, and no areas are asked for.
    """
    for name in specification.objectives:
        if name in AREA and specification.area == "none":
            raise SweepError(
                f'objective {name} is not known with area = "none"; choose another, or area = "estimate"'
            )


def objectives_of(rows: Sequence[PointRow], names: Sequence[str]) -> tuple[float, ...] | None:
    """Return the objectives of a point: areas, and the sums of the others over its workloads.

    None where an objective is not known, or a workload has no cycles.
    """
    if any(row.status != OK for row in rows):
        return None
    objectives = [_objective(rows, name) for name in names]
    return None if None in objectives else tuple(value for value in objectives if value is not None)


def _objective(rows: Sequence[PointRow], name: str) -> float | None:
    values = [getattr(row, name) for row in (rows[:1] if name in AREA else rows)]
    return None if None in values else float(sum(values))


class Search:
    """Chooses points.

    Args:
        space: where they are from.
        specification: with objectives, budget, sampler and seed.
    """

    def __init__(self, space: Space, specification: Specification) -> None:
        import optuna

        assert specification.budget != "all", "a full grid needs no search"
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space, self._objectives = space, specification.objectives
        self.budget = min(specification.budget, space.combinations)
        self.batch = max(LEAST_BATCH, self.budget // BATCHES)
        self._study = optuna.create_study(
            directions=["minimize"] * len(self._objectives),
            sampler=SAMPLERS[specification.sampler](specification.seed),
        )
        self._distributions = {name: _places(name, len(values)) for name, values in space.axes.items()}
        self._seen: dict[tuple[Value, ...], None] = {}
        self._asked: dict[int, optuna.trial.Trial] = {}
        self._latest = [0] * len(space.axes)
        self._left: list[Point] | None = None  # points that were not chosen, where they have been listed

    def ask(self) -> list[Point]:
        """Return the next batch of points; none where the budget is spent, or the space has no more.

        Raises:
            SweepError: the constraints leave no point.
        """
        points: list[Point] = []
        while len(points) < self.batch and len(self._seen) < self.budget:
            point = self._sampled() or self._nearest()
            if point is None:
                break
            points.append(point)
        return points

    def tell(self, point: Point, rows: Sequence[PointRow]) -> None:
        """Let the sampler learn from a point."""
        import optuna

        values = objectives_of(rows, self._objectives)
        state = optuna.trial.TrialState.FAIL if values is None else optuna.trial.TrialState.COMPLETE
        self._study.tell(self._asked.pop(point.number), values, state)

    def _sampled(self) -> Point | None:
        """Return a new point that the sampler chooses; None where its tries give no such point."""
        import optuna

        for _ in range(MOST_TRIES):
            trial = self._study.ask(self._distributions)
            places = [trial.params[name] for name in self._space.axes]
            values = self._space.complete(self._space.chosen(places))
            if _key(values) not in self._seen and self._space.broken(values) is None:
                return self._new(values, trial)
            self._latest = places
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return None

    def _nearest(self) -> Point | None:
        """Return the new point nearest to the sampler's latest choice; None where none is left.

        It is also None in a space that is too large to be enumerated.
        """
        if self._left is None:
            enumerable = self._space.combinations <= MOST_COMBINATIONS
            self._left = self._space.points() if enumerable else []
        self._left = [point for point in self._left if _key(point.values) not in self._seen]
        if not self._left:
            return None
        nearest = min(self._left, key=lambda point: self._distance(point.values))
        self._study.enqueue_trial(
            dict(zip(self._space.axes, self._space.places(nearest.values), strict=True))
        )
        return self._new(dict(nearest.values), self._study.ask(self._distributions))

    def _distance(self, values: Mapping[str, Value]) -> int:
        """Return how many steps along the axes a point is away from the sampler's latest choice."""
        places = self._space.places(values)
        return sum(abs(a - b) for a, b in zip(places, self._latest, strict=True))

    def _new(self, values: dict[str, Value], trial: "optuna.trial.Trial") -> Point:
        """Return a point that is evaluated for a trial."""
        point = Point(len(self._seen), values)
        self._seen[_key(values)] = None
        self._asked[point.number] = trial
        return point


def _places(name: str, count: int) -> Any:
    """Return the distribution of the place of a parameter's value among its values."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    return CategoricalDistribution(tuple(range(count))) if name in LISTS else IntDistribution(0, count - 1)


def _key(values: Mapping[str, Value]) -> tuple[Value, ...]:
    return tuple(values.values())


def _tpe(seed: int) -> Any:
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)


def _nsga2(seed: int) -> Any:
    from optuna.samplers import NSGAIISampler

    return NSGAIISampler(seed=seed, population_size=24)


def _random(seed: int) -> Any:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


SAMPLERS: Mapping[str, Callable[[int], Any]] = {"tpe": _tpe, "nsga2": _nsga2, "random": _random}
