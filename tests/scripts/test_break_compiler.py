"""Faults planted in the compiler: which changes are offered, and the verdict that follows from the networks."""

import ast
import importlib

import pytest
from mutation.operators import changes
from mutation.values import ValueFinder


@pytest.fixture(scope="module")
def script():
    return importlib.import_module("break_compiler")


def trial(result: str, seed: int = 1, **what: bool):
    from proving.compiler import Trial

    return Trial(seed, result, difference="d", **what)


@pytest.mark.parametrize(
    ("rows", "end", "verdict", "detail"),
    [
        ([("proved", 1, {})], "", "same", "network 1: d"),
        ([("proved", 1, {}), ("refused", 4, {"changed": True})], "", "caught", "network 4: d"),
        ([("refused", 4, {"changed": True}), ("proved", 5, {"changed": True})], "", "missed", "network 5: d"),
        ([("proved", 5, {"stopped": True})], "", "missed", "network 5: d"),
        ([("refused", 6, {})], "", "unseen", "network 6: d"),
        ([("refused", 6, {"unsafe": True}), ("refused", 7, {"stopped": True})], "", "unsafe", "network 6: d"),
        ([("failed", 1, {})], "", "failed", "network 1: d"),
        ([("failed", 1, {}), ("refused", 2, {"changed": True})], "", "caught", "network 2: d"),
        ([], "", "unchanged", ""),
        ([], "timeout", "timeout", "timeout"),
        ([], "signal", "failed", "signal"),
    ],
)
def test_the_verdict_follows_from_the_networks(script, rows, end, verdict, detail):
    outcomes = [trial(result, seed, **what) for result, seed, what in rows]
    assert script.verdict_of(outcomes, end) == (verdict, detail)


def test_all_verdicts_are_counted(script):
    verdicts = [script.Verdict("f", "k", name) for name in ("caught", "caught", "same")]
    assert script.table(verdicts) == (
        "3 faults in the compiler's sources: 2 caught, 0 missed, 1 same, 0 unsafe, 0 unseen, 0 unchanged, "
        "0 failed, 0 timeout"
    )


def test_faults_are_planted_in_the_folders_after_import_and_quantisation(script):
    modules = script.sources(script.ROOT, script.FOLDERS)
    assert len(modules) > 50
    assert not any(name.startswith(("compiler/graph", "prove", "runtime")) for name in modules)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = a + b", {"y = ((a + b) + 1)", "y = ((a + b) - 1)", "y = a"}),
        ("y = 1 << n", {"y = 1 << (n + 1)", "y = 2 << n", "y = 0 << n"}),
        ("y = (rows, columns)", {"y = ((columns, rows))"}),
        ("y = f(a, b)", {"y = f(b, a)"}),
        ("y = min(a, b)", {"y = max(a, b)", "y = a", "y = b", "y = (min(a, b) + 1)", "y = (min(a, b) - 1)"}),
        ("y = range(n)", {"y = range(n - 1)"}),
        (
            "y = f(u=a, v=b)",
            {"y = f(u=b, v=a)", *(f"y = f(u={u}, v={v})" for u, v in [("(a + 1)", "b"), ("(a - 1)", "b")])}
            | {f"y = f(u=a, v=(b {sign} 1))" for sign in "+-"},
        ),
        ("y = a < b", {"y = (a <= b)"}),
        ("y = x[:, 0, a]", {"y = x[:, 1, a]", "y = x[:, -1, a]"}),
        ("assert a + b", set()),
        ("y: int = a", set()),
    ],
)
def test_changes_move_values_and_addresses(before, after):
    changed = {change.applied(before.encode()).decode() for change in changes(before.encode(), ValueFinder)}
    assert changed == after
    assert all(ast.parse(text) for text in changed)


def test_faults_of_modules_where_results_change_are_drawn_more_often(script):
    sources = {f"compiler/{name}.py": b"x = 0\n" + b"y = a + b\n" * 100 for name in ("first", "second")}
    lines = frozenset((path, line) for path in sources for line in range(2, 102))
    from proving.compiler import Sample

    sample = Sample(0, None, None, (), (), "", lines, 1)
    drawn = script.Faults(sources, [sample], 0)
    counts = {"compiler/first.py": 0, "compiler/second.py": 0}
    for _, mutant in zip(range(120), drawn, strict=False):
        counts[mutant.module] += 1
        drawn.note(mutant, "caught" if mutant.module == "compiler/first.py" else "unchanged")
    assert counts["compiler/first.py"] > 2 * counts["compiler/second.py"]


def test_a_compiler_that_is_loaded_again_has_the_change_and_this_one_has_not(script):
    """A fork compiles the same plan with the same source, and another plan with a fault."""
    from proving.compiler import samples, trials

    (network,) = samples(1)
    path = "compiler/codegen/epilogue.py"
    source = script.sources(script.ROOT, (path.rpartition("/")[0],))[path]
    assert trials(path, source, [network]) == ([], "")
    (failure,), end = trials(path, b"raise ValueError('broken')\n", [network])
    assert (failure.result, end) == ("failed", "")
    assert "broken" in failure.difference
