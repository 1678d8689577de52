"""Faults planted in the compiler: the verdict follows from what a copy prints."""

import importlib
import json

import pytest


@pytest.fixture(scope="module")
def script():
    return importlib.import_module("break_compiler")


def row(changed: bool, proved: object, seed: int = 1) -> dict[str, object]:
    return {"seed": seed, "changed": changed, "proved": proved, "difference": "d"}


GOOD = row(False, True)


@pytest.mark.parametrize(
    ("rows", "status", "verdict", "detail"),
    [
        ([GOOD], 0, "same", ""),
        ([GOOD, row(True, False, 4)], 0, "caught", "network 4: d"),
        ([row(True, False, 4), row(True, True, 5)], 0, "missed", "network 5"),
        ([GOOD, row(False, False, 6)], 0, "unseen", "network 6: d"),
        ([row(False, "failed")], 0, "failed", "d"),
        ([row(False, "failed"), row(True, False, 2)], 0, "caught", "network 2: d"),
        ([], 1, "failed", "Traceback\n"),
        ([GOOD], "timeout", "timeout", ""),
        ([row(True, True, 5)], "timeout", "missed", "network 5"),
    ],
)
def test_the_verdict_follows_from_the_networks(script, rows, status, verdict, detail):
    text = "\n".join(map(json.dumps, rows)) or "Traceback\n"
    found = script.verdict_of("fault", "key", script.Result(status, text, 1.0))
    assert (found.verdict, found.detail) == (verdict, detail)


def test_all_verdicts_are_counted(script):
    verdicts = [script.Verdict("f", "k", name) for name in ("caught", "caught", "same")]
    assert script.table(verdicts) == (
        "3 faults in the compiler's sources: 2 caught, 0 missed, 1 same, 0 unseen, 0 failed, 0 timeout"
    )


def test_faults_are_drawn_from_the_folders_after_import_and_quantisation(script):
    modules = script.sources(script.ROOT, script.FOLDERS)
    assert len(modules) > 50
    assert not any(name.startswith(("compiler/graph", "prove", "runtime")) for name in modules)
