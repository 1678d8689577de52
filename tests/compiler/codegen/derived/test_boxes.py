"""What one iteration needs, beside the boxes that lowering finds."""

import numpy as np
import pytest
from generators.expressions import EXPRESSIONS, convolution, product_and_sum, sum_of_squares

from vdla.compiler.codegen.derived.boxes import Relations, loop_of_sum
from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.points import Points
from vdla.compiler.ir.nodes import Alloc
from vdla.compiler.ir.rewrite import walk_statements
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target


def relations(expression):
    (kernel,) = kernels_of(expression.output, TINY)
    return kernel, Relations(kernel), {stage.name: stage for stage in kernel.stages}


def test_a_window_needs_its_halo():
    kernel, found, stages = relations(convolution(TINY))
    extents = {axis.name: np.array(1) for axis in kernel.axes} | {"y": np.array(2), "x": np.array(3)}
    sums = {
        loop_of_sum(stages["Y"], name): np.array(size) for name, size in (("ci", 1), ("dy", 3), ("dx", 2))
    }
    sides = [int(side) for side in found.boxes(stages["XP"], extents | sums)]
    assert sides == [1, 1, 2 * 1 + 3, 2 * 2 + 2]
    assert [int(side) for side in found.boxes(stages["W_weight"], extents | sums)] == [1, 1, 1, 3, 2]
    assert [int(side) for side in found.boxes(stages["P_parameters"], extents | sums)] == [1, 1, 4]


def test_weights_are_the_same_for_all_pixels_and_inputs_for_all_outputs():
    _, found, stages = relations(convolution(TINY))
    assert found.invariant(stages["W_weight"]) == ["y", "x"]
    assert found.invariant(stages["XP"]) == ["o"]
    assert found.depends["P_parameters"] == {"g", "o"}


def test_what_is_read_once_and_changed_by_the_alu_is_overwritten():
    _, found, stages = relations(sum_of_squares(TINY))
    assert found.overwritten_by(stages["Y_p1_p2"]) is stages["Y_p1"]
    assert found.in_place(stages["Y_p1"])
    assert found.overwritten_by(stages["Y_p1"]) is None  # a sum changes its own accumulators
    _, found, stages = relations(product_and_sum(TINY))
    assert found.overwritten_by(stages["Y"]) is stages["S"]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_boxes_are_those_of_lowering(name):
    """Whatever is allocated on chip has the elements that the closed form says, at any point."""
    rng = np.random.default_rng(3)
    for kernel in kernels_of(EXPRESSIONS[name](TINY).output, TINY):
        points = Points(kernel, Target(TINY), most=400)
        for place in rng.permutation(len(points))[:12]:
            func = points.program(points.point(int(place)))
            sizes = {
                part.buffer.name: part.buffer.shape[:-2]
                for part in walk_statements(func.body)
                if isinstance(part, Alloc)
            }
            own = {stage: [int(side[place]) for side in sides] for stage, sides in points.table.sides.items()}
            assert {stage: list(shape) for stage, shape in sizes.items()} == own
