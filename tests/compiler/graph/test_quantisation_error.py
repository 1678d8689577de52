"""Reports of the error of each value and of the costliest layers."""

from math import inf, log10

import numpy as np
import pytest

from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation.sensitivity import Contribution
from vdla.compiler.graph.quantisation_error import (
    LayerError,
    layer_errors,
    print_contributions,
    print_errors,
)

FLOAT = """\
def f(x: float32[4]):
    a: float32[4] = Neg(x)
    b: float32[4] = Sqrt(x)
    i: int64[4] = Cast(a, to="int64")
    y: float32[4] = Relu(a)
    return y, b, i
"""
QUANTISED = """\
def f(x: float32[4]):
    a: float32[4] = Neg(x)
    s: float32 = constant(1.0)
    z: int8 = constant(0)
    q: int8[4] = QuantizeLinear(a, s, z, axis=0)
    d: float32[4] = DequantizeLinear(q, s, z, axis=0)
    b: float32[4] = Sqrt(x)
    i: int64[4] = Cast(a, to="int64")
    y: float32[4] = Relu(d)
    return y, b, i
"""
SAMPLES = [np.float32([1.25, 2, -3, 4]), np.float32([0.5, -1.75, 9, 0])]


def test_dequantised_values_are_compared_over_all_samples():
    errors = layer_errors(parse_graph(FLOAT), parse_graph(QUANTISED), [{"x": sample} for sample in SAMPLES])
    wanted = -np.concatenate(SAMPLES)
    off = np.rint(wanted) - wanted
    positive = np.maximum(wanted, 0)
    less = np.maximum(np.rint(wanted), 0) - positive
    assert [(error.value, error.op) for error in errors] == [("a", "Neg"), ("b", "Sqrt"), ("y", "Relu")]
    ratios = [
        10 * log10(np.square(wanted).sum() / np.square(off).sum()),
        inf,  # also where a value is no number on both sides
        10 * log10(np.square(positive).sum() / np.square(less).sum()),
    ]
    assert [error.signal_to_noise_db for error in errors] == pytest.approx(ratios)


@pytest.mark.parametrize(
    ("x", "expected"),
    [([1, 2, 3, 4], inf), ([1, 2, 3, np.inf], -inf), ([1, 2, 3, 1e4], None), ([np.nan] * 4, -inf)],
)
def test_values_infinite_in_only_one_graph_are_lost(x, expected):
    (first, *_) = layer_errors(parse_graph(FLOAT), parse_graph(QUANTISED), [{"x": np.float32(x)}])
    if expected is None:
        expected = 10 * log10((14 + 1e8) / (1e4 - 128) ** 2)
    assert first.signal_to_noise_db == pytest.approx(expected)


def test_errors_are_printed_as_a_table():
    errors = [LayerError("v", "Conv", 12.34), LayerError("w", "Relu", inf), LayerError("u", "Add", -inf)]
    assert print_errors(errors) == (
        "    12.3 dB  Conv                 v\n"
        "      exact  Relu                 w\n"
        "       lost  Add                  u\n"
    )
    assert print_errors([]) == ""


TITLE = "error of the results, by layers alone (5 at most); --float-layers keeps them in float:\n"


def test_layers_are_printed_with_their_shares():
    contributions = [Contribution("one", ("a",), 75, 3.0), Contribution("two", ("b",), 25, 1.0)]
    assert print_contributions(contributions) == TITLE + (
        "   75.0%   75.0% of the MACs  one\n   25.0%   25.0% of the MACs  two\n"
    )


def test_a_layer_of_infinite_error_costs_all():
    contributions = [Contribution("one", ("a",), 0, inf), Contribution("two", ("b",), 0, 1.0)]
    assert print_contributions(contributions) == TITLE + (
        "  100.0%    0.0% of the MACs  one\n    0.0%    0.0% of the MACs  two\n"
    )


def test_few_layers_are_printed_and_none_without_errors():
    many = [Contribution(f"n{place}", (f"r{place}",), 1, 1.0) for place in range(7)]
    assert [line.split()[-1] for line in print_contributions(many).splitlines()[1:]] == [
        f"n{place}" for place in range(5)
    ]
    assert print_contributions([Contribution("one", ("a",), 1, 0.0)]) == print_contributions([]) == ""
