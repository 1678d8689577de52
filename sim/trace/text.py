"""A run as text: one line per event, in order of time, in fixed columns."""

from collections.abc import Iterator

import numpy as np

from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.timing import Client
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.timing.result import NEVER, Timing
from vdla.sim.trace.events import STATES, held_after, wait_text

Event = tuple[int, str, str, int, str]  # cycle, where, what, instruction or -1, more about it


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
