"""The specification of a sweep: a TOML file, or the same tables as a mapping.

constraints = ["block_in * block_out >= 64"]
objectives = ["cycles", "lut"]
budget = "all"                              # or a number of points, which a sampler chooses

[base]
config = "default"

[parameters]
block_in = [8, 16, 32]                      # values
block_out = "block_in"                      # an expression over other parameters
memory.latency = {from = 32, to = 256, times = 2}

[[workloads]]
model = "network.onnx"
[[workloads]]
conv = {size = 56, channels = 64, outputs = 64, kernel = 3}

[limits]                                    # results beyond are marked
lut = 30000

[tune]                                      # without it the compiler's default choices
trials = 16
"""

import json
import tomllib
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vdla.explore.sweep.errors import SweepError, reworded, unknown
from vdla.explore.tune.explorers import EXPLORERS
from vdla.hw.spec.files import toml_reason
from vdla.hw.spec.limits import read_at_most

LARGEST_FILE_BYTES = 1 << 20
OBJECTIVES = (
    "cycles",
    "seconds",
    "lut",
    "ff",
    "dsp",
    "block_ram",
    "energy_pj",
    "bytes_read",
    "bytes_written",
)
"""Columns of the table of points that a sweep can make small."""

LEAST = ("mhz", "utilisation")
"""Figures of which a limit is the least; of the others it is the most."""
LIMITED = (*OBJECTIVES, *LEAST)
"""Columns of the table of points that a sweep can limit."""

