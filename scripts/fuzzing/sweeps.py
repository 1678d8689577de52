"""Sweeps: their specifications, and folders with a damaged `sweep.json` or a damaged journal."""

import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from fuzzing.budget import MOST_MACS, macs
from fuzzing.steps import Step
from fuzzing.values import FLOATS, INTEGERS, TEXTS, changed_bytes, changed_tree, some, text_of
from vdla.explore.report.sweep_page import write_sweep_report
from vdla.explore.sweep.folder import JOURNAL, LAYERS, POINTS, opened
from vdla.explore.sweep.identity import IDENTITY
from vdla.explore.sweep.run import Plan, planned
from vdla.explore.sweep.search import Search
from vdla.explore.sweep.specification import from_values, read
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.journal import line_of

SPECIFICATION = {
    "constraints": ["block_in * block_out >= 64", "round(memory.latency / 3, 1) < 90"],
    "objectives": ["cycles", "lut"],
    "budget": "all",
    "area": "none",
    "base": {"config": "tiny"},
    "parameters": {
        "block_in": [8, 16],
        "block_out": "block_in if block_in < 16 else 2 ** 4",
        "memory": {"latency": {"from": 32, "to": 64, "times": 2}, "depth": 16},
        "extensions": ["none"],
        "clock_mhz": 100.5,
    },
    "workloads": [
        {"conv": {"size": 4, "channels": 8, "outputs": 8, "kernel": 3, "padding": "same"}, "name": "c"},
        {"model": "NET.onnx", "shapes": {"x": [1, 3, 8, 8]}},
    ],
}
"""A specification as the tables of its file; a part of it is used at a time."""

EXPRESSIONS = (
    "round(block_in, -10**18)",
    "2 ** 10 ** 9",
    "extensions * 2000000000",
    "-" * 400 + "1",
    "max(" * 120 + "1" + ",1)" * 120,
    "9" * 900,
    "0x" + "f" * 900,
    "1e308 * 10",
    "block_in / 0",
    "block_in if block_in else",
    "(1,) * 9",
    "block_in << 99999",
    "log2(-1)",
    "floor(1e300)",
    "1 if 1 else " * 60 + "1",
    "energy.mac",
    "memory.latency",
    "{}",
    "lambda: 1",
)
RANGES = (
    {"from": 1, "to": 1e12, "step": 1e-6},
    {"from": 1, "to": 1e300, "times": 1.0000001},
    {"from": 8, "to": 64, "times": 10**300},
    {"from": -8, "to": 64, "step": 8},
    {"from": 1e308, "to": 1e308, "step": 1e308},
)
PARAMETERS = ("block_out", "bus_bits", "clock_mhz", "extensions", "energy.mac", "memory.depth", "name", "x")
MEASURED_SHARE, SEARCHED_SHARE = 0.04, 0.05


def specification(rng: Random) -> tuple[bytes, str]:
    """Return a specification with places changed, or with lines of bytes changed."""
    tables = json.loads(json.dumps(SPECIFICATION))
    if rng.random() < 0.7:
        del tables["workloads"][1]
    if rng.random() < SEARCHED_SHARE:
        tables["budget"] = rng.choice((1, 5, 40))
    for _ in range(rng.choice((0, 1, 1, 2))):
        _replace(tables, rng)
    text = _toml(changed_tree(tables, rng) if rng.random() < 0.7 else tables)
    return (changed_bytes(text, rng) if rng.random() < 0.15 else text), "toml"


def _replace(tables: dict, rng: Random) -> None:
    """Put an expression, a range or a number somewhere."""
    value = rng.choice((rng.choice(EXPRESSIONS), dict(rng.choice(RANGES)), rng.choice((*INTEGERS, *FLOATS))))
    match rng.randrange(3):
        case 0 if isinstance(value, str):
            tables["constraints"].append(value)
        case 1:
            tables["workloads"][0]["conv"][
                rng.choice(("size", "channels", "kernel", "stride", "dilation"))
            ] = rng.choice((rng.choice(INTEGERS), [rng.choice(INTEGERS), 1]))
        case _:
            tables["parameters"][rng.choice(PARAMETERS)] = rng.choice((value, [value], [8, value]))


def _toml(tables: object) -> bytes:
    """Return tables as TOML, with whatever stands in their places."""
    if not isinstance(tables, dict):
        return text_of(tables)
    lines = [
        f"{json.dumps(str(key))} = {_value(value)}"
        for key, value in tables.items()
        if not isinstance(value, dict) and key != "workloads"
    ]
    for key, value in tables.items():
        if isinstance(value, dict):
            lines.append(f"[{json.dumps(str(key))}]")
            lines += [f"{json.dumps(str(name))} = {_value(part)}" for name, part in value.items()]
    tail = tables.get("workloads")
    for workload in tail if isinstance(tail, list) else ():
        lines += ["[[workloads]]"]
        if isinstance(workload, dict):
            lines += [f"{json.dumps(str(name))} = {_value(part)}" for name, part in workload.items()]
    return "\n".join(lines).encode(errors="backslashreplace")


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return (
                "{"
                + ", ".join(f"{json.dumps(str(key))} = {_value(part)}" for key, part in value.items())
                + "}"
            )
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case str() if value.startswith("@nested"):
            return text_of(value).decode()
        case str():
            return json.dumps(value)
    return "0" if value is None else repr(value)


