"""Module files (`.vdla`): a header of fixed size, then a ZIP archive of a JSON manifest and NumPy arrays.

The header is the eight bytes `VDLA-MOD`, the version as 64 bits, the archive's size as 64 bits and its SHA-256; numbers are little-endian.
Nothing in a file is executed or unpickled; what does not match the digest is not looked at.
"""

import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib.format import read_array

from vdla.hw.spec.config import AcceleratorConfig, parameters
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.vocabulary import UOP_BITS
from vdla.hw.spec.writing import write_bytes
from vdla.runtime.arrays import UNREADABLE, refuse_other_methods
from vdla.runtime.builder import Stream
from vdla.runtime.layout import Layout
from vdla.runtime.module.check import check
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, Layer, ModuleError, Plan, Step, Value

MAGIC = b"VDLA-MOD"
VERSION = 1
HEADER = struct.Struct("<8sQQ32s")
MANIFEST = "manifest.json"
AGAIN = "copy it again, or compile the network again"
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the date of every member, so that equal modules are equal files


def save(plan: Plan, path: str | os.PathLike) -> None:
    """Write a module.

    Raises:
        OutputError: it cannot be written; what stood there is as it was.
    """
    write_bytes(path, to_bytes(plan))


def load(path: str | os.PathLike) -> Plan:
    """Read a module.

    Raises:
        ModuleError: the file cannot be read, is no module, is truncated or altered, or of an unknown version.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModuleError(f"{path} cannot be read: {error.strerror}") from error
    return from_bytes(data, str(path))


def to_bytes(plan: Plan) -> bytes:
    """Return a module as the bytes of its file."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        def add(name: str, data: bytes) -> None:
            members.writestr(zipfile.ZipInfo(name, EARLIEST), data)
        add(MANIFEST, json.dumps(_manifest(plan), indent=1).encode())
        for name, values in _arrays(plan).items():
            buffer = io.BytesIO()
            np.save(buffer, values, allow_pickle=False)
            add(f"{name}.npy", buffer.getvalue())
    payload = archive.getvalue()
    return HEADER.pack(MAGIC, VERSION, len(payload), hashlib.sha256(payload).digest()) + payload


def from_bytes(data: bytes, source: str = "module") -> Plan:
    """Return the module that `data`, the bytes of a file called `source`, hold; errors as those of `load`."""
    payload = _payload(data, source)
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as members:
            refuse_other_methods(members)
            manifest = json.loads(members.read(MANIFEST))
            arrays = {name.removesuffix(".npy"): read_array(io.BytesIO(members.read(name)), allow_pickle=False)
                      for name in members.namelist() if name != MANIFEST}
        plan = _plan(manifest, arrays)
        check(plan)
    except VdlaError as error:
        raise ModuleError(f"{source}: {error}") from error
    except UNREADABLE as error:
        raise ModuleError(f"{source} is a module with a matching digest, but its contents are not what they should be: {error!r}; {AGAIN}") from error
    return plan


def _payload(data: bytes, source: str) -> bytes:
    """Return the archive in a file, after its header and digest have been checked."""
    if not data.startswith(MAGIC):
        raise ModuleError(f"{source} is no module: it does not begin with {MAGIC.decode()}; make one with `vdla compile MODEL.onnx -o MODULE.vdla`")
    if len(data) < HEADER.size:
        raise ModuleError(f"{source} is truncated: it has {len(data)} bytes, and a header alone has {HEADER.size}; {AGAIN}")
    _, version, size, digest = HEADER.unpack_from(data)
    if version != VERSION:
        raise ModuleError(f"{source} is a module of version {version}; this program reads version {VERSION}; compile the network again")
    payload = data[HEADER.size:]
    if len(payload) != size:
        raise ModuleError(f"{source} is truncated or has been added to: it holds {len(payload)} bytes behind its header, which announces {size}; "
                          f"{AGAIN}")
    if hashlib.sha256(payload).digest() != digest:
        raise ModuleError(f"{source} has been altered: its contents do not match their digest; {AGAIN}")
    return payload


# Writing