LARGEST_EXTENT = 1 << 16
Extent = Annotated[int, Meta(ge=1, le=LARGEST_EXTENT)]
Pair = int | tuple[int, int]
"""One number, or a pair for rows and columns. No Extent: msgspec 0.22 crashes on limits in such a union."""
Border = Annotated[int, Meta(ge=0, le=1 << 10)]
Count = Annotated[int, Meta(ge=1, le=1 << 20)]
Value = int | float | str
Trials = Annotated[int, Meta(ge=1, le=1 << 16)]
Seed = Annotated[int, Meta(ge=0, le=1 << 31)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of the specification."""


class Base(_Table, frozen=True):
    """The target that points differ from: a preset or a file, by either name."""

    config: str | None = None
    target: str | None = None

    @property
    def name(self) -> str:
        """The preset's or file's name."""
        return self.target or self.config or "default"


class Range(_Table, frozen=True, rename={"start": "from", "end": "to"}):
    """Values from `start` to `end`, both included: each `step` more than the value before, or `times` it."""

    start: int | float
    end: int | float
    step: int | float | None = None
    times: int | float | None = None


class Conv(_Table, frozen=True):
    """An int8 convolution with random weights.

    Attributes:
        size: height and width of the input, unless `height` and `width` say so.
        channels, outputs: of the input and the output.
        kernel, stride, dilation: one number, or a pair for rows and columns.
        padding: "same" (half the kernel on each side), "valid" (none) or pixels on each side.
        groups: equal to `channels` for a depthwise convolution.
    """

    channels: Extent
    outputs: Extent
    size: Extent | None = None
    height: Extent | None = None
    width: Extent | None = None
    kernel: Pair = 3
    stride: Pair = 1
    dilation: Pair = 1
    padding: Border | Literal["same", "valid"] = "same"
    groups: Extent = 1


class WorkloadTable(_Table, frozen=True):
    """One workload: exactly one of `model`, `conv` and `suite`.

    Attributes:
        model: an ONNX file, relative to the specification or to the current folder.
        suite: a built-in list of layers.
        name: in the tables of results; None: the file's name, or the convolution's shape.
        shapes: of inputs that are dynamic in the model, where samples do not tell them.
        calibrate: samples to quantise a float network with: a file.
        percentile: of each activation's magnitudes that its scale must hold; None: each has the range that
            costs least.
    """

    model: str | None = None
    conv: Conv | None = None
    suite: str | None = None
    name: str | None = None
    shapes: dict[str, tuple[Extent, ...]] = {}
    calibrate: str | None = None
    percentile: float | None = None


class Tune(_Table, frozen=True):
    """How the schedules of each point are tuned before it is measured.

    Attributes:
        trials: for each task on the average.
        explorer: what proposes schedules, one of `vdla.explore.tune.explorers.EXPLORERS`.
        seed: of the explorer.
        log: a tuning log whose records the model knows from the beginning, relative to the specification or
            to the current folder; None: the model learns from each point alone.
    """

    trials: Trials = 16
    explorer: str = next(iter(EXPLORERS))
    seed: Seed = 0
    log: str | None = None


class Specification(_Table, frozen=True):
    """What a sweep does.

    Attributes:
        parameters: by name: values, a range, an expression, or one value.
        constraints: expressions that every point must satisfy.
        objectives: columns that a good point makes small.
        limits: columns of LIMITED with the greatest value of a result, of LEAST with the least.
        budget: "all" points, or how many the sampler may choose.
        sampler: of a limited budget.
        seed: of the sampler and of the weights of `conv`.
        family: FPGA family of area and clock.
        area: "estimate" from components, "exact" synthesis of each point (minutes each), or "none".
        tune: how each point is tuned; None: it is not.
    """

    parameters: dict[str, Any]
    workloads: tuple[WorkloadTable, ...]
    base: Base = Base()
    constraints: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ("cycles", "lut")
    limits: dict[str, float] = {}
    budget: Count | Literal["all"] = "all"
    sampler: Literal["tpe", "nsga2", "random"] = "tpe"
    seed: Seed = 0
    family: Literal["ecp5", "xc7"] = "ecp5"
    area: Literal["estimate", "exact", "none"] = "estimate"
    tune: Tune | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, with what it leaves to defaults left out."""
        values: dict[str, Any] = json.loads(msgspec.json.encode(self))
        return values


def read(path: Path) -> Specification:
    """Read a specification from a TOML file.

    Raises:
        SweepError: it cannot be read, or is not a specification.
    """
    try:
        values = tomllib.loads(read_at_most(path, LARGEST_FILE_BYTES, SweepError).decode())
    except OSError as error:
        raise SweepError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise SweepError(f"{path} is not TOML: {toml_reason(error)}") from error
    try:
        return from_values(values)
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from error


def from_values(values: Mapping[str, Any]) -> Specification:
    """Return the specification in a mapping of the file's tables.

    Raises:
        SweepError: naming the table, the value and what is allowed.
    """
    _check_names(values)
    flat = {**values, "parameters": flattened(values.get("parameters", {}))}
    try:
        specification = msgspec.convert(flat, Specification)
    except msgspec.ValidationError as error:
        tables = (Base, Conv, WorkloadTable, Tune, Specification)
        raise SweepError(reworded(str(error), flat, tables)) from error
    _check_workloads(specification)
    if specification.base.config is not None and specification.base.target is not None:
        raise SweepError("base.config and base.target name one record; give one of them")
    for name in specification.objectives:
        if name not in OBJECTIVES:
            raise unknown("objective", name, OBJECTIVES)
    if specification.tune is not None and specification.tune.explorer not in EXPLORERS:
        raise unknown("tune.explorer", specification.tune.explorer, EXPLORERS)
    _check_limits(specification)
    if not specification.objectives:
        raise SweepError(f"objectives is empty; name some of {', '.join(OBJECTIVES)}")
    return specification


def flattened(parameters: Any) -> Any:
    """Return parameters, from nested tables by dotted names: `memory.latency`."""
    if not isinstance(parameters, Mapping):
        return parameters
    flat: dict[str, Any] = {}
    for name, value in parameters.items():
        nested = name in ("memory", "energy") and isinstance(value, Mapping)
        flat |= {f"{name}.{key}": entry for key, entry in value.items()} if nested else {name: value}
    return flat


def _check_names(values: Mapping[str, Any]) -> None:
    """Refuse unknown keys, with the nearest name that exists."""
    _check_keys("table or key", values, Specification)
    tables: list[tuple[str, Any, type[_Table]]] = [
        ("base", values.get("base"), Base),
        ("tune", values.get("tune"), Tune),
    ]
    workloads = values.get("workloads")
    for number, table in enumerate(workloads if isinstance(workloads, list) else ()):
        where = f"workloads[{number}]"
        tables.append((where, table, WorkloadTable))
        if isinstance(table, Mapping):
            tables.append((f"{where}.conv", table.get("conv"), Conv))
    for where, table, kind in tables:
        if isinstance(table, Mapping):
            _check_keys(f"key of {where}", table, kind)
    parameters = values.get("parameters")
    if isinstance(parameters, Mapping) and "constraints" in parameters:
        raise SweepError("constraints stands in [parameters]; write it before the first table of the file")


def _check_keys(kind: str, table: Mapping[str, Any], struct: type[msgspec.Struct]) -> None:
    for key in table:
        if key not in struct.__struct_encode_fields__:
            raise unknown(kind, key, struct.__struct_encode_fields__)


def _check_workloads(specification: Specification) -> None:
    if not specification.workloads:
        raise SweepError("workloads is empty; give at least one [[workloads]] with model, conv or suite")
    for number, table in enumerate(specification.workloads):
        given = [name for name in ("model", "conv", "suite") if getattr(table, name) is not None]
        if len(given) != 1:
            has = " and ".join(given) or "none of them"
            raise SweepError(f"workloads[{number}] has {has}; it takes exactly one of model, conv and suite")


def _check_limits(specification: Specification) -> None:
    for name, value in specification.limits.items():
        if name not in LIMITED:
            raise unknown("limit", name, LIMITED)
        if not (isfinite(value) and value > 0):
            raise SweepError(f"limits.{name} = {value} is not a number greater than 0")


def with_area(specification: Specification, area: str | None) -> Specification:
    """Return a specification with another way to find areas; None: unchanged."""
    return specification if area is None else msgspec.structs.replace(specification, area=area)
