"""Features of the choices for tasks: what they say is what lowered programs do."""

import numpy as np
import pytest

from vdla.compiler.codegen.estimate import costs_of
from vdla.compiler.codegen.interleaved import interleavings
from vdla.compiler.codegen.lowering import calls_of
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.stream import emit_calls
from vdla.compiler.codegen.tasks import ConvolutionTask, SumTask
from vdla.compiler.codegen.tiles import INPUTS, NOTHING, WEIGHTS
from vdla.compiler.te.operators.sizes import Convolution
from vdla.explore.tune.features import FEATURES, SpacePoints
from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import StreamBuilder
from vdla.sim.decoded import decode_stream
from vdla.sim.rows import dram_rows

SIZE = Convolution(64, 14, 14, 64, padding=(1, 1, 1, 1))
POINTS = SpacePoints(space_of(ConvolutionTask(SIZE), Target(DEFAULT)))


def moved(choice):
    """Return the bytes that a choice's program moves, by their memory."""
    task, builder = POINTS.space.task, StreamBuilder(DEFAULT)
    emit_calls(calls_of(task, choice, DEFAULT), builder, alternating=interleavings(task, DEFAULT))
    stream = builder.finish()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 1 << 24)), DEFAULT)
    found = dict.fromkeys(MemoryType, 0)
    for form in (isa.Load, isa.Store):
        rows = dram_rows(program, form)
        for memory in MemoryType:
            own = rows.memory == memory
            found[memory] += int((rows.width * rows.count)[own].sum())
    return found


@pytest.mark.parametrize("kept", [NOTHING, WEIGHTS, INPUTS])
def test_closed_forms_have_the_bytes_of_the_lowered_program(kept):
    """Of tiles that divide the result; others load some rows twice."""
    family = next(family for family in POINTS.space.families if family.threads == 2)
    costs, table = costs_of(family.work, family.table), family.table
    whole = (14 % table.rows == 0) & (14 % table.columns == 0) & (4 % table.outputs == 0) & table.kept(kept)
    for place in np.flatnonzero(whole)[:: max(1, whole.sum() // 5)]:
        found = moved(family.choice(int(place)))
        for memory, part in (
            (MemoryType.INP, costs.inputs),
            (MemoryType.WGT, costs.weights),
            (MemoryType.OUT, costs.outputs),
        ):
            assert part.beats[place] * DEFAULT.bus_bytes == found[memory], (family.choice(int(place)), memory)


def test_every_point_has_finite_features():
    assert POINTS.features.shape == (len(POINTS), len(FEATURES))
    assert np.isfinite(POINTS.features).all()
    assert POINTS.knobs.shape[0] == len(POINTS.estimates) == len(POINTS)


def test_no_feature_is_the_same_for_all_points_of_all_tasks():
    sums = SpacePoints(space_of(SumTask(1000), Target(TINY)))
    strided = SpacePoints(
        space_of(ConvolutionTask(Convolution(32, 15, 15, 48, (3, 3), (2, 2))), Target(DEFAULT))
    )
    both = np.concatenate([POINTS.features, sums.features, strided.features])
    constant = [name for name, column in zip(FEATURES, both.T, strict=True) if np.ptp(column) == 0]
    assert constant == []


@pytest.mark.parametrize("place", [0, 1000, 5000])
def test_a_place_and_its_choice_belong_together(place):
    choice = POINTS.choice(place)
    assert POINTS.space.place(choice) == place
    assert choice.threads == POINTS.knobs[place, 0]