def _manifest(plan: Plan) -> dict[str, object]:
    return {
        "name": plan.name, "config": {"name": plan.config.name, **parameters(plan.config)}, "config_digest": plan.config.digest,
        "inputs": _values(plan.inputs), "outputs": _values(plan.outputs), "tensors": dict(plan.tensors),
        "weights": list(plan.weights), "constants": list(plan.constants),
        "streams": {name: {"tensors": list(stream.tensors), "labels": list(stream.labels)} for name, stream in plan.streams.items()},
        "steps": [_step(step) for step in plan.steps],
    }


def _values(values: Mapping[str, Value]) -> list[dict[str, object]]:
    return [{"name": name, "shape": value.shape, "dtype": value.dtype} for name, value in values.items()]


def _step(step: Step) -> dict[str, object]:
    if isinstance(step, HostStep):
        return {"on": "host", "name": step.name, "op": step.op, "inputs": step.inputs, "outputs": step.outputs,
                "attributes": dict(step.attributes), "reason": step.reason}
    return {"on": "accelerator", "stream": step.stream, "packs": [_crossing(one) for one in step.packs],
            "unpacks": [_crossing(one) for one in step.unpacks],
            "layers": [{name: getattr(layer, name) for name in Layer.__slots__} for layer in step.layers]}


def _crossing(crossing: Crossing) -> dict[str, object]:
    return {"value": crossing.value, "tensor": crossing.tensor, "layout": crossing.layout.to_json()}


def _arrays(plan: Plan) -> dict[str, np.ndarray]:
    """Return every array of a module, by the name of its member."""
    found = {f"weights/{number}": values for number, values in enumerate(plan.weights.values())}
    found |= {f"constants/{number}": values for number, values in enumerate(plan.constants.values())}
    for name, stream in plan.streams.items():
        found |= {f"streams/{name}/words": stream.words, f"streams/{name}/uops": stream.uops}
        for kind, positions in (("tensors", stream.tensors), ("labels", stream.labels)):
            found |= {f"streams/{name}/{kind}/{number}": values for number, values in enumerate(positions.values())}
    return found


# Reading

def _plan(manifest: Mapping, arrays: Mapping[str, np.ndarray]) -> Plan:
    config = AcceleratorConfig(**manifest["config"])
    if config.digest != manifest["config_digest"]:
        raise ModuleError("its configuration does not match the digest it was compiled with; compile the network again")
    return Plan(
        str(manifest["name"]), config, _read_values(manifest["inputs"]), _read_values(manifest["outputs"]),
        tuple(_read_step(step) for step in manifest["steps"]),
        {name: _read_stream(name, about, config, arrays) for name, about in manifest["streams"].items()},
        {name: int(size) for name, size in manifest["tensors"].items()},
        {name: arrays[f"weights/{number}"] for number, name in enumerate(manifest["weights"])},
        {name: arrays[f"constants/{number}"] for number, name in enumerate(manifest["constants"])})


def _read_values(values: list) -> dict[str, Value]:
    return {value["name"]: Value(tuple(map(int, value["shape"])), str(np.dtype(value["dtype"]))) for value in values}


def _read_step(step: Mapping) -> Step:
    if step["on"] == "host":
        attributes = {name: tuple(value) if isinstance(value, list) else value for name, value in step["attributes"].items()}
        return HostStep(step["name"], step["op"], tuple(step["inputs"]), tuple(step["outputs"]), attributes, step["reason"])
    layers = tuple(Layer(**layer) for layer in step["layers"])
    return LaunchStep(step["stream"], *(tuple(_read_crossing(one) for one in step[part]) for part in ("packs", "unpacks")), layers)


def _read_crossing(crossing: Mapping) -> Crossing:
    return Crossing(crossing["value"], crossing["tensor"], Layout.from_json(crossing["layout"]))


def _read_stream(name: str, about: Mapping, config: AcceleratorConfig, arrays: Mapping[str, np.ndarray]) -> Stream:
    words, uops = arrays[f"streams/{name}/words"], arrays[f"streams/{name}/uops"]
    if words.ndim != 2 or words.shape[1] != 2 or words.dtype != np.uint64 or uops.dtype != np.dtype(f"uint{UOP_BITS}"):
        raise ModuleError(f"stream {name} is {words.dtype}{list(words.shape)} with micro-ops {uops.dtype}, not uint64[n, 2] and uint{UOP_BITS}")
    tensors, labels = ({key: arrays[f"streams/{name}/{kind}/{number}"] for number, key in enumerate(about[kind])} for kind in ("tensors", "labels"))
    return Stream(config, words, tensors, uops, labels)
