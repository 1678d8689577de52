"""The page of a network's run on the cycle device."""

from pathlib import Path

from vdla.explore.report.page import write_page
from vdla.explore.report.run_data import page_data
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.report import Report
from vdla.runtime.session.session import Outcome

SCRIPTS = ("layers.js", "spans.js", "timeline.js", "run.js")


def write_run_report(output: Path, plan: Plan, outcome: Outcome, found: Report, target: Target) -> Path:
    """Write the page of a run.

    Args:
        output: file to write.
        plan: of the network.
        outcome: of its run on the cycle device, with logs.
        found: the report of that run.
        target: the plan's, with the memory and the clock of the run.

    Returns:
        The file.

    Raises:
        OutputError: the page cannot be written.
        ToolError: a package that writes pages is not installed.
        ValueError: a launch ran without a log.
    """
    return write_page(
        output, f"Run of {plan.name}", "run.html", SCRIPTS, page_data(plan, outcome, found, target)
    )
