"""Compilation with tuned records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from vdla.compiler.codegen.choose import Chooser, cycles_of
from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.tuned.best_records import Tuning, TuningRecords
from vdla.compiler.codegen.tuned.chooser import RecordChooser, RecordUse, legal_choice
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.compiler.codegen.version import task_version
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network.stages import Choices, Progress, layers_of, parts_of, plan_of_parts, texts_of
from vdla.compiler.tasks.base import Task
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import Plan


def tuned_plan(
    graph: Graph, target: Target, records: TuningRecords, choose: Chooser, progress: Progress
) -> tuple[Plan, Tuning]:
    """Return the plan of a graph of integer operators with the choices of records, and the report on their
    use. The plan carries the graph.

    Choices that were settled for this network take precedence over the best record of each task. Choices that
    another version of the compiler settled are used only if they make the network faster than the compiler's
    choices.

    Args:
        choose: makes the choices for tasks without a record.
        progress: called with a text for each step of the work.
    """
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


def network_of(layers: Mapping[Task, Sequence[str]]) -> str:
    """Return the digest of a network for tuning: of its tasks and how often each occurs."""
    return digest_of(f"{task} x {len(names)}" for task, names in layers.items())


def settled_choices(settled: Sequence[TuningRecord], tasks: Iterable[Task], target: Target) -> Choices | None:
    """Return the choices that were settled for the tasks of a network; None if a choice is missing or no
    longer legal."""
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


def cycles_of_plan(plan: Plan) -> int:
    """Return the simulated cycles of the launches of a plan."""
    return sum(cycles_of(stream, plan.target.memory) for stream in plan.streams.values())


def tuning_of(uses: Mapping[str, RecordUse], layers: Mapping[Task, Sequence[str]]) -> Tuning:
    """Return the report on the use of records.

    Args:
        uses: use of a record for each task, by the task's text.
        layers: names of the layers in which each task occurs.
    """
    first = {str(task): names[0] for task, names in layers.items()}

    def of(use: RecordUse) -> tuple[str, ...]:
        return tuple(first[task] for task, applied in uses.items() if applied is use)

    again = len(of(RecordUse.REMEASURED))
    return Tuning(
        len(uses), len(of(RecordUse.APPLIED)) + again, again, of(RecordUse.WORSE), of(RecordUse.NONE)
    )
