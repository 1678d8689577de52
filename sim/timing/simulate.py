"""The cycle simulator: from a decoded program to its Timing.

A cycle is the accelerator's clock edge: `decide` looks at the registers, `act` changes them;
`docs/microarchitecture.md` is the text of both. A cycle in which every component just goes on with what it
was doing (streaming beats, issuing slots, waiting) is repeated as often as the first of them to change
allows, at once.

The states of the units are summed and logged; see `UnitState`.
"""

from typing import NamedTuple

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.errors import CycleLimitError
from vdla.hw.spec.footprint import FOOTPRINTS, stepping_forms
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.registers import (
    COUNTED_STATES,
    Fault,
    UnitState,
    state_counter,
)
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.units import Unit
from vdla.sim.compiled import part, whole
from vdla.sim.decoded import DecodedStream
from vdla.sim.records import Ints, Records
from vdla.sim.timing.act import Done, act, act_transfers
from vdla.sim.timing.columns import TimedProgram, timing_columns
from vdla.sim.timing.compute import compute_changes, compute_issues
from vdla.sim.timing.decide import Decision, Flags, Transfers, decide, decide_transfers
from vdla.sim.timing.leaps import skip, steady_cycles, stream_load
from vdla.sim.timing.loader import STEP
from vdla.sim.timing.result import BEAT_COUNTERS, BEAT_RUN, BURST, LENT_RUN, NEVER, SPAN, Log, Span, Timing
from vdla.sim.timing.sdram import memory_waits
from vdla.sim.timing.state import (
    COMPUTE_UNIT,
    FAR,
    LOAD_UNIT,
    MOST_RETIRING,
    STORE_UNIT,
    Logs,
    Machine,
    Times,
    new_machine,
)
from vdla.sim.timing.steps import step_rows
from vdla.sim.timing.tokens import EMPTY, OPEN

LOOKS_AT_ONCE = 1 << 19  # evaluated cycles between two looks at Python's signals: well below a second
LOGGED_PER_CYCLE = 8  # no cycle writes more records into a log
LOG_PLACES = 1 << 12  # of a log at first
GROWTH = 4  # of a log that is full
LOGGED = (SPAN, BURST, BEAT_RUN, LENT_RUN)
NO_STARTS = Flags(False, False, False)
BUSY, MEMORY, INSTRUCTION, IDLE = (
    tuple(UnitState).index(state)
    for state in (UnitState.BUSY, UnitState.MEMORY, UnitState.INSTRUCTION, UnitState.IDLE)
)


def simulate(
    program: DecodedStream,
    memory: AnyMemory = REFERENCE_MEMORY,
    *,
    stream_address: int = 0,
    log: bool = False,
    cycle_limit: int | None = None,
) -> Timing:
    """Find out when everything of a run happens. Timing does not depend on data, so none is needed.

    A run that deadlocks, or meets no FINISH, or an instruction with no meaning, ends as on the hardware;
    `Timing.fault` tells.

    Args:
        program: the stream, decoded.
        memory: timing of the reference memory, or of an SDRAM.
        stream_address: byte address of the stream in DRAM, a multiple of an instruction's bytes; fetch cuts
            its bursts by it.
        log: keep spans and bursts too, for traces.
        cycle_limit: stop behind this many cycles.

    Raises:
        CycleLimitError: `cycle_limit` was reached.
    """
    run = _Simulation(program, memory, stream_address, log)
    while not run.done:
        if cycle_limit is not None and run.cycle >= cycle_limit:
            raise CycleLimitError(
                f"the run was stopped at its limit of {cycle_limit} cycles; it had not finished"
            )
        run.advance(FAR if cycle_limit is None else cycle_limit)
    return run.timing()


