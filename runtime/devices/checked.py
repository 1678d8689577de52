"""What every device does before it runs a stream: decode it, and refuse a self-modifying one."""

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import final

from vdla.runtime.device import Device, RunResult
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.overwrites import refuse_overwrites


class CheckedDevice(Device):
    """The base of every device: `run` is common to all; `_run` is how a device runs a decoded stream."""

    @final
    def run(self, stream_address: int, count: int, *, cycle_limit: int | None = None) -> RunResult:
        """Run a stream, as the contract says.

        Raises:
            OverwriteError: the stream would change itself; DRAM and scratchpads are as before.
        """
        began = time.perf_counter()
        program = decode_stream(self._stream(stream_address, count), self.config)
        refuse_overwrites(program, stream_address)
        cycles, counters = self._run(program, stream_address, cycle_limit)
        return RunResult(cycles, time.perf_counter() - began, counters)

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
