"""The contract of every device: allocate DRAM, copy into and out of it, and run streams."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import DeviceError
from vdla.sim.decoded import DecodedStream

DEFAULT_DRAM_BYTES = 256 << 20
PAGE_BYTES = 4096


class DeviceLostError(DeviceError):
    """A remote device is gone with its DRAM: its server ended, cannot be reached, or ended the session. Or a
    board is: its cable was pulled, it was reset, or it does not answer."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The cost of one run of a stream.

    Attributes:
        cycles: from the cycle in which start is accepted to the cycle in which done rises; None on
            untimed devices.
        seconds: wall time of the run on this machine.
        counters: the registers of `vdla.hw.spec.registers` that count, by name; empty where a device has
            none.
    """

    cycles: int | None
    seconds: float
    counters: Mapping[str, int] = field(default_factory=dict)


class Device(ABC):
    """An accelerator of one configuration with its DRAM.

    Scratchpads keep their contents from run to run, as in hardware; `reset` clears them. DRAM starts as zero.

    Args:
        config: the accelerator.
        dram_bytes: size of DRAM; addresses run from 0.

    Raises:
        DeviceError: the accelerator's AXI addresses do not reach all of DRAM.
    """

    name: ClassVar[str]

    def __init__(self, config: AcceleratorConfig, dram_bytes: int = DEFAULT_DRAM_BYTES) -> None:
        reach = 1 << config.axi_address_width
        if dram_bytes > reach:
            raise DeviceError(
                f"dram_bytes = {dram_bytes} is more than AXI addresses of {config.axi_address_width} bits "
                f"reach, {reach} bytes; make axi_address_bits larger"
            )
        self.config, self.dram_bytes = config, dram_bytes
        self._next_free = PAGE_BYTES  # address 0 is never handed out

    @property
    def lost(self) -> bool:
        """Whether DRAM is gone, as after the server of a remote device ended; only a new device can run."""
        return False

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes of DRAM and return their address, page-aligned.

        Raises:
            DeviceError: DRAM is full.
        """
        address = self._next_free
        if address + size > self.dram_bytes:
            raise DeviceError(
                f"allocating {size} bytes at {address:#x} exceeds the device's DRAM of {self.dram_bytes} "
                "bytes; "
                "give the device more with dram_bytes"
            )
        self._next_free = address + -(-max(size, 1) // PAGE_BYTES) * PAGE_BYTES
        return address

    def copy_in(self, address: int, values: np.ndarray | bytes) -> None:
        """Write the bytes of `values` to DRAM at `address`."""
        source = (
            np.frombuffer(values, np.uint8)
            if isinstance(values, bytes)
            else np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        )
        self._check_range("copy_in", address, source.size)
        self._write_dram(address, source)

    def copy_out(self, address: int, size: int) -> np.ndarray:
        """Return a copy of `size` bytes of DRAM from `address`, as uint8[size]."""
        self._check_range("copy_out", address, size)
        return self._read_dram(address, size)

    def _check_range(self, action: str, address: int, size: int) -> None:
        if address < 0 or address + size > self.dram_bytes:
            raise DeviceError(
                f"{action} of {size} bytes at {address:#x} is outside the device's DRAM of "
                f"{self.dram_bytes} bytes"
            )

    @abstractmethod
    def _write_dram(self, address: int, source: np.ndarray) -> None:
        """Write uint8[bytes] to a range that lies in DRAM."""

    @abstractmethod
    def _read_dram(self, address: int, size: int) -> np.ndarray:
        """Return a copy of a range that lies in DRAM, uint8[size]."""

    def execute(
        self, instructions: Iterable[isa.Instruction] | bytes, *, cycle_limit: int | None = None
    ) -> RunResult:
        """Copy a stream into newly allocated DRAM and run it, as `run` does, without verification."""
        stream = (
            instructions if isinstance(instructions, bytes) else codec.to_bytes(instructions, self.config)
        )
        address = self.allocate(len(stream))
        self.copy_in(address, stream)
        return self.run(address, len(stream) // self.config.instruction_bytes, cycle_limit=cycle_limit)

    @abstractmethod
    def run(self, stream_address: int, count: int, *, cycle_limit: int | None = None) -> RunResult:
        """Run the `count` instructions at byte address `stream_address` (a multiple of
        `instruction_bytes`) in DRAM.

        Devices of this machine do not verify the stream; `vdla.runtime.session.launch.Launch` verifies before
        it runs.

        Args:
            cycle_limit: stop a timed device after this many cycles; None: only a deadlock or a fault stops
                it.

        Raises:
            InvalidInstructionError: an instruction that this configuration does not have.
            OverwriteError: a STORE would write the stream, or micro-ops that it loads; nothing has changed.
            AccessError: an access outside a scratchpad or outside DRAM.
            DeadlockError: no unit can go on.
            UnfinishedError: the stream has no FINISH, or ends before it.
            CycleLimitError: `cycle_limit` was reached.
            VerificationError: a remote device verifies every stream, and this stream is unsafe; nothing
                has changed.
            DeviceLostError: a remote device is gone.
        """

    @abstractmethod
    def verify(self, program: DecodedStream, stream_address: int) -> None:
        """Raise an error if a stream in DRAM is unsafe; a device whose `run` verifies may leave it to that.

        Args:
            program: the stream, decoded.
            stream_address: its byte address.

        Raises:
            VerificationError, OverwriteError: it is unsafe.
            InvalidInstructionError, DeadlockError, UnfinishedError: it cannot run to its end.
        """

    @abstractmethod
    def reset(self) -> None:
        """Clear the scratchpads, as after power-up; DRAM keeps its contents."""
