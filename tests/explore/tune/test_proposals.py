"""Explorers for the choices of a space."""

import pytest

from tests.explore.tune.networks import LARGE, SMALL, TARGET
from vdla.compiler.codegen.space import space_of
from vdla.explore.tune.explorers import EXPLORERS
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.model import Measured
from vdla.explore.tune.proposals import LEARNING, making
from vdla.hw.spec.errors import ToolError

OTHERS = [(space_of(LARGE, TARGET), {place: 1000.0 + place for place in range(0, 60, 4)})]


@pytest.mark.parametrize("name", EXPLORERS)
@pytest.mark.parametrize("others", [[], OTHERS], ids=["cold", "warm"])
def test_every_explorer_proposes_new_places_of_the_space_and_the_same_for_a_seed(name, others):
    space = space_of(SMALL, TARGET)
    proposed = []
    for _ in range(2):
        explorer = making(name)(space, 3, others)
        explorer.tell([0], [500.0])
        places = []
        for _ in range(3):
            batch = explorer.ask(8)
            explorer.tell(batch, [1000.0 + place % 7 for place in batch])
            places += batch
        proposed.append(places)
    assert proposed[0] == proposed[1]
    assert len(set(places)) == len(places) == 24
    assert 0 not in places
    assert all(0 <= place < len(space) for place in places)


def test_the_learning_explorer_knows_what_other_spaces_taught():
    space = space_of(SMALL, TARGET)
    cold, warm = (making(LEARNING)(space, 3, others).ask(8) for others in ([], OTHERS))
    assert cold != warm


@pytest.mark.parametrize("answer", [None, ImportError("blocked")])
def test_the_learning_explorer_says_what_it_needs(monkeypatch, answer):
    def absent(name):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("vdla.hw.spec.extras.find_spec", absent)
    with pytest.raises(
        ToolError, match=r'needs xgboost, .* pip install "vdla\[tune\]", or name another with'
    ):
        making(LEARNING)
    assert making("random")(space_of(SMALL, TARGET), 0, []).ask(1)


def test_the_learning_explorer_knows_what_it_was_given():
    space, points = space_of(SMALL, TARGET), SpacePoints(OTHERS[0][0])
    given = Measured.of(points, OTHERS[0][1])
    assert making(LEARNING, (given,))(space, 3, []).ask(8) == making(LEARNING)(space, 3, OTHERS).ask(8)
