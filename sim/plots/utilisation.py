"""Where the cycles went: each unit's states, over whole runs and along one."""

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from vdla.hw.spec.registers import COUNTED_MEMORIES, UnitState, beat_counter
from vdla.hw.spec.units import Unit
from vdla.sim.plots.files import STYLE
from vdla.sim.timing.result import Timing

COLOURS = {
    UnitState.BUSY: "#0072B2", UnitState.MEMORY: "#D55E00", UnitState.TOKEN_PREV: "#E69F00", UnitState.TOKEN_NEXT: "#F0E442",
    UnitState.ROOM: "#CC79A7", UnitState.INSTRUCTION: "#56B4E9", UnitState.IDLE: "#DDDDDD",
}
WORDS = {
    UnitState.BUSY: "busy", UnitState.MEMORY: "waits for memory", UnitState.TOKEN_PREV: "waits for a token of the unit before",
    UnitState.TOKEN_NEXT: "waits for a token of the unit after", UnitState.ROOM: "waits for room for a token",
    UnitState.INSTRUCTION: "waits for an instruction", UnitState.IDLE: "has nothing left to do",
}
BINS = 200
WRITTEN_FROM = 5  # percent: narrower parts of a bar carry no number


def utilisation(runs: Mapping[str, Timing]) -> Figure:
    """Draw, for each run, a bar per unit of what its cycles count as, and below them the last run along its time if it has a log."""
    timings = list(runs.values())
    along = timings[-1].log is not None
    heights = [0.4 + 1.1 * len(runs)] + [0.75] * (len(Unit) * along)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 1.2 + sum(heights)), layout="constrained")
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
    patches = [Patch(color=COLOURS[state], label=WORDS[state]) for state in UnitState]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False)


def _draw_bars(axes: Axes, runs: Mapping[str, Timing]) -> None:
    places, labels = [], []
    for number, (name, timing) in enumerate(runs.items()):
        for unit in Unit:
            place = number * (len(Unit) + 1.2) + unit
            _draw_bar(axes, place, timing, unit)
            places.append(place)
            labels.append(unit.name.lower())
        axes.text(0, number * (len(Unit) + 1.2) - 0.62, _summary(name, timing), fontsize=7.5, va="bottom")
    axes.set_yticks(places, labels)
    axes.set(xlim=(0, 100), xlabel="% of the run's cycles")
    axes.invert_yaxis()


def _draw_bar(axes: Axes, place: float, timing: Timing, unit: Unit) -> None:
    left = 0.0
    for state, cycles in timing.states(unit).items():
        share = 100 * cycles / timing.cycles
        axes.barh(place, share, left=left, color=COLOURS[state], height=0.8)
        if share >= WRITTEN_FROM:
            axes.text(left + share / 2, place, f"{share:.0f}", ha="center", va="center", fontsize=7,
                      color="white" if state in (UnitState.BUSY, UnitState.MEMORY) else "black")
        left += share


def _summary(name: str, timing: Timing) -> str:
    """Return a line of figures: cycles, multipliers, memory."""
    config, counters = timing.program.config, timing.counters
    beats = {memory: counters[beat_counter(memory)] for memory in (*COUNTED_MEMORIES, None)}
    moved = ", ".join(f"{memory.name if memory is not None else 'instructions'} {count * config.bus_bytes / 1024:,.1f}"
                      for memory, count in beats.items() if count)
    return (f"{name}: {timing.cycles:,} cycles; multipliers {100 * counters['GEMM_STEPS'] / timing.cycles:.1f} %; "
            f"memory {100 * sum(beats.values()) / timing.cycles:.1f} % (KiB: {moved})")


def _draw_strip(axes: Axes, timing: Timing, unit: Unit) -> None:
    """Draw the shares of the unit's states in BINS parts of the run."""
    edges = np.linspace(0, timing.cycles, BINS + 1)
    shares = [100 * along(timing, unit, state, edges) for state in UnitState]
    axes.stackplot((edges[1:] + edges[:-1]) / 2, shares, colors=[COLOURS[state] for state in UnitState], step="mid", linewidth=0)
    axes.set(xlim=(0, timing.cycles), ylim=(0, 100), ylabel=unit.name.lower(), yticks=[])
    if unit is not list(Unit)[-1]:
        axes.tick_params(labelbottom=False)


def along(timing: Timing, unit: Unit, state: UnitState, edges: np.ndarray) -> np.ndarray:
    """Return float64[bins]: the share of the cycles between two `edges` that `unit` spends in `state`.

    Args:
        edges: float64[bins + 1], ascending cycles.
    """
    spans = timing.log.spans
    chosen = spans[(spans["unit"] == unit) & (spans["state"] == tuple(UnitState).index(state))]
    spent = np.concatenate([[0], np.cumsum(chosen["end"] - chosen["begin"])])
    begun = np.searchsorted(chosen["begin"], edges, side="right")
    ends = np.concatenate([[-np.inf], chosen["end"]])
    before = spent[begun] - np.maximum(ends[begun] - edges, 0)  # less what the last span still has before it
    return np.diff(before) / np.diff(edges)
