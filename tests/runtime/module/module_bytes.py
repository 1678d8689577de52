"""Modules as bytes: their members, modules of given members, and the refusal of damaged ones."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import fields

import numpy as np
import pytest

from vdla.runtime.module.file import HEADER, MAGIC, VERSION, from_bytes
from vdla.runtime.module.plan import GraphTexts, ModuleError, Plan
from vdla.runtime.stream.builder import Stream


def plain(value: object) -> object:
    """Return something that compares with ==: arrays as their types and bytes."""
    match value:
        case np.ndarray():
            return value.shape, str(value.dtype), value.tobytes()
        case Stream():
            return [plain(getattr(value, field.name)) for field in fields(Stream)]
        case GraphTexts():
            return value.integers, value.target, plain(value.constants)
        case Mapping():
            return [(name, plain(part)) for name, part in value.items()]
    return value


def everything(plan: Plan) -> list[object]:
    """Return all fields of a plan, which compare with ==."""
    return [plain(getattr(plan, field.name)) for field in fields(Plan)]


def refused(data: bytes) -> str:
    """Return the message with which a module is refused."""
    with pytest.raises(ModuleError) as caught:
        from_bytes(data, "net.vdla")
    assert str(caught.value).startswith("net.vdla")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def members(data: bytes) -> dict[str, bytes]:
    """Return the members of a module, by name."""
    with zipfile.ZipFile(io.BytesIO(data[HEADER.size :])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(parts: dict[str, bytes]) -> bytes:
    """Return a module of these members with a digest that matches."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zip_file:
        for name, data in parts.items():
            zip_file.writestr(name, data)
    return with_header(archive.getvalue())


def with_header(payload: bytes) -> bytes:
    """Return an archive behind the header that belongs to it."""
    return HEADER.pack(MAGIC, VERSION, len(payload), hashlib.sha256(payload).digest()) + payload


def array(values: object, **options) -> bytes:
    """Return an array as an .npy file."""
    written = io.BytesIO()
    np.save(written, values, **options)
    return written.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    """Return arrays as an .npz file."""
    written = io.BytesIO()
    np.savez(written, **arrays)
    return written.getvalue()
