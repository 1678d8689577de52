"""The record of a run: what `vdla run --json` prints, and the part of it that a comparison reads back."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from vdla.hw.spec.config import parameters
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.limits import MANIFEST_BYTES, limit_of, read_at_most
from vdla.hw.spec.showing import short
from vdla.hw.spec.target import Target, surroundings
from vdla.runtime.module.plan import Count, Name
from vdla.runtime.session.report import Report
from vdla.runtime.session.summary import Summary

LONGEST_PROBLEM = 160
HZ_PER_MHZ = 1e6
WRITE_ONE = "write one with `vdla run MODEL --device cycle --json > RUN.json`, or give a module (.vdla)"
Picojoules = Annotated[float, Meta(ge=0, le=1e30)]
Hertz = Annotated[float, Meta(ge=1e-9, le=1e30)]
Setting = bool | int | float | str | tuple[int | str, ...]


class LayerRecord(msgspec.Struct, frozen=True):
    """A layer of a run; attributes as in `vdla.runtime.session.report.LayerReport`.

    Attributes:
        operators: of the network that it computes; empty where the module carries no graph.
    """

    name: Name
    op: Name
    on: Literal["accelerator", "host"]
    cycles: Count | None
    bytes_read: Count
    bytes_written: Count
    energy_pj: Picojoules | None = None
    bound: Literal["", "compute", "memory", "latency"] = ""
    reason: Name = ""
    operators: tuple[Name, ...] = ()


class SummaryRecord(msgspec.Struct, frozen=True):
    """What a comparison reads of a run's summary."""

    network: Name
    target: Name
    clock_hz: Hertz
    launches: Count
    instructions: Count


class TargetRecord(msgspec.Struct, frozen=True):
    """The target of a run.

    Attributes:
        parameters: by the names that --set takes, with the memory and the clock of the run.
    """

    name: Name
    digest: Name
    parameters: dict[Name, Setting]


class RunRecord(msgspec.Struct, frozen=True):
    """A run on a timed device; attributes as in `vdla.runtime.session.report.Report`."""

    device: Name
    cycles: Count | None
    macs: Count
    layers: tuple[LayerRecord, ...]
    summary: SummaryRecord
    target: TargetRecord
    energy_pj: Picojoules | None = None
    host_macs: Count = 0
    runs: Count = 1


def record_values(
    run_report: Report, summary: Summary, target: Target, operators: Sequence[tuple[str, ...]]
) -> dict[str, object]:
    """Return the record of a run as plain JSON values, which `parse_record` reads.

    Args:
        target: of the module, with the memory of the run.
        operators: of each layer; empty where they are not known.
    """
    values = run_report.to_json()
    layers = [asdict(layer) for layer in run_report.layers]
    if operators:
        layers = [{**layer, "operators": list(names)} for layer, names in zip(layers, operators, strict=True)]
    return {
        **values,
        "layers": layers,
        "summary": summary.to_json(),
        "target": _target_values(target, summary),
    }


def _target_values(target: Target, summary: Summary) -> dict[str, object]:
    """Return a target with its parameters, by the names that --set takes, and with the clock of the run."""
    settings = parameters(target.config)
    for name, value in {**surroundings(target), "clock_mhz": summary.clock_hz / HZ_PER_MHZ}.items():
        settings |= (
            {f"{name}.{key}": each for key, each in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return {"name": target.name, "digest": target.digest, "parameters": settings}


def read_record(path: Path) -> RunRecord:
    """Return the record of a run in a JSON file.

    Raises:
        FileFormatError: the file is not a record, or the run was not timed.
        OSError: it cannot be read.
    """
    data = read_at_most(path, limit_of(MANIFEST_BYTES), FileFormatError)
    return timed(parse_record(data, str(path)), str(path))


def parse_record(data: bytes, source: str) -> RunRecord:
    """Return the record of a run.

    Raises:
        FileFormatError: the text is not a record; the message names `source`.
    """
    try:
        return msgspec.json.decode(data, type=RunRecord)
    except (ValueError, RecursionError) as error:
        problem = short(str(error), LONGEST_PROBLEM)
        raise FileFormatError(f"{source} is not the record of a run: {problem}; {WRITE_ONE}") from error


def timed(record: RunRecord, source: str) -> RunRecord:
    """Return a record whose run has cycles.

    Raises:
        FileFormatError: it has none; the message names `source`.
    """
    if record.cycles is None:
        raise FileFormatError(
            f"{source} has no cycles: the device {short(record.device)} counts none; run the network again "
            "with --device cycle"
        )
    return record
