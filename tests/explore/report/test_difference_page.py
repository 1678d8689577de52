"""The page of a comparison of two runs, in a browser: its tables and charts, and what choosing does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("vl_convert")
pytest.importorskip("playwright")

from tests.explore.report.browser import Opened, opened
from tests.explore.runs.records import PARAMETERS, layer, run
from vdla.explore.report.run_page import write_difference_page
from vdla.explore.runs.difference import RunDifference, compare_runs
from vdla.explore.runs.record import TargetRecord

SMALL = TargetRecord("small", "1" * 64, {**PARAMETERS, "block_in": 8, "extensions": ("table",)})
A = run(
    [layer("conv", 4000, "conv add"), layer("pool", 100), layer("soft", None, reason="no exp")], outside=24
)
B = run(
    [
        layer("conv", 9000, "conv", bound="memory"),
        layer("add", 1000, "add"),
        layer("pool", 90),
        layer("soft", 7),
    ],
    preset="small",
    target=SMALL,
)


def compared(a=A, b=B) -> RunDifference:
    return compare_runs(a, b, ("a.json", "b.json"))


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return write_difference_page(tmp_path_factory.mktemp("diff") / "x.html", compared())


@pytest.fixture
def shown(running, file) -> Iterator[Opened]:
    with opened(running, file) as opened_page:
        yield opened_page
        assert opened_page.complaints == []


def cells(shown: Opened, table: str) -> list[list[str]]:
    """Return the texts of the cells of a table's rows, including its foot."""
    rows = shown.page.locator(f"{table} tbody tr, {table} tfoot tr").all()
    return [[text.strip() for text in row.locator("th, td").all_inner_texts()] for row in rows]


def test_the_tables_show_totals_settings_and_layers(shown):
    totals = cells(shown, "#totals")
    assert totals[0] == ["Cycles", "4,124", "10,097", "+5,973", "2.448"]
    assert [row[0].split(" (")[0] for row in totals[-2:]] == ["Launches", "Instructions"]
    assert cells(shown, "#changed") == [
        ["target", "default", "small"],
        ["block_in", "16", "8"],
        ["extensions", "also gather", "–"],
    ]
    rows = cells(shown, "#layers")
    assert rows[0][:7] == ["conv + add", "4,000", "10,000", "+6,000", "2.500", "compute", "memory, compute"]
    assert rows[1] == ["pool", "100", "90", "−10", "0.900", "compute", "compute", ""]
    assert rows[2] == ["soft", "–", "7", "+7", "–", "host", "compute", "on the host in A: no exp"]
    assert rows[3] == ["in no layer", "24", "0", "−24", "0.000", "–", "–", "in no layer"]
    assert rows[4][:5] == ["Total", "4,124", "10,097", "+5,973", "2.448"]


def test_the_layers_of_a_group_unfold(shown):
    details = shown.page.locator("#layers details")
    assert details.locator("summary").all_inner_texts() == ["1 layer in A, 2 in B"]
    details.locator("summary").click()
    assert details.locator("li").all_inner_texts() == ["A: conv, 4,000", "B: conv, 9,000", "B: add, 1,000"]


def test_another_figure_changes_the_table_and_the_bars(shown):
    page = shown.page
    bars = "#bars .mark-rect path"
    assert page.locator(bars).count() == 4
    page.locator("#measure").select_option("bytes_moved")
    shown.settle()
    page.wait_for_function("document.querySelectorAll('#bars .mark-rect path').length === 3")
    assert cells(shown, "#layers")[0][1:5] == ["43", "107.4", "+64.5", "2.500"]
    assert "DRAM bytes moved" in page.locator("#layers caption").inner_text()
    titles = [option.strip() for option in page.locator("#measure option").all_inner_texts()]
    assert titles == ["Cycles", "Time", "DRAM bytes moved", "DRAM bytes read", "DRAM bytes written", "Energy"]


def test_the_bars_can_be_ordered_by_their_difference(shown):
    page = shown.page
    labels = "[...document.querySelectorAll('#bars .role-axis-label text')].map(text => text.textContent)"
    names = ["conv +1", "pool", "soft", "in no layer"]
    assert [text for text in page.evaluate(labels) if text in names] == names
    page.locator("#order").select_option("difference")
    page.wait_for_function(f"{labels}.indexOf('in no layer') < {labels}.indexOf('pool')")
    texts = [text for text in page.evaluate(labels) if text in names]
    assert texts == ["conv +1", "in no layer", "pool", "soft"]


def test_a_text_finds_rows_and_heads_sort_them(shown):
    page = shown.page
    page.locator("#find").fill("pool")
    assert page.locator("#shown").inner_text() == "1 of 4 rows shown"
    page.locator("#find").fill("")
    page.locator("#layers th button", has_text="Difference").click()
    names = [row[0] for row in cells(shown, "#layers")]
    assert names == ["in no layer", "pool", "soft", "conv + add", "Total"]


def test_a_page_of_equal_runs_says_so(running, tmp_path):
    with opened(running, write_difference_page(tmp_path / "x.html", compared(A, A))) as opened_page:
        text = opened_page.page.locator("main").inner_text()
        assert "Nothing differs: the same target, and the same figures of every layer." in text
        assert "Cycles: no layer differs." in text
        assert not opened_page.page.locator("#changed").is_visible()
        assert opened_page.complaints == []


def test_a_page_of_runs_without_energy_shows_the_other_figures(running, tmp_path):
    without = compared(run([layer("pool", 1, energy_pj=None)], energy_pj=None), B)
    with opened(running, write_difference_page(tmp_path / "x.html", without)) as opened_page:
        assert opened_page.page.locator("#measure option").count() > 1
        assert opened_page.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (400, "light")])
def test_the_body_never_scrolls_sideways(running, tmp_path, width, scheme):
    names = [f"a_layer_with_a_long_name_/of/blocks/{number}" for number in range(3)]
    a = run([layer(names[0], 10, " ".join(names))])
    b = run([layer(name) for name in names], target=SMALL)
    with opened(
        running, write_difference_page(tmp_path / "x.html", compared(a, b)), width, scheme
    ) as opened_page:
        assert opened_page.page.evaluate("document.documentElement.scrollWidth") == width
        table, room = opened_page.page.eval_on_selector(
            "#layers", "place => [place.querySelector('table').scrollWidth, place.clientWidth]"
        )
        assert width < 1280 or table <= room
        assert opened_page.complaints == []
