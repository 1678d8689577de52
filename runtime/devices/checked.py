"""What every device of this machine does before it runs a stream: decode it, and refuse
self-modifying streams."""

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import final

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import AccessError, DeviceError
from vdla.runtime.device import DEFAULT_DRAM_BYTES, Device, RunResult
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.overwrites import refuse_overwrites
from vdla.sim.verify.verifier import verify_once


class CheckedDevice(Device):
    """The base of every device of this machine: `run` is common to all; `_run` is how a device runs a decoded
    stream.

    Attributes:
        dram: uint8[dram_bytes].
        verifies: `run` verifies each stream first, as a server does with its clients' streams.
    """

    verifies = False

    def __init__(self, config: AcceleratorConfig, dram_bytes: int = DEFAULT_DRAM_BYTES) -> None:
        super().__init__(config, dram_bytes)
        self.dram = np.zeros(dram_bytes, np.uint8)

    def _write_dram(self, address: int, source: np.ndarray) -> None:
        self.dram[address : address + source.size] = source

    def _read_dram(self, address: int, size: int) -> np.ndarray:
        return self.dram[address : address + size].copy()

    def _stream(self, address: int, count: int) -> np.ndarray:
        """Return the stream of `count` instructions at byte `address`, uint8[count, instruction_bytes],
        as a view of DRAM."""
        size = self.config.instruction_bytes
        if address % size:
            raise DeviceError(f"stream address {address:#x} is not a multiple of {size}")
        end = address + count * size
        if address < 0 or count < 0 or end > len(self.dram):
            raise AccessError(
                f"a stream of {count} instructions at {address:#x} is outside the device's DRAM of "
                f"{len(self.dram)} bytes"
            )
        return self.dram[address:end].reshape(count, size)

    def word_at(self, stream_address: int, index: int) -> int:
        """Return the encoding of instruction `index` of the stream at byte `stream_address` of DRAM."""
        size = self.config.instruction_bytes
        return int.from_bytes(self.copy_out(stream_address + index * size, size).tobytes(), "little")

    @final
    def run(self, stream_address: int, count: int, *, cycle_limit: int | None = None) -> RunResult:
        """Run a stream, as the contract says.

        Raises:
            OverwriteError: the stream would change itself; DRAM and scratchpads are as before.
            VerificationError: the device verifies streams, and this stream is unsafe, likewise.
        """
        began = time.perf_counter()
        program = decode_stream(self._stream(stream_address, count), self.config)
        if self.verifies:
            self.verify(program, stream_address)
        refuse_overwrites(program, stream_address)
        cycles, counters = self._run(program, stream_address, cycle_limit)
        return RunResult(cycles, time.perf_counter() - began, counters)

    def verify(self, program: DecodedStream, stream_address: int) -> None:
        """Raise an error if a stream is unsafe, as the contract says; a verdict is kept in the cache."""
        verify_once(program, self.dram, stream_address=stream_address)

    @abstractmethod
    def _run(
        self, program: DecodedStream, stream_address: int, cycle_limit: int | None
    ) -> tuple[int | None, Mapping[str, int]]:
        """Run a stream that does not modify itself; return its cycles and counters, as `RunResult` has them.

        Args:
            program: the stream, decoded.
            stream_address: where it stands in DRAM.
            cycle_limit: as for `run`.

        Raises:
            ProgramError, CycleLimitError: as for `run`.
        """
