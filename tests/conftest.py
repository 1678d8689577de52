"""What the end of every test run says beside pytest's own summary."""

import pytest

from tests.explore.report import chromium


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line that the tests of pages were not run, where there is no browser."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    line = chromium.summary(reasons)
    if line:
        terminalreporter.write_line(line)
