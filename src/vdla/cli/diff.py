"""``vdla diff``."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, reports_errors
from vdla.cli._records import record_of
from vdla.explore.runs.difference import RunDifference, compare_runs, difference_values
from vdla.explore.runs.record import LayerRecord, RunRecord
from vdla.explore.runs.rows import Change, DifferenceRow, Number, RowKind, ranked
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.showing import short
from vdla.hw.spec.writing import check_writable

RUN = click.Path(exists=True, dir_okay=False, path_type=Path)
ORDERS = ("difference", "order")
KIB = 1024
NONE = "-"
LONGEST_VALUE, LONGEST_LIST = 60, 200
TOTALS = (  # figure, title, what a unit is of it, digits
    ("cycles", "cycles", 1, 0),
    ("seconds", "ms", 1e-3, 3),
    ("bytes_moved", "DRAM, KiB", KIB, 1),
    ("bytes_read", "DRAM read, KiB", KIB, 1),
    ("bytes_written", "DRAM written, KiB", KIB, 1),
    ("energy_pj", "energy, uJ", 1e6, 1),
    ("launches", "launches", 1, 0),
    ("instructions", "instructions", 1, 0),
)
HEAD = (
    *("layer", "cycles A", "cycles B", "difference", "ratio"),
    *("KiB A", "KiB B", "ratio", "uJ A", "uJ B", "ratio", "bound A", "bound B", ""),
)
WORDS = (0, 11, 12, 13)  # columns of HEAD that hold text


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
    one row, and the several layers are listed below it. The sum of the rows is the total of the runs.
    """
    if output is not None:
        require_package("vl_convert", "the page of two runs")
        check_writable(output)
    difference = compare_runs(record_of(a), record_of(b), (str(a), str(b)))
    if output is not None:
        from vdla.explore.report.run_page import write_difference_page

        write_difference_page(output, difference)
    rows = ranked(difference.rows, order == "difference", top)
    click.echo(
        json.dumps(difference_values(difference, rows), indent=1) if as_json else _described(difference, rows)
    )
    if output is not None:
        click.echo(f"{output}: open it in a browser", err=True)


def _described(difference: RunDifference, rows: Sequence[DifferenceRow]) -> str:
    """Return a comparison as text.

    Args:
        rows: the rows that are listed, in order; their sum is the total.
    """
    lines = [
        f"{side}  {_title(run, name)}"
        for side, run, name in zip("AB", (difference.a, difference.b), difference.names, strict=True)
    ]
    if not difference.differs:
        return "\n".join([*lines, "nothing differs: the same target, and the same figures of every layer"])
    lines += _changed(difference)
    lines += ["", *_table([("", "A", "B", "difference", "ratio"), *_totals(difference)], {0})]
    total = DifferenceRow(RowKind.OTHERS, "total", (), (), difference.totals)
    cells = [cell for row in rows for cell in _lines(row)]
    return "\n".join([*lines, "", *_table([HEAD, *cells, _cells(total)], set(WORDS))])


def _title(run: RunRecord, name: str) -> str:
    summary = run.summary
    return (
        f"{name}: {summary.network} on {summary.target} at {summary.clock_hz / 1e6:g} MHz, "
        f"device {run.device}"
    )


def _changed(difference: RunDifference) -> Iterator[str]:
    """Yield what differs between the targets and the circumstances of the runs."""
    if not difference.changed:
        yield "the same target; compiler, schedules or options of compilation differ"
    width = max((len(name) for name in difference.changed), default=0)
    for name, (a, b) in difference.changed.items():
        yield f"{name:{width}}  {_settings(a, b)}"


def _settings(a: object, b: object) -> str:
    """Return two values of a setting; of two lists what only the first and only the second has."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        alone = [[str(each) for each in here if each not in there] for here, there in ((a, b), (b, a))]
        texts = [
            f"{side} alone has {short(', '.join(names), LONGEST_LIST)}"
            for side, names in zip("AB", alone, strict=True)
            if names
        ]
        return "; ".join(texts) or "another order"
    return f"{_setting(a)} -> {_setting(b)}"


def _setting(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return NONE if value is None else short(str(value), LONGEST_VALUE)


def _totals(difference: RunDifference) -> Iterator[tuple[str, ...]]:
    for name, title, unit, digits in TOTALS:
        change = difference.totals[name]
        if change.difference is not None:
            yield title, *_numbers(change, unit, digits)


def _numbers(change: Change, unit: float, digits: int) -> tuple[str, str, str, str]:
    """Return the cells of a figure: A, B, difference and ratio."""
    a, b, difference = (_number(each, unit, digits) for each in (change.a, change.b, change.difference))
    sign = "+" if (change.difference or 0) > 0 else ""
    return a, b, f"{sign}{difference}", NONE if change.ratio is None else f"{change.ratio:.3f}"


def _number(value: Number | None, unit: float, digits: int) -> str:
    return NONE if value is None else f"{value / unit:,.{digits}f}" if unit != 1 else f"{value:,}"


def _lines(row: DifferenceRow) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a row, and of each layer of a side that has several."""
    yield _cells(row)
    if row.kind is RowKind.GROUP:
        for side, layers in (("A", row.a), ("B", row.b)):
            yield from (_member(layer, side) for layer in layers if len(layers) > 1)


def _cells(row: DifferenceRow) -> tuple[str, ...]:
    cycles, moved, energy = (row.changes[name] for name in ("cycles", "bytes_moved", "energy_pj"))
    amounts = [_numbers(change, unit, 1) for change, unit in ((moved, KIB), (energy, 1e6))]
    return (
        row.name,
        *_numbers(cycles, 1, 0),
        *(cell for a, b, _, ratio in amounts for cell in (a, b, ratio)),
        *(bound or (NONE if row.a or row.b else "") for bound in row.bounds),
        _note(row),
    )


def _member(layer: LayerRecord, side: str) -> tuple[str, ...]:
    """Return the cells of a layer of a group, whose figures the group's include."""
    figures = [
        _number(layer.cycles, 1, 0),
        _number(layer.bytes_read + layer.bytes_written, KIB, 1),
        _number(layer.energy_pj, 1e6, 1),
    ]
    places = zip((1, 5, 8), figures, strict=True)
    cells = [f"  {side}: {layer.name}", *[""] * (len(HEAD) - 1)]
    for place, figure in places:
        cells[place + (side == "B")] = figure
    cells[11 + (side == "B")] = layer.bound or ("host" if layer.on == "host" else NONE)
    return tuple(cells)


def _note(row: DifferenceRow) -> str:
    """Return how the runs differ in the layers of a row."""
    match row.kind:
        case RowKind.ONLY_A:
            return "only in A"
        case RowKind.ONLY_B:
            return "only in B"
        case RowKind.GROUP:
            return f"{_layers(row.a)} in A, {_layers(row.b)} in B"
    hosts = [next((layer for layer in layers if layer.on == "host"), None) for layers in (row.a, row.b)]
    if (hosts[0] is None) == (hosts[1] is None):
        return ""
    side, layer = ("A", hosts[0]) if hosts[0] else ("B", hosts[1])
    return f"on the host in {side}: {layer.reason}" if layer and layer.reason else f"on the host in {side}"


def _layers(layers: Sequence[object]) -> str:
    return f"{len(layers)} layer{'s' * (len(layers) != 1)}"


def _table(rows: Sequence[Sequence[str]], words: Iterable[int]) -> list[str]:
    """Return rows as aligned columns: text to the left, numbers to the right."""
    words = set(words)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
