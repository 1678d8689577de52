"""The page of a tuning log, in a browser: what it shows, and what choosing, sorting and searching do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("vl_convert")
pytest.importorskip("playwright")
pytest.importorskip("xgboost")

from tests.explore.report.browser import Opened, opened
from tests.explore.report.logs import (
    EXPLORERS,
    REASON,
    SEEDS,
    TASKS,
    changed,
    contents,
    record,
    records,
    settlement,
)
from vdla.explore.report.tune_page import page_data, write_tune_report
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target

GIVEN = Target(DEFAULT)


@pytest.fixture(scope="module")
def part() -> dict:
    return page_data(contents(), GIVEN)["parts"][0]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return write_tune_report(tmp_path_factory.mktemp("tune") / "x.html", contents(), GIVEN)


@pytest.fixture
def shown(running, file) -> Iterator[Opened]:
    with opened(running, file) as opened_page:
        yield opened_page
        assert opened_page.complaints == []


def column(shown: Opened, title: str) -> list[str]:
    titles = shown.page.locator("#tasks thead .title").all_inner_texts()
    number = titles.index(title) + 1
    return shown.page.locator(f"#tasks tbody tr:not([hidden]) > :nth-child({number})").all_inner_texts()


def test_the_table_has_a_line_for_each_task(shown, part):
    tasks = part["tasks"]
    assert column(shown, "Task") == ["1", "2", "3"]
    assert column(shown, "Kind") == tasks["kind"]
    assert column(shown, "Sizes") == tasks["sizes"]
    assert column(shown, "Default choice") == [f"{count:,}" for count in tasks["default"]]
    assert column(shown, "Best") == [f"{count:,}" for count in tasks["best"]]
    assert column(shown, "Best choice") == tasks["choice"]
    assert column(shown, "Lower bound") == [
        f"{100 * bound / best:.1f} %" for bound, best in zip(tasks["bound"], tasks["best"], strict=True)
    ]
    assert [float(text.replace("−", "-")) for text in column(shown, "Model")] == pytest.approx(
        tasks["learned"], abs=1e-3
    )


def test_the_summary_has_the_geometric_mean_of_the_gains(shown, part):
    tasks = part["tasks"]
    mean = 1.0
    for best, default in zip(tasks["best"], tasks["default"], strict=True):
        mean *= (best / default) ** (1 / len(TASKS))
    tiles = shown.page.locator("#summary li").all_inner_texts()
    assert tiles[0] == f"−{100 * (1 - mean):.2f} %\ncycles of each task alone, geometric mean over tasks"
    assert tiles[2].startswith(f"{len(TASKS)} of {len(TASKS)}\n")
    assert tiles[3] == f"{part['trials']:,}\ntrials, 1 of them illegal"
    assert tiles[4].split()[0] == str(len(EXPLORERS) * SEEDS)
    assert tiles[5].split()[0] == f"{sorted(tasks['learned'])[1]:.3f}"
    shown.page.locator("#why summary").click()
    assert shown.page.locator("#reasons li").all_inner_texts() == [f"1: {REASON}"]


def test_the_curves_have_a_line_for_each_explorer(shown):
    assert shown.page.locator("#curves .mark-line path").count() == len(EXPLORERS)
    legend = shown.page.locator("#curves .role-legend-label text").all_text_contents()
    assert sorted(legend) == sorted(EXPLORERS)
    assert "Geometric mean over 3 tasks" in shown.page.locator("#curves-text").inner_text()


def test_choosing_a_task_shows_its_curves_and_its_bound(shown, part):
    page = shown.page
    page.locator("#tasks tr[data-row='3'] button").click()
    shown.settle()
    assert page.locator("#task").input_value() == "2"
    assert page.locator("#tasks tr[aria-current=true]").get_attribute("data-row") == "3"
    default_text = f"{part['tasks']['default'][2]:,} cycles"
    assert default_text in page.locator("#curves-text").inner_text()
    assert "lower bound" in page.locator("#curves svg.marks").text_content()
    page.locator("#task").select_option("all")
    shown.settle()
    assert page.locator("#tasks tr[aria-current=true]").count() == 0
    assert "lower bound" not in page.locator("#curves svg.marks").text_content()


def test_logarithmic_trials_begin_at_1(shown):
    shown.page.locator("#log").check()
    shown.settle()
    labels = shown.page.locator("#curves .role-axis-label text").all_text_contents()
    assert "1" in labels
    assert "0" not in labels


def test_every_task_is_a_mark_that_says_its_gain_and_its_correlations(shown, part):
    for number, kind in enumerate(part["tasks"]["kind"], 1):
        assert shown.page.locator(f"#standings path[aria-label^='{number} {kind}: −']").count() == 1
        marks = shown.page.locator(f"#ranks path[aria-label^='{number} {kind}: ']")
        assert marks.count() == 2


def test_hovering_says_what_a_task_gained(shown):
    shown.page.locator("#standings path[aria-label^='2 Pooling']").hover()
    tooltip = shown.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert "channels 4, height 8, width 8, kernel 2×2" in tooltip.inner_text()


def test_find_keeps_the_rows_that_hold_the_text(shown):
    shown.page.locator("#find").fill("pooling")
    assert column(shown, "Task") == ["2"]
    assert shown.page.locator("#shown").inner_text() == "1 of 3 tasks shown"


def test_the_keyboard_reaches_the_controls_and_chooses_a_task(shown):
    page = shown.page
    page.locator("#task").focus()
    page.keyboard.press("ArrowDown")
    shown.settle()
    assert page.locator("#tasks tr[aria-current=true]").get_attribute("data-row") == "1"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.locator("#log").is_checked()
    page.locator("#tasks tr[data-row='2'] button").focus()
    page.keyboard.press("Enter")
    shown.settle()
    assert page.locator("#task").input_value() == "1"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (400, "light")])
def test_the_body_never_scrolls_sideways(running, file, width, scheme):
    with opened(running, file, width, scheme) as opened_page:
        assert opened_page.page.evaluate("document.documentElement.scrollWidth") == width
        assert opened_page.complaints == []


def test_another_part_of_the_log_is_chosen_with_its_tasks(running, tmp_path):
    elsewhere = [
        changed(trial, timing="f" * 64, target="mine") for trial in records() if trial.task == str(TASKS[0])
    ]
    file = write_tune_report(tmp_path / "x.html", contents([*records(), *elsewhere]), GIVEN)
    with opened(running, file) as opened_page:
        assert len(column(opened_page, "Task")) == 3
        assert (
            "shown for mine ffffffff: they need the target" in opened_page.page.locator("#notes").inner_text()
        )
        opened_page.page.locator("#part").select_option("1")
        opened_page.settle()
        assert column(opened_page, "Lower bound") == ["–"]
        assert opened_page.page.locator("#ranks").inner_text() == "The target is not known here."
        assert opened_page.complaints == []


def test_the_settled_choices_of_a_network_are_named(running, shown, tmp_path):
    assert "its gain is not known" in shown.page.locator("#settled").inner_text()
    file = write_tune_report(tmp_path / "x.html", contents([*records(), *settlement(5000)]), GIVEN)
    with opened(running, file) as opened_page:
        assert opened_page.page.locator("#settled li").all_inner_texts() == [
            "net.onnx: 1 of 3 tasks have another choice than the default choice"
        ]
        tiles = opened_page.page.locator("#summary li").all_inner_texts()
        assert tiles[0].split() == ["−20.00", "%", "cycles", "of", "the", "whole", "network", "net.onnx"]
        assert tiles[1].split() == [
            *["5,000", "cycles", "of", "net.onnx,", "6,250", "by", "the", "default", "choices"]
        ]
        assert column(opened_page, "Layers") == ["conv0, again", "conv1, again", "conv2, again"]
        assert opened_page.complaints == []


@pytest.mark.parametrize(
    "log_records",
    [
        [record(TASKS[0], 0, "random", 0, 1)],
        [record(TASKS[0], 0, "random", 0, 1, cycles=None, status="no")],
        [record(TASKS[0], 0, "default")],
        [changed(record(TASKS[0], 0, "another", 0, 1), task="<b>Unheard</b>(of=1)", choice={})],
    ],
    ids=["no default", "all illegal", "no trials", "unknown task"],
)
def test_unusual_logs_are_shown_without_complaint(running, tmp_path, log_records):
    file = write_tune_report(tmp_path / "x.html", contents(log_records, torn=True), GIVEN)
    with opened(running, file) as page:
        assert column(page, "Task") == ["1"]
        assert "torn" in page.page.locator("#notes").inner_text()
        assert page.page.locator("#curves").inner_text().startswith("No explorer")
        assert page.complaints == []
