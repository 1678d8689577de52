"""Spaces: the same for the same seed, each point prints, reads back and is found again."""

import json
from math import inf

import numpy as np
import pytest
from generators.expressions import addition, convolution

from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.points import Points
from vdla.compiler.codegen.derived.trial import Trial
from vdla.compiler.codegen.derived.units import UnderivableError
from vdla.compiler.ir.nodes import IrError
from vdla.explore.tune.explorers import EXPLORERS
from vdla.explore.tune.model import Learned
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target


def points(make, config=TINY, **options):
    (kernel,) = kernels_of(make(config).output, config)
    return Points(kernel, Target(config), **options)


@pytest.fixture(scope="module")
def found():
    return points(convolution, most=300)


def test_a_small_space_is_complete():
    """Any sample of it is the whole."""
    assert np.array_equal(points(addition).knobs, points(addition, seed=7).knobs)


def test_a_sample_has_its_size_and_its_seed(found):
    assert len(found) == len(found.features) == len(found.knobs) == 300
    assert np.array_equal(found.knobs, points(convolution, most=300).knobs)
    assert not np.array_equal(found.knobs, points(convolution, most=300, seed=1).knobs)
    assert len(np.unique(found.knobs, axis=0)) == 300


def test_half_of_a_sample_is_better_than_random(found):
    uniform = np.random.default_rng(0).choice(found.estimates, 100)
    assert np.sort(found.estimates)[:150].mean() < 0.7 * uniform.mean()


def test_every_point_reads_back(found):
    for place in range(0, len(found), 29):
        point = found.point(place)
        again = found.from_json(json.loads(json.dumps(point.to_json())))
        assert again == point
        assert again.digest == point.digest
        assert found.place(again) == place


def test_digests_tell_points_apart(found):
    assert len({found.point(place).digest for place in range(len(found))}) == len(found)


def test_a_point_prints_its_knobs(found):
    assert str(found.point(0)).startswith("tile o = ")
    assert "place W_weight = " in str(found.point(0))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kernel": "0" * 64}, r"^the point belongs to kernel 000000000000, not to [0-9a-f]{12}$"),
        ({"values": {}}, r"^a point of Z has values for tile o, .*, not for nothing$"),
        ({"tile o": 5}, r"^tile o = 5 is none of 1, 2, 3$"),
        ({"tile o": True}, r"^tile o = True is none of 1, 2, 3$"),
        ({"order": "x y"}, r"^order = 'x y' is none of n g o y x, n g y x o$"),
    ],
)
def test_what_is_no_point_is_refused(found, change, reason):
    good = found.point(0).to_json()
    bad = good | change if set(change) <= set(good) else good | {"values": good["values"] | change}
    with pytest.raises(IrError, match=reason):
        found.from_json(bad)


def test_a_legal_point_has_cycles_and_an_illegal_one_none(found, monkeypatch):
    assert found.measure(0) == found.tried(0).cycles > 0
    monkeypatch.setattr(found, "tried", lambda place: Trial(None, "too large"))
    assert found.measure(0) == inf


def test_what_never_fits_is_refused():
    tight = TINY.with_changes(name="tight", acc_buffer_bytes=64, extensions=TINY.extensions)
    with pytest.raises(
        UnderivableError, match=r"^Z: no tile of it fits the memories of tight; give it larger"
    ):
        points(convolution, tight)


@pytest.mark.parametrize("name", EXPLORERS)
def test_explorers_search_the_points(name):
    """A space of 155 points: none is asked for twice, and all are in the end."""
    found = points(addition)
    explorer = EXPLORERS[name](found, 3, Learned())
    asked: list[int] = []
    while places := explorer.ask(32):
        explorer.tell(places, found.estimates[places].tolist())
        asked += places
    assert sorted(asked) == list(range(len(found)))
