"""How tuned records served the layers of a network."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from vdla.compiler.codegen.tuned.best_records import KIT, TuningRecords
from vdla.hw.spec.cache import digest_of

if TYPE_CHECKING:
    from vdla.compiler.codegen.choices import Choices
    from vdla.compiler.codegen.choose import Chooser
    from vdla.compiler.codegen.tuned.chooser import RecordUse
    from vdla.compiler.codegen.tuned.record import TuningRecord
    from vdla.compiler.graph.nodes import Graph
    from vdla.compiler.network.stages import Progress
    from vdla.compiler.tasks.base import Task
    from vdla.hw.spec.target import Target
    from vdla.runtime.module.plan import Plan

MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class Tuning:
    """How records served the tasks of a network.

    Attributes:
        tasks: how many there are.
        found: how many have the choice of a record.
        again: how many of these were measured again, since another version of the compiler had measured them.
        worse: layers whose record was measured again and is not better than the compiler's choice now, one
            for each task.
        none: layers without a record, one for each task.
    """

    tasks: int
    found: int
    again: int
    worse: tuple[str, ...]
    none: tuple[str, ...]

    def said(self, source: str, others: Sequence[str] = ()) -> str:
        """Return it as a line.

        Args:
            source: what the records are from.
            others: names of the targets of the records, where none is for this target.
        """
        if others:
            return (
                f"tuned: no task, because {source} holds records of {', '.join(others)} and none of this "
                "target; a record holds for one configuration and memory: tune for this target, or compile "
                "for that target"
            )
        parts = [f"tuned: {self.found} of {self.tasks} tasks by {source}"]
        if self.again:
            parts.append(f"{self.again} of them measured again for this version of the kit")
        if self.worse:
            parts.append(f"no longer better: {_cut(self.worse)}")
        if self.none and source != KIT:  # it holds only what beats the compiler
            parts.append(f"none for: {_cut(self.none)}")
        return ", ".join(parts)

    @property
    def applied(self) -> bool:
        """Whether there were records for any task."""
        return bool(self.found or self.worse)


def tuned_plan(
    graph: "Graph", target: "Target", records: TuningRecords, choose: "Chooser", progress: "Progress"
) -> "tuple[Plan, Tuning]":
    """Return the plan of a graph of integer operators with the choices of records, and how these served.

    Choices that were settled for this network come first, then the best of each task alone. Those that
    another version of the compiler settled are used if they make the network faster than the compiler's own.

    Args:
        choose: makes the choices for tasks without a record.
        progress: called with a text for each step of the work.
    """
    from vdla.compiler.codegen.tuned.chooser import RecordUse, by_records
    from vdla.compiler.codegen.version import task_version
    from vdla.compiler.network.stages import layers_of, parts_of, plan_of_parts

    graph, parted = parts_of(graph, target, progress)
    layers = layers_of(parted)
    settled = records.settled.get((network_of(layers), target.timing_digest), ())
    choices = settled_choices(settled, layers, target)
    if choices is None:
        chooser = by_records(records, choose)
        plan = plan_of_parts(graph, parted, target, choose=chooser, progress=progress)
        return plan, tuning_of(chooser.uses, layers)
    plan, use = plan_of_parts(graph, parted, target, choices, progress=progress), RecordUse.APPLIED
    if settled[0].version != task_version():
        own = plan_of_parts(graph, parted, target, choose=choose, progress=progress)
        plan, use = (
            (plan, RecordUse.REMEASURED)
            if cycles_of_plan(plan) < cycles_of_plan(own)
            else (own, RecordUse.WORSE)
        )
    return plan, tuning_of(dict.fromkeys(map(str, layers), use), layers)


def network_of(layers: "Mapping[Task, Sequence[str]]") -> str:
    """Return the digest of a network for tuning: of its tasks and how often each occurs."""
    return digest_of(f"{task} x {len(names)}" for task, names in layers.items())


def settled_choices(
    settled: "Sequence[TuningRecord]", tasks: "Iterable[Task]", target: "Target"
) -> "Choices | None":
    """Return the choices that were settled for the tasks of a network; None where one is missing, or is not
    legal any more."""
    from vdla.compiler.codegen.choices import choices_of
    from vdla.compiler.codegen.space import ChoiceSpace, space_of
    from vdla.compiler.codegen.tuned.chooser import legal_choice

    by_text, chosen = {record.task: record for record in settled}, []
    for task in tasks:
        space, record = space_of(task, target), by_text.get(str(task))
        choice = (
            legal_choice(record, space) if isinstance(space, ChoiceSpace) and record is not None else None
        )
        if choice is None:
            return None
        chosen.append((task, choice))
    return choices_of(target.timing_digest, chosen) if chosen else None


def cycles_of_plan(plan: "Plan") -> int:
    """Return the simulated cycles of the launches of a plan."""
    from vdla.compiler.codegen.choose import cycles_of

    return sum(cycles_of(stream, plan.target.memory) for stream in plan.streams.values())


def tuning_of(uses: "Mapping[str, RecordUse]", layers: "Mapping[Task, Sequence[str]]") -> Tuning:
    """Return how records served.

    Args:
        uses: of each task, by its text.
        layers: names of the layers in which each task occurs.
    """
    from vdla.compiler.codegen.tuned.chooser import RecordUse

    first = {str(task): names[0] for task, names in layers.items()}

    def of(use: RecordUse) -> tuple[str, ...]:
        return tuple(first[task] for task, found in uses.items() if found is use)

    again = len(of(RecordUse.REMEASURED))
    return Tuning(
        len(uses), len(of(RecordUse.APPLIED)) + again, again, of(RecordUse.WORSE), of(RecordUse.NONE)
    )


def tuning_text(tuning: Tuning) -> bytes:
    """Return it as JSON on one line."""
    return msgspec.json.encode(tuning)


def tuning_from(text: bytes) -> Tuning:
    """Return what `tuning_text` gave as text."""
    return msgspec.json.decode(text, type=Tuning)


def _cut(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - MOST_NAMES
    shown = ", ".join(names if more <= 1 else names[:MOST_NAMES])
    return f"{shown} and {more} more" if more > 1 else shown
