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
    "Int8AveragePool": (
        [i8(1, 2, 5, 6), words(1)],
        {"border": -5, **{name: POOL[name] for name in ("kernel_shape", "pads", "strides")}},
    ),
    "Int8Conv": ([i8(1, 4, 6, 9), i8(1, 4, 3, 2), words(6)], SLIDE | {"border": 3, "group": 1}),
    "Int8ConvTranspose": ([i8(2, 4, 5, 3), i8(4, 3, 2, 4), words(3)], SPREAD | {"zero": 7}),
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
    "Int8Scale": ([i8(2, 3, 4), i8(3), words(3)], {"axis": 1}),
    "Int8Softmax": ([i8(2, 3, 40), np.ones(256, np.uint16), np.int16(1), np.int32(0)], {"axis": 1}),
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
    result_bytes = sum(values.nbytes for values in evaluate(op, inputs, attributes))
    assert 0 < result_bytes <= room(op, inputs, attributes)


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
    "Int8AveragePool": WIDE * 2 * 7 * 8,
    "Int8Conv": WIDE * 4 * (7 * 5) * (3 * 2),
    "Int8ConvTranspose": WIDE * 2 * 3 * (5 * 3) * (4 * 2),
    "Int8Lookup": WIDE // 2 * 2 * (2 * 3 * 400),
    "Int8MatMul": WIDE * (2 * 3 * 1) * 4 * 9,
    "Int8MaxPool": WIDE * 2 * 7 * 8,
    "Int8Products": WIDE * 2 * 3 * 5,
    "Int8Scale": WIDE * 2 * 3 * 4,
    "Int8Softmax": WIDE * (2 * 3 * 40),
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


def f64(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float64)


