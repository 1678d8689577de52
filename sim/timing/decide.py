"""The combinational half of a cycle: decides what happens from the registers alone."""

from typing import NamedTuple

from vdla.sim.compiled import part
from vdla.sim.records import Ints
from vdla.sim.timing.columns import TimedProgram
from vdla.sim.timing.compute import compute_free, compute_issues, pipeline_empty_from, pipeline_settled_from
from vdla.sim.timing.fetch import dispatch_moves, fetch_offers
from vdla.sim.timing.loader import loader_idle, loader_takes
from vdla.sim.timing.memory import dma_chooses, dma_gives, memory_drains, memory_serves, memory_takes
from vdla.sim.timing.state import COMPUTE_UNIT, LOAD_UNIT, STORE_UNIT, Machine
from vdla.sim.timing.store import store_idle, store_passes_mark, store_reads
from vdla.sim.timing.tokens import OPEN, gate


class Gates(NamedTuple):
    """Of each unit, what `gate` says of the head of its queue."""

    load: int
    compute: int
    store: int


class Flags(NamedTuple):
    """Of each unit, whether something holds."""

    load: bool
    compute: bool
    store: bool


class Decision(NamedTuple):
    """What dispatch, the queues and the compute unit do in a cycle."""

    moves: bool  # dispatch moves an instruction
    gates: Gates
    starts: Flags  # the head of the unit's queue starts
    idle: Flags  # nothing is in progress in that unit; of the compute unit, in its load engine
    resting: bool  # nothing is in progress in any unit, and fetch awaits no beat
    drained: bool  # and no queue holds an instruction
    quiet: bool  # and nothing moves


class Transfers(NamedTuple):
    """What memory, the DMA, the load engines and the store unit do in a cycle."""

    client: int  # whose request the DMA takes, or NOBODY
    accepts: bool  # memory accepts the request in the DMA's output register
    serves: int  # for whom memory moves a beat, or NOBODY; of an SDRAM, to whom
    drains: bool  # memory takes a beat of the store unit
    gives: int  # to whom the DMA offers a beat that has arrived, or NOBODY
    issues: bool  # the compute unit issues a slot
    holds: bool  # a slot is in its pipeline: its load engine must not write what waits for that
    settling: bool  # a slot of an instruction before the latest is: nor what waits for that
    reads: bool  # the store unit issues a read
    marks: bool  # it passes on the mark of a STORE that writes nothing


@part
def decide(machine: Machine, program: TimedProgram, queued: Ints) -> Decision:
    """Return the Decision for the cycle that the registers stand at."""
    moves = dispatch_moves(machine, program)
    gates = Gates(
        gate(machine, program, queued, LOAD_UNIT),
        gate(machine, program, queued, COMPUTE_UNIT),
        gate(machine, program, queued, STORE_UNIT),
    )
    idle = Flags(loader_idle(machine.load), loader_idle(machine.compute_load), store_idle(machine.store))
    starts = Flags(
        gates.load == OPEN and loader_takes(machine.load),
        gates.compute == OPEN and _compute_takes(machine, program, queued, idle.compute),
        gates.store == OPEN and not machine.store.waits,
    )
    empty = machine.control.cycle >= pipeline_empty_from(machine)
    resting = idle.load and idle.compute and empty and idle.store and machine.fetch.outstanding == 0
    moving = moves or starts.load or starts.compute or starts.store or machine.control.cycle == 1
    return Decision(
        moves,
        gates,
        starts,
        idle,
        resting,
        resting and _queues_empty(machine),
        resting and not moving and not fetch_offers(machine),
    )


@part
def decide_transfers(machine: Machine, program: TimedProgram) -> Transfers:
    """Return the Transfers of the cycle that the registers stand at."""
    memory, cycle, serves = machine.memory, machine.control.cycle, memory_serves(machine)
    return Transfers(
        dma_chooses(machine),
        memory.offered != 0 and memory_takes(machine),
        serves,
        memory_drains(machine, serves),
        dma_gives(memory),
        compute_issues(machine),
        cycle < pipeline_empty_from(machine),
        cycle < pipeline_settled_from(machine),
        store_reads(machine, program),
        store_passes_mark(machine),
    )


@part
def _compute_takes(machine: Machine, program: TimedProgram, queued: Ints, loads_idle: bool) -> bool:
    """Whether no earlier slots stand before the head of the compute unit's queue that concern it, and what it
    needs is free: the load engine for a LOAD, an idle load engine for all else."""
    head, free = program[queued[machine.dispatch.head[COMPUTE_UNIT]]], compute_free(machine)
    if head.transfers:
        return (free or machine.compute.clear != 0) and loader_takes(machine.compute_load)
    return free and loads_idle


@part
def _queues_empty(machine: Machine) -> bool:
    dispatch = machine.dispatch
    return (
        dispatch.head[LOAD_UNIT] == dispatch.tail[LOAD_UNIT]
        and dispatch.head[COMPUTE_UNIT] == dispatch.tail[COMPUTE_UNIT]
        and dispatch.head[STORE_UNIT] == dispatch.tail[STORE_UNIT]
    )
