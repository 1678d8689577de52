"""Samples that fit a network: every form with one obvious meaning, and messages for all others."""

import re

import numpy as np
import pytest

from vdla.runtime.samples import InputError
from vdla.runtime.samples.declared import Declared, is_batch_name, static
from vdla.runtime.samples.elements import of_type
from vdla.runtime.samples.fit import Along, fit
from vdla.runtime.samples.given import given_of

RNG = np.random.default_rng(0)
STACK = RNG.normal(size=(4, 3, 5, 6)).astype(np.float32)
FIXED = {"x": static((1, 3, 5, 6), "float32")}
OPEN = {"x": Declared((None, 3, None, None), "float32", ("N", "", "h", "w"), is_batch=True)}
TWO = {"a": static((1, 3), "float32"), "b": static((), "int64")}


def samples_of(what, inputs, others=None):
    fitted = fit(given_of(what), inputs, others)
    return fitted.samples, fitted.along


FORMS = {
    "one array": (STACK[:1], 1, Along.ALONE),
    "an array without the batch": (STACK[0], 1, Along.ALONE),
    "samples in place of a batch": (STACK, 4, Along.BATCH),
    "samples along a new axis": (STACK[:, None], 4, Along.STACK),
    "a stack of a single sample": (STACK[:1, None], 1, Along.STACK),
    "a list of one array": ([STACK[:1]], 1, Along.BATCH),
    "a mapping": ({"x": STACK}, 4, Along.BATCH),
    "a list of arrays": ([array[None] for array in STACK], 4, Along.BATCH),
    "a list of arrays without the batch": (list(STACK), 4, Along.BATCH),
    "a list of mappings": ([{"x": array[None]} for array in STACK], 4, Along.BATCH),
    "batches of a loader": ([STACK[:3], STACK[3:]], 4, Along.BATCH),
    "an archive of numpy.savez": ({"arr_0": STACK}, 4, Along.BATCH),
}


@pytest.mark.parametrize("inputs", [FIXED, OPEN], ids=["fixed", "open"])
@pytest.mark.parametrize("title", FORMS)
def test_every_form_gives_the_same_samples(title, inputs):
    what, count, along = FORMS[title]
    samples, chosen_along = samples_of(what, inputs)
    assert chosen_along is along
    assert len(samples) == count
    for place, sample in enumerate(samples):
        np.testing.assert_array_equal(sample["x"], STACK[place : place + 1])


def test_shapes_come_from_the_samples():
    fitted = fit(given_of(STACK), OPEN)
    assert fitted.shapes == {"x": (1, 3, 5, 6)}
    fitted = fit(given_of(STACK.reshape(2, 2, 3, 5, 6)), OPEN)  # stacked, each a batch of 2
    assert (fitted.shapes, len(fitted.samples)) == ({"x": (2, 3, 5, 6)}, 2)


def test_a_batch_that_is_asked_for_takes_as_many_samples_together():
    batch = {"x": Declared((2, 3, 5, 6), "float32", (), is_batch=True)}
    samples, _ = samples_of(STACK, batch)
    np.testing.assert_array_equal(np.concatenate([sample["x"] for sample in samples]), STACK)
    assert {sample["x"].shape for sample in samples} == {(2, 3, 5, 6)}
    with pytest.raises(InputError, match="input x holds 3 samples, which is no multiple of the batch of 2"):
        samples_of(STACK[:3], batch)


TWO_FORMS = {
    "a mapping": {"a": np.ones((1, 3), np.float32), "b": 7},
    "arrays in the order of the inputs": [np.ones((1, 3), np.float32), np.array(7)],
    "a pair in a list": [(np.ones((1, 3), np.float32), 7)],
    "an archive of numpy.savez": {"arr_0": np.ones((1, 3), np.float32), "arr_1": np.array(7)},
}


@pytest.mark.parametrize("title", TWO_FORMS)
def test_several_inputs_are_told_by_name_or_place(title):
    ((sample,), _) = samples_of(TWO_FORMS[title], TWO)
    assert list(sample) == ["a", "b"]
    assert (sample["a"].tolist(), sample["b"].tolist()) == ([[1, 1, 1]], 7)


