"""The contract of every device: allocate DRAM, copy into and out of it, and run streams."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import AccessError, DeviceError

DEFAULT_DRAM_BYTES = 256 << 20
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class RunResult:
    """The cost of one run of a stream.

    Attributes:
        cycles: from the cycle in which start is accepted to the one in which done rises; None on untimed
            devices.
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
        self.config = config
        self.dram = np.zeros(dram_bytes, np.uint8)
        self._next_free = PAGE_BYTES  # address 0 is never handed out

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes of DRAM and return their address, page-aligned.

        Raises:
            DeviceError: DRAM is full.
        """
        address = self._next_free
        if address + size > len(self.dram):
            raise DeviceError(
                f"allocating {size} bytes at {address:#x} exceeds the device's DRAM of {len(self.dram)} "
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
        self.dram[address : address + source.size] = source

    def copy_out(self, address: int, size: int) -> np.ndarray:
        """Return a copy of `size` bytes of DRAM from `address`, as uint8[size]."""
        self._check_range("copy_out", address, size)
        return self.dram[address : address + size].copy()

    def _check_range(self, action: str, address: int, size: int) -> None:
        if address < 0 or address + size > len(self.dram):
            raise DeviceError(
                f"{action} of {size} bytes at {address:#x} is outside the device's DRAM of "
                f"{len(self.dram)} bytes"
            )

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

    @abstractmethod
    def run(self, stream_address: int, count: int, *, cycle_limit: int | None = None) -> RunResult:
        """Run the `count` instructions at byte address `stream_address` (a multiple of
        `instruction_bytes`) in DRAM.

        The stream is not verified; `vdla.runtime.session.launch.Launch` verifies before it runs.

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
        """

    @abstractmethod
    def reset(self) -> None:
        """Clear the scratchpads, as after power-up; DRAM keeps its contents."""
