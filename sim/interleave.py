"""Legal interleavings: the order in which the units execute a program's instructions.

Streams have no data-dependent control flow, so the order is determined before anything executes. Instructions
enter the units' queues in program order. An instruction whose queue is full blocks all that follow. A unit
executes the instruction at the head of its queue as a whole, if every edge it pops has a token and every
edge it pushes has room.

Source: `docs/microarchitecture.md`, Tokens.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.hw.spec.errors import DeadlockError, InvalidInstructionError, ProgramError, UnfinishedError
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.deadlock import Standstill, explain
from vdla.sim.decoded import DecodedStream


@dataclass(frozen=True, slots=True)
class Interleaving:
    """An order of execution.

    Attributes:
        order: int64[executed], indices of instructions.
        error: why the run fails after them; None if it does not.
    """

    order: np.ndarray
    error: ProgramError | None


def interleave(program: DecodedStream, seed: int | None = None) -> Interleaving:
    """Return an order in which the instructions of `program` can execute.

    Args:
        seed: None: of the units that can go on, the unit whose instruction comes first in the program goes
            on, so program order results if it is legal. Else the next unit is picked at random.
    """
    if seed is None and _program_order_is_legal(program):
        order = np.arange(program.dispatched)
        return Interleaving(order, _ending(program))
    run = _Run(program, None if seed is None else random.Random(seed))
    order = np.fromiter(run.execute(), np.int64)
    return Interleaving(order, run.ending())


def _program_order_is_legal(program: DecodedStream) -> bool:
    """Whether each instruction can execute as soon as all before it have."""
    pops = program.pops[: program.dispatched].astype(np.int64)
    pushes = program.pushes[: program.dispatched].astype(np.int64)
    after = np.cumsum(pushes - pops, axis=0)
    return not ((after < pushes).any() or (after > program.config.token_depth).any())


def _ending(program: DecodedStream) -> ProgramError | None:
    """Return the error of a program all of whose dispatched instructions have executed."""
    if program.finishes:
        return None
    if program.first_invalid < len(program):
        return program.refusal(program.first_invalid)
    return UnfinishedError(
        f"all {len(program)} instructions were executed and none was FINISH; end the stream with FINISH"
    )


class _Run:
    """Queues, tokens and dispatch of one run."""

    def __init__(self, program: DecodedStream, picker: random.Random | None) -> None:
        self.program = program
        self.picker = picker
        config = program.config
        self.depths = (config.load_queue_depth, config.compute_queue_depth, config.store_queue_depth)
        self.tokens = [0] * len(TOKEN_EDGES)
        self.dispatched = 0
        self.unit = program.unit.tolist()
        self.of_unit = [np.flatnonzero(program.unit[: program.dispatched] == unit).tolist() for unit in Unit]
        self.begin = [0] * len(Unit)  # of_unit[begin:end] stand in the unit's queue
        self.end = [0] * len(Unit)
        self.pops = _edge_lists(program.pops)
        self.pushes = _edge_lists(program.pushes)

    def execute(self) -> Iterator[int]:
        """Yield instructions as they execute, until no unit can go on."""
        while True:
            self._dispatch()
            ready = [head for head in self._heads() if self._can_start(head)]
            if not ready:
                return
            chosen = self.picker.choice(ready) if self.picker else min(ready)
            self._start(chosen)
            yield chosen

    def _dispatch(self) -> None:
        while self.dispatched < self.program.dispatched:
            unit = self.unit[self.dispatched]
            if self.end[unit] - self.begin[unit] == self.depths[unit]:
                return
            self.end[unit] += 1
            self.dispatched += 1

    def _head(self, unit: Unit) -> int | None:
        return self.of_unit[unit][self.begin[unit]] if self.begin[unit] < self.end[unit] else None

    def _heads(self) -> list[int]:
        return [head for unit in Unit if (head := self._head(unit)) is not None]

    def _can_start(self, index: int) -> bool:
        return all(self.tokens[edge] for edge in self.pops[index]) and all(
            self.tokens[edge] < self.program.config.token_depth for edge in self.pushes[index]
        )

    def _start(self, index: int) -> None:
        for edge in self.pops[index]:
            self.tokens[edge] -= 1
        for edge in self.pushes[index]:
            self.tokens[edge] += 1
        self.begin[self.unit[index]] += 1

    def ending(self) -> ProgramError | None:
        """Return why the run does not end well; an invalid instruction that dispatch met says more than a
        deadlock.

        Source: `docs/microarchitecture.md`, Run control.
        """
        ending = _ending(self.program)
        if isinstance(ending, InvalidInstructionError) and self.dispatched == self.program.dispatched:
            return ending
        return self._deadlock() or ending

    def _deadlock(self) -> DeadlockError | None:
        """Return the error that explains why nothing can go on; None where all dispatched instructions
        executed."""
        left = tuple(
            np.array(queue[begin:], np.int64) for queue, begin in zip(self.of_unit, self.begin, strict=True)
        )
        return explain(Standstill(self.program, tuple(self.tokens), self.dispatched, left))


def _edge_lists(flags: np.ndarray) -> list[tuple[int, ...]]:
    """Return, for flags bool[n, 4], the edges of each instruction; equal tuples are shared."""
    edges = range(len(TOKEN_EDGES))
    choices = [tuple(edge for edge in edges if mask >> edge & 1) for mask in range(1 << len(TOKEN_EDGES))]
    masks = flags @ (1 << np.arange(len(TOKEN_EDGES)))
    return [choices[mask] for mask in masks.tolist()]
