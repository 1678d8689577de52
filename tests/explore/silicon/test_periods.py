"""Periods of components: by their form and their widths."""

import pytest

from vdla.explore.silicon.grid import ROUTED_POINTS
from vdla.explore.silicon.periods import PRIOR, PeriodModel, period_model
from vdla.explore.silicon.store import RoutedComponent, current_store, key_of
from vdla.hw.components import Component, components
from vdla.hw.spec.presets import SMALL, TINY

SIZE = {"compares": 0.0, "sums": 0.0, "multipliers": 1.0}


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
    found = [Component("fetch", "fetch", {"level": float(level)}, list) for level in (1, 2, 9)]
    model = PeriodModel([routed(found[0], 7.0), routed(found[1], 8.0)])
    assert model.ns(found[2]) == 7.5


def test_every_routed_component_of_the_store_is_one_of_the_grid():
    known = {key_of(part) for point in ROUTED_POINTS for part in point.components()}
    assert {one.key for one in current_store().routed["ecp5"]} <= known


@pytest.mark.parametrize("preset", [TINY, SMALL], ids=lambda preset: preset.name)
def test_lanes_make_the_pipeline_slower_and_a_second_stage_faster(preset):
    def ns(lanes: int, stages: int) -> float:
        config = preset.with_changes(alu_lanes=lanes, alu_stages=stages)
        return period_model("ecp5").ns(next(one for one in components(config) if one.kind == "pipeline"))

    assert ns(1, 2) < ns(4, 2) < ns(1, 1) < ns(4, 1)
