"""The Etherbone link against LiteEth's Etherbone core: migen simulates its RTL in front of a memory."""

import random
import socket
from collections.abc import Iterator
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from liteeth.common import eth_udp_user_description
from liteeth.frontend.etherbone import LiteEthEtherbone
from litex.gen import LiteXModule
from litex.soc.interconnect import stream, wishbone
from litex.tools.remote.comm_udp import CommUDP
from migen.sim import passive, run_simulation

from vdla.boards.board_file import LinkTable
from vdla.runtime.devices.board import link as links
from vdla.runtime.devices.board.link import EtherboneLink, open_link

BUFFER_DEPTH = 16
"""Words that the core buffers of a packet: LiteX's default."""
MEMORY_BYTES = 4096
LONGEST_DATAGRAM = 2048
WORD_BYTES = 4
LAST_BYTE = 0b1000
"""Mark of the last byte of a datagram's last word."""
CLIENT = ("127.0.0.1", 0)


class Board(LiteXModule):
    """LiteEth's Etherbone core, the master of a bus with a memory. Datagrams of UDP enter and leave by words."""

    def __init__(self) -> None:
        self.received = stream.Endpoint(eth_udp_user_description(32))
        self.sent = stream.Endpoint(eth_udp_user_description(32))
        port = SimpleNamespace(sink=self.sent, source=self.received)
        crossbar = SimpleNamespace(dw=32, get_port=lambda number, dw, cd: port)
        udp = SimpleNamespace(crossbar=crossbar)
        self.core = LiteEthEtherbone(udp, links.ETHERBONE_PORT, buffer_depth=BUFFER_DEPTH)
        self.memory = wishbone.SRAM(MEMORY_BYTES, bus=self.core.wishbone.bus)


class Wire:
    """A UDP socket at the pins of a board."""

    def __init__(self, board: Board) -> None:
        self.board, self.ended = board, Event()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(CLIENT)
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]
        self._client = CLIENT

    def receive(self) -> Iterator[Any]:
        """Give the board the words of each datagram; end with the test."""
        sink = self.board.received
        while not self.ended.is_set():
            try:
                datagram, self._client = self.socket.recvfrom(LONGEST_DATAGRAM)
            except BlockingIOError:
                yield
                continue
            words = [datagram[at : at + WORD_BYTES] for at in range(0, len(datagram), WORD_BYTES)]
            for number, word in enumerate(words):
                last = number == len(words) - 1
                yield sink.valid.eq(1)
                yield sink.data.eq(int.from_bytes(word, "little"))
                yield sink.length.eq(len(datagram))
                yield sink.last.eq(last)
                yield sink.last_be.eq(LAST_BYTE if last else 0)
                yield
                while not (yield sink.ready):
                    if self.ended.is_set():
                        return
                    yield
            yield sink.valid.eq(0)
            yield

    @passive
    def send(self) -> Iterator[Any]:
        """Send a datagram for each packet of the board."""
        source, packet = self.board.sent, bytearray()
        yield source.ready.eq(1)
        while True:
            yield
            if (yield source.valid):
                packet += (yield source.data).to_bytes(WORD_BYTES, "little")
                if (yield source.last):
                    self.socket.sendto(packet, self._client)
                    packet.clear()


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Iterator[EtherboneLink]:
    """Yield the driver's link to a board that a thread simulates."""
    board = Board()
    wire = Wire(board)
    thread = Thread(target=run_simulation, args=(board, [wire.receive(), wire.send()]))
    thread.start()
    monkeypatch.setattr(links, "ETHERBONE_PORT", wire.port)
    monkeypatch.setattr(CommUDP, "open", _opened_at_any_port)
    try:
        opened = open_link(LinkTable(kind="etherbone", port=CLIENT[0], answer_seconds=20.0))
        assert isinstance(opened, EtherboneLink)
        yield opened
        opened.close()
    finally:
        wire.ended.set()
        thread.join()
        wire.socket.close()


def _opened_at_any_port(comm: CommUDP) -> None:
    """Open a connection as LiteX does, but at a free port: the board has the port of the protocol."""
    comm.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    comm.socket.bind(CLIENT)
    comm.socket.settimeout(comm.timeout)
    comm.probe(comm.server, comm.port)


@pytest.mark.parametrize("count", [1, links.LONGEST_PACKET, 40])
def test_words_are_read_as_they_were_written(link, count):
    words = [random.Random(count).getrandbits(32) for _ in range(count)]
    link.write(64, words)
    read = [
        word
        for first in range(0, count, link.longest)
        for word in link.read(64 + WORD_BYTES * first, min(link.longest, count - first))
    ]
    assert read == words
