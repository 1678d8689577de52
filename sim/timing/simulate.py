"""The cycle simulator: from a decoded program to its Timing."""

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
from vdla.sim.decoded import DecodedStream
from vdla.sim.timing.columns import timing_columns
from vdla.sim.timing.engine import LOGGED_PER_CYCLE, advance
from vdla.sim.timing.result import BURST, NEVER, SPAN, Log, Timing
from vdla.sim.timing.state import FAR, Times, new_machine

LOOKS_AT_ONCE = 1 << 19  # evaluated cycles between two looks at Python's signals: well below a second
LOG_PLACES = 1 << 12  # of a log at first


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
