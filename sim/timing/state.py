"""The registers of the simulated accelerator, as records that compiled code and NumPy share.

Every field is a register of the hardware, or a count that stands for several; names follow the RTL's
components.
"""

from typing import Annotated, NamedTuple

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.sdram import MOST_BANKS, MOST_BUFFERED, AnyMemory, SdramParameters, sdram_timing
from vdla.hw.spec.timing import (
    ARRIVED_BEATS,
    BURSTS_FETCHED_AHEAD,
    BURSTS_STORED_AHEAD,
    LOADS_IN_PROGRESS,
    MOST_GEMM_STAGES,
    QUIET_CYCLES,
    STORE_REQUESTS_AHEAD,
    given_stage,
    retire_stage,
    store_read_stages,
    store_stages,
)
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
from vdla.sim.records import Grid, IntArray, Ints, RecordArray, Records, record_dtype
from vdla.sim.timing.columns import normal_kind
from vdla.sim.timing.result import BEAT_COUNTERS, BeatRun, Burst, LentRun, Span

MOST_IN_FLIGHT = 1024  # requests that a reference memory can hold
MOST_UNANSWERED = 256  # bursts of stores that can wait for their answer
MOST_RETIRING = 16  # instructions that can be in the compute pipeline
MOST_STAGES = store_stages(Extension, store_read_stages(1, MOST_GEMM_STAGES))
MOST_BURSTS = STORE_REQUESTS_AHEAD + MOST_STAGES
IDLE_GUARDED, IDLE = 0b0011, 0b1011  # what an idle SDRAM offers, see `vdla.sim.timing.sdram`
FAR = 1 << 60  # a cycle that never comes
FIRST_KIND = normal_kind(Statistic.GREATEST, False)  # as if a NORMALISE that gathers had been before
LOAD_UNIT, COMPUTE_UNIT, STORE_UNIT = (int(unit) for unit in Unit)


Units = Annotated[Ints, (len(Unit),)]
Edges = Annotated[Ints, (len(TOKEN_EDGES),)]
Stages = Annotated[Ints, (MOST_STAGES,)]
Bursts = Annotated[Ints, (MOST_BURSTS,)]
Unanswered = Annotated[Ints, (MOST_UNANSWERED,)]
InFlight = Annotated[Ints, (MOST_IN_FLIGHT,)]
Arrived = Annotated[Ints, (ARRIVED_BEATS,)]
BeatCounters = Annotated[Ints, (len(BEAT_COUNTERS),)]
Retiring = Annotated[Ints, (MOST_RETIRING,)]


Banks = Annotated[Ints, (MOST_BANKS,)]
Commands = Annotated[Ints, (MOST_BUFFERED,)]


class SdramTiming:
    """`vdla.hw.spec.sdram.sdram_timing`; `words` is 0 where the reference memory is simulated."""

    words: int
    guarded: int
    word_shift: int
    column_bits: int
    bank_bits: int
    precharge: int
    activate: int
    row_cycle: int
    row_active: int
    row_to_row: int
    column_to_column: int
    write_to_precharge: int
    write_to_read: int
    read_to_write: int
    refresh_cycles: int
    refresh_interval: int
    first_refresh: int
    read_stages: int
    write_stages: int
    command_depth: int
    read_depth: int
    write_depth: int
    read_time: int
    write_time: int


class Hardware:
    """What does not change in a run: sizes of the accelerator and of its memory."""

    bus_shift: int
    burst_bytes: int
    instruction_bytes: int
    fetch_depth: int
    fetch_burst: int  # instructions of a burst as long as can be
    fetch_lanes: int
    fetch_parts: int
    max_requests: int
    token_depth: int
    latency: int
    memory_depth: int
    cycles_per_beat: int
    given_stage: int
    retire_stage: int
    store_beats: int
    store_requests: int
    store_stages: int
    store_element: int  # bytes of outputs for which a slot of the compute unit is taken; 0 where none is
    out_bytes: int
    loads_in_progress: int
    quiet_cycles: int
    queue_depth: Units
    sdram: SdramTiming


class Fetch:
    """Fetch of the stream."""

    address: int
    remaining: int
    promised: int
    outstanding: int
    level: int
    part: int
    expected: int


class Dispatch:
    """Dispatch into the queues of the units."""

    following: int
    ended: int
    invalid: int
    head: Units
    tail: Units


class Tokens:
    """Dependency tokens: tokens that are there, and places that are taken."""

    held: Edges
    pledged: Edges


class Loader:
    """A load engine: its request half (of the instruction `asked`) with the request it offers, and the
    instructions in progress, of which the write half has the oldest while `writing`."""

    requesting: int
    asked: int
    offered: int
    offered_beats: int
    offered_address: int
    offered_instruction: int
    address: int
    row: int
    remaining: int
    rows: int
    first: int
    level: int
    writing: int
    written: int
    pads_left: int
    rows_left: int
    steps_left: int
    offset: int
    row_offset: int
    missing: int  # bytes of a GATHER's next element behind the last beat taken; not positive: all are there
    items: Annotated[Ints, (LOADS_IN_PROGRESS,)]


