"""``vdla replay``."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from vdla.cli._devices import DEVICE
from vdla.cli._options import OUTPUT_FILE, VECTORS, reports_errors
from vdla.cli._waves import RECORDS, show_waves, takes_waves
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import DeviceError, ProgramError
from vdla.hw.spec.writing import check_writable
from vdla.runtime.device import Device
from vdla.runtime.devices.registry import device_factory
from vdla.runtime.devices.rtl.device import RtlDevice
from vdla.runtime.devices.rtl.waves import Waves
from vdla.runtime.samples import InputError
from vdla.runtime.vectors import DeviceFactory, Vector, load_vector, replay

if TYPE_CHECKING:
    from vdla.explore.debug.devices import DeviceRun


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
@click.option(
    "--debug-difference",
    "page",
    metavar="PAGE.html",
    type=OUTPUT_FILE,
    help="Write a page of the debugger that opens where the devices first differ, from each other or from "
    "the vector; of one vector.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def command(
    vectors: tuple[Path, ...],
    devices: tuple[str, ...],
    waves: Waves | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Run conformance vectors and compare all of DRAM; exit status 1 if one does not match.

    The programs run without verification, except on remote devices: use `vdla check` to verify them.
    Waveforms from the second vector on have a number in their file's name.
    """
    check_writable(waves.path if waves else None)
    check_writable(page)
    if page is not None and len(vectors) > 1:
        raise InputError(
            f"--debug-difference {page} shows one vector, and {len(vectors)} were given; give one"
        )
    loaded = [load_vector(path) for path in vectors]
    rows, recorded, kept = [], _Recorded(waves), list[_Kept]()
    runs = [(device, vector) for device in devices for vector in loaded]
    with click.progressbar(
        runs, label="replaying", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as progress:
        for device, vector in progress:
            kept.append(_Kept(device, recorded.factory(device)))
            rows.append(_run(kept[-1], vector))
    click.echo(json.dumps(rows, indent=1) if as_json else _table(rows))
    if waves is not None:
        show_waves(waves, recorded.written)
    if page is not None:
        _write_difference(page, loaded[0], kept)
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


class _Kept:
    """Makes the device of a run, and keeps it with the result of the run.

    Attributes:
        name: of the device.
        cycles: of the run.
        error: that the device raised.
    """

    def __init__(self, name: str, factory: DeviceFactory) -> None:
        self.name, self._factory = name, factory
        self.cycles: int | None = None
        self.error: DeviceError | None = None
        self._device: Device | None = None

    def make(self, config: AcceleratorConfig, dram_bytes: int) -> Device:
        """Return the device."""
        self._device = self._factory(config, dram_bytes)
        return self._device

    def run(self) -> "DeviceRun":
        """Return the run."""
        from vdla.explore.debug.devices import DeviceRun

        device = self._device
        dram = np.zeros(0, np.uint8) if device is None else device.copy_out(0, device.dram_bytes)
        if self.error is None:
            return DeviceRun(self.name, dram, self.cycles)
        index = self.error.index if isinstance(self.error, ProgramError) else None
        text = f"{type(self.error).__name__}: {self.error}"
        return DeviceRun(self.name, dram, None, text, -1 if index is None else index)


def _write_difference(page: Path, vector: Vector, kept: list[_Kept]) -> None:
    """Write the page that opens where runs differ; none if they do not."""
    from vdla.explore.debug.devices import differing_recording
    from vdla.explore.report.debug_page import write_debug_page

    recording = differing_recording(vector, [each.run() for each in kept])
    if recording is None:
        click.echo(f"{vector.name}: no difference, so {page} was not written", err=True)
        return
    click.echo(f"{vector.name}: differs -> {write_debug_page(page, recording)}", err=True)


def _run(kept: _Kept, vector: Vector) -> dict[str, Any]:
    """Return one row of the result; if the device refused the run, `error` is the reason."""
    row: dict[str, Any] = {"name": vector.name, "device": kept.name, "match": False}
    row |= {"cycles": None, "seconds": 0.0}
    try:
        outcome = replay(vector, kept.make)
    except DeviceError as error:
        kept.error = error
        return row | {"error": f"{type(error).__name__}: {error}"}
    kept.cycles = outcome.run.cycles
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
