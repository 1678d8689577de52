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
    errors = [*_stops(contents), *(_noted(contents, each) for each in image.notes if each.stops)]
    errors += [*_hazards(contents), *(_result(contents, each) for each in image.differences)]
    errors += [_noted(contents, each) for each in image.notes if not each.stops]
    return tuple(errors[:MOST_ERRORS])


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
        hazards = findings(recording.program, recording.image.before)
    except ProgramError:
        return
    givers = pushers(recording.program)
    first = {(each.kind, each.index, each.partner, each.memory): each for each in reversed(hazards)}
    for each in reversed(first.values()):
        yield _hazard(contents, each, givers[each.index])


def _hazard(contents: Contents, finding: Finding, givers: np.ndarray) -> RunError:
    program, others = contents.recording.program, []
    if finding.partner != NONE:
        others.append((finding.partner, "it conflicts with"))
    for number, giver in enumerate(givers.tolist()):
        if giver != NONE:
            others.append((giver, f"gave it the token {TOKEN_EDGES[number]}"))
    cycle = _start(contents, finding.index)
    return RunError(ErrorKind.HAZARD, describe(finding, program), finding.index, cycle, tuple(others))


def _result(contents: Contents, difference: Difference) -> RunError:
    recording = contents.recording
    name = _tensor(contents, difference)
    where = f"byte {difference.address:#x}{f' ({name})' if name else ''}"
    values = f"the first, {where}, is {difference.actual:#04x} in place of {difference.expected:#04x}"
    subject = f"{difference.subject}: " if difference.subject else ""
    bytes_ = f"{subject}{difference.count:,} byte{'s are' if difference.count != 1 else ' is'} wrong"
    same = difference.pairs == 1 and difference.count > 1
    every = "; all have these two values" if same else ""
    if difference.store == NONE:
        text = f"{bytes_} that no instruction writes: {values}{every}"
        return RunError(ErrorKind.RESULT, text, NONE, recording.timing.cycles)
    layer = recording.layer_of[difference.store]
    text = f"{bytes_} in what instruction {difference.store} writes{f' for layer {layer}' if layer else ''}: "
    others = tuple(
        (each, f"loads {contents.labels[each]}, for wrong results only") for each in difference.suspects
    )
    if same:
        others = (*_tables(contents, difference.store), *others)
    start = _start(contents, difference.store)
    return RunError(ErrorKind.RESULT, f"{text}{values}{every}", difference.store, start, others)


def _tensor(contents: Contents, difference: Difference) -> str:
    """Return the name of the tensor that a difference is in; "" where there is none."""
    if difference.store != NONE:
        return next((view.area for view in contents.touched(difference.store) if view.memory == DRAM), "")
    names = names_at(contents.recording.image.areas, difference.address)
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
