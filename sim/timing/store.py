"""Timing of the store unit, `vdla.hw.store`."""

from vdla.sim.compiled import part
from vdla.sim.timing.burst import burst_beats, burst_size
from vdla.sim.timing.columns import TimedInstruction, TimedProgram
from vdla.sim.timing.compute import port_lent
from vdla.sim.timing.state import FAR, MOST_BURSTS, MOST_STAGES, MOST_UNANSWERED, Hardware, Machine, Store

NOTHING, NO_LAST = -1, -2  # no burst was answered; a burst was that is not the last of its instruction


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
    """Whether the mark of a STORE that writes nothing goes on to the bursts that wait for an answer."""
    store = machine.store
    return (
        store.bursts_level > 0
        and store.burst_beats_of[store.bursts_first] == 0
        and store.written_level < machine.hardware.max_requests
    )


@part
def store_remembers(store: Store, mark: bool) -> None:
    """Move the head of the waiting bursts to the bursts that wait for an answer."""
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
    promised = store.staged_bursts if hardware.store_element > 0 else store.staged
    if store.active == 0 or not (
        store.prepares > 0
        or (
            store.beats + store.staged < hardware.store_beats
            and store.bursts_level + promised < hardware.store_requests
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
def store_takes(store: Store, hardware: Hardware) -> bool:
    """Whether the read to be issued takes the compute unit's slot of the next cycle: where there is no
    shadow, each of a parameter, and of the first part of an element."""
    if hardware.store_element == 0:
        return False
    return store.prepares > 0 or (store.rows > 0 and store.remaining & (hardware.store_element - 1) == 0)


@part
def store_moves_on(machine: Machine, program: TimedProgram, reads: bool) -> bool:
    """Let the oldest read on its way enter the queues, a read be issued, and a STORE begin.

    Return whether the next cycle must be looked at. It need not be where a beat is read, or enters, in
    each cycle, and nothing else changes.
    """
    store, prepares = machine.store, machine.store.prepares
    turns, settled = prepares > 0, store.active == 0 and store.staged == 0
    if next_enters(store) == machine.control.cycle:
        turns |= _enter_queues(store) or (store.active != 0 and not reads)  # there may be room for a read
    if reads and prepares > 0:
        store.prepares -= 1
    elif reads:
        turns |= _issue(machine, program)
    if store.waits and store.active == 0 and (settled or not _differs(store, program[store.waiting])):
        _begin(store, program)
        turns = True
    return turns


@part
def next_enters(store: Store) -> int:
    """Return the cycle in which the next read on its way enters the queues."""
    return store.run_due[store.runs_first] if store.runs > 0 else FAR


@part
def _enter_queues(store: Store) -> bool:
    """Let the oldest read on its way bring its beat, or the burst that it ends; return whether it was
    more or less than a beat."""
    run = store.runs_first
    plain, store.staged = store.run_plain[run] != 0, store.staged - 1
    if plain:
        _enter_beats(store, 1)
        return False
    store.beats += store.run_beat_ends[run]
    if store.run_burst_ends[run]:
        store.staged_bursts -= 1
        place = (store.bursts_first + store.bursts_level) % MOST_BURSTS
        store.burst_beats_of[place], store.burst_last_of[place] = store.run_beats[run], store.run_last[run]
        store.burst_instruction_of[place], store.burst_address_of[place] = (
            store.run_instruction[run],
            store.run_address[run],
        )
        store.bursts_level += 1
    _next_run(store)
    return True


@part
def _enter_beats(store: Store, count: int) -> None:
    """Let the oldest run bring `count` of its beats, one beat per cycle."""
    run = store.runs_first
    store.beats += count
    store.run_length[run] -= count
    store.run_due[run] += count
    if store.run_length[run] == 0:
        _next_run(store)


@part
def _next_run(store: Store) -> None:
    store.runs_first = (store.runs_first + 1) % MOST_STAGES
    store.runs -= 1


@part
def _issue(machine: Machine, program: TimedProgram) -> bool:
    """Issue one read, which enters the queues `store_stages` cycles later; return whether it is more or less
    than a beat."""
    store, last = machine.store, store_reads_last(machine.store, program)
    beat_ends, burst_ends, feeds = _reads(machine, program, last)
    if last:
        store.active = 0
    store.staged += 1
    store.staged_bursts += burst_ends
    due, plain = machine.control.cycle + machine.hardware.store_stages, beat_ends and not burst_ends
    newest = (store.runs_first + store.runs + MOST_STAGES - 1) % MOST_STAGES
    if plain and store.runs > 0 and store.run_plain[newest] and due == _run_end(store, newest):
        store.run_length[newest] += 1
        return False
    run = (newest + 1) % MOST_STAGES
    store.runs += 1
    store.run_due[run], store.run_length[run], store.run_plain[run] = due, 1, plain
    store.run_beat_ends[run], store.run_burst_ends[run], store.run_last[run] = beat_ends, burst_ends, last
    store.run_feeds[run] = feeds
    store.run_beats[run], store.run_instruction[run] = store.burst_beats, store.instruction
    store.run_address[run] = store.burst_address
    return not plain


@part
def _reads(machine: Machine, program: TimedProgram, last: bool) -> tuple[bool, bool, bool]:
    """Go on behind one read; return whether it ends a beat, a burst (the `last` read of an instruction
    without bursts ends a mark), and an element of INP."""
    store, instruction = machine.store, program[machine.store.instruction]
    if store.rows == 0:
        store.burst_beats = 0
        return False, True, False
    beat_ends, burst_ends = _reads_data(store, instruction, machine.hardware)
    if not (instruction.feeds or instruction.gathers_rows):
        return beat_ends, burst_ends, False
    store.burst_beats = 0
    return False, last, instruction.feeds and (store.address & (machine.hardware.out_bytes - 1)) == 0


@part
def store_feeds(machine: Machine) -> bool:
    """Whether the last outputs of an element of INP are there: its port is the store unit's behind this
    cycle."""
    store = machine.store
    return next_enters(store) == machine.control.cycle and store.run_feeds[store.runs_first] != 0


@part
def _run_end(store: Store, run: int) -> int:
    """Return the cycle behind that in which the run's last read enters the queues."""
    return store.run_due[run] + store.run_length[run]


@part
def _reads_data(store: Store, instruction: TimedInstruction, hardware: Hardware) -> tuple[bool, bool]:
    """Go on behind one read of data; return whether it ends a beat, and a burst."""
    if store.burst_starts:
        store.burst_beats = burst_beats(hardware, store.address, store.remaining)
        store.burst_address = store.address
    store.address += instruction.lane_bytes
    store.remaining -= instruction.lane_bytes
    row_ends = store.remaining == 0
    beat_ends = row_ends or (store.address & ((1 << hardware.bus_shift) - 1)) == 0
    burst_ends = row_ends or (store.address & (hardware.burst_bytes - 1)) == 0
    store.burst_starts = burst_ends
    if row_ends:
        store.row += instruction.stride_bytes
        store.address, store.remaining = store.row, instruction.row_bytes
        store.rows -= 1
    return beat_ends, burst_ends


@part
def store_starts(store: Store, index: int) -> None:
    """Take an instruction, which waits for the instruction before it."""
    store.waits, store.waiting = 1, index


@part
def _differs(store: Store, instruction: TimedInstruction) -> bool:
    """Whether an instruction is a NORMALISE of another kind than the NORMALISE before it: it begins when no
    read is on its way."""
    return instruction.kind != 0 and instruction.kind != store.kind


@part
def _begin(store: Store, program: TimedProgram) -> None:
    """Go on to the instruction that waits."""
    instruction = program[store.waiting]
    store.waits, store.active, store.instruction, store.rows = 0, 1, store.waiting, instruction.rows
    store.address = store.row = instruction.address
    store.remaining, store.burst_starts = instruction.row_bytes, 1
    store.prepares = instruction.parameters
    if instruction.kind != 0:
        store.kind = instruction.kind


@part
def store_steady_cycles(machine: Machine, program: TimedProgram, reads: bool, drains: bool) -> int:
    """Return for how many cycles after this cycle it reads a beat a cycle, as it `reads` in this cycle, or
    none, and a beat enters its queue in each, or none does."""
    store, following = machine.store, machine.control.cycle + 1
    enters = next_enters(store) == following
    steady = next_enters(store) - following
    if enters:
        steady = store.run_length[store.runs_first] if store.run_plain[store.runs_first] else 0
    if reads:
        return min(steady, _reads_on(store, program, machine.hardware, drains, enters))
    return 0 if store.active and (drains or enters) else steady  # else there will be room for a read


@part
def _reads_on(store: Store, program: TimedProgram, hardware: Hardware, drains: bool, enters: bool) -> int:
    """Return how many beats more are read, a beat per cycle: within a burst, and as long as there is room."""
    lane = program[store.instruction].lane_bytes
    if not store.active or not lane >> hardware.bus_shift:
        return 0
    reads = burst_size(hardware, store.address, store.remaining) // lane - 1
    if not drains:
        reads = min(reads, hardware.store_beats - store.staged - store.beats)
    if hardware.store_element > 0:  # the next element takes a slot
        return min(reads, (store.remaining & (hardware.store_element - 1)) // lane)
    room = hardware.store_requests - store.staged - store.bursts_level
    return reads if enters and room > 0 else min(reads, room)


@part
def store_skips(machine: Machine, program: TimedProgram, reads: bool, cycles: int) -> None:
    """Do for `cycles` cycles from the next cycle on what `store_steady_cycles` says."""
    store = machine.store
    enters = cycles > 0 and next_enters(store) == machine.control.cycle + 1
    if reads:
        store.run_length[(store.runs_first + store.runs - 1) % MOST_STAGES] += cycles
        store.staged += cycles
        moved = cycles * program[store.instruction].lane_bytes
        store.address += moved
        store.remaining -= moved
    if enters:
        store.staged -= cycles
        _enter_beats(store, cycles)
