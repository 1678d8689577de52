"""Where the cycles went: each unit's states, over whole runs and along a run."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from vdla.hw.spec.registers import COUNTED_MEMORIES, UnitState, beat_counter
from vdla.hw.spec.units import Unit
from vdla.sim.plots.files import styled
from vdla.sim.records import FloatArray
from vdla.sim.timing.result import Timing

COLOURS = {
    UnitState.BUSY: "#0072B2",
    UnitState.MEMORY: "#D55E00",
    UnitState.TOKEN_PREV: "#E69F00",
    UnitState.TOKEN_NEXT: "#F0E442",
    UnitState.ROOM: "#CC79A7",
    UnitState.INSTRUCTION: "#56B4E9",
    UnitState.IDLE: "#DDDDDD",
}
BINS = 200
WRITTEN_FROM = 5  # percent: narrower parts of a bar carry no number
BAR_INCHES, STRIP_INCHES = 0.24, 0.75
PITCH = len(Unit) + 1.8  # from run to run, in bars: the room for its name and figures


def utilisation(runs: Mapping[str, Timing]) -> Figure:
    """Draw, for each run, a bar per unit of what its cycles count as, and below them the last run along its
    time if it has a log."""
    timings = list(runs.values())
    along = timings[-1].log is not None
    heights = [0.5 + BAR_INCHES * PITCH * len(runs)] + [STRIP_INCHES] * (len(Unit) * along)
    with styled():
        figure = Figure(figsize=(10, 1.3 + sum(heights)), layout="constrained")
        axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        _draw_bars(axes[0], runs)
        for unit, strip in zip(Unit, axes[1:], strict=False):
            _draw_strip(strip, timings[-1], unit)
        if along:
            axes[-1].set_xlabel(f"cycle of {list(runs)[-1]}")
            axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        _draw_legend(figure)
    return figure


def _draw_legend(figure: Figure) -> None:
    patches = [
        Patch(color=COLOURS[state], label=f"{state.name.lower()}: {state.value}") for state in UnitState
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, frameon=False, fontsize=8)


def _draw_bars(axes: Axes, runs: Mapping[str, Timing]) -> None:
    places = {number * PITCH + unit: unit.name.lower() for number in range(len(runs)) for unit in Unit}
    for number, (name, timing) in enumerate(runs.items()):
        for unit in Unit:
            _draw_bar(axes, number * PITCH + unit, timing, unit)
        for text, height, weight in ((name, 15, "bold"), (_summary(timing), 4, "normal")):
            axes.annotate(
                text,
                (0, number * PITCH - 0.4),
                xytext=(0, height),
                textcoords="offset points",
                fontsize=8,
                weight=weight,
            )
    axes.set_yticks(list(places), list(places.values()))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(0, 100), ylim=(max(places) + 0.6, len(Unit) - PITCH - 0.4), xlabel="% of the run's cycles")


def _draw_bar(axes: Axes, place: float, timing: Timing, unit: Unit) -> None:
    left = 0.0
    for state, cycles in timing.states(unit).items():
        share = 100 * cycles / timing.cycles
        axes.barh(place, share, left=left, color=COLOURS[state], height=0.8)
        if share >= WRITTEN_FROM:
            axes.text(
                left + share / 2,
                place,
                f"{share:.0f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if state in (UnitState.BUSY, UnitState.MEMORY) else "black",
            )
        left += share


def _summary(timing: Timing) -> str:
    """Return a line of figures: cycles, GEMM core, memory."""
    config, counters = timing.program.config, timing.counters
    beats = {memory: counters[beat_counter(memory)] for memory in (*COUNTED_MEMORIES, None)}
    moved = ", ".join(
        f"{memory.name if memory is not None else 'instructions'} {count * config.bus_bytes / 1024:,.1f}"
        for memory, count in beats.items()
        if count
    )
    return (
        f"{timing.cycles:,} cycles; GEMM steps in {100 * counters['GEMM_STEPS'] / timing.cycles:.1f} %, "
        f"memory beats in {100 * sum(beats.values()) / timing.cycles:.1f} % of them; KiB moved: {moved}"
    )


def _draw_strip(axes: Axes, timing: Timing, unit: Unit) -> None:
    """Draw the shares of the unit's states in BINS parts of the run."""
    edges = np.linspace(1, timing.cycles, BINS + 1)  # the log covers [1, cycles)
    below = np.zeros(len(edges) - 1)
    for state, cycles in timing.states(unit).items():
        if cycles:
            above = below + 100 * along(timing, unit, state, edges)
            axes.stairs(above, edges, baseline=below, fill=True, color=COLOURS[state], linewidth=0)
            below = above
    axes.set(xlim=(0, timing.cycles), ylim=(0, 100), ylabel=unit.name.lower(), yticks=[])
    if unit is not list(Unit)[-1]:
        axes.tick_params(labelbottom=False)


def along(timing: Timing, unit: Unit, state: UnitState, edges: FloatArray) -> FloatArray:
    """Return float64[bins]: the share of the cycles between two `edges` that `unit` spends in `state`.

    Args:
        edges: float64[bins + 1], ascending cycles.
    """
    spans = timing.logged.spans
    chosen = spans[(spans["unit"] == unit) & (spans["state"] == tuple(UnitState).index(state))]
    spent = np.concatenate([[0], np.cumsum(chosen["end"] - chosen["begin"])])
    begun = np.searchsorted(chosen["begin"], edges, side="right")
    ends = np.concatenate([[-np.inf], chosen["end"]])
    before = spent[begun] - np.maximum(ends[begun] - edges, 0)  # less what the last span still has before it
    shares: FloatArray = np.diff(before) / np.diff(edges)
    return shares
