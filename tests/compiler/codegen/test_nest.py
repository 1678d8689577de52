"""Forms of nests part into what their loops change and what they do not; conditions cut boxes out of the
iterations."""

from itertools import product

import numpy as np
import pytest

from vdla.compiler.codegen.nest import AffineSum, boxes, evaluated


@pytest.mark.parametrize(
    "affine_sum",
    [AffineSum(7, ()), AffineSum(0, (("x", 3),)), AffineSum(-2, (("x", 3), ("y", -1), ("tile", 8)))],
)
@pytest.mark.parametrize("loops", [{}, {"x": 4}, {"x": 4, "y": 5}])
def test_an_affine_sum_is_the_sum_of_its_parts(affine_sum, loops):
    values = {"x": 2, "y": 9, "tile": 5}
    outside, inside = affine_sum.parted(loops)
    assert evaluated(affine_sum)(values) == affine_sum.constant + sum(
        factor * values[name] for name, factor in affine_sum.terms
    )
    assert evaluated(outside)(values) + evaluated(inside)(values) == evaluated(affine_sum)(values)
    assert {name for name, _ in inside.terms} <= loops.keys()
    assert not {name for name, _ in outside.terms} & loops.keys()


@pytest.mark.parametrize("seed", range(30))
def test_boxes_hold_the_iterations_that_meet_every_condition_and_no_other(seed):
    rng = np.random.default_rng(seed)
    loops = {name: int(rng.integers(1, 6)) for name in "xyz"}
    terms = [
        [(name, int(rng.choice((-2, -1, 1, 2)))) for name in (*"xyz", "tile") if rng.random() < 0.5]
        for _ in range(rng.integers(0, 4))
    ]
    conditions = tuple(AffineSum(int(rng.integers(-6, 12)), tuple(part)) for part in terms)
    found = [
        point
        for fixed, ranges in boxes(conditions, loops, {"tile": 3})
        for point in product(*(range(*ranges[name]) if name in ranges else (fixed[name],) for name in "xyz"))
    ]
    met = [
        point
        for point in product(*(range(loops[name]) for name in "xyz"))
        if all(
            evaluated(affine_sum)({**dict(zip("xyz", point, strict=True)), "tile": 3}) >= 0
            for affine_sum in conditions
        )
    ]
    assert sorted(found) == met
