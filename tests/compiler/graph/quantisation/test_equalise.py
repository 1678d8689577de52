"""Channels brought to like sizes."""

import numpy as np

from tests.compiler.graph.quantisation.graphs import residual, samples
from vdla.compiler.graph.interpret import all_values, interpret
from vdla.compiler.graph.parse import parse_graph
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


MIXED = """\
def f(x: float32[1, 3, 2, 2]):
    w: float32[2, 2] = constant([[1, 2], [3, 100]])
    m: float32[1, 3, 2, 2] = MatMul(x, w)
    v: float32[1, 3, 1, 1] = constant([[[[1]], [[2]], [[3]]]])
    y: float32[1, 1, 2, 2] = Conv(m, v, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
"""


def test_columns_are_no_channels_of_a_convolution():
    graph = parse_graph(MIXED)
    assert equalised(Roles(graph), [{"x": np.ones((1, 3, 2, 2), np.float32)}]) is graph


SLID = "dilations=(1, 1), pads=(0, 0, 0, 0), strides=(1, 1)"
SEVERAL = f"""\
def f(x: float32[1, 1, 4, 4]):
    w: float32[2, 1, 1, 1] = constant([[[[1]]], [[[100]]]])
    m: float32[1, 2, 4, 4] = Conv(x, w, group=1, {SLID})
    v: float32[4, 1, 1, 1] = constant([[[[10]]], [[[20]]], [[[0.1]]], [[[0.3]]]])
    y: float32[1, 4, 4, 4] = Conv(m, v, group=2, {SLID})
    return y
"""


def test_a_depthwise_convolution_may_make_several_outputs_of_each_channel():
    graph = parse_graph(SEVERAL)
    x = [{"x": np.random.default_rng(seed).normal(size=(1, 1, 4, 4)).astype(np.float32)} for seed in (0, 1)]
    changed = equalised(Roles(graph), x)
    sizes = [np.abs(all_values(each, x[0])["m"]).max((0, 2, 3)) for each in (graph, changed)]
    assert sizes[0][1] / sizes[0][0] > 4 * sizes[1][1] / sizes[1][0]
    np.testing.assert_allclose(interpret(changed, x[0])["y"], interpret(graph, x[0])["y"], rtol=1e-4)
