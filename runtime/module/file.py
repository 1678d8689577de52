"""Module files (`.vdla`): a header of fixed size, then a ZIP archive of a JSON manifest, NumPy arrays, and
the texts of the graphs that the module was compiled from.

The header is the eight bytes `VDLA-MOD`, the version as 64 bits, the archive's size as 64 bits and its
SHA-256; numbers are little-endian. Nothing in a file is executed or unpickled; what does not match the digest
is not looked at. The arrays of the graphs, about as many bytes as the weights, are read when they are used: a
run does not use them.
"""

import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from vdla.hw.spec.config import AcceleratorConfig, parameters
from vdla.hw.spec.encoding import WORD_BITS
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.limits import (
    ARCHIVE_MEMBERS,
    ARRAY_BYTES,
    MANIFEST_BYTES,
    limit_of,
    read_at_most,
    require_room,
)
from vdla.hw.spec.sdram import memory_of
from vdla.hw.spec.showing import short
from vdla.hw.spec.target import ClockSource, EnergyTable, Target
from vdla.hw.spec.writing import write_bytes
from vdla.runtime.arrays import LONGEST_REASON, UNREADABLE, digest, open_archive, read_arrays
from vdla.runtime.module.check import check, check_contents
from vdla.runtime.module.plan import (
    Fidelity,
    GraphTexts,
    HostStep,
    LaunchStep,
    ModuleError,
    Name,
    Plan,
    Record,
    State,
    Value,
)
from vdla.runtime.stream.builder import Stream

TensorBytes = Annotated[int, Meta(ge=1, lt=1 << 62)]
Packed = tuple[bytes, ...]  # parts of a module's file, in order
MAGIC = b"VDLA-MOD"
VERSION = 10
HEADER = struct.Struct("<8sQQ32s")
MANIFEST = "manifest.json"
GRAPHS = "graphs/"
INTEGERS, TARGET = f"{GRAPHS}integers.txt", f"{GRAPHS}target.txt"
AGAIN = "copy it again, or compile the network again"
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the date of every member, so that equal modules are equal files


class NamedValue(Value, frozen=True):
    """An input or an output.

    Attributes:
        name: of it.
    """

    name: Name


class StreamNames(Record, frozen=True):
    """The names of a stream's arrays of positions, in the order of their members.

    Attributes:
        tensors, labels: as in `Stream`.
    """

    tensors: tuple[Name, ...]
    labels: tuple[Name, ...]


class Surroundings(Record, frozen=True):
    """What a target has beside its configuration; attributes as in `Target`."""

    clock_mhz: float
    clock_source: ClockSource
    memory: dict[Name, int]
    energy: EnergyTable


class GraphMembers(Record, frozen=True):
    """Where the arrays of the graphs are.

    Attributes:
        constants: members by hash. An array that a host step reads, too, is stored once.
    """

    constants: dict[Name, Name]


class Manifest(Record, frozen=True):
    """What a plan holds but for its arrays, whose names it has in the order of their members.

    Attributes:
        config: every parameter of the configuration, and its name.
        target: what it was compiled for beside that; `target_digest` is the digest of both.
        others: as in `Plan`.
    """

    name: Name
    config: dict[Name, int | str | tuple[str, ...]]  # no Name: see `Attribute`
    config_digest: Name
    target: Surroundings
    target_digest: Name
    inputs: tuple[NamedValue, ...]
    outputs: tuple[NamedValue, ...]
    tensors: dict[Name, TensorBytes]
    weights: tuple[Name, ...]
    constants: tuple[Name, ...]
    streams: dict[Name, StreamNames]
    steps: tuple[HostStep | LaunchStep, ...]
    states: dict[Name, State]
    fidelity: Fidelity | None = None
    graphs: GraphMembers | None = None


