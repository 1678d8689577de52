"""Conformance vectors: programs made by VTA's runtime, with the DRAM before and after, and their replay.

Source: `tests/vectors/vta/README.md` for the format.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vdla.hw.spec.config import PARAMETER_NAMES, AcceleratorConfig
from vdla.hw.spec.errors import ConfigError, FileFormatError
from vdla.hw.spec.limits import DRAM_BYTES, require_room
from vdla.hw.spec.presets import VTA
from vdla.hw.spec.showing import shown
from vdla.runtime.arrays import read_npz
from vdla.runtime.device import PAGE_BYTES, Device, RunResult

MOST_META_BYTES = 1 << 20
MOST_NAME_CHARACTERS = 200

DeviceFactory = Callable[[AcceleratorConfig, int], Device]


@dataclass(frozen=True)
class Segment:
    """A range of DRAM.

    Attributes:
        address: byte address.
        initial: uint8[bytes], contents before the run.
        final: uint8[bytes], contents after it; None where the run leaves it as it is.
    """

    address: int
    initial: np.ndarray
    final: np.ndarray | None

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.address + self.expected.size

    @property
    def expected(self) -> np.ndarray:
        """Contents after the run."""
        return self.initial if self.final is None else self.final


@dataclass(frozen=True)
class Vector:
    """A program and its expected effect.

    Attributes:
        name: of the vector.
        config: the accelerator it was made for; extensions are off.
        stream: uint8[n, instruction_bytes].
        segments: in order of address, apart from each other; all other DRAM is zero before and after.
        counters: bytes and steps that VTA's simulator counted, by VTA's names.
    """

    name: str
    config: AcceleratorConfig
    stream: np.ndarray
    segments: tuple[Segment, ...]
    counters: Mapping[str, int] = field(default_factory=dict)


OTHER_FILES = {
    ".onnx": "a network (`vdla compile` makes a module of it)",
    ".vdla": "a module (`vdla run`, `trace`, `plot` and `inspect` take it)",
}


def load_vector(path: str | Path) -> Vector:
    """Read and check a vector.

    Raises:
        FileFormatError: the file is truncated, altered, or no vector.
        OSError: the file cannot be opened.
    """
    kind = OTHER_FILES.get(Path(path).suffix)
    if kind is not None:
        raise FileFormatError(f"{path} is {kind}, not a conformance vector (.npz)")
    arrays = read_npz(Path(path))
    try:
        return _vector(arrays)
    except (FileFormatError, ConfigError) as error:
        raise FileFormatError(f"{path} is not a conformance vector: {error}") from error


def _vector(arrays: Mapping[str, np.ndarray]) -> Vector:
    meta = _meta(_array(arrays, "meta", np.uint8, 1))
    stream = _array(arrays, "instructions", np.uint8, 2)
    parameters = _entry(meta, "config", dict)
    if unknown := sorted(set(parameters) - set(PARAMETER_NAMES)):
        raise FileFormatError(f"meta.config has the unknown parameter {shown(unknown[0])}")
    config = VTA.with_changes(**{"name": "vector", **parameters})
    if stream.shape[1] != config.instruction_bytes or not len(stream):
        raise FileFormatError(
            f"instructions has shape {stream.shape}; it must be (n, {config.instruction_bytes}) with n at "
            "least 1"
        )
    return Vector(_name(meta), config, stream, _segments(arrays), _entry(meta, "counters", dict))


Entry = TypeVar("Entry")


def _array(arrays: Mapping[str, np.ndarray], name: str, kind: type, dimensions: int) -> np.ndarray:
    if name not in arrays:
        raise FileFormatError(f"the array {name!r} is missing")
    array = arrays[name]
    if array.dtype != kind or array.ndim != dimensions:
        wanted = f"{np.dtype(kind)} with {dimensions} dimension{'s' * (dimensions > 1)}"
        raise FileFormatError(
            f"the array {name!r} is {array.dtype} with shape {array.shape}; it must be {wanted}"
        )
    return array


def _meta(data: np.ndarray) -> dict[str, Any]:
    if len(data) > MOST_META_BYTES:
        raise FileFormatError(f"meta has {len(data)} bytes; it may have {MOST_META_BYTES}")
    try:
        meta = json.loads(data.tobytes())
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"meta is not JSON: {error}") from error
    if not isinstance(meta, dict):
        raise FileFormatError("meta is not a JSON object")
    return meta


def _entry(meta: Mapping[str, object], key: str, kind: type[Entry]) -> Entry:
    entry = meta.get(key)
    if not isinstance(entry, kind):
        raise FileFormatError(f"meta.{key} is {shown(entry)}; it must be a {kind.__name__}")
    return entry


def _name(meta: Mapping[str, object]) -> str:
    name = _entry(meta, "name", str)
    if len(name) > MOST_NAME_CHARACTERS:
        raise FileFormatError(f"meta.name holds {len(name)} characters; it may hold {MOST_NAME_CHARACTERS}")
    if not name.isprintable():
        raise FileFormatError(
            f"meta.name = {shown(name)} holds characters that cannot be printed on one line"
        )
    return name


def _segments(arrays: Mapping[str, np.ndarray]) -> tuple[Segment, ...]:
    addresses = _array(arrays, "segment_addresses", np.uint64, 1)
    segments = [_segment(arrays, index, int(address)) for index, address in enumerate(addresses)]
    segments.sort(key=lambda segment: segment.address)
    for before, after in pairwise(segments):
        if before.end > after.address:
            raise FileFormatError(
                f"the segment at {before.address:#x} ends at {before.end:#x} "
                f"and overlaps the segment at {after.address:#x}"
            )
    return tuple(segments)


def _segment(arrays: Mapping[str, np.ndarray], index: int, address: int) -> Segment:
    initial, final = _array(arrays, f"seg{index}_initial", np.uint8, 1), None
    if f"seg{index}_final" in arrays:
        final = _array(arrays, f"seg{index}_final", np.uint8, 1)
        if final.size < initial.size:
            raise FileFormatError(
                f"seg{index}_final has {final.size} bytes and seg{index}_initial {initial.size}"
            )
    segment = Segment(address, initial, final)
    subject = f"segment {index} ends at {segment.end:#x}: DRAM up to there takes"
    require_room(segment.end, DRAM_BYTES, subject, FileFormatError)
    return segment


@dataclass(frozen=True)
class Difference:
    """A byte of DRAM that is not what it must be."""

    address: int
    expected: int
    actual: int
    place: str

    def __str__(self) -> str:
        return f"byte {self.address:#x} ({self.place}) is {self.actual:#04x}, expected {self.expected:#04x}"


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    Attributes:
        run: cost of the run.
        differing_bytes: bytes of DRAM that are not what they must be.
        first: the byte with the lowest address; None where there is none.
    """

    run: RunResult
    differing_bytes: int
    first: Difference | None

    @property
    def conforms(self) -> bool:
        """Whether all of DRAM is as it must be."""
        return not self.differing_bytes


