"""A device's DRAM: what lies outside is refused, to the byte, and addresses are handed out in order."""

from types import SimpleNamespace

import numpy as np
import pytest

from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import AccessError
from vdla.hw.spec.presets import TINY
from vdla.runtime.device import PAGE_BYTES, Device, DeviceError
from vdla.runtime.devices.functional import FunctionalDevice

SIZE = 8 * PAGE_BYTES
INSTRUCTION = TINY.instruction_bytes
RANGES = [  # address, bytes, whether they are inside
    (0, 0, True),
    (0, 1, True),
    (0, SIZE, True),
    (0, SIZE + 1, False),
    (-1, 1, False),
    (-1, 0, False),
    (SIZE - 1, 1, True),
    (SIZE - 1, 2, False),
    (SIZE, 0, True),
    (SIZE, 1, False),
    (SIZE + 1, 0, False),
]


@pytest.fixture
def device() -> FunctionalDevice:
    return FunctionalDevice(TINY, SIZE)


@pytest.mark.parametrize(("address", "size", "inside"), RANGES)
def test_copies_reach_every_byte_and_no_other(device, address, size, inside):
    device.dram[:] = 7
    if inside:
        device.copy_in(address, bytes([9] * size))
        assert np.flatnonzero(device.dram == 9).tolist() == list(range(address, address + size))
        assert device.copy_out(address, size).tolist() == [9] * size
        return
    for action, copy in (
        ("copy_in", lambda: device.copy_in(address, bytes(size))),
        ("copy_out", lambda: device.copy_out(address, size)),
    ):
        with pytest.raises(DeviceError) as caught:
            copy()
        assert str(caught.value) == (
            f"{action} of {size} bytes at {address:#x} is outside the device's DRAM of {SIZE} bytes"
        )
    assert (device.dram == 7).all()


@pytest.mark.parametrize(
    ("address", "count", "inside"),
    [
        (0, 0, True),
        (0, SIZE // INSTRUCTION, True),
        (INSTRUCTION, SIZE // INSTRUCTION - 1, True),
        (INSTRUCTION, SIZE // INSTRUCTION, False),
        (-INSTRUCTION, 1, False),
        (INSTRUCTION, -1, False),
    ],
)
def test_a_stream_lies_in_dram(device, address, count, inside):
    if inside:
        assert device._stream(address, count).shape == (count, INSTRUCTION)
        return
    with pytest.raises(AccessError) as caught:
        device.run(address, count)
    assert str(caught.value) == (
        f"a stream of {count} instructions at {address:#x} is outside the device's DRAM of {SIZE} bytes"
    )


def test_a_stream_begins_at_an_instruction(device):
    with pytest.raises(DeviceError, match=rf"^stream address 0x1 is not a multiple of {INSTRUCTION}$"):
        device.run(1, 1)


def test_memory_is_handed_out_in_whole_pages_and_never_address_0(device):
    assert [device.allocate(size) for size in (0, 1, 4096, 4097)] == [4096, 8192, 12288, 16384]
    with pytest.raises(
        DeviceError, match=f"^allocating {2 * PAGE_BYTES + 1} bytes at {6 * PAGE_BYTES:#x} exceeds"
    ):
        device.allocate(2 * PAGE_BYTES + 1)
    assert device.allocate(2 * PAGE_BYTES) == 6 * PAGE_BYTES


def test_a_stream_is_executed_as_instructions_or_as_bytes(device):
    stream = codec.to_bytes([isa.Finish()], TINY)
    for given in ([isa.Finish()], stream, stream * 3):
        place = device.allocate(0) + PAGE_BYTES
        device.execute(given)
        whole = given if isinstance(given, bytes) else stream
        assert device.copy_out(place, len(whole)).tobytes() == whole


class Counting(Device):
    """A device that notes what it is to run."""

    def run(self, stream_address, count, *, cycle_limit=None):
        self.asked = stream_address, count, cycle_limit

    def reset(self):
        raise AssertionError("nobody asked for it")

    verify = _read_dram = reset

    def _write_dram(self, address, source):
        pass


def test_as_many_instructions_are_run_as_are_given():
    device = Counting(TINY, 1 << 16)
    device.execute([isa.Finish()] * 3, cycle_limit=7)
    assert device.asked == (4096, 3, 7)


def test_dram_has_256_mebibytes_unless_told_otherwise():
    assert Counting(TINY).dram_bytes == 256 * 1024 * 1024


def test_dram_may_be_as_large_as_addresses_reach():
    config = SimpleNamespace(axi_address_width=12)
    assert Counting(config, 4096).dram_bytes == 4096
    with pytest.raises(DeviceError, match="reach, 4096 bytes"):
        Counting(config, 4097)


def test_dram_is_no_larger_than_addresses_reach():
    narrow = TINY.with_changes(axi_address_bits=32)
    with pytest.raises(DeviceError, match=r"^dram_bytes = 4294967297 is more than AXI addresses of 32 bits"):
        FunctionalDevice(narrow, (1 << 32) + 1)
