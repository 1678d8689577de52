"""The parts of a plan: records that stay as they are, bounds of their numbers, inputs for timing runs."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from tests.compiler.network.compiled import handmade
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import PAGE_BYTES
from vdla.runtime.layout import Layout
from vdla.runtime.module import file
from vdla.runtime.module.plan import HostStep, Layer, OutputNoise, Record, Value, random_inputs
from vdla.runtime.windows import Windows


def records(kind: type) -> set[type]:
    return {kind}.union(*(records(other) for other in kind.__subclasses__()))


KINDS = sorted({*records(Record), Layout, Windows}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_records_cannot_be_changed_and_take_no_other_fields(kind):
    assert file.Manifest in KINDS
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.forbid_unknown_fields


def is_taken(value: object, kind: type) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


STEP = {"on": "host", "name": "a", "op": "b", "inputs": [], "outputs": []}
LAYER = {"name": "a", "op": "b", "label": "", "macs": 0, "bytes_read": 0, "bytes_written": 0, "bytes_once": 0}


@pytest.mark.parametrize(
    ("kind", "values", "good", "bad"),
    [
        (HostStep, STEP, {"macs": (1 << 62) - 1}, {"macs": 1 << 62}),
        (HostStep, STEP, {"macs": 0}, {"macs": -1}),
        (HostStep, STEP, {"name": "x" * 4096}, {"name": "x" * 4097}),
        (HostStep, STEP, {"name": "a b"}, {"name": "a\nb"}),
        (HostStep, STEP, {"name": "\u00a0"}, {"name": "\x9f"}),
        (HostStep, STEP, {"attributes": {"a": -(1 << 63)}}, {"attributes": {"a": -(1 << 63) - 1}}),
        (HostStep, STEP, {"attributes": {"a": (1 << 63) - 1}}, {"attributes": {"a": [1 << 63]}}),
        (Layer, LAYER, {"bytes_read": 0}, {"bytes_read": -1}),
        (Layer, LAYER, {"bytes_once": 0}, {"bytes_once": -1}),
        (Value, {"dtype": "int8", "shape": []}, {"shape": [-1, (1 << 31) - 1]}, {"shape": [-2]}),
        (Value, {"dtype": "int8", "shape": []}, {"shape": [1] * 16}, {"shape": [1] * 17}),
        (Value, {"dtype": "int8", "shape": []}, {"shape": [0]}, {"shape": [1 << 31]}),
        (OutputNoise, {"output": "y", "decibels": None}, {"decibels": 400}, {"decibels": 400.1}),
        (OutputNoise, {"output": "y", "decibels": None}, {"decibels": -400}, {"decibels": -400.1}),
    ],
)  # fmt: skip
def test_numbers_and_names_have_bounds(kind, values, good, bad):
    assert is_taken(values | good, kind)
    assert not is_taken(values | bad, kind)


@pytest.mark.parametrize(("size", "taken"), [(0, False), (1, True), ((1 << 62) - 1, True), (1 << 62, False)])
def test_a_tensor_has_a_byte_or_more(size, taken):
    assert is_taken(size, file.TensorBytes) is taken


def test_a_step_without_further_figures_multiplies_nothing_and_tells_nothing():
    step = HostStep("a", "Relu", ("x",), ("y",))
    assert (step.attributes, step.reason, step.macs, step.uncounted) == ({}, "", 0, ())


@pytest.mark.parametrize(
    ("decibels", "constant", "lost"),
    [(9.99, False, True), (10.0, False, False), (None, False, False), (50.0, True, True), (None, True, True)],
)
def test_an_output_below_10_db_has_lost_its_meaning_as_the_pages_say(decibels, constant, lost):
    assert OutputNoise("y", decibels, constant).is_lost == lost


def test_outputs_vary_unless_told_otherwise():
    assert OutputNoise("y", 20.0) == OutputNoise("y", 20.0, False, "power")


def test_random_inputs_are_of_their_types_and_those_of_their_seed():
    inputs = {"x": Value((40, 50), "float32"), "n": Value((4000,), "int64"), "u": Value((2,), "uint8")}
    arrays = random_inputs(inputs)
    for name, value in inputs.items():
        assert (arrays[name].shape, str(arrays[name].dtype)) == (value.shape, value.dtype)
    assert (arrays["n"].min(), arrays["n"].max()) == (0, 99)
    assert abs(arrays["x"].mean()) < 0.1
    assert arrays["x"].std() == pytest.approx(1, abs=0.1)
    for seed, same in ((0, True), (1, False)):
        again = random_inputs(inputs, seed)
        assert all(np.array_equal(again[name], arrays[name]) for name in ("x", "n")) == same


def test_dram_holds_every_tensor_at_its_alignment_and_whole_pages():
    plan = replace(handmade("with the host between")[1], tensors={}, weights={}, streams={})
    assert plan.dram_bytes == PAGE_BYTES
    alignment = max(map(plan.config.element_bytes, MemoryType))
    page = PAGE_BYTES - alignment
    for sizes, pages in (((1,), 1), ((page,), 1), ((page + 1,), 2), ((page, page), 2), ((1, page + 1), 3)):
        tensors = {str(place): size for place, size in enumerate(sizes)}
        weights = {name: np.zeros(size, np.uint8) for name, size in tensors.items()}
        expected = (1 + pages) * PAGE_BYTES
        assert replace(plan, tensors=tensors).dram_bytes == expected
        assert replace(plan, weights=weights).dram_bytes == expected
    (stream, *_) = handmade("with the host between")[1].streams.values()
    for words, uops, pages in (
        (1, 1, 2),
        (PAGE_BYTES // 8, page // 4, 2),
        (PAGE_BYTES // 8 + 1, page // 4 + 1, 4),
    ):
        resized = replace(stream, words=np.zeros(words, np.uint64), uops=np.zeros(uops, np.uint32))
        assert replace(plan, streams={"s": resized}).dram_bytes == (1 + pages) * PAGE_BYTES


def test_steps_are_told_apart_by_where_they_run():
    _, plan = handmade("with the host between")
    first, middle, last = plan.steps
    assert (plan.launches, plan.host_steps) == ((first, last), (middle,))