SLACK_BYTES = 1 << 20
"""DRAM beyond the last segment, so that reads a little past a segment find zeros."""


def stream_address(vector: Vector) -> int:
    """Return where the stream is put: the first page at least `SLACK_BYTES` after the last segment."""
    end = max((segment.end for segment in vector.segments), default=0) + SLACK_BYTES
    return -(-end // PAGE_BYTES) * PAGE_BYTES


def replay(vector: Vector, device_factory: DeviceFactory) -> Replay:
    """Run `vector` on a new device, as `Device.run` does, and compare all of DRAM except the stream.

    Args:
        device_factory: makes a device from a configuration and its bytes of DRAM.

    Raises:
        DeviceError: the device refused the program.
    """
    address = stream_address(vector)
    device = device_factory(vector.config, address + vector.stream.size + SLACK_BYTES)
    for segment in vector.segments:
        device.copy_in(segment.address, segment.initial)
    device.copy_in(address, vector.stream)
    run = device.run(address, len(vector.stream))
    return _compare(vector, run, device)


COMPARED_BYTES = 1 << 22


def _compare(vector: Vector, run: RunResult, device: Device) -> Replay:
    """Compare DRAM part by part: most of it may be a gap, which takes no memory until it is written."""
    contents = [(segment.address, segment.expected) for segment in vector.segments]
    contents.append((stream_address(vector), vector.stream.reshape(-1)))
    ends = [address + data.size for address, data in contents]
    count, first = 0, None
    for begin in range(0, device.dram_bytes, COMPARED_BYTES):
        end = min(begin + COMPARED_BYTES, device.dram_bytes)
        expected = _expected(contents[bisect_right(ends, begin) :], begin, end)
        actual = device.copy_out(begin, end - begin)
        differing = np.flatnonzero(expected != actual)
        if differing.size and first is None:
            place = int(differing[0])
            address = begin + place
            first = Difference(address, int(expected[place]), int(actual[place]), _place(vector, address))
        count += int(differing.size)
    return Replay(run, count, first)


def _expected(contents: Sequence[tuple[int, np.ndarray]], begin: int, end: int) -> np.ndarray:
    """Return what DRAM from `begin` to before `end` must hold: `contents`, in order, and zeros between."""
    values = np.zeros(end - begin, np.uint8)
    for address, data in contents:
        if address >= end:
            break
        low, high = max(begin, address), min(end, address + data.size)
        values[low - begin : high - begin] = data[low - address : high - address]
    return values


def _place(vector: Vector, address: int) -> str:
    for segment in vector.segments:
        if segment.address <= address < segment.end:
            return f"byte {address - segment.address} of the segment at {segment.address:#x}"
    return "outside every segment"
