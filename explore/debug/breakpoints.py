"""Breakpoints: conditions on a recorded run, as the cycles at which they begin to hold.

instruction 120                   the instruction starts
/GEMM.*reset/                     an instruction starts whose assembly, or whose layer, matches
address 0x4f00                    a LOAD or STORE starts that moves this byte of DRAM
element INP 512                   an instruction starts that reads or writes this element of a scratchpad
tokens load->compute >= 3         the tokens that an edge holds
queue store == 0                  the instructions in a unit's queue
LOAD_MEMORY >= 1000               a performance counter
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from vdla.explore.debug.contents import Contents
from vdla.explore.debug.levels import Count, Level
from vdla.explore.debug.recording import DebugError, Recording
from vdla.explore.debug.state import States
from vdla.hw.spec.footprint import forms_in_dram
from vdla.hw.spec.memories import scratchpads_of
from vdla.hw.spec.showing import short
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.records import IntArray
from vdla.sim.rows import NO_ROW, dram_rows
from vdla.sim.timing.result import NEVER

OPERATORS: Mapping[str, Callable[[IntArray, int], IntArray]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
Named = TypeVar("Named")
FORMS = (
    "instruction N, /PATTERN/, address N, element MEMORY N, tokens EDGE OP N, queue UNIT OP N or COUNTER OP "
    f"N with an OP of {' '.join(OPERATORS)}"
)


@dataclass(frozen=True, eq=False)
class Breakpoint:
    """A condition on a run.

    Attributes:
        text: as it was given.
        cycles: int64[m], ascending: the cycles at which it begins to hold.
    """

    text: str
    cycles: IntArray

    def after(self, cycle: int) -> int | None:
        """Return the first cycle behind `cycle` at which it begins to hold; None where there is none."""
        place = int(np.searchsorted(self.cycles, cycle, "right"))
        return int(self.cycles[place]) if place < len(self.cycles) else None

    def before(self, cycle: int) -> int | None:
        """Return the last cycle before `cycle` at which it begins to hold; None where there is none."""
        place = int(np.searchsorted(self.cycles, cycle)) - 1
        return int(self.cycles[place]) if place >= 0 else None


def breakpoint_of(states: States, contents: Contents, words: Sequence[str]) -> Breakpoint:
    """Return the breakpoint that words describe.

    Args:
        states, contents: of the run.

    Raises:
        DebugError: they describe none of the forms, or something that the run does not have.
    """
    text, recording = " ".join(words), states.recording
    match list(words):
        case ["instruction", number]:
            index = recording.check_instruction(number_of(number, "the number of an instruction"))
            return Breakpoint(text, _starts(recording, np.array([index])))
        case ["address", number]:
            return Breakpoint(text, _starts(recording, _moving(recording, number_of(number, "an address"))))
        case ["element", name, number]:
            memory = scratchpad_named(recording, name)
            place = number_of(number, "an element")
            return Breakpoint(text, _starts(recording, contents.touches.at(memory, place).instruction))
        case ["tokens", edge, sign, value]:
            edges = {str(each): held for each, (held, _) in zip(TOKEN_EDGES, states.tokens, strict=True)}
            return Breakpoint(text, _begins(_named(edges, edge, "token edge"), sign, value))
        case ["queue", unit, sign, value]:
            queues = {each.name.lower(): states.queues[each] for each in Unit}
            return Breakpoint(text, _begins(_named(queues, unit, "unit"), sign, value))
        case [name, sign, value] if sign in OPERATORS:
            return Breakpoint(text, _begins(_named(states.counters, name, "counter"), sign, value))
    if len(text) > 2 and text[0] == text[-1] == "/":
        return Breakpoint(text, _starts(recording, recording.matches(text[1:-1])))
    raise DebugError(f"the condition {short(text)!r} has no form of a breakpoint; write {FORMS}")


def number_of(text: str, what: str) -> int:
    """Return the number that a text is, decimal or hexadecimal.

    Raises:
        DebugError: it is none.
    """
    try:
        return int(text.replace(",", ""), 0)
    except ValueError as error:
        raise DebugError(
            f"{short(text)!r} is not {what}; write a whole number, such as 64 or 0x40"
        ) from error


def scratchpad_named(recording: Recording, name: str) -> MemoryType:
    """Return the scratchpad of a name.

    Raises:
        DebugError: the accelerator has none of this name.
    """
    scratchpads = {memory.name: memory for memory in scratchpads_of(recording.program.config)}
    if name not in scratchpads:
        raise DebugError(f"there is no scratchpad {short(name)}; choose {', '.join(scratchpads)}")
    return scratchpads[name]


def _named(values: Mapping[str, Named], name: str, what: str) -> Named:
    if name not in values:
        raise DebugError(f"there is no {what} {short(name)}; choose {', '.join(values)}")
    return values[name]


def _starts(recording: Recording, instructions: IntArray) -> IntArray:
    started = recording.timing.started[instructions]
    return np.unique(started[started != NEVER])


def _moving(recording: Recording, address: int) -> IntArray:
    """Return the instructions that read or write a byte of DRAM."""
    instructions = []
    for form in forms_in_dram():
        rows = dram_rows(recording.program, form)
        instructions.append(rows.index[rows.first_row_in(address, address + 1) != NO_ROW])
    return np.sort(np.concatenate(instructions))


def _begins(level: Level | Count, sign: str, text: str) -> IntArray:
    """Return the cycles at which a comparison of a quantity with a number begins to hold."""
    if sign not in OPERATORS:
        raise DebugError(f"{short(sign)!r} is not a comparison; write one of {' '.join(OPERATORS)}")
    value = number_of(text, "a number to compare with")
    if not isinstance(level, Level):
        return _count_begins(level, sign, value)
    holds = OPERATORS[sign](level.values, value)
    before = np.append(OPERATORS[sign](np.zeros(1, np.int64), value), holds[:-1])
    begins: IntArray = level.cycles[holds & ~before]
    return begins


def _count_begins(count: Count, sign: str, value: int) -> IntArray:
    """Return the only cycle at which a comparison with a count that never falls begins to hold."""
    if sign in ("<", "<="):
        return np.zeros(0, np.int64)
    return count.reaches(value + (sign == ">"))
