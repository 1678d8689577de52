"""The C++ reference memory keeps the timing that `vdla.hw.spec.memory` words, and sees who breaks the port's
contract."""

import numpy as np
import pytest

from tests.runtime.devices.rtl.memory_probe import EVENTS, PROBE, START, TAKE_READS, Burst
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.rtl.build import Optimise, Variant, build_library
from vdla.runtime.devices.rtl.model import Model, Protocol

LATENCY, CYCLES = 5, 24
IMAGE_BYTES = 1024


@pytest.fixture(scope="module")
def library():
    return build_library(TINY, PROBE, Variant(Optimise.BUILD))


class Bench:
    """A probe behind memory; cycle 0 is the first in which the probe offers a burst."""

    def __init__(self, library, depth: int = 16, cycles_per_beat: int = 1) -> None:
        self.image = (np.arange(IMAGE_BYTES) // 8).astype(np.uint8)
        self.model = Model(library, MemoryParameters(LATENCY, depth, cycles_per_beat))
        self.model.attach(self.image)

    def send(self, *bursts: Burst, take_reads: bool = True) -> None:
        for index, burst in enumerate(bursts):
            self.model.write(4 * index, burst.word())
        self.model.write(TAKE_READS, int(take_reads))
        self.model.write(START, len(bursts))

    def events(self, cycles: int = CYCLES) -> dict[str, list[int]]:
        """Return in which of the next cycles each event happens, and the beats that were read as `data`."""
        seen = [EVENTS.from_bits(self.model.read(0)) for _ in range(cycles)]
        names = ("accept", "read", "write", "write_done", "error")
        cycles_by_event = {name: [cycle for cycle, event in enumerate(seen) if event[name]] for name in names}
        return cycles_by_event | {"data": [event.data & 0xFF for event in seen if event.read]}


def read(beats: int = 1, address: int = 0, **fields) -> Burst:
    return Burst(beats=beats, address=address, **fields)


def write(beats: int = 1, address: int = 0, **fields) -> Burst:
    return Burst(True, beats, address, **fields)


# bursts, requests in flight at most; cycles in which: bursts are accepted, beats read, beats written, writes
# answered
TIMING = {
    "first data comes `latency` cycles after acceptance": ([read()], 16, [0], [5], [], []),
    "one beat per cycle": ([read(4)], 16, [0], [5, 6, 7, 8], [], []),
    "reads follow each other without a gap": ([read(), read(), read()], 16, [0, 1, 2], [5, 6, 7], [], []),
    "a long read delays the next": ([read(3), read(2)], 16, [0, 1], [5, 6, 7, 8, 9], [], []),
    "depth 1: a burst in flight keeps others out": ([read(2), read()], 1, [0, 7], [5, 6, 12], [], []),
    "depth 2: room comes the cycle after the last beat": (
        [read(), read(), read()],
        2,
        [0, 1, 6],
        [5, 6, 11],
        [],
        [],
    ),
    "a write moves from the cycle after its acceptance": ([write()], 16, [0], [], [1], [2]),
    "a write is answered the cycle after its last beat": ([write(3)], 16, [0], [], [1, 2, 3], [4]),
    "writes follow each other without a gap": ([write(), write()], 16, [0, 1], [], [1, 2], [2, 3]),
    "depth 1 holds for writes": ([write(2), write()], 1, [0, 3], [], [1, 2, 4], [3, 5]),
    "a write waits for an earlier read": ([read(2), write(2)], 16, [0, 1], [5, 6], [7, 8], [9]),
    "a read's latency counts while a write moves": ([write(2), read()], 16, [0, 1], [6], [1, 2], [3]),
    "a long write delays a later read": ([write(8), read()], 16, [0, 1], [9], list(range(1, 9)), [9]),
    "one data path for all": ([read(2), write(2), read()], 16, [0, 1, 2], [5, 6, 9], [7, 8], [9]),
}


@pytest.mark.parametrize("name", TIMING)
def test_timing(library, name):
    bursts, depth, *expected = TIMING[name]
    bench = Bench(library, depth)
    bench.send(*bursts)
    events = bench.events()
    assert [events[key] for key in ("accept", "read", "write", "write_done")] == expected
    assert not events["error"]
    assert not bench.model.protocol


# cycles per beat, bursts; cycles in which: beats are read, beats written, writes answered
PACED = {
    "a beat every other cycle": (2, [read(3)], [5, 7, 9], [], []),
    "the next burst keeps its distance": (3, [read(2), read(2)], [5, 8, 11, 14], [], []),
    "a write keeps its distance, and is answered the cycle after": (
        4,
        [write(2), write()],
        [],
        [1, 5, 9],
        [6, 10],
    ),
    "reads and writes share the path": (4, [write(), read(), write()], [6], [1, 10], [2, 11]),
    "a path that is free does not wait": (4, [write(), read()], [6], [1], [2]),
}


@pytest.mark.parametrize("name", PACED)
def test_beats_keep_their_distance(library, name):
    cycles_per_beat, bursts, *expected = PACED[name]
    bench = Bench(library, cycles_per_beat=cycles_per_beat)
    bench.send(*bursts)
    events = bench.events()
    assert [events[key] for key in ("read", "write", "write_done")] == expected
    assert not bench.model.protocol


def test_the_path_is_free_at_the_start_of_a_run(library):
    bench = Bench(library, cycles_per_beat=20)
    bench.send(write())
    assert bench.events(3)["write"] == [1]
    bench.model.attach(bench.image)
    bench.model.write(4, write().word())
    bench.model.write(START, 2)
    assert bench.events(3)["write"] == [1]


def test_data_comes_in_the_order_of_the_requests(library):
    bench = Bench(library)
    bench.send(read(2, 64), read(1, 8), read(3, 512))
    assert bench.events()["data"] == [8, 9, 1, 64, 65, 66]


def test_a_beat_is_offered_until_it_is_taken(library):
    bench = Bench(library)
    bench.send(read(2), take_reads=False)
    assert bench.events(9)["read"] == []
    bench.model.write(TAKE_READS, 1)  # this is a cycle too
    assert bench.events()["read"] == [0, 1]


def test_a_later_read_sees_an_earlier_write(library):
    bench = Bench(library)
    bench.send(write(3, 256), read(3, 256))
    assert bench.events()["data"] == [0, 1, 2]
    assert bench.image[256:280].view(np.uint64).tolist() == [0, 1, 2]
    assert bench.image[280] == 35


@pytest.mark.parametrize(
    ("burst", "expected"),
    [
        (read(2, IMAGE_BYTES - 8), [7]),
        (read(2, IMAGE_BYTES), [6, 7]),
        (write(2, IMAGE_BYTES - 8), [3]),
    ],
)
def test_a_beat_outside_the_image_is_an_error_in_the_next_cycle(library, burst, expected):
    bench = Bench(library)
    bench.send(burst)
    assert bench.events()["error"] == expected


def test_a_read_outside_the_image_is_zero(library):
    bench = Bench(library)
    bench.send(read(2, IMAGE_BYTES - 8))
    assert bench.events()["data"] == [127, 0]


@pytest.mark.parametrize(
    ("bursts", "depth", "expected"),
    [
        ([read(1, 4)], 16, Protocol.ADDRESS_BETWEEN_BEATS),
        ([read(0)], 16, Protocol.BURST_LENGTH),
        ([read(2, 248)], 16, Protocol.BURST_CROSSES_BOUNDARY),
        ([read(33)], 16, Protocol.BURST_CROSSES_BOUNDARY),
        ([write(2, wrong_last=True)], 16, Protocol.LAST_MISPLACED),
        ([read(), read(brief=True)], 1, Protocol.REQUEST_WITHDRAWN),
    ],
)
def test_a_broken_contract_is_seen(library, bursts, depth, expected):
    bench = Bench(library, depth)
    bench.send(*bursts)
    bench.events()
    assert bench.model.protocol == expected


def test_reset_forgets_what_is_in_flight(library):
    bench = Bench(library)
    bench.send(read(4))
    bench.events(3)
    bench.model.reset()
    events = bench.events()
    assert not any(events.values())
