"""Errors of a run: a stop by the hardware, accesses that no token orders, and results that are wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from vdla.explore.debug.contents import Contents
from vdla.explore.debug.dram import NO_IMAGE, Difference, Note, names_at
from vdla.explore.debug.recording import NONE
from vdla.explore.debug.state import States
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.units import TOKEN_EDGES
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.interleave import interleave
from vdla.sim.timing.result import NEVER
from vdla.sim.verify.columns import DRAM
from vdla.sim.verify.verifier import Finding, describe, findings, pushers

MOST_ERRORS = 200


class ErrorKind(StrEnum):
    """What is wrong."""

    STOP = "the hardware stops the run"
    HAZARD = "unsafe access"
    RESULT = "wrong result"
    DEVICE = "devices differ"


@dataclass(frozen=True, slots=True)
class RunError:
    """An error of a run.

    Attributes:
        text: what is wrong, in a sentence.
        instruction: at which the error shows; NONE where there is none.
        cycle: at which the error shows.
        others: instructions to look at next, each with what it has to do with the error.
    """

    kind: ErrorKind
    text: str
    instruction: int
    cycle: int
    others: tuple[tuple[int, str], ...] = ()


def errors_of(contents: Contents) -> tuple[RunError, ...]:
    """Return the errors of a run: stops first, then what the verifier refuses, and wrong results."""
    image = contents.recording.image
    found = [*_stops(contents), *(_noted(contents, each) for each in image.notes if each.stops)]
    found += [*_hazards(contents), *(_result(contents, each) for each in image.differences)]
    found += [_noted(contents, each) for each in image.notes if not each.stops]
    return tuple(found[:MOST_ERRORS])


def _stops(contents: Contents) -> Iterator[RunError]:
    """Yield why the hardware stops the run, with the instructions that wait."""
    recording = contents.recording
    error = interleave(recording.program).error if recording.timing.fault else None
    if error is not None:
        last = recording.timing.cycles
        waiting = [view for view in States(recording).at(last - 1).units if view.waiting != NONE]
        others = tuple((view.waiting, view.text) for view in waiting)
        first = others[0][0] if others else NONE
        yield RunError(ErrorKind.STOP, str(error).splitlines()[0], first, last - 1, others)


def _hazards(contents: Contents) -> Iterator[RunError]:
    """Yield what the verifier refuses in a program that ends; nothing if its micro-ops are not known."""
    recording = contents.recording
    if recording.timing.fault or recording.image is NO_IMAGE:
        return
    try:
        found = findings(recording.program, recording.image.before)
    except ProgramError:
        return
    givers = pushers(recording.program)
    first = {(each.kind, each.index, each.other, each.memory): each for each in reversed(found)}
    for each in reversed(first.values()):
        yield _hazard(contents, each, givers[each.index])


def _hazard(contents: Contents, found: Finding, givers: np.ndarray) -> RunError:
    program, others = contents.recording.program, []
    if found.other != NONE:
        others.append((found.other, "it conflicts with"))
    for number, giver in enumerate(givers.tolist()):
        if giver != NONE:
            others.append((giver, f"gave it the token {TOKEN_EDGES[number]}"))
    cycle = _start(contents, found.index)
    return RunError(ErrorKind.HAZARD, describe(found, program), found.index, cycle, tuple(others))


def _result(contents: Contents, found: Difference) -> RunError:
    recording = contents.recording
    name = _tensor(contents, found)
    where = f"byte {found.address:#x}{f' ({name})' if name else ''}"
    values = f"the first, {where}, is {found.found:#04x} in place of {found.expected:#04x}"
    subject = f"{found.subject}: " if found.subject else ""
    bytes_ = f"{subject}{found.count:,} byte{'s are' if found.count != 1 else ' is'} wrong"
    same = found.pairs == 1 and found.count > 1
    every = "; every one has these two values" if same else ""
    if found.store == NONE:
        text = f"{bytes_} that no instruction writes: {values}{every}"
        return RunError(ErrorKind.RESULT, text, NONE, recording.timing.cycles)
    layer = recording.layer_of[found.store]
    text = f"{bytes_} in what instruction {found.store} writes{f' for layer {layer}' if layer else ''}: "
    others = tuple(
        (each, f"loads {contents.labels[each]}, for wrong results only") for each in found.suspects
    )
    if same:
        others = (*_tables(contents, found.store), *others)
    start = _start(contents, found.store)
    return RunError(ErrorKind.RESULT, f"{text}{values}{every}", found.store, start, others)


def _tensor(contents: Contents, found: Difference) -> str:
    """Return the name of the tensor that a difference is in; "" where there is none."""
    if found.store != NONE:
        return next((view.area for view in contents.touched(found.store) if view.memory == DRAM), "")
    names = names_at(contents.recording.image.areas, found.address)
    return names[-1] if names else ""


def _noted(contents: Contents, note: Note) -> RunError:
    known = note.instruction if 0 <= note.instruction < len(contents.recording) else NONE
    cycle = contents.recording.timing.cycles if known == NONE else _start(contents, known)
    return RunError(ErrorKind.DEVICE, note.text.splitlines()[0], known, cycle)


def _tables(contents: Contents, store: int) -> Iterator[tuple[int, str]]:
    """Yield the LOADs of the table in which a STORE looks its values up."""
    for memory, writer in contents.flow.sources(store):
        if memory == MemoryType.TABLE and writer != NONE:
            yield writer, f"loads its table {contents.labels[writer]}"


def _start(contents: Contents, instruction: int) -> int:
    timing = contents.recording.timing
    started = int(timing.started[instruction])
    return timing.cycles if started == NEVER else started
