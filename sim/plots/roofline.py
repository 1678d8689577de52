"""The roofline: how fast runs are, beside how fast multipliers and memory let them be.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009;
the paper's figure 10.

Labels stand near their points, clear of each other, of every point and of the line. Lengths of labels are in
points (1/72 inch), as font sizes are, so that a picture is the same at every resolution.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from vdla.hw.spec.registers import COUNTED_MEMORIES, beat_counter
from vdla.hw.spec.target import Target
from vdla.sim.events import events_of
from vdla.sim.plots.files import styled
from vdla.sim.timing.result import Timing

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
)  # Okabe and Ito's, which the colour-blind tell apart
MARKERS = "osD^v"
ROOF_COLOUR = "#333333"
FONT_SIZE = 8
CHARACTER = (0.68 * FONT_SIZE, 1.05 * FONT_SIZE)  # width and height of a digit, with a little air
MARKER = 6.0
LINE = 2.0
NEAREST, STEP = 8.5, 4.0
DIRECTIONS = 16
PLOT_INCHES, LEAST_HEIGHT_INCHES = 6.2, 5.0
ROW_INCHES, CHARACTER_INCHES, GAP_INCHES = 0.22, 0.075, 0.2
HEADING = "Share of the roof above each point"


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
    """Return the point of a simulated run: the products of its instructions, and every beat that memory
    moved."""
    program, config = timing.program, timing.program.config
    beats = sum(timing.counters[beat_counter(memory)] for memory in (None, *COUNTED_MEMORIES))
    return Point(name, int(events_of(program).products.sum()), beats * config.bus_bytes, timing.cycles)


def roof(target: Target, intensity: float) -> float:
    """Return the most MAC per cycle at an intensity in MAC per byte: what the multipliers do, or what memory
    can feed."""
    return min(target.config.macs_per_cycle, intensity * target.bytes_per_cycle)


def roofline(series: Mapping[str, Sequence[Point]], target: Target) -> Figure:
    """Draw the points of every series under the roof of `config`; points are numbered, and a table names
    them.

    Args:
        series: points by what they have in common; the legend shows the names. With several, each shows
            the same runs in the same order, and a thin line joins the points of a run.

    Raises:
        ValueError: there is no point, a point multiplies nothing, there are more series than colours, or two
            show different runs.
    """
    _check(series)
    rows = _rows(series, target)
    widths = [max(map(len, column)) * CHARACTER_INCHES + GAP_INCHES for column in zip(*rows, strict=True)]
    table_inches = max(sum(widths), len(HEADING) * CHARACTER_INCHES) + GAP_INCHES
    with styled():
        figure = Figure(
            figsize=(PLOT_INCHES + table_inches, max(LEAST_HEIGHT_INCHES, ROW_INCHES * (len(rows) + 3))),
            layout="constrained",
        )
        axes, table = figure.subplots(1, 2, width_ratios=(PLOT_INCHES, table_inches))
        line = _draw_roof(axes, target, [point for group in series.values() for point in group])
        _draw_points(axes, series)
        _draw_table(table, rows, widths)
        figure.legend(loc="outside lower left", ncols=1 + len(series), frameon=False)
        figure.draw_without_rendering()  # the layout decides how far points are from each other
        _number_points(axes, list(series.values()), line)
        _name_roof(axes, target)
    return figure


def _check(series: Mapping[str, Sequence[Point]]) -> None:
    if not any(series.values()):
        raise ValueError("a roofline shows at least one point")
    if len(series) > len(COLOURS):
        raise ValueError(f"a roofline shows up to {len(COLOURS)} series, not {len(series)}")
    for point in (point for group in series.values() for point in group if not point.macs):
        raise ValueError(f"{point.name} multiplies nothing; a roofline shows runs that do")
    names = {key: [point.name for point in group] for key, group in series.items()}
    first = next(iter(names))
    for key in names:
        if names[key] != names[first]:
            raise ValueError(
                f"series {key!r} shows the runs {names[key]}, series {first!r} {names[first]}; give both "
                "the same, in one order"
            )


def _draw_roof(axes: Axes, target: Target, points: Sequence[Point]) -> np.ndarray:
    """Draw roof and scales; return float64[m, 2], close places along the roof."""
    peak, ridge = target.config.macs_per_cycle, target.config.macs_per_cycle / target.bytes_per_cycle
    intensities, rates = [point.intensity for point in points], [point.rate for point in points]
    low, high = min(*intensities, ridge) / 2, max(*intensities, ridge) * 2
    axes.plot(
        [low, ridge, high],
        [roof(target, x) for x in (low, ridge, high)],
        color=ROOF_COLOUR,
        linewidth=1.6,
        label="roof",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(low, high),
        ylim=(min(*rates, roof(target, low)) / 2, max(*rates, peak) * 2),
        xlabel="MAC per byte moved",
        ylabel="MAC per cycle",
    )
    axes.set_title(f"Roofline of configuration {target.name!r}", loc="left")
    _scale(axes)
    along = np.geomspace(low, high, 300)
    return np.stack([along, [roof(target, x) for x in along]], axis=1)


def _name_roof(axes: Axes, target: Target) -> None:
    """Write what limits above each part of the roof, where no point can be."""
    common: dict[str, Any] = {
        "textcoords": "offset points",
        "fontsize": FONT_SIZE,
        "color": ROOF_COLOUR,
        "va": "bottom",
        "rotation_mode": "anchor",
    }
    low, high = axes.get_xlim()
    axes.annotate(
        f"{target.config.macs_per_cycle} MAC per cycle",
        (high, target.config.macs_per_cycle),
        xytext=(-4, 3),
        ha="right",
        **common,
    )
    run, rise = np.diff(
        axes.transData.transform([(low, roof(target, low)), (2 * low, 2 * roof(target, low))]), axis=0
    )[0]
    angle = np.arctan2(rise, run)
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    axes.annotate(
        f"{target.bytes_per_cycle:g} bytes per cycle",
        (low, roof(target, low)),
        xytext=tuple(14 * along + 3 * across),
        rotation=np.degrees(angle),
        **common,
    )


def _scale(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(2))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.grid(color="#e5e5e5", linewidth=0.6)


def _draw_points(axes: Axes, series: Mapping[str, Sequence[Point]]) -> None:
    for run in zip(*series.values(), strict=True) if len(series) > 1 else ():
        axes.plot(
            [point.intensity for point in run],
            [point.rate for point in run],
            color="#777777",
            linewidth=0.6,
            zorder=2,
        )
    for (name, group), colour, marker in zip(series.items(), COLOURS, MARKERS, strict=False):
        axes.plot(
            [point.intensity for point in group],
            [point.rate for point in group],
            marker,
            color=colour,
            markersize=5,
            label=name,
            zorder=3,
        )


def _number_points(axes: Axes, groups: Sequence[Sequence[Point]], line: np.ndarray) -> None:
    """Write the number of each run beside its point in the first series, with a leader where it stands
    further off."""
    places = np.array([(point.intensity, point.rate) for group in groups for point in group])
    points, line = (axes.transData.transform(data) * 72 / axes.figure.dpi for data in (places, line))
    texts = [str(number + 1) for number in range(len(groups[0]))]
    leader = {"arrowstyle": "-", "linewidth": 0.5, "color": "#555555", "shrinkA": 0, "shrinkB": 3}
    for text, place, offset in zip(
        texts, places, place_labels(texts, points[: len(texts)], points, line), strict=False
    ):
        axes.annotate(
            text,
            place,
            xytext=(offset[0], offset[1]),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=FONT_SIZE,
            arrowprops=leader if np.hypot(*offset) > NEAREST + 1 else None,
        )


def _rows(series: Mapping[str, Sequence[Point]], target: Target) -> list[list[str]]:
    """Return the table, its head first: the runs' numbers and names, and what each series reaches of its
    roof, in percent."""
    runs = zip(*series.values(), strict=True)
    return [
        ["", "run", *series],
        *(
            [str(number), run[0].name, *(f"{_share(point, target):.1f} %" for point in run)]
            for number, run in enumerate(runs, 1)
        ),
    ]


def _draw_table(axes: Axes, rows: Sequence[Sequence[str]], widths: Sequence[float]) -> None:
    axes.set_axis_off()
    _write_cell(axes, HEADING, 0, 0, weight="bold")
    rights = np.cumsum(widths)
    for row, cells in enumerate(rows, 1):
        for column, cell in enumerate(cells):
            place, align = (
                (rights[column - 1], "left") if column == 1 else (rights[column] - GAP_INCHES, "right")
            )
            _write_cell(axes, cell, place, row, ha=align, weight="bold" if row == 1 else "normal")


def _write_cell(axes: Axes, text: str, inches: float, row: int, **properties: Any) -> None:
    axes.annotate(
        text,
        (0, 1),
        xytext=(72 * inches, -72 * ROW_INCHES * (row + 0.5)),
        xycoords="axes fraction",
        textcoords="offset points",
        va="center",
        fontsize=FONT_SIZE,
        in_layout=False,
        annotation_clip=False,
        **properties,
    )


def _share(point: Point, target: Target) -> float:
    return 100 * point.rate / roof(target, point.intensity)


def place_labels(
    texts: Sequence[str], places: np.ndarray, points: np.ndarray, line: np.ndarray
) -> list[np.ndarray]:
    """Return where the middle of each text stands, from its place.

    Args:
        places: float64[texts, 2], what each text is the label of.
        points: float64[n, 2], all points of the plot.
        line: float64[m, 2], close places along a line that must stay legible.
    """
    taken = [*_boxes(points, (MARKER, MARKER)), *_boxes(line, (LINE, LINE))]
    offsets = []
    for text, place in zip(texts, places, strict=True):
        size = np.array([len(text) * CHARACTER[0], CHARACTER[1]])
        offset = next(way for way in _ways() if _is_clear(place + way, size, np.array(taken)))
        taken.append(np.concatenate([place + offset, size]))
        offsets.append(offset)
    return offsets


def _boxes(middles: np.ndarray, size: tuple[float, float]) -> np.ndarray:
    """Return float64[n, 4]: middle and size of a box around each place."""
    return np.hstack([middles, np.tile(size, (len(middles), 1))])


def _ways() -> Iterator[np.ndarray]:
    """Yield offsets, the nearest first; of equal distance, downwards first."""
    angles = -np.pi / 2 + np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
    for ring in count():
        yield from (NEAREST + ring * STEP) * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _is_clear(middle: np.ndarray, size: np.ndarray, taken: np.ndarray) -> bool:
    gaps = np.abs(taken[:, :2] - middle) - (taken[:, 2:] + size) / 2
    return bool((gaps.max(axis=1) >= 0).all())
