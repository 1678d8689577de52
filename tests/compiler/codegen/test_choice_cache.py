"""Kept choices: how they follow each other, and which are not kept."""

import pytest

from vdla.compiler.codegen import choice_cache
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tiles import Tiles
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.scaling import SumTask
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "choices"


def test_nothing_is_kept_at_first(path):
    assert choice_cache.read("key") is None
    assert not path.exists()


def test_a_choice_takes_the_place_of_the_one_before(path):
    for threads, tiles in ((1, None), (4, Tiles(2, 3, 5, 7))):
        choice_cache.write("key", Choice(threads, tiles))
        assert choice_cache.read("key") == Choice(threads, tiles)
        assert len(list(path.iterdir())) == 1


def test_an_only_choice_is_not_kept(path):
    space = space_of(SumTask(50), Target(TINY))
    assert choice_cache.cached(lambda space: pytest.fail("it is chosen"))(space) == Choice(3)
    assert not path.exists()
