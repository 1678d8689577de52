"""Kernels: what stands in DRAM between them, and what is copied on chip."""

import pytest
from generators.expressions import convolution, product_and_sum, separable_pair, sum_of_squares

from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.units import UnderivableError
from vdla.compiler.ir.nodes import Scope, cast
from vdla.compiler.te.tensor import compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.presets import TINY


def scopes(kernel):
    return {stage.name: kernel.units[stage.name].scope for stage in kernel.stages}


def test_operands_in_dram_are_copied_to_where_they_are_wanted():
    (kernel,) = kernels_of(convolution(TINY).output, TINY)
    assert scopes(kernel) == {
        "XP": Scope.INPUT,
        "W_weight": Scope.WEIGHT,
        "Y": Scope.ACCUMULATOR,
        "P_parameters": Scope.PARAMETERS,
        "Z": Scope.DRAM,
    }
    assert [tensor.name for tensor in kernel.placeholders] == ["X", "W", "P"]
    assert [axis.name for axis in kernel.axes] == ["n", "g", "o", "y", "x"]
    total = kernel.stages[2]
    assert [axis.name for axis in kernel.sums(total)] == ["ci", "dy", "dx"]
    assert [stage.name for stage in kernel.readers(total)] == ["Z"]


def test_a_sum_of_what_is_narrowed_needs_two_kernels():
    first, second = kernels_of(separable_pair(TINY).output, TINY)
    assert first.output.name == "Z1"
    assert "Z1" in [tensor.name for tensor in second.placeholders]
    assert scopes(second)["Z1_input"] is Scope.INPUT
    assert second.output.name == "Z2"


def test_all_stages_of_a_fused_operator_are_one_kernel():
    (kernel,) = kernels_of(product_and_sum(TINY).output, TINY)
    assert [scopes(kernel)[name] for name in ("Y", "S", "S_p1", "S_p1_p2")] == [Scope.ACCUMULATOR] * 4


def test_the_text_says_where_each_stage_lies():
    (kernel,) = kernels_of(sum_of_squares(TINY).output, TINY)
    assert "Y: int32[20, 1, 4] in accumulator = + over c from int32(0) of Y_p1[c, e, b, j]" in str(kernel)


def test_a_product_of_accumulators_is_refused():
    """Inputs of the multiplier array are int8, and must come from DRAM."""
    inp, wgt = placeholder((3, 1, 4), "X", "int8"), placeholder((4, 4), "W", "int8")
    k = reduce_axis(4, "k")
    total = compute(
        (3, 1, 4), lambda e, b, j: sum_over(cast("int32", inp[e, b, k]) * cast("int32", wgt[j, k]), k), "Y"
    )
    with pytest.raises(UnderivableError, match=r"^Y: instructions of tiny compute each of its parts, but"):
        kernels_of(total, TINY)
