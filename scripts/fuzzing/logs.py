"""Tuning logs: records of the tasks of a network, whose digests are computed after the damage."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random

from fuzzing.networks import images
from fuzzing.steps import Step
from fuzzing.values import INTEGERS, TEXTS, changed_bytes, changed_tree, text_of
from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.tuned.log import read_log
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.compiler.codegen.version import task_version
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.network.compile import imported, integers_of
from vdla.compiler.network.source import Source
from vdla.compiler.network.stages import layers_of, parts_of
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Task, choice_to_json
from vdla.explore.tune.history import history
from vdla.explore.tune.known import DEFAULT, Known
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.journal import line_of

TARGET = Target(TINY)
REPORT_SHARE, COMPILE_SHARE, HISTORY_SHARE = 0.08, 0.15, 0.5
LINES = (b"[" * 5000, b'{"a":' * 3000, b"", b"null", b'"\\ud800"', b"9" * 6000)


@cache
def spaces() -> tuple[ChoiceSpace, ...]:
    """Return the choices for the tasks of a network."""
    graph = integers_of(imported(Source(images().SerializeToString())).graph, None, Options()).graph
    candidates = (space_of(task, TARGET) for task in tasks_of(graph))
    return tuple(space for space in candidates if not isinstance(space, Unfit))


def tasks_of(graph) -> Sequence[Task]:
    """Return the tasks of a graph."""
    return list(layers_of(parts_of(graph, TARGET)[1]))


@cache
def records() -> tuple[dict, ...]:
    """Return records as trees: the compiler's default choices, trials, and a settlement."""
    log_records = []
    for space in spaces():
        count = min(len(space), 9)
        for place in range(count):
            choice = choice_to_json(space.choice(place))
            explorer = DEFAULT if place == 0 else "random"
            log_records.append(_record(space, choice, explorer, max(place - 1, 0)))
        log_records.append(_record(space, choice_to_json(space.choice(0)), "random", 99, "n" * 64))
    return tuple(json.loads(record.text) for record in log_records)


def _record(space: ChoiceSpace, choice: dict, explorer: str, trial: int, network: str = "") -> TuningRecord:
    cycles = 1000 + 10 * trial
    return TuningRecord(
        str(space.task),
        TARGET.timing_digest,
        TARGET.name,
        choice,
        cycles,
        task_version(),
        explorer,
        0,
        trial,
        network=network,
    )


def log(rng: Random) -> tuple[bytes, str]:
    """Return a tuning log whose lines have right digests, most often."""
    trees = [dict(tree) for tree in rng.sample(records(), rng.choice((1, 4, len(records()))))]
    texts = [text_of(_changed(tree, rng) if rng.random() < 0.3 else tree) for tree in trees]
    if rng.random() < 0.05:
        texts.append(rng.choice(LINES))
    data = b"".join(line_of(text.replace(b"\n", b" ")) for text in texts)
    return (changed_bytes(data, rng) if rng.random() < 0.15 else data), "jsonl"


def _changed(tree: dict, rng: Random) -> object:
    """Return a record with a part replaced by a part of its kind, or with any places changed."""
    match rng.randrange(4):
        case 0:
            return changed_tree(tree, rng)
        case 1:
            tree["choice"] = changed_tree(tree["choice"], rng)
        case 2:
            text = tree["task"]
            place = rng.randrange(len(text))
            tree["task"] = (
                text[:place] + rng.choice(("0", "-1", "9" * 30, "(", "None", "x")) + text[place + 1 :]
            )
        case _:
            kinds = {"cycles": INTEGERS, "seed": INTEGERS, "trial": INTEGERS}
            key = rng.choice(list(tree))
            tree[key] = rng.choice(kinds.get(key, TEXTS))
    return tree


def steps(rng: Random) -> Iterator[Step]:
    """Yield the commands that read a log."""
    yield Step(("tune", "merge", "FILE", "-o", "FILE"))
    if rng.random() < HISTORY_SHARE:
        yield Step((), call=learn)
    if rng.random() < COMPILE_SHARE:
        yield Step(("compile", "NET.onnx", "-o", "OUT.vdla", "--config", "tiny", "--tuned", "FILE"))
    if rng.random() < REPORT_SHARE:
        yield Step(("tune", "report", "FILE", "-o", "OUT", "--config", "tiny"))


def learn(path: Path) -> None:
    """Take what a log knows, as a tuning that begins does."""
    known_records = read_log(path).records
    history(known_records, TARGET, ())
    known = Known(known_records, TARGET, "random", 0)
    for space in spaces():
        known.of(space)
        known.default_of(space.task)
