"""Operators on shapes, scales and single elements, compared with onnxruntime."""

import re

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from tests.compiler.graph.onnx.networks import attributes_agreed, model, node
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load

X = {"x": np.random.default_rng(0).normal(size=(2, 3, 1, 5)).astype(np.float32)}
RESIZED = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
HALF_PIXEL = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"}
SUMMED = ("ReduceSum", {"axes": (0, 1, 2, 3), "keepdims": 1})


def tensor(array: np.ndarray):
    return numpy_helper.from_array(array)


# Nodes of a model of x[2, 3, 1, 5], constants, the operator set, and the operators that they become.
FORMS = {
    "flattened from the first axis on": (
        [node("Flatten", "x", "y", axis=0)],
        {},
        13,
        [("Flatten", {"axis": 0})],
    ),
    "flattened from an axis counted from the end": (
        [node("Flatten", "x", "y", axis=-3)],
        {},
        13,
        [("Flatten", {"axis": 1})],
    ),
    "flattened behind the last axis": (
        [node("Flatten", "x", "y", axis=4)],
        {},
        13,
        [("Flatten", {"axis": 4})],
    ),
    "flattened from the last axis on": (
        [node("Flatten", "x", "y", axis=-1)],
        {},
        13,
        [("Flatten", {"axis": 3})],
    ),
    "blocks of a version without modes": (
        [node("DepthToSpace", "x", "y", blocksize=1)],
        {},
        10,
        [("DepthToSpace", {"blocksize": 1, "mode": "DCR"})],
    ),
    "turned round": ([node("Transpose", "x", "y")], {}, 13, [("Transpose", {"perm": (3, 2, 1, 0)})]),
    "squeezed of all": ([node("Squeeze", "x", "y")], {}, 13, [("Squeeze", {"axes": (2,)})]),
    "unsqueezed in two places": (
        [node("Unsqueeze", "x a", "y")],
        {"a": np.array([-1, 0])},
        13,
        [("Unsqueeze", {"axes": (0, 5)})],
    ),
    "repeated": (
        [node("Tile", "x r", "y")],
        {"r": np.array([1, 2, 3, 1])},
        13,
        [("Tile", {"repeats": (1, 2, 3, 1)})],
    ),
    "expanded": (
        [node("Expand", "x s", "y")],
        {"s": np.array([4, 1])},
        13,
        [("Expand", {"shape": (2, 3, 4, 5)})],
    ),
    "parted evenly": (
        [node("Split", "x", "a b c", axis=1), node("Add", "c a", "y")],
        {},
        13,
        [("Split", {"axis": 1, "split": (1, 1, 1)}), ("Add", {})],
    ),
    "parted by an axis from the end": (
        [node("Split", "x s", "a y", axis=-1)],
        {"s": np.array([2, 3])},
        13,
        [("Split", {"axis": 3, "split": (2, 3)})],
    ),
    "sliced without axes and steps": (
        [node("Slice", "x s e", "y")],
        {"s": np.array([-1, 1]), "e": np.array([9, -1])},
        13,
        [("Slice", {"axes": (0, 1), "ends": (2, 2), "starts": (1, 1), "steps": (1, 1)})],
    ),
    "sliced backwards to the first element": (
        [node("Slice", "x s e a t", "y")],
        {"s": np.array([9]), "e": np.array([-99]), "a": np.array([-1]), "t": np.array([-2])},
        13,
        [("Slice", {"axes": (3,), "ends": (-6,), "starts": (4,), "steps": (-2,)})],
    ),
    "sliced backwards to the second element": (
        [node("Slice", "x s e a t", "y")],
        {"s": np.array([3]), "e": np.array([0]), "a": np.array([3]), "t": np.array([-1])},
        13,
        [("Slice", {"axes": (3,), "ends": (0,), "starts": (3,), "steps": (-1,)})],
    ),
    "sliced backwards from the first element": (
        [node("Slice", "x s e a t", "y")],
        {"s": np.array([0]), "e": np.array([-6]), "a": np.array([3]), "t": np.array([-1])},
        13,
        [("Slice", {"axes": (3,), "ends": (-6,), "starts": (0,), "steps": (-1,)})],
    ),
    "a border of some axes": (
        [node("Pad", "x p v a", "y")],
        {"p": np.array([1, 2, 3, 4]), "v": np.float32(0.1), "a": np.array([-1, 1])},
        18,
        [("Pad", {"mode": "constant", "pads": (0, 2, 0, 1, 0, 4, 0, 3), "value": 0.1})],
    ),
    "a border without a number": (
        [node("Pad", "x p", "y", mode="edge")],
        {"p": np.array([0, 0, 2, 1, 1, 0, 0, 3])},
        13,
        [("Pad", {"mode": "edge", "pads": (0, 0, 2, 1, 1, 0, 0, 3), "value": 0.0})],
    ),
    "the extents of some axes": (
        [
            node("Shape", "x", "s", start=1, end=3),
            node("Cast", "s", "c", to=1),
            node("Reshape", "x t", "r"),
            node("Add", "r c", "y"),
        ],
        {"t": np.array([15, 2])},
        15,
        [("Reshape", {"shape": (15, 2)}), ("Add", {})],
    ),
    "the number of elements": (
        [node("Size", "x", "s"), node("Cast", "s", "c", to=1), node("Mul", "x c", "y")],
        {},
        13,
        [("Mul", {})],
    ),
    "a shape filled with whole numbers": (
        [
            node("ConstantOfShape", "s", "k", value=tensor(np.array([7]))),
            node("Cast", "k", "c", to=1),
            node("Mul", "x c", "y"),
        ],
        {"s": np.array([5])},
        13,
        [("Mul", {})],
    ),
    "a large shape filled with numbers": (
        [
            node("ConstantOfShape", "s", "k", value=tensor(np.float32([0.1]))),
            node("ReduceMax", "k", "m", keepdims=0),
            node("Mul", "x m", "y"),
        ],
        {"s": np.array([40, 40])},
        13,
        [
            ("ConstantOfShape", {"dtype": "float32", "shape": (40, 40), "value": 0.1}),
            ("ReduceMax", {"axes": (0, 1), "keepdims": 0}),
            ("Mul", {}),
        ],
    ),
    "a large shape filled with nothing": (
        [node("ConstantOfShape", "s", "k"), node("ReduceMax", "k", "m", keepdims=0), node("Add", "x m", "y")],
        {"s": np.array([40, 41])},
        13,
        [
            ("ConstantOfShape", {"dtype": "float32", "shape": (40, 41), "value": 0.0}),
            ("ReduceMax", {"axes": (0, 1), "keepdims": 0}),
            ("Add", {}),
        ],
    ),
    "elements taken along an axis from the end": (
        [node("Gather", "x i", "y", axis=-1)],
        {"i": np.array([[4, 0], [-1, 2]])},
        13,
        [("Gather", {"axis": 3})],
    ),
    "a sum of all": ([node("ReduceSum", "x", "y")], {}, 13, [SUMMED]),
    "a sum of none, if so asked": (
        [node("ReduceSum", "x", "y", noop_with_empty_axes=1)],
        {},
        13,
        [("Identity", {})],
    ),
    "a maximum of two axes": (
        [node("ReduceMax", "x a", "y", keepdims=0)],
        {"a": np.array([-1, 1])},
        18,
        [("ReduceMax", {"axes": (1, 3), "keepdims": 0})],
    ),
    "the first of the least": (
        [node("ArgMin", "x", "i", axis=-1, keepdims=0), node("Cast", "i", "y", to=1)],
        {},
        11,
        [("ArgMin", {"axis": 3, "keepdims": 0, "select_last_index": 0}), ("Cast", {"to": "float32"})],
    ),
    "the last of the greatest": (
        [node("ArgMax", "x", "i", axis=1, select_last_index=1), node("Cast", "i", "y", to=1)],
        {},
        12,
        [("ArgMax", {"axis": 1, "keepdims": 1, "select_last_index": 1}), ("Cast", {"to": "float32"})],
    ),
    "bounds of whole numbers": (
        [
            node("Cast", "x", "i", to=TensorProto.INT32),
            node("Clip", "i l", "c"),
            node("Cast", "c", "y", to=1),
        ],
        {"l": np.int32(-1)},
        13,
        [("Cast", {"to": "int32"}), ("Clip", {"max": (1 << 31) - 1, "min": -1}), ("Cast", {"to": "float32"})],
    ),
    "an upper bound alone": (
        [node("Clip", "x - h", "y")],
        {"h": np.float32(0.3)},
        13,
        [("Clip", {"max": 0.3, "min": -3.4028235e38})],
    ),
    "softmax of one of the last dimensions": (
        [node("Softmax", "x", "y", axis=-1)],
        {},
        11,
        [("Softmax", {"axis": 3})],
    ),
    "softmax from an axis on, before version 13": (
        [node("LogSoftmax", "x", "y", axis=1)],
        {},
        11,
        [("Flatten", {"axis": 1}), ("LogSoftmax", {"axis": 1}), ("Reshape", {"shape": (2, 3, 1, 5)})],
    ),
    "softmax of an axis, from version 13 on": (
        [node("Softmax", "x", "y", axis=1)],
        {},
        13,
        [("Softmax", {"axis": 1})],
    ),
    "normalisation from an axis on": (
        [node("LayerNormalization", "x s", "y", axis=-2, epsilon=0.01)],
        {"s": np.float32([[1, 2, 3, 4, 5]])},
        17,
        [("LayerNormalization", {"axis": 2, "epsilon": 0.01})],
    ),
    "normalisation by the root mean square from an axis on": (
        [node("RMSNormalization", "x s", "y", axis=-2, epsilon=0.01)],
        {"s": np.float32([[1, 2, 3, 4, 5]])},
        23,
        [("RMSNormalization", {"axis": 2, "epsilon": 0.01})],
    ),
    "resized by scales": (
        [node("Resize", "x - s", "y", **RESIZED)],
        {"s": np.float32([1, 1, 3, 2])},
        13,
        [("Resize", {**RESIZED, "scales": (1.0, 1.0, 3.0, 2.0), "sizes": (2, 3, 3, 10)})],
    ),
    "resized to sizes": (
        [node("Resize", "x - - s", "y", **HALF_PIXEL)],
        {"s": np.array([2, 3, 2, 8])},
        13,
        [("Resize", {**HALF_PIXEL, "scales": (1.0, 1.0, 2.0, 1.6), "sizes": (2, 3, 2, 8)})],
    ),
    "resized along some axes, in another order": (
        [node("Resize", "x - s", "y", axes=[3, -2], **RESIZED)],
        {"s": np.float32([2, 3])},
        18,
        [("Resize", {**RESIZED, "scales": (1.0, 1.0, 3.0, 2.0), "sizes": (2, 3, 3, 10)})],
    ),
    "resized before there were modes": (
        [node("Resize", "x s", "y")],
        {"s": np.float32([1, 1, 2, 3])},
        10,
        [("Resize", {**RESIZED, "scales": (1.0, 1.0, 2.0, 3.0), "sizes": (2, 3, 2, 15)})],
    ),
    "upsampled": (
        [node("Upsample", "x s", "y")],
        {"s": np.float32([1, 1, 2, 3])},
        9,
        [("Resize", {**RESIZED, "scales": (1.0, 1.0, 2.0, 3.0), "sizes": (2, 3, 2, 15)})],
    ),
}


