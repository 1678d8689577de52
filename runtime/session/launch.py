"""Launching a stream on a device.

A launch places tensors and the stream in DRAM. Placement checks that the stream stays inside its tensors. The
first run verifies the stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.hw.spec.errors import AccessError
from vdla.hw.spec.footprint import dram_access, forms_in_dram
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import Device, RunResult
from vdla.runtime.stream.builder import UOP_TENSOR, Stream
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.rows import DramRows, dram_rows

NO_TENSOR = -1
AGAIN = "compile it again"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named range of DRAM that streams use.

    Attributes:
        address: of its first byte.
        size: in bytes.
        writable: STOREs may write it; LOADs of UOP may not read it then, because micro-ops are verified once.
    """

    address: int
    size: int
    writable: bool = True

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.address + self.size


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
            self.verify(self.program())
            self._verified = True
        return self.device.run(self.stream_address, self.stream.count, cycle_limit=cycle_limit)

    def verify(self, program: DecodedStream) -> None:
        """Raise an error if the stream in DRAM, decoded, is unsafe.

        Raises:
            VerificationError, OverwriteError: it is.
            InvalidInstructionError, DeadlockError, UnfinishedError: it cannot run to its end.
        """
        self.device.verify(program, self.stream_address)

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


def check_tensors(
    program: DecodedStream, users: Mapping[str, np.ndarray], tensors: Mapping[str, Tensor]
) -> None:
    """Refuse a stream that reaches outside its tensors: each row of a transfer must lie in its tensor.

    Args:
        program: the stream, relocated and decoded.
        users: by tensor, the positions of the instructions that were relocated to it.
        tensors: where they stand; at least the tensors of `users`.

    Raises:
        AccessError: naming the instruction, the bytes, its tensor (or the nearest) and what to do.
    """
    owners = _owners(program, users)
    used = {name: tensors[name] for name in users}
    wrong = [
        breach
        for form in forms_in_dram()
        if (breach := _first_breach(program, dram_rows(program, form), owners, used)) is not None
    ]
    if wrong:
        raise min(wrong, key=lambda breach: breach[0])[1]


def _owners(program: DecodedStream, users: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return int64[n]: the place in `users` of each instruction's tensor; NO_TENSOR where it has none."""
    owners, names = np.full(len(program), NO_TENSOR), list(users)
    for number, (name, positions) in enumerate(users.items()):
        taken = positions[owners[positions] != NO_TENSOR].tolist()
        if taken:
            raise AccessError(
                f"instruction {taken[0]} is relocated to two tensors, "
                f"{names[owners[taken[0]]]!r} and {name!r}; {AGAIN}",
                taken[0],
            )
        moving = [form.opcode for form in forms_in_dram()]
        others = positions[~np.isin(program.opcode[positions], moving)].tolist()
        if others:
            raise AccessError(
                f"instruction {others[0]} is relocated to the tensor {name!r}, but is "
                f"neither {' nor '.join(opcode.name for opcode in moving)}; {AGAIN}",
                others[0],
            )
        owners[positions] = number
    return owners


def _first_breach(
    program: DecodedStream, rows: DramRows, owners: np.ndarray, tensors: Mapping[str, Tensor]
) -> tuple[int, AccessError] | None:
    """Return the error of the first of some transfers that does what it must not."""
    row_owners = owners[rows.index]
    low, high, writable = (
        np.array([*(getattr(tensor, name) for tensor in tensors.values()), 0])
        for name in ("address", "end", "writable")
    )
    outside = (row_owners == NO_TENSOR) | (rows.begin < low[row_owners]) | (rows.end > high[row_owners])
    writing = [form.opcode for form in forms_in_dram() if dram_access(form).writes]
    stores = np.isin(program.opcode[rows.index], writing)
    misused = np.where(
        stores, writable[row_owners] == 0, (rows.memory == MemoryType.UOP) & (writable[row_owners] != 0)
    )
    if not np.any(outside | misused):
        return None
    place = int(np.argmax(outside | misused))
    name = None if row_owners[place] == NO_TENSOR else list(tensors)[row_owners[place]]
    begin, end = _wrong_row(rows, place, int(low[row_owners[place]]), int(high[row_owners[place]]))
    verb, index = "writes" if stores[place] else "reads", int(rows.index[place])
    reason = _elsewhere(name, begin, tensors) if outside[place] else _misuse(name, bool(stores[place]))
    did = f"{program.describe(index)} {verb} DRAM bytes {begin:#x}..{end - 1:#x}"
    return index, AccessError(f"{did}, {reason}; {AGAIN}", index)


def _wrong_row(rows: DramRows, place: int, low: int, high: int) -> tuple[int, int]:
    """Return begin and end of a transfer's first row that is not inside [low, high); else of row 0."""
    columns = (rows.begin, rows.stride, rows.width, rows.count)
    begin, stride, width, count = (int(column[place]) for column in columns)
    if begin >= low and stride:
        row = max(0, (high - width - begin) // stride + 1)
        begin += row * stride if row < count else 0
    return begin, begin + width


def _elsewhere(name: str | None, byte: int, tensors: Mapping[str, Tensor]) -> str:
    """Say which tensor a transfer misses; `name` None: it has none, and the nearest to the byte is named."""
    if not tensors:
        return "and the stream has no tensors"
    relation = "outside its tensor"
    if name is None:
        relation = "but belongs to no tensor; the nearest is"
        name = min(tensors, key=lambda key: max(tensors[key].address - byte, byte - tensors[key].end + 1, 0))
    tensor = tensors[name]
    where = f" at {tensor.address:#x}..{tensor.end - 1:#x}" if tensor.size else ", which is empty"
    return f"{relation} {name!r}{where}"


def _misuse(name: str | None, stores: bool) -> str:
    if stores:
        return f"of the tensor {name!r}, which is read-only"
    return f"as micro-ops, of the tensor {name!r}, which is writable"
