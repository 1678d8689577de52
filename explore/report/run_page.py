"""The page of a network's run on the cycle device, and the page of two runs."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vdla.explore.report.numbers import short
from vdla.explore.report.page import write_page
from vdla.explore.runs.difference import RunDifference, difference_values
from vdla.explore.silicon.note import clock_note
from vdla.hw.spec.config import parameters
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.target import Target
from vdla.hw.spec.units import Unit
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.report import LayerReport, Report
from vdla.runtime.session.session import Outcome, Ran
from vdla.runtime.session.summary import Summary, summary_of
from vdla.runtime.session.traced import traced
from vdla.sim.timing.result import Timing
from vdla.sim.trace.events import label, wait_text
from vdla.sim.trace.layers import TracedLayer

STATES = tuple(UnitState)
SCRIPTS = ("layers.js", "spans.js", "timeline.js", "run.js")
DIFFERENCE_SCRIPTS = ("layers.js", "difference.js")


def page_data(plan: Plan, outcome: Outcome, run_report: Report, target: Target) -> dict[str, Any]:
    """Return everything that the page shows, as JSON values.

    Args:
        plan: of the network.
        outcome: of its run on the cycle device, with logs.
        run_report: of that run.
        target: the plan's, with the memory and the clock of the run.

    Raises:
        ValueError: a launch ran without a log.
    """
    note = clock_note(target)
    return {
        "name": plan.name,
        "totals": {
            name: short(getattr(run_report, name))
            for name in ("cycles", "seconds", "macs", "utilisation", "energy_pj")
        },
        "energy": [[name, short(value)] for name, value in sorted(run_report.energy.items(), key=_size)],
        "target": _target_values(target),
        "peak": plan.config.macs_per_cycle,
        "bus": target.bytes_per_cycle,
        "clock_mhz": target.clock_mhz,
        "clock_source": note or target.clock_source.text,
        "states": [state.name.lower() for state in STATES],
        "summary": _summary(summary_of(plan, run_report, target.clock_hz, note)),
        "layers": [_layer(layer) for layer in run_report.layers],
        "launches": [_launch(ran, layers) for ran, layers in traced(plan, outcome, run_report)],
    }


def _size(item: tuple[str, float]) -> float:
    """Return a key that sorts the largest component first."""
    return -item[1]


def _target_values(target: Target) -> dict[str, Any]:
    """Return the parameters of the accelerator and its memory, by the names that --set takes."""
    memory = {f"memory.{name}": value for name, value in asdict(target.memory).items()}
    return {"name": target.name, "digest": target.digest, "parameters": parameters(target.config) | memory}


def _summary(summary: Summary) -> dict[str, Any]:
    """Return what the page shows of a summary beside the totals."""
    figures = (
        "launches",
        "bytes_in",
        "bytes_out",
        "bytes_moved",
        "bytes_once",
        "roofline_share",
        "host_operators",
        "host_seconds",
        "copy_seconds",
    )
    values = {name: short(getattr(summary, name)) for name in (*figures, "mac_share")}
    return {**values, "reasons": [asdict(reason) for reason in summary.reasons]}


def _layer(layer: LayerReport) -> dict[str, Any]:
    return {name: short(value) for name, value in asdict(layer).items()}


def _launch(ran: Ran, layers: Iterable[TracedLayer]) -> dict[str, Any]:
    assert ran.timing is not None, "the cycle device times every launch"
    return {
        "name": ran.step.stream,
        "cycles": ran.timing.cycles,
        "layers": [
            {"name": layer.name, "begin": layer.begin, "end": layer.end}
            for layer in layers
            if layer.begin < layer.end
        ],
        "units": [_unit(ran.timing, unit) for unit in Unit],
    }


def _unit(timing: Timing, unit: Unit) -> dict[str, Any]:
    """Return the spans of a unit: the first begins in cycle 1, and each where the span before it ends.

    `labels` holds the distinct names of instructions; `instruction` the number of each span's name, or
    -1; `texts` what each state that occurs means.
    """
    spans = timing.logged.spans[timing.logged.spans["unit"] == unit]
    instructions = spans["instruction"].tolist()
    names = {index: label(timing.program, index) for index in set(instructions) if index >= 0}
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names.values()))}
    return {
        "name": unit.name.lower(),
        "state": spans["state"].tolist(),
        "length": (spans["end"] - spans["begin"]).tolist(),
        "instruction": [numbers[names[index]] if index >= 0 else -1 for index in instructions],
        "labels": list(numbers),
        "texts": {state: wait_text(unit, STATES[state]) for state in sorted(set(spans["state"].tolist()))},
    }


def write_run_report(output: Path, plan: Plan, outcome: Outcome, run_report: Report, target: Target) -> Path:
    """Write the page of a run.

    Args:
        output: file to write.
        plan: of the network.
        outcome: of its run on the cycle device, with logs.
        run_report: of that run.
        target: the plan's, with the memory and the clock of the run.

    Returns:
        The file.

    Raises:
        OutputError: the page cannot be written.
        ToolError: a package that writes pages is not installed.
        ValueError: a launch ran without a log.
    """
    return write_page(
        output, f"Run of {plan.name}", "run.html", SCRIPTS, page_data(plan, outcome, run_report, target)
    )


def write_difference_page(output: Path, difference: RunDifference) -> Path:
    """Write the page of a comparison of two runs, with all its rows.

    Returns:
        The file.

    Raises:
        OutputError: the page cannot be written.
        ToolError: a package that writes pages is not installed.
    """
    title = f"Two runs of {difference.a.summary.network}"
    values = difference_values(difference, difference.rows)
    return write_page(output, title, "difference.html", DIFFERENCE_SCRIPTS, values)
