"""The registers of the simulated accelerator, as records that compiled code and NumPy share.

Every field is a register of the hardware, or a count that stands for several; names follow the RTL's
components.
"""

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.registers import COUNTED_MEMORIES, UnitState
from vdla.hw.spec.timing import (
    BURSTS_FETCHED_AHEAD,
    BURSTS_STORED_AHEAD,
    LOADS_IN_PROGRESS,
    QUIET_CYCLES,
    STORE_REQUESTS_AHEAD,
    retire_stage,
    store_stages,
)
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import INSTRUCTION_BYTES, Extension

MOST_IN_FLIGHT = 1024  # requests that a reference memory can hold
MOST_UNANSWERED = 256  # bursts of stores that can wait for their answer
MOST_RETIRING = 16  # instructions that can be in the compute pipeline
MOST_STAGES = store_stages(True)
MOST_BURSTS = STORE_REQUESTS_AHEAD + MOST_STAGES
FAR = 1 << 60  # a cycle that never comes


def _record(*names: str, **shapes: tuple) -> np.dtype:
    """Return a record of int64 fields: scalars by name, and arrays or records by shape or type."""
    parts = [(name, np.int64) for name in names]
    parts += [(name, *shape) if isinstance(shape, tuple) else (name, shape) for name, shape in shapes.items()]
    return np.dtype(parts, align=True)


def _ring(places: int) -> dict[str, tuple]:
    return {"items": (np.int64, (places,))}


HARDWARE = _record(
    "bus_shift",
    "burst_bytes",
    "fetch_depth",
    "fetch_lanes",
    "fetch_parts",
    "max_requests",
    "token_depth",
    "latency",
    "memory_depth",
    "retire_stage",
    "store_beats",
    "store_requests",
    "store_stages",
    "loads_in_progress",
    "quiet_cycles",
    queue_depth=(np.int64, (len(Unit),)),
)

FETCH = _record("address", "remaining", "promised", "outstanding", "level", "part", "expected")
DISPATCH = _record(
    "following", "ended", "invalid", head=(np.int64, (len(Unit),)), tail=(np.int64, (len(Unit),))
)
TOKENS = _record(held=(np.int64, (len(TOKEN_EDGES),)), pledged=(np.int64, (len(TOKEN_EDGES),)))
LOADER = _record(
    "requesting",
    "asked",
    "address",
    "row",
    "remaining",
    "rows",  # the request half; `asked` is its instruction
    "first",
    "level",  # the queue of started instructions
    "writing",
    "written",
    "pads_left",
    "rows_left",
    "steps_left",
    "offset",
    "row_offset",  # the write half
    **_ring(LOADS_IN_PROGRESS),
)
COMPUTE = _record(
    "issue_last", "first", "level", "finished", retires=(np.int64, (MOST_RETIRING,)), **_ring(MOST_RETIRING)
)
STORE = _record(
    "active",
    "instruction",
    "address",
    "row",
    "remaining",
    "rows",
    "burst_beats",
    "burst_starts",
    "prepares",  # parameters to be read yet
    "staged",
    "staged_plain",
    "stage",
    "beats",  # reads on their way to the queues, those that bring just a beat, the place of the oldest
    "bursts_first",
    "bursts_level",
    "written_first",
    "written_level",
    "answers",
    stage_kind=(np.int64, (MOST_STAGES,)),
    stage_beat_ends=(np.int64, (MOST_STAGES,)),
    stage_burst_ends=(np.int64, (MOST_STAGES,)),
    stage_last=(np.int64, (MOST_STAGES,)),
    stage_instruction=(np.int64, (MOST_STAGES,)),
    stage_beats=(np.int64, (MOST_STAGES,)),
    burst_beats_of=(np.int64, (MOST_BURSTS,)),
    burst_last_of=(np.int64, (MOST_BURSTS,)),
    burst_instruction_of=(np.int64, (MOST_BURSTS,)),
    written_mark=(np.int64, (MOST_UNANSWERED,)),
    written_last=(np.int64, (MOST_UNANSWERED,)),
    written_instruction=(np.int64, (MOST_UNANSWERED,)),
)
MEMORY = _record(
    "offered",
    "client",
    "beats",
    "instruction",
    "taken",  # the DMA's output register
    "reads",  # in flight
    "first",
    "level",
    "write_done",
    clients=(np.int64, (MOST_IN_FLIGHT,)),
    beats_left=(np.int64, (MOST_IN_FLIGHT,)),
    first_data=(np.int64, (MOST_IN_FLIGHT,)),
    logged=(np.int64, (MOST_IN_FLIGHT,)),
)
CONTROL = _record("cycle", "quiet", "done", "stuck")
COUNTS = _record(
    "fetch_beats", states=(np.int64, (len(Unit), len(UnitState))), beats=(np.int64, (len(COUNTED_MEMORIES),))
)
LOGGING = _record(
    "wanted",
    "spans",
    "bursts",
    state=(np.int64, (len(Unit),)),
    instruction=(np.int64, (len(Unit),)),
    since=(np.int64, (len(Unit),)),
)

