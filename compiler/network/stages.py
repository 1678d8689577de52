"""The stages from a graph of integer operators to a plan. Stages take and return frozen values:

support   `parts_of`: each operator on the accelerator, as tasks, or on the host with the reason
space     `space_of`: the legal choices for each task
choice    `choices_for`: a choice for each task, from a record, by estimate or by simulation
lowering  `programs_of`: the loop program of each task; equal tasks share a program
emission, linking  `build`: instructions, addresses, and transfers between host and accelerator
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from vdla.compiler.codegen.choose import Chooser, by_simulator
from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.stream import lowered_task
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.text import print_graph
from vdla.compiler.ir.nodes import Func
from vdla.compiler.network.build import build, constants_of, operators_of
from vdla.compiler.network.partition import Part, place, worthwhile
from vdla.compiler.network.placed import Offloaded, Placed
from vdla.compiler.network.target_passes import target_passes
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import WEIGHTS, Choice, Task
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import Target
from vdla.runtime.arrays import digest
from vdla.runtime.module.plan import GraphTexts, Plan

Progress = Callable[[str], None]


class ChoiceError(VdlaError):
    """Choices that cannot be used for a network on a target."""


@dataclass(frozen=True)
class Choices:
    """Choices for the tasks of a network.

    Attributes:
        target: timing digest of the target; "" if there are no choices.
        by_task: choice of each task.
    """

    target: str = ""
    by_task: Mapping[Task, Choice] = field(default_factory=dict)


def plan_of(
    graph: Graph,
    target: Target,
    choices: Choices | None = None,
    *,
    choose: Chooser = by_simulator,
    progress: Progress = lambda text: None,
) -> Plan:
    """Return the plan of a graph of integer operators.

    Args:
        choices: choices to use for the tasks that they name.
        choose: makes the choices for all other tasks.
        progress: called with a text for each step of the work.

    Raises:
        ChoiceError: `choices` are for another target, or a choice is not in its task's space.
    """
    graph, parted = parts_of(graph, target, progress)
    return plan_of_parts(graph, parted, target, choices, choose=choose, progress=progress)


def plan_of_parts(
    graph: Graph,
    parted: list[Part],
    target: Target,
    choices: Choices | None = None,
    *,
    choose: Chooser = by_simulator,
    progress: Progress = lambda text: None,
) -> Plan:
    """Return the plan of a graph and its parts, both as `parts_of` returns them. The other arguments, and the
    errors, are as in `plan_of`."""
    constants = constants_of(parted, target.config)
    lasting = {
        piece.task
        for operator in operators_of(parted)
        if constants.of(operator, WEIGHTS) in constants.lasting
        for piece in operator.pieces
    }
    chosen = choices_for(tasks_of(parted), target, choices or Choices(), choose, progress, lasting)
    progress("loop programs")
    programs = programs_of(chosen, target.config)
    emitting = counted(progress, "instructions", sum(1 for _ in operators_of(parted)))
    return build(graph, parted, target, programs, constants, lambda placed: emitting(placed.node))


def texts_of(graph: Graph, ready: Graph) -> GraphTexts:
    """Return the texts, for the plan to carry, of a graph of integer operators and of the same graph after
    the target's passes."""
    digests: dict[int, str] = {}
    constants: dict[str, np.ndarray] = {}

    def digest_of(array: np.ndarray) -> str:
        if id(array) not in digests:  # most constants are the same arrays in both graphs
            digests[id(array)] = digest(array)
            constants.setdefault(digests[id(array)], array)
        return digests[id(array)]

    return GraphTexts(print_graph(graph, digest_of), print_graph(ready, digest_of), constants)


def parts_of(
    graph: Graph, target: Target, progress: Progress = lambda text: None
) -> tuple[Graph, list[Part]]:
    """Return a graph after the target's passes, and its parts."""
    ready = target_passes(target).run(graph)

    def placed(on_host: Mapping[str, str]) -> list[Placed]:
        placing = counted(progress, "place", len(ready.nodes))
        return list(place(ready, target, placing, on_host))

    return ready, worthwhile(ready, placed)


def counted(progress: Progress, what: str, total: int) -> Callable[[object], None]:
    """Return a function that reports the next of `total` things, as "what 3 of 9: thing"."""
    numbers = count(1)
    return lambda thing: progress(f"{what} {next(numbers)} of {total}: {thing}")


def tasks_of(parted: Iterable[Part]) -> list[Task]:
    """Return the distinct tasks of operators on the accelerator, in order."""
    return list(layers_of(parted))


def layers_of(parted: Iterable[Part]) -> dict[Task, list[str]]:
    """Return, for each task of operators on the accelerator, the names of the layers in which it occurs, in
    order. A name is repeated if the task occurs several times in the layer."""
    layers: dict[Task, list[str]] = {}
    for part in parted:
        for placed in part:
            if isinstance(placed, Offloaded):
                for piece in placed.pieces:
                    layers.setdefault(piece.task, []).append(placed.node.name)
    return layers


def choices_for(
    tasks: Iterable[Task],
    target: Target,
    choices: Choices,
    choose: Chooser = by_simulator,
    progress: Progress = lambda text: None,
    lasting: Container[Task] = (),
) -> dict[Task, Choice]:
    """Return a choice for each task.

    Args:
        lasting: tasks whose weights stay on chip from run to run.

    Raises:
        ChoiceError: as `plan_of`.
    """
    if choices.by_task and choices.target != target.timing_digest:
        raise ChoiceError(
            f"the choices were made for the target {choices.target[:12]}, not for {target.name} "
            f"({target.timing_digest[:12]}): "
            "configuration or memory differ; choose again"
        )
    chosen, tasks = {}, list(tasks)
    choosing = counted(progress, "tiles", len(tasks))
    for task in tasks:
        choosing(task)
        space, given = space_of(task, target), choices.by_task.get(task)
        assert not isinstance(space, Unfit), "an operator without choices stays on the host"
        space = replace(space, lasting=task in lasting)
        chosen[task] = choose(space) if given is None else _legal(given, space)
    return chosen


def _legal(choice: Choice, space: ChoiceSpace) -> Choice:
    if choice not in space:
        raise ChoiceError(
            f"{choice} is not among the {len(space)} choices for {space.task} on {space.target.name}; "
            "choose again"
        )
    return choice


def programs_of(chosen: Mapping[Task, Choice], config: AcceleratorConfig) -> dict[Task, Func]:
    """Return the loop program of each task for its choice."""
    return {task: lowered_task(task, choice, config) for task, choice in chosen.items()}
