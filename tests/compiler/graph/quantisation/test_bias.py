"""Bias correction."""

import numpy as np

from tests.compiler.graph.quantisation.graphs import residual, samples
from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.quantisation.bias import with_corrected_biases
from vdla.compiler.graph.quantisation.grids import Grid
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.roles import Roles


def test_a_mean_error_is_subtracted_from_the_bias():
    roles, data = Roles(residual()), samples(16)
    grids = {name: Grid(np.float32(0.5)) for name in roles.leaders.values()}
    grids["n"] = Grid(np.float32(0.5), 120)  # clips what is above 3.5: a mean error

    def mean_error(graph) -> float:
        quantised = with_grids(Roles(graph), grids)
        pairs = [(all_values(quantised, x)["a"], all_values(residual(), x)["a"]) for x in data]
        return float(np.abs(np.mean([found - wanted for found, wanted in pairs], 0)).max())

    changed = with_corrected_biases(roles, with_grids(roles, grids), data)
    assert mean_error(changed) < 0.5 * mean_error(roles.graph)


def test_one_sample_corrects_nothing():
    roles = Roles(residual())
    grids = {name: Grid(np.float32(1)) for name in roles.leaders.values()}
    assert with_corrected_biases(roles, with_grids(roles, grids), samples(1)) is roles.graph
