"""Accounting of each unit's cycles: the states of `UnitState`, summed and logged."""

from vdla.hw.spec.registers import UnitState
from vdla.sim.compiled import part
from vdla.sim.records import Ints, Records
from vdla.sim.timing.act import Done
from vdla.sim.timing.decide import Decision
from vdla.sim.timing.loader import STEP
from vdla.sim.timing.result import Span
from vdla.sim.timing.state import COMPUTE_UNIT, LOAD_UNIT, STORE_UNIT, Machine
from vdla.sim.timing.tokens import EMPTY, OPEN

BUSY, MEMORY, INSTRUCTION, IDLE = (
    tuple(UnitState).index(state)
    for state in (UnitState.BUSY, UnitState.MEMORY, UnitState.INSTRUCTION, UnitState.IDLE)
)


@part
def state_of(busy: bool, idle: bool, gate: int, ended: int) -> int:
    """Return the state of a unit: the first that applies, in the order of `UnitState`."""
    if busy:
        return BUSY
    if not idle:
        return MEMORY
    if gate == EMPTY:
        return IDLE if ended else INSTRUCTION
    return IDLE if gate == OPEN else gate  # open, but a slot of the instruction before it was taken


@part
def unit_states(decision: Decision, done: Done, ended: int) -> tuple[int, int, int]:
    """Return the states of the three units in a cycle at whose start dispatch had `ended` or not."""
    load_busy = decision.starts.load or done.load & STEP != 0
    compute_busy = decision.starts.compute or decision.issues or done.compute_load & STEP != 0
    store_busy = decision.starts.store or decision.reads
    return (
        state_of(load_busy, decision.idle.load, decision.gates.load, ended),
        state_of(compute_busy, decision.idle.compute, decision.gates.compute, ended),
        state_of(store_busy, decision.idle.store, decision.gates.store, ended),
    )


@part
def count(machine: Machine, states: tuple[int, int, int], cycles: int) -> None:
    """Add `cycles` to each unit's state."""
    for unit in (LOAD_UNIT, COMPUTE_UNIT, STORE_UNIT):
        machine.counts.states[unit, states[unit]] += cycles


@part
def queue_heads(machine: Machine, queued: Ints) -> tuple[int, int, int]:
    """Return the instruction at the head of each unit's queue, -1 where there is none."""
    return (
        _head(machine, queued, LOAD_UNIT),
        _head(machine, queued, COMPUTE_UNIT),
        _head(machine, queued, STORE_UNIT),
    )


@part
def _head(machine: Machine, queued: Ints, unit: int) -> int:
    dispatch = machine.dispatch
    return queued[dispatch.head[unit]] if dispatch.head[unit] < dispatch.tail[unit] else -1


@part
def log_states(
    machine: Machine, spans: Records[Span], states: tuple[int, int, int], heads: tuple[int, int, int]
) -> None:
    """Close the span of every unit that is in another state, or before another instruction, than in the cycle
    before."""
    for unit in (LOAD_UNIT, COMPUTE_UNIT, STORE_UNIT):
        if states[unit] != machine.log.state[unit] or heads[unit] != machine.log.instruction[unit]:
            close_span(machine, spans, unit)
            machine.log.state[unit], machine.log.instruction[unit] = states[unit], heads[unit]


@part
def close_span(machine: Machine, spans: Records[Span], unit: int) -> None:
    """Write down the span that `unit` is in, up to this cycle; the next begins here."""
    log, cycle = machine.log, machine.control.cycle
    if log.since[unit] < cycle:
        span = spans[log.spans]
        span.unit, span.state, span.instruction = unit, log.state[unit], log.instruction[unit]
        span.begin, span.end = log.since[unit], cycle
        log.spans += 1
    log.since[unit] = cycle
