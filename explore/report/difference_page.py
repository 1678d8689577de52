"""The page of a comparison of two runs."""

from pathlib import Path

from vdla.explore.report.page import write_page
from vdla.explore.runs.difference import RunDifference, difference_values

SCRIPTS = ("layers.js", "difference.js")


def write_difference_page(output: Path, found: RunDifference) -> Path:
    """Write the page of a comparison of two runs, with all its rows.

    Returns:
        The file.

    Raises:
        OutputError: the page cannot be written.
        ToolError: a package that writes pages is not installed.
    """
    title = f"Two runs of {found.a.summary.network}"
    return write_page(output, title, "difference.html", SCRIPTS, difference_values(found, found.rows))