class Compute:
    """The compute unit's pipeline: instructions in it, and when each retires."""

    issue_last: int
    started: int  # the cycle in which an instruction started last
    uop_begin: int  # of the instruction that was issued last,
    uop_end: int
    reads_until: int  # the last cycle in which a slot that was issued reads a second accumulator
    taken: int  # the cycle whose slot was taken last
    stayed: int  # in the cycle before, a LOAD at the queue's head wrote none of these
    clear: int  # it may start beside the instruction that is issued
    first: int
    level: int
    finished: int
    retires: Retiring
    items: Retiring


class Store:
    """The store unit: its read half, reads on their way to the queues, and bursts that wait for memory or
    for its answer."""

    waits: int  # an instruction is taken that has not begun,
    waiting: int  # which
    active: int
    instruction: int
    address: int
    row: int
    remaining: int
    rows: int
    burst_beats: int
    burst_address: int
    burst_starts: int
    prepares: int  # parameters to be read yet
    kind: int  # of the latest NORMALISE that has begun and has rows
    staged: int  # reads on their way to the queues, as runs of reads that bring a beat each, one per cycle,
    runs: int  # or single reads that bring more or less
    runs_first: int
    staged_bursts: int  # reads that end a burst
    beats: int
    bursts_first: int
    bursts_level: int
    written_first: int
    written_level: int
    answers: int
    run_due: Stages  # the cycle in which its next read enters the queues
    run_length: Stages
    run_plain: Stages  # its reads bring just a beat each
    run_beat_ends: Stages
    run_burst_ends: Stages
    run_feeds: Stages  # its read completes an element of INP
    run_last: Stages
    run_instruction: Stages
    run_beats: Stages
    run_address: Stages
    burst_beats_of: Bursts
    burst_address_of: Bursts
    burst_last_of: Bursts
    burst_instruction_of: Bursts
    written_mark: Unanswered
    written_last: Unanswered
    written_instruction: Unanswered


class Memory:
    """The DMA's output register, the requests that memory has accepted, and the read beats that wait for
    their clients."""

    offered: int
    client: int
    beats: int
    address: int
    instruction: int
    taken: int
    reads: int  # in flight
    first: int
    level: int
    write_done: int
    next_beat: int  # cycle from which the data path is free
    arrived: int
    arrived_client: Arrived
    clients: InFlight
    beats_left: InFlight
    first_data: InFlight
    logged: InFlight


class Sdram:
    """The SDRAM, its controller and the bridge to it.

    The bursts of writes are in rings, in the order of requests. `remembered` is the place of the next
    request, and `starting` the place of the next burst for the controller. `taking` and `popping` are the
    places of the next beats that enter and leave the write buffer.
    """

    now: int  # cycles since the start of the run
    offered: int  # what memory offers in this cycle, see `vdla.sim.timing.sdram`
    former: int  # and offered in the last
    new_beats: int  # of a request that memory accepts in this cycle; 0: none
    new_address: int
    new_writes: int
    new_logged: int
    gave: int  # a beat to the accelerator, in this cycle
    took: int
    write_requests: int  # in the bridge
    guarded: int  # bursts of writes whose beats may pass the address guard
    remembered: int
    starting: int
    taking: int
    popping: int
    burst_beats: Unanswered
    burst_address: Unanswered
    burst_left: Unanswered
    taken_left: Unanswered
    burst_logged: Unanswered
    read_beats: int  # of the burst that is divided; 0: none
    read_address: int
    write_beats: int
    write_address: int
    grants_read: int
    read_reserved: int  # beats commanded that have not left the buffer
    write_reserved: int
    converting: int  # words to be commanded of the beat in the converter
    word: int  # address of the next
    word_writes: int
    beat_waits: int  # the converter holds the beat behind
    next_word: int
    next_writes: int
    bank: int  # that holds commands, or held the last
    commands: int
    commands_first: int
    ahead_row: Commands
    ahead_writes: Commands
    command_valid: int
    command_row: int
    command_writes: int
    bank_state: int
    bank_until: int
    opened: Banks
    rows: Banks
    precharge_from: Banks
    active_until: Banks
    activate_from: Banks
    direction: int
    turned: int  # the cycle in which `direction` changed last
    chosen_bank: int
    row_from: int
    column_from: int
    read_from: int
    refresher: int
    refresh_at: int
    refreshed_at: int
    write_pipe: int  # strobes on their way, a bit for each register
    read_pipe: int
    words_written: int
    words_read: int
    collected: int  # a read beat is complete
    write_level: int
    write_ready: int
    read_level: int
    read_ready: int
    bridge_beats: int


