"""Sessions of a server: the devices of its clients, each with its own DRAM, and their limits."""

import mmap
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from vdla.hw.spec.errors import DeviceError
from vdla.runtime.device import DeviceLostError
from vdla.runtime.devices.remote.messages import HEAD_BYTES, Open


def _limit(default: int, text: str, low: int = 1) -> int:
    limit: int = field(default=default, metadata={"help": text, "low": low})
    return limit


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server."""

    dram_bytes: int = _limit(512 << 20, "DRAM of all devices of a client")
    devices_per_client: int = _limit(16, "Devices of a client")
    clients: int = _limit(32, "Clients with devices")
    message_bytes: int = _limit(4 << 20, "Size of a message; larger copies take several", 2 * HEAD_BYTES)
    run_seconds: int = _limit(300, "Time of a run, its verification included")
    queue: int = _limit(64, "Runs that wait")
    queue_seconds: int = _limit(600, "Time that a run waits")
    idle_seconds: int = _limit(600, "Time without a request after which a device is given up")

    @property
    def copy_bytes(self) -> int:
        """The most that a message copies."""
        return self.message_bytes - HEAD_BYTES


@dataclass(eq=False)
class Session:
    """A device of a client: what it asked for, and its DRAM.

    DRAM is shared memory without a name in the file system, so that the process of a run maps it. Only
    written pages take memory.

    Attributes:
        client: whose it is.
        device: name of the device.
        request: what it is.
        path: opens its DRAM in another process of this user.

    Raises:
        DeviceError: the machine has no memory for it.
    """

    client: str
    device: str
    request: Open

    def __post_init__(self) -> None:
        self._file, self._dram = _shared_memory(self.request.dram_bytes)
        self.path = f"/proc/{os.getpid()}/fd/{self._file}"
        self._busy, self._used = False, time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Time since the last request; 0 during a request."""
        return 0.0 if self._busy else time.monotonic() - self._used

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold the device for a request, so that no copy changes a stream after it was verified.

        Raises:
            DeviceError: another request holds it.
        """
        if self._busy:
            raise DeviceError("the device is at work for another request; wait for the reply to that one")
        self._busy = True
        try:
            yield
        finally:
            self._busy, self._used = False, time.monotonic()

    def write(self, address: int, data: bytes) -> None:
        """Write to DRAM.

        Raises:
            DeviceError: the range is outside DRAM.
        """
        self._check(address, len(data))
        self._dram[address : address + len(data)] = data

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of DRAM.

        Raises:
            DeviceError: the range is outside DRAM.
        """
        self._check(address, size)
        return self._dram[address : address + size]

    def _check(self, address: int, size: int) -> None:
        if address + size > len(self._dram):
            raise DeviceError(
                f"a copy of {size} bytes at {address:#x} is outside the device's DRAM of "
                f"{len(self._dram)} bytes"
            )

    def close(self) -> None:
        """Give up DRAM."""
        self._dram.close()
        os.close(self._file)


def _shared_memory(size: int) -> tuple[int, mmap.mmap]:
    """Return shared memory, with the file descriptor that keeps it.

    Raises:
        DeviceError: there is none.
    """
    file = -1
    try:
        file = os.memfd_create("vdla")
        os.ftruncate(file, size)
        return file, mmap.mmap(file, size)
    except OSError as error:
        if file >= 0:
            os.close(file)
        raise DeviceError(
            f"the server has no memory or no file for {size} bytes of DRAM: {error.strerror}; run again later"
        ) from error


class Sessions:
    """All devices of a server's clients.

    Args:
        limits: of the server.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sessions: dict[str, Session] = {}

    def open(self, client: str | None, device: str, request: Open) -> tuple[str, Session]:
        """Return a new device with its secret name; without tokens, each device is a client.

        Raises:
            DeviceError: it exceeds a limit.
        """
        name = secrets.token_hex(16)
        owner = client or f"device {name[:6]}"
        self._check(owner, request.dram_bytes)
        self._sessions[name] = session = Session(owner, device, request)
        return name, session

    def _check(self, client: str, dram_bytes: int) -> None:
        """Refuse a device that exceeds a limit."""
        limits, sessions = self._limits, [each for each in self._sessions.values() if each.client == client]
        others = {each.client for each in self._sessions.values()} - {client}
        if not dram_bytes:
            raise DeviceError("a device has at least 1 byte of DRAM, and dram_bytes = 0 asks for none")
        total = dram_bytes + sum(each.request.dram_bytes for each in sessions)
        _require(total, limits.dram_bytes, "bytes of DRAM for this client", "dram-bytes")
        _require(len(sessions) + 1, limits.devices_per_client, "devices of this client", "devices-per-client")
        _require(len(others) + 1, limits.clients, "clients", "clients")

    def find(self, name: str, client: str | None) -> Session:
        """Return a device by its secret name.

        Raises:
            DeviceLostError: this client has no such device.
        """
        session = self._sessions.get(name)
        if session is None or client not in (None, session.client):
            raise DeviceLostError(
                "the server does not have this device: it was restarted, or the device had no request for "
                f"{self._limits.idle_seconds} seconds; run again"
            )
        return session

    def close(self, name: str) -> None:
        """Give up a device."""
        self._sessions.pop(name).close()

    def close_idle(self, seconds: float) -> list[Session]:
        """Give up the devices that had no request for some time, and return them."""
        idle = [name for name, each in self._sessions.items() if each.idle_seconds > seconds]
        closed = [self._sessions[name] for name in idle]
        for name in idle:
            self.close(name)
        return closed


def _require(count: int, limit: int, what: str, option: str) -> None:
    if count > limit:
        raise DeviceError(
            f"the server would have {count} {what}, and the limit is {limit}; close a device, wait, or start "
            f"the server with more --{option}"
        )
