"""Reports: every cycle belongs to one layer, every byte is counted once."""

import json

import pytest

from tests.compiler.network.compiled import handmade
from tests.compiler.network.graphs import random_inputs
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.units import Unit
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.session.report import Report, report, summary, table
from vdla.runtime.session.session import Outcome, Session
from vdla.sim.energy import energies

BUSY = tuple(UnitState).index(UnitState.BUSY)
CLOCK = 1e6
ROUNDING = 1e-9  # of sums in another order
TITLES = ("residual", "views", "with the host between", "only the host", "nothing")


def outcome_of(title: str, device) -> Outcome:
    graph, plan = handmade(title)
    return Session(device, plan).run(random_inputs(graph, 0))


def report_of(title: str, log: bool = True) -> tuple[Report, Outcome]:
    _, plan = handmade(title)
    outcome = outcome_of(title, CycleDevice(TINY, plan.dram_bytes, log=log))
    return report(plan, outcome, "cycle", CLOCK), outcome


@pytest.mark.parametrize("title", TITLES)
def test_every_cycle_belongs_to_one_layer(title):
    found, outcome = report_of(title)
    assert (
        found.cycles
        == sum(layer.cycles or 0 for layer in found.layers)
        == sum(ran.result.cycles for ran in outcome.launches)
    )
    assert found.macs == sum(layer.macs for layer in found.layers)
    assert found.seconds == found.cycles / CLOCK
    for layer in found.layers:
        assert all(0 <= busy <= layer.cycles for busy in layer.busy.values())
        assert layer.utilisation is None or 0 <= layer.utilisation <= 1


@pytest.mark.parametrize("title", TITLES)
def test_all_work_of_a_unit_belongs_to_layers(title):
    found, outcome = report_of(title)
    for unit in Unit:
        spans = [ran.timing.log.spans for ran in outcome.launches]
        worked = sum(
            int((each["end"] - each["begin"])[(each["unit"] == unit) & (each["state"] == BUSY)].sum())
            for each in spans
        )
        assert sum(layer.busy.get(unit.name.lower(), 0) for layer in found.layers) == worked


def test_the_bytes_are_those_that_the_device_counts():
    found, outcome = report_of("residual")
    (ran,) = outcome.launches
    names = ("INP_LOADED_BYTES", "WGT_LOADED_BYTES", "ACC_LOADED_BYTES", "UOP_LOADED_BYTES")
    _, plan = handmade("residual")
    counted = outcome_of("residual", FunctionalDevice(TINY, plan.dram_bytes)).launches[0].result.counters
    assert sum(layer.bytes_read for layer in found.layers) == sum(counted[name] for name in names)
    assert sum(layer.bytes_written for layer in found.layers) == counted["OUT_STORED_BYTES"]
    assert ran.timing is not None


def test_macs_are_those_of_the_operators():
    found, _ = report_of("residual")
    by_op = [(layer.op, layer.macs) for layer in found.layers]
    assert by_op == [
        ("Int8Conv", 8 * 1 * 9 * 25),
        ("Int8Conv", 8 * 8 * 9 * 25),
        ("Int8Conv", 8 * 8 * 25),
        ("Int8Add", 0),
        ("Int8Conv", 6 * 8 * 25),
        ("Reshape", 0),
        ("Int8MatMul", 60),
    ]


def test_a_device_that_tells_only_the_total_gets_its_layers_from_the_simulator():
    found, outcome = report_of("residual")
    for ran in outcome.launches:
        object.__setattr__(ran, "timing", None)
    assert report(handmade("residual")[1], outcome, "cycle", CLOCK) == found


def test_without_a_log_units_tell_nothing_and_the_cycles_are_the_same():
    with_log, without = report_of("residual")[0], report_of("residual", log=False)[0]
    assert [layer.cycles for layer in without.layers] == [layer.cycles for layer in with_log.layers]
    assert all(not layer.busy for layer in without.layers)


def test_an_untimed_device_reports_what_moves():
    _, plan = handmade("residual")
    found = report(plan, outcome_of("residual", FunctionalDevice(TINY, plan.dram_bytes)), "functional", CLOCK)
    assert (found.cycles, found.seconds, found.utilisation) == (None, None, None)
    assert all(layer.cycles is None for layer in found.layers)
    assert [layer.bytes_read for layer in found.layers] == [
        layer.bytes_read for layer in report_of("residual")[0].layers
    ]
    assert summary(found) == "functional: 0.0 MMAC, untimed"


@pytest.mark.parametrize("title", TITLES)
def test_a_report_is_text_and_json(title):
    found, _ = report_of(title)
    lines = table(found).splitlines()
    assert len(lines) == len(found.layers) + 2
    assert lines[0].split() == [
        "layer",
        "operator",
        "on",
        "cycles",
        "ms",
        "MMAC",
        "used",
        "KiB",
        "in",
        "KiB",
        "out",
        "uJ",
        "load",
        "compute",
        "store",
        *["bound,", "or", "why", "on", "the", "host"],
    ]
    assert json.loads(json.dumps(found.to_json()))["cycles"] == found.cycles
    assert all("\n" not in layer.name for layer in found.layers)


@pytest.mark.parametrize("title", TITLES)
def test_the_energy_of_a_run_is_that_of_its_instructions(title):
    found, outcome = report_of(title)
    _, plan = handmade(title)
    expected = sum(energies(ran.timing.program, plan.target.energy).sum() for ran in outcome.launches)
    assert found.energy_pj == pytest.approx(expected)
    assert sum(found.energy.values()) == pytest.approx(found.energy_pj)
    for layer in found.layers:
        assert sum(layer.energy.values()) == pytest.approx(layer.energy_pj or 0)
    on_accelerator = [layer.energy_pj for layer in found.layers if layer.on == "accelerator"]
    least = sum(on_accelerator) * (1 - ROUNDING)
    assert least <= found.energy_pj <= sum(on_accelerator) + 2 * 16 / 8 * plan.target.energy.dram
    assert all(layer.energy_pj is None for layer in found.layers if layer.on == "host")


def test_an_untimed_run_has_no_energy():
    _, plan = handmade("residual")
    found = report(plan, outcome_of("residual", FunctionalDevice(TINY, plan.dram_bytes)), "functional")
    assert found.energy_pj is None
    assert {layer.energy_pj for layer in found.layers} == {None}
