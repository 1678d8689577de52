"""The manifest of a module file: all of a plan except its arrays, declared once, stored as JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from vdla.hw.spec.config import parameters
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.showing import short
from vdla.hw.spec.target import ClockSource, EnergyTable
from vdla.runtime.arrays import LONGEST_REASON
from vdla.runtime.module.plan import Fidelity, HostStep, LaunchStep, ModuleError, Name, Plan, Record, Value

TensorBytes = Annotated[int, Meta(ge=1, lt=1 << 62)]


class NamedValue(Value, frozen=True):
    """An input or an output.

    Attributes:
        name: of it.
    """

    name: Name


class StreamNames(Record, frozen=True):
    """The names of a stream's arrays of positions, in the order of their members.

    Attributes:
        tensors, labels: as those of `Stream`.
    """

    tensors: tuple[Name, ...]
    labels: tuple[Name, ...]


class Surroundings(Record, frozen=True):
    """What a target has beside its configuration; attributes as those of `Target`."""

    clock_mhz: float
    clock_source: ClockSource
    memory: MemoryParameters
    energy: EnergyTable


class Manifest(Record, frozen=True):
    """What a plan holds but for its arrays, whose names it has in the order of their members.

    Attributes:
        config: every parameter of the configuration, and its name.
        target: what it was compiled for beside that; `target_digest` is the digest of both.
        others: as those of `Plan`.
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
    fidelity: Fidelity | None = None


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
        Surroundings(target.clock_mhz, target.clock_source, target.memory, target.energy),
        target.digest,
        _named(plan.inputs),
        _named(plan.outputs),
        dict(plan.tensors),
        tuple(plan.weights),
        tuple(plan.constants),
        streams,
        plan.steps,
        plan.fidelity,
    )


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
