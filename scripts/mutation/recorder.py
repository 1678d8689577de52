"""A pytest plugin that writes every test's outcome and processor time to the file that MUTATION_RECORD names.

One JSON object a line, written as soon as it is known, so that it is there even if the run is killed. Once
tests have spent the seconds that MUTATION_SECONDS names, no further test begins. A test that spends more than
MUTATION_TEST_SECONDS in this process ends the process. Both are unlimited where the variable is missing.
"""

import json
import math
import os
import resource
import time
from pathlib import Path

import pytest


def spent() -> float:
    """Return the processor time of this process and of processes that it has waited for."""
    return sum(os.times()[:4])


class Recorder:
    """The plugin; a phase of a test takes what was spent since the phase before."""

    def __init__(self, path: Path, seconds: float, test_seconds: float) -> None:
        self._path, self._before = path, spent()
        self._left, self._test_seconds = seconds, test_seconds

    def _write(self, test: str, outcome: str) -> None:
        now = spent()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": test, "outcome": outcome, "seconds": now - self._before}) + "\n")
        self._left -= now - self._before
        self._before = now

    def pytest_collectreport(self, report) -> None:
        """Note a file that cannot be read."""
        if report.failed:
            self._write(report.nodeid, "failed")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        """Pass over a test when the time for all is spent."""
        return True if self._left <= 0 else None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Leave out what is spent between tests; note that a test begins, and bound its processor time."""
        self._before = spent()
        self._write(nodeid, "begun")
        if math.isfinite(self._test_seconds):
            _, most = resource.getrlimit(resource.RLIMIT_CPU)
            limit = math.ceil(time.process_time() + self._test_seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit if most < 0 else min(limit, most), most))

    def pytest_runtest_logreport(self, report) -> None:
        """Note a phase of a test."""
        self._write(report.nodeid, report.outcome)


def pytest_configure(config) -> None:
    """Start to record."""
    seconds, test_seconds = (
        float(os.environ.get(name, "inf")) for name in ("MUTATION_SECONDS", "MUTATION_TEST_SECONDS")
    )
    path = Path(os.environ["MUTATION_RECORD"])
    config.pluginmanager.register(Recorder(path, seconds, test_seconds))