class Control:
    """Run control."""

    cycle: int
    quiet: int
    ends: int
    done: int
    stuck: int


class Counts:
    """The counters of the registers."""

    states: Annotated[Grid, (len(Unit), len(UnitState))]
    beats: BeatCounters


class Logging:
    """The logs: how full they are, and each unit's span that has begun."""

    wanted: int
    spans: int
    bursts: int
    beat_runs: int
    lent_runs: int
    beat_run: BeatCounters  # of each counter of beats, the place of its latest run in the log
    state: Units
    instruction: Units
    since: Units


class Machine:
    """All registers."""

    hardware: Hardware
    fetch: Fetch
    dispatch: Dispatch
    tokens: Tokens
    load: Loader
    compute_load: Loader
    compute: Compute
    store: Store
    memory: Memory
    sdram: Sdram
    control: Control
    counts: Counts
    log: Logging


class Logs(NamedTuple):
    """The logs, with places that are free."""

    spans: Records[Span]
    bursts: Records[Burst]
    beat_runs: Records[BeatRun]
    lent_runs: Records[LentRun]


class Times(NamedTuple):
    """When each instruction enters its unit's queue, starts and retires: int64[n]."""

    dispatched: IntArray
    started: IntArray
    retired: IntArray


MACHINE = record_dtype(Machine, align=True)


def new_machine(config: AcceleratorConfig, memory: AnyMemory, stream_address: int, count: int) -> RecordArray:
    """Return MACHINE[1] as it stands in cycle 1: reset, and fetch told to begin with `count` instructions at
    `stream_address`."""
    state = np.zeros(1, MACHINE)
    machine = state[0]
    hardware = machine["hardware"]
    reference = memory if isinstance(memory, MemoryParameters) else memory.seen_from(config)
    for name, value in _hardware(config, reference).items():
        hardware[name] = value
    if isinstance(memory, SdramParameters):
        _start_sdram(machine, sdram_timing(memory, config))
    fetch = machine["fetch"]
    size = config.instruction_bytes
    fetch["address"], fetch["remaining"], fetch["expected"] = stream_address, count * size, count
    if config.bus_bytes > size:
        fetch["part"] = stream_address // size % (config.bus_bytes // size)
    for name in ("issue_last", "started", "taken"):
        machine["compute"][name] = -FAR
    machine["store"]["kind"] = FIRST_KIND
    machine["control"]["cycle"] = 1
    machine["log"]["instruction"][:], machine["log"]["since"][:], machine["log"]["state"][:] = -1, 1, -1
    machine["log"]["beat_run"][:] = -1
    return state


def _start_sdram(machine: np.void, timing: dict[str, int]) -> None:
    """Set the registers of the SDRAM as they are in cycle 1: the cycle before was the run's first."""
    for name, value in timing.items():
        machine["hardware"]["sdram"][name] = value
    sdram = machine["sdram"]
    sdram["now"], sdram["refresh_at"], sdram["turned"] = 1, timing["first_refresh"], -FAR
    sdram["offered"] = sdram["former"] = IDLE_GUARDED if timing["guarded"] else IDLE


def _hardware(config: AcceleratorConfig, memory: MemoryParameters) -> dict[str, object]:
    """Return the values of HARDWARE."""
    extensions = config.effective_extensions
    stages = store_stages(extensions, store_read_stages(config.acc_ports, config.operand_stages))
    return {
        "bus_shift": config.bus_bytes.bit_length() - 1,
        "burst_bytes": config.burst_bytes,
        "instruction_bytes": config.instruction_bytes,
        "fetch_depth": BURSTS_FETCHED_AHEAD * config.burst_bytes // config.instruction_bytes,
        "fetch_burst": config.burst_bytes // config.instruction_bytes,
        "fetch_lanes": max(config.bus_bytes // config.instruction_bytes, 1),
        "fetch_parts": max(config.instruction_bytes // config.bus_bytes, 1),
        "max_requests": config.max_requests,
        "token_depth": config.token_depth,
        "latency": memory.latency,
        "memory_depth": memory.depth,
        "cycles_per_beat": memory.cycles_per_beat,
        "given_stage": given_stage(config.operand_stages),
        "retire_stage": retire_stage(config.operand_stages),
        "store_beats": BURSTS_STORED_AHEAD * config.burst_beats + stages - 1,
        "store_requests": STORE_REQUESTS_AHEAD + store_stages(extensions) - 1,
        "store_stages": stages,
        "store_element": config.element_bytes(MemoryType.OUT) if config.acc_ports == 1 else 0,
        "out_bytes": config.element_bytes(MemoryType.OUT),
        "loads_in_progress": LOADS_IN_PROGRESS,
        "quiet_cycles": QUIET_CYCLES,
        "queue_depth": [config.load_queue_depth, config.compute_queue_depth, config.store_queue_depth],
    }
