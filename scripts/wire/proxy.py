"""A proxy between driver and board that loses, doubles or damages bytes, or closes the connection."""

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from threading import Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Kind(StrEnum):
    """What happens to a byte."""

    LOSE = "lose"
    DOUBLE = "double"
    DAMAGE = "damage"
    CLOSE = "close"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the wire.

    Attributes:
        to_board: of what goes to the board; False: of what comes from it.
        place: how many bytes pass in that direction before.
        kind: what happens.
        bits: that DAMAGE changes.
    """

    to_board: bool
    place: int
    kind: Kind
    bits: int = 1


class Proxy:
    """A port of this machine that leads to a board while its context lasts.

    Args:
        board: the board's port, as socket://HOST:PORT.
        reset: resets the board.

    Attributes:
        port: stands for the board's port.
        faults: that are still to happen.
        happened: how many happened.
        passed: bytes that passed, by direction: to the board, from it.
    """

    def __init__(self, board: str, reset: Callable[[], None]) -> None:
        parts = urlsplit(board)
        self._board, self._reset = (str(parts.hostname), int(parts.port or 0)), reset
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = f"socket://127.0.0.1:{self._server.getsockname()[1]}"
        self.faults: list[Fault] = []
        self.happened, self.passed = 0, {True: 0, False: 0}
        self._thread = Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client, suppress(OSError), socket.create_connection(self._board) as board:
                self._forward(client, board)

    def _forward(self, client: socket.socket, board: socket.socket) -> None:
        """Pass bytes on until one side closes or a fault does."""
        while True:
            ready, _, _ = select.select([client, board, self._server], [], [], 0.2)
            if self._server.fileno() < 0:  # the context has ended
                return
            for source in (each for each in ready if each is not self._server):
                data = source.recv(4096)
                if not data:
                    return
                passing = self._changed(data, source is client)
                if passing is None:
                    return
                (board if source is client else client).sendall(passing)
            if self._server in ready:
                return  # a new client ends the connection of the client before

    def _changed(self, data: bytes, to_board: bool) -> bytes | None:
        """Return what arrives of some bytes; None: the connection ends."""
        start = self.passed[to_board]
        self.passed[to_board] += len(data)
        due = [f for f in self.faults if f.to_board == to_board and start <= f.place < start + len(data)]
        for fault in sorted(due, key=lambda each: -each.place):
            self.faults.remove(fault)
            self.happened += 1
            place = fault.place - start
            match fault.kind:
                case Kind.LOSE:
                    data = data[:place] + data[place + 1 :]
                case Kind.DOUBLE:
                    data = data[: place + 1] + data[place:]
                case Kind.DAMAGE:
                    data = data[:place] + bytes([data[place] ^ fault.bits]) + data[place + 1 :]
                case Kind.CLOSE:
                    return None
                case Kind.RESET:
                    self._reset()
        return data
