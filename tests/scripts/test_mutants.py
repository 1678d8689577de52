"""The mutation campaign: what is changed and what is not, which tests run, and that a campaign can be relied
on."""

import ast
import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

ROOT = Path(__file__).parents[2]


# Operators

CHANGES = {
    "y = a < b": {"y = (a <= b)"},
    "y = a <= b < c": {"y = (a < b < c)", "y = (a <= b <= c)"},
    "y = a == b": {"y = (a != b)"},
    "y = a not in b": {"y = (a in b)"},
    "y = 7": {"y = 8", "y = 6"},
    "y = 1.5": {"y = 2.5", "y = 0.5"},
    "y = True": {"y = False"},
    "y = a + (b << c)": {"y = (a - (b << c))", "y = a + ((b >> c))"},
    "y = a * b // c": {"y = (a * b * c)", "y = (a + b) // c"},
    "y = a & ~b": {"y = (a | ~b)", "y = a & b"},
    "y = a and b": {"y = (a or b)", "y = a", "y = b"},
    "y = a or b or c": {"y = (a and b and c)", "y = (b or c)", "y = (a or c)", "y = (a or b)"},
    "y = not a": {"y = a"},
    "y = b if a else c": {"y = b if (not a) else c"},
    "y = [a for a in b if c(a)]": {"y = [a for a in b if (not c(a))]", "y = [a for a in b if True]"},
    "y += a": {"y -= a"},
    "if a == b: f()": {"if (a != b): f()", "if False: f()", "if True: f()"},
    "while a: f()": {"while (not a): f()", "while False: f()"},
    "y = f(a, b, c)": {"y = f(b, a, c)"},
    "y = f(a.x, a.y, key=b)": {"y = f(a.y, a.x, key=b)"},
    "y = a.reshape(-1, 3)": {"y = a.reshape(-1, 4)", "y = a.reshape(-1, 2)"},
    "y = f(-1)": {"y = f(-2)", "y = f(-0)"},
    "y = Mux(a, b, c)": {"y = Mux(a, c, b)"},
    "def f(a):\n    a = g(a)\n    return a": {"pass"},
    "def f(a):\n    g(a)\n    h(a)": {"pass"},
    "with m.If(a):\n    m.d.comb += b.eq(c)": {"with m.If(a == 0):", "with m.If(1):"},
    "m.d.sync += [a.eq(b), c.eq(d)]": {"m.d.sync += [[], c.eq(d)]", "m.d.sync += [a.eq(b), []]"},
    "@dataclass\nclass A:\n    b: int = 7": {"b: int = 8", "b: int = 6"},
}


@pytest.mark.parametrize("source", CHANGES)
def test_a_statement_offers_its_changes(script, source):
    mutants = script("mutation.sample").mutants_of("toy.py", source.encode())
    assert {mutant.after for mutant in mutants} == CHANGES[source]


NOTHING = [
    '"""Text with 1 < 2."""',
    "def f():\n    '''Return 1.'''\n    return a",
    "import a.b",
    "assert a < 1, 2",
    "raise ValueError(a + 1)",
    "y = ParseError(a + 1)",
    "y = f'{a + 1}'",
    "y: tuple[int, 3]",
    "y = 'a' + b",
    "def f(a: Literal[1] = b) -> int | str:\n    return a",
    "@cache(maxsize=64)\ndef f():\n    return a",
    "y = zip(a, strict=True)",
    "y = field(repr=False)",
    "y = if_then(a, likely=False)",
    "if TYPE_CHECKING:\n    y = 1",
    "print(a + 1)",
    "logger.warning(a, 1)",
    "class A:\n    def __repr__(self):\n        return a + 1",
    "y = [a] * n",
    "Y = A | Word",
    "y = isinstance(a, b)",
    "def f():\n    only(a)",
    "def f():\n    a = g()\n    return a",
    "y = f(a, 'b')",
    "y = f(a, a)",
    "y = a.reshape(b, -1)",  # every negative extent means the same
    "y = 3.4e38",  # as much as the next number
]


@pytest.mark.parametrize("source", NOTHING)
def test_what_tests_need_not_notice_is_left_alone(script, source):
    assert script("mutation.operators").changes(source.encode()) == []


def test_a_function_keeps_statements_that_names_depend_on(script):
    source = (
        b"def f(a):\n    b = g(a)\n    b.x = a\n    a[b] = b\n    if b:\n        c = b\n        "
        b"h(c)\n    return b"
    )
    statements = [
        mutant
        for mutant in script("mutation.sample").mutants_of("toy.py", source)
        if mutant.change.operator == "statement"
    ]
    assert [mutant.before for mutant in statements] == ["b.x = a", "a[b] = b", "h(c)"]


