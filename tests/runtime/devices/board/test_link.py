"""Links: limits of time, lengths of commands, errors of the serial port and of Etherbone."""

import socket
from threading import Thread

import msgspec
import pytest

from vdla.boards.board_file import LinkTable
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.device import DeviceLostError
from vdla.runtime.devices.board.link import LONGEST_COMMAND, EtherboneLink, UartLink, WireError, open_link


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