@pytest.mark.parametrize("title", FORMS)
def test_explicit_parameters_compute_the_same(title):
    nodes, constants, opset, expected = FORMS[title]
    for place, node_proto in enumerate(nodes):
        node_proto.name = f"n{place}"
    assert attributes_agreed(nodes, X, constants, opset) == expected


def test_blocks_become_channels_in_the_order_of_old_versions():
    x = {"x": np.random.default_rng(1).normal(size=(1, 2, 4, 6)).astype(np.float32)}
    attributes = attributes_agreed([node("SpaceToDepth", "x", "y", blocksize=2)], x, {}, 13)
    assert attributes == [("SpaceToDepth", {"blocksize": 2, "mode": "DCR"})]


# Nodes of a model of x[2, 3, 1, 5], constants, the operator set, and what is said against it.
REFUSED = {
    "attribute mode = 'mirror' is not supported; it may be 'constant' or 'reflect' or 'edge' or 'wrap'": (
        node("Pad", "x p", "y", mode="mirror"),
        13,
    ),
    "axes (1, -3) name a dimension twice": (node("ReduceSum", "x twice", "y"), 13),
    "noop_with_empty_axes without axes is not supported": (
        node("ReduceL2", "x", "y", noop_with_empty_axes=1),
        18,
    ),
    "training_mode is true; export the network for inference": (node("Dropout", "x r yes", "y"), 13),
    "attribute stash_type = 11 is not supported; it may be 1": (
        node("LayerNormalization", "x s", "y", stash_type=11),
        17,
    ),
    "attribute nearest_mode = 'up' is not supported; it may be ": (
        node("Resize", "x - s4", "y", nearest_mode="up"),
        13,
    ),
    "attribute coordinate_transformation_mode = 'middle' is not supported; it may be ": (
        node("Resize", "x - s4", "y", coordinate_transformation_mode="middle"),
        13,
    ),
    "attribute axis = 2147483648 is beyond any tensor": (node("Concat", "x x", "y", axis=1 << 31), 13),
    "attribute axis = -2147483648 is beyond any tensor": (node("Concat", "x x", "y", axis=-(1 << 31)), 13),
    "attribute blocksize = 0 must be positive": (node("DepthToSpace", "x", "y", blocksize=0), 13),
    "its input 0 (X) is missing": (node("Pow", "- x", "y"), 13),
    "it has 1 inputs; Pow takes 2 to 2": (node("Pow", "x", "y"), 13),
}
CONSTANTS = {
    "p": np.array([0] * 8),
    "twice": np.array([1, -3]),
    "r": np.float32(0.5),
    "yes": np.array(True),
    "s": np.ones(5, np.float32),
    "s4": np.ones(4, np.float32),
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_nodes_are_refused(message, without_onnxruntime):
    node_proto, opset = REFUSED[message]
    with pytest.raises(GraphError, match=re.escape(message)):
        load(model([node_proto], {"x": [2, 3, 1, 5]}, ["y"], CONSTANTS, opset))