def test_a_change_leaves_the_rest_of_the_file_as_it_is(script):
    source = "y = (a +  # one\n     b)\nz = 'ü' if a < b else 7  # two\n".encode()
    texts = [change.applied(source).decode() for change in script("mutation.operators").changes(source)]
    assert "y = (a +  # one\n     b)\nz = 'ü' if (a <= b) else 7  # two\n" in texts
    assert "y = ((a - b))\nz = 'ü' if a < b else 7  # two\n" in texts


def test_mutants_of_the_package_are_programs_and_differ_from_it(script):
    sample = script("mutation.sample")
    modules = sample.sources(ROOT)
    for mutant in sample.draw(modules, 60, 1):
        before = modules[mutant.module]
        assert ast.dump(ast.parse(mutant.change.applied(before))) != ast.dump(ast.parse(before)), mutant


# Drawing


def test_a_seed_draws_the_same_mutants_again(script):
    sample = script("mutation.sample")
    modules = {path: source for path, source in sample.sources(ROOT).items() if path.startswith("hw/spec/")}
    assert sample.draw(modules, 20, 3) == sample.draw(modules, 20, 3)
    assert sample.draw(modules, 20, 3) != sample.draw(modules, 20, 4)


def test_modules_are_drawn_from_by_their_lines(script):
    modules = {f"sim/m{lines}.py": b"y = a < b\n" * lines for lines in (10, 20, 70)}
    counts = Counter(mutant.module for mutant in script("mutation.sample").draw(modules, 10, 0))
    assert counts == {"sim/m10.py": 1, "sim/m20.py": 2, "sim/m70.py": 7}


def test_as_many_are_drawn_of_each_room(script):
    modules = {f"{room}/m.py": b"y = a < b\n" * lines for room, lines in (("hw", 90), ("sim", 30), ("x", 2))}
    counts = Counter(mutant.module for mutant in script("mutation.sample").draw(modules, 20, 0))
    assert counts == {"hw/m.py": 6, "sim/m.py": 7, "x/m.py": 2}


def test_no_line_is_drawn_twice(script):
    drawn = script("mutation.sample").draw({"sim/m.py": b"y = a < b + 1\n" * 9}, 50, 0)
    assert sorted(mutant.change.line for mutant in drawn) == list(range(1, 10))


# Rings


@pytest.fixture(scope="module")
def rings(script):
    return script("mutation.rings").Rings(script("mutation.graph").Imports(ROOT))


@pytest.mark.parametrize(
    ("module", "first"),
    [
        ("compiler/graph/passes/merge_moves.py", "tests/compiler/graph/passes/test_merge_moves.py"),
        ("runtime/host/logic.py", "tests/runtime/host/test_host.py"),
        ("sim/native/transfer.py", "tests/sim/test_native.py"),
        ("sim/deadlock.py", "tests/sim/test_deadlock.py"),
    ],
)
def test_the_tests_named_after_a_module_are_nearest(rings, module, first):
    assert rings.near(module)[0] == first


def test_every_module_with_code_has_near_tests(script, rings):
    sample = script("mutation.sample")
    for module, source in sample.sources(ROOT).items():
        assert rings.near(module) or not sample.mutants_of(module, source), module


def test_near_tests_come_tier_by_tier_and_of_the_benches_those_of_the_component(rings):
    mirror, *others = rings.near_tests("hw/queue.py")
    *benches, folder = mirror
    assert {test.partition("[")[2].split()[0].rstrip("]") for test in benches} == {"queue"}
    assert folder == "tests/hw/test_hw.py"
    assert "tests/hw/test_units.py" not in {test for tier in others for test in tier}
    assert rings.near_tests("sim/deadlock.py")[0] == ["tests/sim/test_deadlock.py"]
    assert "tests/hw/test_units.py" not in rings.near_tests("hw/spec/isa.py")[0]


@pytest.mark.parametrize(
    ("module", "test", "rank"),
    [
        ("hw/alu.py", "tests/hw/test_units.py::test_unit[alu narrow]", (0, 0)),
        ("hw/alu.py", "tests/hw/test_units.py::test_unit[pipeline]", (2, 2)),
        ("hw/alu.py", "tests/hw/test_units.py::test_unit[queue]", None),
        ("hw/queue.py", "tests/hw/test_units.py::test_unit[queue]", (0, 0)),
    ],
)
def test_a_bench_is_as_near_as_its_component(rings, module, test, rank):
    assert rings.rank(module, test) == rank


