"""Plans whose parts contradict each other, or go beyond limits, are refused, naming the step or the stream."""

import random
import re
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from msgspec import structs

from tests.compiler.network.compiled import handmade
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.host.dtypes import UNKNOWN
from vdla.runtime.layout import Layout
from vdla.runtime.module.check import _check_crossing, _check_stream, check, check_contents, check_value
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, ModuleError, Plan, Value
from vdla.runtime.stream.builder import UOP_TENSOR
from vdla.runtime.windows import Windows

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
    "a value that begins late": (
        crossing("unpacks", begin=1 << 20),
        f"has {PLAN.tensors[LAUNCH.unpacks[0].tensor] - (1 << 20)} from byte {1 << 20} on",
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
        title: (stream(labels={"l": np.array(positions)}), f"has {COUNT} instructions, and l has positions outside it")
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
    pack = structs.replace(LAUNCH.packs[0], layout=layout)
    plan = replace(PLAN, tensors={pack.tensor: 1 << 20})
    if is_right:
        _check_crossing(plan, pack)
        return
    with pytest.raises(ModuleError) as caught:
        _check_crossing(plan, pack)
    assert str(caught.value) == (
        f"{pack.value} of shape {shape} is {stack} matrices of {batch} rows at once; compile the network again"
    )


def plan_with(packs: tuple[Layout, ...], unpacks: tuple[Layout, ...] = ()) -> Plan:
    """Return a plan of one launch whose tensors have these layouts."""
    _, plan = handmade("gathered")
    step = next(step for step in plan.steps if isinstance(step, LaunchStep))
    crossings = [
        tuple(Crossing(value="x", tensor="t", layout=layout) for layout in layouts)
        for layouts in (packs, unpacks)
    ]
    changed = msgspec.structs.replace(step, packs=crossings[0], unpacks=crossings[1])
    return replace(plan, steps=(changed,))


def is_accepted(layout: Layout) -> bool:
    try:
        check_contents(plan_with((layout,)))
    except ModuleError:
        return False
    return True


def can_be_packed(layout: Layout) -> bool:
    """Whether packing makes as many bytes as the layout says, and some."""
    try:
        packed = layout.pack(np.zeros(layout.shape, np.int8))
    except ValueError:
        return False
    return packed.size == layout.size > 0


def random_windows(rng: random.Random) -> Layout:
    windows = Windows(
        lines=rng.randrange(1, 4),
        rows=rng.randrange(1, 4),
        advance=rng.randrange(1, 4),
        column=rng.randrange(1, 9),
        columns=rng.randrange(1, 4),
        step=rng.randrange(1, 4),
        pads=(rng.randrange(3), rng.randrange(3)),
        pitch=rng.choice((0, 0, rng.randrange(1, 13))),
        elements=rng.choice((1, 1, 2)),
    )
    shape = (rng.randrange(1, 3), 2, rng.randrange(1, 5), rng.randrange(1, 5))
    return Layout(shape=shape, block=4, batch=rng.choice((1, 1, 2)), windows=windows)


def test_windows_are_accepted_where_lines_hold_them():
    rng = random.Random(0)
    layouts = [random_windows(rng) for _ in range(600)]
    accepted = [is_accepted(layout) for layout in layouts]
    for layout, given in zip(layouts, accepted, strict=True):
        windows = layout.windows
        ends = (windows.columns - 1) * windows.step + layout.block
        holds = ends <= windows.pitch and windows.elements == layout.batch == 1
        assert given == (can_be_packed(layout) and (not windows.pitch or holds)), layout
    assert 50 < sum(accepted) < 550


IMAGE = (1, 2, 4, 4)
WINDOWS = Windows(lines=4, rows=1, advance=1, column=2, columns=2, step=2, pads=(0, 0), pitch=8)
LARGEST = (1 << 31) - 1


def in_windows(shape: tuple[int, ...] = IMAGE, batch: int = 1, **changes: int) -> Layout:
    return Layout(shape=shape, block=4, batch=batch, windows=msgspec.structs.replace(WINDOWS, **changes))


HOLD = r"lines of x, \[1, 2, 4, 4\], do not hold .*"
REFUSED = {
    "of no dimensions": (Layout(shape=(), block=4, batch=1), "x has a layout without dimensions"),
    "of a matrix": (in_windows((2, 4, 4)), "x is read in windows, and has 3 dimensions, not 4"),
    "lines of several images": (in_windows(batch=2), HOLD),
    "windows of several elements": (in_windows(elements=2), HOLD),
    "windows behind a line": (in_windows(columns=4), HOLD),
    "columns of fewer bytes than their rows": (in_windows(rows=2), HOLD),
    "rows of terabytes": (in_windows(advance=LARGEST), "packing x takes .*"),
    "columns of terabytes": (in_windows(column=1 << 30), "packing x takes .*"),
    "a border of terabytes": (in_windows(pads=(LARGEST, LARGEST)), "packing x takes .*"),
}


@pytest.mark.parametrize("title", REFUSED)
def test_layouts_without_a_meaning_are_refused(title):
    layout, message = REFUSED[title]
    check_contents(plan_with((in_windows(),)))
    with pytest.raises(ModuleError, match=f"^{message}"):
        check_contents(plan_with((layout,)))


@pytest.mark.parametrize("pitch", [0, 8])
def test_results_are_not_read_back_in_windows(pitch):
    with pytest.raises(ModuleError, match=r"^x is read back in windows, which cannot be undone"):
        check_contents(plan_with((), (in_windows(pitch=pitch),)))


HOST_STEP = next(step for step in PLAN.steps if isinstance(step, HostStep))
(FIRST_STREAM, *_) = PLAN.streams.values()
WRONG = {
    "input x is int8[-1, 2]; only outputs may have an extent that is known after a run alone; compile": {
        "inputs": {"x": Value((UNKNOWN, 2), "int8")}
    },
    "constant c holds complex128; there are float32, ": {"constants": {"c": np.zeros(1, complex)}},
    "weight w holds <U1, not numbers; compile": {"weights": {"w": np.array(["a"])}},
    "the micro-ops of stream s have 2 dimensions, not 1; compile": {
        "streams": {"s": replace(FIRST_STREAM, uops=FIRST_STREAM.uops[None])}
    },
    "attribute perm = 'abc' is not what Transpose takes: ": {
        "steps": (msgspec.structs.replace(HOST_STEP, attributes={"perm": "abc"}),)
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_what_no_run_can_use_is_named(message):
    with pytest.raises(VdlaError, match=f"^{re.escape(message)}"):
        check_contents(replace(PLAN, **WRONG[message]))


def test_numbers_of_every_kind_and_outputs_of_open_extents_are_accepted():
    weights = {kind: np.zeros(2, kind) for kind in ("bool", "int8", "uint32", "float16")}
    open_output = {"y": Value((UNKNOWN, 2), "int8")}
    check_contents(replace(PLAN, weights=weights, outputs=open_output))
    assert is_accepted(Layout(shape=(4,), block=4, batch=1))


@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3), 24), ((UNKNOWN, 2, 3), 24), ((UNKNOWN,), 4), ((), 4), ((0, 5), 0)]
)
def test_a_tensor_may_take_as_much_as_the_limit(shape, size, monkeypatch):
    value = Value(shape, "int32")
    monkeypatch.setattr("vdla.runtime.module.check.TENSOR_BYTES", size)
    check_value("x", value)
    monkeypatch.setattr("vdla.runtime.module.check.TENSOR_BYTES", size - 1)
    with pytest.raises(
        ModuleError, match=rf"^x is .*, which takes {size} bytes, and the limit is {size - 1}"
    ):
        check_value("x", value)


def test_a_plan_may_take_as_much_dram_as_the_limit(monkeypatch):
    monkeypatch.setattr("vdla.runtime.module.check.DRAM_BYTES", PLAN.dram_bytes)
    check_contents(PLAN)
    monkeypatch.setattr("vdla.runtime.module.check.DRAM_BYTES", PLAN.dram_bytes - 1)
    with pytest.raises(
        ModuleError, match=rf"^its tensors, weights and streams take {PLAN.dram_bytes} bytes, and the limit"
    ):
        check_contents(PLAN)
