"""The benchmark of the debugger's page: what it measures, and the limits that it names."""

from dataclasses import replace

import pytest

pytest.importorskip("playwright")
from bench_debug_page import MOST_READY_S, MOST_STEP_MS, Opening, measured

from tests.explore.report.test_debug_page_data import layered
from vdla.explore.report.debug_page import write_debug_page

FINE = Opening(1280, "dark", 0.5, (8.0, 20.0, 9.0), ())
FAULTS = {
    "slow to open": (replace(FINE, ready_s=MOST_READY_S + 0.5), ["ready after 2.50 s, and 2 s are allowed"]),
    "a slow step": (
        replace(FINE, steps_ms=(1.0, MOST_STEP_MS + 7)),
        ["a step takes 57 ms, and 50 ms are allowed"],
    ),
    "a complaint": (replace(FINE, complaints=("no run",)), ["the console has: no run"]),
}
BUTTONS, QUARTERS = 8, 4


def test_a_page_within_the_limits_has_no_fault():
    assert list(FINE.faults()) == []
    assert FINE.text() == " 1280 pixels, dark : ready after 0.50 s; 3 steps, median 9 ms, worst 20 ms"


@pytest.mark.parametrize("title", FAULTS)
def test_each_limit_that_is_exceeded_is_named(title):
    opening, faults = FAULTS[title]
    assert list(opening.faults()) == faults


def test_every_button_steps_from_every_quarter(running, tmp_path):
    page = write_debug_page(tmp_path / "debug.html", layered())
    picture = tmp_path / "picture.png"
    opening = measured(running, page, 400, "dark", 2, picture)
    assert len(opening.steps_ms) == BUTTONS * QUARTERS * 2
    assert opening.complaints == ()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_a_page_writes_to_the_console_is_a_fault(running, tmp_path):
    page = write_debug_page(tmp_path / "debug.html", layered())
    page.write_text(page.read_text().replace("</body>", "<script>console.error('broken')</script></body>"))
    assert list(measured(running, page, 1280, "light", 1, None).faults())[-1] == "the console has: broken"
