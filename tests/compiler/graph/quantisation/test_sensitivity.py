"""The error that each layer causes alone, and the layers that stay in float."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.compiler.graph.quantisation.graphs import (
    attention,
    attention_samples,
    residual,
    samples,
    unrolled,
    unrolled_samples,
)
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation import sensitivity
from vdla.compiler.graph.quantisation.options import QUALITIES, Options, quality_db
from vdla.compiler.graph.quantisation.sensitivity import (
    Contribution,
    Repair,
    contributions,
    costly_layers,
    layers_named,
)
from vdla.compiler.graph.quantise import quantise


def compared(reaches: bool) -> SimpleNamespace:
    return SimpleNamespace(assessment=SimpleNamespace(reaches=lambda target: reaches))


def test_each_product_has_its_share_of_the_errors():
    quantised = quantise(residual(), samples(4), Options())
    layers = contributions(quantised, samples(4))
    assert {layer.layer for layer in layers} == {"m", "d"}
    assert [layer.macs for layer in layers] == [16, 16]
    assert layers[0].error >= layers[1].error > 0


def test_products_of_activations_have_their_share():
    given = attention_samples(4)
    layers = contributions(quantise(attention(), given), given)
    assert {layer.layer: layer.macs for layer in layers} == {"m": 48, "s": 32, "y": 64}
    assert min(layer.error for layer in layers) > 0


def test_all_steps_of_a_product_are_one_layer():
    given = unrolled_samples(2)
    quantised = quantise(unrolled(), given, Options())
    by_name = {layer.layer: layer for layer in contributions(quantised, given)}
    assert set(by_name) == {"n.forward.h", "last"}
    assert by_name["n.forward.h"].results == ("h0", "h1")
    assert (by_name["n.forward.h"].macs, by_name["last"].macs) == (8, 4)
    assert costly_layers(quantised, given, 100) >= {"h0", "h1"}


UNROLLED_NAMES = {
    "n": {"h0", "h1", "s0", "s1"},
    "n.forward.h": {"h0", "h1"},
    "h.1": {"h1"},
    "s1": {"s1"},
    "last": {"y"},
}


@pytest.mark.parametrize("name", UNROLLED_NAMES)
def test_an_unrolled_node_an_operation_or_a_step_is_named(name):
    assert layers_named(unrolled(), [name]) == UNROLLED_NAMES[name]


def test_layers_in_float_are_named_by_operation():
    quantised = quantise(unrolled(), unrolled_samples(1), Options(float_layers=("n",)))
    assert quantised.in_float == ("n.forward.h", "n.forward.s")


def test_the_most_costly_layers_are_chosen_within_their_share():
    quantised = quantise(residual(), samples(4))
    worst = contributions(quantised, samples(4))[0].results
    assert costly_layers(quantised, samples(4), 50) == {*worst}
    assert costly_layers(quantised, samples(4), 49.9) == set()
    assert costly_layers(quantised, samples(4), 100) == {"m", "d"}


def test_layers_are_named_by_node_or_result():
    assert layers_named(residual(), ["m"]) == {"m"}
    with pytest.raises(
        GraphError, match="f has no layer q, which was to stay in float; the nearest names are"
    ):
        layers_named(residual(), ["q"])


def test_a_layer_with_less_than_a_hundredth_of_the_errors_does_not_stay_in_float(monkeypatch):
    errors = {"a": 97.0, "b": 1.0, "c": 0.99, "d": 1.01}
    layers = [sensitivity.Contribution(name, (name,), 1, error) for name, error in errors.items()]
    monkeypatch.setattr(sensitivity, "contributions", lambda *_: layers)
    assert costly_layers(quantise(residual(), samples(1)), [], 100) == {"a", "b", "d"}


def test_five_names_are_suggested():
    with pytest.raises(GraphError) as caught:
        layers_named(residual(), ["q"])
    assert len(str(caught.value).rpartition("are ")[2].split(", ")) == 5


# Layers that stay in float so that outputs reach a target

# A small signal beside a large signal, as a whisper beside a shout: int8 of the input holds the shout only.
DETECTOR = """\
def f(x: float32[1, 2]):
    first: float32[2, 4] = constant([[0, 1, 1, 0], [1, 0, 0, 1]])
    a: float32[1, 4] = MatMul(x, first)
    r: float32[1, 4] = Relu(a)
    second: float32[4, 4] = constant([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    b: float32[1, 4] = MatMul(r, second)
    third: float32[4, 1] = constant([[1], [0], [0], [0]])
    c: float32[1, 1] = MatMul(b, third)
    y: float32[1, 1] = Sigmoid(c)
    return y
"""
SAMPLES = [{"x": np.array([[900, each]], np.float32)} for each in np.linspace(0, 1.5, 16)]


def detector() -> Graph:
    """Return a network whose output follows the small input alone."""
    return parse_graph(DETECTOR)


def test_a_stuck_output_is_reported_with_the_costliest_layers():
    quantised = quantise(detector(), SAMPLES, Options(target_db=None))
    (output,) = quantised.fidelity.outputs
    assert output.constant
    assert output.decibels < 3
    assert quantised.fidelity.kept == ()
    assert quantised.fidelity.costly[0] in ("a", "b", "c")
    assert quantised.in_float == ()


@pytest.mark.parametrize("target", [QUALITIES["balanced"], QUALITIES["exact"], 60.0])
def test_layers_stay_in_float_until_the_target_is_reached(target):
    quantised = quantise(detector(), SAMPLES, Options(target_db=target))
    assert all(output.reaches(target) for output in quantised.fidelity.outputs)
    assert quantised.fidelity.kept
    assert set(quantised.in_float) == set(quantised.fidelity.kept)
    assert quantised.fidelity.costly == ()
    assert quantised.fidelity.before_db < 3
    assert quantised.fidelity.target_db == target


def test_a_layer_that_costs_nothing_does_not_stay_in_float():
    text = DETECTOR.replace("return y", "apart: float32[2, 1] = constant([[1], [0]])\n").rstrip()
    text += "\n    z: float32[1, 1] = MatMul(x, apart)\n    return y, z\n"
    samples = [{"x": each["x"] * np.float32([[1 + n, 1]])} for n, each in enumerate(SAMPLES)]
    quantised = quantise(parse_graph(text), samples)
    assert "z" not in quantised.in_float
    assert quantised.in_float


def test_a_network_that_reaches_the_target_is_not_repaired():
    samples = [{"x": np.array([[each, 2 - each]], np.float32)} for each in np.linspace(0, 2, 16)]
    quantised = quantise(detector(), samples)
    assert quantised.in_float == quantised.fidelity.kept == quantised.fidelity.costly == ()
    assert quantised.fidelity.samples == 16
    assert all(output.reaches(20) for output in quantised.fidelity.outputs)


def test_requested_and_repaired_float_layers_are_reported_separately():
    quantised = quantise(detector(), SAMPLES, Options(float_layers=("a",)))
    assert quantised.fidelity.chosen == ("a",)
    assert "a" not in quantised.fidelity.kept
    assert set(quantised.in_float) == {"a", *quantised.fidelity.kept}


def test_a_fixed_percentile_is_judged_too():
    quantised = quantise(detector(), SAMPLES, Options(percentile=100, target_db=None))
    assert quantised.fidelity.outputs[0].constant


@pytest.mark.parametrize(
    ("quality", "target"), [("fast", None), ("balanced", 10), ("exact", 30), ("25.5", 25.5), (40, 40)]
)
def test_a_quality_is_a_name_or_decibels(quality, target):
    assert quality_db(quality) == target


@pytest.mark.parametrize(
    ("needed", "kept"),
    [({"a"}, "a"), ({"c"}, "c"), ({"a", "c"}, "ac"), ({"d"}, "d"), (set("abcd"), "abcd"), ({"none"}, None)],
)
def test_the_largest_layers_become_int8_again_where_the_target_is_reached_without_them(
    monkeypatch, needed, kept
):
    """Layers stand in falling order of cost; the target is reached once all `needed` layers are in float."""
    order = tuple(
        Contribution(name, (name,), macs, 1.0) for name, macs in zip("abcd", (5, 9, 1, 7), strict=True)
    )
    tried = []

    def with_float(candidate, judge, layers):
        tried.append("".join(layer.layer for layer in layers))
        reached = needed <= set(tried[-1])
        return Repair(compared(reached), tuple(layers))

    monkeypatch.setattr(sensitivity, "contributions", lambda *_: list(order))
    monkeypatch.setattr(sensitivity, "_with_float", with_float)
    candidate = compared(False)
    told: list[str] = []
    repair = sensitivity.repaired(candidate, SimpleNamespace(samples=()), 20.0, told.append)
    assert told[:2] == ["quantise: error of each layer", f"quantise: 2 of {len(order)} layers in float"]
    assert len(told) == 1 + len(tried)
    assert (repair and "".join(repair.kept)) == kept
    assert tried[0] == "ab"  # half of them
    if needed == {"c"}:
        assert tried == ["ab", "abc", "ac", "c", ""]  # without the largest, the next, and the least
        assert told[2:] == [
            "quantise: 3 of 4 layers in float",
            *[f"quantise: {number} of 3 layers in int8 again" for number in (1, 2, 3)],
        ]


def test_of_many_layers_twelve_are_tried_in_int8_again_and_three_are_named(monkeypatch):
    order = [Contribution(name, (name,), macs, 1.0) for macs, name in enumerate("abcdefghijklmn")]
    tried = []

    def with_float(candidate, judge, layers):
        tried.append("".join(layer.layer for layer in layers))
        whole = len(layers) == len(order)
        return Repair(compared(whole), tuple(layers))

    monkeypatch.setattr(sensitivity, "contributions", lambda *_: list(order))
    monkeypatch.setattr(sensitivity, "_with_float", with_float)
    candidate = compared(False)
    judge, told = SimpleNamespace(samples=()), []
    assert len(sensitivity.repaired(candidate, judge, 20.0, told.append).kept) == len(order)
    assert [line for line in told if "again" in line] == [
        f"quantise: {number} of 12 layers in int8 again" for number in range(1, 13)
    ]
    assert tried[-12:] == ["abcdefghijklmn".replace(largest, "") for largest in "nmlkjihgfedc"]
    assert sensitivity.costly_names(candidate, judge) == ("a", "b", "c")
