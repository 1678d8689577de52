"""Settling: which measured choices make a whole network fastest.

Trials measure tasks alone. In a network a task also loads while the task before computes, and what it keeps
on chip is not free for the next task. So the choices that are best alone are tried in the network in turn,
and kept where the network's cycles fall. What moves more bytes to memory, which costs energy, must
save cycles in proportion.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vdla.compiler.codegen.choose import cycles_of
from vdla.compiler.codegen.tuned.log import TuningLog
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.compiler.codegen.version import task_version
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network.build import Constants, build, constants_of
from vdla.compiler.network.partition import Part
from vdla.compiler.network.stages import Progress, layers_of, programs_of
from vdla.compiler.network.tuning import network_of
from vdla.compiler.tasks.base import Choice, Task, choice_from_json, choice_to_json
from vdla.explore.tune.known import DEFAULT
from vdla.explore.tune.settings import Settings
from vdla.hw.spec.footprint import forms_in_dram
from vdla.hw.spec.target import Target
from vdla.runtime.stream.builder import Stream
from vdla.sim.decoded import decode_stream
from vdla.sim.rows import dram_rows

CANDIDATES = 3  # of each task
NEAR = 1.01  # cycles alone over the default's, up to which a choice is tried

PRICE = 1 / 8  # cycles that a choice must save for each cycle in which it keeps the bus busy longer

Chosen = Mapping[Task, Choice]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a network takes.

    Attributes:
        cycles: of its launches.
        beats: cycles in which the bus moves something.
    """

    cycles: int
    beats: float = 0.0

    def is_better_than(self, other: "Cost") -> bool:
        """Whether it takes fewer cycles, and these are worth the bytes."""
        return (
            self.cycles < other.cycles
            and self.cycles + PRICE * self.beats < other.cycles + PRICE * other.beats
        )


Costing = Callable[[Chosen], Cost]


@dataclass(frozen=True)
class Network:
    """A network that is tuned, in the form in which a target runs it, and its parts; see `parts_of`.

    Attributes:
        model: name of its file.
    """

    model: str
    graph: Graph
    parted: list[Part]
    target: Target

    @property
    def layers(self) -> dict[Task, list[str]]:
        """The names of the layers in which each task occurs."""
        return layers_of(self.parted)

    @cached_property
    def constants(self) -> Constants:
        """The tensors of its constants."""
        return constants_of(self.parted, self.target.config)

    def cost(self, chosen: Chosen) -> Cost:
        """Return the cost of its launches, simulated."""
        programs = programs_of(chosen, self.target.config)
        plan = build(self.graph, self.parted, self.target, programs, self.constants)
        streams = plan.streams.values()
        cycles = sum(cycles_of(stream, self.target.memory) for stream in streams)
        return Cost(cycles, sum(map(_bytes_moved, streams)) / self.target.bytes_per_cycle)


def settled(
    network: Network, log: TuningLog, settings: Settings, trials: int, progress: Progress
) -> tuple[int, int] | None:
    """Settle the choices of a network, and append them to a log, one record for each task.

    Args:
        log: holds trials on the target by this version; the compiler's default choices are among them.
        trials: after which it is settled.
        progress: called with a text after each choice that was tried.

    Returns:
        The network's cycles by the compiler's default choices, and by the settled choices; None where there
        are no tasks.

    Raises:
        TuneError: the log cannot be written.
    """
    layers, target = network.layers, network.target
    head = _head(network_of(layers), target, settings, trials)
    if not layers:
        return None
    held = [record for record in log.records if _together(record) == _together(head)]
    if len(held) >= len(layers):
        first, *_ = held  # all have the same figures
        if first.before is not None:
            return first.before, _cycles(first)
    chosen, before, after = best_together(layers, _trials(log.records, target), network.cost, progress)
    whole = replace(head, cycles=after, model=network.model, before=before)
    log.append(
        [
            replace(whole, task=str(task), choice=choice_to_json(choice), layers=tuple(layers[task]))
            for task, choice in chosen.items()
        ]
    )
    return before, after


def _head(network: str, target: Target, settings: Settings, trials: int) -> TuningRecord:
    """Return what the records of a settlement have in common: without task, choice and cycles."""
    return TuningRecord(
        "",
        target.timing_digest,
        target.name,
        {},
        1,
        task_version(),
        settings.explorer,
        settings.seed,
        trials,
        network=network,
    )


def best_together(
    layers: Mapping[Task, Sequence[str]],
    trials: Mapping[str, Sequence[TuningRecord]],
    cost: Costing,
    progress: Progress = lambda text: None,
) -> tuple[Chosen, int, int]:
    """Return choices for tasks, the cycles by the compiler's default choices, and by these.

    Args:
        trials: of each task, by its text; the compiler's default choice is among them.
        cost: of the whole network.
    """
    defaults = {
        task: next(record for record in trials[str(task)] if record.explorer == DEFAULT) for task in layers
    }
    chosen = {task: choice_from_json(record.choice) for task, record in defaults.items()}
    before = best = cost(chosen)
    tries = list(_tries(layers, defaults, trials))
    for number, (task, choice) in enumerate(tries, 1):
        trial_cost = cost({**chosen, task: choice})
        if trial_cost.is_better_than(best):
            chosen[task], best = choice, trial_cost
        progress(f"settling: {number} of {len(tries)} choices tried in the network, {best.cycles:,} cycles")
    return chosen, before.cycles, best.cycles


def _bytes_moved(stream: Stream) -> int:
    """Return the bytes that a stream moves to and from DRAM, without its instructions."""
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)
    transfers = (dram_rows(program, form) for form in forms_in_dram())
    return sum(int((rows.width * rows.count).sum()) for rows in transfers)


def _trials(records: Iterable[TuningRecord], target: Target) -> dict[str, list[TuningRecord]]:
    """Return the legal trials of this version on a target, by the text of their task."""
    trials: dict[str, list[TuningRecord]] = {}
    for record in records:
        is_now = record.timing == target.timing_digest and record.version == task_version()
        if is_now and record.cycles is not None and not record.network:
            trials.setdefault(record.task, []).append(record)
    return trials


def _together(record: TuningRecord) -> tuple[object, ...]:
    """Return what the records of one settlement have in common, and no others."""
    tuning = record.explorer, record.seed, record.trial
    return record.network, record.timing, record.version, *tuning


def _tries(
    layers: Mapping[Task, Sequence[str]],
    defaults: Mapping[Task, TuningRecord],
    trials: Mapping[str, Sequence[TuningRecord]],
) -> Iterator[tuple[Task, Choice]]:
    """Yield the choices to try: of the tasks that gain most alone first, and of each the best first."""
    candidates: list[tuple[int, Task, Choice]] = []
    for task, names in layers.items():
        default = defaults[task]
        distinct = {record.choice_text: record for record in trials[str(task)]}
        distinct.pop(default.choice_text, None)
        near = [record for record in distinct.values() if _cycles(record) < NEAR * _cycles(default)]
        for record in sorted(near, key=lambda each: (_cycles(each), each.choice_text))[:CANDIDATES]:
            gain = len(names) * (_cycles(default) - _cycles(record))
            candidates.append((gain, task, choice_from_json(record.choice)))
    for _, task, choice in sorted(candidates, key=lambda item: -item[0]):
        yield task, choice


def _cycles(record: TuningRecord) -> int:
    assert record.cycles is not None, "illegal choices were left out"
    return record.cycles
