"""Channels brought to like sizes."""

import numpy as np

from tests.compiler.graph.quantisation.graphs import residual, samples
from vdla.compiler.graph.interpret import all_values, interpret
from vdla.compiler.graph.quantisation.equalise import equalised
from vdla.compiler.graph.quantisation.roles import Roles


def test_a_far_channel_of_a_normalisation_becomes_smaller_and_results_stay():
    graph, x = residual(), samples(8)
    changed = equalised(Roles(graph), x[:2])
    sizes = [np.abs(all_values(each, x[0])["n"]).ravel() for each in (graph, changed)]
    assert sizes[1].max() / sizes[1].min() < sizes[0].max() / sizes[0].min() / 2
    for sample in x:
        np.testing.assert_allclose(interpret(changed, sample)["y"], interpret(graph, sample)["y"], rtol=1e-4)


def test_nothing_changes_where_nothing_multiplies():
    graph = residual()
    assert equalised(Roles(graph, {"m", "d"}), samples(1)) is graph
