"""A pytest plugin that writes every test's outcome and processor time to the file that MUTATION_RECORD names.

One JSON object a line, written as soon as it is known, so that it is there even if the run is killed.
"""

import json
import os
from pathlib import Path


def spent() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


class Recorder:
    """The plugin; a phase of a test takes what was spent since the one before."""

    def __init__(self, path: Path) -> None:
        self._path, self._before = path, spent()

    def _write(self, test: str, outcome: str) -> None:
        now = spent()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": test, "outcome": outcome, "seconds": now - self._before}) + "\n")
        self._before = now

    def pytest_collectreport(self, report) -> None:
        """Note a file that cannot be read."""
        if report.failed:
            self._write(report.nodeid, "failed")

    def pytest_runtest_logstart(self) -> None:
        """Leave out what is spent between tests."""
        self._before = spent()

    def pytest_runtest_logreport(self, report) -> None:
        """Note one phase of one test."""
        self._write(report.nodeid, report.outcome)


def pytest_configure(config) -> None:
    """Start to record."""
    config.pluginmanager.register(Recorder(Path(os.environ["MUTATION_RECORD"])))
