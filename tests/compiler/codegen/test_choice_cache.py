"""The file of kept choices: what clearing it leaves, and how choices follow each other in it."""

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
    return tmp_path / "cache" / choice_cache.FILE


def test_nothing_is_kept_at_first(path):
    choice_cache.clear()
    assert not path.exists()
    assert choice_cache.read("key") is None
    assert choice_cache.count() == 0


def test_a_choice_takes_the_place_of_the_one_before(path):
    for threads, tiles in ((1, None), (4, Tiles(2, 3, 5, 7))):
        choice_cache.write("key", "task", Choice(threads, tiles))
        assert choice_cache.read("key") == Choice(threads, tiles)
        assert choice_cache.count() == 1


def test_clearing_forgets_all_and_gives_the_room_back(path):
    choice_cache.write("key", "long " * 100_000, Choice(2))
    before = path.stat().st_size
    choice_cache.clear()
    assert choice_cache.count() == 0
    assert choice_cache.read("key") is None
    assert path.stat().st_size < before / 10


def test_clearing_deletes_what_is_no_table(path):
    path.parent.mkdir()
    path.write_text("no table" * 99)
    choice_cache.clear()
    assert not path.exists()


def test_an_only_choice_is_not_kept(path):
    space = space_of(SumTask(50), Target(TINY))
    assert choice_cache.cached(lambda space: pytest.fail("it is chosen"))(space) == Choice(3)
    assert not path.exists()
