"""Reports: every cycle belongs to one layer, every byte is counted once."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from tests.compiler.network.compiled import handmade
from tests.compiler.network.graphs import random_inputs
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.units import Unit
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import HostStep, Layer
from vdla.runtime.session.report import (
    ACCELERATOR,
    HOST,
    MOSTLY,
    LayerReport,
    Report,
    _bound,
    _roofline,
    _Work,
    report,
    summary,
    table,
)
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
    run_report, outcome = report_of(title)
    assert (
        run_report.cycles
        == sum(layer.cycles or 0 for layer in run_report.layers)
        == sum(ran.result.cycles for ran in outcome.launches)
    )
    assert run_report.macs == sum(layer.macs for layer in run_report.layers)
    assert run_report.seconds == run_report.cycles / CLOCK
    for layer in run_report.layers:
        assert all(0 <= busy <= layer.cycles for busy in layer.busy.values())
        assert layer.utilisation is None or 0 <= layer.utilisation <= 1


@pytest.mark.parametrize("title", TITLES)
def test_all_work_of_a_unit_belongs_to_layers(title):
    run_report, outcome = report_of(title)
    for unit in Unit:
        spans = [ran.timing.log.spans for ran in outcome.launches]
        worked = sum(
            int((each["end"] - each["begin"])[(each["unit"] == unit) & (each["state"] == BUSY)].sum())
            for each in spans
        )
        assert sum(layer.busy.get(unit.name.lower(), 0) for layer in run_report.layers) == worked


def test_the_bytes_are_those_that_the_device_counts():
    run_report, outcome = report_of("residual")
    (ran,) = outcome.launches
    names = ("INP_LOADED_BYTES", "WGT_LOADED_BYTES", "ACC_LOADED_BYTES", "UOP_LOADED_BYTES")
    _, plan = handmade("residual")
    counted = outcome_of("residual", FunctionalDevice(TINY, plan.dram_bytes)).launches[0].result.counters
    assert sum(layer.bytes_read for layer in run_report.layers) == sum(counted[name] for name in names)
    assert sum(layer.bytes_written for layer in run_report.layers) == counted["OUT_STORED_BYTES"]
    assert ran.timing is not None


def test_macs_are_those_of_the_operators():
    run_report, _ = report_of("residual")
    by_op = [(layer.op, layer.macs) for layer in run_report.layers]
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
    run_report, outcome = report_of("residual")
    for ran in outcome.launches:
        object.__setattr__(ran, "timing", None)
    assert report(handmade("residual")[1], outcome, "cycle", CLOCK) == run_report


def test_without_a_log_units_tell_nothing_and_the_cycles_are_the_same():
    with_log, without = report_of("residual")[0], report_of("residual", log=False)[0]
    assert [layer.cycles for layer in without.layers] == [layer.cycles for layer in with_log.layers]
    assert all(not layer.busy for layer in without.layers)


def test_an_untimed_device_reports_what_moves():
    _, plan = handmade("residual")
    run_report = report(
        plan, outcome_of("residual", FunctionalDevice(TINY, plan.dram_bytes)), "functional", CLOCK
    )
    assert (run_report.cycles, run_report.seconds, run_report.utilisation) == (None, None, None)
    assert all(layer.cycles is None for layer in run_report.layers)
    assert [layer.bytes_read for layer in run_report.layers] == [
        layer.bytes_read for layer in report_of("residual")[0].layers
    ]
    assert summary(run_report) == "functional: 19.1 kMAC, untimed"


@pytest.mark.parametrize("title", TITLES)
def test_a_report_is_text_and_json(title):
    run_report, _ = report_of(title)
    lines = table(run_report).splitlines()
    assert len(lines) == len(run_report.layers) + 2
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
    assert json.loads(json.dumps(run_report.to_json()))["cycles"] == run_report.cycles
    assert all("\n" not in layer.name for layer in run_report.layers)


@pytest.mark.parametrize("title", TITLES)
def test_the_energy_of_a_run_is_that_of_its_instructions(title):
    run_report, outcome = report_of(title)
    _, plan = handmade(title)
    expected = sum(energies(ran.timing.program, plan.target.energy).sum() for ran in outcome.launches)
    assert run_report.energy_pj == pytest.approx(expected)
    assert sum(run_report.energy.values()) == pytest.approx(run_report.energy_pj)
    for layer in run_report.layers:
        assert sum(layer.energy.values()) == pytest.approx(layer.energy_pj or 0)
    on_accelerator = [layer.energy_pj for layer in run_report.layers if layer.on == "accelerator"]
    least = sum(on_accelerator) * (1 - ROUNDING)
    assert least <= run_report.energy_pj <= sum(on_accelerator) + 2 * 16 / 8 * plan.target.energy.dram
    assert all(layer.energy_pj is None for layer in run_report.layers if layer.on == "host")


def test_an_untimed_run_has_no_energy():
    _, plan = handmade("residual")
    run_report = report(plan, outcome_of("residual", FunctionalDevice(TINY, plan.dram_bytes)), "functional")
    assert run_report.energy_pj is None
    assert {layer.energy_pj for layer in run_report.layers} == {None}


def test_operators_on_the_host_are_told_with_their_reason_and_time_and_move_nothing():
    _, plan = handmade("with the host between")
    run_report, outcome = report_of("with the host between")
    (step,) = (step for step in plan.steps if isinstance(step, HostStep))
    (layer,) = (layer for layer in run_report.layers if layer.on == HOST)
    expected = LayerReport(step.name, step.op, HOST, None, step.macs, None, 0, 0)
    assert layer == replace(expected, reason=step.reason, seconds=outcome.host_seconds[0])
    assert step.name != step.op


@pytest.mark.parametrize("title", TITLES)
def test_untimed_layers_are_the_plan_s(title):
    _, plan = handmade(title)
    run_report = report(plan, outcome_of(title, FunctionalDevice(TINY, plan.dram_bytes)), "functional")
    layers = [layer for layer in run_report.layers if layer.on == ACCELERATOR]
    planned = [layer for step in plan.launches for layer in step.layers]
    assert layers == [
        LayerReport(
            layer.name,
            layer.op,
            ACCELERATOR,
            None,
            layer.macs,
            None,
            layer.bytes_read,
            layer.bytes_written,
            layer.bytes_once,
        )
        for layer in planned
    ]
    assert (run_report.macs, run_report.energy, run_report.runs) == (
        sum(layer.macs for layer in planned),
        {},
        1,
    )


LAYERS = (
    replace(
        LayerReport("first", "Int8Conv", ACCELERATOR, 2000, 3_500_000, 0.25, 3072, 1536),
        busy={"load": 500, "compute": 1000, "store": 20},
        energy_pj=2.5e6,
        bound="compute",
        seconds=2e-3,
    ),
    replace(
        LayerReport("a softmax", "Softmax", HOST, None, 0, None, 0, 0, reason="there is no Softmax"),
        seconds=1e-3,  # measured, so the text leaves it out
    ),
    LayerReport("view", "Reshape", ACCELERATOR, 0, 0, None, 0, 0, busy={"load": 0, "compute": 0, "store": 0}),
    LayerReport("no log", "Int8Add", ACCELERATOR, 10, 0, 0.0, 0, 0, bound="latency"),
)
TABLE = """
layer      operator           on              cycles       ms      MMAC   used   KiB in  KiB out       uJ    load compute   store  bound, or why on the host
first      Int8Conv           accelerator      2,000    2.000      3.50  25.0%      3.0      1.5      2.5     25%     50%      1%  compute
a softmax  Softmax            host                 -        -      0.00      -      0.0      0.0        -                          there is no Softmax
view       Reshape            accelerator          0        -      0.00      -      0.0      0.0        -
no log     Int8Add            accelerator         10        -      0.00   0.0%      0.0      0.0        -                          latency
cycle: 2,000 cycles, 2.00 ms, 3.5 MMAC, 25.0% of the multipliers, 3.00 mJ
""".strip()


def test_the_table_has_a_row_for_each_layer_and_the_totals():
    run_report = Report("cycle", 2000, 2e-3, 3_500_000, 0.25, 3e9, LAYERS)
    assert table(run_report) == TABLE
    assert (run_report.host_macs, run_report.host_seconds, run_report.copy_seconds, run_report.energy) == (
        0,
        None,
        None,
        {},
    )
    none = table(replace(run_report, layers=()))
    assert none.startswith("layer  operator           on              cycles       ms ")
    assert none.count("\n") == 1
    assert summary(replace(run_report, runs=3)).startswith("cycle, each of 3 runs: 2,000 cycles, ")
    assert ", 0.0% of the multipliers, " in summary(replace(run_report, utilisation=None))
    for missing in ("cycles", "seconds", "energy_pj"):
        assert summary(replace(run_report, **{missing: None})) == "cycle: 3.5 MMAC, untimed"


@pytest.mark.parametrize("seed", range(4))
def test_the_work_within_an_interval_is_that_of_its_cycles(seed):
    rng = np.random.default_rng(seed)
    edges = {unit: np.sort(rng.choice(60, 12, replace=False)).reshape(-1, 2) for unit in Unit}
    rows = [(unit, BUSY, begin, end) for unit in Unit for begin, end in edges[unit]]
    rows += [(Unit.LOAD, (BUSY + 1) % len(UnitState), 0, 60)]
    spans = np.array(rows, [("unit", "u1"), ("state", "u1"), ("begin", "i8"), ("end", "i8")])
    work = _Work(SimpleNamespace(log=SimpleNamespace(spans=rng.permutation(spans))))
    for begin, end in [(0, 60), (0, 0), *np.sort(rng.integers(0, 61, (40, 2)))]:
        expected = {
            unit.name.lower(): sum(
                int(np.isin(range(first, last), range(begin, end)).sum()) for first, last in edges[unit]
            )
            for unit in Unit
        }
        assert work.within(int(begin), int(end)) == expected


def bounded(cycles: int, compute: int, read: int, written: int) -> str:
    layer = Layer("a", "Int8Conv", "", 0, read, written, 0)
    target = SimpleNamespace(bytes_per_cycle=4)
    return _bound(layer, cycles, {"load": cycles, "compute": compute}, target)


def test_a_layer_is_bound_by_what_takes_most_of_its_cycles():
    enough = int(100 * MOSTLY)
    assert bounded(100, enough, 0, 0) == "compute"
    assert bounded(100, enough - 1, 0, 0) == "latency"
    assert bounded(100, 0, 2 * enough, 2 * enough) == "memory"
    assert bounded(100, 0, 2 * enough, 2 * enough - 1) == "latency"
    assert bounded(100, 90, 200, 180) == "memory"
    assert bounded(100, 96, 200, 180) == "compute"
    assert bounded(0, 0, 4, 0) == ""
    without_log = _bound(Layer("a", "Int8Conv", "", 0, 0, 0, 0), 1, {}, SimpleNamespace(bytes_per_cycle=4))
    assert without_log == "latency"


def test_the_roofline_of_a_layer_is_its_macs_or_its_tensors_once():
    target = SimpleNamespace(bytes_per_cycle=4, config=SimpleNamespace(macs_per_cycle=16))
    cases = {(160, 39): 10, (160, 41): 11, (161, 0): 11, (0, 0): 0}
    for (macs, once), cycles in cases.items():
        assert _roofline(Layer("a", "Int8Conv", "", macs, 0, 0, once), target) == cycles


@pytest.mark.parametrize("title", TITLES)
def test_no_layer_takes_fewer_cycles_than_its_roofline(title):
    _, plan = handmade(title)
    run_report = report(plan, outcome_of(title, CycleDevice(TINY, plan.dram_bytes, log=True)), "cycle")
    timed = [layer for layer in run_report.layers if layer.on == ACCELERATOR]
    assert run_report.roofline_cycles == sum(layer.roofline_cycles for layer in timed) <= run_report.cycles
    assert run_report.bytes_once == sum(layer.bytes_once for layer in timed)
    assert run_report.bytes_moved == sum(layer.bytes_read + layer.bytes_written for layer in timed)


def test_a_given_clock_and_memory_stand_for_those_of_the_target():
    _, plan = handmade("residual")
    outcome = outcome_of("residual", CycleDevice(TINY, plan.dram_bytes, log=True))
    at_target_clock, at_double_clock = (
        report(plan, outcome, "cycle"),
        report(plan, outcome, "cycle", 2 * plan.target.clock_hz),
    )
    assert (
        at_target_clock.seconds
        == at_target_clock.cycles / plan.target.clock_hz
        == 2 * at_double_clock.seconds
    )
    assert [layer.seconds for layer in at_target_clock.layers if layer.cycles is not None] == [
        layer.cycles / plan.target.clock_hz for layer in at_target_clock.layers if layer.cycles is not None
    ]
    slow = report(plan, outcome, "cycle", memory=replace(plan.target.memory, cycles_per_beat=1000))
    assert (
        {layer.bound for layer in slow.layers if layer.bytes_read}
        == {"memory"}
        != {layer.bound for layer in at_target_clock.layers if layer.bytes_read}
    )


def test_multiply_accumulates_of_the_host_are_counted_apart():
    _, plan = handmade("with the host between")
    steps = tuple(
        structs.replace(step, macs=1000) if isinstance(step, HostStep) else step for step in plan.steps
    )
    outcome = outcome_of("with the host between", FunctionalDevice(TINY, plan.dram_bytes))
    run_report = report(replace(plan, steps=steps), outcome, "functional")
    assert run_report.host_macs == 1000
    assert run_report.macs == sum(layer.macs for step in plan.launches for layer in step.layers) > 0


def test_launches_that_ran_alone_have_no_time_of_the_host():
    _, plan = handmade("with the host between")
    outcome = outcome_of("with the host between", FunctionalDevice(TINY, plan.dram_bytes))
    run_report = report(plan, replace(outcome, ran=False, runs=3), "functional")
    assert (run_report.host_seconds, run_report.copy_seconds, run_report.runs) == (None, None, 3)
    assert report(plan, outcome, "functional").copy_seconds == outcome.copy_seconds > 0
