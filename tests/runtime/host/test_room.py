"""What an operator takes is known before it runs, is never less than what it makes, and has a limit."""

from math import prod

import numpy as np
import pytest
from onnx import TensorProto, helper

from vdla.hw.spec.limits import OPERATOR_BYTES
from vdla.runtime.host.evaluate import OPERATORS, OperatorError, check_types, evaluate
from vdla.runtime.host.room import ELEMENTS, room

RNG = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def i8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, np.int8)


def relu_model() -> np.ndarray:
    """Return a model of one Relu as bytes."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "part", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return np.frombuffer(model.SerializeToString(), np.uint8)


def words(channels: int) -> np.ndarray:
    return np.ones((4, channels), np.int64)


SCALE, ZERO = np.float32(0.5), np.int8(0)
SLIDE = {"dilations": (1, 2), "pads": (3, 1, 0, 2), "strides": (1, 2)}
SPREAD = {"output_padding": (1, 0), "pads": (1, 0, 0, 1), "strides": (3, 2)}
POOL = {"ceil_mode": 1, "dilations": (1, 1), "kernel_shape": (2, 3), "pads": (1, 1, 1, 1), "strides": (3, 2)}
CASES = {
    "AveragePool": ([f32(1, 2, 5, 6)], POOL | {"count_include_pad": 1}),
    "BatchNormalization": ([f32(2, 1, 3), *(np.abs(f32(7)) for _ in range(4))], {"epsilon": 1e-5}),
    "ConstantOfShape": ([], {"dtype": "int64", "shape": (3, 4, 5), "value": 1}),
    "Conv": ([f32(2, 4, 6, 9), f32(8, 2, 3, 2), f32(8)], SLIDE | {"group": 2}),
    "ConvInteger": ([i8(2, 4, 6, 9), i8(8, 4, 3, 2)], SLIDE | {"group": 1}),
    "ConvTranspose": ([f32(2, 4, 5, 3), f32(4, 3, 2, 4), f32(6)], SPREAD | {"dilations": (2, 1), "group": 2}),
    "DequantizeLinear": ([i8(3, 1, 2), np.abs(f32(5)), np.zeros(5, np.int8)], {"axis": 1}),
    "Expand": ([f32(3, 1)], {"shape": (4, 3, 7)}),
    "Gather": ([f32(3, 4), np.zeros((5, 6), np.int64)], {"axis": 1}),
    "Gemm": ([f32(4, 1), f32(5, 4), f32(5)], {"alpha": 1.0, "beta": 1.0, "transA": 1, "transB": 1}),
    "InstanceNormalization": ([f32(2, 3, 4), f32(3), f32(3)], {"epsilon": 1e-5}),
    "Int8Conv": ([i8(1, 4, 6, 9), i8(1, 4, 3, 2), words(6)], SLIDE | {"border": 3, "group": 1}),
    "Int8ConvTranspose": ([i8(2, 4, 5, 3), i8(4, 3, 2, 4), words(3)], SPREAD),
    "Int8Lookup": ([i8(2, 3, 400), f32(256)], {}),
    "Int8MatMul": ([i8(2, 3, 4), i8(4, 1), words(9)], {}),
    "Int8MaxPool": ([i8(1, 2, 5, 6)], {name: POOL[name] for name in ("kernel_shape", "pads", "strides")}),
    "Int8Products": (
        [i8(3, 4), i8(5, 4), words(1)],
        {
            "a_places": (0, 0, 0, 2),
            "b_places": (0, 0, 0, 2),
            "places": (0, 0, 3, 0),
            "shape": (2, 3, 5),
            "size": (3, 5, 2),
            "transposed": 1,
            "zeros": (1, -1),
        },
    ),
    "Int8Softmax": ([i8(2, 3, 40), SCALE, SCALE, ZERO], {"axis": 1}),
    "MatMul": ([f32(5, 1, 2, 3), f32(4, 3, 6)], {}),
    "MatMulInteger": ([i8(2, 3), i8(3, 4)], {}),
    "MaxPool": ([f32(1, 2, 5, 6)], POOL),
    "OnnxRuntime": ([relu_model(), f32(3, 4)], {}),
    "Pad": ([f32(3, 4)], {"mode": "constant", "pads": (5, -2, 0, 9), "value": 1.0}),
    "QLinearConv": (
        [i8(1, 2, 5, 5), SCALE, ZERO, i8(1, 2, 3, 3), np.abs(f32(4)), np.zeros(1, np.int8), SCALE, ZERO],
        {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)},
    ),
    "QLinearMatMul": ([i8(2, 3), SCALE, ZERO, i8(3, 4), SCALE, ZERO, SCALE, ZERO], {}),
    "QuantizeLinear": ([f32(3, 1, 2), np.abs(f32(5)), np.zeros(5, np.int8)], {"axis": 1}),
    "Range": ([np.array(0), np.array(10), np.array(3)], {}),
    "Resize": (
        [f32(1, 2, 3, 4)],
        {
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
            "scales": (1.0, 1.0, 2.0, 0.5),
            "sizes": (1, 2, 6, 2),
        },
    ),
    "Tile": ([f32(2, 3)], {"repeats": (4, 5)}),
    "Add": ([f32(3, 1), f32(1, 4)], {}),
    "Concat": ([f32(3, 2), f32(3, 2)], {"axis": 0}),
    "Erf": ([f32(100)], {}),
    "Where": ([np.ones((3, 1), bool), f32(1, 4), f32(1)], {}),
}


def test_there_is_a_case_for_each_operator_that_has_its_own_count():
    assert ELEMENTS.keys() <= CASES.keys()
    assert ELEMENTS.keys() <= OPERATORS.keys()


@pytest.mark.parametrize("op", CASES)
def test_an_operator_makes_no_more_than_was_said(op):
    inputs, attributes = CASES[op]
    inputs = [np.asarray(values) for values in inputs]
    made = sum(values.nbytes for values in evaluate(op, inputs, attributes))
    assert 0 < made <= room(op, inputs, attributes)


FLOAT, WIDE = 4, 8  # bytes of an element
EXACT = {
    "AveragePool": FLOAT
    * 2
    * (7 * 8 + (2 * (3 + 2)) * (2 * (2 + 3))),  # the padded image, and what ceil adds
    "BatchNormalization": FLOAT * (2 * 1 * 3) * 7,  # one channel against vectors of 7
    "ConstantOfShape": WIDE * 3 * 4 * 5,
    "Conv": FLOAT * 2 * 4 * (7 * 5) * (3 * 2),  # windows of images of 9 x 12 pixels
    "ConvInteger": WIDE * 2 * 4 * (7 * 5) * (3 * 2),
    "ConvTranspose": FLOAT * 2 * 6 * (((5 - 1) * 3 + 3 + 1) * ((3 - 1) * 2 + 4)),
    "DequantizeLinear": FLOAT * (3 * 2) * 5,
    "Expand": FLOAT * 4 * 3 * 7,
    "Gather": WIDE * (5 * 6) * 3,
    "Gemm": FLOAT * (1 * 5) * 5,
    "InstanceNormalization": FLOAT * 2 * 3 * 4,
    "Int8Conv": WIDE * 4 * (7 * 5) * (3 * 2),
    "Int8ConvTranspose": WIDE * 2 * 3 * (5 * 3) * (4 * 2),
    "Int8Lookup": WIDE // 2 * 2 * (2 * 3 * 400),
    "Int8MatMul": WIDE * (2 * 3 * 1) * 4 * 9,
    "Int8MaxPool": WIDE * 2 * 7 * 8,
    "Int8Products": WIDE * 2 * 3 * 5,
    "Int8Softmax": FLOAT * 2 * (2 * 3 * 40),
    "MatMul": FLOAT * (5 * 4) * 2 * 6,
    "MatMulInteger": WIDE * 3 * 4,
    "MaxPool": FLOAT * 2 * (7 * 8 + (2 * (3 + 2)) * (2 * (2 + 3))),
    "Pad": FLOAT * (3 + 5) * (4 + 9 - 2),
    "QLinearConv": FLOAT * 2 * (5 * 5) * (3 * 3),
    "QLinearMatMul": FLOAT * 3 * 4,
    "QuantizeLinear": FLOAT * (3 * 2) * 5,
    "Range": WIDE * 4,
    "Resize": FLOAT * 2 * 6 * 4,
    "Tile": FLOAT * (2 * 3) * (4 * 5),
    "Add": FLOAT * 3 * 4,
    "Concat": FLOAT * 2 * (3 * 2),
    "Erf": WIDE * 100,
    "Where": FLOAT * 3 * 4,
}
"""The largest array of each case, of what its extents say."""


@pytest.mark.parametrize("op", EXACT)
def test_no_more_is_said_than_the_largest_array_of_an_operator(op):
    inputs, attributes = CASES[op]
    assert room(op, [np.asarray(values) for values in inputs], attributes) == EXACT[op]


def test_a_lookup_has_room_for_the_positions_that_numpy_makes():
    x = i8(2, 3, 400)
    assert room("Int8Lookup", [x, f32(256)], {}) >= x.size * np.dtype(np.intp).itemsize


def test_the_error_function_makes_objects_of_all_but_float32():
    assert [room("Erf", [np.ones(100, dtype)], {}) for dtype in (np.float32, np.float64)] == [800, 6400]


HUGE = {
    "Add": ([np.zeros((1 << 20, 1), np.float32), np.zeros((1, 1 << 20), np.float32)], {}),
    "ConstantOfShape": ([], {"dtype": "int8", "shape": (1 << 40,), "value": 0}),
    "Conv": (
        [np.zeros((1, 64, 900, 900), np.float32), np.zeros((1, 64, 9, 9), np.float32)],
        {"dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1)},
    ),
    "ConvTranspose": (
        [f32(1, 1, 2, 2), f32(1, 1, 2, 2)],
        {
            "dilations": (1, 1),
            "group": 1,
            "output_padding": (0, 0),
            "pads": (0,) * 4,
            "strides": (1 << 20, 1 << 20),
        },
    ),
    "Expand": ([f32(1)], {"shape": (1 << 20, 1 << 20)}),
    "MatMul": ([np.zeros((1 << 20, 1), np.float32), np.zeros((1, 1 << 20), np.float32)], {}),
    "MaxPool": ([f32(1, 1, 2, 2)], POOL | {"pads": (1 << 20,) * 4}),
    "Pad": ([f32(2)], {"mode": "edge", "pads": (1 << 40, 0)}),
    "Range": ([np.array(0), np.array(1 << 60), np.array(1)], {}),
    "Resize": (
        [f32(1)],
        {
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
            "scales": (1e12,),
            "sizes": (10**12,),
        },
    ),
    "Tile": ([f32(1)], {"repeats": (1 << 40,)}),
}


@pytest.mark.parametrize("op", HUGE)
def test_what_takes_too_much_is_refused_before_it_is_made(op):
    inputs, attributes = HUGE[op]
    attributes = attributes | ({"value": 0.0} if op == "Pad" else {})
    with pytest.raises(
        OperatorError,
        match=rf"^{op}\(.*\) takes \d+ bytes, and the limit is {OPERATOR_BYTES}; VDLA_MEMORY_FACTOR=2",
    ):
        evaluate(op, inputs, attributes)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Relu", [None], {}),
        (
            "Resize",
            [f32(2)],
            {"coordinate_transformation_mode": "x", "nearest_mode": "floor", "scales": (2.0,), "sizes": (4,)},
        ),
        ("Gather", [f32(2), np.array([9])], {"axis": 0}),
        ("Range", [np.array(0), np.array(1), np.array(0)], {}),
        ("Transpose", [f32(2)], {"perm": (10**30,)}),
        ("Conv", [f32(1, 1, 3), None], {"dilations": (1,), "group": 1, "pads": (0, 0), "strides": (1,)}),
        ("MaxPool", [f32(1, 1, 3, 3)], POOL | {"strides": (0, 0)}),
        ("Pad", [f32(2)], {"mode": "edge", "pads": (1,), "value": 0.0}),
    ],
)
def test_whatever_does_not_go_together_is_one_kind_of_error(op, inputs, attributes):
    with pytest.raises(OperatorError, match=rf"^{op}\("):
        evaluate(op, inputs, attributes)


def test_every_operator_states_the_types_of_its_attributes():
    for op, (_, attributes) in CASES.items():
        check_types(op, attributes)
    with pytest.raises(
        OperatorError, match=r"^attribute axis = 1\.5 is not what Gather takes: Expected `int`, got `float`$"
    ):
        check_types("Gather", {"axis": 1.5})


def test_a_product_of_extents_is_exact():
    assert room("Tile", [f32(1)], {"repeats": (1 << 40, 1 << 40)}) == 4 * prod((1 << 40, 1 << 40))
