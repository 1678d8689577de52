"""What `sweep.json` in the folder of a sweep says, and its check."""

import json
from pathlib import Path
from typing import Annotated, Any

import msgspec

from vdla.explore.sweep.errors import SweepError
from vdla.hw.spec.showing import short

IDENTITY = "sweep.json"
LONGEST_REASON = 200
LARGEST = 1e300
Finite = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]


class _Workload(msgspec.Struct):
    model: str | None = None
    name: str | None = None
    calibrate: str | None = None
    percentile: float | None = None
    shapes: dict[str, tuple[int, ...]] = {}


class _Specification(msgspec.Struct):
    workloads: tuple[_Workload, ...] = ()
    objectives: tuple[str, ...] = ()


class _Limit(msgspec.Struct):
    name: str
    value: Finite
    least: bool
    worst: Finite | None = None
    designs: int | None = None


class _Base(msgspec.Struct):
    name: str
    digest: str = ""


class _Identity(msgspec.Struct):
    """The parts of the file that are read, and their types. A file of another version of the kit may have
    others."""

    specification: _Specification
    base: _Base
    parameters: tuple[str, ...]
    workloads: dict[str, str] = {}
    base_toml: str | None = None
    version: str | None = None
    sources: str | None = None
    family: str | None = None
    created: str | None = None
    tune_log: str | None = None
    limits: tuple[_Limit, ...] = ()


def _refused(constant: str) -> None:
    """Refuse NaN and Infinity, which are no JSON."""
    raise ValueError(f"{constant} is no number")


def read_identity(folder: Path) -> dict[str, Any]:
    """Return what `sweep.json` in a folder says.

    Raises:
        SweepError: there is none, or it is damaged.
    """
    path = folder / IDENTITY
    try:
        identity: dict[str, Any] = json.loads(path.read_bytes(), parse_constant=_refused)
        msgspec.convert(identity, _Identity)
    except FileNotFoundError:
        raise SweepError(f"{folder} holds no sweep: it has no {IDENTITY}; `vdla sweep` writes one") from None
    except (OSError, ValueError, RecursionError) as error:  # `json` and `msgspec` raise ValueErrors
        is_json = isinstance(error, msgspec.ValidationError)
        reason = short(str(error).replace("`$.", "`"), LONGEST_REASON) if is_json else "it is no JSON"
        raise SweepError(f"{path} is damaged: {reason}; sweep into another folder") from error
    return identity
