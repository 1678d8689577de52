"""Features of the choices for tasks: what they say is what lowered programs do."""

import numpy as np
import pytest

from vdla.compiler.codegen.estimate import costs_of
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.stream import emit_calls, lowered_task
from vdla.compiler.codegen.tiles import INPUTS, NOTHING, WEIGHTS
from vdla.compiler.operands.address_map import Operand
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.scaling import SumTask
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
    operands = {name: Operand(name, address_map=each) for name, each in task.address_maps(DEFAULT).items()}
    emit_calls(lowered_task(task, choice, DEFAULT), builder, operands)
    stream = builder.finish()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 1 << 24)), DEFAULT)
    bytes_by_memory = dict.fromkeys(MemoryType, 0)
    for form in (isa.Load, isa.Store):
        rows = dram_rows(program, form)
        for memory in MemoryType:
            selected = rows.memory == memory
            bytes_by_memory[memory] += int((rows.width * rows.count)[selected].sum())
    return bytes_by_memory


@pytest.mark.parametrize("kept", [NOTHING, WEIGHTS, INPUTS])
def test_closed_forms_have_the_bytes_of_the_lowered_program(kept):
    """Of tiles that divide the result; others load some rows twice."""
    family = next(family for family in POINTS.space.families if family.threads == 2)
    costs, table = costs_of(family.work, family.table), family.table
    whole = (14 % table.rows == 0) & (14 % table.columns == 0) & (4 % table.outputs == 0) & table.kept(kept)
    for place in np.flatnonzero(whole)[:: max(1, whole.sum() // 5)]:
        moved_bytes = moved(family.choice(int(place)))
        for memory, part in (
            (MemoryType.INP, costs.inputs),
            (MemoryType.WGT, costs.weights),
            (MemoryType.OUT, costs.outputs),
        ):
            assert part.beats[place] * DEFAULT.bus_bytes == moved_bytes[memory], (
                family.choice(int(place)),
                memory,
            )


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


def column(points: SpacePoints, name: str) -> np.ndarray:
    return points.features[:, FEATURES.index(name)]


def test_features_of_tiles_are_those_of_the_choice():
    depth = DEFAULT.depth
    for place in range(0, len(POINTS), 97):
        choice = POINTS.choice(place)
        tiles, features = choice.tiles, {name: column(POINTS, name)[place] for name in FEATURES}
        for name in ("outputs", "rows", "columns", "inputs"):
            assert features[name] == pytest.approx(np.log2(getattr(tiles, name)))
        assert features["threads"] == np.log2(choice.threads)
        assert features["keeps_inputs"] == (tiles.keeps == "inputs")
        assert features["keeps_weights"] == (tiles.keeps == "weights")
        assert features["over_outputs"] == (tiles.threads_over == "outputs")
        assert features["over_rows"] == (tiles.threads_over == "rows")
        assert features["ragged"] == bool(14 % tiles.rows or 14 % tiles.columns)
        assert 0 < features["acc_share"] <= 1
        assert features["inp_share"] * depth(MemoryType.INP) == pytest.approx(
            round(features["inp_share"] * depth(MemoryType.INP))
        )
        assert features["wgt_share"] * depth(MemoryType.WGT) == pytest.approx(
            round(features["wgt_share"] * depth(MemoryType.WGT))
        )


def test_features_of_cycles_are_logarithms_of_quotients_by_the_least_that_the_task_takes():
    (family,) = (family for family in POINTS.space.families if family.threads == 2)
    first = next(place for place in range(len(POINTS)) if POINTS.choice(place).threads == 2)
    costs = costs_of(family.work, family.table)
    least = np.maximum(costs.steps, costs.bus).min()
    part = slice(first, first + len(family))
    for name, expected in {
        "estimate": costs.cycles / least,
        "steps": costs.steps / least,
        "bus": costs.bus / least,
        "load": costs.load / least,
        "store": costs.store / least,
        "waits": (least + costs.waits) / least,
        "overlap": np.maximum(costs.steps, costs.bus) / costs.cycles,
        "balance": costs.bus / costs.steps,
        "chunks_of_tile": costs.chunks / costs.tiles,
        "wgt_reuse": costs.steps / (costs.weights.beats + 1),
        "out_beats": (costs.outputs.beats + 1) / least,
        "inp_burst": (costs.inputs.beats + 1) / np.maximum(costs.inputs.bursts, 1),
        "inp_instructions": costs.inputs.instructions + 1,
    }.items():
        feature = 2.0 ** column(POINTS, name)[part]
        np.testing.assert_allclose(
            feature, np.broadcast_to(expected, feature.shape), rtol=1e-9, atol=1e-6, err_msg=name
        )


def test_a_sum_has_its_parts_and_threads_alone():
    points = SpacePoints(space_of(SumTask(1000), Target(TINY)))
    choices = [points.choice(place) for place in range(len(points))]
    assert column(points, "parts").tolist() == [np.log2(choice.parts) for choice in choices]
    assert column(points, "threads").tolist() == [np.log2(choice.threads) for choice in choices]
    others = [name for name in FEATURES if name not in ("parts", "threads")]
    assert not any(column(points, name).any() for name in others)
    assert set(points.estimates) == {1.0}
