"""The page of a sweep, in a browser: what it shows, and what brushing, sorting and choosing do."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow")
pytest.importorskip("vl_convert")
pytest.importorskip("playwright")

import pyarrow as pa
import pyarrow.parquet as pq

import vdla
from tests.cli.models import model
from tests.explore.report.browser import Opened, opened
from tests.explore.report.folders import FAILED, LAYERS, write_sweep
from vdla.cli import main
from vdla.explore.report.sweep_page import write_sweep_report

POINTS, FAILING = 40, 3
SHOWN = POINTS - FAILING


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return write_sweep_report(write_sweep(tmp_path_factory.mktemp("sweep"), POINTS))


@pytest.fixture
def sweep(running, file) -> Iterator[Opened]:
    with opened(running, file) as opened_page:
        yield opened_page
        assert opened_page.complaints == []


def centre(sweep: Opened, selector: str) -> tuple[float, float]:
    sweep.page.locator(selector).first.scroll_into_view_if_needed()
    box = sweep.page.locator(selector).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(sweep: Opened, start: tuple[float, float], end: tuple[float, float]) -> None:
    mouse = sweep.page.mouse
    mouse.move(*start)
    mouse.down()
    mouse.move(*((a + b) / 2 for a, b in zip(start, end, strict=True)))
    mouse.move(*end)
    mouse.up()
    sweep.settle()


def column(sweep: Opened, title: str) -> list[str]:
    heads = sweep.page.locator("#table thead .title").all_inner_texts()
    number = heads.index(title) + 1
    return sweep.page.locator(f"#table tbody tr:not([hidden]) > :nth-child({number})").all_inner_texts()


def integers(texts: list[str]) -> list[int]:
    return [int(text.replace(",", "")) for text in texts]


def test_every_point_with_a_result_is_drawn_and_listed(sweep):
    count = POINTS - FAILING
    assert len(sweep.shown_rows()) == count
    assert sweep.page.locator("#pareto path[aria-label^='Point ']").count() == count
    assert sweep.page.locator("#parallel g.paths path").count() == count
    assert sweep.page.locator("#shown").inner_text() == f"{count} of {count} points shown"


def test_points_that_failed_are_listed_with_their_reason(sweep):
    rows = sweep.page.locator("#failed tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["12", "25", "38"]
    assert all(FAILED in row for row in rows)
    for name in ("resnet", "mobilenet"):
        sweep.page.locator(f"#workloads input[value={name}]").check()
    rows = sweep.page.locator("#failed tbody tr").all_inner_texts()
    assert len(rows) == FAILING
    assert all("\tall 2\t" in row for row in rows)


def test_estimates_are_labelled(sweep):
    assert (
        "Area: estimated. Clock, and time with it: partly estimated."
        in sweep.page.locator("#sources").inner_text()
    )
    assert "LUTs (LUT4, estimated)" in sweep.page.locator("#pareto .role-axis-title").all_text_contents()


def test_a_clock_and_a_time_show_their_interval_and_the_unit_that_limits(sweep):
    sweep.page.locator("#table tr[data-row='3'] button").click()
    sweep.settle()
    figures = sweep.page.locator("#summary").inner_text()
    titles, place = ("Clock", "Clock, at least", "Clock, at most"), sweep.shown_rows().index("3")
    clock, least, most = (column(sweep, title)[place] for title in titles)
    assert f"{clock} ({least} to {most}), limited by compute_unit.pipeline" in figures
    time = re.search(r"Time .*\n(\S+) \((\S+) to (\S+)\)", figures)
    shortest, middle, longest = (float(time[number]) for number in (2, 1, 3))
    assert shortest * 1.1 == pytest.approx(middle, rel=0.01) == pytest.approx(longest * 0.9, rel=0.01)
    assert set(column(sweep, "Clock limited by")) == {"compute_unit.pipeline"}


@pytest.mark.parametrize(
    ("title", "key"), [("Cycles", "cycles"), ("LUTs", "lut"), ("bus_bits", "parameter_bus_bits")]
)
def test_a_click_on_a_head_sorts_and_a_second_reverses(sweep, title, key):
    head = sweep.page.locator("#table thead th", has_text=title)
    sweep.page.evaluate("window.page.table.sortBy('point')")
    for order in ("ascending", "descending"):
        head.get_by_role("button").click()
        values = integers(column(sweep, title))
        assert values == sorted(values, reverse=order == "descending")
        assert head.get_attribute("aria-sort") == order
    assert (
        sweep.page.locator("#table thead th[aria-sort=none]").count()
        == sweep.page.locator("#table thead th").count() - 1
    )


def test_the_front_is_what_no_point_beats(sweep):
    cycles, luts = integers(column(sweep, "Cycles")), integers(column(sweep, "LUTs"))
    points = list(zip(cycles, luts, strict=True))
    front = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    marked = {p for p, text in zip(points, column(sweep, "Front"), strict=True) if text}
    assert marked == front
    assert 1 < len(front) < len(set(points))


def test_a_brush_on_the_front_filters_table_and_lines(sweep):
    box = sweep.page.locator("#pareto svg.marks").bounding_box()
    drag(sweep, (box["x"] + 90, box["y"] + 20), (box["x"] + 330, box["y"] + 300))
    cycles, luts = integers(column(sweep, "Cycles")), integers(column(sweep, "LUTs"))
    ranges = dict(sweep.page.evaluate("[...window.page.state.ranges]"))
    assert 0 < len(cycles) < POINTS - FAILING
    assert set(ranges) == {"cycles", "lut"}
    assert all(ranges["cycles"][0] <= value <= ranges["cycles"][1] for value in cycles)
    assert all(ranges["lut"][0] <= value <= ranges["lut"][1] for value in luts)
    faint = sweep.page.locator("#parallel g.paths path[stroke-opacity='0.04']").count()
    assert faint == POINTS - FAILING - len(cycles)
    assert sweep.page.locator("#filters li").count() == 2


def test_a_brush_on_an_axis_filters_and_a_click_clears_it(sweep):
    x, y = centre(sweep, "#parallel g.axis0 path")
    drag(sweep, (x, y - 128), (x, y - 90))
    assert set(column(sweep, "block_out")) == {"64"}
    assert sweep.page.locator("#filters").inner_text().startswith("block_out: 64")
    sweep.page.mouse.click(x, y)
    sweep.settle()
    assert len(sweep.shown_rows()) == POINTS - FAILING


def test_hovering_shows_the_point_in_a_tooltip(sweep):
    sweep.page.locator("#pareto path[aria-label^='Point 0:']").hover()
    tooltip = sweep.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    text = " ".join(tooltip.inner_text().split())
    assert text.startswith("Point 0 At this place 2 points: 0, 24 block_out 8 block_in 8")
    assert "LUTs (LUT4, estimated) 8,544" in text


@pytest.mark.parametrize("place", ["#pareto path[aria-label^='Point 3:']", "#table tr[data-row='3'] button"])
def test_choosing_a_point_shows_its_layers_and_commands(sweep, place):
    sweep.page.locator(place).click()
    sweep.settle()
    assert sweep.page.locator("#chosen-title").inner_text() == "Point 3 on resnet"
    assert sweep.page.locator("#layers tbody tr").count() == len(LAYERS)
    assert sweep.page.locator("#table tr[aria-current=true]").get_attribute("data-row") == "3"
    assert sweep.page.locator("#bars path[aria-label^='Conv_1_0:']").count() == 1
    assert sweep.page.locator("#roofline path[aria-label^='Conv_']").count() == sum(
        macs > 0 for *_, macs in LAYERS
    )
    assert "--set block_out=64 --set block_in=8 " in sweep.page.locator("#commands").inner_text()


def test_another_workload_and_the_mean_of_both(sweep):
    def cycles(*wanted: str) -> int:
        for ticked in (True, False):  # one workload always stays ticked
            for name in ("resnet", "mobilenet"):
                if (name in wanted) == ticked:
                    sweep.page.locator(f"#workloads input[value={name}]").set_checked(ticked)
        return integers(column(sweep, "Cycles"))[sweep.shown_rows().index("1")]

    first, second, both = cycles("resnet"), cycles("mobilenet"), cycles("resnet", "mobilenet")
    assert abs(both - (first * second) ** 0.5) <= 1
    assert first < both < second


def test_typed_ranges_filter_without_a_mouse(sweep):
    sweep.page.locator("#ranges summary").focus()
    sweep.page.keyboard.press("Enter")
    field = sweep.page.get_by_label("bus_bits, least")
    field.focus()
    sweep.page.keyboard.type("100")
    sweep.page.keyboard.press("Enter")
    sweep.settle()
    assert (
        set(column(sweep, "bus_bits")) == {"128"}
        if "128" in column(sweep, "bus_bits")
        else sweep.shown_rows() == []
    )


@pytest.mark.parametrize(("end", "least"), [("least", True), ("most", False)])
def test_a_typed_range_may_be_open_at_one_end(sweep, end, least):
    before = sorted(integers(column(sweep, "Cycles")))
    limit = before[10]
    sweep.page.locator("#ranges summary").click()
    sweep.page.get_by_label(f"Cycles, {end}").fill(str(limit))
    sweep.page.keyboard.press("Enter")
    sweep.settle()
    kept = [value for value in before if (value >= limit if least else value <= limit)]
    assert sorted(integers(column(sweep, "Cycles"))) == kept


def test_find_keeps_the_rows_that_hold_the_text(sweep):
    sweep.page.locator("#find").fill("65536")
    sweep.settle()
    assert set(column(sweep, "wgt_buffer_bytes")) == {"65536"}
    sweep.page.locator("#clear").click()
    sweep.settle()
    assert len(sweep.shown_rows()) == POINTS - FAILING


def test_the_keyboard_reaches_sorting_and_choosing(sweep):
    sweep.page.locator("#clear").focus()
    for _ in range(60):
        sweep.page.keyboard.press("Tab")
        if sweep.page.evaluate("document.activeElement.innerText") == "Cycles":
            break
    sweep.page.keyboard.press("Enter")
    assert sweep.page.locator("#table th[aria-sort=descending] .title").inner_text() == "Cycles"
    for _ in range(60):
        sweep.page.keyboard.press("Tab")
        if sweep.page.evaluate("document.activeElement.closest('tbody') !== null"):
            break
    point = sweep.page.evaluate("document.activeElement.innerText")
    sweep.page.keyboard.press("Space")
    sweep.settle()
    assert sweep.page.locator("#chosen-title").inner_text() == f"Point {point} on resnet"


def test_the_button_overrides_the_system_s_colours(sweep):
    def ground() -> str:
        return sweep.page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = ground()
    sweep.page.locator("#theme").click()
    assert ground() == light
    sweep.page.locator("#theme").click()
    sweep.settle()
    assert ground() != light
    assert sweep.page.locator("#theme").inner_text() == "Colours: dark"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (400, "light")])
def test_the_body_never_scrolls_sideways(running, file, width, scheme):
    with opened(running, file, width, scheme) as opened_page:
        assert opened_page.page.evaluate("document.documentElement.scrollWidth") == width
        assert opened_page.complaints == []


def test_the_commands_reproduce_the_point(sweep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(model().SerializeToString())
    sweep.page.locator("#table tr[data-row='1'] button").click()
    for line in sweep.page.locator("#commands").inner_text().splitlines():
        program, *arguments = shlex.split(line)
        assert program == "vdla"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.stderr
    shown = json.loads(CliRunner().invoke(main, ["config", "point1.toml", "--json"]).stdout)
    assert shown["parameters"].items() >= {"block_in": 8, "block_out": 16, "acc_buffer_bytes": 32768}.items()
    assert Path("point1/vdla_core.v").stat().st_size > 0
    assert Path("point1.vdla").stat().st_size > 0


def test_the_commands_reproduce_cycles_and_time_at_the_clock_of_the_sweep(running, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(model().SerializeToString())
    given = {
        "base": {"config": "small"}, "parameters": {"memory.latency": [200], "energy.dram": [1951.25]},
        "workloads": [{"model": "net.onnx"}],
    }  # fmt: skip
    row = vdla.sweep(given, "sweep", processes=1).points().to_pylist()[0]
    assert (row["status"], row["clock_source"]) in (("ok", "estimated"), ("ok", "routed"))
    with opened(running, tmp_path / "sweep" / "report.html") as opened_page:
        lines = opened_page.page.locator("#commands").inner_text().splitlines()
    *before, last = (shlex.split(line)[1:] for line in lines)
    assert all(CliRunner().invoke(main, arguments).exit_code == 0 for arguments in before)
    ran = json.loads(CliRunner().invoke(main, [*last, "--json"]).stdout)
    figures = [ran["cycles"], ran["seconds"], ran["utilisation"], ran["energy_pj"]]
    assert figures == [row["cycles"], row["seconds"], row["utilisation"], row["energy_pj"]]
    assert (ran["summary"]["clock_hz"], ran["summary"]["clock_source"]) == (
        row["mhz"] * 1e6,
        row["clock_source"],
    )


def all_failed(points: pa.Table) -> pa.Table:
    return with_column(points, "status", [FAILED] * len(points))


def one_point(points: pa.Table) -> pa.Table:
    return points.slice(0, 1)


def nothing_but_cycles(points: pa.Table) -> pa.Table:
    empty = [None] * len(points)
    for name in ("lut", "ff", "dsp", "block_ram", "energy_pj", "utilisation"):
        points = with_column(points, name, empty, pa.float64())
    points = with_column(points, "area_source", ["the tools are missing"] * len(points))
    return with_column(points, "clock_source", ["target"] * len(points))


def parameters_of_text_and_numbers(points: pa.Table) -> pa.Table:
    points = with_column(points, "block_in", ["none", "pad_minimum", "none", "pad_minimum"])
    return with_column(points, "bus_bits", [0.5, 2.5, None, 1.5])


def with_column(points: pa.Table, name: str, values: list, kind: pa.DataType | None = None) -> pa.Table:
    return points.set_column(points.column_names.index(name), name, pa.array(values, kind))


@pytest.mark.parametrize(
    ("change", "shown", "axes"),
    [
        (all_failed, 0, []),
        (one_point, 1, ["Cycles", "LUTs"]),
        (nothing_but_cycles, 4, ["Cycles", "Time", "Clock"]),
        (parameters_of_text_and_numbers, 4, ["Cycles", "Time", "Energy", "block_in", "bus_bits"]),
    ],
)
def test_unusual_sweeps_are_shown_without_complaint(running, tmp_path, change, shown, axes):
    folder = write_sweep(tmp_path / "sweep", 4, ("resnet",))
    points = pq.read_table(folder / "points.parquet")
    pq.write_table(change(points), folder / "points.parquet")
    with opened(running, write_sweep_report(folder)) as opened_page:
        assert len(opened_page.shown_rows()) == shown
        assert opened_page.page.locator("#parallel g.paths path").count() == shown
        titles = opened_page.page.locator("#table thead .title").all_inner_texts()
        assert set(axes) <= set(titles)
        assert "Energy" not in titles or change is not nothing_but_cycles
        assert opened_page.complaints == []


def test_a_point_of_a_sweep_that_tunes_says_what_tuning_gained(running, tmp_path, sweep):
    folder = write_sweep(tmp_path / "tuned", 3)
    table = pq.read_table(folder / "points.parquet")
    default_cycles = [cycles + 1000 for cycles in table["cycles"].to_pylist()]
    pq.write_table(table.append_column("default_cycles", pa.array(default_cycles)), folder / "points.parquet")
    with opened(running, write_sweep_report(folder)) as opened_page:
        opened_page.page.evaluate("window.page.state.choose(0)")
        text = opened_page.page.locator("#run").inner_text()
        cycles, default_cycles = (
            int(digits.replace(",", "")) for digits in re.findall(r"[0-9,]{4,}(?= cycles| by the)", text)
        )
        assert "by tuning" in text
        assert default_cycles == cycles + 1000
        assert opened_page.complaints == []
    sweep.page.evaluate("window.page.state.choose(0)")
    assert "tuning" not in sweep.page.locator("#run").inner_text()
