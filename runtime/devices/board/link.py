"""Links: words on the bus of a board's system on chip, through the communication classes of LiteX.

No link acknowledges writes, and a serial link has no checksum. The caller has to read back what it wrote.
"""

import mmap
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from litex.tools.remote.comm_uart import CommUART
from litex.tools.remote.comm_udp import CommUDP

from vdla.boards.board_file import LinkTable
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.device import DeviceLostError

T = TypeVar("T")
WORD_BYTES = 4
HEADER_BYTES = 6  # of a command of UARTBone: command, length, address
BITS_PER_BYTE = 10  # on a serial line, with start and stop bit
LONGEST_COMMAND = 255  # words: the length of a command has 8 bits
LONGEST_PACKET = 7  # words of an Etherbone packet: LiteX's core buffers 16, and stops unless two packets fit
ETHERBONE_PORT = 1234
LONGEST_COPY = 1024  # words of physical memory that are read or written together
MAPPED_BYTES = 1 << 20  # of physical memory, in one mapping
SENT_BYTES = 1024  # a serial link sends at most that many bytes at once


class WireError(Exception):
    """An answer is missing, late or damaged. The link works again after `settle`."""


class Link:
    """Words on a bus, over one connection.

    Args:
        link: the connection, as the board file describes it.
        comm: LiteX's side of it, open.
        longest: words that a read may have.

    Attributes:
        longest: as the argument.
        where: the port, for messages.
    """

    faults: tuple[type[Exception], ...] = (TimeoutError,)
    lost: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, link: LinkTable, comm: Any, longest: int) -> None:
        self.where, self.longest = link.port, longest
        self._comm, self._quiet_seconds = comm, link.quiet_ms / 1000

    def read(self, address: int, count: int) -> list[int]:
        """Return `count` words, at most `longest`, from a byte address.

        Raises:
            WireError: the answer is missing or incomplete.
            DeviceLostError: the connection is gone.
        """
        words: list[int] = self._tried(lambda: self._comm.read(address, count))
        if len(words) != count:
            raise WireError(f"{len(words)} words answer a read of {count} words at {address:#x}")
        return words

    def write(self, address: int, words: Sequence[int]) -> None:
        """Write words from a byte address; nothing tells whether they arrive.

        Raises:
            WireError: they cannot be sent in time.
            DeviceLostError: the connection is gone.
        """
        self._tried(lambda: self._comm.write(address, list(words)))

    def settle(self) -> None:
        """Keep silent until the board has dropped a command that it received in part."""
        time.sleep(self._quiet_seconds)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._comm.close()

    def _tried(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except self.faults as error:
            raise WireError(str(error) or "no answer in time") from error
        except self.lost as error:
            raise DeviceLostError(
                f"the connection to the board at {self.where} is gone ({error}); check cable and power, and "
                "run again"
            ) from error


class _TimedPort:
    """A serial port with limits of time, for a class of LiteX that waits without end.

    Written bytes are collected, and sent together before the next read.
    """

    def __init__(self, port: Any, seconds: float) -> None:
        self._port, self._seconds, self._unsent = port, seconds, bytearray()
        port.timeout = port.write_timeout = seconds

    def write(self, data: Sequence[int]) -> int:
        """Collect bytes, and send them if they are many; return how many bytes were taken."""
        self._unsent += bytes(data)
        if len(self._unsent) >= SENT_BYTES:
            self._send()
        return len(data)

    def inWaiting(self) -> int:
        """Return how many bytes have arrived."""
        return int(self._port.in_waiting)

    def read(self, size: int) -> bytes:
        """Return `size` bytes.

        Raises:
            TimeoutError: they do not arrive in time.
        """
        self._send()
        data = bytes(self._port.read(size))
        if len(data) < size:
            raise TimeoutError(f"no answer in {self._seconds:g} s")
        return data

    def drop(self) -> None:
        """Drop the bytes that were collected and the bytes that have arrived."""
        self._unsent.clear()
        self._port.reset_input_buffer()

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def _send(self) -> None:
        data, self._unsent = bytes(self._unsent), bytearray()
        if data:
            self._port.write(data)


class UartLink(Link):
    """UARTBone over a serial port, or over a socket where the port is socket://HOST:PORT.

    A command has to arrive within `quiet_ms`, else the board drops it. Commands are therefore so short that
    they take half of that.

    Raises:
        DeviceError: the port cannot be opened.
    """

    def __init__(self, link: LinkTable) -> None:
        bytes_in_time = link.baud / BITS_PER_BYTE * link.quiet_ms / 1000 / 2
        longest = int((bytes_in_time - HEADER_BYTES) // WORD_BYTES)
        super().__init__(link, _opened(link), max(1, min(longest, LONGEST_COMMAND)))

    def settle(self) -> None:
        """Keep silent until the board has dropped a command that it received in part."""
        super().settle()
        self._tried(self._comm.port.drop)


def _opened(link: LinkTable) -> Any:
    """Return LiteX's side of a serial link, with limits of time."""
    try:
        comm = CommUART(link.port, link.baud)
    except (OSError, ValueError) as error:
        raise DeviceError(
            f"the serial port {link.port} of the board cannot be opened: {error}; check the cable and your "
            "rights, or name the port in [link] of the board file"
        ) from error
    comm.port = _TimedPort(comm.port, link.answer_seconds)
    return comm


class EtherboneLink(Link):
    """Etherbone over UDP, whose packets have checksums; LiteX repeats a read without answer.

    Raises:
        DeviceError: the board does not answer.
    """

    def __init__(self, link: LinkTable) -> None:
        comm = CommUDP(link.port, ETHERBONE_PORT, timeout=link.answer_seconds)
        try:
            comm.open()
        except Exception as error:  # LiteX raises no specific class
            comm.close()
            raise DeviceError(
                f"no board answers at {link.port}, UDP port {ETHERBONE_PORT}: {error}; check the cable and "
                "the address in [link] of the board file"
            ) from error
        super().__init__(link, comm, LONGEST_PACKET)

    def write(self, address: int, words: Sequence[int]) -> None:
        """Write words, as `Link.write` says, in packets of at most `longest` words."""
        for first in range(0, len(words), self.longest):
            super().write(address + WORD_BYTES * first, words[first : first + self.longest])


class _PhysicalMemory:
    """Physical memory of this machine by words, in the form of LiteX's communication classes.

    O_SYNC makes mappings of /dev/mem uncached, so the accelerator sees what was written, in that order.

    Raises:
        OSError: the device cannot be opened.
        DeviceError: of reads and writes: the system does not let the memory be mapped.
    """

    def __init__(self, device: str) -> None:
        self._device, self._file = device, os.open(device, os.O_RDWR | os.O_SYNC)
        self._mapped: dict[int, tuple[mmap.mmap, memoryview]] = {}

    def read(self, address: int, count: int) -> list[int]:
        """Return `count` words from a byte address."""
        return [self._words(at)[at % MAPPED_BYTES // WORD_BYTES] for at in _places(address, count)]

    def write(self, address: int, words: Sequence[int]) -> None:
        """Write words from a byte address."""
        for at, word in zip(_places(address, len(words)), words, strict=True):
            self._words(at)[at % MAPPED_BYTES // WORD_BYTES] = word

    def close(self) -> None:
        """Unmap the memory, and close the device."""
        for memory, words in self._mapped.values():
            words.release()
            memory.close()
        os.close(self._file)

    def _words(self, address: int) -> memoryview:
        """Return the words of the mapping that holds a byte address."""
        base = address - address % MAPPED_BYTES
        if base not in self._mapped:
            try:
                memory = mmap.mmap(self._file, MAPPED_BYTES, offset=base)
            except (OSError, ValueError) as error:
                raise DeviceError(
                    f"{MAPPED_BYTES:#x} bytes of {self._device} at {base:#x} cannot be mapped: {error}; "
                    "reserve the memory of [map] in the device tree, as docs/boards.md says"
                ) from error
            self._mapped[base] = memory, memoryview(memory).cast("I")
        return self._mapped[base][1]


def _places(address: int, count: int) -> range:
    """Return the byte addresses of `count` words."""
    return range(address, address + WORD_BYTES * count, WORD_BYTES)


class MemoryLink(Link):
    """Physical memory of the machine that runs the driver: the processor of a Zynq.

    Raises:
        DeviceError: the device cannot be opened.
    """

    def __init__(self, link: LinkTable) -> None:
        try:
            memory = _PhysicalMemory(link.port)
        except OSError as error:
            raise DeviceError(
                f"{link.port}, the physical memory of the board, cannot be opened: {error}; run on the "
                "processor of the board, as root"
            ) from error
        super().__init__(link, memory, LONGEST_COPY)


LINKS: dict[str, Callable[[LinkTable], Link]] = {
    "uartbone": UartLink,
    "etherbone": EtherboneLink,
    "devmem": MemoryLink,
}


def open_link(link: LinkTable) -> Link:
    """Return a connection to a board.

    Raises:
        DeviceError: the board cannot be reached.
    """
    return LINKS[link.kind](link)
