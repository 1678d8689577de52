"""What a person can choose on the page of a sweep beside axes and ranges: limits, marks, two runs, links."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("vl_convert")
pytest.importorskip("playwright")

from tests.explore.report.browser import Opened, opened
from tests.explore.report.folders import LAYERS, VERDICTS, WHY, write_sweep
from vdla.explore.report.sweep_page import write_sweep_report

POINTS, FAILING = 40, 3
LIMIT = {"name": "lut", "value": 12000, "least": False, "worst": 0.1, "designs": 5}
VISIBLE = "#table tbody tr:not([hidden])"


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return write_sweep_report(write_sweep(tmp_path_factory.mktemp("sweep"), POINTS, limits=(LIMIT,)))


@pytest.fixture
def sweep(running, file) -> Iterator[Opened]:
    with opened(running, file) as opened_page:
        yield opened_page
        assert opened_page.complaints == []


def choose(sweep: Opened, where: str, value: str) -> None:
    sweep.page.select_option(where, value)
    sweep.page.wait_for_timeout(100)
    sweep.settle()


def verdicts(sweep: Opened) -> set[str]:
    return set(sweep.page.locator(f"{VISIBLE} .limit").all_inner_texts())


def fronts(sweep: Opened) -> set[str]:
    return {row.split()[0] for row in sweep.page.locator(VISIBLE).all_inner_texts() if "front" in row}


def test_limits_are_named_with_the_error_of_the_estimate_and_marked(sweep):
    note = sweep.page.locator("#limits-note").inner_text()
    assert "LUTs at most 12,000" in note
    assert "off by up to 10.0 % on 5 measured designs" in note
    counts = [sum(n % 3 == kind and n % 13 != 12 for n in range(POINTS)) for kind in range(3)]
    assert f"{counts[0]} points are surely within, {counts[1]} may or may not be" in note
    assert f"{counts[2]} are beyond" in note
    assert verdicts(sweep) == {"within", "may be within", "beyond"}
    assert sweep.page.locator(f"#table .limit.beyond[title='{WHY}']").count() == counts[2]
    assert not any(int(point) % 3 == VERDICTS.index("beyond") for point in fronts(sweep))
    assert sweep.page.locator("#pareto g.mark-rule.role-mark line").count() == 1


@pytest.mark.parametrize(
    ("kept", "shown"), [("open", {"within", "may be within"}), ("within", {"within"}), ("all", {"within", "may be within", "beyond"})]
)  # fmt: skip
def test_points_are_filtered_by_their_limits(sweep, kept, shown):
    choose(sweep, "#kept", kept)
    assert verdicts(sweep) == shown


def test_a_sweep_without_limits_says_nothing_of_them(running, tmp_path):
    with opened(running, write_sweep_report(write_sweep(tmp_path / "s", 4))) as opened_page:
        assert not opened_page.page.locator("#limits-note").is_visible()
        assert not opened_page.page.locator("#kept").is_visible()
        assert "Limits" not in opened_page.page.locator("#table thead").inner_text()


def test_points_that_one_mark_hides_are_counted_and_chosen_in_turn(sweep):
    for axis in ("#x", "#y"):
        choose(sweep, axis, "dsp")
    texts = sweep.page.locator("#pareto .mark-text text").all_text_contents()
    counted = [int(text[1:]) for text in texts if text.startswith("×")]
    dsp = [row.split("\t") for row in sweep.page.locator("#table tbody tr").all_inner_texts()]
    column = sweep.page.locator("#table thead .title").all_inner_texts().index("DSPs")
    sizes = [[row[column] for row in dsp].count(value) for value in {row[column] for row in dsp}]
    assert sorted(counted) == sorted(size for size in sizes if size > 1)
    assert "×N counts the points that one mark hides" in sweep.page.locator("#front").inner_text()
    chosen = set()
    for _ in range(3):
        sweep.page.evaluate("page.state.chooseNext(page.state.stacks[0][0].point)")
        chosen.add(sweep.page.evaluate("page.state.chosen"))
    assert len(chosen) == 3
    assert chosen <= set(sweep.page.evaluate("page.state.stacks[0].map(row => row.point)"))


@pytest.mark.parametrize("manner", ["colour", "shape"])
def test_marks_tell_the_values_of_a_parameter_apart(sweep, manner):
    choose(sweep, "#by", "parameter_block_in")
    choose(sweep, "#as", manner)
    marks = "#pareto path[aria-label^='Point ']"
    property = {
        "colour": "getAttribute('fill')",
        "shape": "getAttribute('d').split(/[0-9]/)[0] + mark.getAttribute('d').length",
    }[manner]
    look = sweep.page.eval_on_selector_all(
        marks,
        f"marks => marks.map(mark => [mark.getAttribute('aria-label').match(/\\d+/)[0], mark.{property}])",
    )
    values = {str(row["point"]): row["parameter_block_in"] for row in sweep.page.evaluate("page.state.rows")}
    front = fronts(sweep)
    looks = {}
    for point, appearance in look:
        if manner == "colour" or point not in front:  # marks of the front are larger
            looks.setdefault(values[point], set()).add(appearance)
    assert all(len(appearances) == 1 for appearances in looks.values())
    assert len(set.union(*looks.values())) == len(looks) > 1
    assert sweep.page.locator("#pareto .role-legend").count() == 1


def test_panels_have_the_points_of_one_value_each_and_their_own_front(sweep):
    choose(sweep, "#by", "parameter_block_in")
    choose(sweep, "#as", "panels")
    titles = sweep.page.locator("#pareto .panel").all_inner_texts()
    values = sorted({row["parameter_block_in"] for row in sweep.page.evaluate("page.state.rows")})
    assert titles == [f"block_in = {value}" for value in values]
    marks = [
        panel.locator("path[aria-label^='Point ']").count()
        for panel in sweep.page.locator("#pareto > div").all()
    ]
    rows = [row["parameter_block_in"] for row in sweep.page.evaluate("page.state.rows")]
    assert marks == [rows.count(value) for value in values]
    sweep.page.locator("#pareto path[aria-label^='Point 5:']").dispatch_event("click")
    sweep.settle()
    assert sweep.page.locator("#chosen-title").inner_text() == "Point 5 on resnet"


def test_the_layers_of_two_points_and_of_two_workloads_stand_side_by_side(sweep):
    sweep.page.locator("#table tr[data-row='3'] button").click()
    sweep.settle()
    assert not sweep.page.locator("#beside").is_visible()
    choose(sweep, "#other-point", "4")
    assert (
        sweep.page.locator("#beside-title").inner_text()
        == "Layers of point 3 on resnet beside point 4 on resnet"
    )
    rows = [row.split("\t") for row in sweep.page.locator("#beside-table tbody tr").all_inner_texts()]
    assert len(rows) == len(LAYERS)
    heads = sweep.page.locator("#beside-table thead .title").all_inner_texts()
    first, second = (number for number, head in enumerate(heads) if head == "Cycles")
    a, b = (int(rows[0][number].replace(",", "")) for number in (first, second))
    data = sweep.page.evaluate("[3, 4].map(point => page.state.data.workloads[0].layers.cycles[point][0])")
    assert [a, b] == data
    change = rows[0][heads.index("Change")]
    assert change == f"{'+' if b > a else '−'}{abs(100 * (b / a - 1)):.1f} %"
    assert sweep.page.locator("#side-1 path[aria-label^='Conv_1_0:']").count() == 1
    choose(sweep, "#other-workload", "mobilenet")
    assert "point 4 on mobilenet" in sweep.page.locator("#beside-title").inner_text()


def test_a_link_keeps_everything_that_was_chosen(running, file, sweep):
    page = sweep.page
    choose(sweep, "#y", "energy")
    choose(sweep, "#by", "parameter_bus_bits")
    choose(sweep, "#as", "shape")
    choose(sweep, "#kept", "open")
    page.locator("#log").check()
    page.locator("#find").fill("64")
    page.evaluate("page.state.setRanges({ parameter_block_in: [1, 2], cycles: [0, 3.25e6] })")
    page.evaluate("page.state.choose(7)")
    choose(sweep, "#other-point", "4")
    choose(sweep, "#other-workload", "mobilenet")
    choose(sweep, "#measure", "bytes")
    link = page.evaluate("location.hash")
    assert "point=7" in link
    script = """() => { const { state, detail } = page; return [
        state.x, state.y, state.log, state.by, state.as, state.kept, state.words, state.chosen,
        [...state.ranges], detail.other, detail.measure, state.rows.filter(row => row.shown).map(row => row.point),
        document.querySelector("#find").value, document.querySelector("#by").value, document.querySelector("#kept").value,
        [...document.querySelectorAll("#workloads input:checked")].map(box => box.value)] }"""
    wanted, rows = page.evaluate(script), sweep.shown_rows()
    with opened(running, file) as other:
        assert other.page.evaluate(script) != wanted
        other.page.goto(f"{file.as_uri()}{link}")
        other.page.wait_for_timeout(300)
        assert other.page.evaluate(script) == wanted
        other.page.reload()
        other.page.wait_for_selector("html[data-ready]")
        assert other.page.evaluate(script) == wanted
        assert sorted(other.shown_rows()) == sorted(rows)
        assert other.complaints == []


@pytest.mark.parametrize(
    "link",
    [
        "#point=999&x=none&by=none&range.nothing=1..2&workloads=none&as=x&limits=y",
        "#%%%",
        "#range.cycles=a..b&other=z",
    ],
)
def test_a_link_that_names_what_is_not_there_shows_the_page(running, file, link):
    with opened(running, file) as opened_page:
        opened_page.page.goto(f"{file.as_uri()}{link}")
        opened_page.page.reload()
        opened_page.page.wait_for_selector("html[data-ready]")
        assert len(opened_page.shown_rows()) == POINTS - FAILING
        assert opened_page.complaints == []
