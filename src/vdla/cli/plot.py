"""``vdla plot``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vdla.cli._options import OUTPUT_FILE, needs, overrides_memory
from vdla.cli._runs import MemoryOf, TimedRun, raise_fault, timed_runs
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.target import Target
from vdla.hw.spec.writing import check_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("utilisation", "roofline", "timeline")


@click.command()
@click.argument(
    "vectors",
    nargs=-1,
    required=True,
    metavar="VECTOR|MODULE.vdla...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("-o", "--output", required=True, type=OUTPUT_FILE, help="A .png or .svg file.")
@click.option("--kind", type=click.Choice(KINDS), default=KINDS[0], show_default=True)
@overrides_memory
@needs("vdla plot", "matplotlib")
def command(vectors: tuple[Path, ...], output: Path, kind: str, memory: MemoryOf) -> None:
    """Simulate programs and plot utilisation, the roofline or a timeline.

    A vector runs with the reference memory, a module with that of its target, unless options say otherwise.
    Of a module every launch is a program.
    """
    from vdla.sim.plots.files import check_suffix, save

    check_suffix(output)
    check_writable(output)
    runs = [run for name, path in _names(vectors).items() for run in timed_runs(path, name, memory)]
    if not runs:
        raise FileFormatError(f"nothing of {', '.join(map(str, vectors))} runs on the accelerator")
    for run in runs:
        raise_fault(run.timing)
    save(_figure(kind, runs), output)


def _names(vectors: tuple[Path, ...]) -> dict[str, Path]:
    """Return every file once, by its stem, or by its path if files of two folders share a stem."""
    paths = list(dict.fromkeys(vectors))
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}


def _figure(kind: str, runs: Sequence[TimedRun]) -> "Figure":
    if kind == "utilisation":
        from vdla.sim.plots.utilisation import utilisation

        return utilisation({run.name: run.timing for run in runs})
    if kind == "timeline":
        from vdla.sim.plots.timeline import timeline

        if len(runs) > 1:
            names = ", ".join(run.name for run in runs)
            raise FileFormatError(f"a timeline shows one program, not {len(runs)}: {names}")
        return timeline(runs[0].timing, runs[0].layers)
    return _roofline(runs)


def _roofline(runs: Sequence[TimedRun]) -> "Figure":
    from vdla.sim.plots.roofline import point_of, roofline

    targets = {
        target.timing_digest: target
        for target in (Target(run.timing.program.config, run.memory) for run in runs)
    }
    if len(targets) > 1:
        names = ", ".join(run.name for run in runs)
        raise FileFormatError(
            f"{names} are for {len(targets)} different configurations or memories; a roofline shows one: "
            "plot them apart"
        )
    points = [point_of(run.name, run.timing) for run in runs]
    for point in points:
        if not point.macs:
            raise FileFormatError(f"{point.name} multiplies nothing; a roofline shows runs that do")
    return roofline({"runs": points}, *targets.values())
