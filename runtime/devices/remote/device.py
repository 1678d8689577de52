"""The remote device: a device of a server (`vdla serve`) behind the contract of every device."""

import time
import weakref
from contextlib import suppress
from typing import ClassVar

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.target import Target
from vdla.runtime.device import DEFAULT_DRAM_BYTES, Device, DeviceLostError, RunResult
from vdla.runtime.devices.remote.address import Address
from vdla.runtime.devices.remote.channel import Channel
from vdla.runtime.devices.remote.messages import (
    Check,
    Close,
    Copied,
    CopyIn,
    CopyOut,
    Opened,
    Ran,
    Reply,
    Request,
    Run,
    opening,
)
from vdla.sim.decoded import DecodedStream

REQUEST_SECONDS = 60.0
"""Time after which any request but a run fails."""

CLOSE_SECONDS = 2.0
SLACK_SECONDS = 30.0


class RemoteDevice(Device):
    """A device of a server. Its DRAM is there, and nobody else's; each run is verified there.

    The server clears scratchpads before each run. A verified stream reads nothing that it has not written, so
    this changes no result.

    Args:
        config: the accelerator.
        dram_bytes: size of DRAM.
        memory: timing of the memory, where the server's device is timed.
        address: of the device.

    Raises:
        DeviceError: the server refuses the client, the device or the size of DRAM.
        DeviceLostError: the server cannot be reached.
        ToolError: gRPC is not installed.
    """

    name: ClassVar[str] = "remote"

    def __init__(
        self,
        config: AcceleratorConfig,
        dram_bytes: int = DEFAULT_DRAM_BYTES,
        memory: AnyMemory = REFERENCE_MEMORY,
        *,
        address: Address,
    ) -> None:
        super().__init__(config, dram_bytes)
        channel = Channel(address)
        request = opening(address.device, Target(config, memory), dram_bytes)
        try:
            opened = channel.ask(request, REQUEST_SECONDS)
        except BaseException:
            channel.close()
            raise
        assert isinstance(opened, Opened), opened
        self._channel, self._opened, self._lost = channel, opened, False
        self.close = weakref.finalize(self, _close, channel, opened.session)

    @property
    def lost(self) -> bool:
        """Whether the server no longer has the device; asks it."""
        with suppress(DeviceLostError):
            self._ask(Check(self._opened.session))
        return self._lost

    def _ask(self, request: Request, seconds: float = REQUEST_SECONDS) -> Reply:
        try:
            return self._channel.ask(request, seconds)
        except DeviceLostError:
            self._lost = True
            raise

    def _write_dram(self, address: int, source: np.ndarray) -> None:
        step = self._opened.copy_bytes
        for begin in range(0, source.size, step):
            part = source[begin : begin + step].tobytes()
            self._ask(CopyIn(self._opened.session, address + begin, part))

    def _read_dram(self, address: int, size: int) -> np.ndarray:
        values, step = np.empty(size, np.uint8), self._opened.copy_bytes
        for begin in range(0, size, step):
            part = min(step, size - begin)
            copied = self._ask(CopyOut(self._opened.session, address + begin, part))
            assert isinstance(copied, Copied), copied
            values[begin : begin + part] = np.frombuffer(copied.data, np.uint8)
        return values

    def run(self, stream_address: int, count: int, *, cycle_limit: int | None = None) -> RunResult:
        """Run a stream, as the contract says, after the server has verified it.

        `seconds` of the result include the way to the server and the wait for other clients.

        Raises:
            VerificationError: the stream is unsafe; nothing has run.
            DeviceError: the run exceeds a limit of the server.
            DeviceLostError: the device is gone, with its DRAM.
        """
        began = time.perf_counter()
        request = Run(self._opened.session, stream_address, count, cycle_limit)
        ran = self._ask(request, self._opened.run_seconds + SLACK_SECONDS)
        assert isinstance(ran, Ran), ran
        return RunResult(ran.cycles, time.perf_counter() - began, ran.counters)

    def verify(self, program: DecodedStream, stream_address: int) -> None:
        """Leave it to the server, which verifies every stream before it runs."""

    def reset(self) -> None:
        """Do nothing: the server clears the scratchpads before each run."""


def _close(channel: Channel, session: str) -> None:
    """Give a device back, if the server is still there."""
    with suppress(VdlaError):
        channel.ask(Close(session), CLOSE_SECONDS)
    channel.close()
