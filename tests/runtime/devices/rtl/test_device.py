"""The RTL device looks at Python's signals about every CHUNK_SECONDS, however fast the model is."""

from types import SimpleNamespace

import pytest

from vdla.hw.spec.errors import CycleLimitError, DeviceError
from vdla.hw.spec.registers import OFFSETS, Control
from vdla.runtime.devices.rtl import device as rtl
from vdla.runtime.devices.rtl.model import Protocol


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


class Hardware(Clock):
    """A model whose registers and memory do what a test says.

    Args:
        steps: the step counters at each look.
        transfers: the cycles in which memory moves something.
    """

    def __init__(self, steps=(), transfers=(), done=None) -> None:
        super().__init__(0.0)
        self.steps, self.transfers, self.done = iter(steps), transfers, done

    def poll(self, register: int, mask: int, cycles: int) -> bool:
        end = self.cycle + cycles
        self.cycle = end if self.done is None else min(end, self.done)
        return self.done is not None and end >= self.done

    @property
    def last_transfer(self) -> int:
        return max((at for at in self.transfers if at < self.cycle), default=0)

    def read(self, offset: int, cycles: int) -> int:
        return next(self.steps)


WATCHED = rtl.WATCHDOG_CYCLES


@pytest.mark.parametrize(
    ("steps", "transfers", "looks"),
    [
        ((0, 0), (), 1),  # no step since the start
        ((3, 0, 3, 0), (), 2),
        ((3, 0, 3, 4, 3, 4), (), 3),
        ((3, 0, 4, 0, 4, 0), (), 3),
    ],
)
def test_the_watchdog_ends_a_run_when_neither_memory_nor_steps_go_on(steps, transfers, looks):
    model = Hardware(steps, transfers)
    watchdog = rtl._Watchdog(model, 0)
    for _ in range(looks - 1):
        model.cycle += WATCHED - 1
        watchdog.check()
        model.cycle += 1
        watchdog.check()
    model.cycle += WATCHED - 1
    watchdog.check()
    model.cycle += 1
    with pytest.raises(DeviceError, match="neither finished nor done anything for 10000000 cycles"):
        watchdog.check()
    assert watchdog.has_read


def test_the_watchdog_looks_inside_only_when_memory_rests():
    model = Hardware((), (5, WATCHED - 1))
    watchdog = rtl._Watchdog(model, 0)
    for model.cycle in (WATCHED, 2 * WATCHED - 2):
        watchdog.check()
    assert not watchdog.has_read


def device_with(model):
    """Return an RTL device around a model."""
    device = object.__new__(rtl.RtlDevice)
    device._model = model
    return device


@pytest.mark.parametrize("done", [101, 102, 3000])
def test_the_cycles_of_a_run_are_those_from_its_start_to_done(done):
    model = Hardware(done=done)
    model.cycle = 100
    assert device_with(model)._step_until_done(100, None) == done - 1 - 100


@pytest.mark.parametrize(("limit", "ends"), [(50, True), (49, True), (48, False)])
def test_a_run_may_take_its_limit_of_cycles_and_no_more(limit, ends):
    model = Hardware(done=150)
    model.cycle = 100
    if ends:
        assert device_with(model)._step_until_done(100, limit) == 49
    else:
        with pytest.raises(CycleLimitError, match="stopped at its limit of 48 cycles; it had not finished"):
            device_with(model)._step_until_done(100, limit)
        assert model.cycle == 149


def test_a_register_that_counts_otherwise_than_the_clock_is_a_defect():
    device = device_with(SimpleNamespace(protocol=Protocol(0)))
    device._check_hardware(7, 7)
    device._check_hardware(7, None)
    with pytest.raises(DeviceError, match="register CYCLES says 7, but 8 cycles passed from start to done"):
        device._check_hardware(7, 8)
    device._model.protocol = Protocol.BURST_LENGTH
    with pytest.raises(DeviceError, match=r"contract of its memory port \(BURST_LENGTH\)"):
        device._check_hardware(7, 7)


def test_registers_of_two_words_are_written_and_read_low_word_first():
    written, registers = [], {OFFSETS["CYCLES"]: 5, OFFSETS["CYCLES_HIGH"]: 3}
    model = SimpleNamespace(
        write=lambda offset, value: written.append((offset, value)) or 41,
        read=lambda offset, cycles: registers[offset],
        protocol=Protocol(0),
    )
    device = device_with(model)
    assert device._start((7 << 32) + 9, 12) == 42
    names = ("STREAM_ADDRESS", "STREAM_ADDRESS_HIGH", "STREAM_COUNT", "CONTROL")
    assert written == [
        (OFFSETS[name], value) for name, value in zip(names, (9, 7, 12, Control.START), strict=True)
    ]
    device._step_until_done = lambda start, limit: None
    assert device._measure(0, None) == (3 << 32) + 5
