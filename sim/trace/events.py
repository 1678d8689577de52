"""The events of a run: instruction names, waits, tokens, and the work of each unit over time.

`lines` gives a run as text: one line per event, in order of time, in fixed columns.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.timing import Client
from vdla.hw.spec.touched import fields_of, steps
from vdla.hw.spec.units import TOKEN_EDGES, TokenEdge, Unit
from vdla.sim.decoded import DecodedStream
from vdla.sim.timing.result import NEVER, Timing

STATES = tuple(UnitState)
Event = tuple[int, str, str, int, str]  # cycle, where, what, instruction or -1, more about it


@dataclass(frozen=True, slots=True)
class Token:
    """One token: pushed when instruction `producer` retires, popped when `consumer` starts."""

    edge: TokenEdge
    producer: int
    consumer: int


def users(timing: Timing, edge: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the instructions that pushed onto `TOKEN_EDGES[edge]` and the instructions that popped from it,
    each in order of time."""
    program = timing.program
    pushing = program.pushes[:, edge] & (timing.retired != NEVER)
    popping = program.pops[:, edge] & (timing.started != NEVER)
    return np.flatnonzero(pushing), np.flatnonzero(popping)


def tokens(timing: Timing) -> Iterator[Token]:
    """Yield every token that was popped. Units start and retire in program order, so the k-th pop takes the
    k-th push."""
    for number, edge in enumerate(TOKEN_EDGES):
        pushing, popping = users(timing, number)
        for producer, consumer in zip(pushing.tolist(), popping.tolist(), strict=False):
            yield Token(edge, producer, consumer)


def held(timing: Timing, edge: int) -> tuple[np.ndarray, np.ndarray]:
    """Return when the tokens held by `TOKEN_EDGES[edge]` change, and to how many.

    Returns:
        int64[m] cycles, ascending, and int64[m] tokens: the counter of the edge shows so many from that cycle
        on. A token pushed or popped in cycle t shows in t + 1.
    """
    pushing, popping = users(timing, edge)
    moved = np.concatenate([timing.retired[pushing], timing.started[popping]]) + 1
    change = np.repeat([1, -1], [len(pushing), len(popping)])
    cycles, where = np.unique(moved, return_inverse=True)
    counts = np.cumsum(np.bincount(where, change, len(cycles)).astype(np.int64))
    differs = np.diff(counts, prepend=0) != 0
    return cycles[differs], counts[differs]


