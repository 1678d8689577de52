"""The store unit in time; `vdla.hw.store` is the hardware."""

from vdla.hw.spec.timing import STORE_REQUESTS_AHEAD
from vdla.sim.compiled import part
from vdla.sim.timing.burst import burst_beats, burst_size
from vdla.sim.timing.state import MOST_UNANSWERED

NOTHING, NO_LAST = -1, -2  # no burst was answered; one was that is not the last of its instruction


@part
def store_idle(store):
    """Whether nothing is in progress."""
    return not store.active and not store.staged and store.bursts_level == 0 and store.written_level == 0


@part
def store_offers(machine):
    """Whether it offers a request: a burst waits, and there is a place to remember it until its answer."""
    store = machine.store
    return store.bursts_level > 0 and store.burst_beats_of[store.bursts_first] > 0 and store.written_level < machine.hardware.max_requests


@part
def store_asks(machine):
    """Let the DMA take the request; return its beats and its instruction."""
    store = machine.store
    place = store.bursts_first
    store_remembers(store, False)
    return store.burst_beats_of[place], store.burst_instruction_of[place]


@part
def store_passes_mark(machine):
    """Whether the mark of a STORE that writes nothing goes on to those that wait for an answer."""
    store = machine.store
    return store.bursts_level > 0 and store.burst_beats_of[store.bursts_first] == 0 and store.written_level < machine.hardware.max_requests


@part
def store_remembers(store, mark):
    """Move the head of the waiting bursts to those that wait for an answer."""
    source, place = store.bursts_first, (store.written_first + store.written_level) % MOST_UNANSWERED
    store.written_mark[place] = mark
    store.written_last[place], store.written_instruction[place] = store.burst_last_of[source], store.burst_instruction_of[source]
    store.written_level += 1
    store.bursts_first = (source + 1) % STORE_REQUESTS_AHEAD
    store.bursts_level -= 1


@part
def store_answered(store, write_done):
    """Match an answer, or a mark, with the oldest burst; return the instruction which that retires, NO_LAST or NOTHING."""
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
def store_reads(machine):
    """Whether a read is issued: the queues have room for what it and the read before it may bring."""
    store, hardware = machine.store, machine.hardware
    return (store.active and store.beats + store.staged < hardware.store_beats
            and store.bursts_level + store.staged < hardware.store_requests)


@part
def store_reads_last(store, program):
    """Whether the read to be issued is the instruction's last."""
    return store.rows == 0 or (store.rows == 1 and store.remaining == program[store.instruction].lane_bytes)


@part
def store_stage(store):
    """Let the read of the cycle before enter the queues."""
    store.beats += store.stage_beat_ends
    if store.stage_burst_ends:
        place = (store.bursts_first + store.bursts_level) % STORE_REQUESTS_AHEAD
        store.burst_beats_of[place], store.burst_last_of[place] = store.stage_beats, store.stage_last
        store.burst_instruction_of[place] = store.stage_instruction
        store.bursts_level += 1
    store.staged = store.stage_beat_ends = store.stage_burst_ends = 0


@part
def store_issue(store, program, hardware):
    """Issue one read."""
    last = store_reads_last(store, program)
    store.staged, store.stage_last, store.stage_instruction = 1, last, store.instruction
    if store.rows == 0:
        store.stage_beat_ends, store.stage_burst_ends, store.stage_beats = 0, 1, 0
    else:
        _issue_data(store, program[store.instruction], hardware)
    if last:
        store.active = 0


@part
def _issue_data(store, instruction, hardware):
    if store.burst_starts:
        store.burst_beats = burst_beats(hardware, store.address, store.remaining)
    store.stage_beats = store.burst_beats
    store.address += instruction.lane_bytes
    store.remaining -= instruction.lane_bytes
    row_ends = store.remaining == 0
    store.stage_beat_ends = row_ends or (store.address & ((1 << hardware.bus_shift) - 1)) == 0
    store.stage_burst_ends = row_ends or (store.address & (hardware.burst_bytes - 1)) == 0
    store.burst_starts = store.stage_burst_ends
    if row_ends:
        store.row += instruction.stride_bytes
        store.address, store.remaining = store.row, instruction.row_bytes
        store.rows -= 1


@part
def store_starts(store, program, index):
    """Take an instruction."""
    instruction = program[index]
    store.active, store.instruction, store.rows = 1, index, instruction.rows
    store.address = store.row = instruction.address
    store.remaining, store.burst_starts = instruction.row_bytes, 1


@part
def store_steady_cycles(store, program, hardware, drains):
    """Return how many cycles on end will read as this one did: a beat a cycle, within a burst and the room for beats."""
    lane = program[store.instruction].lane_bytes
    if not lane >> hardware.bus_shift:
        return 0
    left = burst_size(hardware, store.address, store.remaining) // lane - 1
    return left if drains else min(left, hardware.store_beats - 1 - store.beats)


@part
def store_skips(store, program, cycles):
    """Do `cycles` reads of the kind just done, each of which brings a beat."""
    lane = program[store.instruction].lane_bytes
    store.address += cycles * lane
    store.remaining -= cycles * lane
    store.beats += cycles
