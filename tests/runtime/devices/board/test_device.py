"""The board device in front of a board in Python: results, transfers that are saved, errors."""

from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import pytest
from wire.python_board import STEPS

from tests.programs.cases import store
from tests.runtime.devices.board.boards import (
    COPY,
    DRAM_BYTES,
    RESULT,
    STREAM,
    expected,
    image,
    opened,
    ran,
    with_port,
)
from vdla.boards.board_file import LinkTable, to_toml
from vdla.hw.spec import codec, isa, target_files
from vdla.hw.spec.errors import (
    AccessError,
    ConfigError,
    CycleLimitError,
    DeviceError,
    InvalidInstructionError,
    UnfinishedError,
)
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.sdram import SdramParameters
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import PAGE_BYTES, DeviceLostError
from vdla.runtime.devices.board import link as link_module
from vdla.runtime.devices.board.device import BoardDevice
from vdla.runtime.devices.cycle import CycleDevice


@pytest.fixture
def device(board, tmp_path):
    with opened(board.file, tmp_path) as device:
        yield device


def test_a_run_gives_the_dram_of_the_functional_device(device):
    result = ran(device)
    np.testing.assert_array_equal(result, expected())
    assert not np.array_equal(result, image())


def test_a_run_through_physical_memory_gives_the_same(board, tmp_path, monkeypatch):
    """The bus of the board in Python stands in for /dev/mem of a Zynq, word by word."""

    class Bus:
        def __init__(self, device):
            assert device == "/dev/mem"

        def read(self, address, count):
            return [board._read(address + 4 * place) for place in range(count)]

        def write(self, address, words):
            for place, word in enumerate(words):
                board._write(address + 4 * place, word)

        def close(self):
            pass

    monkeypatch.setattr(link_module, "_PhysicalMemory", Bus)
    table = LinkTable(kind="devmem", port="/dev/mem", quiet_ms=0)
    with opened(msgspec.structs.replace(board.file, link=table), tmp_path) as device:
        np.testing.assert_array_equal(ran(device), expected())


def test_dram_is_initialised_in_the_order_of_the_steps_and_once_per_reset(board, tmp_path):
    for seed in (1, 2):
        with opened(board.file, tmp_path) as device:
            np.testing.assert_array_equal(ran(device, seed), expected(seed))
    before = board.initialisations
    board.reset()
    with opened(board.file, tmp_path):
        assert board.initialisations == before + 1


def test_steps_that_initialise_nothing_are_an_error(board, tmp_path):
    wrong = msgspec.structs.replace(board.file.memory, init=STEPS[:-2])
    with (
        pytest.raises(DeviceError, match=r"does not keep what is written at 0x\w+ in 5 attempts"),
        opened(msgspec.structs.replace(board.file, memory=wrong), tmp_path) as device,
    ):
        ran(device)


