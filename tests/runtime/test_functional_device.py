"""The functional device keeps the device contract."""

import signal
import threading

import numpy as np
import pytest

from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import AccessError, DeviceError, OverwriteError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

ADD_AND_STORE = (
    isa.Alu(alu_opcode=AluOpcode.ADD, use_imm=1, imm=5, uop_end=1, iter_out=1, iter_in=1, push_next=1),
    isa.Store(memory_type=MemoryType.OUT, dram_base=1, y_size=1, x_size=1, pop_prev=1),
    isa.Finish(),
)


@pytest.fixture
def device():
    return FunctionalDevice(TINY, 1 << 16)


def test_scratchpads_keep_their_contents_from_run_to_run(device):
    for expected in (5, 10, 15):
        device.execute(ADD_AND_STORE)
        assert device.copy_out(4, 4).tolist() == [expected] * 4


def test_reset_clears_scratchpads_and_keeps_dram(device):
    device.execute(ADD_AND_STORE)
    device.reset()
    assert not device.machine.pads.acc.any()
    assert device.copy_out(4, 4).tolist() == [5] * 4


GIANT = (
    isa.Alu(alu_opcode=AluOpcode.ADD, use_imm=1, imm=1, uop_end=16, iter_out=16383, iter_in=16383),
    isa.Finish(),
)


@pytest.mark.parametrize("kind", [FunctionalDevice, CycleDevice])
def test_an_interrupted_run_leaves_what_it_has_done_and_the_device_runs_again(kind):
    device = kind(TINY, 1 << 16)
    device.execute(ADD_AND_STORE)  # compiles
    pads = device._machine.pads if kind is CycleDevice else device.machine.pads
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a background job starts with it ignored
    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        device.execute(GIANT)
    timer.join()
    signal.signal(signal.SIGINT, before)
    done = int(pads.acc[0, 0, 0]) % (1 << 32) - 5
    assert 0 < done < 16 * 16383 * 16383
    assert done % 16 == 0
    device.execute(ADD_AND_STORE)
    assert device.copy_out(4, 4).tolist() == [(done + 10) % 256] * 4
    device.reset()
    device.execute(ADD_AND_STORE)
    assert device.copy_out(4, 4).tolist() == [5] * 4


def test_there_are_no_cycles_and_a_cycle_limit_is_ignored(device):
    result = device.execute(ADD_AND_STORE, cycle_limit=1)
    assert result.cycles is None
    assert result.seconds > 0
    assert result.counters["ALU_STEPS"] == 1


@pytest.mark.parametrize(("address", "count"), [(0xFFF0, 2), (0x10010, 0), (-16, 1), (0x1000, -1)])
def test_a_stream_outside_dram_is_refused(device, address, count):
    with pytest.raises(AccessError) as caught:
        device.run(address, count)
    assert str(caught.value) == (
        f"a stream of {count} instructions at {address:#x} is outside the device's DRAM of 65536 bytes"
    )


@pytest.mark.parametrize(("address", "size"), [(-1, 4), (65533, 4), (65536, 1), (0, 65537), (1 << 40, 0)])
def test_copies_outside_dram_are_refused_and_change_nothing(device, address, size):
    message = f" of {size} bytes at {address:#x} is outside the device's DRAM of 65536 bytes"
    with pytest.raises(DeviceError) as caught:
        device.copy_in(address, np.ones(size, np.uint8))
    assert str(caught.value) == f"copy_in{message}"
    with pytest.raises(DeviceError) as caught:
        device.copy_out(address, size)
    assert str(caught.value) == f"copy_out{message}"
    assert not device.dram.any()


@pytest.mark.parametrize(("address", "size"), [(0, 65536), (65532, 4), (65536, 0)])
def test_copies_reach_both_ends_of_dram(device, address, size):
    values = np.arange(size).astype(np.uint8)
    device.copy_in(address, values)
    assert device.copy_out(address, size).tolist() == values.tolist()


def test_a_stream_at_an_odd_address_is_refused(device):
    with pytest.raises(DeviceError, match="stream address 0x1008 is not a multiple of 16"):
        device.run(0x1008, 1)


def test_a_stream_that_overwrites_itself_stays_as_it_was(device):
    store = isa.Store(memory_type=MemoryType.OUT, dram_base=0x1000 // 4, y_size=1, x_size=12, sram_base=0)
    with pytest.raises(OverwriteError, match="overwrites instruction 0 of the stream that is running"):
        device.execute((store, store, isa.Finish()))
    assert device.copy_out(0x1000, 48).tobytes() == codec.to_bytes(
        (store, store, isa.Finish()), device.config
    )