class _Simulation:
    """The arrays of one run."""

    def __init__(self, program: DecodedStream, memory: AnyMemory, stream_address: int, log: bool) -> None:
        self.program = program
        self.columns = timing_columns(program)
        self.state = new_machine(program.config, memory, stream_address, len(program))
        self.machine = self.state[0]
        self.machine["log"]["wanted"] = log
        self.times = Times(*(np.full(len(program), NEVER, np.int64) for _ in Times._fields))
        self.logs = Logs(*(np.zeros(LOG_PLACES, record) for record in LOGGED))
        units = program.unit[: program.dispatched]
        self.queued = np.argsort(units, kind="stable")
        first = np.searchsorted(units[self.queued], np.arange(len(Unit)))
        self.machine["dispatch"]["head"][:] = self.machine["dispatch"]["tail"][:] = first

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return bool(self.machine["control"]["done"])

    @property
    def cycle(self) -> int:
        """The cycle that comes next."""
        return int(self.machine["control"]["cycle"])

    def advance(self, until: int) -> None:
        """Go on towards cycle `until` or the run's end for a while; make room where a log is nearly full."""
        advance(self.state[0], self.columns, self.queued, self.times, self.logs, until, LOOKS_AT_ONCE)
        assert self.cycle < FAR, "the simulated accelerator waits for nothing"
        counts = self.machine["log"]
        self.logs = Logs(*(_with_room(log, counts[name]) for name, log in self.logs._asdict().items()))

    def timing(self) -> Timing:
        """Return the result of the run."""
        counts = self.machine["log"]
        kept = None
        if counts["wanted"]:
            kept = Log(*(log[: counts[name]] for name, log in self.logs._asdict().items()))
        return Timing(self.program, self.cycle, self._fault(), self._counters(), *self.times, kept)

    def _fault(self) -> Fault:
        """Return why the run was stopped, as run control decides it."""
        dispatch = self.machine["dispatch"]
        if not self.machine["control"]["stuck"]:
            return Fault(0)
        if dispatch["invalid"]:
            return Fault.INVALID_INSTRUCTION
        starved = (dispatch["head"] == dispatch["tail"]).all() and self.machine["fetch"]["level"] == 0
        return Fault.UNFINISHED if starved else Fault.DEADLOCK

    def _counters(self) -> dict[str, int]:
        """Return the counters of the cycles before this cycle; a step counts in its slot."""
        counts, places = self.machine["counts"], tuple(UnitState)
        values = {
            state_counter(unit, state): counts["states"][unit, places.index(state)]
            for unit in Unit
            for state in COUNTED_STATES
        }
        values |= zip(BEAT_COUNTERS, counts["beats"], strict=True)
        for form in stepping_forms():
            ran = self.times.started[self.program.opcode == form.opcode] != NEVER
            counter = FOOTPRINTS[form].counter
            steps = self.program.steps(form)[ran].sum() - self._unissued(form)
            values[counter] = values.get(counter, 0) + steps
        return {name: int(value) for name, value in values.items()}

    def _unissued(self, form: type[isa.Instruction]) -> int:
        """Return the steps of the started instructions of a form that are issued in this cycle or later."""
        compute = self.machine["compute"]
        left = compute["issue_last"] - self.cycle + 1 - (compute["taken"] == self.cycle)
        if left <= 0:
            return 0
        index = compute["items"][(compute["first"] + compute["level"] - 1) % MOST_RETIRING]
        issuing = self.program.part(np.array([index]))
        if issuing.opcode[0] != form.opcode:
            return 0
        steps = issuing.steps(form)
        issued = step_rows(issuing, form, steps).issued(self.columns["slots"][index] - left)
        return int((steps - issued)[0])


def _with_room(log: np.ndarray, count: int) -> np.ndarray:
    """Return a log of which `count` places are taken, with more places if it is nearly full."""
    if len(log) - count >= LOGGED_PER_CYCLE:
        return log
    longer = np.empty(GROWTH * len(log), log.dtype)
    longer[:count] = log[:count]
    return longer


class Still(NamedTuple):
    """What stays as it is while nothing but Transfers happens."""

    states: tuple[int, int, int]  # of the units while they are not busy
    heads: tuple[int, int, int]  # of their queues


@part
def _cycle(
    machine: Machine,
    program: TimedProgram,
    queued: Ints,
    times: Times,
    logs: Logs,
    until: int,
    looks: int,
) -> int:
    """Carry out the cycle that the registers stand at, and the cycles after it in which nothing but Transfers
    happens; return how many were evaluated, at most `looks`."""
    decision, transfers = decide(machine, program, queued), decide_transfers(machine, program)
    ends = machine.compute.finished != 0 and decision.drained
    still = Still(waiting_states(decision, machine.dispatch.ended), queue_heads(machine, queued))
    done = act_transfers(machine, program, times, logs, transfers)
    changes = act(machine, program, queued, times, logs, decision)
    _count(machine, logs.spans, still, busy_units(transfers, done, decision.starts), 0)
    calm = not (changes or done.wakes or decision.resting or machine.control.cycle == 1)
    calm_until = min(until, compute_changes(machine))
    machine.control.cycle += 1
    _control(machine, logs.spans, ends, decision.quiet)
    if not calm:
        return 1
    return 1 + _transfer(machine, program, times, logs, still, calm_until, looks - 1)


