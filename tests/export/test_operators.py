"""Operators in C give what the kit's operators give: integers exactly, floats within units in the last place."""

import numpy as np
import pytest

from tests.export.programs import outcome
from vdla.export.c_text import ExportError
from vdla.export.operators import FORMS, OF_THE_GREATEST, ULP, VIEWS, call_of
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.normalisation import softmax_powers
from vdla.runtime.module.plan import HostStep, Value
from vdla.runtime.requantise import parameter_words

RNG = np.random.default_rng(7)
FLOATS = RNG.normal(scale=40, size=(3, 5, 4)).astype(np.float32)
HALVES = (np.arange(-200, 200) / 2).astype(np.float32).reshape(2, 200)
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 2.5, 3.5, -2.5], np.float32)
BYTES = RNG.integers(-128, 128, (3, 5, 4)).astype(np.int8)
TABLE = RNG.permutation(256).astype(np.uint8).view(np.int8)
ROWS = RNG.normal(size=(6, 64)).astype(np.float32)
ROW_BYTES = RNG.integers(-128, 128, (6, 64)).astype(np.int8)
WIDE = RNG.normal(scale=6, size=(4, 1000)).astype(np.float32)


def scalar(value: float, dtype: type = np.float32) -> np.ndarray:
    """Return an array without dimensions."""
    return np.array(value, dtype)


def words(count: int, seed: int = 0) -> np.ndarray:
    """Return int64[4, count]: parameters of requantisation."""
    rng = np.random.default_rng(seed)
    bias, multiplier = rng.integers(-9999, 9999, count), rng.integers(0, 1 << 16, count)
    shift, zero = rng.integers(8, 26, count), rng.integers(-128, 128, count)
    return parameter_words(bias, multiplier, shift, zero, np.full(count, -100), np.full(count, 120))


