"""Launching: tensors get their places, and nothing unsafe runs."""

import numpy as np
import pytest

from tests.compiler.network.compiled import handmade
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.session import launch
from vdla.runtime.session.launch import Launch, allocate, place, place_stream
from vdla.runtime.session.tensors import Tensor

LARGE = DEFAULT.with_changes(block_in=128, block_out=128, wgt_buffer_bytes=1 << 20, acc_buffer_bytes=1 << 20)


@pytest.mark.parametrize("config", [TINY, DEFAULT, LARGE], ids=["tiny", "default", "large"])
def test_tensors_stand_at_multiples_of_every_element_and_apart(config):
    device, ends = FunctionalDevice(config, 1 << 20), 0
    for size in (1, 5000, 4096, 3):
        address = allocate(device, size)
        assert all(address % config.element_bytes(memory) == 0 for memory in MemoryType)
        assert ends <= address
        ends = address + size


def test_tensors_are_written_and_read_by_name():
    _, plan = handmade("several ends")
    stream = next(iter(plan.streams.values()))
    placed = place(
        FunctionalDevice(TINY, 1 << 20), stream, dict.fromkeys(stream.tensors, 1024) | {"more": 64}
    )
    values = np.arange(16, dtype=np.int32).reshape(4, 4)
    placed.write("more", values)
    np.testing.assert_array_equal(placed.read("more", (4, 4), np.int32), values)


@pytest.mark.parametrize(("options", "times"), [({}, 1), ({"verifies": True}, 1), ({"verifies": False}, 0)])
def test_a_stream_is_proved_safe_once_unless_that_is_not_wanted(options, times, monkeypatch):
    asked = []
    monkeypatch.setattr(
        launch, "verify", lambda program, dram, stream_address, **_: asked.append(stream_address)
    )
    _, plan = handmade("only the host")
    assert not plan.streams
    _, plan = handmade("several ends")
    stream = next(iter(plan.streams.values()))
    device = FunctionalDevice(TINY, 1 << 20)
    placed = place(device, stream, dict.fromkeys(stream.tensors, 1024), **options)
    tensors = {name: Tensor(placed.addresses[name], 1024) for name in stream.tensors}
    beside = place_stream(device, stream, tensors, **options)
    alone = Launch(device, stream, placed.addresses, placed.stream_address, **options)
    for one in (placed, beside, alone):
        asked.clear()
        for _ in range(3):
            one.run()
        assert asked == [one.stream_address] * times
