"""Histograms of float32 numbers."""

import numpy as np
import pytest

from tests.compiler.graph.quantisation.graphs import residual, samples
from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.quantisation.observe import Observed, observe


def test_points_represent_the_elements_of_their_bins():
    array = np.random.default_rng(0).standard_t(3, 1000).astype(np.float32)
    seen = Observed()
    seen.add(array[:400], None)
    seen.add(array[400:], np.float64(2))
    values, counts, weights = seen.points()
    assert (np.diff(values) >= 0).all()
    assert counts.sum() == pytest.approx(1000)
    assert weights.sum() == pytest.approx(400 + 2 * 600)
    assert values @ counts == pytest.approx(array.sum(), abs=0.016 * float(np.abs(array).sum()))
    assert (values[0], values[-1]) == (array.min(), array.max()) == (seen.least, seen.greatest)


def test_only_requested_values_are_observed():
    x = samples(1)[0]["x"]
    assert set(observe(residual(), [{"x": x}], {"n": None})) == {"n"}
    infinite = {"x": np.full_like(x, np.inf)}
    with pytest.raises(GraphError, match="value 'x' is not finite on sample 0"):
        observe(residual(), [infinite], {"n": None})


def test_nan_is_refused_with_its_node_and_its_sample():
    bad = samples(2)[1] | {"x": np.full_like(samples(1)[0]["x"], 3e38)}
    graph = residual()
    assert any(np.isnan(array).any() for array in all_values(graph, bad).values()), "the graph makes no NaN"
    message = r"value '\w+' is NaN \(not a number\) on sample 1, in float, .*; leave this sample out, or"
    with pytest.raises(GraphError, match=message):
        observe(graph, [samples(1)[0], bad], dict.fromkeys(graph.types))


def test_samples_must_exist_and_be_complete():
    with pytest.raises(GraphError, match=r"^graph f cannot be calibrated without samples$"):
        observe(residual(), [], {"n": None})
    assert set(observe(residual(), iter(samples(1)), {})) == set()
    for sample in ({}, {"x": np.zeros((1, 5), np.float32)}, {"z": np.zeros((1, 4), np.float32)}):
        with pytest.raises(GraphError):
            observe(residual(), [sample], {"n": None})


@pytest.mark.parametrize(
    ("elements", "finite"),
    [([1, 2], True), ([1, np.inf], False), ([-np.inf, 1], False), ([-np.inf, np.inf], False)],
)
def test_a_value_is_finite_where_both_of_its_ends_are(elements, finite):
    seen = Observed()
    seen.add(np.float32(elements), None)
    assert seen.is_finite is finite


def test_weights_are_broadcast_over_elements():
    seen = Observed()
    seen.add(np.float32([[1, 2, 4], [8, 16, 32]]), np.float64([[3], [5]]))
    values, counts, weights = seen.points()
    assert counts.sum() == pytest.approx(6)
    assert weights.sum() == pytest.approx(3 * 3 + 3 * 5)
    assert weights[values < 6].sum() == pytest.approx(9)
