"""Damaged inputs of every format end in an answer; and the campaign notices inputs that do not."""

import contextlib
import os
import time
from pathlib import Path

import pytest

INPUTS, SEED = 180, 12
FORMATS = {"toml", "asm", "npz", "onnx", "log", "vdla", "sweep", "identity", "journal", "settings", "samples"}
FORMATS |= {"record"}
TAKEN_BYTES = 400 << 20


@pytest.fixture(scope="module")
def fuzz(script):
    """Return scripts/fuzz_inputs.py, ready to run."""
    module = script("fuzz_inputs")
    module.prepare()
    return module


def campaign(fuzz, kept: Path, inputs: int, *names: str):
    """Run a campaign and return it."""
    fuzz_campaign = fuzz.Campaign(fuzz.tasks_of(inputs, SEED, 0, names or tuple(fuzz.formats.FORMATS)), kept)
    fuzz.run(fuzz_campaign, processes=1)
    return fuzz_campaign


def test_every_input_is_accepted_or_refused_within_its_limits(fuzz, tmp_path):
    done = campaign(fuzz, tmp_path, INPUTS)
    assert [path.read_text() for path in tmp_path.glob("*.txt")] == []
    assert set(done.counts) == FORMATS
    for counts in done.counts.values():
        assert counts["accepted"] > 0
        assert sum(counts.values()) - counts["accepted"] > 0
        assert sum(counts.values()) in (INPUTS // len(FORMATS), INPUTS // len(FORMATS) + 1)


def test_inputs_are_the_same_for_the_same_numbers(fuzz):
    for name in fuzz.formats.FORMATS:
        assert fuzz.worker.damaged(name, 5, SEED) == fuzz.worker.damaged(name, 5, SEED)
        assert fuzz.worker.damaged(name, 5, SEED)[0] != fuzz.worker.damaged(name, 6, SEED)[0]


def test_a_folder_is_emptied_in_place(fuzz, tmp_path):
    """A process that is killed while it empties its folder leaves a folder that its parent can remove."""
    folder = tmp_path / "work"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path)
    (folder / "input.toml").touch()
    held = os.open(folder, os.O_RDONLY)  # or a new folder may get the same number
    with contextlib.chdir(folder):
        fuzz.worker.empty(folder)
    assert os.path.samestat(os.fstat(held), folder.stat())
    os.close(held)
    assert {path.name for path in folder.iterdir()} == set(fuzz.formats.constants())
    assert tmp_path.is_dir()


def fail(config):
    raise KeyError("planted")


def hang(config):
    while True:
        pass


def wait_for_long(config):
    time.sleep(1000)


def die(config):
    os.abort()


def take_memory(config):
    fail.kept = b"x" * TAKEN_BYTES
    return {}


def chatter(config):
    from vdla.hw.spec.errors import ConfigError

    raise ConfigError("one line\nand another")


PLANTED = {"traceback": fail, "hang": hang, "crash": die, "memory": take_memory, "many lines": chatter}


@pytest.mark.parametrize("verdict", PLANTED)
def test_a_planted_fault_is_noticed_and_kept(fuzz, tmp_path, monkeypatch, verdict):
    usual = campaign(fuzz, tmp_path, 12, "toml").largest
    monkeypatch.setattr("vdla.cli.config.describe", PLANTED[verdict])
    monkeypatch.setattr(fuzz, "SECONDS", 2.0)
    monkeypatch.setattr(fuzz, "MOST_BYTES", usual + (TAKEN_BYTES >> 1))
    done = campaign(fuzz, tmp_path, 12, "toml")
    assert done.counts["toml"][verdict] > 0
    assert done.failures == done.counts["toml"][verdict]
    kept = sorted(path.suffix for path in tmp_path.iterdir())
    assert kept.count(".txt") == done.failures
    assert len(kept) == 2 * done.failures
    assert f"{done.failures} failures" in fuzz.table(done)


def test_one_that_only_waits_is_a_hang_too(fuzz, tmp_path, monkeypatch):
    monkeypatch.setattr("vdla.cli.config.describe", wait_for_long)
    monkeypatch.setattr(fuzz, "WALL_SECONDS", 1.0)
    assert campaign(fuzz, tmp_path, 6, "toml").counts["toml"]["hang"] > 0
