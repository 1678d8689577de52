"""Plans whose parts contradict each other are refused, naming the step or the stream."""

import re
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from tests.compiler.network.compiled import handmade
from vdla.runtime.module.check import _check_crossing, _check_stream, check
from vdla.runtime.module.plan import HostStep, ModuleError
from vdla.runtime.stream.builder import UOP_TENSOR

PLAN = handmade("with the host between")[1]
LAUNCH, HOST, LAST = PLAN.steps
STREAM = LAUNCH.stream
TENSOR, WEIGHT = next(iter(PLAN.tensors)), next(iter(PLAN.weights))


def host(**changes) -> dict:
    return {"steps": (LAUNCH, structs.replace(HOST, **changes), LAST)}


def launch(**changes) -> dict:
    return {"steps": (structs.replace(LAUNCH, **changes), HOST, LAST)}


def crossing(kind: str, **changes) -> dict:
    first, *rest = getattr(LAUNCH, kind)
    return launch(**{kind: (structs.replace(first, **changes), *rest)})


def stream(**changes) -> dict:
    return {"streams": {**PLAN.streams, STREAM: replace(PLAN.streams[STREAM], **changes)}}


COUNT = PLAN.streams[STREAM].count
SIZE = LAUNCH.packs[0].layout.size
BROKEN = {
    "an unknown value on the host": (host(inputs=("no",)), f"{HOST.op} {HOST.name} reads 'no', which is not there"),
    "a value of a later step": (host(inputs=(next(iter(PLAN.outputs)),)), "which is not there"),
    "another attribute": (host(attributes={**HOST.attributes, "more": 1}), "has attributes"),
    "an unknown stream": (launch(stream="no"), "a step runs stream 'no', which is not there"),
    "an unknown label": (
        launch(layers=(structs.replace(LAUNCH.layers[0], label="no"),)),
        f"{STREAM} has a layer 'no', which is not there",
    ),
    "an unknown value of a launch": (crossing("packs", value="no"), f"{STREAM} takes in 'no', which is not there"),
    "an unknown tensor": (crossing("packs", tensor="no"), "stands in tensor 'no', which is not there"),
    "a weight for a tensor": (crossing("unpacks", tensor=WEIGHT), f"stands in tensor {WEIGHT!r}, which is not there"),
    "an unknown output": ({"outputs": {"no": next(iter(PLAN.outputs.values()))}}, "the network gives out 'no'"),
    "no bytes": ({"tensors": {**PLAN.tensors, TENSOR: 0}}, f"tensor {TENSOR} has 0 bytes"),
    "a small tensor": (
        {"tensors": {**PLAN.tensors, LAUNCH.packs[0].tensor: SIZE - 1}},
        f"takes {SIZE} bytes, and tensor {LAUNCH.packs[0].tensor} has {SIZE - 1}",
    ),
    "a name twice": ({"weights": {**PLAN.weights, TENSOR: np.zeros(9)}}, f"{TENSOR!r} is the name of two tensors"),
    "the name of the micro-ops": (
        {"tensors": {**PLAN.tensors, UOP_TENSOR: 9}},
        f"{UOP_TENSOR!r} is the name of two tensors",
    ),
    "an unknown tensor of a stream": (
        stream(tensors={**PLAN.streams[STREAM].tensors, "no": np.zeros(1, int)}),
        f"stream {STREAM} has tensor 'no', which is not there",
    ),
    **{
        title: (stream(labels={"l": np.array(positions)}), f"has {COUNT} instructions, and those of l lie outside it")
        for title, positions in {
            "a position behind all": [0, COUNT],
            "a position before all": [-1],
            "positions of two dimensions": [[0]],
            "positions that are no integers": [0.0],
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("title", BROKEN)
def test_a_contradiction_is_refused_with_what_to_do(title):
    changes, message = BROKEN[title]
    with pytest.raises(ModuleError, match=rf"{re.escape(message)}.*; compile the network again$"):
        check(replace(PLAN, **changes))


def test_what_compilers_write_passes():
    check(PLAN)
    optional = HostStep("o", "Conv", (HOST.inputs[0], HOST.inputs[0], ""), ("p",), {"dilations": (1,), "group": 1, "pads": (0,), "strides": (1,)})  # fmt: skip
    check(replace(PLAN, steps=(*PLAN.steps, optional)))
    check(replace(PLAN, tensors={**PLAN.tensors, "small": 1}))
    last = replace(PLAN.streams[STREAM], labels={"l": np.array([0, COUNT - 1])})
    _check_stream("s", replace(last, tensors={}), set())


@pytest.mark.parametrize(
    ("shape", "batch", "stack", "is_right"),
    [
        ((2, 3, 5, 4), 1, 6, True),
        ((2, 3, 5, 4), 1, 30, True),
        ((2, 3, 5, 4), 1, 4, False),
        ((2, 3, 5, 4), 2, 6, False),
        ((2, 3, 5, 4), 2, 0, True),
    ],
)
def test_a_stack_is_of_whole_matrices_of_single_rows(shape, batch, stack, is_right):
    layout = structs.replace(LAUNCH.packs[0].layout, shape=shape, batch=batch, stack=stack)
    one = structs.replace(LAUNCH.packs[0], layout=layout)
    plan = replace(PLAN, tensors={one.tensor: 1 << 20})
    if is_right:
        _check_crossing(plan, one)
        return
    with pytest.raises(ModuleError) as caught:
        _check_crossing(plan, one)
    assert str(caught.value) == (
        f"{one.value} of shape {shape} is {stack} matrices of {batch} rows at once; compile the network again"
    )
