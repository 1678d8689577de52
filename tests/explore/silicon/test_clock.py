"""Estimated clocks: which unit limits, how they follow the configuration, what their interval tells; periods."""

import pytest

from vdla.explore.silicon.clock import (
    PRIOR,
    Core,
    PeriodModel,
    RoutedDesign,
    estimated_clock,
    mhz_of,
    period_model,
    quotients,
    routed_designs,
)
from vdla.explore.silicon.grid import BASE, ROUTED_POINTS
from vdla.explore.silicon.store import RoutedComponent, current_store, key_of
from vdla.hw.components import Component, components
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY

OTHER = {"token_depth": 7}
"""Makes a design of a preset that was not routed."""
SIZE = {"compares": 0.0, "sums": 0.0, "multipliers": 1.0}


def design(lut: float, ratio: float, ns: float = 10.0) -> RoutedDesign:
    return RoutedDesign(str(lut), Core(lut, ns, "unit"), 1000 / (ns * ratio))


@pytest.mark.parametrize(
    ("points", "lut", "expected"),
    [
        ({1000: 1.1}, 5000, 1.1),
        ({1000: 1.1, 4000: 1.1}, 10**6, 1.1),
        ({1000: 1.0, 8000: 1.3}, 64000, 1.15 + 4.5 * 0.45 / (4.5 + PRIOR)),
        ({1000: 1.0, 8000: 1.3}, 1000, 1.15 - 1.5 * 0.45 / (4.5 + PRIOR)),
    ],
)
def test_the_ratio_of_periods_is_a_mean_and_what_doublings_of_the_size_add(points, lut, expected):
    designs = [design(size, ratio) for size, ratio in points.items()]
    assert mhz_of(Core(lut, 20.0, "unit"), designs) == pytest.approx(1000 / (20.0 * expected))


def test_the_error_of_a_design_is_that_of_an_estimate_without_it():
    errors = quotients((design(1000, 1.0), design(3000, 2.0)))
    assert errors == pytest.approx((2.0, 0.5))


def test_a_design_that_was_routed_shows_in_neither_its_estimate_nor_its_interval(monkeypatch):
    routed = routed_designs("ecp5")
    estimate = estimated_clock(TINY, "ecp5")
    others = tuple(design for design in routed if design.digest != TINY.digest)
    assert len(others) == len(routed) - 1
    monkeypatch.setattr("vdla.explore.silicon.clock.routed_designs", lambda family: others)
    assert estimated_clock(TINY, "ecp5") == estimate


def test_the_interval_reaches_from_the_worst_to_the_best_of_the_routed_designs():
    routed = routed_designs("ecp5")
    errors = quotients(routed)
    for design, error in zip(routed, errors, strict=True):
        guess = mhz_of(design.core, [other_design for other_design in routed if other_design is not design])
        assert guess * min(errors) <= design.mhz * 1.000001
        assert design.mhz <= guess * max(errors) * 1.000001
        assert guess * error == pytest.approx(design.mhz)
    estimate = estimated_clock(SMALL.with_changes(**OTHER), "ecp5")
    assert estimate.low / estimate.mhz == pytest.approx(min(errors), abs=0.01)
    assert estimate.high / estimate.mhz == pytest.approx(max(errors), abs=0.01)


@pytest.mark.parametrize("lanes", [1, 2, 4, 0])
@pytest.mark.parametrize("preset", [TINY, SMALL, DEFAULT], ids=lambda preset: preset.name)
def test_a_second_stage_of_the_alu_makes_a_core_faster_whatever_its_lanes(preset, lanes):
    one_stage, two_stages = (
        estimated_clock(preset.with_changes(alu_lanes=lanes, alu_stages=stages, **OTHER), "ecp5")
        for stages in (1, 2)
    )
    assert one_stage.limited_by == "compute_unit.pipeline"
    assert two_stages.mhz > 1.4 * one_stage.mhz