PLAIN = {
    "dilations": (1, 1),
    "pads": (3, 1, 0, 2),
    "strides": (1, 1),
    "group": 1,
}  # 6 x 9 pixels become 9 x 12
WIDE_STEPS = PLAIN | {"strides": (3, 4)}  # of which a window of a pixel has 3 x 3 places
AXIS = {"axis": 1}
PARTS = CASES["Int8Products"][1]
OUT_OF_STEP = {"output_padding": (1, 2), "pads": (0, 0, 0, 0), "strides": (7, 5)}
LARGEST = {
    "Conv, the padded image": ("Conv", [f32(2, 4, 6, 9), f32(3, 4, 1, 1)], WIDE_STEPS, 2 * 4 * (9 * 12)),
    "Conv, the windows": ("Conv", [f32(2, 4, 6, 9), f32(3, 4, 3, 3)], PLAIN, 2 * 4 * (7 * 10) * 9),
    "Conv, the result": ("Conv", [f32(2, 4, 6, 9), f32(30, 4, 1, 1)], PLAIN, 2 * 30 * (9 * 12)),
    "Conv of one channel without a bias": ("Conv", [f32(2, 1, 6, 9), f32(1, 1, 1, 1), None], PLAIN, 2 * 108),
    "Conv of one channel and a long bias": ("Conv", [f32(2, 1, 6, 9), f32(1, 1, 1, 1), f32(50)], PLAIN, 2 * 50 * 108),
    "Conv of two channels and a long bias": ("Conv", [f32(2, 1, 6, 9), f32(2, 1, 1, 1), f32(50)], PLAIN, 2 * 2 * 108),
    "AveragePool without what ceil adds": ("AveragePool", [f32(3, 2, 5, 6)], POOL | {"ceil_mode": 0}, 3 * 2 * (7 * 8)),
    "ConvTranspose, the windows": ("ConvTranspose", [f32(2, 4, 5, 3), f32(4, 3, 2, 4)], SPREAD, 2 * 3 * (5 * 3) * (2 * 4)),
    "ConvTranspose, the result": ("ConvTranspose", [f32(2, 4, 5, 3), f32(4, 3, 2, 4)], OUT_OF_STEP, 2 * 3 * ((4 * 7 + 2 + 1) * (2 * 5 + 4 + 2))),
    "a product, the first matrix": ("MatMul", [f32(5, 100), f32(100, 1)], {}, 500),
    "a product, the second matrix": ("MatMul", [f32(1, 100), f32(100, 5)], {}, 500),
    "a product, the result": ("MatMul", [f32(7, 2), f32(2, 5)], {}, 35),
    "a product of a column and a number": ("MatMul", [f32(3, 1), f32(1, 1)], {}, 3),
    "a product of a row": ("MatMul", [f32(4), f32(6, 4, 5)], {}, 6 * 4 * 5),
    "a product of stacks with a row": ("MatMul", [f32(20, 2, 3), f32(3)], {}, 20 * 2 * 3),
    "a product of a row with many columns": ("MatMul", [f32(1), f32(1, 9)], {}, 9),
    "a product of stacks": ("MatMul", [f32(5, 1, 7, 1), f32(4, 1, 6)], {}, 5 * 4 * 7 * 6),
    "Gemm": ("Gemm", [f32(7, 2), f32(2, 5), f32(5)], {}, 35),
    "Gemm, the first turned": ("Gemm", [f32(2, 7), f32(2, 5), f32(5)], {"transA": 1}, 35),
    "Gemm, the second turned": ("Gemm", [f32(7, 2), f32(5, 2), f32(5)], {"transB": 1}, 35),
    "Gemm of one row and a tall addend": ("Gemm", [f32(1, 2), f32(2, 5), f32(9, 1)], {}, 5 * 9),
    "Gemm of one column and a wide addend": ("Gemm", [f32(7, 2), f32(2, 1), f32(9)], {}, 7 * 9),
    "Gemm of two columns and a wide addend": ("Gemm", [f32(7, 2), f32(2, 2), f32(99)], {}, 7 * 2),
    "parts of products, the whole": ("Int8Products", [], PARTS | {"shape": (2, 3, 6), "size": (3, 5, 2)}, 36),
    "parts of products, a result": ("Int8Products", [], PARTS | {"shape": (2, 2), "size": (6, 5, 2)}, 30),
    "parts of products, a first operand": ("Int8Products", [], PARTS | {"shape": (2, 2), "size": (5, 2, 7)}, 35),
    "parts of products, a second operand": ("Int8Products", [], PARTS | {"shape": (2, 2), "size": (2, 5, 7)}, 35),
    "Pad that cuts": ("Pad", [f32(3, 4)], {"pads": (-1, 2, -1, -3)}, 3 * 4),
    "Pad on both sides": ("Pad", [f32(3, 4)], {"pads": (1, 2, 5, 7)}, 9 * 13),
    "Gather of nothing": ("Gather", [f64(3, 0), np.zeros(5, np.int64)], AXIS, 0),
    "Gather of the only column": ("Gather", [f64(3, 1), np.zeros(5, np.int64)], AXIS, 5 * 3),
    "Range that counts down": ("Range", [np.array(0), np.array(-10), np.array(-3)], {}, 4),
    "Range that is empty": ("Range", [np.array(10), np.array(0), np.array(3)], {}, 0),
    "Resize to less": ("Resize", [f32(2, 9)], {"sizes": (3, 4)}, 3 * 9),
    "QuantizeLinear by long scales": ("QuantizeLinear", [f32(3, 1, 2), f32(5), f32(1)], AXIS, 6 * 5),
    "QuantizeLinear by long zeros": ("QuantizeLinear", [f32(3, 1, 2), f32(1), f32(5)], AXIS, 6 * 5),
    "DequantizeLinear by long scales": ("DequantizeLinear", [f32(3, 1, 2), f32(5), f32(1)], AXIS, 6 * 5),
    "DequantizeLinear by long zeros": ("DequantizeLinear", [f32(3, 1, 2), f32(1), f32(5)], AXIS, 6 * 5),
    "Int8Scale by long factors": ("Int8Scale", [i8(3, 1, 2), i8(50), words(1)], AXIS, 6 * 50),
    "Int8Scale by long parameters": ("Int8Scale", [i8(3, 1, 2), i8(1), words(5)], AXIS, 6 * 4 * 5),
    "a part without one of its inputs": ("OnnxRuntime", [f32(3), None, f32(4)], {}, 7),
    "DequantizeLinear of channels": ("DequantizeLinear", [f32(1, 2, 1), f32(2), f32(2)], AXIS, 2),
    "DequantizeLinear without zeros": ("DequantizeLinear", [f32(3, 1, 2), f32(5)], AXIS, 6 * 5),
    "DequantizeLinear of a number": ("DequantizeLinear", [f32(), f32(5), None], {"axis": 0}, 5),
    "DequantizeLinear without vectors": ("DequantizeLinear", [f32(3, 1), None, None], AXIS, 3),
    "BatchNormalization of channels": ("BatchNormalization", [f32(1, 3, 1), *[f32(3)] * 4], {}, 3),
    **{
        f"BatchNormalization, a long vector {place}": ("BatchNormalization", [f32(2, 1, 3), *(f32(7 if place == other else 1) for other in range(1, 5))], {}, 6 * 7)
        for place in range(1, 5)
    },
    "InstanceNormalization, a long scale": ("InstanceNormalization", [f32(2, 1, 3), f32(7), f32(1)], {}, 6 * 7),
    "InstanceNormalization, a long bias": ("InstanceNormalization", [f32(2, 1, 3), f32(1), f32(7)], {}, 6 * 7),
    "a sum, the common shape": ("Add", [f32(3, 1), f32(1, 5)], {}, 15),
    "a sum, its inputs": ("Add", [f32(3), f32(3)], {}, 6),
    "inputs that have no common shape": ("Concat", [f32(3), f32(4)], {}, 7),
    "an input that is left out": ("Clip", [f32(3), None, f32(1)], {}, 4),
}  # fmt: skip
"""The elements of the largest array, of what its extents say, wherever that is."""