MACHINE = _record(
    hardware=HARDWARE,
    fetch=FETCH,
    dispatch=DISPATCH,
    tokens=TOKENS,
    load=LOADER,
    compute_load=LOADER,
    compute=COMPUTE,
    store=STORE,
    memory=MEMORY,
    control=CONTROL,
    counts=COUNTS,
    log=LOGGING,
)


def new_machine(
    config: AcceleratorConfig, memory: MemoryParameters, stream_address: int, count: int
) -> np.ndarray:
    """Return MACHINE[1] as it stands in cycle 1: reset, and fetch told to begin with `count` instructions at
    `stream_address`."""
    state = np.zeros(1, MACHINE)
    machine = state[0]
    hardware = machine["hardware"]
    for name, value in _hardware(config, memory).items():
        hardware[name] = value
    fetch = machine["fetch"]
    fetch["address"], fetch["remaining"], fetch["expected"] = stream_address, count * INSTRUCTION_BYTES, count
    if config.bus_bytes > INSTRUCTION_BYTES:
        fetch["part"] = stream_address // INSTRUCTION_BYTES % (config.bus_bytes // INSTRUCTION_BYTES)
    machine["compute"]["issue_last"] = -FAR
    machine["control"]["cycle"] = 1
    machine["log"]["instruction"][:], machine["log"]["since"][:], machine["log"]["state"][:] = -1, 1, -1
    return state


def _hardware(config: AcceleratorConfig, memory: MemoryParameters) -> dict[str, object]:
    """Return the values of HARDWARE."""
    stages = store_stages(config.has(Extension.REQUANTISE))
    return {
        "bus_shift": config.bus_bytes.bit_length() - 1,
        "burst_bytes": config.burst_bytes,
        "fetch_depth": BURSTS_FETCHED_AHEAD * config.burst_bytes // INSTRUCTION_BYTES,
        "fetch_lanes": max(config.bus_bytes // INSTRUCTION_BYTES, 1),
        "fetch_parts": max(INSTRUCTION_BYTES // config.bus_bytes, 1),
        "max_requests": config.max_requests,
        "token_depth": config.token_depth,
        "latency": memory.latency,
        "memory_depth": memory.depth,
        "retire_stage": retire_stage(config.gemm_stages),
        "store_beats": BURSTS_STORED_AHEAD * config.burst_beats + stages - 1,
        "store_requests": STORE_REQUESTS_AHEAD + stages - 1,
        "store_stages": stages,
        "loads_in_progress": LOADS_IN_PROGRESS,
        "quiet_cycles": QUIET_CYCLES,
        "queue_depth": [config.load_queue_depth, config.compute_queue_depth, config.store_queue_depth],
    }
