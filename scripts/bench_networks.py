#!/usr/bin/env python3
"""Measure quantised networks on the configuration `default`: launches, what runs on the accelerator, cycles
by the compiler's default choices and by the records that ship, and how long they take to compile.

A network is compiled with empty caches in a separate process, and the processor's seconds count, Python's
start included; bytecode and machine code, which are compiled once per installation, exist before. The cycle
simulator counts cycles with the reference memory.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
from bench_compile import Place, compile_seconds

import vdla
from vdla.compiler.codegen.tuned.best_records import NONE
from vdla.runtime.module.plan import random_inputs
from vdla.runtime.session.summary import Summary

MODELS = Path(__file__).parent.parent / "build" / "models"
ENDING = "_int8"
TITLES = (
    f"{'network':20}{'launches':>10}{'MMAC':>9}{'on the accelerator':>20}{'by default':>12}{'cycles':>12}"
    f"{'change':>9}{'multipliers':>13}{'compiled in s':>15}"
)


@dataclass(frozen=True)
class Row:
    """What is measured of a network.

    Attributes:
        summary: of a run on the cycle device.
        default: cycles by the compiler's default choices.
        seconds: of the processor, to compile it.
    """

    network: str
    summary: Summary
    default: int
    seconds: float

    def __str__(self) -> str:
        summary = self.summary
        cycles = summary.cycles or 0
        change = f"{cycles / self.default - 1:+.2%}" if self.default else "-"
        share = "-" if summary.mac_share is None else f"{summary.mac_share:.1%}"
        return (
            f"{self.network:20}{summary.launches:10}{(summary.macs + summary.host_macs) / 1e6:9,.1f}"
            f"{share:>20}{self.default:12,}{cycles:12,}{change:>9}{summary.utilisation or 0:13.1%}"
            f"{self.seconds:15.1f}"
        )


def row_of(model: Path, folder: Path, *options: str) -> Row:
    """Measure a network.

    Args:
        folder: for caches and modules.
        options: of `vdla compile`.

    Raises:
        click.ClickException: it cannot be compiled.
    """
    with tempfile.TemporaryDirectory(dir=folder) as work_folder:
        place = Place(Path(work_folder), folder / "bytecode")
        seconds = compile_seconds(model, place, *options)
        module = vdla.load(place.module)
    default = vdla.compile(model, module.plan.target, tuning=NONE).forecast().cycles or 0
    summary = module.run(random_inputs(module.plan.inputs), "cycle").summary
    return Row(model.stem.removesuffix(ENDING), summary, default, seconds.cpu)


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(models: tuple[Path, ...]) -> None:
    paths = models or tuple(sorted(MODELS.glob(f"*{ENDING}.onnx")))
    if not paths:
        raise click.ClickException(
            "build/models holds no .onnx files; make some with scripts/make_models.py, or name others"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm = Place(folder / "warm", folder / "bytecode")
        warm.folder.mkdir()
        compile_seconds(paths[0], warm)
        click.echo(TITLES)
        for path in paths:
            click.echo(row_of(path, folder))


if __name__ == "__main__":
    main()