def test_the_clock_of_a_core_falls_with_its_size():
    designs = [BASE.with_changes(alu_lanes=1), TINY, DEFAULT]
    clocks = [estimated_clock(design.with_changes(alu_stages=2, **OTHER), "ecp5").mhz for design in designs]
    assert clocks[0] > clocks[1] > clocks[2]


def test_a_core_larger_than_every_routed_design_is_extrapolated():
    assert estimated_clock(DEFAULT, "ecp5").extrapolated
    assert not estimated_clock(TINY.with_changes(**OTHER), "ecp5").extrapolated


def test_a_family_without_routed_designs_has_no_estimate():
    assert estimated_clock(TINY, "xc7") is None


@pytest.mark.parametrize(("count", "is_estimated"), [(0, False), (1, False), (2, True), (3, True)])
def test_an_estimate_takes_two_designs_of_which_each_shows_the_error_of_the_other(
    monkeypatch, count, is_estimated
):
    designs = tuple(design(lut, 1.1) for lut in (1000, 3000, 9000))[:count]
    monkeypatch.setattr("vdla.explore.silicon.clock.routed_designs", lambda family: designs)
    assert (estimated_clock(TINY, "ecp5") is not None) == is_estimated


def pipeline(lane: int, staged: int = 0, values: int = 64) -> Component:
    size = {**SIZE, "shifts": float(lane), "staged": float(staged), "values": float(values)}
    return Component("pipeline", "pipeline", size, list)


def routed(component: Component, ns: float) -> RoutedComponent:
    return RoutedComponent(component.kind, component.features, (), "", ns)


ONE, TWO, WIDER = pipeline(32), pipeline(32, staged=32), pipeline(128, staged=128)
MODEL = PeriodModel([routed(ONE, 17.0), routed(TWO, 9.0), routed(WIDER, 12.0)])


def test_a_component_has_the_mean_of_its_form_and_what_doublings_of_its_widths_add():
    slope = 2 * 1 * 1.5 / (2 * 1**2 + PRIOR)  # of periods 3 ns and widths two doublings apart
    assert MODEL.ns(TWO) == pytest.approx(10.5 - slope)
    assert MODEL.ns(pipeline(64, staged=64)) == pytest.approx(10.5)
    assert MODEL.ns(pipeline(256, staged=256)) == pytest.approx(10.5 + 2 * slope)
    assert MODEL.ns(pipeline(128)) == pytest.approx(17.0 + 2 * slope)


def test_a_single_routed_component_stands_for_its_kind():
    model = PeriodModel([routed(ONE, 17.0)])
    assert model.ns(pipeline(1024, values=4096)) == 17.0
    assert model.ns(TWO) == 17.0  # the form was not routed: that of the slowest
    assert not model.knows(Component("dma", "dma", {}, list))


def test_a_kind_without_declared_widths_has_the_mean_period():
    fetch_components = [Component("fetch", "fetch", {"level": float(level)}, list) for level in (1, 2, 9)]
    model = PeriodModel([routed(fetch_components[0], 7.0), routed(fetch_components[1], 8.0)])
    assert model.ns(fetch_components[2]) == 7.5


def test_every_routed_component_of_the_store_is_one_of_the_grid():
    known = {key_of(part) for point in ROUTED_POINTS for part in point.components()}
    assert {component.key for component in current_store().routed["ecp5"]} <= known


@pytest.mark.parametrize("preset", [TINY, SMALL], ids=lambda preset: preset.name)
def test_lanes_make_the_pipeline_slower_and_a_second_stage_faster(preset):
    def ns(lanes: int, stages: int) -> float:
        config = preset.with_changes(alu_lanes=lanes, alu_stages=stages)
        return period_model("ecp5").ns(
            next(component for component in components(config) if component.kind == "pipeline")
        )

    assert ns(1, 2) < ns(4, 2) < ns(1, 1) < ns(4, 1)
