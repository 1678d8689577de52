"""docs/debugger_causes.md: its clicks lead to the planted causes on the page of the debugger."""

import re
from collections.abc import Callable

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Locator, Page

from tests.docs.pages import DOCS, section
from tests.explore.debug.planted import MAKERS, Planted, planted
from tests.explore.report.browser import opened
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.recording import NONE
from vdla.explore.report.debug_page import write_debug_page
from vdla.hw.spec import isa

PAGE = (DOCS / "debugger_causes.md").read_text()
MOST_CLICKS = 3
CLICK = re.compile(
    r"^\d\. In \*(.+?)\*, click (the number before|the last number of)?\s?\*\*(.+?)\*\*\.$", re.M
)


def clicks_of(name: str) -> list[tuple[str, str, str]]:
    """Return the clicks that the page writes down for a cause: section, which number, text."""
    return CLICK.findall(section(PAGE, re.sub(r"[^a-z]+", "-", name.lower())))


def button_of(page: Page, where: str, which: str, text: str) -> Locator:
    """Return the button of a click."""
    heading = page.locator("h2").filter(has_text=re.compile(f"^{where}"))
    region = page.locator("section").filter(has=heading)
    if not which:
        return region.get_by_role("button", name=text, exact=True)
    numbers = region.locator("li").filter(has_text=text).first.locator("button")
    return numbers.first if which == "the number before" else numbers.last


def card(page: Page, title: str) -> str:
    return page.locator(f"[data-card='{title}']").inner_text()


def chosen(page: Page) -> int:
    return page.evaluate("page.selected")


def shows_missing_prefetch(page: Page, cause: Planted) -> None:
    index = chosen(page)
    assert index in cause.culprits
    giver = Debugger(cause.recording).instruction(index).taken[0].producer
    assert f"a token compute->load: instruction {giver} retires" in card(page, "Waits")
    assert "writes INP 0..127, read by" in card(page, "Reads and writes")
    assert "128 of 1,024 elements written" in page.locator("[data-pad='INP']").inner_text()


def shows_shallow_queue(page: Page, cause: Planted) -> None:
    assert "a place in the queue of its unit (2 places in the compute queue)" in card(page, "Waits")
    assert cause.recording.texts[chosen(page)] in page.locator("#instruction-text").inner_text()


def shows_extra_token(page: Page, cause: Planted) -> None:
    assert (chosen(page),) == cause.culprits
    early = Debugger(cause.recording).errors[0].instruction
    assert f"gives a token compute->load to {early}" in card(page, "Tokens")


def shows_small_tiles(page: Page, cause: Planted) -> None:
    assert re.search(r"1 burst of [12] beats?\n", card(page, "Work"))
    assert re.search(r"6\d cycles from the first request to the last beat, [12] of them", card(page, "Work"))
    assert "of segment 0x" in card(page, "Reads and writes")


def shows_wrong_address(page: Page, cause: Planted) -> None:
    (wrong,) = cause.culprits
    load = cause.recording.program.instruction(wrong)
    assert isinstance(load, isa.Load)
    address = load.dram_base * cause.recording.program.config.element_bytes(load.memory_type)
    assert chosen(page) == wrong
    assert f"reads DRAM {address:#x}.." in card(page, "Reads and writes")
    assert "of segment 0x2000" in card(page, "Reads and writes")


def shows_deadlock(page: Page, cause: Planted) -> None:
    assert (chosen(page),) == cause.culprits
    assert card(page, "Tokens") == "Tokens\n–"


def shows_shared_port(page: Page, cause: Planted) -> None:
    issue = Debugger(cause.recording).instruction(chosen(page)).issue
    assert issue is not None
    assert f"issues {issue.slots} slots" in card(page, "Work")
    assert f"the store unit took {issue.lent} slots more" in card(page, "Work")
    assert all(str(store) in card(page, "Work") for store in issue.stores)
    assert issue.lent == max(
        Debugger(cause.recording).instruction(index).issue.lent
        for index in set(marked(page))
        if Debugger(cause.recording).instruction(index).issue
    )


def marked(page: Page) -> list[int]:
    """Return the instructions of the chain that the page shows."""
    return [index for index in page.evaluate("[...page.lanes.marked]") if index != NONE]


def shows_stalled_memory(page: Page, cause: Planted) -> None:
    assert "latency 64, 9 cycles per beat" in card(page, "Work")
    assert cause.recording.texts[chosen(page)].startswith("LOAD")
    assert "of segment 0x" in card(page, "Reads and writes")


def shows_late_micro_ops(page: Page, cause: Planted) -> None:
    index = chosen(page)
    assert index in cause.culprits
    assert re.search(rf"writes UOP \d+\.\.\d+, read by {index + 1}\b", card(page, "Reads and writes"))


def shows_wrong_table(page: Page, cause: Planted) -> None:
    assert (chosen(page),) == cause.culprits
    assert re.search(r"reads DRAM 0x[0-9a-f.x]+ of sq\.T\n", card(page, "Reads and writes"))
    assert "all have these two values" in page.locator("#errors").inner_text()


SHOWN: dict[str, Callable[[Page, Planted], None]] = {
    "A missing prefetch": shows_missing_prefetch,
    "A queue that is too shallow": shows_shallow_queue,
    "A token too many": shows_extra_token,
    "Tiles that are too small": shows_small_tiles,
    "A wrong address": shows_wrong_address,
    "A deadlock": shows_deadlock,
    "A shared port of the accumulators": shows_shared_port,
    "A stalled memory": shows_stalled_memory,
    "A late load of micro-ops": shows_late_micro_ops,
    "A wrong table": shows_wrong_table,
}


def test_the_page_has_a_section_for_each_planted_cause():
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == list(MAKERS) == list(SHOWN)
    for name in MAKERS:
        assert 1 <= len(clicks_of(name)) <= MOST_CLICKS


def follows(page: Page, name: str, cause: Planted) -> None:
    """Assert that the clicks of a cause are there, and that they lead to it."""
    for click in clicks_of(name):
        button = button_of(page, *click)
        assert button.count() == 1
        button.click()
    SHOWN[name](page, cause)


@pytest.mark.parametrize("name", MAKERS)
def test_the_clicks_lead_to_the_cause(running, tmp_path, name):
    cause = planted(name)
    with opened(running, write_debug_page(tmp_path / "x.html", cause.recording)) as opened_page:
        follows(opened_page.page, name, cause)
        assert opened_page.complaints == []


@pytest.mark.parametrize("name", MAKERS)
def test_the_clicks_do_not_lead_to_a_cause_that_is_not_there(running, tmp_path, name):
    """The checks above fail on the same program without the planted cause."""
    cause = planted(name)
    with opened(running, write_debug_page(tmp_path / "x.html", cause.healthy)) as opened_page:
        with pytest.raises((AssertionError, IndexError)):
            follows(opened_page.page, name, Planted(cause.healthy, cause.culprits, cause.healthy))
        assert opened_page.complaints == []


@pytest.mark.parametrize("name", MAKERS)
def test_a_planted_cause_costs_cycles_or_is_an_error(name):
    cause = planted(name)
    faulty, healthy = Debugger(cause.recording), Debugger(cause.healthy)
    assert healthy.errors == ()
    assert faulty.errors or faulty.timing.cycles > 1.05 * healthy.timing.cycles
