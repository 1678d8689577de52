"""SDRAM and its controller in time; `vdla.hw.spec.sdram` says what they do.

Registers change in `sdram_steps`, once per cycle, behind the transfers of that cycle. What memory offers to
the accelerator in a cycle follows from the registers alone.
"""

from typing import NamedTuple

from vdla.hw.spec.sdram import MOST_BUFFERED
from vdla.sim.compiled import part, procedure
from vdla.sim.records import Records
from vdla.sim.timing.result import Burst
from vdla.sim.timing.state import MOST_UNANSWERED, Machine, Sdram, SdramTiming

WRITE_REQUESTS = 4  # that the AXI bridge, and the address guard, hold
READ_BEATS = 2  # that the AXI bridge holds
REGULAR, PRECHARGE, AUTO_PRECHARGE, ACTIVATE, REFRESHING, WAIT_PRECHARGE, WAIT_ACTIVATE = range(7)
"""States of a bank machine; the last two wait for `bank_until`."""
READS, WRITES, REFRESHES, TO_READ, TO_WRITE = range(5)
"""States of the multiplexer."""
QUIET, ASKS, RUNS = range(3)
"""States of the refresher."""


TAKES_READ, TAKES_WRITE, GIVES_BEAT, TAKES_BEAT = 1, 2, 4, 8
"""What memory offers to the accelerator in a cycle: to take a request of a read, or of a write; a beat; to
take a beat."""


class Port(NamedTuple):
    """What the AXI port does in a cycle."""

    asks_write: bool  # a beat can be commanded
    asks_read: bool
    asks: bool  # the granted direction
    fires: bool  # the converter takes it
    ends: bool  # it is its burst's last


class Command(NamedTuple):
    """What the bank machine asks of the multiplexer."""

    valid: bool
    reads: bool
    writes: bool
    activates: bool
    precharges: bool  # with the access


@part
def _offers(sdram: Sdram, timing: SdramTiming) -> int:
    """Return what memory offers in the cycle that the registers stand at."""
    port = _port(sdram, timing)
    ends = port.fires and port.ends and sdram.grants_read != 0
    reads = TAKES_READ if sdram.read_beats == 0 or ends else 0
    room = sdram.write_requests < WRITE_REQUESTS and (timing.guarded == 0 or sdram.guarded < WRITE_REQUESTS)
    takes = sdram.write_level < timing.write_depth and (timing.guarded == 0 or sdram.guarded > 0)
    gives = GIVES_BEAT if sdram.bridge_beats > 0 else 0
    return reads | (TAKES_WRITE if room else 0) | gives | (TAKES_BEAT if takes else 0)


@part
def _port(sdram: Sdram, timing: SdramTiming) -> Port:
    asks_write = sdram.write_beats > 0 and sdram.write_level + sdram.write_ready > sdram.write_reserved
    asks_read = sdram.read_beats > 0 and sdram.read_reserved < timing.read_depth
    asks = asks_read if sdram.grants_read else asks_write
    left = sdram.read_beats if sdram.grants_read else sdram.write_beats
    return Port(asks_write, asks_read, asks, asks and sdram.beat_waits == 0, left == 1)


@procedure
def sdram_steps(machine: Machine, bursts: Records[Burst]) -> bool:
    """Carry out a cycle; what the accelerator transferred stands in `new_beats`, `gave` and `took`. Return
    whether an answer to a write comes."""
    sdram, timing = machine.sdram, machine.hardware.sdram
    port, refreshed = _port(sdram, timing), sdram.refresher == RUNS and sdram.now == sdram.refreshed_at
    asks = sdram.refresher != QUIET and not refreshed
    command = _command(sdram, asks)
    writes = (sdram.write_pipe >> (timing.write_stages - 1)) & 1 != 0
    reads = (sdram.read_pipe >> (timing.read_stages - 1)) & 1 != 0
    _refresh(sdram, timing, refreshed)
    accepted = _choose(sdram, timing, command)
    _turn(sdram, timing, command, refreshed)
    _bank(sdram, timing, command, accepted, asks)
    _buffer_commands(sdram, timing, accepted and (command.reads or command.writes))
    popped, given = _write_data(sdram, timing, writes), _read_data(sdram, timing, reads)
    _take_requests(sdram, timing, port, popped, given)
    sdram.new_beats = sdram.gave = sdram.took = 0
    sdram.now += 1
    sdram.former, sdram.offered = sdram.offered, _offers(sdram, timing)
    return popped and _ends_burst(machine, bursts)


