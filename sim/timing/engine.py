"""One cycle after another, and many at once where nothing changes.

A cycle is the accelerator's clock edge: `decide` looks at the registers, `act` changes them;
`docs/microarchitecture.md` is the text of both. A cycle in which every component just goes on with what it
was doing (streaming beats, issuing slots, waiting) is repeated as often as the first of them to change
allows, at once.
"""

from vdla.sim.compiled import part, whole
from vdla.sim.records import Ints, Records
from vdla.sim.timing.act import OUT, Done, act
from vdla.sim.timing.columns import TimedProgram
from vdla.sim.timing.compute import compute_steady_cycles, pipeline_settled_from, port_steady_cycles
from vdla.sim.timing.count import close_span, count, log_states, queue_heads, unit_states
from vdla.sim.timing.decide import Decision, decide
from vdla.sim.timing.loader import STEP, TAKES_BEAT, loader_skips, loader_steady_cycles
from vdla.sim.timing.memory import memory_free
from vdla.sim.timing.result import Burst, Span
from vdla.sim.timing.state import COMPUTE_UNIT, LOAD_UNIT, STORE_UNIT, Loader, Machine, Times
from vdla.sim.timing.store import store_skips, store_steady_cycles

LOGGED_PER_CYCLE = 8  # no cycle logs more spans or bursts


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
