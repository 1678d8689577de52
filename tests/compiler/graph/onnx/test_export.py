"""Exported graphs are imported equal, and operators that ONNX lacks are refused."""

import numpy as np
import pytest
from onnx import ModelProto, checker, helper

from tests.compiler.graph.onnx.networks import small_cnn
from tests.compiler.network.test_outside import network
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, GraphError, Node, TakenNames
from vdla.compiler.graph.onnx.export import OPSET, export, unfolded
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import INTEGERS, SIMPLIFY
from vdla.compiler.graph.quantise import quantise
from vdla.runtime.host.onnx_runtime import PART, session_from

OPERATORS = """\
def f(x: float32[1, 2, 4, 4]):
    a: float32[1, 2, 4, 4] = Clip(x, max=6.0, min=-0.1)
    b: float32[1, 2, 5, 4] = Pad(a, mode="constant", pads=(0, 0, 1, 0, 0, 0, 0, 0), value=0.5)
    c: float32[1, 2, 2, 4] = Slice(b, axes=(2,), ends=(4,), starts=(0,), steps=(2,))
    d: float32[1, 2, 2, 2]
    e: float32[1, 2, 2, 2]
    d, e = Split(c, axis=3, split=(2, 2))
    g: float32[1, 2, 2, 2] = MaxPool(x, ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(0, 0, 0, 0), strides=(2, 2))
    h: float32[1, 2, 2, 2] = Sum(d, e, g)
    i: float32[1, 2, 2, 2] = LRN(h, alpha=0.1, beta=0.75, bias=1.0, size=3)
    j: float32[2, 2, 2] = Squeeze(i, axes=(0,))
    k: float32[2, 2, 2, 1] = Unsqueeze(j, axes=(3,))
    m: float32[2, 2, 2, 3] = Tile(k, repeats=(1, 1, 1, 3))
    n: float32[2, 2, 1, 3] = ReduceMean(m, axes=(2,), keepdims=1)
    o: float32[2, 2, 2, 3] = Expand(n, shape=(2, 2, 2, 3))
    p: int32[2, 2, 2, 3] = Cast(o, to="int32")
    q: float32[2, 2, 2, 3] = Cast(p, to="float32")
    r: float32[8, 3] = Reshape(q, shape=(8, 3))
    s: float32[3, 8] = Transpose(r, perm=(1, 0))
    t: float32[3, 8] = Softmax(s, axis=1)
    w: float32[8] = constant([1, 2, 3, 4, 5, 6, 7, 8])
    v: float32[3, 8] = RMSNormalization(t, w, axis=1, epsilon=0.001)
    u: float32[6, 20] = Resize(v, coordinate_transformation_mode="asymmetric", nearest_mode="floor", scales=(2.0, 2.5), sizes=(6, 20))
    y: float32[7, 20] = Resize(u, coordinate_transformation_mode="asymmetric", nearest_mode="floor", scales=(1.1666666666666667, 1.0), sizes=(7, 20))
    return y
"""

SPLIT = """\
def f(x: float32[4, 6]):
    a: float32[4, 1] = Split(x, axis=1, split=(1, 2, 3))
    b: float32[4, 1] = Neg(a)
    return b
"""
TWINS = """\
def f(x: float32[4]):
    a: float32[4] = Neg(x, name="n")
    b: float32[4] = Abs(a, name="n")
    c: float32[4] = Neg(b, name="n_1")
    d: float32[4] = Abs(c)
    e: float32[4] = Neg(d)
    return e
"""
X = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)


def quantised_cnn() -> Graph:
    graph = SIMPLIFY.run(load(small_cnn()))
    rng = np.random.default_rng(0)
    return quantise(graph, [{"input.1": rng.normal(size=(1, 3, 16, 16)).astype(np.float32)}]).graph


@pytest.mark.parametrize(
    "make", [lambda: parse_graph(OPERATORS), quantised_cnn], ids=["operators", "quantised network"]
)
def test_an_exported_graph_is_imported_equal(make):
    graph = make()
    model = export(graph)
    checker.check_model(model, full_check=True)
    assert model.ir_version == helper.find_min_ir_version_for(model.opset_import)
    assert load(model) == graph


def test_nodes_with_the_same_name_get_unique_names():
    model = export(parse_graph(TWINS))
    assert [node.name for node in model.graph.node] == ["n", "n_1", "n_1_1", "", ""]
    x = np.float32([1, -2, 3, -4])
    (result,) = session_from(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(result, -abs(x))


def test_parts_of_a_split_that_nothing_reads_are_named():
    graph = parse_graph(SPLIT)
    model = export(graph)
    checker.check_model(model, full_check=True)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    (result,) = session_from(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(result, interpret(graph, {"x": x})["b"])


@pytest.mark.parametrize("name", ["If", "LSTM", "TopK"])
def test_parts_of_onnxruntime_become_their_nodes(name):
    graph = SIMPLIFY.run(load(network(name).SerializeToString()))
    assert PART in [node.op for node in graph.nodes]
    model = export(graph)
    assert name in [node.op_type for node in model.graph.node]
    (result,) = session_from(model.SerializeToString()).run(None, {"input.1": X})
    (expected,) = interpret(graph, {"input.1": X}).values()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_names_within_a_part_do_not_clash_with_names_of_the_graph():
    (part,) = (node for node in load(network("If").SerializeToString()).nodes if node.op == PART)
    graph = load(network("If").SerializeToString())
    model = graph.constants[part.inputs[0]].tobytes()
    whole = unfolded(part, model, OPSET, TakenNames((*graph.types, "z", "z_1")))
    (choice,) = (node for node in whole.graph.node if node.op_type == "If")
    assert {out.name for attribute in choice.attribute for out in attribute.g.output} == {"z_2"}


def old_part(op: str, **attributes) -> ModelProto:
    """Return the model of a part that was written in version 7."""
    x, y = helper.make_tensor_value_info("x", 1, [2, 3]), helper.make_tensor_value_info("y", 1, None)
    body = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "part", [x], [y])
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 7)])
    return unfolded(
        Node(PART, ("m", "a"), ("b",), {}, "the part"), model.SerializeToString(), OPSET, TakenNames()
    )


def test_a_part_in_an_old_version_is_converted():
    *constants, resize = old_part("Upsample", scales=[1.0, 2.0]).graph.node
    assert {node.op_type for node in constants} == {"Constant"}
    assert (resize.op_type, list(resize.input)[:1], list(resize.output)) == ("Resize", ["a"], ["b"])


@pytest.mark.parametrize("op", ["Nobody", "TopK"])  # TopK lacks an output, which shape inference refuses
def test_a_part_that_cannot_be_converted_is_refused(op):
    message = (
        r"^OnnxRuntime 'the part' cannot be exported: its operators of operator set 7 cannot be conv.* "
        rf"{OPSET}: "
    )
    with pytest.raises(GraphError, match=message):
        old_part(op)


def test_an_operator_of_the_accelerator_is_refused():
    with pytest.raises(
        GraphError,
        match=rf"^Int8\w+ '\w+' cannot be exported: operator set {OPSET} of ONNX has no operator Int8\w+$",
    ):
        export(INTEGERS.run(quantised_cnn()))


def test_an_attribute_that_onnx_has_in_another_form_is_refused():
    graph = parse_graph(
        'def f():\n    y: float32[2] = ConstantOfShape(dtype="float32", shape=(2,), value=1.0)\n    '
        "return y\n"
    )
    with pytest.raises(
        GraphError,
        match=r"^ConstantOfShape 'y' cannot be exported: ConstantOfShape of ONNX has no attribute dtype$",
    ):
        export(graph)
