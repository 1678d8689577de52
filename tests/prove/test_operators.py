"""Every operator over elements: what is equal in the proof is equal on the host, for any bytes."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.prove.assignments import COUNT, Assignments
from vdla.prove import operators
from vdla.prove.domain import Domain
from vdla.prove.functions import BYTES
from vdla.prove.operators import OPERATORS
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.int8 import OPERATORS as HOST
from vdla.runtime.host.int8_normalisation import OPERATORS as HOST_ROWS
from vdla.runtime.requantise import parameter_words

WINDOW = {"pads": (1, 0, 1, 2), "strides": (1, 2)}


def words(rng, channels=1):
    least = int(rng.choice((-128, 0)))
    return parameter_words(
        rng.integers(-300, 300, channels),
        rng.integers(1, 300, channels),
        rng.integers(8, 13, channels),
        5,
        least,
    )


def weights(rng, *shape, dtype=np.int8):
    return (rng.integers(-9, 10, shape) * rng.integers(0, 2, shape)).astype(dtype)


def conv(rng, group=1, channels=2, outputs=4, kernel=(3, 2), dtype=np.int8):
    w = weights(rng, outputs, channels // group, *kernel, dtype=dtype)
    attributes = {**WINDOW, "border": -3, "dilations": (1, 2), "group": group}
    return (w, words(rng, outputs)), attributes


def softmax(rng, axis):
    powers = np.sort(rng.integers(0, 1 << 16, 256))[::-1].astype(np.uint16)
    powers[0] = 65534
    return (powers, np.int16(rng.integers(200, 1024)), np.int32(rng.integers(1 << 18))), {"axis": axis}


def normalisation(rng, channels=4, centred=1):
    factors = rng.integers(-9000, 9000, channels).astype(np.int16)
    addends = rng.integers(-(1 << 22), 1 << 22, channels).astype(np.int32)
    return (factors, addends), {"centred": centred, "epsilon": int(rng.integers(99))}


# Shapes of the inputs that are elements, and a function that returns the constants and the attributes.
CASES: dict[str, tuple[str, list[tuple[int, ...]], Callable]] = {
    "conv": ("Int8Conv", [(2, 2, 4, 7)], conv),
    "wide weights": ("Int8Conv", [(1, 2, 4, 7)], lambda rng: conv(rng, dtype=np.int16)),
    "depthwise": ("Int8Conv", [(1, 4, 4, 7)], lambda rng: conv(rng, group=4, channels=4)),
    "twice the channels": ("Int8Conv", [(1, 2, 4, 7)], lambda rng: conv(rng, group=2)),
    "groups": ("Int8Conv", [(1, 4, 4, 7)], lambda rng: conv(rng, group=2, channels=4)),
    "copied channels": (
        "Int8Conv",
        [(1, 3, 2, 3)],
        lambda rng: (
            (np.tile(np.eye(3, dtype=np.int8), (2, 1))[..., None, None], words(rng)),
            {"border": 0, "dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1)},
        ),
    ),
    "transposed": (
        "Int8ConvTranspose",
        [(1, 3, 2, 3)],
        lambda rng: (
            (weights(rng, 3, 4, 3, 2), words(rng, 4)),
            {"output_padding": (1, 0), "pads": (1, 0, 0, 1), "strides": (2, 1), "zero": -7},
        ),
    ),
    "transposed and cut": (
        "Int8ConvTranspose",
        [(1, 1, 3, 3)],
        lambda rng: (
            (weights(rng, 1, 4, 2, 2), words(rng, 4)),
            {"output_padding": (0, 0), "pads": (2, 0, 0, 2), "strides": (2, 2), "zero": 9},
        ),
    ),
    "convolved volumes": (
        "Int8Conv",
        [(2, 4, 4, 3, 4)],
        lambda rng: (
            (weights(rng, 6, 2, 2, 3, 2), words(rng, 6)),
            {
                "border": -3,
                "dilations": (2, 1, 1),
                "group": 2,
                "pads": (1, 0, 1, 2, 1, 0),
                "strides": (1, 2, 1),
            },
        ),
    ),
    "transposed volumes": (
        "Int8ConvTranspose",
        [(1, 2, 2, 2, 3)],
        lambda rng: (
            (weights(rng, 2, 3, 2, 3, 1), words(rng, 3)),
            {"output_padding": (1, 0, 0), "pads": (0, 1, 0, 1, 0, 0), "strides": (2, 1, 2), "zero": -7},
        ),
    ),
    "averaged volumes": (
        "Int8AveragePool",
        [(1, 2, 3, 4, 2)],
        lambda rng: (
            (words(rng),),
            {"border": 9, "kernel_shape": (2, 3, 1), "pads": (1, 0, 0, 0, 1, 0), "strides": (2, 1, 1)},
        ),
    ),
    "greatest of volumes": (
        "Int8MaxPool",
        [(2, 2, 3, 4, 4)],
        lambda rng: ((), {"kernel_shape": (2, 2, 3), "pads": (1, 0, 1, 0, 0, 0), "strides": (2, 1, 1)}),
    ),
    "matmul": ("Int8MatMul", [(2, 3, 5)], lambda rng: ((weights(rng, 5, 6), words(rng, 6)), {})),
    "scale": (
        "Int8Scale",
        [(1, 3, 2, 2)],
        lambda rng: ((weights(rng, 3), words(rng, 3)), {"axis": 1}),
    ),
    "average": (
        "Int8AveragePool",
        [(1, 2, 4, 4)],
        lambda rng: ((words(rng),), {"border": 3, "kernel_shape": (2, 3), **WINDOW}),
    ),
    "add": ("Int8Add", [(2, 3), (2, 3)], lambda rng: ((words(rng),), {"factors": (77, -5)})),
    "multiply": ("Int8Mul", [(2, 3), (2, 3)], lambda rng: ((words(rng),), {"zeros": (4, -128)})),
    "requantise": ("Int8Requantise", [(2, 3)], lambda rng: ((words(rng),), {})),
    "max": ("Int8MaxPool", [(1, 2, 4, 4)], lambda rng: ((), {"kernel_shape": (2, 3), **WINDOW})),
    "lookup": ("Int8Lookup", [(2, 3)], lambda rng: ((rng.integers(-128, 128, 256).astype(np.int8),), {})),
    "flip": ("FlipSign", [(2, 3)], lambda rng: ((), {})),
    "softmax of rows": ("Int8Softmax", [(3, 4)], lambda rng: softmax(rng, 1)),
    "softmax of columns": ("Int8Softmax", [(2, 3, 4)], lambda rng: softmax(rng, 1)),
    "normalised rows": ("Int8LayerNormalization", [(3, 4)], normalisation),
    "rows by their root mean square": (
        "Int8LayerNormalization",
        [(2, 2, 3)],
        lambda rng: normalisation(rng, 3, 0),
    ),
    "products": (
        "Int8Products",
        [(4, 6), (3, 6)],
        lambda rng: (
            (words(rng),),
            {
                "a_places": (0, 0, 2, 3),
                "b_places": (0, 0, 0, 3),
                "places": (0, 0, 2, 0),
                "shape": (1, 4, 3),
                "size": (2, 3, 3),
                "transposed": 1,
                "zeros": (3, -1),
            },
        ),
    ),
    "products of tables": (
        "Int8Products",
        [(2, 3), (3, 4)],
        lambda rng: (
            (words(rng), *rng.integers(-128, 128, (2, 256)).astype(np.int8)),
            {
                "a_places": (0, 0),
                "b_places": (0, 0),
                "places": (0, 0),
                "shape": (2, 4),
                "size": (2, 4, 3),
                "transposed": 0,
                "zeros": (0, 0),
            },
        ),
    ),
}


def host(op, inputs, constants, attributes):
    """Return the host's results int8[COUNT, ...] for inputs int8[COUNT, ...]."""
    return np.stack(
        [evaluate(op, [*(each[run] for each in inputs), *constants], attributes)[0] for run in range(COUNT)]
    )


