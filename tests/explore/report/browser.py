"""A page in Debian's Chromium, driven by Playwright."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

READY, READY_MS = "html[data-ready]", 60_000


@dataclass(frozen=True)
class Opened:
    """An open page.

    Attributes:
        page: Playwright's.
        complaints: what the page wrote to the console as a warning or an error, its exceptions, and its
            requests to anything but itself.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)

    def shown_rows(self) -> list[str]:
        """Return the numbers of the visible rows of the table of points, from top to bottom."""
        return self.page.eval_on_selector_all(
            "#table tbody tr:not([hidden])", "rows => rows.map(row => row.dataset.row)"
        )

    def settle(self) -> None:
        """Wait until what the page draws once per frame has been drawn."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"
        )


@contextmanager
def browser(path: str) -> Iterator[Browser]:
    """Start the Chromium at `path`; it takes a second."""
    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


@contextmanager
def opened(
    running: Browser, file: Path, width: int = 1280, scheme: str = "light", ready: str = READY
) -> Iterator[Opened]:
    """Open a page's file and wait until it has drawn everything, which the selector `ready` tells."""
    page = running.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened_page = Opened(page)
    page.on(
        "console",
        lambda message: message.type in ("warning", "error") and opened_page.complaints.append(message.text),
    )
    page.on("pageerror", lambda error: opened_page.complaints.append(str(error)))
    page.on(
        "request",
        lambda request: (
            request.url.startswith(("file:", "data:", "blob:")) or opened_page.complaints.append(request.url)
        ),
    )
    page.goto(file.as_uri())
    page.wait_for_selector(ready, timeout=READY_MS)
    try:
        yield opened_page
    finally:
        page.close()
