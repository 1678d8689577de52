"""Launching a stream on a device.

A launch places tensors and the stream in DRAM. Placement checks that the stream stays inside its tensors. The
first run verifies the stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import Device, RunResult
from vdla.runtime.session.tensors import Tensor, check_tensors
from vdla.runtime.stream.builder import UOP_TENSOR, Stream
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.verify.verifier import verify


@dataclass
class Launch:
    """A stream in a device's DRAM, which can be run any number of times.

    Attributes:
        addresses: of its tensors.
        verifies: verify the stream before its first run.
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
            VerificationError, OverwriteError: the stream is unsafe; nothing has run. Also the errors of
                `Device.run`.
        """
        if self.verifies and not self._verified:
            verify(self.program(), self.device.dram, stream_address=self.stream_address)
            self._verified = True
        return self.device.run(self.stream_address, self.stream.count, cycle_limit=cycle_limit)

    def program(self) -> DecodedStream:
        """Return the stream in DRAM, decoded."""
        config = self.device.config
        encoded = self.device.copy_out(self.stream_address, self.stream.count * config.instruction_bytes)
        return decode_stream(encoded.reshape(-1, config.instruction_bytes), config)


def place(device: Device, stream: Stream, sizes: Mapping[str, int], *, verifies: bool = True) -> Launch:
    """Allocate tensors of the given sizes in bytes, which the stream may read and write; place the stream.

    Raises:
        DeviceError: DRAM is full.
        AccessError: the stream reaches outside its tensors.
    """
    tensors = {name: Tensor(allocate(device, size), size) for name, size in sizes.items()}
    return place_stream(device, stream, tensors, verifies=verifies)


def allocate(device: Device, size: int) -> int:
    """Reserve DRAM for a tensor; return its address, a multiple of every element's size.

    Raises:
        DeviceError: DRAM is full.
    """
    alignment = max(device.config.element_bytes(memory) for memory in MemoryType)
    return -(-device.allocate(size + alignment) // alignment) * alignment


def place_stream(
    device: Device, stream: Stream, tensors: Mapping[str, Tensor], *, verifies: bool = True
) -> Launch:
    """Place a stream and its micro-ops; `tensors` says where its tensors are.

    Raises:
        DeviceError: DRAM is full.
        AccessError: the stream reaches outside its tensors; see `check_tensors`.
        EncodingError: an address does not fit the stream's instructions.
    """
    size = stream.uops.nbytes
    placed = {**tensors, UOP_TENSOR: Tensor(allocate(device, size), size, writable=False)}
    addresses = {name: tensor.address for name, tensor in placed.items()}
    encoded = stream.relocated(addresses)
    check_tensors(decode_stream(encoded, device.config), stream.tensors, placed)
    device.copy_in(addresses[UOP_TENSOR], stream.uops)
    stream_address = device.allocate(encoded.nbytes)
    device.copy_in(stream_address, encoded)
    return Launch(device, stream, addresses, stream_address, verifies)
