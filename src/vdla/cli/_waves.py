"""The options of waveforms, which `vdla run` and `vdla replay` share."""

from collections.abc import Iterable
from functools import wraps
from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, Command, reports_errors
from vdla.hw.spec.errors import OutputError
from vdla.runtime.devices.rtl.waves import Waves

RECORDS = "rtl"
CYCLE = click.IntRange(min=0)


def takes_waves(function: Command) -> Command:
    """Add --waves, --waves-from and --waves-to; the command gets `waves`, which is None without --waves.

    The command has an option --device, once or repeated.
    """

    @click.option(
        "--waves",
        "path",
        metavar="W.fst|W.vcd",
        type=OUTPUT_FILE,
        help="Write a waveform of each run (device rtl): signals by unit, 10 ns per cycle.",
    )
    @click.option(
        "--waves-from", "first", metavar="CYCLE", type=CYCLE, help="First cycle to record.  [default: 0]"
    )
    @click.option(
        "--waves-to", "last", metavar="CYCLE", type=CYCLE, help="Last cycle to record.  [default: the end]"
    )
    @reports_errors
    @wraps(function)
    def wrapped(path: Path | None, first: int | None, last: int | None, **kwargs: object) -> None:
        function(waves=_waves(path, first, last, kwargs), **kwargs)

    return wrapped


def _waves(path: Path | None, first: int | None, last: int | None, given: dict[str, object]) -> Waves | None:
    if path is None:
        if (first, last) != (None, None):
            raise click.UsageError("--waves-from and --waves-to need --waves")
        return None
    devices = given.get("devices", (given.get("device"),))
    assert isinstance(devices, tuple)
    if RECORDS not in devices:
        raise click.UsageError(f"--waves needs --device {RECORDS}")
    return Waves(path, first or 0, last)


def show_waves(waves: Waves, written: Iterable[Path]) -> None:
    """Print which waveforms were written.

    Raises:
        OutputError: none was, because every run ended before the first cycle to record.
    """
    files = list(written)
    for path in files:
        click.echo(f"{path}: open it in GTKWave or Surfer", err=True)
    if not files:
        raise OutputError(f"no waveform was written: no run reached cycle {waves.first}, the first to record")