def test_random_campaigns_are_run_for_what_they_reach(rings):
    assert [command[0] for command in rings.campaigns("hw/alu.py")] == [
        "scripts/random_programs.py",
        "scripts/random_operators.py",
    ]
    assert [command[0] for command in rings.campaigns("compiler/te/lower.py")] == [
        "scripts/random_operators.py"
    ]
    assert rings.campaigns("runtime/host/pooling.py") == []


# A campaign on a toy tree

TOY = {
    "hw/__init__.py": "",
    "sim/__init__.py": "",
    "compiler/__init__.py": "",
    "runtime/__init__.py": "",
    "runtime/toy.py": '''\
def counted(n):
    """Return how many numbers there are below n."""
    found = 0
    while n > 0:
        n -= 1
        found += 1
    return found


def unseen(a, b):
    return a < b
''',
    "src/vdla/__init__.py": "",
    "scripts/mutation/equivalent.toml": "",
    "tests/__init__.py": "",
    "tests/runtime/__init__.py": "",
    "tests/hw/test_units.py": "UNITS = {}\n",
    "tests/runtime/test_toy.py": """\
import vdla.runtime.toy


def test_counted():
    assert [vdla.runtime.toy.counted(n) for n in (0, 1, 3)] == [0, 1, 3]
""",
}


@pytest.fixture
def toy(tmp_path) -> Path:
    """Return a small tree."""
    for path, text in TOY.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for room in ("hw", "sim", "compiler", "runtime"):
        (tmp_path / "src" / "vdla" / room).symlink_to(f"../../{room}")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n'
    )
    return tmp_path


def run(script, toy: Path, *arguments: str) -> Result:
    return CliRunner().invoke(script("mutants").main, ["--tree", str(toy), "--jobs", "1", *arguments])


