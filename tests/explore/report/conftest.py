"""The browser that the tests of pages share."""

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
