"""Plots show the numbers they are made of, legibly, and their files are whole and repeatable."""

import re
from itertools import combinations
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from tests.sim.timing.test_simulate import decoded, random_decoded
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.target import Target
from vdla.hw.spec.units import Unit
from vdla.sim.plots.files import save
from vdla.sim.plots.roofline import Point, point_of, roof, roofline
from vdla.sim.plots.timeline import timeline
from vdla.sim.plots.utilisation import along, utilisation
from vdla.sim.timing.simulate import simulate

POINTS = [
    Point("even", 256 * 900, 8 * 900, 1000),
    Point("thin", 80_000, 10_000, 2_000),
    Point("thin too", 80_500, 10_010, 2_000),
    Point("thick", 10**6, 2_000, 5_000),
]


FASTER = [Point(point.name, point.macs, point.moved_bytes, point.cycles * 9 // 10) for point in POINTS]
RESOLUTIONS = (72, 100, 150)  # SVG, the layout's, PNG


@pytest.fixture(scope="module")
def timing():
    return simulate(random_decoded(1), log=True)


def crowd(count: int, spread: float) -> list[Point]:
    """Return points below the roof, the closer the smaller `spread`."""
    rng = np.random.default_rng(0)
    sizes = zip(np.exp(rng.normal(0, spread, count)), np.exp(rng.normal(0, spread, count)), strict=True)
    return [
        Point(f"GEMM 1024x1024x{number}", 900_000, int(20_000 * moved), int(9_000 * cycles))
        for number, (moved, cycles) in enumerate(sizes)
    ]


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def drawn(figure: Figure, dpi: int) -> RendererAgg:
    figure.set_dpi(dpi)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    return renderer


def boxes(axes, renderer: RendererAgg) -> list[Bbox]:
    """Return the place of every text of `axes`, without its leader."""
    return [Text.get_window_extent(text, renderer) for text in axes.texts if text.get_text()]


def overlapping(extents: list[Bbox]) -> int:
    return sum(left.overlaps(right) for left, right in combinations(extents, 2))


def line_named(axes, label: str):
    return next(line for line in axes.lines if line.get_label() == label)


def test_the_roof_has_its_corner_where_bus_and_multipliers_are_even():
    axes = roofline({"runs": POINTS}, Target(DEFAULT)).axes[0]
    line = line_named(axes, "roof")
    assert (line.get_xdata()[1], line.get_ydata()[1]) == (32, 256)
    assert roof(Target(DEFAULT), 1) == 8
    assert roof(Target(DEFAULT), 1000) == 256
    assert roof(Target(DEFAULT, MemoryParameters(cycles_per_beat=4)), 1) == 2
    assert texts(axes)[-2:] == ["256 MAC per cycle", "8 bytes per cycle"]


def test_points_stand_at_intensity_and_rate_and_the_table_says_their_share():
    figure = roofline({"runs": POINTS}, Target(DEFAULT))
    line = line_named(figure.axes[0], "runs")
    np.testing.assert_allclose(line.get_xdata(), [point.macs / point.moved_bytes for point in POINTS])
    np.testing.assert_allclose(line.get_ydata(), [point.macs / point.cycles for point in POINTS])
    cells = np.reshape(texts(figure.axes[1])[1:], (5, 3))
    assert cells[0].tolist() == ["", "run", "runs"]
    assert cells[1:, :2].tolist() == [[str(number), point.name] for number, point in enumerate(POINTS, 1)]
    assert cells[1, 2] == "90.0 %"
    assert cells[2, 2] == f"{100 * 40 / 64:.1f} %"


@pytest.mark.parametrize("dpi", RESOLUTIONS)
def test_the_name_of_the_bus_s_roof_is_parallel_to_it(dpi):
    figure = roofline({"runs": crowd(40, 0.3)}, Target(DEFAULT))
    axes = figure.axes[0]
    drawn(figure, dpi)
    (x, y), (right, top) = axes.transData.transform([(1, 8), (2, 16)])
    assert axes.texts[-1].get_rotation() == pytest.approx(np.degrees(np.arctan2(top - y, right - x)), abs=0.5)


def test_thin_lines_join_what_two_series_say_of_a_run():
    axes = roofline({"slow": POINTS, "fast": FASTER}, Target(DEFAULT)).axes[0]
    joins = [line for line in axes.lines if line.get_label().startswith("_")]
    assert [tuple(line.get_ydata()) for line in joins] == [
        (slow.rate, fast.rate) for slow, fast in zip(POINTS, FASTER, strict=True)
    ]
    assert all(
        line.get_xdata()[0] == line.get_xdata()[1] == point.intensity
        for line, point in zip(joins, POINTS, strict=True)
    )


@pytest.mark.parametrize("dpi", RESOLUTIONS)
@pytest.mark.parametrize(
    "points", [POINTS, crowd(12, 0.03), crowd(12, 0), crowd(40, 0.3)], ids=["few", "close", "equal", "many"]
)
def test_numbers_cover_neither_each_other_nor_points(points, dpi):
    figure = roofline({"runs": points}, Target(DEFAULT))
    axes, renderer = figure.axes[0], drawn(figure, dpi)
    numbers = boxes(axes, renderer)[: len(points)]
    places = axes.transData.transform([(point.intensity, point.rate) for point in points])
    assert overlapping(numbers) == 0
    assert not any(box.contains(*place) for box in numbers for place in places)


@pytest.mark.parametrize("dpi", RESOLUTIONS)
def test_every_text_of_a_roofline_is_on_the_page_and_legible(dpi):
    named = [
        Point(f"a run with a rather long name, the {point.name}", point.macs, point.moved_bytes, point.cycles)
        for point in crowd(40, 0.3)
    ]
    figure = roofline(
        {"one virtual thread": named, "two virtual threads": named, "three": named}, Target(DEFAULT)
    )
    renderer = drawn(figure, dpi)
    table = boxes(figure.axes[1], renderer)
    page = figure.bbox.padded(0.5)
    assert overlapping(table) == 0
    assert all(
        page.containsx(x) and page.containsy(y)
        for box in [*table, *boxes(figure.axes[0], renderer)]
        for x, y in box.corners()
    )


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ({}, "a roofline shows at least one point"),
        ({"runs": []}, "a roofline shows at least one point"),
        ({"runs": [Point("copy", 0, 8, 9)]}, "copy multiplies nothing; a roofline shows runs that do"),
        ({str(number): POINTS for number in range(6)}, "a roofline shows up to 5 series, not 6"),
        (
            {"a": POINTS[:1], "b": POINTS[1:2]},
            "series 'b' shows the runs ['thin'], series 'a' ['even']; give both the same, in one order",
        ),
    ],
)
def test_what_a_roofline_cannot_show_is_refused(series, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        roofline(series, DEFAULT)


def test_a_simulated_run_becomes_a_point(timing):
    point = point_of("run", timing)
    beats = sum(value for name, value in timing.counters.items() if name.endswith("_BEATS"))
    assert point.moved_bytes == beats * timing.program.config.bus_bytes
    assert 0 < point.macs <= timing.counters["GEMM_STEPS"] * timing.program.config.macs_per_cycle


def test_bars_add_up_to_the_whole_run(timing):
    axes = utilisation({"run": timing}).axes[0]
    ends = {}
    for bar in axes.patches:
        ends[bar.get_y()] = max(ends.get(bar.get_y(), 0), bar.get_x() + bar.get_width())
    assert len(ends) == len(Unit)
    np.testing.assert_allclose(list(ends.values()), 100)
    assert any(f"{timing.cycles:,} cycles" in text for text in texts(axes))


def test_figures_and_legend_say_what_was_counted(timing):
    figure = utilisation({"run": timing})
    counters, config = timing.counters, timing.program.config
    beats = sum(value for name, value in counters.items() if name.endswith("_BEATS"))
    line = next(text for text in texts(figure.axes[0]) if "cycles" in text)
    assert f"GEMM steps in {100 * counters['GEMM_STEPS'] / timing.cycles:.1f} %" in line
    assert f"memory beats in {100 * beats / timing.cycles:.1f} %" in line
    assert f"instructions {counters['FETCH_BEATS'] * config.bus_bytes / 1024:,.1f}" in line
    assert [text.get_text().split(": ", 1)[1] for text in figure.legends[0].texts] == [
        state.value for state in UnitState
    ]


@pytest.mark.parametrize("dpi", RESOLUTIONS)
@pytest.mark.parametrize("runs", [1, 3, 8])
def test_every_text_of_a_utilisation_is_on_the_page_and_legible(timing, runs, dpi):
    figure = utilisation({f"run {number}": timing for number in range(runs)})
    renderer = drawn(figure, dpi)
    extents = [
        *boxes(figure.axes[0], renderer),
        *(text.get_window_extent(renderer) for text in figure.legends[0].texts),
    ]
    page = figure.bbox.padded(0.5)
    heads = [
        Text.get_window_extent(text, renderer)
        for text in figure.axes[0].texts
        if isinstance(text, Annotation)
    ]
    assert len(heads) == 2 * runs
    assert not any(
        head.overlaps(bar.get_window_extent(renderer)) for head in heads for bar in figure.axes[0].patches
    )
    assert overlapping(extents) == 0
    assert all(page.containsx(x) and page.containsy(y) for box in extents for x, y in box.corners())


@pytest.mark.parametrize("program", [random_decoded(1), decoded()], ids=["long", "shorter than the bins"])
def test_strips_fill_every_bin_of_the_run(program):
    timing = simulate(program, log=True)
    for strip in utilisation({"run": timing}).axes[1:]:
        edges, top = strip.patches[-1].get_data().edges, strip.patches[-1].get_data().values
        assert (edges[0], edges[-1]) == (1, timing.cycles)
        np.testing.assert_allclose(top, 100)


def test_without_a_log_there_are_bars_only():
    assert len(utilisation({"run": simulate(random_decoded(1))}).axes) == 1


def test_shares_along_the_run_add_up_to_the_states(timing):
    edges = np.linspace(1, timing.cycles, 38)
    for unit in Unit:
        shares = np.array([along(timing, unit, state, edges) for state in UnitState])
        np.testing.assert_allclose(shares.sum(axis=0), 1)
        busy = shares[0] @ np.diff(edges)
        assert busy == pytest.approx(timing.states(unit)[UnitState.BUSY])


def test_a_timeline_draws_every_slice_and_arrow(timing):
    axes = timeline(timing).axes[0]
    assert len([text for text in axes.texts if text.get_text() == ""]) == timing.program.pops.sum()
    assert axes.get_yticklabels()[0].get_text() == "fetch"


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_files_are_whole_and_repeatable(tmp_path, timing, suffix):
    for name in ("one", "two"):
        save(utilisation({"run": timing}), tmp_path / f"{name}.{suffix}")
    first, second = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("one", "two"))
    assert first == second
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"one.{suffix}", f"two.{suffix}"]
    if suffix == "svg":
        assert ElementTree.fromstring(first).tag.endswith("svg")
    else:
        assert first.startswith(b"\x89PNG")


def test_the_user_s_settings_of_matplotlib_change_nothing_and_stay(tmp_path, timing):
    save(utilisation({"run": timing}), tmp_path / "plain.svg")
    with mpl.rc_context(
        {"font.family": "serif", "axes.facecolor": "black", "savefig.bbox": "tight", "svg.fonttype": "path"}
    ):
        save(utilisation({"run": timing}), tmp_path / "theirs.svg")
        assert mpl.rcParams["axes.facecolor"] == "black"
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "theirs.svg").read_bytes()
