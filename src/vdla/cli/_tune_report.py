"""``vdla tune report``."""

from pathlib import Path

import click

from vdla.cli._networks import status
from vdla.cli._options import OUTPUT_FILE, needs, takes_target
from vdla.hw.spec.target import Target
from vdla.hw.spec.writing import check_writable


@click.command("report")
@click.argument("log", metavar="LOG", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="PAGE.html",
    type=OUTPUT_FILE,
    help="Page to write.  [default: LOG.html in the current folder]",
)
@needs("vdla tune report", "vl_convert", "xgboost")
@takes_target
def report(log: Path, output: Path | None, target: Target) -> None:
    """Write the page of a tuning log: curves of the explorers, gains, and how well the cost model ranks.

    The page is one HTML file that works offline. Lower bounds and the cost model need the target that was
    tuned for: name it as for `vdla tune`, unless it is a preset.
    """
    from vdla.compiler.codegen.tuned.log import read_log
    from vdla.explore.report.tune_page import write_tune_report

    page = output or Path(f"{log.stem}.html")
    check_writable(page)
    contents = read_log(log)
    if contents.torn:
        click.echo(f"{log}: its last line is torn, and left out", err=True)
    with status() as say:
        written = write_tune_report(page, contents, target, say)
    click.echo(written)
