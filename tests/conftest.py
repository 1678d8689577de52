"""The browser that all tests of pages share, and what the end of every test run says beside pytest's own
summary."""

from collections.abc import Iterator

import pytest

from tests.explore.report import chromium


@pytest.fixture(scope="session")
def running() -> Iterator:
    """Return Chromium as Playwright drives it; skip where one of them is missing."""
    if chromium.PATH is None:
        pytest.skip(chromium.REASON)
    pytest.importorskip("playwright")
    from tests.explore.report.browser import browser

    with browser(chromium.PATH) as one:
        yield one


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line that the tests of pages were not run, where there is no browser."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    line = chromium.summary(reasons)
    if line:
        terminalreporter.write_line(line)
