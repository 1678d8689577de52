"""The page of a run, in a browser: its figures, and how the timeline zooms."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("vl_convert")
pytest.importorskip("playwright")

import vdla
from tests.cli.models import model, node
from tests.explore.report.browser import Opened, opened
from vdla.api import Run
from vdla.explore.report.run_page import write_run_report
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.units import Unit
from vdla.runtime.module.plan import random_inputs
from vdla.sim.timing.result import Timing

WINDOW = "window.page.timeline.window"


@dataclass(frozen=True)
class Written:
    """A run and its page."""

    file: Path
    run: Run

    @property
    def timings(self) -> list[Timing]:
        """When everything of each launch happened."""
        return [ran.timing for ran in self.run.outcome.launches]

    @property
    def cycles(self) -> int:
        """Cycles of the first launch, which the page shows when it opens."""
        return self.timings[0].cycles


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Written:
    module = vdla.compile(model().SerializeToString(), "tiny")
    run = module.run(random_inputs(module.plan.inputs), "cycle")
    file = tmp_path_factory.mktemp("run") / "run.html"
    write_run_report(file, module.plan, run.outcome, run.report, module.plan.target)
    return Written(file, run)


@pytest.fixture
def shown(running, written) -> Iterator[Opened]:
    with opened(running, written.file) as opened_page:
        yield opened_page
        assert opened_page.complaints == []


def test_the_summary_and_the_layers_are_those_of_the_report(shown, written):
    report = written.run.report
    tiles = shown.page.locator("#summary li").all_inner_texts()
    assert tiles[0].split() == [f"{report.cycles:,}", "cycles"]
    assert any("energy" in tile for tile in tiles)
    assert [row.split("\t")[0] for row in shown.page.locator("#layers tbody tr").all_inner_texts()] == [
        layer.name for layer in report.layers
    ]
    summary = written.run.summary
    assert any(tile.split()[:2] == [str(summary.launches), "launches"] for tile in tiles)
    assert f"{summary.bytes_in / 1024:,.1f} KiB" in " ".join(tiles)
    assert any(
        tile.startswith(f"{summary.roofline_share * 100:.1f}") and "roofline" in tile for tile in tiles
    )
    assert f"{summary.bytes_moved / summary.bytes_once:.2f} times" in " ".join(tiles)
    assert not any("measured" in tile or "of all cycles" in tile for tile in tiles)
    assert "not part of the cycles" in shown.page.locator("#host-time").inner_text()
    shown.page.locator("#why summary").click()
    listed = shown.page.locator("#reasons li").all_inner_texts()
    assert [text.split(":")[0] for text in listed] == [str(reason.count) for reason in summary.reasons]
    assert all(
        reason.why in text and all(op in text for op in reason.operators)
        for reason, text in zip(summary.reasons, listed, strict=True)
    )
    reasons = [layer.reason for layer in report.layers if layer.reason]
    text = shown.page.locator("#layers").inner_text()
    assert reasons
    assert all(reason in text for reason in reasons)


def test_the_shares_of_the_whole_run_are_the_counters_of_the_timing(shown, written):
    timing = written.timings[0]
    for unit, row in zip(Unit, shown.page.locator("#states tbody tr").all_inner_texts(), strict=True):
        name, *shares = row.split("\t")
        assert name == unit.name.lower()
        counted = np.array([timing.states(unit)[state] for state in UnitState])
        wanted = 100 * counted / counted.sum()
        assert np.abs([float(share.rstrip(" %")) for share in shares] - wanted).max() < 0.5


@pytest.mark.parametrize("least", [1, 3, 17, 400])
def test_joined_spans_cover_the_window_and_lose_none(shown, least):
    spans = shown.page.evaluate(
        "least => window.page.timeline.lanes.map(lane => [lane.visible(40, 900, least),"
        " lane.ends.filter((end, number) => end > 40 && lane.begin(number) < 900).length])",
        least,
    )
    for lane, count in spans:
        assert (lane[0]["begin"], lane[-1]["end"]) == (40, 900)
        assert all(span["end"] == next_span["begin"] for span, next_span in pairwise(lane))
        assert all(span["end"] - span["begin"] >= least for span in lane[:-1])
        assert sum(span["count"] for span in lane) == count


def test_keys_zoom_and_move(shown, written):
    cycles = written.cycles
    page = shown.page
    page.locator("#timeline").focus()

    def after(key: str) -> list[int]:
        page.keyboard.press(key)
        shown.settle()
        return page.evaluate(WINDOW)

    quarter, half = cycles / 4, cycles / 2
    assert after("+") == pytest.approx([quarter, quarter + half], abs=1)
    assert after("ArrowLeft") == pytest.approx([half / 4, half / 4 + half], abs=2)
    assert page.locator("#window").inner_text().startswith(f"Cycles {page.evaluate(WINDOW)[0]:,} to ")
    assert page.evaluate("window.page.timeline.view.signal('window')") == page.evaluate(WINDOW)
    assert after("Home") == [0, cycles]


def test_the_wheel_scrolls_the_page_and_zooms_with_ctrl(shown, written):
    page = shown.page
    page.locator("#timeline").scroll_into_view_if_needed()
    box = page.locator("#timeline canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.wheel(0, -100)
    shown.settle()
    assert page.evaluate(WINDOW) == [0, written.cycles]
    page.locator("#timeline canvas").hover()  # the wheel has moved the page below the mouse
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    shown.settle()
    begin, end = page.evaluate(WINDOW)
    assert 0 < begin < end < written.cycles


def test_dragging_over_the_overview_shows_that_part(shown, written):
    page = shown.page
    page.locator("#overview").scroll_into_view_if_needed()
    box = page.locator("#overview svg.marks").bounding_box()
    left = box["x"] + box["width"] / 2
    page.mouse.move(left, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(left + 60, box["y"] + 30)
    page.mouse.move(left + 110, box["y"] + 30)
    page.mouse.up()
    shown.settle()
    begin, end = page.evaluate(WINDOW)
    assert 0.05 < (end - begin) / written.cycles < 0.15
    assert 0.4 < begin / written.cycles < 0.55


def test_another_launch_and_one_of_its_layers(shown, written):
    page = shown.page
    assert len(written.timings) == 2
    page.locator("#launch").select_option("1")
    shown.settle()
    assert page.evaluate(WINDOW) == [0, written.timings[1].cycles]
    layer = written.run.outcome.launches[1].step.layers[0].name
    page.locator("#layer").select_option(layer)
    shown.settle()
    begin, end = page.evaluate(WINDOW)
    assert [end - begin] == [row.cycles for row in written.run.report.layers if row.name == layer]


def test_hovering_over_a_span_says_what_the_unit_does(shown):
    page = shown.page
    page.locator("#timeline").scroll_into_view_if_needed()
    box = page.locator("#timeline canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    page.mouse.move(box["x"] + box["width"] / 2 + 2, box["y"] + 80)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert "load" in tooltip.inner_text()
    assert "Cycles" in tooltip.inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (400, "light")])
def test_the_body_never_scrolls_sideways(running, written, width, scheme):
    with opened(running, written.file, width, scheme) as opened_page:
        assert opened_page.page.evaluate("document.documentElement.scrollWidth") == width
        assert opened_page.complaints == []


def test_a_network_on_the_host_alone_has_no_timeline(running, tmp_path):
    nodes = (node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y"))
    module = vdla.compile(model(nodes).SerializeToString(), "tiny")
    run = module.run(random_inputs(module.plan.inputs), "cycle")
    file = write_run_report(tmp_path / "x.html", module.plan, run.outcome, run.report, module.plan.target)
    with opened(running, file) as opened_page:
        assert opened_page.page.locator("#layers tbody tr").count() == 2
        assert not opened_page.page.locator("#timeline-section").is_visible()
        assert opened_page.complaints == []


def test_the_table_of_layers_fits_a_window_of_1280_pixels(running, tmp_path):
    names = [f"a_quantised_value_with_a_long_name_of_layer_{number}" for number in range(2)]
    quantised = [node("QuantizeLinear", "x s z", name) for name in names]
    nodes = (*quantised, node("DequantizeLinear", f"{names[1]} s z", "y"))
    for name, network in (("host", model(nodes)), ("accelerator", model())):
        module = vdla.compile(network.SerializeToString(), "tiny")
        run = module.run(random_inputs(module.plan.inputs), "cycle")
        file = write_run_report(
            tmp_path / f"{name}.html", module.plan, run.outcome, run.report, module.plan.target
        )
        with opened(running, file, 1280) as opened_page:
            widths = "place => [place.querySelector('table').scrollWidth, place.clientWidth]"
            table, room = opened_page.page.eval_on_selector("#layers", widths)
            assert table <= room
