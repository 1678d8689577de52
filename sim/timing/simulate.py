"""The cycle simulator: from a decoded program to its Timing.

A cycle is the accelerator's clock edge: `decide` looks at the registers, `act` changes them;
`docs/microarchitecture.md` is the text of both. A cycle in which every component just goes on with what it
was doing (streaming beats, issuing slots, waiting) is repeated as often as the first of them to change
allows, at once.

The states of the units are summed and logged; see `UnitState`.
"""

import numpy as np

from vdla.hw.spec.errors import CycleLimitError
from vdla.hw.spec.footprint import FOOTPRINTS, stepping_forms
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.registers import (
    COUNTED_MEMORIES,
    COUNTED_STATES,
    Fault,
    UnitState,
    beat_counter,
    state_counter,
)
from vdla.hw.spec.units import Unit
from vdla.sim.compiled import part, whole
from vdla.sim.decoded import DecodedStream
from vdla.sim.records import Ints, Records
from vdla.sim.timing.act import OUT, Done, act
from vdla.sim.timing.columns import TimedProgram, timing_columns
from vdla.sim.timing.compute import compute_steady_cycles, pipeline_settled_from, port_steady_cycles
from vdla.sim.timing.decide import Decision, decide
from vdla.sim.timing.loader import STEP, TAKES_BEAT, loader_skips, loader_steady_cycles
from vdla.sim.timing.memory import memory_free
from vdla.sim.timing.result import BURST, NEVER, SPAN, Burst, Log, Span, Timing
from vdla.sim.timing.state import (
    COMPUTE_UNIT,
    FAR,
    LOAD_UNIT,
    STORE_UNIT,
    Loader,
    Machine,
    Times,
    new_machine,
)
from vdla.sim.timing.store import store_skips, store_steady_cycles
from vdla.sim.timing.tokens import EMPTY, OPEN

LOOKS_AT_ONCE = 1 << 19  # evaluated cycles between two looks at Python's signals: well below a second
LOGGED_PER_CYCLE = 8  # no cycle logs more spans or bursts
LOG_PLACES = 1 << 12  # of a log at first
BUSY, MEMORY, INSTRUCTION, IDLE = (
    tuple(UnitState).index(state)
    for state in (UnitState.BUSY, UnitState.MEMORY, UnitState.INSTRUCTION, UnitState.IDLE)
)


