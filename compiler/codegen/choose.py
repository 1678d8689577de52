"""Choosers: pure functions from a space to one of its choices.

Timing does not depend on data, so the cycle simulator evaluates a choice without data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from vdla.compiler.codegen.epilogue import RESIDUAL, SUM, Epilogue
from vdla.compiler.codegen.estimate import Ranked, estimated_cycles, ranked, ranked_tiles
from vdla.compiler.codegen.space import ChoiceFamily, ChoiceSpace, space_of
from vdla.compiler.codegen.stream import emit_calls, lowered_task
from vdla.compiler.codegen.tiles import Tiles, TilingProblem
from vdla.compiler.operands.address_map import Operand
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice, Task
from vdla.compiler.tasks.convolution import ConvolutionTask, TiledTask
from vdla.compiler.te.operators.narrowing import Scale, Shift
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.target import Target
from vdla.runtime.stream.builder import Stream, StreamBuilder

CANDIDATES = 3  # choices that may be simulated
MORE_CANDIDATES = 4  # choices with more virtual threads that may be simulated
# A candidate whose estimate exceeds the best estimate by a larger factor is not simulated. For no convolution
# of ResNet-18 and MobileNet was such a candidate the fastest.
NEAR = 1.05
MEASURED = 256  # choices whose cycles a process remembers: placement compares operators by them first
# WORTHWHILE and PATIENCE are fitted to the candidates of eleven networks and configurations.
WORTHWHILE = 1.005  # cycles per cycle of a candidate's lower bound above which simulating it may help
PATIENCE = 2  # candidates on end that are no better, after which a search ends where the multipliers stall
WAITING = 1.015  # cycles per slot above which more virtual threads may help
TENSOR_ADDRESS = 1 << 24  # address of all tensors in a simulation; cycles hardly depend on addresses
Chooser = Callable[[ChoiceSpace], Choice]


def by_estimate(space: ChoiceSpace) -> Choice:
    """Return the choice with the fewest estimated cycles."""
    return space.usual.choice(0) if space.usual.work is None else _candidates(space.usual, 1)[0].choice


def least_estimate(task: TiledTask, target: Target) -> float:
    """Return the fewest estimated cycles of a convolution; infinity if no tile fits."""
    space = space_of(task, target)
    if isinstance(space, Unfit):
        return inf
    work, table = space.usual.work, space.usual.table
    assert work is not None, "a tiled task has a tiling problem"
    assert table is not None, "the choices of a tiled task are tiles"
    return float(estimated_cycles(work, table).min())


def by_simulator(space: ChoiceSpace, candidates: int = CANDIDATES) -> Choice:
    """Return the choice with the fewest simulated cycles among those with the best estimates: at most
    `candidates`, and MORE_CANDIDATES with more virtual threads.

    They are simulated in the order of their estimates. Left out are choices whose lower bound is about the
    cycles of the best, see WORTHWHILE, and, unless the multipliers stall, choices with more threads: the
    contention of stores and loads in the memory queue decides between these. Where the multipliers stall,
    PATIENCE ends the search; else the first choice that is no better does.
    """
    if space.usual.work is None:
        return space.usual.choice(0)
    first, *others = _candidates(space.usual, candidates)
    if not others and space.more is None:
        return first.choice
    more = [] if space.more is None else _candidates(space.more, MORE_CANDIDATES)
    best, misses = _simulated(space, first), 0
    for candidate in sorted((*others, *more), key=lambda each: each.ranked.cycles):
        if not best.may_lose_to(candidate, space.usual.threads):
            continue
        simulated = _simulated(space, candidate)
        best, misses = (simulated, 0) if simulated.cycles < best.cycles else (best, misses + 1)
        if misses == (PATIENCE if best.stalls else 1):
            break
    return best.candidate.choice


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A choice of a tiled task with its estimate."""

    choice: Choice
    ranked: Ranked


@dataclass(frozen=True, slots=True)
class _Simulated:
    """A candidate with its simulated cycles."""

    candidate: _Candidate
    cycles: int

    @property
    def stalls(self) -> bool:
        """Whether the multipliers stall."""
        return self.cycles > WAITING * self.candidate.ranked.steps

    def may_lose_to(self, other: _Candidate, usual_threads: int) -> bool:
        """Return whether a candidate may take fewer cycles; one with more than the usual threads only where
        the multipliers stall, or where its estimate is better."""
        if self.cycles <= WORTHWHILE * other.ranked.bound:
            return False
        is_estimated_better = other.ranked.cycles < self.candidate.ranked.cycles
        return self.stalls or other.choice.threads == usual_threads or is_estimated_better


def _simulated(space: ChoiceSpace, candidate: _Candidate) -> _Simulated:
    return _Simulated(candidate, simulated_cycles(space.task, candidate.choice, space.target))


def _candidates(family: ChoiceFamily, most: int) -> list[_Candidate]:
    """Return the choices of a tiled task with the best estimates."""
    assert family.work is not None, "only tiled tasks have estimates"
    best = ranked(family.work, most, distinct=True, within=NEAR)
    return [_Candidate(Choice(family.threads, each.tiles), each) for each in best]


@lru_cache(maxsize=MEASURED)
def simulated_cycles(task: Task, choice: Choice, target: Target) -> int:
    """Return the simulated cycles of an isolated task on a target."""
    return cycles_of(stream_of(task, choice, target.config), target.memory)


def stream_of(task: Task, choice: Choice, config: AcceleratorConfig) -> Stream:
    """Return the stream of an isolated task, with the residuals that its STOREs add.

    Raises:
        IrError: the choice cannot be lowered.
    """
    builder = StreamBuilder(config)
    emit_calls(
        lowered_task(task, choice, config),
        builder,
        {
            **{name: Operand(name) for name in (RESIDUAL, SUM)},
            **{
                name: Operand(name, address_map=address_map)
                for name, address_map in task.address_maps(config).items()
            },
        },
        Epilogue(adds=task.adds_residual),
    )
    return builder.finish()


def best_tiles(work: TilingProblem, candidates: int = CANDIDATES) -> Tiles:
    """Return the tiles with the fewest simulated cycles among the `candidates` with the best estimates.

    Raises:
        IrError: no tiles fit.
    """
    narrowing = Scale() if work.scales else Shift(1)
    task = ConvolutionTask(work.size, narrowing, alike=work.alike, slides=work.slides)
    target = Target(work.config, work.memory)
    return min(
        ranked_tiles(work, candidates, distinct=True),
        key=lambda tiles: simulated_cycles(task, Choice(work.threads, tiles), target),
    )


def cycles_of(stream: Stream, memory: MemoryParameters = REFERENCE_MEMORY) -> int:
    """Return the simulated cycles of a stream with tensors aligned to bursts."""
    from vdla.sim.decoded import decode_stream
    from vdla.sim.timing.simulate import (
        simulate,
    )  # importing numba takes a second, which a compilation of recorded choices saves

    words = stream.relocated(dict.fromkeys(stream.tensors, TENSOR_ADDRESS))
    return simulate(decode_stream(words, stream.config), memory).cycles
