"""What the cycle simulator finds out about one run."""

from collections.abc import Mapping
from dataclasses import dataclass

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
from vdla.sim.records import IntArray, RecordArray, record_dtype

NEVER = -1
BEAT_COUNTERS = (*map(beat_counter, COUNTED_MEMORIES), beat_counter(None))
FETCH_BEATS = BEAT_COUNTERS.index(beat_counter(None))


class Span:
    """A unit stays in one state, before one instruction, in the cycles [begin, end)."""

    unit: int
    state: int
    instruction: int
    begin: int
    end: int


class Burst:
    """A request of memory: whose, and the cycles in which it goes on."""

    client: int
    instruction: int
    beats: int
    taken: int
    accepted: int
    first: int
    last: int


class BeatRun:
    """Beats of one counter, which is a place in `BEAT_COUNTERS`: one beat in each of the cycles `first`,
    `first + cycles_per_beat`, and so on to `last`."""

    counter: int
    first: int
    last: int


class LentRun:
    """The store unit takes a slot of the instruction that is issuing in each of the cycles `first` to
    `last`."""

    first: int
    last: int


SPAN, BURST, BEAT_RUN, LENT_RUN = map(record_dtype, (Span, Burst, BeatRun, LentRun))


@dataclass(frozen=True)
class Log:
    """What happened in between, where it was asked for.

    Attributes:
        spans: SPAN[...], in order of `begin` within a unit: the unit is in `state` (index in
            `tuple(UnitState)`) in the cycles [begin, end); `instruction` stands at the head of its
            queue, or is -1. They cover [1, cycles) of each unit.
        bursts: BURST[...], in the order in which memory serves them. `client` is a `Client`, and
            `instruction` is the LOAD or STORE of the burst, -1 for fetch. The cycles say when the
            DMA takes the request, memory accepts it, and its first and last beat move.
        beat_runs: BEAT_RUN[...], in order of `first` within a counter: the beats that the counters of beats
            count. A read beat counts when its client takes it, a beat of OUT when memory takes it.
        lent_runs: LENT_RUN[...], in order: the cycles in which an instruction that is issuing lends its slot
            to the store unit. None where ACC has two ports.
    """

    spans: RecordArray
    bursts: RecordArray
    beat_runs: RecordArray
    lent_runs: RecordArray


@dataclass(frozen=True)
class Timing:
    """When everything of a run happened. Cycles count from 0, the cycle in which start is accepted.

    Attributes:
        program: what ran.
        cycles: from start to done, as the register CYCLES.
        fault: why the run ended without FINISH; no bit where it ended well.
        counters: the registers of `vdla.hw.spec.registers.COUNTERS`, by name.
        dispatched, started, retired: int64[n], the cycle in which each instruction enters its unit's queue,
            starts, and retires; NEVER where it does not.
        log: None unless asked for.
    """

    program: DecodedStream
    cycles: int
    fault: Fault
    counters: Mapping[str, int]
    dispatched: IntArray
    started: IntArray
    retired: IntArray
    log: Log | None = None

    @property
    def logged(self) -> Log:
        """The log of a run that was simulated with a log.

        Raises:
            ValueError: it was not.
        """
        if self.log is None:
            raise ValueError("this run was simulated without a log; simulate(..., log=True) keeps one")
        return self.log

    def states(self, unit: Unit) -> dict[UnitState, int]:
        """Return the cycles `unit` spent in each state; they add up to `cycles`."""
        counted = {state: self.counters[state_counter(unit, state)] for state in COUNTED_STATES}
        return counted | {UnitState.IDLE: self.cycles - sum(counted.values())}
