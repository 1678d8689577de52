"""``vdla diff``."""

import json
from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, reports_errors
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.writing import check_writable

RUN = click.Path(exists=True, dir_okay=False, path_type=Path)
ORDERS = ("difference", "order")


@click.command()
@click.argument("a", metavar="RUN_A", type=RUN)
@click.argument("b", metavar="RUN_B", type=RUN)
@click.option(
    "--sort",
    "order",
    default="difference",
    show_default=True,
    type=click.Choice(ORDERS),
    help="List the layers by the difference of their cycles, the largest first, or in the order in which "
    "they run.",
)
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=1),
    help="List the first N rows, and the sum of the others as one row.  [default: all]",
)
@click.option(
    "-o", "--output", metavar="PAGE.html", type=OUTPUT_FILE, help="Write an HTML page, with all layers, too."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the layers of both runs in each row.")
@reports_errors
def command(a: Path, b: Path, order: str, top: int | None, output: Path | None, as_json: bool) -> None:
    """Compare two runs of a network, layer by layer: two targets, two compilers, two schedules.

    RUN_A and RUN_B are files that `vdla run MODEL --device cycle --json > RUN.json` writes, or modules
    (.vdla), which the cycle simulator times on their targets.

    Prints what differs between the targets; cycles, time, DRAM bytes, energy and launches of both runs; and
    for each layer its figures in A and in B, and what bounds it. Layers are matched by the operators of the
    network that they compute. If one run computes in one layer what the other computes in several, they are
    one row, and the layers of both are listed below it. The sum of the rows is the total of the runs.
    """
    from vdla.cli._differences import described
    from vdla.cli._records import record_of
    from vdla.explore.runs.difference import compare_runs, difference_values
    from vdla.explore.runs.rows import ranked

    if output is not None:
        require_package("vl_convert", "the page of vdla diff")
        check_writable(output)
    found = compare_runs(record_of(a), record_of(b), (str(a), str(b)))
    if output is not None:
        from vdla.explore.report.difference_page import write_difference_page

        write_difference_page(output, found)
    rows = ranked(found.rows, order == "difference", top)
    click.echo(json.dumps(difference_values(found, rows), indent=1) if as_json else described(found, rows))
    if output is not None:
        click.echo(f"{output}: open it in a browser", err=True)
