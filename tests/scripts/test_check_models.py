"""Lowered networks agree with onnxruntime layer by layer, and the command says where they differ."""

import importlib
from dataclasses import replace

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from tests.compiler.graph.onnx.networks import model as model_of
from tests.compiler.graph.onnx.networks import node, small_cnn
from tests.compiler.network.test_outside import network
from vdla.compiler.graph.nodes import Graph

LAYERS = {"lstm_cell.onnx": 3, "lstm_cell_int8.onnx": 12, "dqn.onnx": 5, "dqn_int8.onnx": 5}


@pytest.fixture(scope="module")
def script(script):
    """Return scripts/check_models.py."""
    return script("check_models")


@pytest.fixture(scope="module")
def folder(script, tmp_path_factory):
    """Return a folder with small models, float and quantised."""
    directory = tmp_path_factory.mktemp("models")
    done = CliRunner().invoke(
        importlib.import_module("make_models").main,
        ["--output", str(directory), "--only", "lstm_cell", "--only", "dqn"],
    )
    assert done.exit_code == 0, done.output
    return directory


class Spoiled:
    """A pipeline whose operators add to what they compute.

    Args:
        steps: how much, in units of the last place.
    """

    def __init__(self, pipeline, steps: int) -> None:
        self.pipeline, self.steps = pipeline, steps

    def run(self, graph: Graph) -> Graph:
        lowered = self.pipeline.run(graph)
        constants = {
            name: self.moved(array) if name.endswith("parameters") else array
            for name, array in lowered.constants.items()
        }
        return replace(lowered, constants=constants)

    def moved(self, parameters: np.ndarray) -> np.ndarray:
        bias, multiplier, low, clip = parameters
        return np.stack([bias, multiplier, low & 0xFF | ((low >> 8) + self.steps & 0xFF) << 8, clip])


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_is_compared_and_agrees(script, folder, name):
    comparison = script.compare(folder / name, 0)
    assert len(comparison.differences) == LAYERS[name]
    assert comparison.largest <= 1
    assert comparison.same_rows == comparison.rows
    # a table is the host's
    assert {op for op in comparison.on_host if op.startswith("Int8")} <= {"Int8Lookup"}


def test_names_that_are_no_identifiers_are_found(script, tmp_path):
    onnx.save(small_cnn(), tmp_path / "cnn.onnx")
    comparison = script.compare(tmp_path / "cnn.onnx", 0)
    assert comparison.largest <= 1


@pytest.mark.parametrize("name", ["LSTM", "If"])
def test_float_networks_with_parts_of_onnxruntime_are_compared(script, tmp_path, name):
    onnx.save(network(name), tmp_path / "net.onnx")
    comparison = script.compare(tmp_path / "net.onnx", 0)
    assert comparison.exact
    assert comparison.differences
    assert comparison.largest <= 1
    assert comparison.on_host["OnnxRuntime"] == 1


def test_the_command_prints_a_table_and_succeeds(script, folder):
    done = CliRunner().invoke(script.main, [str(folder / "dqn_int8.onnx")])
    assert done.exit_code == 0, done.output
    head, line = done.output.splitlines()
    assert head.split() == [
        "model",
        "layers",
        "difference",
        "top-1",
        "cycles",
        "exact",
        "s",
        "on",
        "the",
        "host",
        "in",
        "float",
    ]
    assert line.split()[:3] == ["dqn_int8", "5", "1"]
    assert line.endswith("  1 DequantizeLinear, 1 QuantizeLinear")


def test_layers_that_are_too_far_off_are_named_and_fail(script, folder, monkeypatch):
    monkeypatch.setattr(script, "INTEGERS", Spoiled(script.INTEGERS, 3))
    done = CliRunner().invoke(script.main, [str(folder / "dqn_int8.onnx")])
    assert done.exit_code == 1
    assert done.output.count("\n    ") == LAYERS["dqn_int8.onnx"]


def test_without_models_the_command_says_what_to_do(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(script.main, [])
    assert done.exit_code == 1
    assert "build/models holds no .onnx files; make some with scripts/make_models.py" in done.output


PRODUCTS = {
    "MatMulInteger": ("x w z v", 4 * 255 * 128),
    "MatMulInteger, without zero points": ("x w", 4 * 255 * 127),
    "MatMulIntegerToFloat": ("x w s s z v", 4 * 255 * 128),
    "MatMulIntegerToFloat, without zero points": ("x w s s", 4 * 255 * 127),
    "QGemm": ("x s z w s v - t o", 2),
    "QLinearMatMul": ("x s z w s v t o", 2),
}
"""Inputs of products, and the elements of their results."""


def product_of(title: str, is_constant: bool) -> onnx.ModelProto:
    """Return a product of uint8 activations of 255 and int8 elements of 127, whose sums of two exceed int16.

    Args:
        is_constant: the int8 elements are constant; else a node computes them.
    """
    op, inputs = title.split(",")[0], PRODUCTS[title][0]
    domain = "com.microsoft" if op in ("MatMulIntegerToFloat", "QGemm") else ""
    constants = {
        "s": np.float32(1),
        "t": np.float32(1 << 16),
        "o": np.uint8(0),
        "z": np.uint8(0),
        "c": np.full((4, 2), 127, np.int8),
        "v": np.int8(-1),
    }
    operand = "c" if is_constant else "w"
    nodes = [node("Identity", "c", "w"), node(op, inputs.replace("w", operand), "y", domain=domain)]
    proto = model_of(nodes, {"x": [1, 4]}, ["y"], constants, elem_type=onnx.TensorProto.UINT8)
    proto.graph.output[0].ClearField("type")
    return proto


@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "activation"])
@pytest.mark.parametrize("title", PRODUCTS)
def test_sums_of_the_reference_are_exact_on_every_processor(script, title, is_constant):
    """Without VNNI, onnxruntime saturates sums of two products of uint8 and int8, but none of uint8."""
    proto, expected = product_of(title, is_constant), PRODUCTS[title][1]
    run = importlib.import_module("models.run")
    (result,) = run.unoptimised(proto).run(None, {"x": np.full((1, 4), 255, np.uint8)})
    assert result.tolist() == [[expected, expected]]
    types = run.operand_types(run.with_unsigned_operands(proto))
    assert set(types.values()) == {"tensor(uint8)"}
