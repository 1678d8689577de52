"""The matcher finds what computes a tensor, and the memories of its operands."""

import pytest

from vdla.compiler.codegen.derived.units import load_of, text_of, units_of
from vdla.compiler.ir.nodes import Scope, cast
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.narrowing import Scale, Shift
from vdla.compiler.te.operators.pooling import max_pool
from vdla.compiler.te.operators.sizes import Convolution, Pooling
from vdla.compiler.te.operators.windows import conv2d_windows
from vdla.compiler.te.tensor import compute, max_over, placeholder, reduce_axis, sum_over
from vdla.hw.spec.presets import DEFAULT, TINY, VTA

SIZE = Convolution(8, 6, 6, 12, (3, 3), (1, 1), (1, 1, 1, 1))


def only(tensor, config=TINY):
    (unit,) = units_of(tensor, config)
    return unit


def test_a_sum_of_products_is_the_multiplier_arrays():
    product = conv2d(SIZE, TINY, Scale())
    unit = only(product.total)
    assert unit.scope is Scope.ACCUMULATOR
    assert dict(unit.operands) == {"XP": Scope.INPUT, "W": Scope.WEIGHT}
    assert [one.name for one in unit.instructions] == ["gemm", "reset"]
    assert unit.inner == ("k",)
    assert unit.multiplies
    assert not unit.loads


def test_a_border_is_loaded_and_a_requantisation_stored():
    product = conv2d(SIZE, TINY, Scale())
    border, store = only(product.padded), only(product.out)
    assert (border.scope, border.loads) == (Scope.INPUT, True)
    assert dict(store.operands) == {"Y": Scope.ACCUMULATOR, "P": Scope.PARAMETERS}
    assert (store.scope, store.loads) == (Scope.DRAM, False)


def test_passes_and_maxima_are_the_alus():
    narrowed = conv2d(SIZE, TINY, Shift(3)).narrowed
    assert all(only(one).scope is Scope.ACCUMULATOR and not only(one).multiplies for one in narrowed.passes)
    greatest = only(max_pool(Pooling(8, 6, 6, (2, 2), (2, 2)), TINY).greatest)
    assert {"max", "fill"} <= {one.name for one in greatest.instructions}


def test_windows_of_columns_are_recognised_where_there_is_depthwise():
    size = Convolution(32, 6, 6, 32, (3, 3), (1, 1), (1, 1, 1, 1), groups=32)
    total = conv2d_windows(size, DEFAULT, Scale(), border=0).total
    assert "slide" in [one.name for one in only(total, DEFAULT).instructions]
    assert units_of(conv2d_windows(size, VTA, Shift(1), border=0).total, VTA) == []


def test_what_no_instruction_means_has_no_unit():
    inp = placeholder((3, 1, 4), "X", "int8")
    assert units_of(compute((3, 1, 4), lambda e, b, j: cast("int8", inp[e, b, j] // 3), "Y"), TINY) == []
    line = placeholder((4,), "L", "int8")
    assert units_of(compute((4,), lambda i: line[i], "M"), TINY) == []


def test_a_first_value_that_no_instruction_sets_is_refused():
    """TINY fills accumulators with any constant; a product starts from 0 only."""
    inp, wgt = placeholder((3, 1, 4), "X", "int8"), placeholder((4, 4), "W", "int8")
    k = reduce_axis(4, "k")
    total = compute(
        (3, 1, 4), lambda e, b, j: sum_over(cast("int32", inp[e, b, k]) * cast("int32", wgt[j, k]), k), "Y"
    )
    assert len(units_of(total, TINY)) == 1
    wide = placeholder((5, 3, 1, 4), "A", "int32")
    c = reduce_axis(5, "c")
    least = compute((3, 1, 4), lambda e, b, j: max_over(wide[c, e, b, j], c), "M")
    assert [one.name for one in only(least).instructions][-1] == "fill"


@pytest.mark.parametrize(
    ("scope", "shape", "dtype"),
    [
        (Scope.INPUT, (2, 1, 4), "int8"),
        (Scope.WEIGHT, (2, 4, 4), "int8"),
        (Scope.PARAMETERS, (2, 4, 1, 4), "int32"),
        (Scope.ACCUMULATOR, (2, 1, 4), "int32"),
    ],
)
def test_a_copy_is_loaded_where_its_element_fits(scope, shape, dtype):
    copy, unit = load_of(placeholder(shape, "X", dtype), scope, "XL", TINY)
    assert (copy.name, copy.shape, unit.scope, unit.loads) == ("XL", shape, scope, True)


def test_no_copy_is_made_where_an_element_does_not_fit():
    assert load_of(placeholder((2, 1, 4), "X", "int8"), Scope.WEIGHT, "XL", TINY) is None
    assert load_of(placeholder((2, 1, 4), "X", "int8"), Scope.ACCUMULATOR, "XL", TINY) is None


def test_the_text_of_a_sum_names_its_axes_and_its_start():
    total = max_pool(Pooling(8, 6, 6, (2, 2), (2, 2)), TINY).greatest
    assert text_of(total.value).startswith("max over dy, dx from int32(-128) of XW[")
