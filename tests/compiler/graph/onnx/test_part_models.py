"""Models for onnxruntime in supported versions, and the types of their results."""

import numpy as np
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

from tests.compiler.graph.onnx.networks import node
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.part_models import (
    ResultType,
    declarations,
    definition_of,
    have_common_version,
    model_of,
    probe,
    run,
    same_in,
    unshaped,
    versions_of,
)

X = {"x": helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3])}
NEWEST = defs.onnx_opset_version()


def types_of(*nodes, outputs: str = "y", constants=None, opset: int = 13, inputs=X) -> dict[str, str]:
    """Return what onnxruntime says of the results of nodes, as texts."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    types = probe(model_of(nodes, {"": opset}, inputs, tensors, outputs.split()))
    return {name: str(type_) for name, type_ in types.items()}


def test_types_are_those_that_onnxruntime_infers():
    assert types_of(node("TopK", "x k", "v y"), outputs="v y", constants={"k": np.array([2])}) == {
        "v": "float32[2, 2]",
        "y": "int64[2, 2]",
    }


def test_extents_known_only_in_a_run_are_marked():
    assert types_of(node("NonZero", "x", "y")) == {"y": "int64[2, -1]"}


def test_a_scalar_is_distinguished_from_an_unknown_rank():
    shape = {**X, "s": helper.make_tensor_type_proto(TensorProto.INT64, ["n"])}
    assert types_of(node("ReduceSum", "x", "y", keepdims=0)) == {"y": "float32"}
    assert types_of(node("Reshape", "x s", "y"), inputs=shape) == {"y": "tensor of float, of unknown rank"}


def test_types_that_no_graph_holds_are_described():
    assert types_of(node("SplitToSequence", "x", "y")) == {"y": "sequence"}
    assert types_of(node("Cast", "x", "y", to=TensorProto.STRING)) == {"y": "tensor of string"}
    assert types_of(node("Cast", "x", "y", to=TensorProto.BFLOAT16)) == {"y": "tensor of bfloat16"}
    assert types_of(node("Optional", "x", "y"), opset=15) == {"y": "optional"}
    assert ResultType(helper.make_tensor_type_proto(TensorProto.STRING, [1])).tensor is None


def test_what_onnxruntime_does_not_know_is_refused():
    with pytest.raises(RefusalError, match=r"^onnxruntime does not run it: .*No Op registered for Nonsense"):
        types_of(node("Nonsense", "x", "y"))


def test_the_oldest_equal_version_is_named():
    model = model_of(
        [node("TopK", "x k", "v i")], {"": next(versions_of(node("TopK", "x k", "v i"), 20))}, X, [], ["v"]
    )
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 11)]
    gelu = node("Gelu", "x", "y")
    gelu.domain = "com.microsoft"
    assert [
        (opset.domain, opset.version) for opset in model_of([gelu], {"": 20}, X, [], "y").opset_import
    ] == [("com.microsoft", 1)]


def test_two_nodes_with_the_same_name_are_accepted():
    assert types_of(node("Neg", "x", "a"), node("Neg", "a", "y")) == {"y": "float32[2, 3]"}


def test_versions_differ_in_types_alone():
    assert (
        list(versions_of(node("Cast", "x", "y", to=1), NEWEST))[-1] >= 24
    )  # before, it had no rounding modes
    assert list(versions_of(node("Relu", "x", "y"), 14)) == [14, 13, 7]
    assert list(versions_of(node("Softmax", "x", "y"), 13)) == [13]  # its axis had another default before
    assert list(versions_of(node("Nonsense", "x", "y"), 13)) == [13]


def test_nodes_have_a_common_version_if_a_later_version_changes_none_of_them():
    relu, softmax = node("Relu", "x", "y"), node("Softmax", "y", "z")
    assert have_common_version([relu, softmax], [13, 13])
    assert have_common_version([relu, softmax], [14, 13])
    assert not have_common_version([softmax, relu], [11, 14])


def test_the_main_operator_set_has_two_names():
    """A node of "ai.onnx" is a node of "": in its model, its expansion, and the list of its versions."""
    spelt = node("Celu", "x", "y", domain="ai.onnx")
    model = model_of([spelt], {"": 12}, X, [], ["y"])
    assert [node_proto.domain for node_proto in model.graph.node] == [""]
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 12)]
    assert "Elu" in [node_proto.op_type for node_proto in definition_of(model)]
    assert list(versions_of(spelt, 13)) == list(versions_of(node("Celu", "x", "y"), 13)) == [12]


def test_duplicate_names_of_nodes_are_dropped():
    first, second, third = (node("Neg", "x", name) for name in "abc")
    third.name = "other"
    model = model_of([first, second, third], {"": 13}, X, [], ["a"])
    assert [node_proto.name for node_proto in model.graph.node] == ["the_Neg", "", "other"]
    assert second.name == "the_Neg"


@pytest.mark.parametrize(
    ("op", "first_version", "second_version", "same"),
    [
        ("Relu", 6, 14, True),
        ("Relu", 1, 6, False),
        ("Softmax", 11, 13, False),
        ("Softmax", 13, 20, True),
        ("Gelu", 20, 19, False),
        ("Gelu", 19, 20, False),
        ("Gelu", 20, 20, True),
        ("Nonsense", 20, 20, False),
    ],
)
def test_an_operator_is_the_same_in_versions_between_which_only_its_types_changed(
    op, first_version, second_version, same
):
    assert same_in(op, first_version, second_version) is same


@pytest.mark.parametrize(("extent", "shape"), [(0, (0, 3)), (1, (1, 3)), (-1, (-1, 3)), (None, (-1, 3))])
def test_a_negative_or_symbolic_extent_is_unknown(extent, shape):
    proto = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 3])
    proto.tensor_type.shape.dim[0].Clear()
    if extent is not None:
        proto.tensor_type.shape.dim[0].dim_value = extent
    assert ResultType(proto).tensor.shape == shape


def test_operators_are_expanded_by_their_definitions():
    model = model_of([node("Celu", "x", "y")], {"": 12}, X, [], ["y"])
    nodes = definition_of(model)
    assert "Elu" in [node_proto.op_type for node_proto in nodes]
    assert nodes[-1].output == ["y"]
    assert definition_of(model_of([node("Relu", "x", "y")], {"": 9}, X, [], ["y"])) == []


def test_a_definition_is_found_where_inputs_are_left_out():
    inputs = {name: helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 2, 3, 4]) for name in "qkv"}
    attention = helper.make_node("Attention", ["q", "k", "v", ""], ["y"])
    assert len(definition_of(model_of([attention], {"": 23}, inputs, [], ["y"]))) > 10


def test_a_model_runs_on_arrays_of_any_shape():
    model = model_of([node("Neg", "x", "y")], {"": 13}, {"x": unshaped(X["x"])}, [], ["y"])
    np.testing.assert_array_equal(run(model, {"x": np.ones(5, np.float32)})["y"], -np.ones(5))
    with pytest.raises(RefusalError, match=r"^onnxruntime does not run it: "):
        run(model)


def test_inputs_of_subgraphs_are_declared_with_shapes_then_ranks_then_neither():
    tensor, floats = helper.make_tensor_type_proto, TensorProto.FLOAT
    number, row, any_row, rest = (tensor(floats, shape) for shape in ([], [2], [None], None))
    sequence, relu = helper.make_sequence_type_proto(rest), node("Relu", "x", "y")
    branch = helper.make_graph([relu], "g", [], [])
    nodes = [relu, node("If", "c", "y", then_branch=branch, else_branch=branch)]
    assert list(declarations(nodes, {"x": row, "n": number, "s": sequence})) == [
        {"x": row, "n": number, "s": sequence},
        {"x": any_row, "n": number, "s": sequence},
        {"x": rest, "n": rest, "s": sequence},
    ]
    assert list(declarations(nodes, {"x": any_row})) == [{"x": any_row}, {"x": rest}]
    assert list(declarations(nodes, {"x": rest, "s": sequence})) == [{"x": rest, "s": sequence}]
    assert list(declarations(nodes, {})) == [{}]
    assert list(declarations([relu], {"x": row})) == [{"x": row}]