def normals(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return factors and addends of a layer normalisation."""
    factors = RNG.integers(-(2**15), 2**15, count).astype(np.int16)
    return factors, RNG.integers(-(2**24), 2**24, count).astype(np.int32)


def vector(*values: float, dtype: type = np.float32) -> np.ndarray:
    """Return an array of one dimension."""
    return np.array(values, dtype)


CHANNEL_SCALES = vector(0.5, 0.25, 1.5, 3.0, 0.1)
CHANNEL_ZEROS = vector(0, -3, 7, 127, -128, dtype=np.int8)
S, Z = scalar(0.5), scalar(0, np.int8)
NORMS = RNG.normal(size=64).astype(np.float32), RNG.normal(size=64).astype(np.float32)
POWERS = np.rint(65535 * softmax_powers(np.float32(0.05))).astype(np.uint16)
IMAGE = RNG.normal(size=(2, 6, 7, 5)).astype(np.float32)
KERNELS = RNG.normal(size=(4, 6, 3, 2)).astype(np.float32)
PLAIN: dict[str, object] = {"dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1)}
CASES: dict[str, tuple[str, tuple[np.ndarray | None, ...], dict[str, object]]] = {
    "quantise": ("QuantizeLinear", (FLOATS, S, scalar(3, np.int8)), {"axis": 0}),
    "quantise halves": ("QuantizeLinear", (HALVES, scalar(1), Z), {"axis": 0}),
    "quantise odd floats": ("QuantizeLinear", (ODD, scalar(0.7), Z), {"axis": 0}),
    "quantise to uint8": ("QuantizeLinear", (HALVES, S, scalar(128, np.uint8)), {"axis": 0}),
    "quantise odd floats to uint8": ("QuantizeLinear", (ODD, scalar(0.7), scalar(9, np.uint8)), {"axis": 0}),
    "quantise channels": ("QuantizeLinear", (FLOATS, CHANNEL_SCALES, CHANNEL_ZEROS), {"axis": 1}),
    "quantise a number": ("QuantizeLinear", (scalar(1.2), S, Z), {"axis": 0}),
    "dequantise": ("DequantizeLinear", (BYTES, scalar(0.3), scalar(-5, np.int8)), {"axis": 0}),
    "dequantise uint8": (
        "DequantizeLinear",
        (BYTES.view(np.uint8), scalar(0.3), scalar(200, np.uint8)),
        {"axis": 0},
    ),
    "dequantise int32": (
        "DequantizeLinear",
        (vector(-(2**31), 2**31 - 1, 16777217, dtype=np.int32), scalar(0.3), scalar(0, np.int32)),
        {"axis": 0},
    ),
    "dequantise channels": ("DequantizeLinear", (BYTES, CHANNEL_SCALES, CHANNEL_ZEROS), {"axis": -2}),
    "softmax": ("Softmax", (WIDE,), {"axis": 1}),
    "softmax of columns": ("Softmax", (FLOATS / 8,), {"axis": 1}),
    "dequantised softmax": ("DequantizedSoftmax", (BYTES, softmax_powers(np.float32(0.05))), {"axis": -1}),
    "int8 softmax": (
        "Int8Softmax",
        (ROW_BYTES, POWERS, scalar(1024, np.int16), scalar(-(1 << 25) + (1 << 17), np.int32)),
        {"axis": 1},
    ),
    "int8 softmax of columns": (
        "Int8Softmax",
        (BYTES, POWERS, scalar(-32768, np.int16), scalar(2**31 - 1, np.int32)),
        {"axis": 0},
    ),
    "int8 softmax without powers": (
        "Int8Softmax",
        (BYTES, np.zeros(256, np.uint16), scalar(99, np.int16), scalar(1 << 20, np.int32)),
        {"axis": -1},
    ),
    "layer normalisation": ("LayerNormalization", (ROWS, *NORMS), {"axis": 1, "epsilon": 1e-5}),
    "layer normalisation without bias": (
        "LayerNormalization",
        (FLOATS, vector(1, 2, 3, 4)),
        {"axis": -1, "epsilon": 1e-5},
    ),
    "normalisation by the root mean square": (
        "RMSNormalization",
        (ROWS, NORMS[0]),
        {"axis": 1, "epsilon": 1e-5},
    ),
    "normalisation of rows and columns": (
        "RMSNormalization",
        (FLOATS, FLOATS[0] / 8),
        {"axis": -2, "epsilon": 0.5},
    ),
    **{
        f"int8 layer normalisation of {title}": (
            "Int8LayerNormalization",
            (x, *normals(x.shape[-1])),
            {"centred": centred, "epsilon": epsilon},
        )
        for title, x, centred, epsilon in (
            ("rows", ROW_BYTES, 1, 1),
            ("long rows", RNG.integers(-128, 128, (3, 4999)).astype(np.int8), 1, 2**32 - 1),
            ("equal values", np.full((2, 5), -128, np.int8), 1, 0),
            ("nearly equal values", RNG.integers(-128, -126, (50, 7)).astype(np.int8), 1, 3),
            ("single values", BYTES.reshape(-1, 1), 1, 100),
            ("the root mean square", BYTES, 0, 7),
        )
    },
    "convolution": ("Conv", (IMAGE, KERNELS, vector(1, -2, 3, 0.5)), PLAIN),
    "convolution with strides": (
        "Conv",
        (IMAGE, KERNELS),
        PLAIN | {"strides": (2, 1), "dilations": (1, 2), "pads": (1, 2, 0, 1)},
    ),
    "convolution in groups": ("Conv", (IMAGE, KERNELS[:, :3].copy()), PLAIN | {"group": 2}),
    "greatest": ("ArgMax", (FLOATS,), {"axis": 1, "keepdims": 1, "select_last_index": 0}),
    "last of equals": (
        "ArgMax",
        (np.round(FLOATS / 40),),
        {"axis": 1, "keepdims": 0, "select_last_index": 1},
    ),
    "least of bytes": ("ArgMin", (BYTES // 40,), {"axis": -1, "keepdims": 0, "select_last_index": 0}),
    "last least": ("ArgMin", (BYTES // 40,), {"axis": 0, "keepdims": 0, "select_last_index": 1}),
    "sum": ("Add", (FLOATS, FLOATS[::-1].copy()), {}),
    "sum with a row": ("Add", (FLOATS, vector(1, 2, 3, 4)), {}),
    "broadcast difference": ("Sub", (FLOATS[:, :1], FLOATS[0]), {}),
    "product with a number": ("Mul", (FLOATS, scalar(0.3)), {}),
    "quotient": ("Div", (FLOATS, FLOATS[:1, :, :1]), {}),
    "greater": ("Max", (FLOATS, scalar(1)), {}),
    "less": ("Min", (ODD, scalar(1)), {}),
    "clip": ("Clip", (ODD,), {"min": -1.5, "max": 6.0}),
    "clip with bounds that cross": ("Clip", (FLOATS,), {"min": 3.0, "max": -3.0}),
    "relu": ("Relu", (ODD,), {}),
    "transpose": ("Transpose", (FLOATS,), {"perm": (2, 0, 1)}),
    "transpose bytes": ("Transpose", (BYTES,), {"perm": (1, 0, 2)}),
    "expand": ("Expand", (FLOATS[:, :1],), {"shape": (2, 3, 5, 4)}),
    "slice": (
        "Slice",
        (FLOATS,),
        {"axes": (0, 1), "starts": (-1, 1), "ends": (-100, 4), "steps": (-1, 2)},
    ),
    "concat": ("Concat", (FLOATS, FLOATS[:, :2].copy(), FLOATS[:, 1:].copy()), {"axis": 1}),
    "split": ("Split", (BYTES,), {"axis": 1, "split": (1, 3, 1)}),
    "gather": ("Gather", (FLOATS, vector(2, -1, 0, dtype=np.int64)), {"axis": 1}),
    "gather one": ("Gather", (BYTES, scalar(-2, np.int64)), {"axis": 1}),
    "look up": ("Int8Lookup", (BYTES, TABLE), {}),
    "look up floats": ("Int8Lookup", (BYTES, RNG.normal(size=256).astype(np.float32)), {}),
    "flip sign": ("FlipSign", (BYTES,), {}),
    "flip sign back": ("FlipSign", (BYTES.view(np.uint8),), {}),
    "requantise": ("Int8Requantise", (BYTES, words(1)), {}),
    "product of matrices": ("Int8MatMul", (BYTES, TABLE[:28].reshape(4, 7), words(7)), {}),
    "product with alike columns": ("Int8MatMul", (BYTES, TABLE[:28].reshape(4, 7), words(1, 3)), {}),
    "product with int16": (
        "Int8MatMul",
        (BYTES, RNG.integers(-255, 256, (4, 7)).astype(np.int16), words(7, 1)),
        {},
    ),
}


def step_of(title: str) -> tuple[HostStep, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the step of a case, its inputs and the kit's results."""
    op, given, attributes = CASES[title]
    inputs = {f"in{place}": x for place, x in enumerate(given) if x is not None}
    names = tuple(f"in{place}" if x is not None else "" for place, x in enumerate(given))
    results = evaluate(op, given, attributes)
    if op == "LayerNormalization":
        results = results[:1]
    outputs = {f"out{place}": x for place, x in enumerate(results)}
    return HostStep(title, op, names, tuple(outputs), attributes), inputs, outputs


def statements(title: str) -> str:
    """Return the C statements of a case, whose operands have the names of its values."""
    step, inputs, outputs = step_of(title)
    arrays = inputs | outputs
    types = {name: Value(x.shape, str(x.dtype)) for name, x in arrays.items()}
    return "\n".join(call_of(step, types, {name: name for name in arrays}))


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    """Return what C computes of each case."""
    cases = [(*step_of(title)[1:], statements(title)) for title in CASES]
    arrays = outcome(tmp_path_factory.mktemp("c"), cases, "vdla_integers", "vdla_operators")
    return dict(zip(CASES, arrays, strict=True))


@pytest.mark.parametrize("title", CASES)
def test_an_operator_gives_what_the_kit_gives(results, title):
    step, _, outputs = step_of(title)
    for name, expected in outputs.items():
        actual = results[title][name]
        if step.op in ULP:
            greatest = np.abs(expected).max() if step.op in OF_THE_GREATEST else np.abs(expected)
            assert (np.abs(actual - expected) <= ULP[step.op] * np.spacing(greatest)).all()
        else:
            np.testing.assert_array_equal(actual, expected)


def test_every_operator_has_a_case():
    assert {op for op, _, _ in CASES.values()} == set(FORMS)
    assert not set(FORMS) & set(VIEWS)


REFUSED = {
    "its scale is float64": ("QuantizeLinear", (HALVES, scalar(1, np.float64), Z), {"axis": 0}),
    "int16 zero point": ("QuantizeLinear", (HALVES, scalar(1), scalar(0, np.int16)), {"axis": 0}),
    "sum of integers": ("Add", (BYTES, BYTES), {}),
    "three inputs": ("Max", (FLOATS, FLOATS, FLOATS), {}),
    "stack of matrices": ("Int8MatMul", (BYTES, np.zeros((3, 4, 2), np.int8), words(2)), {}),
    "convolution of rows": (
        "Conv",
        (IMAGE[0], np.ones((4, 7, 2), np.float32)),
        {"dilations": (1,), "group": 1, "pads": (0, 0), "strides": (1,)},
    ),
    "no elements": ("Relu", (FLOATS[:0],), {}),
}


@pytest.mark.parametrize("title", REFUSED)
def test_a_variant_without_a_c_form_is_refused_by_name(title):
    op, given, attributes = REFUSED[title]
    names = tuple(f"in{place}" for place in range(len(given)))
    types = {name: Value(x.shape, str(x.dtype)) for name, x in zip(names, given, strict=True)}
    results = evaluate(op, given, attributes)
    types["out"] = Value(results[0].shape, str(results[0].dtype))
    step = HostStep("the_layer", op, names, ("out",), attributes)
    with pytest.raises(
        ExportError, match=rf"^{op} the_layer on the host has no C form: .*; cut the network "
    ):
        call_of(step, types, {name: name for name in types})
