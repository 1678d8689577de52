"""What all tests share: the browser of the tests of pages, a price of chains of convolutions, properties
without a time limit, garbage collection that leaves out what pytest has collected, and what the end of every
test run says beside pytest's summary."""

import gc
from collections.abc import Iterator
from math import inf

import hypothesis
import pytest

from tests.explore.report import chromium
from vdla.hw.spec.garbage import without_collections

hypothesis.settings.register_profile("without deadlines", deadline=None)  # a loaded machine is slow
hypothesis.settings.load_profile("without deadlines")


@pytest.fixture(scope="session")
def running() -> Iterator:
    """Return Chromium as Playwright drives it; skip where one of them is missing."""
    if chromium.PATH is None:
        pytest.skip(chromium.REASON)
    pytest.importorskip("playwright")
    from tests.explore.report.browser import browser

    with browser(chromium.PATH) as started:
        yield started


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exclude modules and tests from garbage collection: they stay, and are a million objects that every search
    for cycles would visit."""
    with without_collections():
        result = yield
    gc.freeze()
    return result


def pytest_unconfigure() -> None:
    """Let the interpreter free modules at its end; extension modules otherwise report leaks."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line that the tests of pages were not run, where there is no browser."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    line = chromium.summary(reasons)
    if line:
        terminalreporter.write_line(line)


@pytest.fixture
def chains_pay(monkeypatch) -> Iterator:
    """Let every chain take fewer cycles than its operators."""
    from vdla.compiler.network import groups

    groups.least_cycles.cache_clear()
    monkeypatch.setattr(groups, "least_estimate", lambda task, target: inf)
    yield
    groups.least_cycles.cache_clear()