def test_a_list_of_pairs_has_a_sample_for_each():
    pairs = [(np.full((1, 3), place, np.float32), place) for place in (5, 7)]
    samples, _ = samples_of(pairs, TWO)
    assert [(sample["a"].tolist(), sample["b"].tolist()) for sample in samples] == [
        ([[5] * 3], 5),
        ([[7] * 3], 7),
    ]


def test_inputs_that_are_called_like_arrays_without_a_name_are_told_by_name():
    inputs = {"arr_1": TWO["a"], "arr_0": TWO["b"]}
    ((sample,), _) = samples_of({"arr_0": 7, "arr_1": np.ones((1, 3))}, inputs)
    assert (sample["arr_0"].tolist(), sample["arr_1"].tolist()) == (7, [[1, 1, 1]])


def test_a_number_is_a_row_of_one():
    ((sample,), along) = samples_of(7.0, {"x": static((1,), "float32")})
    assert (sample["x"].tolist(), along) == ([7], Along.ALONE)


def test_an_open_extent_may_be_1():
    ((sample,), _) = samples_of(STACK[:1, :, :1], OPEN)
    assert sample["x"].shape == (1, 3, 1, 6)


def test_an_array_of_one_sample_goes_with_all_samples_of_another_input():
    samples, along = samples_of({"a": np.arange(6.0).reshape(2, 3), "b": 7}, TWO)
    assert along is Along.BATCH
    assert [(sample["a"].tolist(), sample["b"].item()) for sample in samples] == [
        ([[0, 1, 2]], 7),
        ([[3, 4, 5]], 7),
    ]


def test_fixed_inputs_and_those_that_a_part_does_not_need_may_be_given():
    others = {"rate": 16000.0, "unused": None}
    samples, _ = samples_of({"x": STACK[:1], "rate": np.full(3, 16000), "unused": b"no array"}, FIXED, others)
    assert list(samples[0]) == ["x"]
    with pytest.raises(
        InputError, match=r"^input rate is fixed to 16000, and its array holds 8000; leave the"
    ):
        samples_of({"x": STACK[:1], "rate": np.array([16000, 8000])}, FIXED, others)


TYPES = [
    ("float32", np.array([0.1, 1e-300]), np.float32([0.1, 0])),
    ("float32", np.array([0, 255], np.uint8), np.float32([0, 255])),
    ("float32", np.array([True, False]), np.float32([1, 0])),
    ("float16", np.float32([0.1]), np.float16([0.1])),
    ("float32", np.array([np.inf, 1]), np.float32([np.inf, 1])),
    ("int64", np.float32([16000]), np.int64([16000])),
    ("uint8", np.int64([0, 255]), np.uint8([0, 255])),
    ("bool", np.int64([0, 1]), np.array([False, True])),
    ("int8", np.int64([-128, -2, -1, 0, 1]), np.int8([-128, -2, -1, 0, 1])),
]


@pytest.mark.parametrize(("dtype", "array", "expected"), TYPES)
def test_elements_become_the_input_s_type_where_that_holds_them(dtype, array, expected):
    ((sample,), _) = samples_of(array, {"x": static(array.shape, dtype)})
    assert sample["x"].dtype == expected.dtype
    np.testing.assert_array_equal(sample["x"], expected)


def test_an_array_of_the_input_s_type_is_not_copied():
    ((sample,), _) = samples_of(STACK[:1], FIXED)
    assert np.shares_memory(sample["x"], STACK)
    texts = np.array(["a"])
    assert of_type(texts, str(texts.dtype), "input x") is texts


LOST = [
    ("float32", np.int64([0, (1 << 24) + 1]), "int64 and holds 16777217, which float32 does not"),
    ("float32", np.array([1e300]), "float64 and holds 1e+300, which float32 does not"),
    ("int8", np.float32([1.5]), "float32 and holds 1.5, which int8 does not"),
    ("int64", np.float32([np.nan]), "float32 and holds nan, which int64 does not"),
    ("uint8", np.int64([-1]), "int64 and holds -1, which uint8 does not"),
    ("uint64", np.int64([-1]), "int64 and holds -1, which uint64 does not"),
    ("bool", np.int64([2]), "int64 and holds 2, which bool does not"),
    ("float32", np.array(["a"]), "<U1, not float32"),
    ("float32", np.array([1j]), "complex128, not float32"),
]


