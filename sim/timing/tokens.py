"""Dependency tokens and the rule by which an instruction starts: `vdla.hw.tokens`, `vdla.hw.start_gate`."""

from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.compiled import part
from vdla.sim.records import Ints
from vdla.sim.timing.columns import TimedProgram
from vdla.sim.timing.state import Machine

EDGES = len(TOKEN_EDGES)
OPEN, EMPTY = -1, -2

TOKEN_PREV, TOKEN_NEXT, ROOM = (
    tuple(UnitState).index(state) for state in (UnitState.TOKEN_PREV, UnitState.TOKEN_NEXT, UnitState.ROOM)
)
_FROM_PREV = sum(1 << edge for edge, ends in enumerate(TOKEN_EDGES) if ends.consumer > ends.producer)
assert tuple(Unit) == (0, 1, 2)


@part
def gate(machine: Machine, program: TimedProgram, queued: Ints, unit: int) -> int:
    """Return OPEN if the head of `unit`'s queue may start, EMPTY if there is none, else the state that names
    what it lacks."""
    dispatch, tokens = machine.dispatch, machine.tokens
    if dispatch.head[unit] == dispatch.tail[unit]:
        return EMPTY
    instruction = program[queued[dispatch.head[unit]]]
    lacks = 0
    for edge in range(EDGES):
        if instruction.pops >> edge & 1 and tokens.held[edge] == 0:
            lacks |= 1 << edge
    if lacks:
        return TOKEN_PREV if lacks & _FROM_PREV else TOKEN_NEXT
    for edge in range(EDGES):
        if instruction.pushes >> edge & 1 and tokens.pledged[edge] == machine.hardware.token_depth:
            return ROOM
    return OPEN


@part
def start(machine: Machine, program: TimedProgram, queued: Ints, unit: int, started: Ints) -> int:
    """Start the head of `unit`'s queue: pop its tokens, reserve its places; return it."""
    dispatch, tokens = machine.dispatch, machine.tokens
    index = queued[dispatch.head[unit]]
    instruction = program[index]
    dispatch.head[unit] += 1
    started[index] = machine.control.cycle
    for edge in range(EDGES):
        popped = instruction.pops >> edge & 1
        tokens.held[edge] -= popped
        tokens.pledged[edge] += (instruction.pushes >> edge & 1) - popped
    return index


@part
def retire(machine: Machine, program: TimedProgram, index: int, retired: Ints) -> None:
    """Retire an instruction: push its tokens."""
    instruction = program[index]
    retired[index] = machine.control.cycle
    for edge in range(EDGES):
        machine.tokens.held[edge] += instruction.pushes >> edge & 1
