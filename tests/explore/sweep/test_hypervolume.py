"""Pareto fronts and hypervolumes, against counting unit cubes."""

from itertools import product

import numpy as np
import pytest

from vdla.explore.sweep.hypervolume import dominates, front, hypervolume


def counted(vectors, reference):
    """Return the hypervolume of integer vectors by counting unit cubes."""
    cubes = product(*(range(end) for end in reference))
    return sum(
        any(all(a <= b for a, b in zip(vector, cube, strict=True)) for vector in vectors) for cube in cubes
    )


@pytest.mark.parametrize("objectives", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_the_hypervolume_is_the_count_of_dominated_cubes(objectives, seed):
    vectors = np.random.default_rng(seed).integers(0, 8, (12, objectives)).tolist()
    assert hypervolume(vectors, [6] * objectives) == counted(vectors, [6] * objectives)


def test_nothing_has_no_volume():
    assert hypervolume([], [1, 1]) == 0
    assert hypervolume([(2, 0)], [1, 1]) == 0


def test_the_front_holds_what_nothing_dominates():
    assert front([(3, 1), (1, 3), (2, 2), (2, 3), (1, 3), (3, 3)]) == [(1, 3), (2, 2), (3, 1)]
    assert not dominates((1, 2), (1, 2))
