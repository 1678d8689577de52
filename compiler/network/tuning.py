"""Compilation with tuned records, and a report on which layers used them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vdla.compiler.codegen.tuned.best_records import KIT, TuningRecords
from vdla.hw.spec.cache import digest_of

if TYPE_CHECKING:
    from vdla.compiler.codegen.choose import Chooser
    from vdla.compiler.codegen.tuned.chooser import RecordUse
    from vdla.compiler.codegen.tuned.record import TuningRecord
    from vdla.compiler.graph.nodes import Graph
    from vdla.compiler.network.stages import Choices, Progress
    from vdla.compiler.tasks.base import Task
    from vdla.hw.spec.target import Target
    from vdla.runtime.module.plan import Plan

MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class Tuning:
    """The use of tuned records for the tasks of a network.

    Attributes:
        tasks: number of tasks.
        found: number of tasks with the choice of a record.
        again: number of these whose record was measured again, because another version of the compiler had
            measured it.
        worse: a layer for each task whose record was measured again and no longer beats the compiler's
            choice.
        none: a layer for each task without a record.
    """

    tasks: int
    found: int
    again: int
    worse: tuple[str, ...]
    none: tuple[str, ...]

    def said(self, source: str, others: Sequence[str] = ()) -> str:
        """Return the report as a line.

        Args:
            source: source of the records.
            others: names of the targets of the records, if none is for this target.
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
        if self.none and source != KIT:  # the kit has only records that beat the compiler
            parts.append(f"none for: {_cut(self.none)}")
        return ", ".join(parts)

    @property
    def applied(self) -> bool:
        """Whether there were records for any task."""
        return bool(self.found or self.worse)


def tuned_plan(
    graph: "Graph", target: "Target", records: TuningRecords, choose: "Chooser", progress: "Progress"
) -> "tuple[Plan, Tuning]":
    """Return the plan of a graph of integer operators with the choices of records, and the report on their
    use. The plan carries the graph.

    Choices that were settled for this network take precedence over the best record of each task. Choices that
    another version of the compiler settled are used only if they make the network faster than the compiler's
    choices.

    Args:
        choose: makes the choices for tasks without a record.
        progress: called with a text for each step of the work.
    """
    from vdla.compiler.codegen.tuned.chooser import RecordChooser, RecordUse
    from vdla.compiler.codegen.version import task_version
    from vdla.compiler.network.stages import layers_of, parts_of, plan_of_parts, texts_of

    ready, parted = parts_of(graph, target, progress)
    layers, texts = layers_of(parted), texts_of(graph, ready)
    settled = records.settled.get((network_of(layers), target.timing_digest), ())
    choices = settled_choices(settled, layers, target)
    if choices is None:
        chooser = RecordChooser(records, choose)
        plan = plan_of_parts(ready, parted, target, choose=chooser, progress=progress)
        return replace(plan, graphs=texts), tuning_of(chooser.uses, layers)
    plan, use = plan_of_parts(ready, parted, target, choices, progress=progress), RecordUse.APPLIED
    if settled[0].version != task_version():
        untuned = plan_of_parts(ready, parted, target, choose=choose, progress=progress)
        is_faster = cycles_of_plan(plan) < cycles_of_plan(untuned)
        plan, use = (plan, RecordUse.REMEASURED) if is_faster else (untuned, RecordUse.WORSE)
    return replace(plan, graphs=texts), tuning_of(dict.fromkeys(map(str, layers), use), layers)


def network_of(layers: "Mapping[Task, Sequence[str]]") -> str:
    """Return the digest of a network for tuning: of its tasks and how often each occurs."""
    return digest_of(f"{task} x {len(names)}" for task, names in layers.items())


def settled_choices(
    settled: "Sequence[TuningRecord]", tasks: "Iterable[Task]", target: "Target"
) -> "Choices | None":
    """Return the choices that were settled for the tasks of a network; None if a choice is missing or no
    longer legal."""
    from vdla.compiler.codegen.space import ChoiceSpace, space_of
    from vdla.compiler.codegen.tuned.chooser import legal_choice
    from vdla.compiler.network.stages import Choices

    by_text, chosen = {record.task: record for record in settled}, {}
    for task in tasks:
        space, record = space_of(task, target), by_text.get(str(task))
        choice = (
            legal_choice(record, space) if isinstance(space, ChoiceSpace) and record is not None else None
        )
        if choice is None:
            return None
        chosen[task] = choice
    return Choices(target.timing_digest, chosen) if chosen else None


def cycles_of_plan(plan: "Plan") -> int:
    """Return the simulated cycles of the launches of a plan."""
    from vdla.compiler.codegen.choose import cycles_of

    return sum(cycles_of(stream, plan.target.memory) for stream in plan.streams.values())


def tuning_of(uses: "Mapping[str, RecordUse]", layers: "Mapping[Task, Sequence[str]]") -> Tuning:
    """Return the report on the use of records.

    Args:
        uses: use of a record for each task, by the task's text.
        layers: names of the layers in which each task occurs.
    """
    from vdla.compiler.codegen.tuned.chooser import RecordUse

    first = {str(task): names[0] for task, names in layers.items()}

    def of(use: RecordUse) -> tuple[str, ...]:
        return tuple(first[task] for task, applied in uses.items() if applied is use)

    again = len(of(RecordUse.REMEASURED))
    return Tuning(
        len(uses), len(of(RecordUse.APPLIED)) + again, again, of(RecordUse.WORSE), of(RecordUse.NONE)
    )


def _cut(names: Sequence[str]) -> str:
    """Return the first names as text, and the number of further names."""
    more = len(names) - MOST_NAMES
    shown = ", ".join(names if more <= 1 else names[:MOST_NAMES])
    return f"{shown} and {more} more" if more > 1 else shown