@pytest.mark.parametrize(("dtype", "array", "message"), LOST)
def test_elements_that_the_type_does_not_hold_are_refused(dtype, array, message):
    with pytest.raises(InputError, match=re.escape(f"input x is of {message}")):
        samples_of(array, {"x": static(array.shape, dtype)})


SEQUENCE = {"x": Declared((None, 1, 80), "float32", ("seq_len", "", ""))}
STATE = {
    "x": Declared((None, 5), "float32", ("batch", ""), is_batch=True),
    "state": Declared((2, None, 3), "float32", ("", "batch", "")),
}
SQUARE = {"x": Declared((None, None, None), "float32", ("batch", "n", "n"), is_batch=True)}
RANKLESS = {"x": Declared(None, "float32")}
REFUSED = {
    "another shape": (
        np.zeros((1, 3, 5, 7)),
        FIXED,
        "input x is float32[1, 3, 5, 7], not float32[1, 3, 5, 6], nor a",
    ),
    "channels last": (
        np.zeros((2, 5, 6, 3)),
        FIXED,
        "nor a stack of such arrays; its channels stand elsewhere: numpy.moveaxis(array, -1, 1) moves them",
    ),
    "an open shape": (
        np.zeros((2, 4, 5, 7)),
        OPEN,
        "input x is float32[2, 4, 5, 7], not float32[N, 3, h, w], nor a",
    ),
    "a stack of another shape": (
        np.zeros((2, 1, 3, 5, 7)),
        FIXED,
        "input x is float32[2, 1, 3, 5, 7], not float32[1, 3, 5, 6], nor a stack of such arrays",
    ),
    "channels first": (
        np.zeros((2, 3, 5, 6)),
        {"x": static((1, 5, 6, 3), "float32")},
        "nor a stack of such arrays; its channels stand elsewhere: numpy.moveaxis(array, 1, -1) moves them",
    ),
    "channels of a sequence last": (
        np.zeros((1, 80, 20)),
        {"x": static((1, 20, 80), "float32")},
        "nor a stack of such arrays; its channels stand elsewhere: numpy.moveaxis(array, -1, 1) moves them",
    ),
    "an open extent of 0": (
        np.zeros((1, 3, 0, 6)),
        OPEN,
        "input x is float32[1, 3, 0, 6], not float32[N, 3, h, w]",
    ),
    "more rows than there are": (
        np.zeros((4, 3)),
        {"x": static((2, 3), "float32")},
        "input x is float32[4, 3], not float32[2, 3], nor a stack",
    ),
    "one sample for a batch of two": (
        np.zeros((3, 5, 6)),
        {"x": static((2, 3, 5, 6), "float32")},
        "input x is float32[3, 5, 6], not float32[2, 3, 5, 6], nor a stack",
    ),
    "a matrix for a number": (
        np.zeros((3, 4)),
        {"x": static((), "float32")},
        "input x is float32[3, 4], not float32[], nor a stack",
    ),
    "a list of one wrong array": ([np.zeros(2)], FIXED, "sample 0: input x is float32[2], not "),
    "a name for no inputs": ({"z": STACK}, {}, "the network takes no inputs; it was given z"),
    "an array for no inputs": (STACK, {}, "the network takes no inputs; it was given 1 array without a name"),
    "two axes too many": (np.zeros((1, 1, 1, 3, 5, 6)), FIXED, "nor a stack of such arrays"),
    "no samples": (
        np.zeros((0, 3, 5, 6)),
        FIXED,
        "arrays have x: 0 samples; give each input the same number",
    ),
    "different numbers": (
        {"a": np.zeros((2, 3)), "b": np.zeros(3)},
        TWO,
        "arrays have a: 2, b: 3 samples; give each input the same number, at least 1, along the first dimension",
    ),
    "another name": ({"z": STACK}, FIXED, "the network takes x: float32[1, 3, 5, 6]; it was given z"),
    "nothing": ({}, FIXED, "the network takes x: float32[1, 3, 5, 6]; it was given nothing"),
    "one array for two inputs": (
        STACK,
        TWO,
        "takes a: float32[1, 3], b: int64[]; it was given 1 array without a name",
    ),
    "two lengths": (
        [np.zeros((1, 3, 5, size)) for size in (6, 7)],
        OPEN,
        "samples of input x have the shapes [1, 3, 5, 6] and [1, 3, 5, 7]; a module has one shape: ",
    ),
    "other lengths": (
        [np.zeros((1, 3, 5, size)) for size in (6, 7, 8)],
        OPEN,
        "samples of input x have the shapes [1, 3, 5, 6] and [1, 3, 5, 7]; a module has one shape: cut or pad them, or "
        "give --shape x=1,3,5,6",
    ),
    "a sequence or samples": (
        np.zeros((50, 1, 80)),
        SEQUENCE,
        "input x is float32[50, 1, 80], and the file leaves its first extent open (float32[seq_len, 1, 80]): give "
        "--shape x=50,1,80 if the array holds a single sample, or --shape x=1,1,80 if it holds 50",
    ),
    "a batch in one of two inputs": (
        {"x": np.zeros((4, 5)), "state": np.zeros((2, 4, 3))},
        STATE,
        "the extent batch is 1 in input x and 4 in input state; pass samples of one extent, or give --shape x=1,5 and "
        "--shape state=2,4,3 if both are meant",
    ),
    "several batches of a fixed number": (
        np.zeros((6, 3)),
        {"x": static((2, 3), "float32")},
        "input x is float32[6, 3], not float32[2, 3], nor a stack of such arrays; numpy.reshape(array, (3, 2, 3)) is 3 "
        "of them",
    ),
    "a number for a fixed batch": (
        3.0,
        {"x": static((2, 3), "float32")},
        "input x is float32[], not float32[2, 3], nor a stack of such arrays",
    ),
    "two sizes of an extent of one input": (
        np.zeros((1, 5, 6)),
        SQUARE,
        "the extent n is 5 and 6 in input x; pass samples of one extent, or give --shape x=1,5,6 if both are meant",
    ),
    "no rank": (
        np.zeros((4, 3)),
        RANKLESS,
        "and the file leaves open how many axes it has: give --shape x=4,3 if the array holds a single sample, "
        "or --shape x=3 if it is a stack",
    ),
}


