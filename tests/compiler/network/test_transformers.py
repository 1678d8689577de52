"""Float transformers on an accelerator that normalises rows: a single launch, whose results are those of the
graph, and proved."""

import numpy as np
import pytest

from tests.compiler.network.test_normalisation import EVERY
from tests.compiler.network.test_row_moves import difference, exact
from tests.compiler.network.transformers import NETWORKS, samples_of
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.network.compile import integers_of, simplified
from vdla.compiler.network.source import Source
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import HostStep

ENDS = {"QuantizeLinear", "DequantizeLinear"}
OF_INPUTS = {"Sub", "Mul", "Unsqueeze", "Reshape", "Expand"}


def quantised(graph: Graph, *, normalises: bool = True) -> Graph:
    options = Options(target_db=None, normalises=normalises)
    return integers_of(simplified(graph, calibrates=True), samples_of(graph, 8), options).graph


def decibels(graph: Graph, integers: Graph) -> float:
    signal = noise = 0.0
    for sample in samples_of(graph, 4, seed=2):
        for name, expected in interpret(graph, sample).items():
            signal += float(np.square(expected).sum())
            noise += float(np.square(expected - interpret(integers, sample)[name]).sum())
    return 10 * np.log10(signal / noise)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_transformer_is_a_single_launch(name):
    graph = NETWORKS[name]()
    integers = quantised(graph)
    plan = exact(integers, EVERY)
    assert len(plan.launches) == 1
    on_host = {step.op for step in plan.steps if isinstance(step, HostStep)}
    assert on_host <= (ENDS | OF_INPUTS if name == "padding" or name.startswith("decoding") else ENDS)
    assert difference(integers, plan) == ""
    in_float = decibels(graph, quantised(graph, normalises=False))
    assert decibels(graph, integers) > min(20, in_float)


def test_without_the_stage_normalisations_stay_in_float():
    integers = quantised(NETWORKS["causal"](), normalises=False)
    assert not {"Int8LayerNormalization", "Int8Softmax"} & {node.op for node in integers.nodes}


def test_masked_elements_count_for_nothing():
    graph = NETWORKS["padding"]()
    integers = quantised(graph)
    (sample,) = samples_of(graph, 1, seed=3)
    sample["mask"][:, 4:] = 0
    other = {**sample, "x": sample["x"].copy()}
    other["x"][:, 4:] *= -1
    first, second = (next(iter(interpret(integers, each).values()))[:, :4] for each in (sample, other))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("config", [DEFAULT, EVERY], ids=lambda config: config.name)
def test_a_source_is_quantised_for_what_its_target_executes(config):
    source = Source(b"").for_target(Target(config))
    assert source.options.normalises is (config is EVERY)
    assert (source.key() == Source(b"").key()) is (config is DEFAULT)