@pytest.mark.parametrize("name", CASES)
def test_equal_elements_are_equal_on_the_host(name):
    op, shapes, make = CASES[name]
    assignments = Assignments(rng=np.random.default_rng(len(name)))
    for run in range(3):
        constants, attributes = make(assignments.rng)
        kinds = (assignments.mixed, assignments.unknown, assignments.mixed)
        pairs = [kinds[(run + place) % 3]("xy"[place], shape) for place, shape in enumerate(shapes)]
        elements = OPERATORS[op][0](
            assignments.domain, *(each for each, _ in pairs), *constants, **attributes
        )
        assignments.known.clear()  # the roots have got new bytes
        assignments.check(elements, _signed(host(op, [each for _, each in pairs], constants, attributes)))


def _signed(values):
    return values.view(np.int8)


OF_SEVERAL = ("Int8LayerNormalization", "Int8Products", "Int8Softmax")
"""Operators whose results are no functions of one byte in a proof."""


@pytest.mark.parametrize("name", CASES)
def test_functions_of_one_byte_are_known_exactly(name):
    """All inputs are functions of the same byte; so is the result, except of `OF_SEVERAL`."""
    op, shapes, make = CASES[name]
    rng = np.random.default_rng(len(name))
    assignments = Assignments(rng=rng)
    domain, (root,) = assignments.domain, assignments.domain.fresh("x", (1,))
    constants, attributes = make(rng)
    tables = [rng.integers(-128, 128, (*shape, 256)) for shape in shapes]
    elements = [
        domain.apply(
            np.full(shape, root),
            np.array([domain.functions.number(t) for t in table.reshape(-1, 256)], np.int32).reshape(shape),
        )
        for shape, table in zip(shapes, tables, strict=True)
    ]
    result = OPERATORS[op][0](domain, *elements, *constants, **attributes)
    if op in OF_SEVERAL:
        return
    for place in (0, 100, 255):
        (expected,) = evaluate(
            op, [*(table[..., place].astype(np.int8) for table in tables), *constants], attributes
        )
        np.testing.assert_array_equal(domain.functions.values[result["function"], place], _signed(expected))
    assert set(np.unique(result["kind"]).tolist()) <= {0, int(root["kind"])}


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("max", "flip")])
def test_every_constant_counts(name):
    op, shapes, make = CASES[name]
    rng = np.random.default_rng(len(name))
    domain = Assignments().domain
    elements = [domain.fresh("xy"[place], shape) for place, shape in enumerate(shapes)]
    constants, attributes = make(rng)
    before = OPERATORS[op][0](domain, *elements, *constants, **attributes)
    for place, constant in enumerate(constants):
        changed = np.array(constant)
        changed.reshape(-1)[0] += 1
        others = [*constants[:place], changed, *constants[place + 1 :]]
        after = OPERATORS[op][0](domain, *elements, *others, **attributes)
        assert (before != after).any()


