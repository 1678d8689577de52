"""What may be chosen follows from axes, sums and what reads what."""

from generators.expressions import addition, convolution, largest

from vdla.compiler.codegen.derived.boxes import Relations
from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.knobs import divisors, knobs_of, sizes
from vdla.hw.spec.presets import TINY


def knobs(expression):
    (kernel,) = kernels_of(expression.output, TINY)
    return {knob.name: knob.values for knob in knobs_of(kernel, Relations(kernel))}


def test_sizes_of_tiles_differ_in_their_number():
    assert sizes(1) == (1,)
    assert sizes(14) == (1, 2, 3, 4, 5, 7, 14)
    many = sizes(3136)
    assert many[0] == 1
    assert many[-1] == 3136
    assert len(many) < 30


def test_chunks_are_all_alike():
    assert divisors(24) == (1, 2, 3, 4, 6, 8, 12, 24)
    assert divisors(7) == (1, 7)


def test_a_convolution_has_an_order_for_its_weights_and_one_for_its_inputs():
    found = knobs(convolution(TINY))
    assert found["order"] == ("n g o y x", "n g y x o")
    assert found["place W_weight"] == found["place XP"] == ("chunk", "tile", "reuse", "first")
    assert found["place P_parameters"] == ("tile", "reuse", "first")
    assert found["over"] == ("o", "y", "x")
    assert {"tile o", "tile y", "tile x", "chunk Y.ci", "chunk Y.dy", "chunk Y.dx", "walk Y"} < found.keys()


def test_what_moves_with_every_loop_has_no_other_place():
    assert knobs(largest(TINY))["place XW"] == ("chunk", "tile")
    found = knobs(addition(TINY))
    assert not [name for name in found if name.startswith("place A")]
    assert found["place P_parameters"] == ("tile", "reuse", "first")
