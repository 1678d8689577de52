"""What one iteration needs, beside the boxes that lowering finds."""

import numpy as np
import pytest
from generators.expressions import EXPRESSIONS, convolution, product_and_sum, sum_of_squares

from vdla.compiler.codegen.derived.boxes import Relations, loop_of_sum
from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.points import Points
from vdla.compiler.ir.nodes import Alloc
from vdla.compiler.ir.rewrite import walk_statements
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.narrowing import Shift
from vdla.compiler.te.operators.sizes import Convolution
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


def test_what_is_loaded_first_is_loaded_as_a_whole():
    """A kernel of one pixel with strides of two reads no last row and column."""
    size = Convolution(8, 6, 6, 12, (1, 1), (2, 2), (0, 1, 0, 1))
    (kernel,) = kernels_of(conv2d(size, TINY, Shift(3)).out, TINY)
    points = Points(kernel, Target(TINY), most=3000)
    place = next(place for place in range(len(points)) if points.table.values(place)["place XP"] == "first")
    assert allocated(points, place)["XP"] == [1, 2, 6, 8]
    assert [int(side[place]) for side in points.table.sides["XP"]] == [1, 2, 6, 8]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_boxes_are_those_of_lowering(name):
    """Whatever is allocated on chip has the elements that the closed form says, at any point."""
    rng = np.random.default_rng(3)
    for kernel in kernels_of(EXPRESSIONS[name](TINY).output, TINY):
        points = Points(kernel, Target(TINY), most=400)
        for place in rng.permutation(len(points))[:12]:
            own = {stage: [int(side[place]) for side in sides] for stage, sides in points.table.sides.items()}
            assert allocated(points, int(place)) == own


def allocated(points, place):
    """Return the extents of all buffers on chip of a point's program."""
    func = points.program(points.point(place))
    allocs = [part for part in walk_statements(func.body) if isinstance(part, Alloc)]
    return {part.buffer.name: list(part.buffer.shape[:-2]) for part in allocs}
