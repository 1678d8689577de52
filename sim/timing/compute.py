"""Timing of the compute unit's pipeline: `vdla.hw.sequencer`, `vdla.hw.pipeline` and `vdla.hw.compute`.

Slots are issued without a gap, but for slots that the store unit takes. So the cycle of the last slot
determines all others, and each slot that is taken moves it by 1.
"""

from typing import NamedTuple

from vdla.sim.compiled import part
from vdla.sim.records import Ints, Records
from vdla.sim.timing.columns import TimedProgram
from vdla.sim.timing.result import LentRun
from vdla.sim.timing.state import COMPUTE_UNIT, FAR, MOST_RETIRING, Machine


class Reads(NamedTuple):
    """The cycles in which an instruction's slots read a second accumulator, at the shadow's port."""

    first: int
    last: int


@part
def compute_issues(machine: Machine) -> bool:
    """Whether a slot is issued in this cycle."""
    cycle, compute = machine.control.cycle, machine.compute
    return cycle <= compute.issue_last and cycle != compute.taken


@part
def compute_free(machine: Machine) -> bool:
    """Whether nothing is being issued, or an instruction's last slot is."""
    return machine.control.cycle >= machine.compute.issue_last


@part
def pipeline_empty_from(machine: Machine) -> int:
    """Return the first cycle in which no slot is anywhere in the pipeline."""
    return machine.compute.issue_last + machine.hardware.retire_stage + 1


@part
def pipeline_settled_from(machine: Machine) -> int:
    """Return the first cycle in which slots of no other instruction than the latest are in the pipeline."""
    return machine.compute.started + machine.hardware.retire_stage + 1


@part
def compute_compares(machine: Machine, program: TimedProgram, queued: Ints, starts: bool) -> bool:
    """Find out whether the LOAD at the queue's head may start beside what is issued, in the next cycle;
    return whether something is new. `starts`: the head starts in this cycle."""
    compute, stays = machine.compute, False
    if not (starts or compute_free(machine)):  # else nothing is issued beside which the head could start
        stays = _head_is_apart(machine, program, queued)
    clear = stays and compute.stayed != 0
    changes = clear != (compute.clear != 0) or stays != (compute.stayed != 0)
    compute.clear, compute.stayed = clear, stays
    return changes


@part
def _head_is_apart(machine: Machine, program: TimedProgram, queued: Ints) -> bool:
    """Whether the queue's head is a LOAD that writes nothing which the instruction being issued reads."""
    compute, dispatch = machine.compute, machine.dispatch
    if dispatch.head[COMPUTE_UNIT] == dispatch.tail[COMPUTE_UNIT]:
        return False
    load = program[queued[dispatch.head[COMPUTE_UNIT]]]
    return load.beside and (load.uop_begin >= compute.uop_end or load.uop_end <= compute.uop_begin)


@part
def compute_starts(machine: Machine, program: TimedProgram, lent_runs: Records[LentRun], index: int) -> None:
    """Begin to issue the slots of an instruction in the next cycle, or behind it if its slot is taken."""
    compute, instruction = machine.compute, program[index]
    cycle = machine.control.cycle
    compute.issue_last = cycle + instruction.slots
    if compute.taken > cycle:
        compute.issue_last += 1
        _log_lent(machine, lent_runs)
    compute.uop_begin, compute.uop_end = instruction.uop_begin, instruction.uop_end
    compute.started = cycle
    if instruction.reads_two:
        compute.reads_until = compute.issue_last + machine.hardware.given_stage
    place = (compute.first + compute.level) % MOST_RETIRING
    compute.items[place], compute.retires[place] = index, compute.issue_last + machine.hardware.retire_stage
    compute.level += 1


@part
def compute_yields(machine: Machine, lent_runs: Records[LentRun]) -> None:
    """Leave the slot of the next cycle to the store unit."""
    compute, cycle = machine.compute, machine.control.cycle
    compute.taken = cycle + 1
    if cycle < compute.issue_last:
        compute.issue_last += 1
        compute.retires[(compute.first + compute.level - 1) % MOST_RETIRING] += 1
        _log_lent(machine, lent_runs)


@part
def _log_lent(machine: Machine, lent_runs: Records[LentRun]) -> None:
    """Log that an instruction lends its slot of the next cycle."""
    log, lent = machine.log, machine.control.cycle + 1
    if not log.wanted:
        return
    if log.lent_runs == 0 or lent_runs[log.lent_runs - 1].last + 1 != lent:
        lent_runs[log.lent_runs].first = lent
        log.lent_runs += 1
    lent_runs[log.lent_runs - 1].last = lent


@part
def compute_retires(machine: Machine) -> int:
    """Return the instruction whose last result is written in this cycle, or -1."""
    compute = machine.compute
    if compute.level == 0 or compute.retires[compute.first] != machine.control.cycle:
        return -1
    index = compute.items[compute.first]
    compute.first = (compute.first + 1) % MOST_RETIRING
    compute.level -= 1
    return index


@part
def compute_steady_cycles(machine: Machine) -> int:
    """Return for how many cycles after this cycle the pipeline does what it does in this cycle."""
    compute, cycle = machine.compute, machine.control.cycle
    if cycle <= compute.taken:
        return 0
    if cycle < compute.issue_last:
        steady = compute.issue_last - cycle - 1
    elif cycle == compute.issue_last:
        steady = 0
    elif cycle < pipeline_empty_from(machine):
        steady = pipeline_empty_from(machine) - cycle - 1
    else:
        steady = FAR
    return min(steady, compute.retires[compute.first] - cycle - 1) if compute.level > 0 else steady


@part
def compute_changes(machine: Machine) -> int:
    """Return a cycle up to which `compute_free`, `pipeline_empty_from` and `compute_retires` give the answer
    of this cycle, if nothing starts."""
    compute, cycle = machine.compute, machine.control.cycle
    until = FAR
    if cycle < compute.issue_last:
        until = compute.issue_last
    elif cycle < pipeline_empty_from(machine):
        until = pipeline_empty_from(machine)
    return min(until, compute.retires[compute.first]) if compute.level > 0 else until


@part
def operand_reads(machine: Machine, program: TimedProgram) -> Reads:
    """Return when second accumulators are read that have not all been read before this cycle: by the first
    instruction in the pipeline of that kind."""
    compute, hardware = machine.compute, machine.hardware
    for number in range(compute.level):
        place = (compute.first + number) % MOST_RETIRING
        last = compute.retires[place] - hardware.retire_stage + hardware.given_stage
        instruction = program[compute.items[place]]
        if instruction.reads_two and last >= machine.control.cycle:
            return Reads(last - instruction.slots + 1, last)
    return Reads(FAR, FAR)


@part
def port_lent(machine: Machine, program: TimedProgram) -> bool:
    """Whether the shadow's read port is the compute unit's in this cycle."""
    cycle = machine.control.cycle
    return cycle <= machine.compute.reads_until and operand_reads(machine, program).first <= cycle


@part
def port_steady_cycles(machine: Machine, program: TimedProgram) -> int:
    """Return for how many cycles after this cycle that stays as it is in this cycle."""
    cycle = machine.control.cycle
    if cycle > machine.compute.reads_until:
        return FAR
    reads = operand_reads(machine, program)
    return (reads.last if reads.first <= cycle else reads.first - 1) - cycle
