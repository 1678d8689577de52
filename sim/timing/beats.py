"""The counters of beats, and the log of the cycles in which they count."""

from vdla.sim.compiled import part
from vdla.sim.records import Records
from vdla.sim.timing.result import BeatRun
from vdla.sim.timing.state import Machine


@part
def count_beats(
    machine: Machine, beat_runs: Records[BeatRun], counter: int, first: int, beats: int = 1
) -> None:
    """Count beats, one beat in each cycle from `first` on; a counter is a place in `BEAT_COUNTERS`."""
    machine.counts.beats[counter] += beats
    if machine.log.wanted and beats > 0:
        _log_beats(machine, beat_runs, counter, first, first + beats - 1)


@part
def _log_beats(machine: Machine, beat_runs: Records[BeatRun], counter: int, first: int, last: int) -> None:
    """Make the counter's latest run longer if these beats go on at the rate of memory; else begin a run."""
    log, rate = machine.log, machine.hardware.cycles_per_beat
    place = log.beat_run[counter]
    if place < 0 or beat_runs[place].last + rate != first or (last > first and rate > 1):
        place = log.beat_run[counter] = log.beat_runs
        beat_runs[place].counter, beat_runs[place].first = counter, first
        log.beat_runs += 1
    beat_runs[place].last = last