@pytest.mark.parametrize("title", REFUSED)
def test_what_does_not_fit_or_may_mean_two_things_is_refused_with_advice(title):
    what, inputs, message = REFUSED[title]
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        samples_of(what, inputs)
    assert "\n" not in str(caught.value)


def test_a_sequence_of_one_step_or_a_stack_is_not_ambiguous():
    for array in (np.zeros((1, 1, 80)), np.zeros((4, 1, 1, 80))):
        samples, _ = samples_of(array, SEQUENCE)
        assert samples[0]["x"].shape == (1, 1, 80)


BATCHES = [
    ("N", ""),
    ("batch_size", "seq"),
    ("", "h"),
    ("unk__12", ""),
    ("input_dynamic_axes_1", ""),
    ("bs", ""),
]
OTHERS = [("seq_len", ""), ("T", ""), ("time", "batch"), ("rows", ""), ("k", "k"), ("x", "batch")]


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [*((*names, True) for names in BATCHES), *((*names, False) for names in OTHERS)],
)
def test_names_of_extents_tell_batches_from_lengths(name, other, expected):
    assert is_batch_name(name, ("", other)) is expected


def test_messages_name_the_sample_or_the_file(tmp_path):
    with pytest.raises(InputError, match=r"^sample 1: input x is float32\[2\], not"):
        samples_of([STACK[:1], np.zeros(2)], FIXED)
    np.savez(tmp_path / "s.npz", y=STACK)
    with pytest.raises(InputError, match=rf"^{tmp_path}/s.npz: the network takes x: .*; it was given y$"):
        samples_of(tmp_path / "s.npz", FIXED)


def test_a_network_without_inputs_takes_an_empty_mapping():
    assert samples_of({}, {}) == (({},), Along.ALONE)
