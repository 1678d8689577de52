"""``vdla replay``."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from vdla.cli._devices import DEVICE
from vdla.cli._options import VECTORS, reports_errors
from vdla.cli._waves import RECORDS, show_waves, takes_waves
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.writing import check_writable
from vdla.runtime.device import Device
from vdla.runtime.devices.registry import device_factory
from vdla.runtime.devices.rtl.device import RtlDevice
from vdla.runtime.devices.rtl.waves import Waves
from vdla.runtime.vectors import DeviceFactory, Vector, load_vector, replay


@click.command()
@VECTORS
@click.option(
    "--device",
    "devices",
    multiple=True,
    default=("functional",),
    show_default=True,
    type=DEVICE,
    help="Device to run them on; may be repeated.",
)
@takes_waves
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def command(vectors: tuple[Path, ...], devices: tuple[str, ...], waves: Waves | None, as_json: bool) -> None:
    """Run conformance vectors and compare all of DRAM; exit status 1 if one does not match.

    The programs run without verification, except on remote devices: use `vdla check` to verify them.
    Waveforms from the second vector on have a number in their file's name.
    """
    check_writable(waves.path if waves else None)
    loaded = [load_vector(path) for path in vectors]
    rows, recorded = [], _Recorded(waves)
    runs = [(device, vector) for device in devices for vector in loaded]
    with click.progressbar(
        runs, label="replaying", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as progress:
        for device, vector in progress:
            rows.append(_run(device, vector, recorded.factory(device)))
    click.echo(json.dumps(rows, indent=1) if as_json else _table(rows))
    if waves is not None:
        show_waves(waves, recorded.written)
    sys.exit(0 if all(row["match"] for row in rows) else 1)


class _Recorded:
    """Makes devices that write the waveforms that were asked for.

    Attributes:
        written: the waveforms so far.
    """

    def __init__(self, waves: Waves | None) -> None:
        self._waves = waves
        self._runs = 0
        self._devices: list[RtlDevice] = []

    def factory(self, name: str) -> DeviceFactory:
        """Return what makes the device of the next run."""
        if self._waves is None or name != RECORDS:
            return device_factory(name)
        waves = replace(self._waves, path=self._waves.file(self._runs))
        self._runs += 1

        def recording(config: AcceleratorConfig, dram_bytes: int) -> Device:
            device = RtlDevice(config, dram_bytes, waves=waves)
            self._devices.append(device)
            return device

        return recording

    @property
    def written(self) -> list[Path]:
        """The waveforms so far."""
        return [path for device in self._devices for path in device.waveforms]


def _run(device: str, vector: Vector, factory: DeviceFactory) -> dict[str, Any]:
    """Return one row of the result; if the device refused the run, `error` is the reason."""
    row: dict[str, Any] = {"name": vector.name, "device": device, "match": False}
    row |= {"cycles": None, "seconds": 0.0}
    try:
        outcome = replay(vector, factory)
    except DeviceError as error:
        return row | {"error": f"{type(error).__name__}: {error}"}
    row |= {"match": outcome.conforms, "cycles": outcome.run.cycles, "seconds": outcome.run.seconds}
    if not outcome.conforms:
        row["error"] = f"{outcome.differing_bytes} bytes differ; the first: {outcome.first}"
    return row


def _table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = [f"{'vector':{width}}  {'device':10}  match     cycles   seconds"]
    for row in rows:
        cycles = "-" if row["cycles"] is None else str(row["cycles"])
        lines.append(
            f"{row['name']:{width}}  {row['device']:10}  {'yes' if row['match'] else 'NO':5}  {cycles:>9} "
            f" {row['seconds']:8.4f}"
        )
        if "error" in row:
            lines.append(f"{'':{width}}  {row['error']}")
    return "\n".join([*lines, f"{sum(row['match'] for row in rows)} of {len(rows)} match"])
