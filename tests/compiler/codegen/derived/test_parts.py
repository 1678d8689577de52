"""Expressions are divided into what instructions compute, and mean the same as before."""

import numpy as np
import pytest

from vdla.compiler.codegen.derived.parts import in_order, in_parts, reading
from vdla.compiler.codegen.derived.units import UnderivableError, units_of
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.nodes import cast
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.narrowing import Scale, Shift, narrow
from vdla.compiler.te.operators.sizes import Convolution
from vdla.compiler.te.schedule import create_schedule
from vdla.compiler.te.tensor import compute, placeholder, reduce_axis, sum_over
from vdla.hw.spec.presets import TINY, VTA


def squares():
    inp, c = placeholder((5, 3, 1, 4), "X", "int8"), reduce_axis(5, "c")
    total = compute(
        (3, 1, 4),
        lambda e, b, j: sum_over(cast("int32", inp[c, e, b, j]) * cast("int32", inp[c, e, b, j]), c),
        "Y",
    )
    return narrow(total, Shift(4), TINY).out


def meant(output, given):
    """Return what an expression computes."""
    out = np.zeros(output.shape, output.dtype)
    interpret(create_schedule(output).lower(), {**given, output.name: out})
    return out


def test_a_sum_of_squares_becomes_a_load_a_product_and_a_sum():
    names = [tensor.name for tensor in in_order(in_parts(squares(), TINY))]
    assert names[:4] == ["X", "Y_p1_p2", "Y_p1", "Y"]
    assert all(units_of(one, TINY) for one in in_order(in_parts(squares(), TINY)) if one.value is not None)


def test_parts_mean_the_same():
    given = {"X": np.random.default_rng(0).integers(-128, 128, (5, 3, 1, 4), np.int8)}
    assert np.array_equal(meant(in_parts(squares(), TINY), given), meant(squares(), given))


def test_windows_that_overlap_are_scaled_once():
    """What depends on one element has the shape of that element's tensor."""
    inp, dx = placeholder((9, 1, 4), "X", "int8"), reduce_axis(3, "dx")
    total = compute((4, 1, 4), lambda x, b, j: sum_over(cast("int32", inp[x * 2 + dx, b, j]) * 3, dx), "Y")
    parts = {tensor.name: tensor.shape for tensor in in_order(in_parts(total, TINY))}
    assert parts == {"X": (9, 1, 4), "Y_p1_p2": (9, 1, 4), "Y_p1": (9, 1, 4), "Y": (4, 1, 4)}


def test_a_part_of_several_elements_has_a_dimension_for_every_loop():
    inp, other = placeholder((9, 1, 4), "X", "int8"), placeholder((4, 1, 4), "O", "int8")
    dx = reduce_axis(3, "dx")
    total = compute(
        (4, 1, 4),
        lambda x, b, j: sum_over(cast("int32", inp[x * 2 + dx, b, j]) + cast("int32", other[x, b, j]), dx),
        "Y",
    )
    parts = {tensor.name: tensor.shape for tensor in in_order(in_parts(total, TINY))}
    assert parts["Y_p1"] == (4, 3, 1, 4)
    rng = np.random.default_rng(1)
    given = {name: rng.integers(-128, 128, shape, np.int8) for name, shape in parts.items() if name in "XO"}
    assert np.array_equal(meant(in_parts(total, TINY), given), meant(total, given))


def test_what_an_instruction_means_is_left_alone():
    out = conv2d(Convolution(8, 6, 6, 12, (3, 3), (1, 1), (1, 1, 1, 1)), TINY, Scale()).out
    before = [(tensor.name, tensor.value) for tensor in in_order(out)]
    assert [(tensor.name, tensor.value) for tensor in in_order(in_parts(out, TINY))] == before


def test_steps_that_no_instruction_means_alone_are_written_into_their_reader():
    """The requantisation, in two tensors; the first has 64-bit numbers, which no memory holds."""
    inp = placeholder((3, 1, 4), "X", "int8")
    wide = compute((3, 1, 4), lambda e, b, j: cast("int64", inp[e, b, j]), "L")
    out = compute((3, 1, 4), lambda e, b, j: cast("int8", cast("int32", wide[e, b, j])), "Z")
    with pytest.raises(UnderivableError, match=r"^Z: no instructions of tiny compute int8\(int32\(int64\(X"):
        in_parts(out, TINY)
    plain = compute((3, 1, 4), lambda e, b, j: inp[e, b, j], "L")
    total = compute((3, 1, 4), lambda e, b, j: cast("int32", plain[e, b, j]), "A")
    kept = in_parts(compute((3, 1, 4), lambda e, b, j: total[e, b, j] + 1, "S"), TINY)
    assert [tensor.name for tensor in in_order(kept)] == ["X", "L", "A", "S"]


def test_an_error_names_tensor_configuration_and_expression():
    out = conv2d(Convolution(16, 6, 6, 16, (3, 3)), VTA, Scale()).out
    with pytest.raises(UnderivableError) as error:
        in_parts(out, VTA)
    assert str(error.value).startswith("Z: no instructions of vta compute int8(max(min(")
    assert str(error.value).endswith("switch on the extension that has one")
    assert "\n" not in str(error.value)


def test_reading_replaces_the_tensors_that_are_read():
    inp, other = placeholder((3, 1, 4), "X", "int8"), placeholder((3, 1, 4), "O", "int8")
    copy = compute((3, 1, 4), lambda e, b, j: inp[e, b, j], "C")
    assert [tensor.name for tensor in reading(copy, {"X": other}).inputs] == ["O"]
    assert reading(inp, {"X": other}) is inp