@part
def _ends_burst(machine: Machine, bursts: Records[Burst]) -> bool:
    """Log a beat that leaves the write buffer; return whether it is its burst's last."""
    sdram = machine.sdram
    place = sdram.popping
    if machine.log.wanted:
        burst = bursts[sdram.burst_logged[place]]
        if sdram.burst_left[place] == burst.beats:
            burst.first = sdram.now - 1
        burst.last = sdram.now - 1
    sdram.burst_left[place] -= 1
    if sdram.burst_left[place] > 0:
        return False
    sdram.popping = (place + 1) % MOST_UNANSWERED
    return True


@part
def _closes(sdram: Sdram, bank: int) -> bool:
    """Whether the times before a precharge of a bank have passed."""
    return sdram.now >= sdram.precharge_from[bank] and sdram.now >= sdram.active_until[bank]


@part
def _command(sdram: Sdram, asks_refresh: bool) -> Command:
    """Return the command of the bank machine that holds commands."""
    bank, state = sdram.bank, sdram.bank_state
    if state == REGULAR:
        hit = sdram.opened[bank] != 0 and sdram.rows[bank] == sdram.command_row
        valid = not asks_refresh and sdram.command_valid != 0 and hit
        follows = sdram.commands > 0 and sdram.ahead_row[sdram.commands_first] != sdram.command_row
        writes = sdram.command_writes != 0
        return Command(valid, valid and not writes, valid and writes, False, valid and follows)
    if state == PRECHARGE:
        return Command(_closes(sdram, bank), False, False, False, False)
    if state == ACTIVATE:
        return Command(sdram.now >= sdram.activate_from[bank], False, False, True, False)
    return Command(False, False, False, False, False)


@part
def _choose(sdram: Sdram, timing: SdramTiming, command: Command) -> bool:
    """Let the multiplexer choose; return whether it accepts the command."""
    state, now = sdram.direction, sdram.now
    row = sdram.row_from <= now
    fits = (command.reads == (state == READS)) and (command.writes == (state == WRITES))
    fits_row = not command.reads and not command.writes and (not command.activates or row)
    valid = command.valid and (fits_row or fits)
    chosen = valid and sdram.chosen_bank == sdram.bank
    ready = state in (READS, WRITES) and sdram.column_from <= now
    ready = ready and (not (chosen and command.activates) or row)
    if valid and (ready or not chosen):
        sdram.chosen_bank = sdram.bank
    accepted = chosen and ready
    sdram.write_pipe = (sdram.write_pipe << 1 | (accepted and command.writes)) & (
        (1 << timing.write_stages) - 1
    )
    sdram.read_pipe = (sdram.read_pipe << 1 | (accepted and command.reads)) & ((1 << timing.read_stages) - 1)
    if accepted and command.activates:
        sdram.row_from = now + timing.row_to_row
    if accepted and (command.reads or command.writes):
        sdram.column_from = now + timing.column_to_column
    if accepted and command.writes:
        sdram.read_from = now + timing.write_to_read
    return accepted


@part
def _turn(sdram: Sdram, timing: SdramTiming, command: Command, refreshed: bool) -> None:
    """Change the state of the multiplexer."""
    state, now, following = sdram.direction, sdram.now, sdram.direction
    if state in (READS, WRITES):
        wants, keeps, time = command.writes, command.reads, timing.read_time
        if state == WRITES:
            wants, keeps, time = command.reads, command.writes, timing.write_time
        if wants and (not keeps or now - sdram.turned >= time - 1):
            following = TO_READ if state == WRITES else TO_WRITE
            if following == TO_WRITE and timing.read_to_write == 0:
                following = WRITES
        if _all_banks_rest(sdram, timing):
            following = REFRESHES
    elif state == REFRESHES:
        if refreshed:
            following = READS
    elif state == TO_READ:
        if now >= sdram.read_from:
            following = READS
    elif now - sdram.turned >= timing.read_to_write - 1:
        following = WRITES
    if following != state:
        sdram.direction, sdram.turned = following, now + 1


@part
def _all_banks_rest(sdram: Sdram, timing: SdramTiming) -> bool:
    """Whether all banks wait for a refresh, long enough after their last write."""
    if sdram.bank_state != REFRESHING:
        return False
    last = 0
    for bank in range(1 << timing.bank_bits):
        last = max(last, sdram.precharge_from[bank])
    return sdram.now >= last


