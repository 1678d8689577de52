"""Filling the store of measured areas: nothing is measured twice, and other hardware starts anew."""

import fill_silicon
import pytest
from click.testing import CliRunner

from vdla.explore.silicon.grid import GridPoint
from vdla.explore.silicon.store import Measured, memories_of, read_store
from vdla.hw.spec.presets import TINY


@pytest.fixture
def asked(monkeypatch):
    """Replace synthesis by a table, and the grid by one point; return the components that were measured."""
    names = []

    def measure(component, family):
        names.append(component.name)
        resources = dict.fromkeys(("lut", "ff", "dsp", "block_ram"), 1.0)
        features = {name: float(value) for name, value in component.features.items()}
        return Measured(component.kind, features, memories_of(component), resources)

    monkeypatch.setattr(fill_silicon, "measure", measure)
    monkeypatch.setattr(fill_silicon, "GRID", (GridPoint(TINY, ("queue", "tokens", "dma")),))
    monkeypatch.setattr(fill_silicon, "generator_digest", lambda: "today")
    return names


def fill(path) -> None:
    arguments = ["--family", "ecp5", "--part", "components", "--output", str(path)]
    done = CliRunner().invoke(fill_silicon.main, arguments)
    assert done.exit_code == 0, done.output


def test_equal_components_are_measured_once_and_kept(tmp_path, asked):
    path = tmp_path / "store.json"
    fill(path)
    assert asked == ["dma", "load_queue", "load_to_compute"]
    assert [one.kind for one in read_store(path).components["ecp5"]] == ["dma", "queue", "tokens"]
    fill(path)
    assert len(asked) == 3


def test_a_killed_run_goes_on_where_it_was(tmp_path, asked, monkeypatch):
    path, measure = tmp_path / "store.json", fill_silicon.measure

    def killed(component, family):
        if component.kind == "tokens":
            raise KeyboardInterrupt
        return measure(component, family)

    monkeypatch.setattr(fill_silicon, "measure", killed)
    arguments = ["--family", "ecp5", "--part", "components", "--output", str(path)]
    assert CliRunner().invoke(fill_silicon.main, arguments).exit_code == 1
    monkeypatch.setattr(fill_silicon, "measure", measure)
    fill(path)
    assert asked == ["dma", "load_queue", "load_to_compute"]


def test_with_another_hardware_everything_is_measured_anew(tmp_path, asked, monkeypatch):
    path = tmp_path / "store.json"
    fill(path)
    monkeypatch.setattr(fill_silicon, "generator_digest", lambda: "tomorrow")
    fill(path)
    assert len(asked) == 6
    assert read_store(path).hardware == "tomorrow"
