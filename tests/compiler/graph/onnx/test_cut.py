"""Parts of models compute the same as within the whole, and invalid sections are refused."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, shape_inference

from tests.compiler.graph.onnx.networks import model, node, small_cnn
from vdla.compiler.graph.interpret import all_values, interpret
from vdla.compiler.graph.nodes import GraphError, TensorType
from vdla.compiler.graph.onnx.cut import cut
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.read import read_model
from vdla.compiler.graph.source import WHOLE, Section

RNG = np.random.default_rng(0)


def two_inputs():
    """Return a model of two inputs, the first of dynamic shape, and two outputs."""
    nodes = [
        node("Relu", "a.1", "r"),
        node("Add", "r b", "208"),
        node("Neg", "208", "n/1"),
        node("Abs", "r", "other"),
    ]
    return model(nodes, {"a.1": ["N", 4], "b": [1, 4]}, ["n/1", "other"])


@pytest.mark.parametrize(
    ("section", "inputs", "outputs"),
    [
        (WHOLE, ["input.1"], ["output"]),
        (Section((), ("a",)), ["input.1"], ["a"]),
        (Section(("r",), ("p",)), ["r"], ["p"]),
        (Section(("r",)), ["r"], ["output"]),
        (Section(("/c1",), ("r", "bn")), ["/c1"], ["r", "bn"]),
        (Section(("c2", "r"), ("p",)), ["c2", "r"], ["p"]),
        (Section(("r", "w2"), ("c2",)), ["r", "w2"], ["c2"]),
        (Section((), ("input.1",)), ["input.1"], ["input.1"]),
    ],
)
def test_a_part_computes_the_same_as_within_the_whole(section, inputs, outputs):
    whole, part = load(small_cnn()), load(small_cnn(), section=section)
    assert (list(part.inputs), list(part.outputs)) == (inputs, outputs)
    values = {
        **whole.constants,
        **all_values(whole, {"input.1": RNG.normal(size=(1, 3, 16, 16)).astype(np.float32)}),
    }
    results = interpret(part, {name: values[name] for name in inputs})
    for name in outputs:
        np.testing.assert_array_equal(results[name], values[name])


def test_the_shape_of_an_input_may_be_given_where_the_part_begins_or_before():
    assert load(two_inputs(), {"a.1": (1, 4)}, Section(("r",), ("other",))).types["r"].shape == (1, 4)
    assert load(two_inputs(), {"r": (2, 4)}, Section(("r",), ("other",))).types["r"].shape == (2, 4)
    message = "input 'r': its shape is dynamic: [N, 4]; pass samples (--calibrate), or --shape r=1,4"
    with pytest.raises(GraphError, match=re.escape(message)):
        load(two_inputs(), section=Section(("r",), ("other",)))


@pytest.mark.parametrize(
    ("elem_type", "shape"),
    [
        (TensorProto.UNDEFINED, [1, 4]),
        (TensorProto.FLOAT, None),
        (TensorProto.FLOAT, ["N", 4]),
    ],
)
def test_a_type_that_the_file_does_not_state_in_full_is_inferred(elem_type, shape):
    proto = two_inputs()
    proto.graph.value_info.append(helper.make_tensor_value_info("r", elem_type, shape))
    part = load(proto, {"a.1": (1, 4)}, Section(("r",), ("other",)))
    assert part.types["r"] == TensorType((1, 4), "float32")


def test_types_are_inferred_only_where_one_is_missing(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no inference")

    proto = two_inputs()
    proto.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, 4]))
    monkeypatch.setattr(shape_inference, "infer_shapes", fail)
    part, _ = cut(read_model(proto), Section(("r",), ("other",)), {})
    assert [value.name for value in part.proto.graph.input] == ["r"]
    with pytest.raises(GraphError, match=r"^net: the types of its values cannot be inferred: no inference$"):
        cut(read_model(proto), Section(("208",), ("n/1",)), {})


def test_only_the_inputs_that_outputs_need_are_left():
    assert list(load(two_inputs(), {"a.1": (1, 4)}, Section((), ("other",))).inputs) == ["a.1"]


def test_nodes_outside_the_part_need_not_be_supported():
    text = helper.make_tensor_value_info("text", TensorProto.STRING, [1])
    proto = model([node("StringNormalizer", "text", "t"), node("Relu", "x", "y")], {"x": [2]}, ["y"])
    proto.graph.input.append(text)
    assert list(load(proto, section=Section((), ("y",))).inputs) == ["x"]


REFUSED = {
    "outputs names 'n', which the model does not have; there are a.1, b, r, 208, n/1, other": Section(
        (), ("n",)
    ),
    "inputs names 'x', which the model does not have; there are a.1, b, r, 208, n/1, other": Section(
        ("x",), ()
    ),
    "outputs names '208' twice": Section((), ("208", "208")),
    "'r' is named as an input and as an output": Section(("r",), ("r",)),
    "other can be computed without the input 'b'; leave it out": Section(("a.1", "b"), ("other",)),
    "208 also depend on the input 'b'; name it, or a value between, among the inputs": Section(
        ("r",), ("208",)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_cut_that_cannot_be_made_is_refused(message):
    with pytest.raises(GraphError, match=f"^net: {re.escape(message)}$"):
        load(two_inputs(), section=REFUSED[message])


def test_the_nearest_of_many_names_are_suggested():
    with pytest.raises(
        GraphError, match=r"^net: outputs names 'flat_shap', .* values, these come nearest: flat_shape,"
    ):
        load(small_cnn(), section=Section((), ("flat_shap",)))


def test_nine_names_are_too_many_to_list_and_eight_are_not():
    def refusal(count: int) -> str:
        nodes = [node("Relu", f"v{place}", f"v{place + 1}") for place in range(count - 1)]
        with pytest.raises(GraphError) as caught:
            load(model(nodes, {"v0": [1]}, [f"v{count - 1}"]), section=Section((), ("xyz",)))
        return str(caught.value).partition("; ")[2]

    assert refusal(8) == "there are v0, v1, v2, v3, v4, v5, v6, v7"
    assert refusal(9) == "of its 9 values, these come nearest: v0, v1, v2, v3, v4, v5, v6, v7"


def test_shapes_of_values_that_are_not_inputs_are_refused():
    with pytest.raises(
        GraphError, match=r"^net: shapes names 'x', which is not an input; there are r, a\.1, b$"
    ):
        load(two_inputs(), {"x": (1,)}, Section(("r",), ("other",)))


def test_a_value_of_no_known_type_cannot_become_an_input():
    unknown = node("Mystery", "x", "m")
    unknown.domain = "somewhere"
    proto = model([unknown, node("Relu", "m", "y")], {"x": [2]}, ["y"])
    proto.opset_import.append(helper.make_opsetid("somewhere", 1))
    with pytest.raises(GraphError, match=r"^net: the type of 'm' is not known; let the file state it"):
        load(proto, section=Section(("m",)))


def test_the_whole_section_returns_the_model_unchanged():
    whole = read_model(small_cnn())
    assert cut(whole, WHOLE, {"x": (1,)}) == (whole, {"x": (1,)})
