"""``vdla trace``."""

from pathlib import Path

import click

from vdla.cli._options import reports_errors, takes_memory
from vdla.hw.spec.memory import MemoryParameters
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.vectors import load_vector, replay
from vdla.sim.timing.result import Timing
from vdla.sim.trace.perfetto import write_perfetto
from vdla.sim.trace.text import lines


@click.command()
@click.argument("vector", metavar="VECTOR", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
              help="File to write; - is standard output (with --text).")
@click.option("--text", is_flag=True, help="Write one line per event instead of a timeline.")
@takes_memory
@reports_errors
def command(vector: Path, output: Path, text: bool, memory: MemoryParameters) -> None:
    """Simulate a program and write its timeline, to be opened in ui.perfetto.dev, or its events as text."""
    timing = _timing(vector, memory)
    if text:
        with click.open_file(str(output), "w", atomic=str(output) != "-") as file:
            file.writelines(f"{line}\n" for line in lines(timing))
    elif str(output) == "-":
        raise click.UsageError("a timeline goes to a file: give -o FILE, or --text")
    else:
        write_perfetto(timing, output)
    click.echo(f"{vector.name}: {timing.cycles} cycles, {len(timing.program)} instructions -> {output}"
               + ("" if text else "; open it in https://ui.perfetto.dev"), err=True)


def _timing(path: Path, memory: MemoryParameters) -> Timing:
    """Replay a vector on the cycle device and return when everything happened."""
    devices = []

    def make(config, dram_bytes):
        devices.append(CycleDevice(config, dram_bytes, memory, log=True))
        return devices[0]

    replay(load_vector(path), make)
    return devices[0].timing