def test_dram_that_was_never_written_is_zero(board, device):
    board._dram[:] = 0xAA
    device.copy_in(STREAM, COPY)
    device.run(STREAM, len(COPY) // TINY.instruction_bytes)
    wanted = CycleDevice(TINY, DRAM_BYTES)
    wanted.copy_in(STREAM, COPY)
    wanted.run(STREAM, len(COPY) // TINY.instruction_bytes)
    np.testing.assert_array_equal(device.copy_out(0, DRAM_BYTES), wanted.copy_out(0, DRAM_BYTES))


def test_what_the_board_has_is_not_sent_again(board, device):
    ran(device)
    before = board.written
    device.copy_in(0, image()[:RESULT])
    device.run(STREAM, len(COPY) // TINY.instruction_bytes)
    assert board.written == before
    changed = image()[:RESULT].copy()
    changed[PAGE_BYTES] ^= 1
    device.copy_in(0, changed)
    device.run(STREAM, len(COPY) // TINY.instruction_bytes)
    assert board.written - before in (0, PAGE_BYTES // 4)


def test_results_that_the_host_changes_in_part_keep_their_other_bytes(device):
    ran(device)
    device.copy_in(RESULT + 3, b"\x55\x66")
    wanted = expected()
    wanted[RESULT + 3 : RESULT + 5] = 0x55, 0x66
    np.testing.assert_array_equal(device.copy_out(0, STREAM), wanted)


def test_a_reset_clears_the_scratchpads(board, device):
    ran(device)
    device.reset()
    device.copy_in(0, np.zeros(RESULT, np.uint8))
    device.copy_in(RESULT, np.full(64, 7, np.uint8))
    device.copy_in(STREAM, encoded(store(4, address=RESULT), isa.Finish()))
    device.run(STREAM, 2)
    size = 4 * TINY.element_bytes(MemoryType.OUT)
    stored = device.copy_out(RESULT, 64)
    assert not stored[:size].any()
    assert (stored[size:] == 7).all()


def encoded(*instructions) -> bytes:
    return codec.to_bytes(instructions, TINY)


def test_faults_are_the_errors_of_the_other_devices(device):
    device.copy_in(STREAM, encoded(isa.Load(memory_type=2, x_size=0)))
    with pytest.raises(UnfinishedError, match=r"none was FINISH \(FAULT.UNFINISHED"):
        device.run(STREAM, 1)
    device.copy_in(STREAM, (5).to_bytes(16, "little"))
    with pytest.raises(InvalidInstructionError, match="instruction 0"):
        device.run(STREAM, 1)
    np.testing.assert_array_equal(ran(device), expected())


def test_a_run_after_its_limit_of_cycles_is_an_error(board, device, monkeypatch):
    monkeypatch.setattr("vdla.runtime.devices.board.device.read_cycles", lambda registers: 11)
    device.copy_in(STREAM, encoded(isa.Finish()))
    device.run(STREAM, 1, cycle_limit=11)
    with pytest.raises(CycleLimitError, match="took 11 cycles, more than its limit of 10 cycles"):
        device.run(STREAM, 1, cycle_limit=10)
    assert not device.lost


def test_a_stream_outside_dram_is_refused(device):
    with pytest.raises(AccessError, match="outside the device's DRAM"):
        device.run(DRAM_BYTES, 1)


def test_another_configuration_is_refused(board, tmp_path):
    (tmp_path / "board.toml").write_text(to_toml(board.file))
    with pytest.raises(DeviceError, match=r"holds the configuration tiny .* and small .* is to run"):
        BoardDevice(SMALL, DRAM_BYTES, board=str(tmp_path))
    with pytest.raises(DeviceError, match=r"bytes of DRAM are needed, and board python has 1048576 bytes"):
        BoardDevice(TINY, 1 << 21, board=str(tmp_path))
    with pytest.raises(ConfigError):
        BoardDevice(TINY, DRAM_BYTES, board=str(tmp_path / "none"))


@pytest.mark.parametrize("register", ["IDENTITY", "VERSION", "CONFIG_DIGEST"])
def test_a_wrong_bitstream_is_named(board, tmp_path, register):
    board._core.registers[register] ^= 1
    with (
        pytest.raises(DeviceError, match=f"has {register} = .* the FPGA holds another bitstream"),
        opened(board.file, tmp_path),
    ):
        pass


def test_the_memory_is_that_of_the_target_in_the_board_file(board, tmp_path):
    target = replace(board.file.target, memory=SdramParameters())
    table = msgspec.structs.replace(board.file.board, target=target_files.to_toml(target))
    with opened(msgspec.structs.replace(board.file, board=table), tmp_path) as device:
        assert device.memory == SdramParameters()


def test_a_cable_that_is_pulled_is_a_lost_device_and_the_next_device_runs(board, tmp_path):
    with opened(board.file, tmp_path) as device:
        ran(device)
        board.disconnect()
        with pytest.raises(DeviceLostError, match=r"the connection to the board at socket://.* is gone"):
            device.run(STREAM, len(COPY) // TINY.instruction_bytes)
        assert device.lost
        with pytest.raises(DeviceLostError, match="is closed; make a new device"):
            device.copy_in(0, b"\x01")
    with opened(board.file, tmp_path) as device:
        np.testing.assert_array_equal(ran(device), expected())


@pytest.mark.parametrize("action", ["read", "run", "write"])
def test_a_reset_of_the_board_is_a_lost_device_and_the_next_device_runs(board, tmp_path, action):
    with opened(board.file, tmp_path) as device:
        device.copy_in(0, image())
        device.copy_in(STREAM, COPY)
        device.run(STREAM, len(COPY) // TINY.instruction_bytes)
        board.reset()
        if action == "write":
            device.copy_in(0, image(3))
        use = partial(device.copy_out, RESULT, 4) if action == "read" else partial(device.run, STREAM, 4)
        with pytest.raises(DeviceLostError, match="the board was reset, and its DRAM is lost; run again"):
            use()
        assert device.lost
    with opened(board.file, tmp_path) as device:
        np.testing.assert_array_equal(ran(device), expected())


def test_a_board_that_does_not_end_its_run_is_lost(board, tmp_path, monkeypatch):
    file = msgspec.structs.replace(board.file, link=msgspec.structs.replace(board.file.link, run_seconds=0.3))
    with opened(file, tmp_path) as device:
        monkeypatch.setattr(type(board._core), "_execute", lambda self: None)
        with pytest.raises(DeviceLostError, match=r"the run has not ended in 0\.3 s"):
            ran(device)
    board.reset()


def test_a_port_that_does_not_open_is_an_error(board, tmp_path):
    with (
        pytest.raises(DeviceError, match=r"serial port /dev/none of the board cannot be opened"),
        opened(with_port(board.file, "/dev/none"), tmp_path),
    ):
        pass
