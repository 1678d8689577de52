"""Values become a schedule, whose loops stand in their order."""

import pytest
from generators.expressions import convolution

from vdla.compiler.codegen.derived.boxes import Relations
from vdla.compiler.codegen.derived.build import schedule_of
from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.ir.nodes import LoopKind
from vdla.hw.spec.presets import TINY

VALUES = {
    "tile o": 1,
    "tile y": 2,
    "tile x": 2,
    "chunk Y.ci": 1,
    "chunk Y.dy": 3,
    "chunk Y.dx": 3,
    "order": "n g y x o",
    "threads": 2,
    "over": "y",
    "walk Y": "across",
}
CHUNK, TILE = 7, 6


@pytest.fixture(scope="module")
def kernel():
    (found,) = kernels_of(convolution(TINY).output, TINY)
    return found


def built(kernel, **changes):
    levels = {"XP": CHUNK, "W_weight": 0, "Y": TILE, "P_parameters": 5}
    return schedule_of(kernel, Relations(kernel), VALUES | changes, levels)


def test_loops_over_tiles_stand_in_their_order(kernel):
    stage = built(kernel).stage(kernel.output)
    assert stage.leaves[:6] == ["Z_n_o", "Z_g_o", "Z_y_o_o", "Z_x_o", "Z_o_o", "Z_y_o_i"]
    assert stage.kinds == {"Z_y_o_i": LoopKind.VTHREAD}


def test_stages_are_computed_at_their_level(kernel):
    schedule = built(kernel)
    places = {stage.name: stage.attach and stage.attach[1] for stage in schedule.stages}
    assert places == {"XP": "dx_o", "W_weight": None, "Y": "Z_y_o_i", "P_parameters": "Z_o_o", "Z": None}


@pytest.mark.parametrize(("walk", "inner"), [("within", "dx_i"), ("across", "Y_x")])
def test_a_chunk_is_walked_within_sums_or_across_them(kernel, walk, inner):
    leaves = built(kernel, **{"walk Y": walk}).stage(kernel.stages[2]).leaves
    assert leaves[:3] == ["ci_o", "dy_o", "dx_o"]
    assert leaves[-4] == inner
