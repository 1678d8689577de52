"""The roofline: how fast runs are, beside how fast multipliers and memory let them be.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009; the paper's figure 10.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import COUNTED_MEMORIES, beat_counter
from vdla.sim.plots.files import STYLE
from vdla.sim.timing.columns import steps
from vdla.sim.timing.result import Timing

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # Okabe and Ito's, which the colour-blind tell apart
MARKERS = "osD^v"
CLEARANCE = 11  # pixels between the middle of a number and that of any other or of a point


@dataclass(frozen=True, slots=True)
class Point:
    """One run.

    Attributes:
        name: of the run.
        macs: multiply-accumulates of the computation.
        moved_bytes: that memory moved for it.
        cycles: it took.
    """

    name: str
    macs: int
    moved_bytes: int
    cycles: int

    @property
    def intensity(self) -> float:
        """Multiply-accumulates per byte moved."""
        return self.macs / self.moved_bytes

    @property
    def rate(self) -> float:
        """Multiply-accumulates per cycle."""
        return self.macs / self.cycles


def point_of(name: str, timing: Timing) -> Point:
    """Return the point of a simulated run: the steps of its GEMM instructions that multiply, and every beat that memory moved."""
    program, config = timing.program, timing.program.config
    multiplying = steps(program, isa.Gemm)[program.column(isa.Gemm, "reset") == 0]
    beats = sum(timing.counters[beat_counter(memory)] for memory in (None, *COUNTED_MEMORIES))
    return Point(name, int(multiplying.sum()) * config.macs_per_cycle, beats * config.bus_bytes, timing.cycles)


def roof(config: AcceleratorConfig, intensity: float) -> float:
    """Return the most MAC per cycle at an intensity in MAC per byte: what the multipliers do, or what the bus can feed."""
    return min(config.macs_per_cycle, intensity * config.bus_bytes)


def roofline(series: Mapping[str, Sequence[Point]], config: AcceleratorConfig) -> Figure:
    """Draw the points of every series under the roof of `config`; points are numbered, and a table names them.

    Args:
        series: points by what they have in common; the legend shows the names.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.2), layout="constrained")
        axes, table = figure.subplots(1, 2, width_ratios=(3, 2))
        points = [point for group in series.values() for point in group]
        _draw_roof(axes, config, [point.intensity for point in points], [point.rate for point in points])
        _draw_points(axes, series)
        _draw_table(table, series, config)
        axes.legend(loc="lower right", frameon=False)
    return figure


def _draw_roof(axes: Axes, config: AcceleratorConfig, intensities: list[float], rates: list[float]) -> None:
    ridge = config.macs_per_cycle / config.bus_bytes
    low, high = min([*intensities, ridge]) / 2, max([*intensities, ridge]) * 2
    axes.plot([low, ridge, high], [roof(config, x) for x in (low, ridge, high)], color="#333333", linewidth=1.6, label="roof")
    lowest = min([*rates, roof(config, low)])
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(lowest / 2, config.macs_per_cycle * 2),
             xlabel="MAC per byte moved", ylabel="MAC per cycle",
             title=f"{config.name}: {config.macs_per_cycle} MAC, {config.bus_bytes} bytes a cycle")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(2))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.grid(which="both", color="#e5e5e5", linewidth=0.6)


def _draw_points(axes: Axes, series: Mapping[str, Sequence[Point]]) -> None:
    """Draw the points, and the number of each beside that of the first series."""
    for (name, group), colour, marker in zip(series.items(), COLOURS, MARKERS, strict=False):
        axes.plot([point.intensity for point in group], [point.rate for point in group], marker, color=colour, markersize=5, label=name, zorder=3)
    first = [(point.intensity, point.rate) for point in next(iter(series.values()), ())]
    taken = [axes.transData.transform((point.intensity, point.rate)) for group in series.values() for point in group]
    for number, place in enumerate(first):
        offset = _free_offset(axes.transData.transform(place), taken)
        axes.annotate(str(number + 1), place, xytext=offset, textcoords="offset pixels", ha="center", va="center", fontsize=7,
                      arrowprops={"arrowstyle": "-", "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2})


def _free_offset(place: np.ndarray, taken: list[np.ndarray]) -> tuple[float, float]:
    """Return where a number stands clear of all points and numbers, in pixels from its point; add it to `taken`."""
    angles = -np.pi / 2 + np.arange(8) * np.pi / 4
    ways = [(distance * np.cos(angle), distance * np.sin(angle)) for distance in (14, 22, 30, 38) for angle in angles]
    clear = [way for way in ways if all(np.abs(place + way - other).max() >= CLEARANCE for other in taken)]
    offset = clear[0] if clear else ways[0]
    taken.append(place + offset)
    return offset


def _draw_table(axes: Axes, series: Mapping[str, Sequence[Point]], config: AcceleratorConfig) -> None:
    """Name the points, with what each series reaches of its roof, in percent."""
    axes.set_axis_off()
    groups = list(series.values())
    rows = [[str(number + 1), points[0].name, *(f"{_share(point, config):.1f} %" for point in points)]
            for number, points in enumerate(zip(*groups, strict=True))]
    columns = ["", "run", *(f"{name},\nof roof" for name in series)]
    if rows:
        table = axes.table(rows, colLabels=columns, loc="upper left", cellLoc="left", edges="horizontal",
                           colWidths=[0.07, 0.43, *np.full(len(groups), 0.5 / len(groups))])
        table.auto_set_font_size(False)
        table.set_fontsize(8)
        table.scale(1, 1.25)
        for column in range(len(columns)):
            table[0, column].set_height(table[0, column].get_height() * 1.7)


def _share(point: Point, config: AcceleratorConfig) -> float:
    return 100 * point.rate / roof(config, point.intensity)
