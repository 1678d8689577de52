"""The clocked half of a cycle: changes the registers as `decide` and `decide_transfers` have decided."""

from typing import NamedTuple

from vdla.hw.spec.registers import COUNTED_MEMORIES
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.compiled import part
from vdla.sim.records import Ints, Records
from vdla.sim.timing.beats import count_beats
from vdla.sim.timing.columns import TimedProgram
from vdla.sim.timing.compute import compute_compares, compute_retires, compute_starts, compute_yields
from vdla.sim.timing.decide import Decision, Transfers
from vdla.sim.timing.fetch import dispatch_move, fetch_receives
from vdla.sim.timing.loader import (
    BEGINS,
    LAST_CUT,
    RETIRES,
    STEP,
    TAKES_BEAT,
    TURNS,
    loader_cuts,
    loader_starts,
    loader_writes,
)
from vdla.sim.timing.memory import (
    COMPUTE,
    FETCH,
    LOAD,
    NOBODY,
    STORE,
    dma_passes,
    dma_takes,
    memory_accepts,
    memory_moves,
    memory_steps,
)
from vdla.sim.timing.result import Burst
from vdla.sim.timing.state import COMPUTE_UNIT, LOAD_UNIT, STORE_UNIT, Loader, Logs, Machine, Times
from vdla.sim.timing.store import (
    NOTHING,
    store_answered,
    store_feeds,
    store_moves_on,
    store_remembers,
    store_starts,
    store_takes,
)
from vdla.sim.timing.tokens import retire, start

OUT = COUNTED_MEMORIES.index(MemoryType.OUT)


class Done(NamedTuple):
    """What the Transfers of a cycle did."""

    load: int  # what the load engines did, see `loader_writes`
    compute_load: int
    drains: bool  # memory took a beat of the store unit
    streams: bool  # memory moved a beat, of whomever
    turns: bool  # something ended or began: the next cycle must be looked at by itself
    wakes: bool  # something changed on which the next Decision depends


@part
def act_transfers(
    machine: Machine, program: TimedProgram, times: Times, logs: Logs, transfers: Transfers
) -> Done:
    """Carry out the Transfers of a cycle; return what was Done. The order matters only where a comment says
    so."""
    turns, wakes = _answer_stores(machine, program, times)
    lent = program[machine.load.written].inputs and store_feeds(machine)  # before reads enter the queues
    load = _write_load(machine, machine.load, program, times, logs, transfers.gives == LOAD, lent)
    held = _held_back(machine, program, transfers)
    compute_load = _write_load(
        machine, machine.compute_load, program, times, logs, transfers.gives == COMPUTE, held
    )
    turns |= _move_beats(machine, logs, transfers, load, compute_load)
    turns |= _pass_requests(machine, logs.bursts, transfers)
    waited = machine.store.waits
    turns |= _read_stores(machine, program, logs, transfers)
    cuts = _cut_requests(machine, program)  # the DMA must have taken the request before
    turns |= cuts != 0 or (load | compute_load) & (TURNS | RETIRES) != 0
    wakes |= transfers.gives == FETCH or waited != machine.store.waits
    wakes |= cuts & LAST_CUT != 0 or (load | compute_load) & (BEGINS | RETIRES) != 0
    moves = transfers.serves != NOBODY or transfers.drains
    turns |= memory_steps(machine, logs.bursts, moves)
    return Done(load, compute_load, transfers.drains, moves, turns, wakes)


@part
def act(
    machine: Machine, program: TimedProgram, queued: Ints, times: Times, logs: Logs, decision: Decision
) -> bool:
    """Carry out the Decision of a cycle, behind its Transfers: what starts is not cut in the same cycle, and
    its first slot may be taken. Return whether something changed on which the next Decision depends."""
    changes = _retire_step(machine, program, times)
    changes |= compute_compares(machine, program, queued, decision.starts.compute)
    changes |= _start(machine, program, queued, times, logs, decision)
    if decision.moves:
        dispatch_move(machine, program, times.dispatched)
    return changes or decision.moves


@part
def _answer_stores(machine: Machine, program: TimedProgram, times: Times) -> tuple[bool, bool]:
    """Match what memory answered in this cycle, before anything new waits for an answer; return whether there
    was an answer, and whether it retired an instruction."""
    answered = store_answered(machine.store, machine.memory.write_done)
    was_done, machine.memory.write_done = machine.memory.write_done, 0
    if answered >= 0:
        retire(machine, program, answered, times.retired)
    return answered != NOTHING or was_done != 0, answered >= 0


