"""The DMA and the reference memory in time; `vdla.hw.dma` and `vdla.hw.spec.memory` say what they do."""

from vdla.hw.spec.timing import ARRIVED_BEATS, Client
from vdla.sim.compiled import part
from vdla.sim.records import Records
from vdla.sim.timing.fetch import fetch_asks, fetch_offers
from vdla.sim.timing.result import Burst
from vdla.sim.timing.sdram import (
    GIVES_BEAT,
    TAKES_BEAT,
    TAKES_READ,
    TAKES_WRITE,
    sdram_steps,
)
from vdla.sim.timing.state import MOST_IN_FLIGHT, Machine, Memory
from vdla.sim.timing.store import store_asks, store_offers

NOBODY, CLIENTS = -1, len(Client)
FETCH, COMPUTE, STORE, LOAD = (
    int(client) for client in (Client.FETCH, Client.COMPUTE, Client.STORE, Client.LOAD)
)


@part
def dma_chooses(machine: Machine) -> int:
    """Return the client whose request the DMA takes in this cycle, or NOBODY."""
    memory, hardware = machine.memory, machine.hardware
    if memory.offered and not memory_takes(machine):
        return NOBODY
    may_read = memory.reads < hardware.max_requests
    for client in range(CLIENTS):
        if (may_read or client == STORE) and offers(machine, client):
            return client
    return NOBODY


@part
def memory_takes(machine: Machine) -> bool:
    """Whether memory has room for the request in the DMA's output register."""
    if machine.hardware.sdram.words == 0:
        return machine.memory.level < machine.hardware.memory_depth
    kind = TAKES_WRITE if machine.memory.client == STORE else TAKES_READ
    return machine.sdram.offered & kind != 0


@part
def offers(machine: Machine, client: int) -> bool:
    """Whether a client has a request for the DMA."""
    if client == FETCH:
        return fetch_offers(machine)
    if client == STORE:
        return store_offers(machine)
    loader = machine.load if client == LOAD else machine.compute_load
    return loader.offered != 0


@part
def dma_takes(machine: Machine, client: int) -> None:
    """Take the request of `client` into the output register."""
    memory = machine.memory
    memory.offered, memory.client, memory.taken = 1, client, machine.control.cycle
    memory.instruction = -1
    if client == FETCH:
        memory.address = machine.fetch.address
        memory.beats = fetch_asks(machine)
    elif client == STORE:
        memory.address = machine.store.burst_address_of[machine.store.bursts_first]
        memory.beats, memory.instruction = store_asks(machine)
    else:
        loader = machine.load if client == LOAD else machine.compute_load
        memory.instruction, memory.beats = loader.offered_instruction, loader.offered_beats
        memory.address = loader.offered_address
        loader.offered = 0
    memory.reads += client != STORE


@part
def memory_accepts(machine: Machine, bursts: Records[Burst]) -> None:
    """Accept the request in the DMA's output register."""
    memory, cycle = machine.memory, machine.control.cycle
    memory.offered = 0
    if machine.log.wanted:
        burst = bursts[machine.log.bursts]
        burst.client, burst.instruction, burst.beats = memory.client, memory.instruction, memory.beats
        burst.taken, burst.accepted = memory.taken, cycle
        machine.log.bursts += 1
    if machine.hardware.sdram.words > 0:
        sdram = machine.sdram
        sdram.new_beats, sdram.new_writes = memory.beats, memory.client == STORE
        sdram.new_address = memory.address >> machine.hardware.bus_shift << machine.hardware.bus_shift
        sdram.new_logged = machine.log.bursts - 1
        if sdram.new_writes:
            return
    place = (memory.first + memory.level) % MOST_IN_FLIGHT
    memory.clients[place], memory.beats_left[place] = memory.client, memory.beats
    memory.first_data[place] = cycle + machine.hardware.latency
    memory.logged[place] = machine.log.bursts - 1
    memory.level += 1


@part
def memory_serves(machine: Machine) -> int:
    """Return the client for which memory hands a beat to the DMA, or from which it takes a beat, in this
    cycle; else NOBODY. Of an SDRAM only the former: see `memory_drains`."""
    memory = machine.memory
    if machine.hardware.sdram.words > 0:
        gives = machine.sdram.offered & GIVES_BEAT != 0 and memory.arrived < ARRIVED_BEATS
        return memory.clients[memory.first] if gives else NOBODY
    if memory.level == 0 or machine.control.cycle < memory_free(memory):
        return NOBODY
    client = memory.clients[memory.first]
    return client if client == STORE or memory.arrived < ARRIVED_BEATS else NOBODY


@part
def memory_drains(machine: Machine, serves: int) -> bool:
    """Whether memory takes a beat of the store unit, if it `serves` that client."""
    if machine.hardware.sdram.words == 0:
        return serves == STORE
    return machine.store.beats > 0 and machine.sdram.offered & TAKES_BEAT != 0


@part
def dma_gives(memory: Memory) -> int:
    """Return the client to which the DMA offers the oldest beat that has arrived, or NOBODY."""
    return memory.arrived_client[0] if memory.arrived > 0 else NOBODY


@part
def dma_passes(memory: Memory, takes: bool, serves: int) -> bool:
    """Let the oldest beat leave if its client `takes` it, and that which memory `serves` arrive, if it is a
    read; return whether the next cycle will differ."""
    gives = dma_gives(memory)
    arrives = serves != NOBODY and serves != STORE
    if takes:
        memory.arrived -= 1
        for place in range(ARRIVED_BEATS - 1):
            memory.arrived_client[place] = memory.arrived_client[place + 1]
    if arrives:
        memory.arrived_client[memory.arrived] = serves
        memory.arrived += 1
    return takes != arrives or (arrives and serves != gives)


@part
def memory_free(memory: Memory) -> int:
    """Return the first cycle in which the oldest request can move its next beat."""
    if memory.clients[memory.first] == STORE:
        return memory.next_beat
    return max(memory.next_beat, memory.first_data[memory.first])


@part
def memory_moves(machine: Machine, bursts: Records[Burst]) -> bool:
    """Move one beat of the oldest request; return whether that was its last."""
    memory = machine.memory
    place = memory.first
    if machine.log.wanted:
        burst = bursts[memory.logged[place]]
        if memory.beats_left[place] == burst.beats:
            burst.first = machine.control.cycle
        burst.last = machine.control.cycle
    memory.beats_left[place] -= 1
    machine.sdram.gave = machine.hardware.sdram.words > 0
    memory.next_beat = machine.control.cycle + machine.hardware.cycles_per_beat
    if memory.beats_left[place] > 0:
        return False
    wrote = memory.clients[place] == STORE
    memory.reads -= not wrote
    memory.write_done = wrote
    memory.first = (place + 1) % MOST_IN_FLIGHT
    memory.level -= 1
    return True


@part
def memory_steps(machine: Machine, bursts: Records[Burst], moves: bool) -> bool:
    """End the cycle of an SDRAM; a beat `moves` between it and the accelerator, or none. Return whether the
    next cycle may differ from this cycle."""
    if machine.hardware.sdram.words == 0:
        return False
    machine.memory.write_done = sdram_steps(machine, bursts)
    return moves or machine.memory.write_done != 0