@part
def _transfer(
    machine: Machine,
    program: TimedProgram,
    times: Times,
    logs: Logs,
    still: Still,
    until: int,
    looks: int,
) -> int:
    """Carry out the Transfers of the cycles before `until`, as long as no Decision depends on them;
    return how many were evaluated, at most `looks`."""
    for evaluated in range(looks):
        if machine.control.cycle >= until or not _has_room(machine, logs):
            return evaluated
        streamed = stream_load(machine, program, logs, until)
        if streamed > 0:
            busy = Flags(True, compute_issues(machine), False)
            _count(machine, logs.spans, still, busy, streamed - 1)
            machine.control.cycle += streamed
            continue
        transfers = decide_transfers(machine, program)
        done = act_transfers(machine, program, times, logs, transfers)
        steady = 0
        if not done.turns:
            steady = steady_cycles(machine, program, transfers, done)
            steady = memory_waits(machine, logs.bursts, min(steady, until - machine.control.cycle - 1))
            skip(machine, program, logs, transfers, done, steady)
        _count(machine, logs.spans, still, busy_units(transfers, done, NO_STARTS), steady)
        machine.control.cycle += 1 + steady
        if done.wakes:
            return evaluated + 1
    return looks


@part
def _count(machine: Machine, spans: Records[Span], still: Still, busy: Flags, more: int) -> None:
    """Count this cycle, and `more` cycles like it, in the states of the units, and log them."""
    states = (
        BUSY if busy.load else still.states[LOAD_UNIT],
        BUSY if busy.compute else still.states[COMPUTE_UNIT],
        BUSY if busy.store else still.states[STORE_UNIT],
    )
    if machine.log.wanted:
        log_states(machine, spans, states, still.heads)
    for unit in (LOAD_UNIT, COMPUTE_UNIT, STORE_UNIT):
        machine.counts.states[unit, states[unit]] += 1 + more


@part
def _has_room(machine: Machine, logs: Logs) -> bool:
    """Whether the logs, if they are wanted, have room for a cycle."""
    log = machine.log
    if not log.wanted:
        return True
    room = min(logs.spans.size - log.spans, logs.bursts.size - log.bursts)
    room = min(room, logs.beat_runs.size - log.beat_runs, logs.lent_runs.size - log.lent_runs)
    return room >= LOGGED_PER_CYCLE


@part
def _control(machine: Machine, spans: Records[Span], ends: bool, quiet: bool) -> None:
    """End the run behind FINISH, or when nothing has moved for long: one cycle after run control has seen it.
    The cycle has been counted already."""
    control = machine.control
    control.quiet = control.quiet + 1 if quiet else 0
    control.done = control.ends
    control.stuck |= control.quiet == machine.hardware.quiet_cycles
    control.ends = ends or control.stuck
    if control.done and machine.log.wanted:
        for unit in (LOAD_UNIT, COMPUTE_UNIT, STORE_UNIT):
            close_span(machine, spans, unit)


@whole
def advance(
    machine: Machine,
    program: TimedProgram,
    queued: Ints,
    times: Times,
    logs: Logs,
    until: int,
    looks: int,
) -> None:
    """Go on until the run is done, cycle `until` is reached, a log has no more room, or after `looks`
    evaluated cycles."""
    while looks > 0:
        if machine.control.cycle >= until or machine.control.done or not _has_room(machine, logs):
            break
        looks -= _cycle(machine, program, queued, times, logs, until, looks)


@part
def waiting_state(idle: bool, gate: int, ended: int) -> int:
    """Return the state of a unit that is not busy: the first that applies, in the order of `UnitState`."""
    if not idle:
        return MEMORY
    if gate == EMPTY:
        return IDLE if ended else INSTRUCTION
    return IDLE if gate == OPEN else gate  # open, but a slot of the instruction before it was taken


@part
def waiting_states(decision: Decision, ended: int) -> tuple[int, int, int]:
    """Return the states of the three units, unless they are busy, in a cycle at whose start dispatch had
    `ended` or not."""
    return (
        waiting_state(decision.idle.load, decision.gates.load, ended),
        waiting_state(decision.idle.compute, decision.gates.compute, ended),
        waiting_state(decision.idle.store, decision.gates.store, ended),
    )


@part
def busy_units(transfers: Transfers, done: Done, starts: Flags) -> Flags:
    """Return which units are busy in a cycle."""
    return Flags(
        starts.load or done.load & STEP != 0,
        starts.compute or transfers.issues or done.compute_load & STEP != 0,
        starts.store or transfers.reads,
    )


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
