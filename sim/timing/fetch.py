"""Fetch and dispatch in time; `vdla.hw.fetch` and `vdla.hw.dispatch` are the hardware."""

from vdla.sim.compiled import part
from vdla.sim.records import Ints, Records
from vdla.sim.timing.beats import count_beats
from vdla.sim.timing.burst import burst_beats, burst_size
from vdla.sim.timing.columns import TimedProgram
from vdla.sim.timing.result import FETCH_BEATS, BeatRun
from vdla.sim.timing.state import Machine

FETCH_PREPARES = 2
"""Cycles in which fetch takes the stream's address and cuts its first burst."""


@part
def fetch_offers(machine: Machine) -> bool:
    """Whether fetch offers a request: something is left to ask for, and its queue has room for a burst
    besides all that was asked for."""
    fetch, hardware = machine.fetch, machine.hardware
    if fetch.remaining == 0 or machine.dispatch.ended or machine.control.cycle <= FETCH_PREPARES:
        return False
    return fetch.promised + hardware.fetch_burst <= hardware.fetch_depth


@part
def fetch_asks(machine: Machine) -> int:
    """Let the DMA take fetch's request; return its beats."""
    fetch, hardware = machine.fetch, machine.hardware
    size, beats = (
        burst_size(hardware, fetch.address, fetch.remaining),
        burst_beats(hardware, fetch.address, fetch.remaining),
    )
    fetch.address += size
    fetch.remaining -= size
    fetch.promised += size // hardware.instruction_bytes
    fetch.outstanding += beats
    return beats


@part
def fetch_receives(machine: Machine, beat_runs: Records[BeatRun]) -> bool:
    """Work on the beat that the DMA offers; return whether it is taken. `ended` still has its value of the
    cycle's start.

    Once dispatch has ended, the hardware drops what arrives. Here `level` still counts it: nothing reads it
    any more.
    """
    fetch, hardware = machine.fetch, machine.hardware
    completes, takes = True, True
    if hardware.fetch_parts > 1:
        fetch.part = (fetch.part + 1) % hardware.fetch_parts
        completes = fetch.part == 0
    else:
        takes = fetch.part == hardware.fetch_lanes - 1 or fetch.expected == 1 or machine.dispatch.ended != 0
        fetch.part = (fetch.part + 1) % hardware.fetch_lanes
        fetch.expected -= 1
    fetch.level += completes
    if takes:
        fetch.outstanding -= 1
        count_beats(machine, beat_runs, FETCH_BEATS, machine.control.cycle)
    return takes


@part
def dispatch_moves(machine: Machine, program: TimedProgram) -> bool:
    """Whether dispatch moves an instruction: fetch holds an instruction, and its unit's queue has room, or it
    is invalid."""
    dispatch = machine.dispatch
    if machine.fetch.level == 0 or dispatch.ended:
        return False
    instruction = program[dispatch.following]
    if not instruction.valid:
        return True
    unit = instruction.unit
    return dispatch.tail[unit] - dispatch.head[unit] < machine.hardware.queue_depth[unit]


@part
def dispatch_move(machine: Machine, program: TimedProgram, dispatched: Ints) -> None:
    """Move one instruction. What fetch still holds behind FINISH is dropped, which nothing waits for, so it
    is not modelled."""
    dispatch = machine.dispatch
    instruction = program[dispatch.following]
    machine.fetch.level -= 1
    machine.fetch.promised -= 1
    if instruction.valid:
        dispatch.tail[instruction.unit] += 1
        dispatched[dispatch.following] = machine.control.cycle
        dispatch.ended = instruction.finishes
    else:
        dispatch.ended = dispatch.invalid = 1
    dispatch.following += 1