def state(toy: Path) -> dict[str, str]:
    """Return a digest of every file outside of build."""
    files = (
        path
        for path in sorted(toy.rglob("*"))
        if path.is_file() and path.relative_to(toy).parts[0] != "build"
    )
    return {str(path.relative_to(toy)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def verdicts(toy: Path) -> list[dict]:
    return [json.loads(line) for line in (toy / "build/mutants/verdicts.jsonl").read_text().splitlines()]


def patient(script, monkeypatch) -> None:
    """Let tests end by their processor time, whatever else the machine does: eight seconds instead of 90."""
    monkeypatch.setattr(script("mutation.judge"), "TEST_SECONDS", 8.0)
    monkeypatch.setattr(script("mutation.trees"), "WAITING", 100)


@pytest.mark.slow
def test_a_campaign_tells_what_is_noticed_and_what_survives(script, toy, monkeypatch):
    patient(script, monkeypatch)
    before = state(toy)
    done = run(script, toy)
    verdict_of = {entry["after"]: entry["verdict"] for entry in verdicts(toy)}
    assert state(toy) == before
    assert not list((toy / "build/mutants").glob("copy*"))
    assert len(verdict_of) == 5
    assert done.exit_code == 1
    for after, verdict in verdict_of.items():
        assert verdict["ring"] == ("" if after.startswith("return") and "a" in after else "near"), after
    assert "80.0 % were noticed by near tests; 95 % were asked for" in done.output
    assert "runtime/toy.py:11 [comparison]  return a < b  ->  return (a <= b)" in done.output


@pytest.mark.slow
def test_a_campaign_goes_on_where_it_ended(script, toy, monkeypatch):
    patient(script, monkeypatch)
    judge = script("mutation.judge")
    judged = []
    original = judge.Judge.judge

    def interrupted(self, mutant):
        if len(judged) == 2:
            raise KeyboardInterrupt
        judged.append(mutant)
        return original(self, mutant)

    monkeypatch.setattr(judge.Judge, "judge", interrupted)
    stopped = run(script, toy)
    assert (stopped.exit_code, len(verdicts(toy))) == (130, 2)
    assert "interrupted; the same command continues" in stopped.output
    monkeypatch.setattr(judge.Judge, "judge", original)
    run(script, toy)
    assert len(verdicts(toy)) == 5
    run(script, toy)
    assert len(verdicts(toy)) == 5
    assert "[1/1" in run(script, toy, "--again").output


@pytest.mark.slow
def test_one_mutant_is_shown_as_a_diff_and_judged_again(script, toy):
    number = next(
        line.split()[0] for line in run(script, toy, "--list").output.splitlines() if "return a < b" in line
    )
    for _ in range(2):
        done = run(script, toy, "--only", number)
        assert "-    return a < b\n+    return (a <= b)\n" in done.output
    assert [entry["verdict"]["ring"] for entry in verdicts(toy)] == ["", ""]


def test_a_number_of_no_mutant_is_refused(script, toy):
    done = run(script, toy, "--only", "5")
    assert done.exit_code == 2
    assert "--only 5: there are mutants 0 to 4" in done.output


@pytest.mark.slow
def test_tests_that_fail_on_the_unchanged_tree_judge_nothing(script, toy):
    (toy / "tests/runtime/test_toy.py").write_text(
        "import vdla.runtime.toy\n\ndef test_it():\n    assert not 'right'\n"
    )
    done = run(script, toy)
    assert done.exit_code == 1
    assert "tests/runtime/test_toy.py::test_it does not pass on the unchanged tree (status 1)" in done.output
    assert [entry["verdict"]["ring"] for entry in verdicts(toy)] == [""] * 5


LOOPS = "def test_quick():\n    pass\n\ndef test_endless():\n    while True:\n        pass\n"


@pytest.mark.slow
def test_a_run_keeps_to_its_time_and_tells_which_test_has_no_end(script, toy):
    file, trees = "tests/runtime/test_toy.py", script("mutation.trees")
    (toy / file).write_text(LOOPS)
    with trees.Trees(toy, toy / "build", "key") as workspace, workspace.copy({}) as place:
        spent = workspace.pytest(place, [file], 60, seconds=0.0)
        endless = workspace.pytest(place, [file], 60, test_seconds=1)
        left_out = workspace.pytest(place, [file], 60, left_out=[f"{file}::test_endless"])
    assert (spent.status, spent.tests) == (0, {})
    assert endless.status == trees.TIMEOUT
    assert next(outcome for outcome, _ in endless.tests.values()) == "passed"
    assert list(endless.tests) == [f"{file}::test_quick", f"{file}::test_endless"]
    assert (left_out.status, list(left_out.tests)) == (0, [f"{file}::test_quick"])


@pytest.mark.parametrize(
    ("ring", "asked", "again", "last", "expected"),
    [
        ("near", "near", False, "next", False),
        ("", "near", False, "near", False),
        ("", "near", False, "next", True),
        ("", "next", False, "near", False),
        ("", "next", True, "near", True),
    ],
)
def test_survivors_of_the_near_tests_are_unfinished_for_the_next_ring(
    script, tmp_path, ring, asked, again, last, expected
):
    [mutant] = script("mutation.sample").mutants_of("sim/m.py", b"y = a < b")
    records = script("mutation.records").Records(tmp_path / "verdicts.jsonl", "tree")
    judge, mutants = script("mutation.judge"), script("mutants")
    assert mutants.unfinished([mutant], records, again, last) == [mutant]
    records.add(mutant, judge.Verdict(ring, "", False, 1.0, 1, asked), 0, "")
    assert bool(mutants.unfinished([mutant], records, again, last)) == expected


ENTRY = (
    '[[equivalent]]\nmodule = "runtime/toy.py"\nline = "{}"\nreplacement = "{}"\nreason = "nothing '
    'calls it"\n'
)


def test_equivalent_mutants_are_passed_over_and_stale_entries_told(script, toy):
    listed = toy / "scripts/mutation/equivalent.toml"
    listed.write_text(ENTRY.format("return a < b", "return (a <= b)"))
    assert "equivalent" in run(script, toy, "--list").output
    records = script("mutation.records")
    modules = script("mutation.sample").sources(toy)
    assert records.Equivalents.read(listed).stale(modules) == []
    listed.write_text(ENTRY.format("return a < c", "return (a <= c)"))
    assert records.Equivalents.read(listed).stale(modules) == [
        "runtime/toy.py: return a < c  ->  return (a <= c) is no mutant of the sources any more; remove "
        "or mend the entry"
    ]


def test_the_table_of_equivalent_mutants_is_up_to_date(script):
    records, sample = script("mutation.records"), script("mutation.sample")
    equivalents = records.Equivalents.read(ROOT / "scripts/mutation/equivalent.toml")
    assert equivalents.stale(sample.sources(ROOT)) == []
    assert all(len(reason) > 20 for reason in equivalents.reasons.values())
