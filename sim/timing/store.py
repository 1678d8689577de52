"""Timing of the store unit, `vdla.hw.store`."""

from vdla.sim.compiled import part
from vdla.sim.timing.burst import burst_beats, burst_size
from vdla.sim.timing.columns import TimedInstruction, TimedProgram
from vdla.sim.timing.compute import port_lent
from vdla.sim.timing.state import MOST_BURSTS, MOST_UNANSWERED, Hardware, Machine, Store

NO_READ, PLAIN, OTHER = 0, 1, 2  # what a stage holds: nothing, a read that brings just a beat, any other
NOTHING, NO_LAST = -1, -2  # no burst was answered; one was that is not the last of its instruction


@part
def store_idle(store: Store) -> bool:
    """Whether nothing is in progress."""
    return (
        not store.waits
        and not store.active
        and not store.staged
        and store.bursts_level == 0
        and store.written_level == 0
    )


@part
def store_offers(machine: Machine) -> bool:
    """Whether it offers a request: a burst waits, and there is a place to remember it until its answer."""
    store = machine.store
    return (
        store.bursts_level > 0
        and store.burst_beats_of[store.bursts_first] > 0
        and store.written_level < machine.hardware.max_requests
    )


@part
def store_asks(machine: Machine) -> tuple[int, int]:
    """Let the DMA take the request; return its beats and its instruction."""
    store = machine.store
    place = store.bursts_first
    store_remembers(store, False)
    return store.burst_beats_of[place], store.burst_instruction_of[place]


@part
def store_passes_mark(machine: Machine) -> bool:
    """Whether the mark of a STORE that writes nothing goes on to those that wait for an answer."""
    store = machine.store
    return (
        store.bursts_level > 0
        and store.burst_beats_of[store.bursts_first] == 0
        and store.written_level < machine.hardware.max_requests
    )


@part
def store_remembers(store: Store, mark: bool) -> None:
    """Move the head of the waiting bursts to those that wait for an answer."""
    source, place = store.bursts_first, (store.written_first + store.written_level) % MOST_UNANSWERED
    store.written_mark[place] = mark
    store.written_last[place], store.written_instruction[place] = (
        store.burst_last_of[source],
        store.burst_instruction_of[source],
    )
    store.written_level += 1
    store.bursts_first = (source + 1) % MOST_BURSTS
    store.bursts_level -= 1


@part
def store_answered(store: Store, write_done: int) -> int:
    """Match an answer, or a mark, with the oldest burst; return the instruction which that retires, NO_LAST
    or NOTHING."""
    store.answers += write_done
    if store.written_level == 0:
        return NOTHING
    place = store.written_first
    if not store.written_mark[place]:
        if store.answers == 0:
            return NOTHING
        store.answers -= 1
    store.written_first = (place + 1) % MOST_UNANSWERED
    store.written_level -= 1
    return store.written_instruction[place] if store.written_last[place] else NO_LAST


@part
def store_reads(machine: Machine, program: TimedProgram) -> bool:
    """Whether a read is issued: of a parameter, or the queues have room for what it and the reads on their
    way may bring; and the port is the store unit's."""
    store, hardware = machine.store, machine.hardware
    if store.active == 0 or not (
        store.prepares > 0
        or (
            store.beats + store.staged < hardware.store_beats
            and store.bursts_level + store.staged < hardware.store_requests
        )
    ):
        return False
    return not port_lent(machine, program)


@part
def store_reads_last(store: Store, program: TimedProgram) -> bool:
    """Whether the read to be issued is the instruction's last."""
    return store.prepares == 0 and (
        store.rows == 0 or (store.rows == 1 and store.remaining == program[store.instruction].lane_bytes)
    )