@part
def _held_back(machine: Machine, program: TimedProgram, transfers: Transfers) -> bool:
    """Whether the LOAD that the compute unit's engine writes must wait for slots in the pipeline."""
    written = machine.compute_load.written
    if transfers.settling and program[written].settles:
        return True
    return transfers.holds and program[written].ordered


@part
def _write_load(
    machine: Machine,
    loader: Loader,
    program: TimedProgram,
    times: Times,
    logs: Logs,
    data: bool,
    held: bool,
) -> int:
    """Let a load engine write, unless it is held."""
    written = loader.written
    done = loader_writes(loader, program, machine.hardware, data, held)
    if done & STEP and done & TAKES_BEAT:
        count_beats(machine, logs.beat_runs, program[written].beats, machine.control.cycle)
    if done & RETIRES:
        retire(machine, program, written, times.retired)
    return done


@part
def _retire_step(machine: Machine, program: TimedProgram, times: Times) -> bool:
    """Retire the instruction whose last result is written in this cycle."""
    index = compute_retires(machine)
    if index < 0:
        return False
    retire(machine, program, index, times.retired)
    machine.compute.finished |= program[index].finishes
    return True


@part
def _move_beats(machine: Machine, logs: Logs, transfers: Transfers, load: int, compute_load: int) -> bool:
    """Move a beat between memory and the DMA or the store unit, and a beat from the DMA to its client;
    `ended` still has its value of the cycle's start."""
    gives, serves = transfers.gives, transfers.serves
    takes, turns = ((load | compute_load) & TAKES_BEAT) != 0, gives == FETCH
    if gives == FETCH:
        takes = fetch_receives(machine, logs.beat_runs)
    turns |= dma_passes(machine.memory, takes, serves)
    if transfers.drains:
        turns |= _write_beat(machine, logs)
    if serves != NOBODY and serves != STORE:
        turns |= memory_moves(machine, logs.bursts)
    return turns


@part
def _write_beat(machine: Machine, logs: Logs) -> bool:
    """Move a beat of the store unit to memory; a burst is offered only when all its beats are there."""
    machine.store.beats -= 1
    count_beats(machine, logs.beat_runs, OUT, machine.control.cycle)
    machine.sdram.took = machine.hardware.sdram.words > 0
    return machine.sdram.took != 0 or memory_moves(machine, logs.bursts)


@part
def _pass_requests(machine: Machine, bursts: Records[Burst], transfers: Transfers) -> bool:
    """Let memory accept the request in the output register, and the DMA take the next request into it."""
    if transfers.accepts:
        memory_accepts(machine, bursts)
    if transfers.client != NOBODY:
        dma_takes(machine, transfers.client)
    return transfers.accepts or transfers.client != NOBODY


@part
def _cut_requests(machine: Machine, program: TimedProgram) -> int:
    """Let the load engines put their next bursts into their request registers; return what both did, see
    `loader_cuts`."""
    cuts = loader_cuts(machine.load, program, machine.hardware)
    return cuts | loader_cuts(machine.compute_load, program, machine.hardware)


@part
def _read_stores(machine: Machine, program: TimedProgram, logs: Logs, transfers: Transfers) -> bool:
    """Let a mark pass, what was read some cycles before enter the queues, and a read be issued."""
    if transfers.marks:
        store_remembers(machine.store, True)
    if transfers.reads and store_takes(machine.store, machine.hardware):
        compute_yields(machine, logs.lent_runs)
    return transfers.marks | store_moves_on(machine, program, transfers.reads)


@part
def _start(
    machine: Machine, program: TimedProgram, queued: Ints, times: Times, logs: Logs, decision: Decision
) -> bool:
    """Start the heads of the queues that can."""
    if decision.starts.load:
        loader_starts(machine.load, program, start(machine, program, queued, LOAD_UNIT, times.started))
    if decision.starts.compute:
        index = start(machine, program, queued, COMPUTE_UNIT, times.started)
        if program[index].transfers:
            loader_starts(machine.compute_load, program, index)
        else:
            compute_starts(machine, program, logs.lent_runs, index)
    if decision.starts.store:
        store_starts(machine.store, start(machine, program, queued, STORE_UNIT, times.started))
    return decision.starts.load or decision.starts.compute or decision.starts.store
