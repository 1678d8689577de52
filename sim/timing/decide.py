"""What happens in a cycle, decided from the registers alone: the combinational half of the accelerator."""

from collections import namedtuple

from vdla.hw.spec.units import Unit
from vdla.sim.compiled import part
from vdla.sim.timing.compute import compute_free, compute_issues, pipeline_empty_from
from vdla.sim.timing.fetch import dispatch_moves, fetch_offers
from vdla.sim.timing.loader import loader_idle, loader_takes
from vdla.sim.timing.memory import COMPUTE, LOAD, dma_chooses, memory_serves
from vdla.sim.timing.store import store_idle, store_passes_mark, store_reads, store_reads_last
from vdla.sim.timing.tokens import OPEN, gate

LOAD_UNIT, COMPUTE_UNIT, STORE_UNIT = (int(unit) for unit in Unit)

Decision = namedtuple(
    "Decision",
    (
        "client",  # whose request the DMA takes, or NOBODY
        "accepts",  # memory accepts the request in the DMA's output register
        "serves",  # whom memory serves, or NOBODY
        "moves",  # dispatch moves an instruction
        "load_gate",
        "compute_gate",
        "store_gate",  # see `gate`
        "load_starts",
        "compute_starts",
        "store_starts",  # the head of the unit's queue starts
        "load_idle",
        "loads_idle",
        "store_idle",  # nothing is in progress in that unit, or in the compute unit's load engine
        "issues",  # the compute unit issues a slot
        "holds",  # a slot is in its pipeline: its load engine must not write
        "reads",  # the store unit issues a read
        "marks",  # it passes on the mark of a STORE that writes nothing
        "drained",  # no unit, no queue and no read of fetch is left
        "quiet",
    ),
)  # nothing is in progress and nothing moves


@part
def decide(machine, program, queued):
    """Return the Decision for the cycle that the registers stand at."""
    store, memory = machine.store, machine.memory
    client, reads, moves = dma_chooses(machine), store_reads(machine), dispatch_moves(machine, program)
    load_gate, compute_gate, store_gate = (
        gate(machine, program, queued, LOAD_UNIT),
        gate(machine, program, queued, COMPUTE_UNIT),
        gate(machine, program, queued, STORE_UNIT),
    )
    load_idle, loads_idle, is_store_idle = (
        loader_idle(machine.load),
        loader_idle(machine.compute_load),
        store_idle(store),
    )
    holds = machine.control.cycle < pipeline_empty_from(machine)
    load_starts = load_gate == OPEN and loader_takes(machine.load, machine.hardware, client == LOAD)
    steps_start = (
        compute_gate == OPEN
        and compute_free(machine)
        and _compute_takes(machine, program, queued, client, loads_idle)
    )
    stores_start = store_gate == OPEN and (not store.active or (reads and store_reads_last(store, program)))
    resting = load_idle and loads_idle and not holds and is_store_idle and machine.fetch.outstanding == 0
    accepts = memory.offered and memory.level < machine.hardware.memory_depth
    quiet = (
        resting
        and not (moves or load_starts or steps_start or stores_start or machine.control.cycle == 1)
        and not fetch_offers(machine)
    )
    return Decision(
        client,
        accepts,
        memory_serves(machine),
        moves,
        load_gate,
        compute_gate,
        store_gate,
        load_starts,
        steps_start,
        stores_start,
        load_idle,
        loads_idle,
        is_store_idle,
        compute_issues(machine),
        holds,
        reads,
        store_passes_mark(machine),
        resting and _queues_empty(machine),
        quiet,
    )


@part
def _compute_takes(machine, program, queued, client, loads_idle):
    """Whether what the head of the compute unit's queue needs is free: the load engine for a LOAD, an idle
    one for all else."""
    head = program[queued[machine.dispatch.head[COMPUTE_UNIT]]]
    return (
        loader_takes(machine.compute_load, machine.hardware, client == COMPUTE)
        if head.transfers
        else loads_idle
    )


@part
def _queues_empty(machine):
    dispatch = machine.dispatch
    return (
        dispatch.head[LOAD_UNIT] == dispatch.tail[LOAD_UNIT]
        and dispatch.head[COMPUTE_UNIT] == dispatch.tail[COMPUTE_UNIT]
        and dispatch.head[STORE_UNIT] == dispatch.tail[STORE_UNIT]
    )