@pytest.mark.parametrize("title", LARGEST)
def test_whichever_array_is_the_largest_is_counted(title):
    op, inputs, attributes, elements = LARGEST[title]
    item = max((x.itemsize for x in inputs if x is not None), default=WIDE)
    assert room(op, inputs, attributes) == item * elements


def test_convolutions_of_integers_have_their_weights_at_their_own_places():
    scale, zero = np.float32(1), np.int8(0)
    operands = [i8(2, 4, 6, 9), scale, zero, i8(30, 4, 1, 1), scale, zero, scale, zero]
    assert room("QLinearConv", [np.asarray(x) for x in operands], PLAIN) == FLOAT * 2 * 30 * 108
    operands = [i8(7, 2), scale, zero, i8(2, 5), scale, zero, scale, zero]
    assert room("QLinearMatMul", [np.asarray(x) for x in operands], {}) == FLOAT * 7 * 5
    assert room("ConvInteger", [i8(2, 4, 6, 9), i8(30, 4, 1, 1)], PLAIN) == WIDE * 2 * 30 * 108


@pytest.mark.parametrize(
    ("dtypes", "item"),
    [
        (("float32", "float32"), 4),
        (("float32", "float64"), 8),
        (("float16", "int8"), 2),
        (("int8", "float32"), 4),
        (("int8", "int8"), 8),
        (("bool", "int16"), 8),
    ],
)
def test_floats_are_counted_as_wide_as_they_are_and_integers_as_the_widest(dtypes, item):
    assert room("Add", [np.ones(3, dtype) for dtype in dtypes], {}) == item * 6


def test_an_input_that_must_be_there_is_missed_by_its_place():
    for inputs, place in (([None, f32(2, 2)], 0), ([f32(2, 2), None], 1)):
        with pytest.raises(ValueError, match=f"^input {place} is left out$"):
            room("MatMul", inputs, {})
