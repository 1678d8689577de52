"""Post-training quantisation: placement of conversions, scales, and error of the result."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.graph.onnx.networks import small_cnn
from tests.compiler.graph.quantisation.graphs import rows, samples_of_rows
from vdla.compiler.graph.integer_forms.cures import FOR_QUALITY
from vdla.compiler.graph.interpret import all_values, interpret
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import SIMPLIFY
from vdla.compiler.graph.quantisation.grids import Criterion
from vdla.compiler.graph.quantisation.judge import Assessment, Judge
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.quantisation_error import layer_errors, print_errors
from vdla.compiler.graph.quantise import has_quantisable, quantise
from vdla.compiler.graph.text import print_graph
from vdla.compiler.network.compile import integers_of

RNG = np.random.default_rng(0)

BEFORE = """\
def f(x: float32[1, 2]):
    w: float32[2, 2] = constant([[1.0, 0.0], [-2.0, 0.0]])
    b: float32[2] = constant([0.5, 3.0])
    g: float32[1, 2] = Gemm(x, w, b, alpha=0.5, beta=1.0, transA=0, transB=0)
    r: float32[1, 2] = Relu(g)
    s: float32[1, 2] = Sigmoid(r)
    y: float32[1, 2] = Add(s, r)
    return y
"""
AFTER = """\
def f(x: float32[1, 2]):
    w_int8: int8[2, 2] = constant([[64, 0], [-127, 0]])
    w_int8_scale: float32[2] = constant([0.007874016, 0.007874016])
    w_int8_zero: int8[2] = constant([0, 0])
    w_again: float32[2, 2] = DequantizeLinear(w_int8, w_int8_scale, w_int8_zero, axis=1)
    b_int32: int32[2] = constant([64, 381])
    b_int32_scale: float32[2] = constant([0.007874016, 0.007874016])
    b_int32_zero: int32[2] = constant([0, 0])
    b_again: float32[2] = DequantizeLinear(b_int32, b_int32_scale, b_int32_zero, axis=0)
    x_scale: float32 = constant(1.0)
    x_zero: int8 = constant(0)
    x_int8: int8[1, 2] = QuantizeLinear(x, x_scale, x_zero, axis=0)
    x_again: float32[1, 2] = DequantizeLinear(x_int8, x_scale, x_zero, axis=0)
    g: float32[1, 2] = Gemm(x_again, w_again, b_again, alpha=1.0, beta=1.0, transA=0, transB=0)
    r: float32[1, 2] = Relu(g)
    r_scale: float32 = constant(0.7490196)
    r_zero: int8 = constant(-128)
    r_int8: int8[1, 2] = QuantizeLinear(r, r_scale, r_zero, axis=0)
    r_again: float32[1, 2] = DequantizeLinear(r_int8, r_scale, r_zero, axis=0)
    s: float32[1, 2] = Sigmoid(r_again)
    y: float32[1, 2] = Add(s, r_again)
    return y