class Members(Mapping[str, np.ndarray]):
    """Arrays of an archive, each read when it is asked for.

    Args:
        payload: the archive, whose digest was checked.
        members: names of members, without ".npy", by key.
    """

    def __init__(self, payload: bytes, members: Mapping[str, str]) -> None:
        self._payload, self._members = payload, members

    def __getitem__(self, key: str) -> np.ndarray:
        """Return an array.

        Raises:
            KeyError: there is no such key.
            ModuleError: the member is no array.
        """
        name = self._members[key]
        try:
            return read_arrays(self._archive, [f"{name}.npy"], "the archive")[name]
        except UNREADABLE as error:
            reason = short(str(error), LONGEST_REASON)
            raise ModuleError(f"the array {name} of its graphs cannot be read: {reason}; {AGAIN}") from error

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return open_archive(self._payload)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def manifest_of(plan: Plan) -> Manifest:
    """Return the manifest of a plan."""
    config: dict[Name, Any] = {"name": plan.config.name, **parameters(plan.config)}
    streams = {
        name: StreamNames(tuple(stream.tensors), tuple(stream.labels))
        for name, stream in plan.streams.items()
    }
    target = plan.target
    return Manifest(
        plan.name,
        config,
        plan.config.digest,
        Surroundings(target.clock_mhz, target.clock_source, asdict(target.memory), target.energy),
        target.digest,
        _named(plan.inputs),
        _named(plan.outputs),
        dict(plan.tensors),
        tuple(plan.weights),
        tuple(plan.constants),
        streams,
        plan.steps,
        dict(plan.states),
        plan.fidelity,
        None if plan.graphs is None else GraphMembers(_graph_members(plan, plan.graphs)),
    )


def _graph_members(plan: Plan, graphs: GraphTexts) -> dict[str, str]:
    """Return the member of each array of the graphs, by hash."""
    sizes = {values.nbytes for values in graphs.constants.values()}
    shared = {
        digest(values): f"constants/{number}"
        for number, values in enumerate(plan.constants.values())
        if values.nbytes in sizes
    }
    return {
        key: shared.get(key, f"{GRAPHS}constants/{number}") for number, key in enumerate(graphs.constants)
    }


def _named(values: Mapping[str, Value]) -> tuple[NamedValue, ...]:
    return tuple(NamedValue(value.shape, value.dtype, name) for name, value in values.items())


def types_of(values: Iterable[NamedValue]) -> dict[str, Value]:
    """Return the types of values by name."""
    return {value.name: Value(value.shape, value.dtype) for value in values}


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON, with NaN and Infinity, which `msgspec.json` does not write."""
    return json.dumps(msgspec.to_builtins(manifest), indent=1).encode()


def decode(data: bytes) -> Manifest:
    """Return the manifest that JSON holds.

    Raises:
        ModuleError: it is not what the declaration says; the message names the place.
        ValueError, RecursionError: it is no JSON.
    """
    values = json.loads(data)
    try:
        return msgspec.convert(values, Manifest)
    except msgspec.ValidationError as error:
        raise ModuleError(
            f"its manifest is not what a module's is: {short(str(error), LONGEST_REASON)}; "
            "compile the network again"
        ) from error


def save(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a module.

    Raises:
        OutputError: it cannot be written; what stood there is as it was.
        ModuleError: its manifest is larger than `MANIFEST_BYTES`, or it has too many arrays.
    """
    write_bytes(path, *packed(plan))


def load(path: str | os.PathLike[str]) -> Plan:
    """Read a module.

    Raises:
        ModuleError: the file cannot be read, is no module, is truncated or altered, or of an unknown version.
    """
    try:
        data = read_at_most(Path(path), limit_of(2 * ARRAY_BYTES), ModuleError)  # with its graphs' arrays
    except OSError as error:
        raise ModuleError(f"{path} cannot be read: {error.strerror}") from error
    return from_bytes(data, str(path))


