"""Links: limits of time, lengths of commands, errors of the serial port and of Etherbone."""

import socket
from threading import Thread

import msgspec
import numpy as np
import pytest

from tests.boards.test_board_file import FILE
from vdla.boards.board_file import LinkTable, MapTable
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.registers import IDENTITY, OFFSETS, VERSION
from vdla.runtime.device import DeviceLostError
from vdla.runtime.devices.board.driver import Driver
from vdla.runtime.devices.board.link import (
    LONGEST_COMMAND,
    MAPPED_BYTES,
    EtherboneLink,
    UartLink,
    WireError,
    open_link,
)


@pytest.fixture
def served():
    """Yield a listening socket and the table of a link to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = f"socket://127.0.0.1:{server.getsockname()[1]}"
        yield server, LinkTable(kind="uartbone", port=port, baud=1_000_000, answer_seconds=0.2, quiet_ms=100)


@pytest.fixture
def link(served):
    server, table = served
    link = open_link(table)
    client, _ = server.accept()
    yield link, client
    link.close()
    client.close()


def test_words_of_a_read_arrive_in_order(link):
    link, client = link
    Thread(
        target=lambda: client.sendall(b"\x00\x00\x00\x01\x00\x00\x00\x02") if client.recv(6) else None
    ).start()
    assert link.read(0x4000_0000, 2) == [1, 2]


def test_a_command_names_length_and_word_address(link):
    link, client = link
    link.write(0x4000_0010, [0x01020304])
    with pytest.raises(WireError):
        link.read(0x4000_0010, 1)
    assert client.recv(100) == bytes.fromhex("01 01 10 00 00 04 01 02 03 04 02 01 10 00 00 04")


@pytest.mark.parametrize("answer", [b"", b"\x00\x00\x00"])
def test_an_answer_that_is_missing_or_short_is_a_wire_error(link, answer):
    link, client = link
    client.sendall(answer)
    with pytest.raises(WireError, match=r"no answer in 0\.2 s"):
        link.read(0, 1)


def test_what_arrives_before_silence_is_dropped(link):
    link, client = link
    client.sendall(b"\x01\x02\x03")
    link.settle()
    assert not link._comm.port.inWaiting()


def test_a_closed_connection_is_a_lost_device(link):
    link, client = link
    client.close()
    with pytest.raises(
        DeviceLostError, match=r"connection to the board at socket://127\.0\.0\.1:\d+ is gone"
    ):
        link.read(0, 1)


@pytest.mark.parametrize(("baud", "longest"), [(1_000_000, LONGEST_COMMAND), (115_200, 142), (9600, 10)])
def test_a_command_takes_half_the_time_after_which_the_board_drops_it(served, baud, longest):
    _, table = served
    link = UartLink(msgspec.structs.replace(table, baud=baud))
    assert link.longest == longest
    link.close()


def test_a_port_that_is_not_there_is_an_error():
    with pytest.raises(DeviceError, match="the serial port /dev/none of the board cannot be opened"):
        open_link(LinkTable(kind="uartbone", port="/dev/none"))


def test_an_etherbone_board_that_does_not_answer_is_an_error():
    table = LinkTable(kind="etherbone", port="127.0.0.1", answer_seconds=0.02)
    with pytest.raises(DeviceError, match=r"no board answers at 127\.0\.0\.1, UDP port 1234"):
        EtherboneLink(table)


@pytest.fixture
def memory(tmp_path):
    """Yield the file that stands for physical memory, and a link to it."""
    file = tmp_path / "mem"
    file.write_bytes(bytes(4 * MAPPED_BYTES))
    link = open_link(LinkTable(kind="devmem", port=str(file), quiet_ms=0))
    yield file, link
    link.close()


def test_physical_memory_has_words_across_mappings(memory):
    file, link = memory
    start = MAPPED_BYTES - 8
    link.write(start, [1, 2, 0xFFFF_FFFF, 0x0403_0201])
    assert link.read(start, 4) == [1, 2, 0xFFFF_FFFF, 0x0403_0201]
    expected = bytes.fromhex("01000000 02000000 ffffffff 01020304")
    assert file.read_bytes()[start - 4 : start + 20] == bytes(4) + expected + bytes(4)


def test_the_driver_reaches_registers_and_dram_through_physical_memory(memory):
    _, link = memory
    place = MapTable(registers=0x1000, memory=MAPPED_BYTES, memory_bytes=MAPPED_BYTES)
    file = msgspec.structs.replace(FILE, map=place)
    with pytest.raises(DeviceError, match=r"has IDENTITY = 0x00000000, and its board file expects"):
        Driver(file, link)
    digest = int(file.board.config_digest[:8], 16)
    for name, value in {"IDENTITY": IDENTITY, "VERSION": VERSION, "CONFIG_DIGEST": digest}.items():
        link.write(0x1000 + OFFSETS[name], [value])
    driver = Driver(file, link)
    data = np.arange(8192, dtype=np.uint32).view(np.uint8)
    driver.write_dram(64, data)
    assert driver.holds(64, data)
    np.testing.assert_array_equal(driver.read_dram(64, data.size), data)
    assert link.read(MAPPED_BYTES + 64 + 4 * 8191, 2) == [8191, 0]


def test_memory_that_cannot_be_opened_or_mapped_is_an_error(memory, tmp_path):
    with pytest.raises(
        DeviceError, match=r"none, the physical memory of the board, cannot be opened: .*as root"
    ):
        open_link(LinkTable(kind="devmem", port=str(tmp_path / "none")))
    _, link = memory
    with pytest.raises(
        DeviceError, match=r"0x100000 bytes of .*mem at 0x400000 cannot be mapped: .*; reserve the"
    ):
        link.read(4 * MAPPED_BYTES, 1)
