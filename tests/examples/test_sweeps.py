"""The example sweeps: as many points as their comments say, and most of them buildable."""

from pathlib import Path

import pytest

from vdla.explore.silicon.estimate import silicon_of
from vdla.explore.sweep.parameters import with_values
from vdla.explore.sweep.space import space_of
from vdla.explore.sweep.specification import read
from vdla.explore.sweep.workloads import workloads_of
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import load

FOLDER = Path(__file__).parents[2] / "examples" / "sweeps"


def buildable(point):
    """Tell whether a point's configuration can be."""
    try:
        with_values(Target(), dict(point.values))
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "points", "most_refused"),
    [("gemm_core", 9, 0), ("networks", 64, 0), ("layers", 1000, 50), ("tuned", 12, 0), ("clock", 72, 0)],
)
def test_an_example_has_the_points_that_it_says(name, points, most_refused):
    path = FOLDER / f"{name}.toml"
    accelerators = space_of(read(path), Target()).points()
    assert len(accelerators) == points
    assert f"{points:,} accelerators" in path.read_text()
    assert sum(not buildable(point) for point in accelerators) <= most_refused


def test_the_layers_of_the_example_are_five():
    path = FOLDER / "layers.toml"
    assert len(workloads_of(read(path), FOLDER, load("default"))) == 5


def test_the_example_with_tuning_tunes_two_layers_without_a_log():
    path = FOLDER / "tuned.toml"
    sweep = read(path)
    assert sweep.tune is not None
    assert sweep.tune.log is None
    assert [workload.name for workload in workloads_of(sweep, FOLDER, load("default"))] == [
        "3x3 at 14x14",
        "depthwise at 28x28",
    ]


def test_the_clocks_of_the_example_differ_and_name_the_unit_that_limits():
    path = FOLDER / "clock.toml"
    base = load(read(path).base.name)
    clocks = {}
    for point in space_of(read(path), base).points():
        values = dict(point.values)
        silicon = silicon_of(with_values(base, values).config)
        assert silicon.mhz_low <= silicon.mhz <= silicon.mhz_high
        clocks[tuple(values.values())] = silicon
    assert len({silicon.mhz for silicon in clocks.values()}) > 24
    for block_in, block_out, lanes, stages in clocks:
        single_stage, two_stages = (clocks[block_in, block_out, lanes, stages] for stages in (1, 2))
        assert single_stage.limited_by == "compute_unit.pipeline"
        assert two_stages.limited_by.startswith(("compute_unit", "load_unit", "store_unit"))
        assert two_stages.mhz > 1.4 * single_stage.mhz
