"""``vdla plot``."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vdla.cli._options import OUTPUT_FILE, VECTORS, needs, takes_memory
from vdla.cli._runs import raise_fault, time_vector
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.target import Target
from vdla.hw.spec.writing import check_writable
from vdla.sim.timing.result import Timing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("utilisation", "roofline", "timeline")


@click.command()
@VECTORS
@click.option("-o", "--output", required=True, type=OUTPUT_FILE, help="A .png or .svg file.")
@click.option("--kind", type=click.Choice(KINDS), default=KINDS[0], show_default=True)
@takes_memory
@needs("vdla plot", "matplotlib")
def command(vectors: tuple[Path, ...], output: Path, kind: str, memory: MemoryParameters) -> None:
    """Simulate programs and plot utilisation, the roofline or a timeline."""
    from vdla.sim.plots.files import check_suffix, save

    check_suffix(output)
    check_writable(output)
    timings = {name: time_vector(path, memory) for name, path in _names(vectors).items()}
    for timing in timings.values():
        raise_fault(timing)
    save(_figure(kind, timings, memory), output)


def _names(vectors: tuple[Path, ...]) -> dict[str, Path]:
    """Return every file once, by its stem, or by its path if files of two folders share a stem."""
    paths = list(dict.fromkeys(vectors))
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}


def _figure(kind: str, timings: dict[str, Timing], memory: MemoryParameters) -> "Figure":
    if kind == "utilisation":
        from vdla.sim.plots.utilisation import utilisation

        return utilisation(timings)
    if kind == "timeline":
        from vdla.sim.plots.timeline import timeline

        if len(timings) > 1:
            raise FileFormatError(f"a timeline shows one program, not {len(timings)}: {', '.join(timings)}")
        return timeline(*timings.values())
    from vdla.sim.plots.roofline import point_of, roofline

    configs = {timing.program.config.digest: timing.program.config for timing in timings.values()}
    if len(configs) > 1:
        names = ", ".join(timings)
        raise FileFormatError(
            f"{names} are for {len(configs)} different configurations; a roofline shows one: plot them apart"
        )
    points = [point_of(name, timing) for name, timing in timings.items()]
    for point in points:
        if not point.macs:
            raise FileFormatError(f"{point.name} multiplies nothing; a roofline shows runs that do")
    (config,) = configs.values()
    return roofline({"runs": points}, Target(config, memory))
