"""Random networks in all styles of files: some of them in full, and what the command says of others."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from click.testing import CliRunner

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.parse import parse_graph

SEEDS = 12


@pytest.fixture(scope="module")
def script(script):
    """Return scripts/random_graphs.py."""
    return script("random_graphs")


def test_some_networks_are_right(script, tmp_path):
    done = CliRunner().invoke(script.main, ["--graphs", str(SEEDS), "--keep", str(tmp_path / "wrong")])
    assert done.exit_code == 0, done.output
    assert " 0 wrong" in done.output
    assert not (tmp_path / "wrong").exists()


def test_equal_seeds_give_equal_networks(script):
    first, second = script.case_of(7), script.case_of(7)
    assert first.network.model == second.network.model
    assert (first.style, first.config) == (second.style, second.config)
    assert script.case_of(8).network.model != first.network.model


def test_a_pool_has_no_window_behind_its_input(script):
    """The shape inference of onnx counts such a window, so the network of this seed could not be made."""
    assert script.case_of(130_367).network.model.graph.node[0].op_type == "MaxPool"


def test_networks_have_recurrences_volumes_and_normalisations(script):
    networks = [script.random_network(seed) for seed in range(150)]
    operators = {node.op_type for network in networks for node in network.model.graph.node}
    assert {"LSTM", "GRU", "RNN", "InstanceNormalization", "LayerNormalization", "Softmax"} <= operators
    assert {len(network.shapes["x"]) for network in networks} == {2, 3, 4, 5}


def test_every_style_and_configuration_has_its_turn(script):
    rng = [script.random.Random(seed) for seed in range(400)]
    styles = {each.choice([script.FLOAT, *script.STYLES]) for each in rng}
    assert styles == {script.FLOAT, *script.STYLES}


def fails(script, monkeypatch, error):
    """Let the comparison find, or raise, something."""

    def faults(case, model):
        if isinstance(error, Exception):
            raise error
        return error, 3

    monkeypatch.setattr(script, "faults", faults)
    monkeypatch.setattr(script, "written", lambda case: case.network.model)


def test_a_wrong_network_is_kept_and_named_and_tried_again(script, monkeypatch, tmp_path):
    journal = tmp_path / "journal"
    arguments = ["--graphs", "1", "--seed", "5", "--keep", str(tmp_path), "--journal", str(journal)]
    fails(script, monkeypatch, ["Int8Conv y: it is 3 off"])
    for tries in (1, 2):
        done = CliRunner().invoke(script.main, arguments)
        assert done.exit_code == 1
        assert "seed 5, " in done.output
        assert "Int8Conv y: it is 3 off" in done.output
        assert "1 wrong" in done.output
        assert len(journal.read_text().splitlines()) == tries
    assert (tmp_path / "5.onnx").exists()


def test_a_traceback_is_wrong(script, monkeypatch, tmp_path):
    fails(script, monkeypatch, IndexError("out of range"))
    done = CliRunner().invoke(script.main, ["--graphs", "1", "--keep", str(tmp_path)])
    assert done.exit_code == 1
    assert "IndexError: out of range" in done.output


def test_a_refusal_is_counted_with_its_reason(script, monkeypatch, tmp_path):
    fails(script, monkeypatch, script.GraphError("m: cannot be imported\n  node 3: it is odd"))
    done = CliRunner().invoke(script.main, ["--graphs", "2", "--keep", str(tmp_path)])
    assert done.exit_code == 0
    assert "2 refused" in done.output
    assert "2 refused: node 3: it is odd" in done.output


def test_seeds_that_are_right_are_not_tried_again(script, monkeypatch, tmp_path):
    outcome = script.Outcome(0, "qdq", "tiny", script.RIGHT, "", 4)
    journal = tmp_path / "journal"
    journal.write_text(json.dumps(asdict(outcome)) + "\n")
    monkeypatch.setattr(script, "tried", None)
    done = CliRunner().invoke(script.main, ["--graphs", "1", "--journal", str(journal)])
    assert done.output.startswith("1 networks: 1 right, 0 refused")
    assert "4 layers compared" in done.output


STEPS = """\
def f(a: int8[3], s: float32, t: float32, u: float32, z: int8):
    r: float32[3] = DequantizeLinear(a, s, z, axis=0)
    n: float32[3] = Neg(r)
    b: int8[3] = QuantizeLinear(n, t, z, axis=0)
    q: float32[3] = DequantizeLinear(b, t, z, axis=0)
    m: float32[3] = Neg(q)
    c: int8[3] = QuantizeLinear(m, u, z, axis=0)
    return c
