"""Contributions of single layers to the error."""

import pytest

from tests.compiler.graph.quantisation.graphs import attention, attention_samples, residual, samples
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.quantisation import sensitivity
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.quantisation.sensitivity import contributions, costly_layers, layers_named
from vdla.compiler.graph.quantise import quantise


def test_each_product_has_its_share_of_the_errors():
    made = quantise(residual(), samples(4), Options())
    found = contributions(made, samples(4))
    assert {one.layer for one in found} == {"m", "d"}
    assert [one.macs for one in found] == [16, 16]
    assert found[0].error >= found[1].error > 0


def test_products_of_activations_have_their_share():
    given = attention_samples(4)
    found = contributions(quantise(attention(), given), given)
    assert {one.layer: one.macs for one in found} == {"m": 48, "s": 32, "y": 64}
    assert min(one.error for one in found) > 0


def test_the_most_costly_layers_are_chosen_within_their_share():
    made = quantise(residual(), samples(4))
    worst = contributions(made, samples(4))[0].result
    assert costly_layers(made, samples(4), 50) == {worst}
    assert costly_layers(made, samples(4), 49.9) == set()
    assert costly_layers(made, samples(4), 100) == {"m", "d"}


def test_layers_are_named_by_node_or_result():
    assert layers_named(residual(), ["m"]) == {"m"}
    with pytest.raises(
        GraphError, match="f has no layer q, which was to stay in float; the nearest names are"
    ):
        layers_named(residual(), ["q"])


def test_a_layer_with_less_than_a_hundredth_of_the_errors_does_not_stay_in_float(monkeypatch):
    errors = {"a": 97.0, "b": 1.0, "c": 0.99, "d": 1.01}
    layers = [sensitivity.Contribution(name, name, 1, error) for name, error in errors.items()]
    monkeypatch.setattr(sensitivity, "contributions", lambda *_: layers)
    assert costly_layers(quantise(residual(), samples(1)), [], 100) == {"a", "b", "d"}


def test_five_names_are_suggested():
    with pytest.raises(GraphError) as caught:
        layers_named(residual(), ["q"])
    assert len(str(caught.value).rpartition("are ")[2].split(", ")) == 5
