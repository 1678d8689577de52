"""Spaces: every choice is legal, and none changes what a task computes."""

import numpy as np
import pytest

from vdla.compiler.codegen.space import KNOBS, space_of
from vdla.compiler.codegen.tiles import INPUTS, KEEPS, OUTPUTS, Tiles
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.network.stages import Choices, parts_of, plan_of, tasks_of
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice, choice_from_json, choice_to_json
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.pooling import PoolingTask
from vdla.compiler.tasks.rearranging import RowsTask
from vdla.compiler.tasks.scaling import SumTask
from vdla.compiler.te.operators.sizes import Convolution, Pooling
from vdla.explore.sweep.specification import Conv
from vdla.explore.sweep.workloads import conv_graph
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.session.session import Session

CONVS = {
    "three by three": Conv(channels=32, outputs=48, size=9),
    "strided": Conv(channels=32, outputs=32, size=8, stride=2),
    "pointwise": Conv(channels=48, outputs=64, size=6, kernel=1),
    "depthwise": Conv(channels=64, outputs=64, size=6, groups=64),
    "more outputs than parameters on chip": Conv(channels=8, outputs=4 * 325, size=1, kernel=1),
}
TASKS = {
    "convolution": ConvolutionTask(Convolution(32, 9, 9, 48)),
    "pooling": PoolingTask(Pooling(32, 12, 12, (3, 3), (2, 2))),
    "sum": SumTask(500),
    "rows": RowsTask(4, 50),
}


@pytest.mark.parametrize("name", TASKS)
def test_places_and_choices_belong_together(name):
    space = space_of(TASKS[name], Target(DEFAULT))
    places = range(0, len(space), max(1, len(space) // 50))
    for place in places:
        choice = space.choice(place)
        assert space.place(choice) == place
        assert choice in space
        assert choice_from_json(choice_to_json(choice)) == choice
    assert space.knobs.shape == (len(space), len(KNOBS))
    assert len(np.unique(space.knobs, axis=0)) == len(space)
    with pytest.raises(IndexError):
        space.choice(len(space))


@pytest.mark.parametrize("name", TASKS)
def test_the_usual_choices_are_among_all(name):
    space = space_of(TASKS[name], Target(DEFAULT))
    assert len(space) > len(space.usual)
    assert all(space.usual.choice(place) in space for place in range(min(20, len(space.usual))))


def test_what_is_no_choice_has_no_place():
    space = space_of(TASKS["convolution"], Target(DEFAULT))
    tiles = space.usual.choice(0).tiles
    assert Choice(2, tiles) in space
    for other in (Choice(5, tiles), Choice(2), Choice(2, tiles, parts=2), Choice(2, Tiles(1000, 1, 1, 1))):
        assert other not in space


def test_inputs_are_kept_with_threads_over_outputs_alone():
    space = space_of(TASKS["convolution"], Target(DEFAULT))
    tables = [family.table for family in space.families]
    kept = {table.tiles(int(place)) for table in tables for place in np.flatnonzero(table.kept(INPUTS))}
    assert kept
    assert {tiles.threads_over for tiles in kept} == {OUTPUTS}
    assert not space.usual.table.kept(INPUTS).any()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name == "pointwise" else name for name in CONVS],
)
def test_no_choice_changes_what_a_convolution_computes(name):
    """With every number of threads and everything that may be kept."""
    target, graph = Target(TINY), conv_graph("layer", CONVS[name])
    inputs = {"x": np.random.default_rng(0).integers(-128, 128, graph.types["x"].shape, np.int8)}
    expected = interpret(graph, inputs)["y"]
    (task,) = tasks_of(parts_of(graph, target)[1])
    space = space_of(task, target)
    assert not isinstance(space, Unfit)
    groups = np.unique(
        space.knobs[:, [KNOBS.index("threads"), KNOBS.index("keeps")]], axis=0, return_index=True
    )
    assert {KEEPS[keeps] for _, keeps in groups[0]} == set(KEEPS)
    for place in groups[1]:
        choice = space.choice(int(place))
        plan = plan_of(graph, target, Choices(target.timing_digest, {task: choice}))
        result = Session(FunctionalDevice(plan.config, plan.dram_bytes), plan).run(inputs)
        assert np.array_equal(result.outputs["y"], expected), choice