"""
SCALES = {"s": np.float32(1), "t": np.float32(1), "u": np.float32(0.1), "z": np.int8(0)}


@pytest.mark.parametrize(
    ("b", "c", "found", "joins"),
    [
        ([-5, -10, -15], [50, 100, 127], [50, 100, 127], True),
        ([-6, -10, -15], [60, 100, 127], [50, 100, 127], True),  # the first step is one off
        ([-7, -10, -15], [70, 100, 127], [50, 100, 127], False),  # it is two off
        ([-6, -10, -15], [62, 100, 127], [50, 100, 127], False),  # the second step is wrong as well
        ([-6, -10, -15], [60, 100, 127], [63, 100, 127], False),  # the table is wrong
    ],
)
def test_a_table_of_several_steps_is_judged_step_by_step(script, b, c, found, joins):
    known = {"a": np.int8([5, 10, 15]), "b": np.int8(b), "c": np.int8(c), **SCALES}
    assert script.joins_steps(parse_graph(STEPS), ("a", *SCALES), "c", known, np.int8(found)) is joins


def test_a_table_of_a_value_of_our_own_is_judged_from_the_inputs(script):
    known = {"a": np.int8([5, 10, 15]), "b": np.int8([-6, -10, -15]), "c": np.int8([60, 100, 127]), **SCALES}
    assert script.joins_steps(parse_graph(STEPS), ("ours",), "c", known, np.int8([50, 100, 127]))
    assert not script.joins_steps(parse_graph(STEPS), ("ours",), "c", known, np.int8([75, 100, 127]))


def test_a_value_of_our_own_that_holds_known_integers_is_known(script):
    known = {"a": np.uint8([[133, 138]]), "b": np.int8([5, 11]), "c": np.float32([5, 10])}
    assert script._same(known, [np.int8([5, 10]), np.float32([5, 10])]) == {"a"}


def test_a_result_of_values_that_nobody_knows_is_not_excused(script):
    assert not script.joins_steps(parse_graph(STEPS), ("s",), "c", {"s": np.float32(1)}, np.int8([1, 2, 3]))


def test_real_numbers_made_of_integers_that_may_be_one_off_may_be_one_step_off(script):
    actual, expected = np.float32([1, 2]), np.float32([1.5, 2])
    assert script.far_off(actual, expected, 0.5) == ""
    assert script.far_off(actual, expected, 0.4) == "it is 0.5 off, and 0.404 is allowed"


@pytest.mark.parametrize(
    ("found", "expected", "message"),
    [
        (np.int8([1, 5]), np.int8([1, 6]), ""),
        (np.int8([1, 5]), np.int8([1, 7]), "it is 2 off"),
        (np.int8([1]), np.uint8([1]), "it is int8[1], not uint8[1]"),
        (np.float32([1, 2]), np.float32([1.001, 2]), ""),
        (np.float32([1, 2]), np.float32([1.5, 2]), "it is 0.5 off, and 0.004 is allowed"),
        (np.float32([np.nan]), np.float32([np.nan]), ""),
        (np.float32([np.nan, 1]), np.float32([np.nan, 1.001]), ""),
        (np.float32([np.inf, 1]), np.float32([np.inf, 1.5]), "it is 0.5 off, and 0.003 is allowed"),
        (np.float32([np.nan, 1]), np.float32([1, np.nan]), "infinities or nan stand at other places"),
    ],
)
def test_how_far_off_a_result_may_be(script, found, expected, message):
    assert script.far_off(found, expected) == message


def test_rows_that_became_images_are_compared_as_such(script):
    rng = np.random.default_rng(0)
    net = model(
        [
            node("Conv", "x w", "a", pads=[1, 1]),
            node("Relu", "a", "b"),
            node("MaxPool", "b", "y", kernel_shape=[2], strides=[2]),
        ],
        {"x": [1, 3, 20]},
        ["y"],
        {"w": rng.normal(size=(8, 3, 3)).astype(np.float32)},
    )
    case = script.Case(0, script.Network(net, {"x": (1, 3, 20)}), "qdq-u8", script.DEFAULT)
    faults, layers = script.faults(case, script.written(case))
    assert not faults
    assert layers >= 3


def test_a_step_on_rows_is_judged_where_it_became_one_on_images(script):
    rows = {"a": np.int8([[5, 10], [15, 20]]), "b": np.int8([[-6, -10], [-15, -20]]), **SCALES}
    rows["c"] = np.int8([[60, 100], [127, 127]])
    graph = parse_graph(STEPS.replace("[3]", "[2, 2]"))
    image = np.int8([50, 100, 127, 127]).reshape(2, 1, 2)
    assert script.joins_steps(graph, ("a", *SCALES), "c", rows, image)


def test_a_node_is_judged_from_the_nearest_known_values_before_its_inputs(script):
    makers = DefUse(parse_graph(STEPS)).makers
    assert script._known_before(makers["m"], makers, {"a": None, "b": None}) == {"b"}
    assert script._known_before(makers["m"], makers, {"a": None, "t": None}) == {"a", "t"}


@pytest.mark.parametrize(
    ("op", "scale", "rounds"), [("Transpose", "s", False), ("Transpose", "t", True), ("Neg", "s", True)]
)
def test_a_moved_tensor_of_the_same_scale_is_not_rounded(script, op, scale, rounds):
    attributes = ", perm=(1, 0)" if op == "Transpose" else ""
    graph = parse_graph(
        f"""\
def f(a: int8[3, 3], s: float32, t: float32, z: int8):
    r: float32[3, 3] = DequantizeLinear(a, s, z, axis=0)
    m: float32[3, 3] = {op}(r{attributes})
    b: int8[3, 3] = QuantizeLinear(m, {scale}, z, axis=0)
    return b
"""
    )
    assert script._rounds(graph.nodes[-1], graph) is rounds


def test_a_constant_is_not_rounded(script):
    graph = parse_graph(
        """\
def f(a: int8[2], s: float32, z: int8):
    c: float32[2] = constant([1.0, 2.0])
    b: int8[2] = QuantizeLinear(c, s, z, axis=0)
    return b
"""
    )
    assert not script._rounds(graph.nodes[-1], graph)
