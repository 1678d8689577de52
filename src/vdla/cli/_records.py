"""Records of runs: what `vdla run --json` prints, and what `vdla diff` reads."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vdla.explore.runs.operators import layer_operators
from vdla.explore.runs.record import RunRecord, parse_record, read_record, record_values, timed

if TYPE_CHECKING:
    from vdla.hw.spec.sdram import AnyMemory
    from vdla.runtime.module.plan import Plan
    from vdla.runtime.session.report import Report
    from vdla.runtime.session.summary import Summary

MODULE = ".vdla"


def run_values(
    plan: "Plan", run_report: "Report", summary: "Summary", memory: "AnyMemory"
) -> dict[str, object]:
    """Return the record of a run as plain JSON values.

    Args:
        memory: of the run.

    Raises:
        GraphError: the graph that the module carries is invalid.
    """
    return record_values(run_report, summary, replace(plan.target, memory=memory), _operators(plan))


def _operators(plan: "Plan") -> tuple[tuple[str, ...], ...]:
    """Return the operators of each layer; nothing if the module carries no graph."""
    if plan.graphs is None:
        return ()
    from vdla.prove.graphs import carried_graphs

    graphs = carried_graphs(plan)
    return layer_operators(plan.steps, graphs.integers, graphs.target)


def record_of(path: Path) -> RunRecord:
    """Return the record of a run in a JSON file, or the record of a module, which the cycle simulator times.

    Raises:
        FileFormatError: the file is not a record, or the run was not timed.
        ModuleError: the file is not a module.
    """
    return _forecast(path) if path.suffix == MODULE else read_record(path)


def _forecast(path: Path) -> RunRecord:
    from vdla.api import load
    from vdla.runtime.session.summary import summary_of

    plan = (module := load(path)).plan
    forecast = module.forecast()
    values = run_values(plan, forecast, summary_of(plan, forecast), plan.target.memory)
    return timed(parse_record(msgspec.json.encode(values), str(path)), str(path))
