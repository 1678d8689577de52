"""The RTL device looks at Python's signals about every CHUNK_SECONDS, however fast the model is."""

from types import SimpleNamespace

import pytest

from vdla.runtime.devices.rtl import device as rtl


class Clock:
    """A model that takes `seconds` for each cycle, and the clock that shows it."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.polled = seconds, 0.0, []
        self.cycle = 0

    def poll(self, register: int, mask: int, cycles: int) -> bool:
        self.polled.append(cycles)
        self.now += cycles * self.seconds
        return False


@pytest.mark.parametrize(
    ("seconds", "settled"), [(1e-6, 64_000), (1e-3, 62), (1.0, 1)], ids=["fast", "slow", "a cycle a second"]
)
def test_chunks_grow_and_shrink_to_the_time_between_two_looks(monkeypatch, seconds, settled):
    model = Clock(seconds)
    monkeypatch.setattr(rtl, "time", SimpleNamespace(perf_counter=lambda: model.now))
    chunk = rtl._Chunk()
    for _ in range(20):
        assert not chunk.poll(model, None)
    assert model.polled[0] == rtl.FIRST_CHUNK_CYCLES
    assert model.polled[-3:] == [settled] * 3


def test_a_chunk_ends_with_the_run(monkeypatch):
    model = Clock(1e-6)
    monkeypatch.setattr(rtl, "time", SimpleNamespace(perf_counter=lambda: model.now))
    rtl._Chunk().poll(model, 10)
    assert model.polled == [10]