@pytest.mark.parametrize("name", CASES)
def test_every_input_counts(name):
    """An input that is exchanged with another changes results, if it is read."""
    op, shapes, make = CASES[name]
    domain = Assignments().domain
    elements = [domain.fresh("xy"[place], shape) for place, shape in enumerate(shapes)]
    constants, attributes = make(np.random.default_rng(len(name)))
    before = OPERATORS[op][0](domain, *elements, *constants, **attributes)
    elements[0] = elements[0].copy()
    flat = elements[0].reshape(-1)
    flat[[0, -1]] = flat[[-1, 0]]
    after = OPERATORS[op][0](domain, *elements, *constants, **attributes)
    values = [np.arange(np.prod(shape)).reshape(shape).astype(np.int8) * 3 for shape in shapes]
    host_before = evaluate(op, [*values, *constants], attributes)[0]
    values[0] = values[0].copy()
    swapped = values[0].reshape(-1)
    swapped[[0, -1]] = swapped[[-1, 0]]
    host_after = evaluate(op, [*values, *constants], attributes)[0]
    assert (before != after)[host_before != host_after].all()


def test_channels_in_another_order_make_the_same():
    rng, domain = np.random.default_rng(1), Assignments().domain
    (w, parameters), attributes = conv(rng, channels=6, outputs=4)
    image, order = domain.fresh("x", (1, 6, 4, 7)), rng.permutation(6)
    direct = OPERATORS["Int8Conv"][0](domain, image, w, parameters, **attributes)
    other = OPERATORS["Int8Conv"][0](domain, image[:, order], w[:, order], parameters, **attributes)
    assert (direct == other).all()


def test_parts_of_eight_bits_make_the_same():
    """Weights of nine bits equal two parts of eight bits, whose operands are the same."""
    rng, domain = np.random.default_rng(1), Assignments().domain
    w = rng.integers(-255, 256, (5, 6)).astype(np.int16)
    first = np.clip(w, -128, 127)
    x, parameters = domain.fresh("x", (2, 5)), words(rng, 6)
    whole = OPERATORS["Int8MatMul"][0](domain, x, w, parameters)
    parts = np.concatenate((first, w - first)).astype(np.int8)
    split = OPERATORS["Int8MatMul"][0](domain, np.concatenate((x, x), 1), parts, parameters)
    assert (whole == split).all()


def test_all_integer_operators_of_the_host_are_known():
    assert OPERATORS.keys() == {*HOST, *HOST_ROWS}
    assert {op for op, *_ in CASES.values()} == OPERATORS.keys()


def test_float_tables_hold_bits():
    domain = Assignments().domain
    table = (BYTES / 7).astype(np.float32)
    (element,) = OPERATORS["Int8Lookup"][0](domain, domain.fresh("x", (1,)), table)
    bits = domain.functions.values[element["function"]].astype(np.int32)
    np.testing.assert_array_equal(bits.view(np.float32), table)


def test_sums_of_tensors_in_pieces_are_those_of_the_whole(monkeypatch):
    domain = Domain(1)
    a, b = domain.fresh("a", (2, 3, 5)), domain.fresh("b", (3, 1))
    add, parameters = OPERATORS["Int8Add"][0], words(np.random.default_rng(4))
    whole = add(domain, a, b, parameters, factors=(3, 5))
    monkeypatch.setattr(operators, "MOST_ADDED", 4)
    assert (add(domain, a, b, parameters, factors=(3, 5)) == whole).all()


@pytest.mark.parametrize("name", ["softmax of rows", "normalised rows"])
def test_rows_of_constants_are_numbers(name):
    op, (shape,), make = CASES[name]
    domain, values = Domain(1), np.array([[3, -9, 127, 3], [0, 0, 0, 0]], np.int8)
    constants, attributes = make(np.random.default_rng(1))
    x = np.concatenate((domain.constants(values), domain.fresh("x", shape)))
    result = OPERATORS[op][0](domain, x, *constants, **attributes)
    (expected,) = evaluate(op, [values, *constants], attributes)
    assert (result[:2] == domain.constants(expected)).all()
    assert (result[2:]["kind"] != 0).all()
