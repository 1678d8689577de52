"""``vdla export``."""

from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, reports_errors
from vdla.export.files import files_of
from vdla.export.network import require_name
from vdla.export.operators import notes_of
from vdla.hw.spec.writing import check_writable, write_together
from vdla.runtime.module.file import load


@click.command()
@click.argument("module", metavar="MODULE.vdla", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--c", "as_c", is_flag=True, required=True, help="Write C99, for a bare-metal CPU.")
@click.option("-o", "--output", "folder", required=True, type=OUTPUT_FILE, help="Folder to write into.")
@click.option(
    "--name", help="Name of the files, and prefix of the C symbols.  [default: the name of the module file]"
)
@reports_errors
def command(module: Path, as_c: bool, folder: Path, name: str | None) -> None:
    """Write a module as C: stream, weights, driver, operators on the CPU, and a Makefile.

    The files are one static library. They allocate no memory at run time and need no operating system. All
    streams are verified first.
    """
    name = name if name is not None else module.stem.lower().replace("-", "_")
    require_name(name)
    check_writable(folder / "Makefile")
    plan = load(module)
    contents = {folder / file: text for file, text in files_of(plan, name).items()}
    write_together(contents)
    for note in notes_of(plan):
        click.echo(note, err=True)
    for path in contents:
        click.echo(path)
