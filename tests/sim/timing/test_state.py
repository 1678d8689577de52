"""The registers of the simulated accelerator: sizes counted by hand, and room for the most that can be in
flight."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.sim.helpers import gemm, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.timing import STORE_REQUESTS_AHEAD
from vdla.hw.spec.vocabulary import Extension
from vdla.sim.decoded import decode_stream
from vdla.sim.timing.simulate import simulate
from vdla.sim.timing.state import FAR, new_machine

MEMORY = MemoryParameters(latency=7, depth=5, cycles_per_beat=3)
PLAIN = TINY.with_changes(
    name="plain",
    block_out=8,
    acc_buffer_bytes=1 << 14,
    max_requests=9,
    token_depth=31,
    load_queue_depth=2,
    compute_queue_depth=4,
    store_queue_depth=8,
    gemm_stages=2,
    acc_ports=1,
    extensions=(),
)
WIDE = PLAIN.with_changes(
    name="wide", bus_bits=512, burst_bytes=1024, gemm_stages=4, acc_ports=2, extensions=tuple(Extension)
)
SHARED = {
    "instruction_bytes": 16,
    "max_requests": 9,
    "token_depth": 31,
    "latency": 7,
    "memory_depth": 5,
    "cycles_per_beat": 3,
    "loads_in_progress": 4,
    "quiet_cycles": 16,
    "queue_depth": [2, 4, 8],
}
HARDWARE = {
    "plain": (
        PLAIN,
        {
            "bus_shift": 3,
            "burst_bytes": 256,
            "fetch_depth": 4 * 16,
            "fetch_burst": 16,
            "fetch_lanes": 1,
            "fetch_parts": 2,
            "given_stage": 5,
            "retire_stage": 8,
            "store_stages": 2 + 1 + 5,
            "store_beats": 2 * 32 + 7,
            "store_requests": 4 + 1,
            "store_element": 8,
            "out_bytes": 8,
        },
    ),
    "wide": (
        WIDE,
        {
            "bus_shift": 6,
            "burst_bytes": 1024,
            "fetch_depth": 4 * 64,
            "fetch_burst": 64,
            "fetch_lanes": 4,
            "fetch_parts": 1,
            "given_stage": 7,
            "retire_stage": 10,
            "store_stages": 2 + 9 + 3 + 8 + 8,
            "store_beats": 2 * 16 + 29,
            "store_requests": 4 + 29,
            "store_element": 0,
            "out_bytes": 8,
        },
    ),
}


def leaves(record: np.void, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the fields of a record that are not 0, with their paths."""
    for name in record.dtype.names:
        value = record[name]
        if value.dtype.names:
            yield from leaves(value, f"{path}{name}.")
        elif np.any(value):
            yield f"{path}{name}", value.tolist()


@pytest.mark.parametrize("title", HARDWARE)
def test_sizes_are_those_of_the_configuration_and_its_memory(title):
    config, sizes = HARDWARE[title]
    machine = new_machine(config, MEMORY, 0, 3)[0]
    assert dict(leaves(machine["hardware"])) == {
        name: value for name, value in (SHARED | sizes).items() if value
    }


@pytest.mark.parametrize(
    ("config", "address", "part"),
    [(PLAIN, 16, 0), (WIDE, 0, 0), (WIDE, 16, 1), (WIDE, 48, 3), (WIDE, 64 + 32, 2)],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_registers_begin_at_rest_and_fetch_at_the_stream(config, address, part):
    """`part` is the place of the first instruction in its beat, where a beat holds several."""
    machine = new_machine(config, MEMORY, address, 3)[0]
    registers = {path: value for path, value in leaves(machine) if not path.startswith("hardware.")}
    expected = {
        "fetch.address": address,
        "fetch.remaining": 3 * 16,
        "fetch.expected": 3,
        "fetch.part": part,
        "compute.issue_last": -FAR,
        "compute.started": -FAR,
        "compute.taken": -FAR,
        "store.kind": 1,
        "control.cycle": 1,
        "log.beat_run": [-1] * 6,
        "log.state": [-1, -1, -1],
        "log.instruction": [-1, -1, -1],
        "log.since": [1, 1, 1],
    }
    assert registers == {path: value for path, value in expected.items() if value}


def test_a_beat_as_long_as_an_instruction_has_one_place():
    config = PLAIN.with_changes(bus_bits=128)
    machine = new_machine(config, MEMORY, 16, 1)[0]
    assert (machine["fetch"]["part"], machine["hardware"]["fetch_parts"]) == (0, 1)


def most(name: str, accepts) -> int:
    """Return the greatest power of two that a parameter takes."""
    value = 1
    while True:
        try:
            accepts(**{name: 2 * value})
        except ConfigError:
            return value
        value *= 2


def test_registers_have_room_for_the_most_that_can_be_in_flight():
    largest: AcceleratorConfig = PLAIN.with_changes(gemm_stages=8, extensions=tuple(Extension))
    machine = new_machine(largest, MEMORY, 0, 1)[0]
    assert machine["memory"]["clients"].size >= most("depth", MemoryParameters)
    assert machine["store"]["written_mark"].size >= most("max_requests", PLAIN.with_changes)
    stages = int(machine["hardware"]["store_stages"])
    assert machine["store"]["run_due"].size >= stages == 2 + (1 + 11) + 9 + 3 + 8 + 8
    assert machine["store"]["burst_beats_of"].size >= STORE_REQUESTS_AHEAD + stages


def test_as_many_instructions_are_in_the_longest_pipeline_as_it_has_stages():
    """Each has one slot, so one enters and one leaves in every cycle; none is lost."""
    config = TINY.with_changes(gemm_stages=8)
    stream = stream_of([*[gemm()] * 60, isa.Finish()], config)
    timing = simulate(decode_stream(stream, config), MemoryParameters(1, 16))
    assert set((timing.retired - timing.started).tolist()) == {1 + 6 + 8}
