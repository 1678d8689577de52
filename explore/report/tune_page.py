"""The page of a tuning log."""

from pathlib import Path

from vdla.compiler.codegen.tuned.log import LogContents
from vdla.explore.report.page import write_page
from vdla.explore.report.tune_data import Say, page_data
from vdla.hw.spec.target import Target

SCRIPTS = ("curves.js", "standings.js", "tune.js")


def write_tune_report(
    output: Path, contents: LogContents, given: Target, say: Say = lambda text: None
) -> Path:
    """Write the page of a tuning log.

    Args:
        output: file to write.
        contents: of the log.
        given: a target that the log may be of, beside the presets.
        say: is told what is done.

    Returns:
        The file.

    Raises:
        TuneError: the log holds no record.
        OutputError: the page cannot be written.
        ToolError: a package that writes pages, or that learns, is not installed.
    """
    title = f"Tuning log {contents.path.name}"
    return write_page(output, title, "tune.html", SCRIPTS, page_data(contents, given, say))