"""


def samples(count: int = 4) -> list[dict[str, np.ndarray]]:
    """Return inputs for the small network, the same each time."""
    generator = np.random.default_rng(1)
    return [{"input.1": generator.normal(size=(1, 3, 16, 16)).astype(np.float32)} for _ in range(count)]


@pytest.fixture(scope="module")
def network() -> Graph:
    """Return a float network, simplified."""
    return SIMPLIFY.run(load(small_cnn()))


def test_conversions_surround_integer_operators_and_bounds_stay_fused():
    x = np.array([[127, -127]], np.float32)  # g = [0.5 · 127 + 127 + 0.5, 3]
    quantised = quantise(parse_graph(BEFORE), [{"x": x}], Options(100)).graph
    assert print_graph(quantised) == AFTER
    assert parse_graph(print_graph(quantised), quantised.constants) == quantised


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_integers_stay_within_half_a_step_of_the_weights(network, op):
    quantised = quantise(network, samples(1), Options(100)).graph
    values = all_values(quantised, samples(1)[0])
    names = {node.outputs[0]: node for node in quantised.nodes}
    for node, before in zip(
        (node for node in quantised.nodes if node.op == op),
        (node for node in network.nodes if node.op == op),
        strict=True,
    ):
        for place in range(1, len(node.inputs)):
            back = names[node.inputs[place]]
            scale = quantised.constants[back.inputs[1]]
            exact = network.constants[before.inputs[place]]
            along = scale.reshape([-1 if d == back.attributes["axis"] else 1 for d in range(exact.ndim)])
            assert (np.abs(values[back.outputs[0]] - exact) <= along * 0.5001).all()
            assert quantised.constants[back.inputs[0]].dtype == (np.int8 if place == 1 else np.int32)


def test_each_step_reports_progress(network):
    told: list[str] = []
    quantise(network, samples(2), Options(float_share=1.0, target_db=None), told.append)
    kinds = [criterion.value for criterion in Criterion]
    ranges = [
        "quantise: ranges on 2 samples",
        *[
            f"quantise: {kind}, {number} of {len(kinds)} kinds of ranges"
            for number, kind in enumerate(kinds, 1)
        ],
    ]
    hopeful = [text for text in told if text.endswith(" kinds of ranges on 2 samples")]
    assert all(1 <= int(text.split()[1]) <= len(kinds) for text in hopeful)
    once = [*ranges, hopeful[0], "quantise: biases"]
    assert told[: len(once) + 1] == [*once, "quantise: error of each layer"]
    assert len(hopeful) == told.count("quantise: biases") == told.count(ranges[0])


def test_a_single_sample_is_assessed_once(network):
    told: list[str] = []
    quantise(network, samples(1), Options(target_db=None), told.append)
    assert told[0] == "quantise: ranges on 1 samples"
    assert not [text for text in told if " kinds of ranges on " in text]
    assert told[-1] == "quantise: biases"


def test_a_network_without_samples_is_refused(network):
    for given, message in (
        (lambda: quantise(network, []), f"graph {network.name} cannot be calibrated without samples"),
        (lambda: quantise(network, samples(1), Options(0)), "percentile 0 is outside 0..100"),
        (lambda: quantise(network, samples(1), Options(100.5)), "percentile 100.5 is outside 0..100"),
    ):
        with pytest.raises(GraphError, match=f"^{message}$"):
            given()


def test_biases_have_the_scale_of_the_sums(network):
    quantised = quantise(network, samples()).graph
    makers = {node.outputs[0]: node for node in quantised.nodes}
    gemm = next(node for node in quantised.nodes if node.op == "Gemm")
    x_scale, w_scale, b_scale = (quantised.constants[makers[name].inputs[1]] for name in gemm.inputs)
    np.testing.assert_array_equal(b_scale, x_scale * w_scale)


def test_a_large_bias_beside_small_weights_does_not_overflow():
    text = (
        "def f(x: float32[1, 1]):\n    w: float32[1, 1] = constant([[1e-09]])\n    b: float32[1] = "
        "constant([100.0])\n"
        "    y: float32[1, 1] = Gemm(x, w, b, alpha=1.0, beta=1.0, transA=0, transB=0)\n    return y\n"
    )
    x = {"x": np.array([[1e-3]], np.float32)}
    np.testing.assert_allclose(interpret(quantise(parse_graph(text), [x]).graph, x)["y"], [[100]], rtol=1e-5)


def test_operators_that_only_move_elements_are_exact():
    text = (
        "def f(x: float32[1, 2, 4]):\n"
        "    w: float32[4, 4] = constant([[1, 2, 0, 0], [0, 1, 3, 0], [0, 0, 1, 4], [5, 0, 0, 1]])\n"
        "    c: float32[1, 2, 4] = MatMul(x, w)\n"
        "    p: float32[1, 2, 2] = MaxPool(c, ceil_mode=0, dilations=(1,), kernel_shape=(2,), pads=(0, "
        "0), strides=(2,))\n"
        "    y: float32[1, 4] = Flatten(p, axis=1)\n    return y\n"
    )
    graph, x = parse_graph(text), {"x": RNG.normal(size=(1, 2, 4)).astype(np.float32)}
    quantised = quantise(graph, [x], Options(100)).graph
    scales = {
        node.inputs[0]: quantised.constants[node.inputs[1]]
        for node in quantised.nodes
        if node.op == "QuantizeLinear"
    }
    del scales["x"]
    assert len(scales) == 3
    assert len({float(scale) for scale in scales.values()}) == 1
    values = all_values(quantised, x)
    pooled = values["c_again"].reshape(1, 2, 2, 2).max(3)
    np.testing.assert_array_equal(values["y"], pooled.reshape(1, 4))


SQUARED = "def f(x: float32[2, 2]):\n    y: float32[2, 2] = MatMul(x, x)\n    return y\n"


def test_products_of_two_activations_take_int8_tensors_of_zero_point_0():
    sample = {"x": np.array([[0, 1], [2, 3]], np.float32)}
    quantised = quantise(parse_graph(SQUARED), [sample]).graph
    assert [node.op for node in quantised.nodes].count("QuantizeLinear") == 2
    (product,) = (node for node in quantised.nodes if node.op == "MatMul")
    assert product.inputs == ("x_again", "x_again")
    (zero,) = {node.inputs[2] for node in quantised.nodes if node.outputs == ("x_again",)}
    assert quantised.constants[zero] == 0
    np.testing.assert_allclose(interpret(quantised, sample)["y"], [[2, 3], [6, 11]], atol=0.1)


def test_products_of_two_activations_stay_in_float_by_name():
    options = Options(float_layers=("y",))
    sample = {"x": np.eye(2, dtype=np.float32)}
    assert quantise(parse_graph(SQUARED), [sample], options).graph == parse_graph(SQUARED)


def test_a_quantised_network_is_close_and_the_report_says_where_it_is_not(network):
    quantised = quantise(network, samples()).graph
    errors = layer_errors(network, quantised, samples())
    assert {"Conv", "Add", "MaxPool", "Gemm", "Softmax"} <= {error.op for error in errors}
    assert (
        min(error.signal_to_noise_db for error in errors if error.op != "Softmax") > 25
    )  # softmax raises errors to exponents
    scale = next(
        node.inputs[1] for node in quantised.nodes if node.op == "QuantizeLinear" and node.inputs[0] == "a"
    )
    broken = replace(quantised, constants={**quantised.constants, scale: quantised.constants[scale] / 50})
    low = {error.value for error in layer_errors(network, broken, samples()) if error.signal_to_noise_db < 5}
    assert {"a", "p"} <= low
    assert not {"bn", "r", "c2"} & low
    assert len(print_errors(errors).splitlines()) == len(errors)


@pytest.mark.parametrize("count", [1, 4])
def test_no_candidate_is_judged_twice_on_the_same_samples(network, count, monkeypatch):
    judged, graphs, assess = [], [], Judge.assess

    def counted(judge: Judge, graph: Graph, *first: int | None) -> Assessment:
        graphs.append(graph)  # alive, it keeps its identity to itself
        judged.append((id(graph), *(each for each in first if each is not None)))
        return assess(judge, graph, *first)

    monkeypatch.setattr(Judge, "assess", counted)
    quantise(network, samples(count))
    assert len(set(judged)) == len(judged)
    assert len([each for each in judged if each[1:] == (1,)]) == len(Criterion)
    assert (len(judged) == len(Criterion)) == (count == 1)


def test_errors_are_ratios_of_the_powers_of_all_samples():
    graph = parse_graph("""\
