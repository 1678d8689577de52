"""The clocked half of a cycle: changes the registers as `decide` has decided."""

from typing import NamedTuple

from vdla.hw.spec.registers import COUNTED_MEMORIES
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.compiled import part
from vdla.sim.records import Ints, Records
from vdla.sim.timing.columns import TimedProgram
from vdla.sim.timing.compute import compute_compares, compute_retires, compute_starts, compute_yields
from vdla.sim.timing.decide import Decision
from vdla.sim.timing.fetch import dispatch_move, fetch_receives
from vdla.sim.timing.loader import RETIRES, STEP, TAKES_BEAT, TURNS, loader_cuts, loader_starts, loader_writes
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
)
from vdla.sim.timing.result import Burst
from vdla.sim.timing.state import COMPUTE_UNIT, LOAD_UNIT, STORE_UNIT, Loader, Machine, Times
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
    """What a cycle did."""

    load: int  # what the load engines did, see `loader_writes`
    compute_load: int
    drains: bool  # memory took a beat of the store unit
    streams: bool  # memory moved a beat, of whomever
    turns: bool  # something ended or began: the next cycle must be looked at by itself


@part
def act(
    machine: Machine,
    program: TimedProgram,
    queued: Ints,
    times: Times,
    bursts: Records[Burst],
    decision: Decision,
) -> Done:
    """Carry out a cycle; return what was Done. The order matters only where a comment says so."""
    turns = _answer_stores(machine, program, times)
    lent = program[machine.load.written].inputs and store_feeds(machine)  # before reads enter the queues
    load = _write_load(machine, machine.load, program, times, decision.gives == LOAD, lent)
    held = _held_back(machine, program, decision)
    compute_load = _write_load(machine, machine.compute_load, program, times, decision.gives == COMPUTE, held)
    turns |= _retire_step(machine, program, times)
    turns |= _move_beats(machine, bursts, decision, load, compute_load)
    turns |= _pass_requests(machine, bursts, decision)
    turns |= _read_stores(machine, program, decision)
    turns |= _cut_requests(machine, program)  # the DMA must have taken the request before
    turns |= compute_compares(machine, program, queued, decision.starts.compute)
    # what starts is not cut in the same cycle, and its first slot may be taken
    turns |= _start(machine, program, queued, times, decision)
    if decision.moves:
        dispatch_move(machine, program, times.dispatched)
    turns |= decision.moves or (load | compute_load) & (TURNS | RETIRES) != 0
    return Done(load, compute_load, decision.serves == STORE, decision.serves != NOBODY, turns)


@part
def _answer_stores(machine: Machine, program: TimedProgram, times: Times) -> bool:
    """Match what memory answered in this cycle; before anything new waits for an answer."""
    answered = store_answered(machine.store, machine.memory.write_done)
    was_done, machine.memory.write_done = machine.memory.write_done, 0
    if answered >= 0:
        retire(machine, program, answered, times.retired)
    return answered != NOTHING or was_done != 0


@part
def _held_back(machine: Machine, program: TimedProgram, decision: Decision) -> bool:
    """Whether the LOAD that the compute unit's engine writes must wait for slots in the pipeline."""
    written = machine.compute_load.written
    if decision.settling and program[written].settles:
        return True
    return decision.holds and program[written].ordered


@part
def _write_load(
    machine: Machine, loader: Loader, program: TimedProgram, times: Times, data: bool, held: bool
) -> int:
    """Let a load engine write, unless it is held."""
    written = loader.written
    done = loader_writes(loader, program, machine.hardware, data, held)
    if done & STEP:
        machine.counts.beats[program[written].beats] += (done & TAKES_BEAT) != 0
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
def _move_beats(
    machine: Machine, bursts: Records[Burst], decision: Decision, load: int, compute_load: int
) -> bool:
    """Move a beat between memory and the DMA or the store unit, and one from the DMA to its client; `ended`
    is still that of the cycle's start."""
    gives, serves = decision.gives, decision.serves
    takes, turns = ((load | compute_load) & TAKES_BEAT) != 0, gives == FETCH
    if gives == FETCH:
        takes = fetch_receives(machine)
    turns |= dma_passes(machine.memory, takes, serves)
    if serves == STORE:
        turns |= _write_beat(machine, bursts)
    elif serves != NOBODY:
        turns |= memory_moves(machine, bursts)
    return turns


@part
def _write_beat(machine: Machine, bursts: Records[Burst]) -> bool:
    """Move a beat of the store unit to memory; a burst is offered only when all its beats are there."""
    machine.store.beats -= 1
    machine.counts.beats[OUT] += 1
    return memory_moves(machine, bursts)


@part
def _pass_requests(machine: Machine, bursts: Records[Burst], decision: Decision) -> bool:
    """Let memory accept the request in the output register, and the DMA take the next one into it."""
    if decision.accepts:
        memory_accepts(machine, bursts)
    if decision.client != NOBODY:
        dma_takes(machine, decision.client)
    return decision.accepts or decision.client != NOBODY


@part
def _cut_requests(machine: Machine, program: TimedProgram) -> bool:
    """Let the load engines put their next bursts into their request registers."""
    cuts = loader_cuts(machine.load, program, machine.hardware)
    return cuts | loader_cuts(machine.compute_load, program, machine.hardware)


@part
def _read_stores(machine: Machine, program: TimedProgram, decision: Decision) -> bool:
    """Let a mark pass, what was read some cycles before enter the queues, and a read be issued."""
    if decision.marks:
        store_remembers(machine.store, True)
    if decision.reads and store_takes(machine.store, machine.hardware):
        compute_yields(machine)
    return decision.marks | store_moves_on(machine, program, decision.reads)


@part
def _start(machine: Machine, program: TimedProgram, queued: Ints, times: Times, decision: Decision) -> bool:
    """Start the heads of the queues that can."""
    if decision.starts.load:
        loader_starts(machine.load, program, start(machine, program, queued, LOAD_UNIT, times.started))
    if decision.starts.compute:
        index = start(machine, program, queued, COMPUTE_UNIT, times.started)
        if program[index].transfers:
            loader_starts(machine.compute_load, program, index)
        else:
            compute_starts(machine, program, index)
    if decision.starts.store:
        store_starts(machine.store, start(machine, program, queued, STORE_UNIT, times.started))
    return decision.starts.load or decision.starts.compute or decision.starts.store