def simulate(
    program: DecodedStream,
    memory: MemoryParameters = REFERENCE_MEMORY,
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
        memory: timing of the reference memory.
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

    def __init__(
        self, program: DecodedStream, memory: MemoryParameters, stream_address: int, log: bool
    ) -> None:
        self.program = program
        self.columns = timing_columns(program)
        self.state = new_machine(program.config, memory, stream_address, len(program))
        self.machine = self.state[0]
        self.machine["log"]["wanted"] = log
        self.times = Times(*(np.full(len(program), NEVER, np.int64) for _ in Times._fields))
        self.spans, self.bursts = np.zeros(LOG_PLACES, SPAN), np.zeros(LOG_PLACES, BURST)
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
        logs = (self.spans, self.bursts)
        advance(self.state[0], self.columns, self.queued, self.times, *logs, until, LOOKS_AT_ONCE)
        assert self.cycle < FAR, "the simulated accelerator waits for nothing"
        used = self.machine["log"]["spans"], self.machine["log"]["bursts"]
        if min(len(log) - count for log, count in zip(logs, used, strict=True)) < LOGGED_PER_CYCLE:
            self.spans, self.bursts = (np.resize(log, 2 * len(log)) for log in (self.spans, self.bursts))

    def timing(self) -> Timing:
        """Return what was found."""
        counts = self.machine["log"]
        kept = (
            Log(self.spans[: counts["spans"]], self.bursts[: counts["bursts"]]) if counts["wanted"] else None
        )
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
        counts, places = self.machine["counts"], tuple(UnitState)
        values = {
            state_counter(unit, state): counts["states"][unit, places.index(state)]
            for unit in Unit
            for state in COUNTED_STATES
        }
        values[beat_counter(None)] = counts["fetch_beats"]
        values |= {
            beat_counter(memory): beats
            for memory, beats in zip(COUNTED_MEMORIES, counts["beats"], strict=True)
        }
        for form in stepping_forms():
            ran = self.times.started[self.program.opcode == form.opcode] != NEVER
            counter = FOOTPRINTS[form].counter
            values[counter] = values.get(counter, 0) + self.program.steps(form)[ran].sum()
        return {name: int(value) for name, value in values.items()}


@part
def _cycle(
    machine: Machine,
    program: TimedProgram,
    queued: Ints,
    times: Times,
    spans: Records[Span],
    bursts: Records[Burst],
    until: int,
) -> None:
    """Carry out the cycle that the registers stand at, and those after it that are like it."""
    decision, ended = decide(machine, program, queued), machine.dispatch.ended
    ends = machine.compute.finished != 0 and decision.drained
    heads = queue_heads(machine, queued)
    done = act(machine, program, queued, times, bursts, decision)
    states = unit_states(decision, done, ended)
    if machine.log.wanted:
        log_states(machine, spans, states, heads)
    steady = 0
    if not (done.turns or decision.quiet or machine.control.cycle == 1):
        steady = min(_steady_cycles(machine, program, decision, done), until - machine.control.cycle - 1)
        _skip(machine, program, decision, done, steady)
    count(machine, states, 1 + steady)
    machine.control.cycle += 1 + steady
    _control(machine, spans, ends, decision.quiet)


@part
def _steady_cycles(machine: Machine, program: TimedProgram, decision: Decision, done: Done) -> int:
    """Return how many cycles behind this one are like it; nothing ended or began in this one."""
    steady, memory, store, hardware = (
        compute_steady_cycles(machine),
        machine.memory,
        machine.store,
        machine.hardware,
    )
    if memory.level > 0:
        if done.streams:
            steady = min(steady, memory.beats_left[memory.first] - 1) if hardware.cycles_per_beat == 1 else 0
        elif memory_free(memory) > machine.control.cycle:
            steady = min(steady, memory_free(memory) - machine.control.cycle - 1)
    if done.load & STEP:
        steady = min(steady, loader_steady_cycles(machine.load, program, hardware, done.load))
    if done.compute_load & STEP:
        steady = min(steady, loader_steady_cycles(machine.compute_load, program, hardware, done.compute_load))
    if decision.settling and machine.compute_load.writing:
        steady = min(steady, pipeline_settled_from(machine) - machine.control.cycle - 1)
    if store.active:
        steady = min(steady, port_steady_cycles(machine, program))
    return min(steady, store_steady_cycles(machine, program, decision.reads, done.drains))


@part
def _skip(machine: Machine, program: TimedProgram, decision: Decision, done: Done, cycles: int) -> None:
    """Do what this cycle did `cycles` times more."""
    if done.load & STEP:
        _skip_load(machine, machine.load, program, done.load, cycles)
    if done.compute_load & STEP:
        _skip_load(machine, machine.compute_load, program, done.compute_load, cycles)
    store_skips(machine, program, decision.reads, cycles)
    if done.drains:
        machine.store.beats -= cycles
        machine.counts.beats[OUT] += cycles
    if done.streams:
        machine.memory.beats_left[machine.memory.first] -= cycles


@part
def _skip_load(machine: Machine, loader: Loader, program: TimedProgram, done: int, cycles: int) -> None:
    loader_skips(loader, program, cycles)
    if done & TAKES_BEAT:
        machine.counts.beats[program[loader.written].beats] += cycles


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
    spans: Records[Span],
    bursts: Records[Burst],
    until: int,
    looks: int,
) -> None:
    """Go on until the run is done, cycle `until` is reached, a log has no more room, or after `looks`
    evaluated cycles."""
    for _ in range(looks):
        if machine.control.cycle >= until or machine.control.done:
            break
        if (
            machine.log.wanted
            and min(spans.size - machine.log.spans, bursts.size - machine.log.bursts) < LOGGED_PER_CYCLE
        ):
            break
        _cycle(machine, program, queued, times, spans, bursts, until)


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