def f(x: float32[2]):
    a: float32[2] = Neg(x)
    b: float32[2] = Relu(a)
    return b
""")
    halves = parse_graph("""\
def f(x: float32[2]):
    h: float32 = constant(0.5)
    a: float32[2] = Neg(x)
    b: float32[2] = Mul(a, h)
    return b
""")
    samples = [{"x": np.array([-4, -2], np.float32)}, {"x": np.array([-6, 0], np.float32)}]
    ratios = {error.value: error.signal_to_noise_db for error in layer_errors(graph, halves, samples)}
    assert ratios == {"a": float("inf"), "b": pytest.approx(10 * np.log10((16 + 4 + 36) / (4 + 1 + 9)))}


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([], Options(), "graph f cannot be calibrated without samples"),
        ([{"x": np.array([[1, 1]], np.float32)}], Options(0), "percentile 0 is outside 0..100"),
        (
            [{"x": np.array([[np.inf, 0]], np.float32)}],
            Options(),
            "value 'x' is not finite on sample 0",
        ),
        (
            [{"x": np.array([[1, 1]], np.float32)}],
            Options(float_layers=("G",)),
            "f has no layer G, which was to stay in float; the nearest names are y, s, r, g",
        ),
    ],
)
def test_invalid_options_and_samples_are_refused(data, options, message):
    with pytest.raises(GraphError, match=f"^{message}$"):
        quantise(parse_graph(BEFORE), data, options)


def test_a_layer_stays_in_float_by_name_and_nothing_around_it_is_quantised():
    graph = parse_graph(BEFORE)
    quantised = quantise(graph, [{"x": np.array([[2, -3]], np.float32)}], Options(float_layers=("g",)))
    assert quantised.in_float == ("g",)
    assert not [node for node in quantised.graph.nodes if "QuantizeLinear" in node.op]


def test_a_share_of_the_products_stays_in_float_the_most_costly_first(network):
    plain = quantise(network, samples())
    some = quantise(network, samples(), Options(float_share=60))
    assert some.in_float
    least = [
        min(
            error.signal_to_noise_db
            for error in layer_errors(quantised.roles.graph, quantised.graph, samples())
            if error.op == "Softmax"
        )
        for quantised in (plain, some)
    ]
    assert least[0] < least[1]


def test_errors_where_values_are_infinite_or_there_is_no_noise():
    text = "def f(x: float32[3]):\n    y: float32[3] = Log(x)\n    return y\n"
    other = text.replace("Log(x)", "Relu(x)")
    x = {"x": np.array([0, 1, 2], np.float32)}
    (same,) = layer_errors(parse_graph(text), parse_graph(text), [x])
    (lost,) = layer_errors(parse_graph(text), parse_graph(other), [x])
    assert print_errors([same, lost]) == (
        "      exact  Log                  y\n       lost  Log                  y\n"
    )


MASKED = """\
def f(x: float32[1, 4]):
    w: float32[4, 4] = constant([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    mask: float32[4] = constant([0.0, 0.0, float("-inf"), 0.0])
    g: float32[1, 4] = MatMul(x, w)
    m: float32[1, 4] = Add(g, mask)
    r: float32[1, 4] = Relu(m)
    y: float32[1, 4] = Softmax(m, axis=1)
    return y, r
"""


def test_values_with_infinite_numbers_stay_in_float():
    graph = parse_graph(MASKED)
    x = np.array([[1, 2, 3, -1]], np.float32)
    quantised = quantise(graph, [{"x": x}]).graph
    makers = {name: node.op for node in quantised.nodes for name in node.outputs}
    (add,) = (node for node in quantised.nodes if node.op == "Add")
    (matmul,) = (node for node in quantised.nodes if node.op == "MatMul")
    assert (add.inputs[1], add.outputs) == ("mask", ("m",))
    assert makers[matmul.inputs[0]] == makers[add.inputs[0]] == "DequantizeLinear"
    result = interpret(quantised, {"x": x})["y"]
    assert result[0, 2] == 0
    np.testing.assert_allclose(result, interpret(graph, {"x": x})["y"], atol=0.02)


def test_a_product_that_is_infinite_on_a_sample_stays_in_float():
    text = MASKED.replace("MatMul(x, w)", "MatMul(d, w)").replace(
        "    g: float32", "    d: float32[1, 4] = Reciprocal(x)\n    g: float32", 1
    )
    text = text.replace("0.0", "1.0")
    quantised = quantise(parse_graph(text), [{"x": np.array([[1, 2, 0, -1]], np.float32)}]).graph
    assert not [node for node in quantised.nodes if node.op == "QuantizeLinear"]


def test_sums_before_normalisations_are_int8_unless_that_costs_accuracy():
    near, far = (quantise(rows(), samples_of_rows(8, far)) for far in (1, 1000))
    makers = [{node.result: node.op for node in each.graph.nodes} for each in (near, far)]
    normal = [next(node for node in each.graph.nodes if node.result == "n") for each in (near, far)]
    assert makers[0][normal[0].inputs[0]] == "DequantizeLinear"
    assert (near.rows, near.in_float) == (frozenset(), ())
    assert normal[1].inputs[0] == "a"
    assert (far.rows, far.in_float, far.fidelity.chosen) == ({"n", "o"}, (), ())


def test_sums_before_normalisations_are_int8_if_no_quality_is_requested():
    quantised = quantise(rows(), samples_of_rows(8, 1000), Options(target_db=None))
    assert quantised.rows == frozenset()
    assert quantised.in_float == ()


def test_normalisations_in_float_for_accuracy_say_so():
    lowered = integers_of(rows(), samples_of_rows(8, 1000), Options()).graph
    reasons = [node.reason for node in lowered.nodes if node.op == "RMSNormalization"]
    assert reasons == [f"RMSNormalization in float; {FOR_QUALITY}"] * 2


def test_networks_without_quantisable_operators_are_recognised():
    nothing = parse_graph("def f(x: float32[2]):\n    y: float32[2] = Sigmoid(x)\n    return y\n")
    for sampled in (False, True):
        assert has_quantisable(parse_graph(MASKED), sampled=sampled)
        assert not has_quantisable(nothing, sampled=sampled)
        assert has_quantisable(parse_graph(SQUARED), sampled=sampled) == sampled
