"""Every device refuses a stream that would change itself, whichever way it is run."""

import numpy as np
import pytest

from tests.programs.cases import FILL, all_out, store
from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import DeviceError, OverwriteError
from vdla.hw.spec.presets import TINY
from vdla.runtime.device import PAGE_BYTES
from vdla.runtime.devices.checked import CheckedDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.registry import DEVICE_CLASSES, device_factory
from vdla.runtime.vectors import Segment, Vector, replay, stream_address

FILLED = (
    FILL,
    *all_out()[:1],
    store(4, address=PAGE_BYTES, pop_prev=1),
    isa.Finish(),
)  # `execute` puts a first stream there


@pytest.mark.parametrize("name", DEVICE_CLASSES)
def test_every_device_runs_streams_in_the_checked_way(name):
    kind = device_factory(name)
    assert issubclass(kind, CheckedDevice)
    assert kind.run is CheckedDevice.run


@pytest.mark.parametrize("name", DEVICE_CLASSES)
def test_every_device_refuses_dram_that_axi_addresses_do_not_reach(name):
    message = (
        "dram_bytes = 4294967297 is more than AXI addresses of 32 bits reach, 4294967296 bytes; make "
        "axi_address_bits larger"
    )
    with pytest.raises(DeviceError, match=message):
        device_factory(name)(TINY.with_changes(axi_address_bits=32), (1 << 32) + 1)


@pytest.mark.parametrize("name", ["functional", "cycle"])
def test_execute_refuses(name):
    device = device_factory(name)(TINY, 1 << 17)
    with pytest.raises(
        OverwriteError,
        match=r"overwrites instruction 0 of the stream that is running, DRAM bytes 0x1000\.\.0x100f",
    ):
        device.execute(FILLED)
    assert device.copy_out(PAGE_BYTES, 64).tobytes() == codec.to_bytes(FILLED, TINY)


@pytest.mark.parametrize("name", ["functional", "cycle"])
def test_replay_refuses(name):
    segment = Segment(PAGE_BYTES, np.zeros(8 * PAGE_BYTES, np.uint8), None)
    empty = Vector("v", TINY, np.zeros((4, 16), np.uint8), (segment,))
    items = (*FILLED[:2], store(4, address=stream_address(empty), pop_prev=1), isa.Finish())
    stream = np.frombuffer(codec.to_bytes(items, TINY), np.uint8).reshape(-1, 16)
    with pytest.raises(OverwriteError, match="overwrites instruction 0 of the stream"):
        replay(Vector("v", TINY, stream, (segment,)), device_factory(name))


def test_a_refused_stream_leaves_the_scratchpads():
    device = FunctionalDevice(TINY, 1 << 17)
    before = device.machine.pads.acc.copy()
    device.copy_in(8192, np.full(256, 7, np.uint8))
    with pytest.raises(OverwriteError):
        device.execute(FILLED)
    np.testing.assert_array_equal(device.machine.pads.acc, before)