def stated_digest(path: Path) -> bytes:
    """Return the digest of its contents that a module's file states, without reading them.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        *_, digest = HEADER.unpack(file.read(HEADER.size))
    return bytes(digest)


def to_bytes(plan: Plan) -> bytes:
    """Return a module as the bytes of its file; errors as in `packed`."""
    return b"".join(packed(plan))


def packed(plan: Plan) -> Packed:
    """Return the header and the archive of a module's file.

    Raises:
        ModuleError: its manifest is larger than `MANIFEST_BYTES`, or it has too many arrays.
    """
    manifest, subject = manifest_of(plan), f"the module {plan.name}"
    texts, arrays = _texts(plan, manifest), _arrays(plan, manifest)
    for name, text in texts.items():
        require_room(len(text), MANIFEST_BYTES, f"{name} of {subject} takes", ModuleError)
    require_room(len(arrays) + len(texts), ARCHIVE_MEMBERS, f"{subject} has", ModuleError, "members")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        for name, text in texts.items():
            members.writestr(zipfile.ZipInfo(name, EARLIEST), text)
        for name, values in arrays.items():
            with members.open(zipfile.ZipInfo(f"{name}.npy", EARLIEST), "w") as file:
                np.save(file, values, allow_pickle=False)
    payload = archive.getvalue()
    return HEADER.pack(MAGIC, VERSION, len(payload), hashlib.sha256(payload).digest()), payload


def from_bytes(data: bytes, source: str = "module") -> Plan:
    """Return the module that `data`, the bytes of a file called `source`, hold; errors as in `load`."""
    payload = _payload(data, source)
    try:
        with open_archive(payload) as members:
            manifest = decode(_text(members, MANIFEST))
            names = [name for name in members.namelist() if name != MANIFEST and not name.startswith(GRAPHS)]
            arrays = read_arrays(members, names, "the archive")
            graphs = None if manifest.graphs is None else _graphs(members, manifest.graphs, payload)
        plan = replace(_plan(manifest, arrays), graphs=graphs)
        check_contents(plan)
        check(plan)
    except VdlaError as error:
        raise ModuleError(f"{source}: {error}") from error
    except UNREADABLE as error:
        reason = f"{type(error).__name__}: {short(str(error), LONGEST_REASON)}"
        raise ModuleError(
            f"{source} is a module with a matching digest, but its contents are not what they "
            f"should be: {reason}; {AGAIN}"
        ) from error
    return plan


def _text(members: zipfile.ZipFile, name: str) -> bytes:
    """Return the text of the manifest or of a graph."""
    size = members.getinfo(name).file_size
    require_room(size, MANIFEST_BYTES, f"its {name} takes", ModuleError)
    with members.open(name) as file:
        return file.read(size)  # `members.read` would unfold all there is, whatever its size


def _graphs(members: zipfile.ZipFile, about: GraphMembers, payload: bytes) -> GraphTexts:
    """Return the graphs; their arrays are located now, and read when they are used."""
    total = sum(members.getinfo(f"{name}.npy").file_size for name in about.constants.values())
    require_room(total, ARRAY_BYTES, "the arrays of its graphs take", ModuleError)
    integers, target = (_text(members, name).decode() for name in (INTEGERS, TARGET))
    return GraphTexts(integers, target, Members(payload, about.constants))


def _payload(data: bytes, source: str) -> bytes:
    """Return the archive in a file, after its header and digest have been checked."""
    if not data.startswith(MAGIC):
        raise ModuleError(
            f"{source} is not a module: it does not begin with {MAGIC.decode()}; make one with `vdla compile "
            "MODEL.onnx -o MODULE.vdla`"
        )
    if len(data) < HEADER.size:
        raise ModuleError(
            f"{source} is truncated: it has {len(data)} bytes, and a header alone has {HEADER.size}; {AGAIN}"
        )
    _, version, size, digest = HEADER.unpack_from(data)
    if version != VERSION:
        raise ModuleError(
            f"{source} is a module of version {version}; this program reads version {VERSION}; compile "
            "the network again"
        )
    payload = data[HEADER.size :]
    if len(payload) != size:
        raise ModuleError(
            f"{source} is truncated or has been added to: it holds {len(payload)} bytes after its "
            f"header, which announces {size}; "
            f"{AGAIN}"
        )
    if hashlib.sha256(payload).digest() != digest:
        raise ModuleError(f"{source} has been altered: its contents do not match their digest; {AGAIN}")
    return payload


# Writing


def _texts(plan: Plan, manifest: Manifest) -> dict[str, bytes]:
    """Return every text of a module, by the name of its member."""
    texts = {MANIFEST: encode(manifest)}
    if plan.graphs is not None:
        texts |= {INTEGERS: plan.graphs.integers.encode(), TARGET: plan.graphs.target.encode()}
    return texts


def _arrays(plan: Plan, manifest: Manifest) -> dict[str, np.ndarray]:
    """Return every array of a module, by the name of its member."""
    arrays = {f"weights/{number}": values for number, values in enumerate(plan.weights.values())}
    arrays |= {f"constants/{number}": values for number, values in enumerate(plan.constants.values())}
    for name, stream in plan.streams.items():
        arrays |= {f"streams/{name}/words": stream.words, f"streams/{name}/uops": stream.uops}
        for kind, positions in (("tensors", stream.tensors), ("labels", stream.labels)):
            arrays |= {
                f"streams/{name}/{kind}/{number}": values for number, values in enumerate(positions.values())
            }
    if plan.graphs is not None and manifest.graphs is not None:
        members = manifest.graphs.constants.items()
        arrays |= {name: plan.graphs.constants[key] for key, name in members if name not in arrays}
    return arrays


# Reading


def _plan(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> Plan:
    config = AcceleratorConfig().with_changes(**manifest.config)
    if config.digest != manifest.config_digest:
        raise ModuleError(
            "its configuration does not match the digest it was compiled with; compile the network again"
        )
    return Plan(
        manifest.name,
        _target(config, manifest),
        types_of(manifest.inputs),
        types_of(manifest.outputs),
        manifest.steps,
        {name: _stream(name, about, config, arrays) for name, about in manifest.streams.items()},
        manifest.tensors,
        {name: _array(arrays, f"weights/{number}") for number, name in enumerate(manifest.weights)},
        {name: _array(arrays, f"constants/{number}") for number, name in enumerate(manifest.constants)},
        manifest.fidelity,
        states=manifest.states,
    )


def _array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise ModuleError(f"the array {name} is missing; {AGAIN}")
    return arrays[name]


def _target(config: AcceleratorConfig, manifest: Manifest) -> Target:
    around = manifest.target
    target = Target(config, memory_of(around.memory), around.clock_mhz, around.energy, around.clock_source)
    if target.digest != manifest.target_digest:
        raise ModuleError(
            "its memory, clock or energies do not match the digest it was compiled with; compile the "
            "network again"
        )
    return target


def _stream(
    name: str, about: StreamNames, config: AcceleratorConfig, arrays: Mapping[str, np.ndarray]
) -> Stream:
    words, uops = _array(arrays, f"streams/{name}/words"), _array(arrays, f"streams/{name}/uops")
    per_instruction, uop_type = config.instruction_bits // WORD_BITS, f"uint{config.uop_bits}"
    shaped = words.ndim == 2 and words.shape[1] == per_instruction
    if not shaped or words.dtype != np.uint64 or uops.dtype != np.dtype(uop_type):
        raise ModuleError(
            f"stream {name} is {words.dtype}{list(words.shape)} with micro-ops {uops.dtype}, not "
            f"uint64[n, {per_instruction}] and {uop_type}"
        )
    tensors, labels = (
        {key: _array(arrays, f"streams/{name}/{kind}/{number}") for number, key in enumerate(keys)}
        for kind, keys in (("tensors", about.tensors), ("labels", about.labels))
    )
    return Stream(config, words, tensors, uops, labels)
