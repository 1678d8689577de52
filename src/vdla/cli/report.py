"""``vdla report``."""

from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, needs
from vdla.hw.spec.writing import check_writable


@click.command()
@click.argument("source", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", type=OUTPUT_FILE, help="HTML file to write.  [default: report.html in DIR]")
@needs("vdla report", "pyarrow", "vl_convert")
def command(source: Path, output: Path | None) -> None:
    """Write the page of a sweep: Pareto fronts, parallel coordinates, table, layers.

    The page is one HTML file. It works offline, in any current browser.
    """
    from vdla.explore.report.sweep_page import write_sweep_report

    check_writable(output)
    click.echo(write_sweep_report(source, output))
