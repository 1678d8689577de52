"""Where Chromium is, and what tests that need it say where it is not."""

import shutil

PATH = shutil.which("chromium") or shutil.which("chromium-browser")
REASON = "chromium is not installed"
SKIPPED = (REASON, "could not import 'playwright'")
ADVICE = "`make tools` installs it where it may, else: apt-get install chromium"


def summary(reasons: list[str]) -> str | None:
    """Return a line for the end of a test run that skipped tests for `reasons`; None if no browser was missed."""
    count = sum(any(text in reason for text in SKIPPED) for reason in reasons)
    return (
        f"tests of pages in a browser were NOT run ({count} skipped): {REASON}; {ADVICE}" if count else None
    )
