#!/usr/bin/env python3
"""Compare what a search with a limited budget finds with the full grid.

FOLDER holds a finished sweep of all points of SPEC. The search chooses points from the same space and is told
what the sweep measured, so that each of its runs takes seconds. The hypervolume of the chosen points is given
as a share of the grid's; the reference point is the worst of the grid in each objective. It is given for the
objectives as they are and for their logarithms. Exit status 1 if a mean over the seeds misses the
requirement.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import msgspec

from vdla.cli._options import reports_errors
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.folder import JOURNAL, Journal
from vdla.explore.sweep.hypervolume import front, hypervolume
from vdla.explore.sweep.measure import Measured
from vdla.explore.sweep.run import planned
from vdla.explore.sweep.search import SAMPLERS, Search, objectives_of
from vdla.explore.sweep.space import Space
from vdla.explore.sweep.specification import Specification, read
from vdla.hw.spec.extras import require_package

REQUIRED = 0.95
Vector = tuple[float, ...]


def key_of(values: Mapping[str, object]) -> tuple[object, ...]:
    """Return a point's values as a key."""
    return tuple(values.values())


def searched(space: Space, specification: Specification, grid: Mapping[tuple, Measured]) -> list[Vector]:
    """Return the objectives of the points that a search finds."""
    search, vectors = Search(space, specification), []
    while points := search.ask():
        for point in points:
            rows = grid[key_of(point.values)].rows
            search.tell(point, rows)
            vectors.append(objectives_of(rows, specification.objectives))
    return [vector for vector in vectors if vector is not None]


def volumes(vectors: Sequence[Vector], grid: Sequence[Vector]) -> tuple[float, float]:
    """Return the share of the grid's hypervolume: as it is, and of logarithms."""
    shares = []
    for scale in (float, math.log):
        scaled, whole = ([tuple(map(scale, vector)) for vector in part] for part in (vectors, grid))
        reference = [max(column) for column in zip(*whole, strict=True)]
        shares.append(hypervolume(scaled, reference) / hypervolume(whole, reference))
    return shares[0], shares[1]


@click.command(help=__doc__)
@click.argument("specification", metavar="SPEC", type=click.Path(exists=True, path_type=Path))
@click.argument("folder", metavar="FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--share", default=0.1, show_default=True, help="Budget of the search, of the grid's points.")
@click.option("--seeds", default=5, show_default=True)
@click.option("--sampler", type=click.Choice(list(SAMPLERS)), default="tpe", show_default=True)
@click.option("--objective", "objectives", multiple=True, help="In place of the specification's; repeat it.")
@reports_errors
def main(
    specification: Path, folder: Path, share: float, seeds: int, sampler: str, objectives: tuple[str, ...]
) -> None:
    require_package("optuna", "measuring the search")
    wanted = read(specification)
    wanted = msgspec.structs.replace(wanted, objectives=objectives or wanted.objectives, sampler=sampler)
    space = planned(wanted, specification.parent, None).space
    journal = Journal(folder / JOURNAL, space.key)
    grid = {key_of(measured.point.values): measured for measured in journal.measured.values()}
    missing = [point for point in space.points() if key_of(point.values) not in grid]
    if missing:
        raise SweepError(f"{folder} lacks {len(missing):,} points of {specification}; finish its sweep first")
    known = [
        vector
        for vector in (objectives_of(vector.rows, wanted.objectives) for vector in grid.values())
        if vector
    ]
    budget = max(1, round(share * len(grid)))
    click.echo(
        f"{len(grid):,} points, {len(known):,} of them with {', '.join(wanted.objectives)}; "
        f"{len(front(known))} on the front\n"
        f"search: {sampler}, {budget} points\nseed  hypervolume  of logarithms"
    )
    shares = []
    for seed in range(seeds):
        vectors = searched(space, msgspec.structs.replace(wanted, budget=budget, seed=seed), grid)
        shares.append(volumes(vectors, known))
        click.echo(f"{seed:4}  {shares[-1][0]:11.1%}  {shares[-1][1]:13.1%}")
    means = [sum(column) / seeds for column in zip(*shares, strict=True)]
    click.echo(f"mean  {means[0]:11.1%}  {means[1]:13.1%}")
    click.echo(f"{'ok   ' if min(means) >= REQUIRED else 'SHORT'} at least {REQUIRED:.0%}")
    sys.exit(0 if min(means) >= REQUIRED else 1)


if __name__ == "__main__":
    main()