@part
def store_moves_on(machine: Machine, program: TimedProgram, reads: bool) -> bool:
    """Let the oldest read on its way enter the queues, a read be issued, and a STORE begin; return whether
    the next cycle will differ."""
    store, stages = machine.store, machine.hardware.store_stages
    prepares, left = store.prepares, store.stage_kind[store.stage]
    if left != NO_READ:
        _enter_queues(store)
    kind = NO_READ
    if reads and prepares > 0:
        store.prepares -= 1
    elif reads:
        kind = _issue(store, program, machine.hardware)
    store.stage_kind[store.stage] = kind
    store.staged += (kind != NO_READ) - (left != NO_READ)
    store.staged_plain += (kind == PLAIN) - (left == PLAIN)
    rests = store.staged == 0 and left == NO_READ
    store.stage = (store.stage + (not rests)) % stages
    streams = left == PLAIN and store.staged_plain == stages
    begins = store.waits != 0 and store.active == 0
    if begins:
        _begin(store, program)
    return begins or prepares > 0 or not (rests or streams)


@part
def _enter_queues(store: Store) -> None:
    """Let the read at the last stage bring its beat, and its burst where it ends one."""
    stage = store.stage
    store.beats += store.stage_beat_ends[stage]
    if store.stage_burst_ends[stage]:
        place = (store.bursts_first + store.bursts_level) % MOST_BURSTS
        store.burst_beats_of[place], store.burst_last_of[place] = (
            store.stage_beats[stage],
            store.stage_last[stage],
        )
        store.burst_instruction_of[place] = store.stage_instruction[stage]
        store.bursts_level += 1


@part
def _issue(store: Store, program: TimedProgram, hardware: Hardware) -> int:
    """Issue one read into the first stage; return its kind."""
    last, stage = store_reads_last(store, program), store.stage
    store.stage_last[stage], store.stage_instruction[stage] = last, store.instruction
    if store.rows == 0:
        store.stage_beat_ends[stage], store.stage_burst_ends[stage], store.stage_beats[stage] = 0, 1, 0
    else:
        _issue_data(store, program[store.instruction], hardware)
    if last:
        store.active = 0
    return PLAIN if store.stage_beat_ends[stage] and not store.stage_burst_ends[stage] else OTHER


@part
def _issue_data(store: Store, instruction: TimedInstruction, hardware: Hardware) -> None:
    if store.burst_starts:
        store.burst_beats = burst_beats(hardware, store.address, store.remaining)
    stage = store.stage
    store.stage_beats[stage] = store.burst_beats
    store.address += instruction.lane_bytes
    store.remaining -= instruction.lane_bytes
    row_ends = store.remaining == 0
    store.stage_beat_ends[stage] = row_ends or (store.address & ((1 << hardware.bus_shift) - 1)) == 0
    store.stage_burst_ends[stage] = row_ends or (store.address & (hardware.burst_bytes - 1)) == 0
    store.burst_starts = store.stage_burst_ends[stage]
    if row_ends:
        store.row += instruction.stride_bytes
        store.address, store.remaining = store.row, instruction.row_bytes
        store.rows -= 1


@part
def store_starts(store: Store, index: int) -> None:
    """Take an instruction, which waits for the one before it."""
    store.waits, store.waiting = 1, index


@part
def _begin(store: Store, program: TimedProgram) -> None:
    """Go on to the instruction that waits."""
    instruction = program[store.waiting]
    store.waits, store.active, store.instruction, store.rows = 0, 1, store.waiting, instruction.rows
    store.address = store.row = instruction.address
    store.remaining, store.burst_starts = instruction.row_bytes, 1
    store.prepares = instruction.parameters


@part
def store_steady_cycles(store: Store, program: TimedProgram, hardware: Hardware, drains: bool) -> int:
    """Return how many cycles on end will read as this one did: a beat a cycle, within a burst and the room
    for beats."""
    lane = program[store.instruction].lane_bytes
    if not lane >> hardware.bus_shift:
        return 0
    left = burst_size(hardware, store.address, store.remaining) // lane - 1
    return left if drains else min(left, hardware.store_beats - store.staged - store.beats)


@part
def store_skips(store: Store, program: TimedProgram, hardware: Hardware, cycles: int) -> None:
    """Do `cycles` reads of the kind just done, each of which brings a beat."""
    store.stage = (store.stage + cycles) % hardware.store_stages
    lane = program[store.instruction].lane_bytes
    store.address += cycles * lane
    store.remaining -= cycles * lane
    store.beats += cycles