def held_after(timing: Timing) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens that each edge holds after each push, and after each pop; of one cycle, pushes come
    first.

    Returns:
        int64[n, 4] after the pushes and int64[n, 4] after the pops of each instruction; 0 where there is
        none.
    """
    after_push, after_pop = (np.zeros(timing.program.pushes.shape, np.int64) for _ in range(2))
    for edge in range(len(TOKEN_EDGES)):
        pushing, popping = users(timing, edge)
        pushed, popped = timing.retired[pushing], timing.started[popping]
        after_push[pushing, edge] = np.arange(1, len(pushed) + 1) - np.searchsorted(popped, pushed, "left")
        after_pop[popping, edge] = np.searchsorted(pushed, popped, "right") - np.arange(1, len(popped) + 1)
    return after_push, after_pop


def executed(timing: Timing, unit: Unit) -> np.ndarray:
    """Return int64[...], the instructions that `unit` executed, in order."""
    return np.flatnonzero((timing.program.unit == unit) & (timing.retired != NEVER))


def work_begins(timing: Timing) -> np.ndarray:
    """Return int64[n]: the cycle from which each instruction was the oldest of its unit.

    A unit has several instructions in progress and retires them in order. The result is the start, or the
    cycle after the instruction before retired. In the compute unit, LOADs and steps are counted apart: they
    run beside each other.
    """
    begins = timing.started.copy()
    loads = np.isin(timing.program.opcode, (isa.Opcode.LOAD, isa.Opcode.GATHER))
    for unit in Unit:
        for kind in (loads, ~loads):
            indices = executed(timing, unit)
            indices = indices[kind[indices]]
            begins[indices[1:]] = np.maximum(timing.started[indices[1:]], timing.retired[indices[:-1]] + 1)
    return begins


def waits(timing: Timing) -> dict[int, dict[str, int]]:
    """Return, by instruction, the cycles it stood at the head of its unit's queue and the unit did not work,
    by state."""
    cycles: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    spans = timing.logged.spans
    chosen = spans[(spans["instruction"] >= 0) & (spans["state"] != STATES.index(UnitState.BUSY))]
    for _, state, instruction, begin, end in chosen.tolist():
        cycles[instruction][STATES[state].name.lower()] += end - begin
    return cycles


def label(program: DecodedStream, index: int) -> str:
    """Return a short name of an instruction: what it is and how much of it."""
    instruction = program.instruction(index)
    match instruction:
        case isa.Load() | isa.Store() | isa.Gather():
            return (
                f"{instruction.opcode.name} {instruction.memory_type.name} "
                f"{instruction.y_size}x{instruction.x_size}"
            )
        case isa.Normalise():
            where = f"into {instruction.memory_type.name} " if instruction.normal else ""
            size = f"{instruction.y_size}x{instruction.x_size}"
            return f"{instruction.opcode.name} {instruction.statistic.name} {where}{size}"
        case isa.Gemm() | isa.Alu() | isa.Depthwise():
            count = max(steps(type(instruction), fields_of(instruction)), 0)
            name = (
                instruction.alu_opcode.name
                if isinstance(instruction, isa.Alu)
                else "GEMM reset"
                if isinstance(instruction, isa.Gemm) and instruction.reset
                else instruction.opcode.name
            )
            return f"{name} {count} steps"
    return instruction.opcode.name


@cache
def wait_text(unit: Unit, state: UnitState) -> str:
    """Return what a unit does in `state`, naming the token edge where it waits for a token."""
    producer = {UnitState.TOKEN_PREV: unit - 1, UnitState.TOKEN_NEXT: unit + 1}.get(state)
    if producer is None:
        return {UnitState.ROOM: "waits for room for a token", UnitState.BUSY: "busy"}.get(
            state, f"waits: {state.name.lower()}"
        )
    return f"waits for a token {TokenEdge(Unit(producer), unit)}"


def lines(timing: Timing) -> Iterator[str]:
    """Yield `cycle  where  event  instruction  text`; events of one cycle in the order in which the hardware
    causes them.

    Pushes and pops say how many tokens the edge holds after them.

    Raises:
        ValueError: the run was simulated without a log.
    """
    after_push, after_pop = held_after(timing)
    events = [
        *_bursts(timing),
        *_retirements(timing, after_push),
        *_starts(timing, after_pop),
        *_dispatches(timing),
        *_waits(timing),
    ]
    for cycle, where, what, index, text in sorted(events, key=lambda event: event[0]):
        yield f"{cycle:>10}  {where:<9}{what:<9}{index if index >= 0 else '-':>8}  {text}".rstrip()


def _units(timing: Timing, times: np.ndarray) -> Iterator[tuple[int, int, str]]:
    """Yield cycle, instruction and unit of every instruction to which the event of `times` happened."""
    for index in np.flatnonzero(times != NEVER).tolist():
        yield int(times[index]), index, Unit(timing.program.unit[index]).name.lower()


def _dispatches(timing: Timing) -> Iterator[Event]:
    for cycle, index, unit in _units(timing, timing.dispatched):
        yield cycle, "dispatch", "to", index, unit


def _starts(timing: Timing, after: np.ndarray) -> Iterator[Event]:
    for cycle, index, unit in _units(timing, timing.started):
        taken = _edges(timing.program.pops[index], after[index])
        text = format_instruction(timing.program.instruction(index))
        yield cycle, unit, "starts", index, f"{text}{f'  pops {taken}' if taken else ''}"


def _retirements(timing: Timing, after: np.ndarray) -> Iterator[Event]:
    for cycle, index, unit in _units(timing, timing.retired):
        pushed = _edges(timing.program.pushes[index], after[index])
        yield cycle, unit, "retires", index, f"pushes {pushed}" if pushed else ""


def _edges(flags: np.ndarray, after: np.ndarray) -> str:
    return ", ".join(
        f"{edge} ({count} held)" for edge, flag, count in zip(TOKEN_EDGES, flags, after, strict=True) if flag
    )


def _bursts(timing: Timing) -> Iterator[Event]:
    for client, instruction, beats, taken, accepted, first, last in timing.logged.bursts.tolist():
        text = f"{Client(client).name.lower()}, {beats} beats"
        for cycle, what in ((taken, "asked"), (accepted, "accepts"), (first, "first"), (last, "last")):
            yield cycle, "memory", what, instruction, text


def _waits(timing: Timing) -> Iterator[Event]:
    for unit, state, instruction, begin, end in timing.logged.spans.tolist():
        if STATES[state] not in (UnitState.BUSY, UnitState.IDLE):
            yield (
                begin,
                Unit(unit).name.lower(),
                "waits",
                instruction,
                f"{wait_text(Unit(unit), STATES[state])}, {end - begin} cycles",
            )