def specification_steps(rng: Random) -> Iterator[Step]:
    """Yield what a sweep does before its points are measured; now and then a point is measured, too."""
    yield Step((), call=points_of, shows=20)
    if rng.random() < MEASURED_SHARE:
        yield Step((), fits=is_small, call=measure, shows=20)


def _plan(path: Path) -> Plan:
    wanted = read(path)
    return planned(wanted, path.parent, None)


def points_of(path: Path) -> None:
    """Plan a sweep and list its points, or let the sampler choose some."""
    plan = _plan(path)
    if plan.specification.budget == "all":
        plan.space.points()
    else:
        Search(plan.space, plan.specification).ask()


def is_small(path: Path) -> bool:
    """Whether the first point of a sweep takes few steps."""
    try:
        plan = _plan(path)
        total = sum(macs(workload.graph()) for workload in plan.job.workloads)
    except VdlaError:
        return True
    return plan.specification.tune is None and total <= MOST_MACS // 10


def measure(path: Path) -> None:
    """Measure the first point of a sweep.

    Raises:
        AssertionError: a fault of the kit is its status.
    """
    plan = _plan(path)
    for row in plan.job.measure(plan.space.points()[0]).rows:
        assert not row.status.startswith("internal error"), row.status


# Folders


@cache
def plan() -> Plan:
    """Return a small sweep."""
    tables = json.loads(json.dumps(SPECIFICATION))
    del tables["workloads"][1]
    tables["parameters"]["block_in"] = [8]
    return planned(from_values(tables), Path(), None)


@cache
def folder() -> dict[str, bytes]:
    """Return the files of a sweep that has ended."""
    with tempfile.TemporaryDirectory() as name:
        with opened(Path(name), plan().identity(), plan().space.key) as kept:
            for point in plan().space.points():
                kept.add(plan().job.measure(point))
            kept.write_tables()
        return {file: Path(name, file).read_bytes() for file in (IDENTITY, JOURNAL, LAYERS, POINTS)}


def _put(file: str, data: bytes, path: Path) -> Path:
    path.mkdir()
    for name, contents in {**folder(), file: data}.items():
        (path / name).write_bytes(contents)
    return path


def put_identity(data: bytes, path: Path) -> Path:
    """Put a `sweep.json` into the folder of a sweep."""
    return _put(IDENTITY, data, path)


def put_journal(data: bytes, path: Path) -> Path:
    """Put a journal into the folder of a sweep."""
    return _put(JOURNAL, data, path)


def identity(rng: Random) -> tuple[bytes, str]:
    """Return a `sweep.json`."""
    text = folder()[IDENTITY]
    if rng.random() < 0.15:
        return changed_bytes(text, rng), "folder"
    tree = json.loads(text)
    if rng.random() < 0.2:
        tree[rng.choice(list(tree))] = some(rng, 3)
    return text_of(changed_tree(tree, rng)), "folder"


def identity_steps(rng: Random) -> Iterator[Step]:
    """Yield the readers of a sweep's folder."""
    yield Step(("report", "FILE", "-o", "OUT"))
    yield Step(("sweep", "diff", "FILE", "FILE", *(["--json"] if rng.random() < 0.5 else [])))
    yield Step((), call=resume)


def journal(rng: Random) -> tuple[bytes, str]:
    """Return a journal whose lines have right digests, most often."""
    lines = [line.partition(b" ")[2] for line in folder()[JOURNAL].splitlines()]
    texts = [text_of(_changed_point(json.loads(line), rng)) if rng.random() < 0.6 else line for line in lines]
    if rng.random() < 0.1:
        texts.append(rng.choice((b"[" * 5000, b"{" * 5000, b'{"a":' * 3000, b"9" * 6000, b"", b"null")))
    rng.shuffle(texts)
    data = b"".join(line_of(text.replace(b"\n", b" ")) for text in texts)
    return (changed_bytes(data, rng) if rng.random() < 0.15 else data), "folder"


def _changed_point(tree: dict, rng: Random) -> object:
    """Return a point with one figure replaced, so that its shape stays, or with any places changed."""
    if rng.random() < 0.5:
        return changed_tree(tree, rng)
    holder = rng.choice((tree["point"], tree["point"]["values"], *tree["rows"], *tree["layers"]))
    key = rng.choice(list(holder))
    holder[key] = rng.choice((*INTEGERS, *FLOATS[:5], None, rng.choice(TEXTS)))
    return tree


def journal_steps(rng: Random) -> Iterator[Step]:
    """Yield what goes on with a journal."""
    yield Step((), call=resume)
    yield Step(("report", "FILE", "-o", "OUT"))


def resume(path: Path) -> None:
    """Open the folder of a sweep as the command does that goes on with it; write its tables and its page."""
    known = plan()
    with opened(path, known.identity(), known.space.key) as kept:
        kept.include(known.space.points())
        kept.write_tables()
    write_sweep_report(path)
