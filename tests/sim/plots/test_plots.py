"""Plots show the numbers they are made of, legibly, and their files are whole and repeatable."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tests.sim.timing.test_simulate import random_decoded
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.units import Unit
from vdla.sim.plots.files import save
from vdla.sim.plots.roofline import Point, point_of, roof, roofline
from vdla.sim.plots.timeline import timeline
from vdla.sim.plots.utilisation import along, utilisation
from vdla.sim.timing.simulate import simulate

POINTS = [Point("even", 256 * 900, 8 * 900, 1000), Point("thin", 80_000, 10_000, 2_000), Point("thin too", 80_500, 10_010, 2_000),
          Point("thick", 10**6, 2_000, 5_000)]


@pytest.fixture(scope="module")
def timing():
    return simulate(random_decoded(1), log=True)


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_the_roof_has_its_corner_where_bus_and_multipliers_are_even():
    axes = roofline({"runs": POINTS}, DEFAULT).axes[0]
    line = next(line for line in axes.lines if line.get_label() == "roof")
    assert (line.get_xdata()[1], line.get_ydata()[1]) == (32, 256)
    assert roof(DEFAULT, 1) == 8
    assert roof(DEFAULT, 1000) == 256


def test_points_stand_at_intensity_and_rate_and_the_table_says_their_share():
    figure = roofline({"runs": POINTS}, DEFAULT)
    drawn = next(line for line in figure.axes[0].lines if line.get_label() == "runs")
    np.testing.assert_allclose(drawn.get_xdata(), [point.macs / point.moved_bytes for point in POINTS])
    np.testing.assert_allclose(drawn.get_ydata(), [point.macs / point.cycles for point in POINTS])
    cells = {key: cell.get_text().get_text() for key, cell in figure.axes[1].tables[0].get_celld().items()}
    assert [cells[row, 1] for row in range(1, 5)] == [point.name for point in POINTS]
    assert cells[1, 2] == "90.0 %"
    assert cells[2, 2] == f"{100 * 40 / 64:.1f} %"


def test_numbers_of_points_do_not_cover_each_other():
    figure = roofline({"runs": POINTS}, DEFAULT)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    assert len(boxes) == len(POINTS)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


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
    one, two = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"one.{suffix}", f"two.{suffix}"]
    if suffix == "svg":
        assert ElementTree.fromstring(one).tag.endswith("svg")
    else:
        assert one.startswith(b"\x89PNG")


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match=r"a plot is written as .png or .svg, not as .pdf"):
        save(roofline({"runs": POINTS}, DEFAULT), tmp_path / "plot.pdf")
    assert list(tmp_path.iterdir()) == []
