"""A pytest plugin that writes every test's outcome and time to the file that MUTATION_RECORD names.

One JSON object a line, written as soon as it is known, so that it is there even if the run is killed.
"""

import json
import os
from pathlib import Path


def _write(**entry: object) -> None:
    with Path(os.environ["MUTATION_RECORD"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def pytest_runtest_logreport(report) -> None:
    """Note one phase of one test."""
    _write(test=report.nodeid, outcome=report.outcome, seconds=report.duration)


def pytest_collectreport(report) -> None:
    """Note a file that cannot be read."""
    if report.failed:
        _write(test=report.nodeid, outcome="failed", seconds=0.0)
