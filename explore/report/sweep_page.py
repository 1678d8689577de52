"""The page of a sweep."""

from pathlib import Path

from vdla.explore.report.page import write_page
from vdla.explore.report.sweep_data import page_data, read_sweep

REPORT = "report.html"
SCRIPTS = (
    "fields.js",
    "limits.js",
    "state.js",
    "pareto.js",
    "parallel.js",
    "layers.js",
    "beside.js",
    "detail.js",
    "link.js",
    "sweep.js",
)


def write_sweep_report(folder: Path, output: Path | None = None) -> Path:
    """Write the page of a sweep.

    Args:
        folder: of the sweep; it holds `points.parquet`, `layers.parquet` and `sweep.json`.
        output: file to write; None: `report.html` in the folder.

    Returns:
        The file.

    Raises:
        FileFormatError, SweepError: a file of the sweep is missing or damaged.
        OutputError: the page cannot be written.
        ToolError: a package that writes pages is not installed.
    """
    sweep = read_sweep(folder)
    return write_page(
        output or folder / REPORT, f"Sweep {sweep.name}", "sweep.html", SCRIPTS, page_data(sweep)
    )
