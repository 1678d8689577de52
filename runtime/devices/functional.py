"""The device without time: the exact meaning of a stream, as fast as this machine allows."""

import time
from typing import ClassVar

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import AccessError, DeviceError
from vdla.hw.spec.vocabulary import INSTRUCTION_BYTES
from vdla.runtime.device import DEFAULT_DRAM_BYTES, Device, RunResult
from vdla.sim.functional import Machine


class FunctionalDevice(Device):
    """Executes whole instructions, in program order where tokens allow it.

    Args:
        config: the accelerator.
        dram_bytes: size of DRAM.
        seed: None: the order is deterministic. Else each run picks at random among the units that can go on, so
            that a token missing from a stream shows as a wrong result for some seed.

    Attributes:
        machine: the model, with its scratchpads.
    """

    name: ClassVar[str] = "functional"

    def __init__(self, config: AcceleratorConfig, dram_bytes: int = DEFAULT_DRAM_BYTES,
                 seed: int | None = None) -> None:
        super().__init__(config, dram_bytes)
        self.seed = seed
        self.machine = Machine(config)

    def run(self, stream_address: int, count: int, *, cycle_limit: int | None = None) -> RunResult:
        """Run a stream, as the contract says. `cycle_limit` is ignored: there are no cycles, and every run ends.

        The counters are those of `vdla.sim.functional.counters`.
        """
        stream = self._stream(stream_address, count)
        started = time.perf_counter()
        counters = self.machine.run(stream, self.dram, seed=self.seed)
        return RunResult(None, time.perf_counter() - started, counters)

    def _stream(self, address: int, count: int) -> np.ndarray:
        """Return the stream, uint8[count, 16], as a view of DRAM."""
        if address % INSTRUCTION_BYTES:
            raise DeviceError(f"stream address {address:#x} is not a multiple of {INSTRUCTION_BYTES}")
        end = address + count * INSTRUCTION_BYTES
        if address < 0 or count < 0 or end > len(self.dram):
            raise AccessError(f"a stream of {count} instructions at {address:#x} is outside the device's DRAM of "
                              f"{len(self.dram)} bytes")
        return self.dram[address:end].reshape(count, INSTRUCTION_BYTES)

    def reset(self) -> None:
        """Clear the scratchpads; DRAM keeps its contents."""
        self.machine.pads.clear()
