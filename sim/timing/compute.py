"""Timing of the compute unit's pipeline: `vdla.hw.sequencer`, `vdla.hw.pipeline` and `vdla.hw.compute`.

Slots are issued without a gap, so the cycle of the last slot determines all others.
"""

from vdla.sim.compiled import part
from vdla.sim.timing.state import FAR, MOST_RETIRING, Machine


@part
def compute_issues(machine: Machine) -> bool:
    """Whether a slot is issued in this cycle."""
    return machine.control.cycle <= machine.compute.issue_last


@part
def compute_free(machine: Machine) -> bool:
    """Whether nothing is being issued, or an instruction's last slot is."""
    return machine.control.cycle >= machine.compute.issue_last


@part
def pipeline_empty_from(machine: Machine) -> int:
    """Return the first cycle in which no slot is anywhere in the pipeline."""
    return machine.compute.issue_last + machine.hardware.retire_stage + 1


@part
def compute_starts(machine: Machine, index: int, slots: int) -> None:
    """Begin to issue the `slots` slots of an instruction in the next cycle."""
    compute = machine.compute
    compute.issue_last = machine.control.cycle + slots
    place = (compute.first + compute.level) % MOST_RETIRING
    compute.items[place], compute.retires[place] = index, compute.issue_last + machine.hardware.retire_stage
    compute.level += 1


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
    """Return how many cycles from the next one on the pipeline does what it does in this one."""
    compute, cycle = machine.compute, machine.control.cycle
    if cycle < compute.issue_last:
        steady = compute.issue_last - cycle - 1
    elif cycle == compute.issue_last:
        steady = 0
    elif cycle < pipeline_empty_from(machine):
        steady = pipeline_empty_from(machine) - cycle - 1
    else:
        steady = FAR
    return min(steady, compute.retires[compute.first] - cycle - 1) if compute.level > 0 else steady