@part
def _refresh(sdram: Sdram, timing: SdramTiming, refreshed: bool) -> None:
    """Advance the refresher."""
    now, state = sdram.now, sdram.refresher
    if state == ASKS and sdram.direction == REFRESHES:
        sdram.refresher, sdram.refreshed_at = RUNS, now + timing.refresh_cycles
    elif refreshed:
        sdram.refresher = QUIET
    if now == sdram.refresh_at + 1:
        sdram.refresh_at += timing.refresh_interval
        if state == QUIET:
            sdram.refresher = ASKS


@part
def _bank(sdram: Sdram, timing: SdramTiming, command: Command, accepted: bool, asks_refresh: bool) -> None:
    """Change the state of the bank machine, and the rows of the banks."""
    state, bank, now = sdram.bank_state, sdram.bank, sdram.now
    if accepted and command.writes:
        sdram.precharge_from[bank] = now + timing.write_to_precharge
    if state == REGULAR:
        sdram.bank_state = _regular(sdram, command, accepted, asks_refresh)
    elif state == REFRESHING:
        for each in range(1 << timing.bank_bits):
            sdram.opened[each] = 0
        if not asks_refresh:
            sdram.bank_state = REGULAR
    elif state == ACTIVATE:
        _activate(sdram, timing, command, accepted)
    elif state in (PRECHARGE, AUTO_PRECHARGE):
        sdram.opened[bank] = 0
        if accepted or (state == AUTO_PRECHARGE and _closes(sdram, bank)):
            sdram.bank_state = WAIT_PRECHARGE if timing.precharge > 1 else ACTIVATE
            sdram.bank_until = now + timing.precharge - 1
    elif now >= sdram.bank_until:
        sdram.bank_state = ACTIVATE if state == WAIT_PRECHARGE else REGULAR


@part
def _regular(sdram: Sdram, command: Command, accepted: bool, asks_refresh: bool) -> int:
    """Return the state that follows REGULAR."""
    if asks_refresh:
        return REFRESHING
    if sdram.command_valid and not command.valid:
        return PRECHARGE if sdram.opened[sdram.bank] else ACTIVATE
    return AUTO_PRECHARGE if accepted and command.precharges else REGULAR


@part
def _activate(sdram: Sdram, timing: SdramTiming, command: Command, accepted: bool) -> None:
    """Open a row, and go on once the multiplexer has accepted that."""
    bank, now = sdram.bank, sdram.now
    if command.valid:
        sdram.opened[bank], sdram.rows[bank] = 1, sdram.command_row
    if accepted:
        sdram.bank_state = WAIT_ACTIVATE if timing.activate > 1 else REGULAR
        sdram.bank_until = now + timing.activate - 1
        sdram.activate_from[bank] = now + timing.row_cycle
        sdram.active_until[bank] = now + timing.row_active


@part
def _buffer_commands(sdram: Sdram, timing: SdramTiming, consumed: bool) -> None:
    """Pass a command from the converter to the buffer of its bank, and on to the register before the bank
    machine."""
    locked, room = sdram.commands > 0 or sdram.command_valid != 0, sdram.commands < timing.command_depth
    moves = sdram.commands > 0 and (consumed or not sdram.command_valid)
    if consumed:
        sdram.command_valid = 0
    if moves:
        first = sdram.commands_first
        sdram.command_valid = 1
        sdram.command_row, sdram.command_writes = sdram.ahead_row[first], sdram.ahead_writes[first]
        sdram.commands_first = (first + 1) % MOST_BUFFERED
        sdram.commands -= 1
    if sdram.converting:
        _pass_command(sdram, timing, locked, room)
    if sdram.beat_waits and not sdram.converting:
        sdram.beat_waits = 0
        _take_command(sdram, timing, sdram.next_word, sdram.next_writes != 0)


@part
def _pass_command(sdram: Sdram, timing: SdramTiming, locked: bool, room: bool) -> None:
    """Pass the command of a word from the converter to the buffer of its bank.

    Args:
        locked: a bank held commands when the cycle began.
        room: its buffer has a free place.
    """
    bank = (sdram.word >> timing.column_bits) & ((1 << timing.bank_bits) - 1)
    if (locked and bank != sdram.bank) or not room:
        return
    place = (sdram.commands_first + sdram.commands) % MOST_BUFFERED
    sdram.ahead_row[place] = sdram.word >> (timing.column_bits + timing.bank_bits)
    sdram.ahead_writes[place] = sdram.word_writes
    sdram.commands += 1
    sdram.bank = bank
    sdram.word += 1
    sdram.converting -= 1


