"""Filling the store of measured areas: nothing is measured twice; what other hardware shares is kept."""

from dataclasses import replace

import fill_silicon
import pytest
from click.testing import CliRunner

from vdla.explore.silicon.grid import GridPoint
from vdla.explore.silicon.store import Store, read_store
from vdla.hw.spec.presets import SMALL, TINY

ASKED = []


def measured(config, name, family):
    """Return made-up figures of a component, and note that it was asked for."""
    ASKED.append(name)
    component = fill_silicon.component_named(config, name)
    resources = dict.fromkeys(("lut", "ff", "dsp", "block_ram"), 1.0)
    return fill_silicon.described(component, fill_silicon.unit_digest(component), resources)


def measured_period(config, name):
    """Return a made-up period of a component, and note that it was asked for."""
    ASKED.append(name)
    component = fill_silicon.component_named(config, name)
    return fill_silicon.routed(component, fill_silicon.unit_digest(component), 7.5)


@pytest.fixture
def asked(monkeypatch):
    """Replace synthesis by `measured`, and the grid by one point; return the components that were asked for
    in this process."""
    monkeypatch.setattr(fill_silicon, "measure", measured)
    monkeypatch.setattr(fill_silicon, "GRID", (GridPoint(TINY, ("queue", "tokens", "dma")),))
    monkeypatch.setattr(fill_silicon, "measure_period", measured_period)
    monkeypatch.setattr(fill_silicon, "ROUTED_POINTS", (GridPoint(TINY, ("queue", "dma")),))
    monkeypatch.setattr(fill_silicon, "generator_digest", lambda: "today")
    ASKED.clear()
    return ASKED


def run(path, jobs=1, part="components"):
    only = ["--design", "none of them", "--jobs", str(jobs)]
    arguments = ["--family", "ecp5", "--part", part, *only, "--output", str(path)]
    return CliRunner().invoke(fill_silicon.main, arguments)


def fill(path, jobs=1) -> None:
    done = run(path, jobs)
    assert done.exit_code == 0, done.output


def test_equal_components_are_measured_once_and_kept(tmp_path, asked):
    path = tmp_path / "store.json"
    fill(path)
    assert asked == ["dma", "load_queue", "load_to_compute"]
    assert [component.kind for component in read_store(path).components["ecp5"]] == ["dma", "queue", "tokens"]
    fill(path)
    assert len(asked) == 3


def test_a_killed_run_goes_on_where_it_was(tmp_path, asked, monkeypatch):
    path = tmp_path / "store.json"

    def killed(config, name, family):
        if name == "load_to_compute":
            raise KeyboardInterrupt
        return measured(config, name, family)

    monkeypatch.setattr(fill_silicon, "measure", killed)
    assert run(path).exit_code == 1
    monkeypatch.setattr(fill_silicon, "measure", measured)
    fill(path)
    assert asked == ["dma", "load_queue", "load_to_compute"]


def test_several_processes_measure_the_same(tmp_path, asked):
    serial, parallel = tmp_path / "one.json", tmp_path / "two.json"
    fill(serial)
    fill(parallel, jobs=2)
    assert serial.read_text() == parallel.read_text()


def test_with_another_hardware_what_has_the_same_verilog_is_kept(tmp_path, asked, monkeypatch):
    path = tmp_path / "store.json"
    fill(path)
    monkeypatch.setattr(fill_silicon, "generator_digest", lambda: "tomorrow")
    store = read_store(path)
    dma, queue, tokens = store.components["ecp5"]
    features = dict(list(queue.features.items())[1:])  # as before a feature was added
    store.components["ecp5"] = [replace(dma, hardware="changed"), replace(queue, features=features), tokens]
    store.write(path)
    fill(path)
    assert asked[3:] == ["dma"]
    assert read_store(path).hardware == "tomorrow"
    assert read_store(path).components["ecp5"] == [dma, queue, tokens]


def test_components_are_routed_once_and_kept_while_their_verilog_is_the_same(tmp_path, asked, monkeypatch):
    path = tmp_path / "store.json"
    for _ in range(2):
        done = run(path, part="clocks")
        assert done.exit_code == 0, done.output
    assert asked == ["dma", "load_queue"]
    dma, queue = read_store(path).routed["ecp5"]
    assert (dma.kind, dma.ns, queue.kind) == ("dma", 7.5, "queue")
    monkeypatch.setattr(fill_silicon, "generator_digest", lambda: "tomorrow")
    store = read_store(path)
    store.routed["ecp5"] = [dma, replace(queue, hardware="changed")]
    store.write(path)
    assert run(path, part="clocks").exit_code == 0
    assert asked[2:] == ["load_queue"]
    assert read_store(path).routed["ecp5"] == [dma, queue]


def test_a_design_of_other_verilog_is_dropped(asked, monkeypatch):
    monkeypatch.setattr(fill_silicon, "hardware_digest", lambda config: f"{config.name} today")
    rows = {TINY.digest: {"name": "tiny", "hardware": "tiny today", "lut": 1.0}}
    rows[SMALL.digest] = {"name": "small", "hardware": "small yesterday", "lut": 2.0}
    kept = fill_silicon.carried_over(Store("yesterday", designs={"ecp5": rows}))
    assert kept == Store("today", designs={"ecp5": {TINY.digest: rows[TINY.digest]}})
