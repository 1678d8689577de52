"""Running a stream on a device: tensors get their places, the stream its addresses, and it is proved safe before it runs first."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.hw.spec.vocabulary import INSTRUCTION_BYTES, MemoryType
from vdla.runtime.builder import UOP_TENSOR, Stream
from vdla.runtime.device import Device, RunResult
from vdla.sim.program import Program, decode_program
from vdla.sim.verify.verifier import verify


@dataclass
class Launch:
    """A stream that stands in a device's DRAM and can be run any number of times.

    Attributes:
        addresses: of its tensors.
        verifies: prove the stream safe before its first run.
    """

    device: Device
    stream: Stream
    addresses: Mapping[str, int]
    stream_address: int
    verifies: bool = True
    _verified: bool = field(default=False, repr=False)

    def write(self, name: str, values: np.ndarray) -> None:
        """Copy `values` into a tensor."""
        self.device.copy_in(self.addresses[name], values)

    def read(self, name: str, shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
        """Return a tensor's contents."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.device.copy_out(self.addresses[name], size).view(dtype).reshape(shape)

    def run(self, *, cycle_limit: int | None = None) -> RunResult:
        """Run the stream.

        Raises:
            VerificationError: it is not safe, before anything runs; and what `Device.run` raises.
        """
        if self.verifies and not self._verified:
            verify(self.program(), self.device.dram)
            self._verified = True
        return self.device.run(self.stream_address, self.stream.count, cycle_limit=cycle_limit)

    def program(self) -> Program:
        """Return the stream as it stands in DRAM, decoded."""
        encoded = self.device.copy_out(self.stream_address, self.stream.count * INSTRUCTION_BYTES)
        return decode_program(encoded.reshape(-1, INSTRUCTION_BYTES), self.device.config)


def place(device: Device, stream: Stream, sizes: Mapping[str, int], *, verifies: bool = True) -> Launch:
    """Allocate tensors of the given sizes in bytes, and the stream.

    Raises:
        DeviceError: DRAM is full.
    """
    return place_stream(device, stream, {name: allocate(device, size) for name, size in sizes.items()}, verifies=verifies)


def allocate(device: Device, size: int) -> int:
    """Reserve DRAM for a tensor; return its address, a multiple of every element's size.

    Raises:
        DeviceError: DRAM is full.
    """
    alignment = max(device.config.element_bytes(memory) for memory in MemoryType)
    return -(-device.allocate(size + alignment) // alignment) * alignment


def place_stream(device: Device, stream: Stream, tensors: Mapping[str, int], *, verifies: bool = True) -> Launch:
    """Allocate a stream and its micro-ops; its tensors stand at the addresses given already.

    Raises:
        DeviceError: DRAM is full.
    """
    addresses = {**tensors, UOP_TENSOR: allocate(device, stream.uops.nbytes)}
    device.copy_in(addresses[UOP_TENSOR], stream.uops)
    encoded = stream.relocated(addresses)
    stream_address = device.allocate(len(encoded) * INSTRUCTION_BYTES)
    device.copy_in(stream_address, encoded)
    return Launch(device, stream, addresses, stream_address, verifies)