@part
def _take_command(sdram: Sdram, timing: SdramTiming, word: int, writes: bool) -> None:
    """Take a beat into the converter, or behind the beat that is in it."""
    if sdram.converting:
        sdram.beat_waits, sdram.next_word, sdram.next_writes = 1, word, writes
    else:
        sdram.converting, sdram.word, sdram.word_writes = timing.words, word, writes


@part
def _write_data(sdram: Sdram, timing: SdramTiming, strobe: bool) -> bool:
    """Move beats through the write buffer; return whether a beat leaves it with its last word."""
    leaves = False
    if strobe:
        sdram.words_written += 1
        leaves = sdram.words_written == timing.words
        if leaves:
            sdram.words_written = 0
    moves = sdram.write_level > 0 and (leaves or not sdram.write_ready)
    sdram.write_ready = 1 if moves else (0 if leaves else sdram.write_ready)
    sdram.write_level += sdram.took - moves
    if sdram.took and timing.guarded:
        place = sdram.taking
        sdram.taken_left[place] -= 1
        if sdram.taken_left[place] == 0:
            sdram.taking = (place + 1) % MOST_UNANSWERED
            sdram.guarded -= 1
    return leaves


@part
def _read_data(sdram: Sdram, timing: SdramTiming, strobe: bool) -> bool:
    """Move beats through the read buffer to the bridge; return whether a beat leaves the buffer."""
    given = sdram.read_ready != 0 and sdram.bridge_beats < READ_BEATS
    moves = sdram.read_level > 0 and (given or not sdram.read_ready)
    sdram.read_ready = 1 if moves else (0 if given else sdram.read_ready)
    sdram.read_level += sdram.collected - moves
    sdram.bridge_beats += given - sdram.gave
    sdram.collected = 0
    if strobe:
        sdram.words_read += 1
        if sdram.words_read == timing.words:
            sdram.words_read, sdram.collected = 0, 1
    return given


@part
def _take_requests(sdram: Sdram, timing: SdramTiming, port: Port, popped: bool, given: bool) -> None:
    """Divide bursts into beats for the converter, and take the bursts behind them."""
    fires_read = port.fires and sdram.grants_read != 0
    fires_write = port.fires and not fires_read
    sdram.write_reserved += fires_write - popped
    sdram.read_reserved += fires_read - given
    if port.fires:
        address = sdram.read_address if fires_read else sdram.write_address
        _take_command(sdram, timing, address >> timing.word_shift, fires_write)
    if fires_read:
        sdram.read_beats -= 1
        sdram.read_address += timing.words << timing.word_shift
    if fires_write:
        sdram.write_beats -= 1
        sdram.write_address += timing.words << timing.word_shift
    opposite_asks = port.asks_write if sdram.grants_read else port.asks_read
    if opposite_asks and (not port.asks or (port.fires and port.ends)):
        sdram.grants_read = not sdram.grants_read
    if sdram.write_requests > 0 and sdram.write_beats == 0:
        place = sdram.starting
        sdram.write_beats, sdram.write_address = sdram.burst_beats[place], sdram.burst_address[place]
        sdram.starting = (place + 1) % MOST_UNANSWERED
        sdram.write_requests -= 1
    if sdram.new_beats > 0 and sdram.new_writes:
        _remember(sdram)
    elif sdram.new_beats > 0:
        sdram.read_beats, sdram.read_address = sdram.new_beats, sdram.new_address


@part
def _remember(sdram: Sdram) -> None:
    """Put a write request into the queue of the bridge."""
    place = sdram.remembered
    sdram.burst_beats[place] = sdram.burst_left[place] = sdram.taken_left[place] = sdram.new_beats
    sdram.burst_address[place] = sdram.new_address
    sdram.remembered = (place + 1) % MOST_UNANSWERED
    sdram.write_requests += 1
    sdram.burst_logged[place] = sdram.new_logged
    sdram.guarded += 1


@part
def sdram_waits(machine: Machine, bursts: Records[Burst], cycles: int) -> int:
    """Carry out up to `cycles` cycles in which the accelerator transfers nothing, until memory offers
    something else than in the last cycle; return their number."""
    for cycle in range(cycles):
        if machine.memory.write_done or machine.sdram.offered != machine.sdram.former:
            return cycle
        machine.memory.write_done = sdram_steps(machine, bursts)
    return cycles


@part
def memory_waits(machine: Machine, bursts: Records[Burst], cycles: int) -> int:
    """Return how many of `cycles` cycles in which the accelerator does the same memory does the same too; an
    SDRAM has carried them out."""
    if machine.hardware.sdram.words == 0:
        return cycles
    return 0 if machine.store.staged > 0 else sdram_waits(machine, bursts, max(cycles, 0))
