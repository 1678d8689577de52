"""Choosers: pure functions from a space to one of its choices.

Timing does not depend on data, so the cycle simulator evaluates a choice without data.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import NamedTuple

import numpy as np

from vdla.compiler.codegen.epilogue import RESIDUAL, SUM, TABLE
from vdla.compiler.codegen.estimate import estimated_cycles, least_cycles, ranked_tiles
from vdla.compiler.codegen.normalising_stores import NORMAL
from vdla.compiler.codegen.space import ChoiceFamily, ChoiceSpace, space_of
from vdla.compiler.codegen.stream import emit_calls, lowered_task
from vdla.compiler.codegen.tiles import (
    INPUTS,
    TileFootprint,
    TileTable,
    TilingProblem,
    fitting_tiles,
    table_of,
)
from vdla.compiler.operands.address_map import DENSE, Operand
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import PARAMETERS, WEIGHTS, Choice, Task
from vdla.compiler.tasks.convolution import TiledTask
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.target import Target
from vdla.runtime.stream.builder import Stream, StreamBuilder
from vdla.runtime.stream.repeats import without_repeats
from vdla.sim.decoded import decode_stream
from vdla.sim.timing.result import Timing

CANDIDATES = 2  # choices that may be simulated
MORE_CANDIDATES = 4  # choices with more virtual threads that may be simulated
# A candidate whose estimate exceeds the best estimate by a larger factor is not simulated. For no convolution
# of ResNet-18 and MobileNet was such a candidate the fastest.
NEAR = 1.05
MEASURED = 256  # choices whose cycles a process remembers: placement compares operators by them first
STREAMS = 256  # choices whose streams a process remembers: points of a sweep may only differ in memory
# A choice with more virtual threads is not simulated if its estimate exceeds the cycles of the best choice so
# far by a larger factor: estimates are that far off.
HOPEFUL = 1.04
# Cycles that a choice that keeps inputs on chip must save: the layers around it wait for room in INP, which
# the simulation of the task alone does not show. Fitted to the example networks.
CONVINCING = 300
# A choice within this factor of the cycles that no choice can be below is good enough. The constants were
# fitted to the convolutions of 7 networks on `default`, with one image and with a batch of four.
NEARLY_LEAST = 1.02
RUNS = 4  # of a task whose weights last: the first loads them
EPILOGUE_OPERANDS = (RESIDUAL, SUM, TABLE, NORMAL)
CONSTANTS = (WEIGHTS, PARAMETERS)  # operands of a task that are the same in all runs
TENSOR_ADDRESS = 1 << 24  # address of all tensors in a simulation; cycles hardly depend on addresses
Chooser = Callable[[ChoiceSpace], Choice]


def by_estimate(space: ChoiceSpace) -> Choice:
    """Return the choice with the fewest estimated cycles."""
    return _candidates(space.usual, 1)[0]


def least_estimate(task: TiledTask, target: Target) -> float:
    """Return the fewest estimated cycles of a convolution; infinity if no tile fits."""
    space = space_of(task, target)
    if isinstance(space, Unfit):
        return inf
    return float(estimated_cycles(*_problem(space.usual)).min())


def by_simulator(space: ChoiceSpace, candidates: int = CANDIDATES) -> Choice:
    """Return the choice with the fewest simulated cycles among the candidates that may be the fastest.

    The choice with the best estimate is simulated first. If it is not NEARLY_LEAST, so are the other choices
    of the `candidates` with the best estimates, and choices with more virtual threads whose estimates are
    near the fewest cycles so far, see HOPEFUL: the contention of stores and loads in the memory queue decides
    between them. So is the best choice that keeps inputs on chip, which is used if it saves CONVINCING
    cycles. Otherwise, the best choice with more virtual threads is simulated if its estimate is better.

    Where weights last, the choice is compared with the best choice that loads all weights at once, by their
    cycles in RUNS runs.
    """
    if space.lasting:
        return _best_lasting(space, candidates)
    first, *further = _candidates(space.usual, candidates)
    if not further and space.more is None:
        return first
    best, enough = _simulated(space, first), NEARLY_LEAST * _least_cycles(space)
    if best.cycles <= enough:
        return _better_with_more_threads(space, best).choice
    best = min(
        [best, *(_simulated(space, choice) for choice in further)], key=lambda simulated: simulated.cycles
    )
    kept = _best_hopeful(space, best, space.usual, _keeping_inputs(space.usual))
    best = kept if kept.cycles + CONVINCING <= best.cycles else best
    if best.cycles > enough and space.more is not None:
        best = _best_hopeful(space, best, space.more, _candidates(space.more, MORE_CANDIDATES))
    return best.choice


def _best_lasting(space: ChoiceSpace, candidates: int) -> Choice:
    """Return the choice with the fewest simulated cycles in RUNS runs: the best choice for a single run, or
    the best choice that loads all weights at once."""
    choices = [by_simulator(replace(space, lasting=False), candidates)]
    if space.usual.work is not None:
        work, table = _problem(space.usual)
        at_once = table.select(TileFootprint(work, table).all_weights)
        if len(at_once):
            tiles = at_once.tiles(int(np.argmin(estimated_cycles(work, at_once))))
            choices.append(Choice(space.usual.threads, tiles))
    return min(choices, key=lambda choice: cycles_of_runs(space.task, choice, space.target))


class _Simulated(NamedTuple):
    """A choice and its simulated cycles."""

    choice: Choice
    cycles: int


def _simulated(space: ChoiceSpace, choice: Choice) -> _Simulated:
    return _Simulated(choice, simulated_cycles(space.task, choice, space.target))


def _better_with_more_threads(space: ChoiceSpace, best: _Simulated) -> _Simulated:
    """Return the better of a choice and of the best choice with more virtual threads, if its estimate is
    better."""
    if space.more is None:
        return best
    challenger = _candidates(space.more, 1)[0]
    if _estimate(space.more, challenger) >= _estimate(space.usual, best.choice):
        return best
    return min(best, _simulated(space, challenger), key=lambda simulated: simulated.cycles)


def _best_hopeful(
    space: ChoiceSpace, best: _Simulated, family: ChoiceFamily, choices: Iterable[Choice]
) -> _Simulated:
    """Simulate each of `choices` whose estimate is below HOPEFUL times the fewest simulated cycles so far.
    Return the choice with the fewest simulated cycles: `best` or one of `choices`."""
    for choice in choices:
        if _estimate(family, choice) < HOPEFUL * best.cycles:
            best = min(best, _simulated(space, choice), key=lambda simulated: simulated.cycles)
    return best


def _keeping_inputs(family: ChoiceFamily) -> list[Choice]:
    """Return the choice with the best estimate of all that keep inputs on chip; none if no tile fits."""
    if family.work is None or not len(fitting_tiles(family.work, (INPUTS,))):
        return []
    return [Choice(family.threads, tiles) for tiles in ranked_tiles(family.work, 1, keeps=(INPUTS,))]


def _least_cycles(space: ChoiceSpace) -> float:
    """Return a lower bound on the cycles of every default choice, from its products and from its memory
    traffic."""
    families = (space.usual, space.more) if space.more is not None else (space.usual,)
    return min(least_cycles(*_problem(family)) for family in families)


def _problem(family: ChoiceFamily) -> tuple[TilingProblem, TileTable]:
    assert family.work is not None, "only tiled tasks have several candidates"
    assert family.table is not None, "the choices of a tiled task are tiles"
    return family.work, family.table


def _estimate(family: ChoiceFamily, choice: Choice) -> float:
    """Return the estimated cycles of a choice."""
    work, _ = _problem(family)
    assert choice.tiles is not None, "every choice of a tiled task has tiles"
    return float(estimated_cycles(work, table_of(choice.tiles)).min())


def _candidates(family: ChoiceFamily, most: int) -> list[Choice]:
    if family.work is None:
        return [family.choice(0)]
    return [
        Choice(family.threads, tiles) for tiles in ranked_tiles(family.work, most, distinct=True, within=NEAR)
    ]


@lru_cache(maxsize=MEASURED)
def simulated_cycles(task: Task, choice: Choice, target: Target) -> int:
    """Return the simulated cycles of an isolated task on a target."""
    return cycles_of(stream_of(task, choice, target.config), target.memory)


def cycles_of_runs(task: Task, choice: Choice, target: Target) -> int:
    """Return the simulated cycles of RUNS runs of a task with the same constants and different activations.
    Weights that are on chip are not loaded again."""
    config, builder = target.config, StreamBuilder(target.config)
    func, maps = lowered_task(task, choice, config), task.address_maps(config)
    for run in range(RUNS):
        operands = {
            name: Operand(f"{name}{run}", address_map=maps.get(name, DENSE))
            for name in (*(buffer.name for buffer in func.params), *EPILOGUE_OPERANDS)
            if name not in CONSTANTS
        }
        emit_calls(func, builder, operands, task.epilogue)
    edit = without_repeats(builder.record, config)
    return cycles_of((builder if edit is None else builder.edited(edit)).finish(), target.memory)


@lru_cache(maxsize=STREAMS)
def stream_of(task: Task, choice: Choice, config: AcceleratorConfig) -> Stream:
    """Return the stream of an isolated task, with the residuals that its STOREs add, or normalised.

    Raises:
        IrError: the choice cannot be lowered.
    """
    builder = StreamBuilder(config)
    emit_calls(
        lowered_task(task, choice, config),
        builder,
        {
            **{name: Operand(name) for name in EPILOGUE_OPERANDS},
            **{
                name: Operand(name, address_map=address_map)
                for name, address_map in task.address_maps(config).items()
            },
        },
        task.epilogue,
    )
    return builder.finish()


def cycles_of(stream: Stream, memory: AnyMemory = REFERENCE_MEMORY) -> int:
    """Return the simulated cycles of a stream with tensors aligned to bursts."""
    return timing_of(stream, memory).cycles


def timing_of(stream: Stream, memory: AnyMemory, *, log: bool = False) -> Timing:
    """Return the simulated timing of a stream with tensors aligned to bursts; see `simulate` for `log`."""
    from vdla.sim.timing.simulate import simulate  # imports numba, which takes a second

    words = stream.relocated(dict.fromkeys(stream.tensors, TENSOR_ADDRESS))
    return simulate(decode_stream(words, stream.config), memory, log=log)
