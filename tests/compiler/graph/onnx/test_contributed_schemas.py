"""Operators of other domains: inputs and attributes are as onnxruntime declares them."""

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.contributed import CLASSICAL, MICROSOFT, OPERATORS
from vdla.compiler.graph.onnx.load import load
from vdla.runtime.host.onnx_runtime import PART

DECLARED = {schema.name: schema for schema in runtime.get_all_operator_schema() if schema.domain == MICROSOFT}
ANY_NUMBER = "QLinearConcat"  # a tensor, a scale and a zero point for each operand
FEWER = {"QLinearGlobalAveragePool": (4, 5)}  # the zero point of the result may be left out
FURTHER = {"TransposeMatMul": {"transBatchA", "transBatchB"}}  # as in FusedMatMul, its later name


@pytest.mark.parametrize("op", [op for op in OPERATORS[MICROSOFT] if op != ANY_NUMBER])
def test_inputs_are_those_that_onnxruntime_declares(op):
    kind, schema = OPERATORS[MICROSOFT][op], DECLARED[op]
    assert kind.inputs == FEWER.get(op, (schema.min_input, schema.max_input))
    names = [parameter.name.lower() for parameter in schema.inputs]
    needed = {place for place, parameter in enumerate(schema.inputs) if parameter.option.name == "Single"}
    assert set(kind.required) <= needed
    assert all("zero_point" in names[place] for place in needed - set(kind.required)), names


def test_a_concatenation_has_three_inputs_for_each_operand():
    kind = OPERATORS[MICROSOFT][ANY_NUMBER]
    assert kind.inputs[0] == 2 + 3
    assert kind.inputs[1] > DECLARED[ANY_NUMBER].max_input
    assert kind.required == (0, 2, 3)  # the scale of the result, a tensor and its scale


@pytest.mark.parametrize("op", OPERATORS[MICROSOFT])
def test_attributes_are_those_that_onnxruntime_declares(op):
    declared = {name: attribute.type.name for name, attribute in DECLARED[op].attributes.items()}
    further = dict.fromkeys(FURTHER.get(op, ()), "INT")
    assert dict(OPERATORS[MICROSOFT][op].attributes) == declared | further


# Operators of ai.onnx.ml that the kit runs itself, against onnxruntime

RNG = np.random.default_rng(0)
EACH, SINGLE = [0.5, -2.0, 3.0, 0.25], [1.5]


def scaled(dtype: str, shape: tuple[int, ...], **attributes: list[float]) -> ModelProto:
    """Return a model of one Scaler."""
    proto = model([node("Scaler", "x", "y", domain=CLASSICAL, **attributes)], {"x": shape}, ["y"])
    proto.graph.input[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return proto


@pytest.mark.parametrize("numbers", [EACH, SINGLE])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
def test_features_are_scaled_as_onnxruntime_scales_them(numbers, dtype):
    proto = scaled(dtype, (3, 4), offset=numbers, scale=numbers[::-1])
    x = (RNG.normal(size=(3, 4)) * 9).astype(dtype)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    graph = load(proto)
    assert PART not in [each.op for each in graph.nodes]
    np.testing.assert_allclose(interpret(graph, {"x": x})["y"], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("offset", "scale"), [(SINGLE, EACH), (EACH, SINGLE)])
def test_offset_or_scale_may_be_a_scalar(offset, scale):
    """The specification allows it; onnxruntime does not run it."""
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    result = interpret(load(scaled("float32", (3, 4), offset=offset, scale=scale)), {"x": x})["y"]
    np.testing.assert_allclose(result, (x - offset) * scale, rtol=1e-6, atol=1e-6)


def test_shapes_are_inferred_after_a_scaler():
    nodes = [node("Scaler", "x", "s", domain=CLASSICAL, offset=EACH, scale=EACH), node("MatMul", "s w", "y")]
    proto = model(nodes, {"x": (1, 4)}, ["y"], {"w": np.ones((4, 2), np.float32)})
    assert load(proto).types["y"].shape == (1, 2)


@pytest.mark.parametrize("name", ["offset", "scale"])
@pytest.mark.parametrize("numbers", [[], [1.0, 2.0, 3.0]])
def test_another_count_of_numbers_is_refused(name, numbers):
    attributes = {"offset": EACH, "scale": EACH} | {name: numbers}
    given = {key: value for key, value in attributes.items() if value}
    with pytest.raises(
        GraphError, match=f"attribute {name} has {len(numbers)} numbers; it takes 1, or a number for each"
    ):
        load(scaled("float32", (3, 4), **given))


def sequence_out() -> ModelProto:
    """Return a model whose output is a sequence, as ZipMap's is."""
    proto = model([node("SplitToSequence", "x", "y", axis=0)], {"x": (2, 4)}, ["y"])
    proto.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None))
    return proto


def test_a_sequence_output_is_refused_with_advice():
    with pytest.raises(
        GraphError, match=r"'y' is a sequence, .*; take 'y' out of the file's outputs, or export"
    ):
        load(sequence_out())


def test_an_output_of_unknown_rank_is_refused_with_advice():
    proto = scaled("float64", (3, 4), offset=EACH, scale=EACH)  # onnxruntime runs it
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(GraphError, match=r"of unknown rank, .*; declare the shape of 'y' in the"):
        load(proto)
