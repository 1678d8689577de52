"""Cycles carried out at once, because in each of them the units do what they did in the cycle before."""

from vdla.sim.compiled import part
from vdla.sim.records import Records
from vdla.sim.timing.act import OUT, Done
from vdla.sim.timing.beats import count_beats
from vdla.sim.timing.columns import TimedProgram
from vdla.sim.timing.compute import compute_steady_cycles, pipeline_settled_from, port_steady_cycles
from vdla.sim.timing.decide import Transfers
from vdla.sim.timing.fetch import fetch_offers
from vdla.sim.timing.loader import (
    STEP,
    TAKES_BEAT,
    loader_cuts,
    loader_cuts_last,
    loader_skips,
    loader_steady_cycles,
    loader_turns,
)
from vdla.sim.timing.memory import LOAD, dma_takes, memory_accepts, memory_free, memory_moves
from vdla.sim.timing.result import Burst
from vdla.sim.timing.state import Loader, Logs, Machine
from vdla.sim.timing.store import store_skips, store_steady_cycles


@part
def steady_cycles(machine: Machine, program: TimedProgram, transfers: Transfers, done: Done) -> int:
    """Return how many cycles after this cycle are like it; nothing ended or began in this cycle."""
    steady, memory, store, hardware = (
        compute_steady_cycles(machine),
        machine.memory,
        machine.store,
        machine.hardware,
    )
    if memory.level > 0 and hardware.sdram.words == 0:
        if done.streams:
            steady = min(steady, memory.beats_left[memory.first] - 1) if hardware.cycles_per_beat == 1 else 0
        elif memory_free(memory) > machine.control.cycle:
            steady = min(steady, memory_free(memory) - machine.control.cycle - 1)
    if done.load & STEP:
        steady = min(steady, loader_steady_cycles(machine.load, program, hardware, done.load))
    if done.compute_load & STEP:
        steady = min(steady, loader_steady_cycles(machine.compute_load, program, hardware, done.compute_load))
    if transfers.settling and machine.compute_load.writing:
        steady = min(steady, pipeline_settled_from(machine) - machine.control.cycle - 1)
    if store.active:
        steady = min(steady, port_steady_cycles(machine, program))
    return min(steady, store_steady_cycles(machine, program, transfers.reads, done.drains))


@part
def skip(
    machine: Machine, program: TimedProgram, logs: Logs, transfers: Transfers, done: Done, cycles: int
) -> None:
    """Do what this cycle did `cycles` times more."""
    if done.load & STEP:
        _skip_load(machine, machine.load, program, logs, done.load, cycles)
    if done.compute_load & STEP:
        _skip_load(machine, machine.compute_load, program, logs, done.compute_load, cycles)
    store_skips(machine, program, transfers.reads, cycles)
    if done.drains:
        machine.store.beats -= cycles
        count_beats(machine, logs.beat_runs, OUT, machine.control.cycle + 1, cycles)
    if done.streams and machine.hardware.sdram.words == 0:
        machine.memory.beats_left[machine.memory.first] -= cycles


@part
def _skip_load(
    machine: Machine, loader: Loader, program: TimedProgram, logs: Logs, done: int, cycles: int
) -> None:
    if done & TAKES_BEAT:
        count_beats(machine, logs.beat_runs, program[loader.written].beats, machine.control.cycle + 1, cycles)
    loader_skips(loader, program, cycles)


@part
def stream_load(machine: Machine, program: TimedProgram, logs: Logs, until: int) -> int:
    """Carry out the cycles before `until` in which memory does nothing but stream to the load unit.

    Memory moves a beat of its oldest request in each cycle. Apart from that, only requests of the load
    unit are cut and accepted.

    Returns:
        the number of cycles; 0 where this is not what happens.
    """
    if not _only_load_streams(machine, program):
        return 0
    memory, begin = machine.memory, machine.control.cycle
    cycles = min(until - begin, memory.beats_left[memory.first], _streamed_steps(machine.load))
    if machine.log.wanted:
        cycles = min(cycles, logs.bursts.size - machine.log.bursts)  # a cycle accepts one request at most
    cycles = _request_loads(machine, program, logs.bursts, min(cycles, 1 + compute_steady_cycles(machine)))
    if cycles > 0:
        _stream_beats(machine, program, logs, begin, cycles)
    machine.control.cycle = begin
    return cycles


@part
def _only_load_streams(machine: Machine, program: TimedProgram) -> bool:
    """Whether a beat moves from memory to the DMA and a beat from there to the load unit, and no other client
    has or begins anything."""
    memory, store, load = machine.memory, machine.store, machine.load
    return (
        machine.hardware.sdram.words == 0
        and memory.arrived == 1
        and memory.arrived_client[0] == LOAD
        and memory.level > 0
        and memory.clients[memory.first] == LOAD
        and memory_free(memory) <= machine.control.cycle
        and machine.hardware.cycles_per_beat == 1
        and machine.compute_load.level == 0
        and memory.write_done == 0
        and not (store.active or store.waits or store.staged or store.bursts_level or store.answers)
        and (store.written_level == 0 or not store.written_mark[store.written_first])
        and machine.compute.taken < machine.control.cycle
        and load.writing != 0
        and load.pads_left == 0
        and load.rows_left > 0
        and not program[load.written].gathers
        and program[load.written].lane_bytes >> machine.hardware.bus_shift != 0
        and not fetch_offers(machine)
    )


@part
def _streamed_steps(loader: Loader) -> int:
    """Return the steps of the row being written, without the instruction's last, which retires it."""
    return loader.steps_left if loader.rows_left > 1 else loader.steps_left - 1


@part
def _request_loads(machine: Machine, program: TimedProgram, bursts: Records[Burst], cycles: int) -> int:
    """Pass requests of the load unit on to memory in the following `cycles`, until none can be passed on, or
    up to that in which an instruction's last is cut; return the cycles before that."""
    memory, hardware, begin = machine.memory, machine.hardware, machine.control.cycle
    for cycle in range(begin, begin + cycles):
        machine.control.cycle = cycle
        room = memory.level < hardware.memory_depth
        accepts = memory.offered != 0 and room
        takes = (
            machine.load.offered != 0
            and memory.reads < hardware.max_requests
            and (memory.offered == 0 or room)
        )
        cuts = machine.load.requesting and (takes or not machine.load.offered)
        if cuts and loader_cuts_last(machine.load, hardware):
            return cycle - begin
        if not (accepts or takes or cuts):
            break
        if accepts:
            memory_accepts(machine, bursts)
        if takes:
            dma_takes(machine, LOAD)
        loader_cuts(machine.load, program, hardware)
    return cycles


@part
def _stream_beats(machine: Machine, program: TimedProgram, logs: Logs, begin: int, cycles: int) -> None:
    """Move a beat in each of `cycles` from `begin` on; a burst or a row may end with the last."""
    memory, load = machine.memory, machine.load
    machine.control.cycle = begin
    memory_moves(machine, logs.bursts)
    if cycles > 1:
        memory.beats_left[memory.first] -= cycles - 2
        machine.control.cycle = begin + cycles - 1
        memory_moves(machine, logs.bursts)
    count_beats(machine, logs.beat_runs, program[load.written].beats, begin, cycles)
    loader_skips(load, program, cycles)
    if load.steps_left == 0:
        loader_turns(load, program)
