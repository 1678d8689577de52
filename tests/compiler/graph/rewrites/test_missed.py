"""Rules that nearly match tell the watcher which condition does not hold."""

import pytest

from tests.compiler.graph.rewrites import (
    test_affine_into_product,
    test_affine_to_conv,
    test_dynamic_ranges,
    test_expand_integers,
    test_fold_conversions,
    test_fold_pads,
    test_fuse_normalisation,
    test_join_normalisation,
    test_join_softmax,
    test_on_grid,
    test_split_prelu,
)
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.rewrites.canonical import FOLD_PADS
from vdla.compiler.graph.rewrites.channel_scales import FOLD_CHANNEL_SCALES
from vdla.compiler.graph.rewrites.conversions import CONVERT_AFTER_CHOICES, FUSE_CONVERSIONS, SPLIT_PRELU
from vdla.compiler.graph.rewrites.normalisation import JOIN_PIECES
from vdla.compiler.graph.rewrites.quantised import EXPAND_INTEGERS, FIX_RANGES, QUANTISE_CONSTANTS
from vdla.compiler.graph.rules import Rules


class Missed:
    """A watcher that keeps the rules that nearly matched, with their nodes and reasons."""

    def __init__(self) -> None:
        self.reasons = []

    def fired(self, rule, before, after):
        """Pass over what was replaced."""

    def missed(self, rule, node, reason):
        self.reasons.append(f"{rule} of {node.outputs[0]}: {reason}")


def missed(rules: Rules, graph: Graph | str) -> list[str]:
    """Return the rules that nearly matched, with the outputs and the reasons."""
    watcher = Missed()
    rules.run(parse_graph(graph) if isinstance(graph, str) else graph, watcher)
    return watcher.reasons


WIDE = test_join_softmax.function(*test_join_softmax.PIECES).replace("float32", "float64")
REASONS = {
    "fold_into_product of y: another node reads the result of MatMul 'm'": (
        FOLD_CHANNEL_SCALES,
        test_affine_into_product.LEFT_ALONE["a product that something else reads"],
    ),
    "change_to_convolution of z: it changes all channels alike, so it becomes a table or a requantisation": (
        FOLD_CHANNEL_SCALES,
        test_affine_to_conv.LEFT_ALONE["a number for all channels, behind no convolution"],
    ),
    "product_of_real_numbers of r: the bias i is not a constant divided by the scale of the integers": (
        FIX_RANGES,
        test_dynamic_ranges.LEFT_ALONE["a bias by another scale"],
    ),
    "expand_integer_product of m: its result m is read as int32": (
        EXPAND_INTEGERS,
        test_expand_integers.LEFT_ALONE["a product that is cast to whole numbers"],
    ),
    "move_weights of u: the axis of the scales of DequantizeLinear 'r' is not one axis of the result": (
        QUANTISE_CONSTANTS,
        test_fold_conversions.TEXTS["scales that do not go along an axis of what is reshaped"][0],
    ),
    "fold_pad of averagepool_1_0: AveragePool cannot express the border of Pad 'pad_0_0'": (
        FOLD_PADS,
        test_fold_pads.LEFT_ALONE["a border as wide as the window"],
    ),
    "quantised_normalisation of y: LayerNormalization 'normal' normalises axis 0 of 2, not the last": (
        FUSE_CONVERSIONS,
        test_fuse_normalisation.LEFT_ALONE["rows of several dimensions"],
    ),
    "quantised_normalisation of y: RMSNormalization 'normal' subtracts no mean, and its input has the zero point -3": (
        FUSE_CONVERSIONS,
        test_fuse_normalisation.LEFT_ALONE["a root mean square of another zero point"],
    ),
    "join_normalisation of y: another node reads a value in the middle of the normalisation": (
        JOIN_PIECES,
        test_join_normalisation.LEFT_ALONE["a mean that goes out"],
    ),
    "join_normalisation of y: scale and bias are no constants along axes 2 of x": (
        JOIN_PIECES,
        test_join_normalisation.LEFT_ALONE["a scale along another dimension in the reciprocal"],
    ),
    "join_softmax of y: another node reads a value in the middle of the softmax": (
        JOIN_PIECES,
        test_join_softmax.LEFT_ALONE["powers that go out"],
    ),
    "join_softmax of y: x is float64[2, 3, 4], and the quotient float64[2, 3, 4]": (JOIN_PIECES, WIDE),
    "convert_after_choice of b: its results are not multiples of the scale of DequantizeLinear 'a'": (
        CONVERT_AFTER_CHOICES,
        test_on_grid.LEFT_ALONE["bounds between the numbers of the grid"],
    ),
    "split_prelu of b: a conversion around it has several scales, or scales that are not constant": (
        SPLIT_PRELU,
        test_split_prelu.LEFT_ALONE["scales of channels behind it"],
    ),
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_condition_that_does_not_hold_is_told(reason):
    assert missed(*REASONS[reason]) == [reason]
