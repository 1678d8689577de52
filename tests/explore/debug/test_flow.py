"""The flow of data equals that of a plain model: the last writer of each place, in the order of starts."""

import numpy as np
import pytest

from tests.explore.debug.imaged import NAMES, contents, reference
from vdla.explore.debug.recording import NONE
from vdla.sim.timing.result import NEVER
from vdla.sim.verify.columns import DRAM


@pytest.mark.parametrize("name", NAMES)
def test_each_reader_has_the_last_writer_of_each_place(name):
    memories, places = contents(name), reference(name)
    started = memories.recording.timing.started
    last: dict[tuple[int, int], int] = {}
    expected = set()
    for index in np.argsort(started, kind="stable").tolist():
        touched = places[index] if started[index] != NEVER else {}
        for (memory, writes), memory_places in touched.items():
            if not writes:
                expected |= {(index, last.get((memory, place), NONE), memory) for place in memory_places}
        for (memory, writes), memory_places in touched.items():
            if writes:
                last.update(dict.fromkeys(((memory, place) for place in memory_places), index))
    flow = memories.flow
    rows = set(zip(flow.reader.tolist(), flow.writer.tolist(), flow.memory.tolist(), strict=True))
    assert rows == expected


def test_sources_and_readers_are_the_two_sides_of_the_flow():
    flow = contents("conv3x3_d").flow
    assert flow.sources(44) == [(0, 43), (1, 28), (2, 27), (3, 42)]
    assert (2, 44) in flow.readers(27)
    assert flow.readers(44) == [(3, 46)]


def test_origins_end_at_dram():
    flow = contents("conv3x3_d").flow
    origins = flow.origins(55)
    assert {7, 8, 27, 28, 54} <= origins
    assert all(
        memory == DRAM or writer in origins
        for each in origins
        for memory, writer in flow.sources(each)
        if writer != NONE
    )
    assert 59 not in origins
