"""Sessions: what a network is given is checked, and runs do not disturb each other."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from tests.compiler.network.compiled import handmade, plan_of
from tests.compiler.network.graphs import Net, random_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.host.onnx_runtime import PART
from vdla.runtime.layout import Layout
from vdla.runtime.module.plan import Crossing, HostStep, ModuleError, Value
from vdla.runtime.session.session import Outcome, Session, _OnHost, _packed, _run_host, checked

WANTED = {"image": Value((1, 3), "float32"), "mask": Value((), "int8")}
IMAGE, MASK = np.ones((1, 3), np.float32), np.int8(1)
TAKES = "the network takes image: float32[1, 3], mask: int8[]"


def session_of(title: str, device=FunctionalDevice) -> Session:
    _, plan = handmade(title)
    return Session(device(TINY, plan.dram_bytes), plan)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, f"{TAKES}; it was given nothing"),
        ({"image": IMAGE}, f"{TAKES}; it was given image"),
        ({"image": IMAGE, "mask": MASK, "more": MASK}, f"{TAKES}; it was given image, mask, more"),
        ({"picture": IMAGE, "mask": MASK}, f"{TAKES}; it was given picture, mask"),
        ({"image": IMAGE.T, "mask": MASK}, "input image is float32[3, 1], not float32[1, 3]"),
        (
            {"image": IMAGE.astype(np.float64), "mask": MASK},
            "input image is float64[1, 3], not float32[1, 3]",
        ),
        ({"image": IMAGE, "mask": 1}, "input mask is int64[], not int8[]"),
        ({"image": [[1, 2], [3]], "mask": MASK}, "input image is not an array of numbers: "),
        ({"image": np.array(["a"]), "mask": MASK}, "input image is <U1[1], not float32[1, 3]"),
        (
            {"image": np.array([[1, np.nan, np.inf]], np.float32), "mask": MASK},
            "input image holds 2 values that are not finite",
        ),
    ],
)
def test_inputs_that_are_not_what_the_network_takes_are_refused(inputs, message):
    with pytest.raises(ModuleError) as caught:
        checked(inputs, WANTED)
    assert str(caught.value) == message or (message.endswith(": ") and str(caught.value).startswith(message))


def test_inputs_that_are_right_are_taken():
    arrays = checked({"mask": MASK, "image": IMAGE}, WANTED)
    assert {name: (array.shape, array.dtype) for name, array in arrays.items()} == {
        "mask": ((), np.int8),
        "image": ((1, 3), np.float32),
    }


def test_refused_inputs_run_nothing():
    session, steps = session_of("several ends"), []
    with pytest.raises(ModuleError):
        session.run({}, progress=steps.append)
    assert not steps


def test_a_module_needs_the_accelerator_it_was_compiled_for():
    _, plan = handmade("several ends")
    with pytest.raises(ModuleError) as caught:
        Session(FunctionalDevice(DEFAULT, 1 << 20), plan)
    assert str(caught.value) == (
        f"module net was compiled for the configuration tiny ({TINY.digest[:12]}), and the device is default "
        f"({DEFAULT.digest[:12]}); compile it for that one, or run it on the other"
    )


def test_a_device_that_is_too_small_says_so():
    _, plan = handmade("residual")
    with pytest.raises(DeviceError, match="give the device more with dram_bytes"):
        Session(FunctionalDevice(TINY, 1 << 13), plan)


@pytest.mark.parametrize(
    "config",
    [
        TINY,
        DEFAULT.with_changes(block_in=128, block_out=128, wgt_buffer_bytes=1 << 20, acc_buffer_bytes=1 << 20),
    ],
    ids=["tiny", "large blocks"],
)
def test_the_dram_that_a_plan_asks_for_is_enough(config):
    net = Net()
    plan = plan_of(net.graph(net.matmul(net.input(1, 3), 5)), config)
    for size in (1, 4095, 4096, 8192, 20_000):
        large = replace(plan, tensors={**plan.tensors, **{f"more {number}": size for number in range(50)}})
        device = FunctionalDevice(config, large.dram_bytes)
        Session(device, large)
        with pytest.raises(DeviceError, match="exceeds the device's DRAM"):
            device.allocate(1)  # and no more than enough


@pytest.mark.parametrize("device", [FunctionalDevice, CycleDevice])
def test_runs_do_not_disturb_each_other(device):
    (graph, _), session = handmade("with the host between"), session_of("with the host between", device)
    first, second = random_inputs(graph, 1), random_inputs(graph, 2)
    runs = [session.run(inputs) for inputs in (first, second, first)]
    for name, array in interpret(graph, first).items():
        np.testing.assert_array_equal(runs[0].outputs[name], array)
        np.testing.assert_array_equal(runs[2].outputs[name], array)
    assert runs[0].cycles == runs[2].cycles
    assert (runs[0].cycles is None) is (device is FunctionalDevice)


def test_what_a_run_gave_stays_as_it_is():
    (graph, _), session = handmade("several ends"), session_of("several ends")
    inputs = random_inputs(graph, 1)
    given = {name: array.copy() for name, array in inputs.items()}
    outputs = session.run(inputs).outputs
    kept = {name: array.copy() for name, array in outputs.items()}
    session.run(random_inputs(graph, 2))
    for name, array in (*kept.items(), *given.items()):
        np.testing.assert_array_equal({**outputs, **inputs}[name], array)


def test_two_modules_share_a_device():
    (first_graph, first_plan), (second_graph, second_plan) = handmade("several ends"), handmade("depthwise")
    device = FunctionalDevice(TINY, first_plan.dram_bytes + second_plan.dram_bytes)
    sessions = {id(first_graph): Session(device, first_plan), id(second_graph): Session(device, second_plan)}
    for seed, graph in enumerate((first_graph, second_graph, first_graph, second_graph)):
        inputs = random_inputs(graph, seed)
        outputs = sessions[id(graph)].run(inputs).outputs
        for name, array in interpret(graph, inputs).items():
            np.testing.assert_array_equal(outputs[name], array)


def test_progress_tells_each_step_before_it_runs():
    (graph, plan), told = handmade("with the host between"), []
    session_of("with the host between").run(random_inputs(graph, 0), progress=told.append)
    assert told == list(plan.steps)
    assert [isinstance(step, HostStep) for step in told] == [False, True, False]


def test_an_operator_that_fails_on_the_host_is_named():
    _, plan = handmade("only the host")
    broken = structs.replace(plan.steps[0], attributes={"perm": (0, 7)})
    session = Session(FunctionalDevice(TINY, plan.dram_bytes), replace(plan, steps=(broken, *plan.steps[1:])))
    message = r"^Transpose the Transpose on the host: Transpose\(int8\[2, 3\]\): axis 7 is out of bounds"
    with pytest.raises(ModuleError, match=message):
        session.run({"x0": np.zeros((2, 3), np.int8)})


def test_a_step_that_names_more_outputs_than_its_operator_makes_is_refused():
    _, plan = handmade("only the host")
    broken = structs.replace(plan.steps[0], outputs=(*plan.steps[0].outputs, "more"))
    session = Session(FunctionalDevice(TINY, plan.dram_bytes), replace(plan, steps=(broken, *plan.steps[1:])))
    message = r"^Transpose the Transpose on the host: it makes 1 outputs, not 2$"
    with pytest.raises(ModuleError, match=message):
        session.run({"x0": np.zeros((2, 3), np.int8)})


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        (PART, ("model", "x"), "^OnnxRuntime a part on the host: "),
        (PART, ("x", "model"), None),  # its model is no constant
        (PART, (), None),
        ("Reshape", ("model",), None),
    ],
)
def test_parts_that_onnxruntime_refuses_are_told_before_anything_runs(op, inputs, message):
    _, plan = handmade("only the host")
    step = HostStep("a part", op, inputs, ("y",), {"shape": (1,)} if op == "Reshape" else {})
    broken = replace(
        plan, steps=(*plan.steps, step), constants={**plan.constants, "model": np.zeros(3, np.uint8)}
    )
    device = FunctionalDevice(TINY, plan.dram_bytes)
    if message is None:
        Session(device, broken)
    else:
        with pytest.raises(ModuleError, match=message):
            Session(device, broken)


def test_an_output_that_is_a_constant_is_given_out_as_a_copy():
    _, plan = handmade("only the host")
    constant = np.arange(3, dtype=np.int8)
    held = replace(
        plan,
        constants={**plan.constants, "c": constant},
        outputs={**plan.outputs, "c": Value((3,), "int8")},
    )
    session = Session(FunctionalDevice(TINY, plan.dram_bytes), held)
    outputs = session.run({"x0": np.zeros((2, 3), np.int8)}).outputs
    outputs["c"][:] = 9
    assert constant.tolist() == [0, 1, 2]
    assert session.run({"x0": np.zeros((2, 3), np.int8)}).outputs["c"].tolist() == [0, 1, 2]


def test_the_times_of_a_run_are_those_of_its_steps(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(
        "vdla.runtime.session.session.time", SimpleNamespace(perf_counter=lambda: 2.0 ** next(clock))
    )
    (graph, _), session = handmade("with the host between"), session_of("with the host between")
    outcome = session.run(random_inputs(graph, 0))
    steps = [2.0**number for number in (1, 3, 5, 7, 9)]  # copy, copy back, operator, copy, copy back
    assert outcome.host_seconds == (steps[2],)
    assert outcome.copy_seconds == sum(steps) - steps[2]
    assert outcome.seconds == 2.0**11 - 2.0**0  # of the last look at the clock and of the first


def test_values_on_the_host_are_counted_once_each():
    values = _OnHost({"a": np.zeros(10, np.int8)})
    values.add("b", np.zeros(3, np.int32))
    values.add("a", np.zeros(4, np.int8))
    assert values.size == 16


def test_more_on_the_host_than_its_limit_is_refused_with_the_step(monkeypatch):
    _, plan = handmade("only the host")
    monkeypatch.setattr("vdla.runtime.session.session.HOST_BYTES", 11)
    session = Session(FunctionalDevice(TINY, plan.dram_bytes), plan)
    with pytest.raises(
        ModuleError, match=r"^up to Transpose the Transpose, the tensors on the host take 12 bytes"
    ):
        session.run({"x0": np.zeros((2, 3), np.int8)})


def test_an_outcome_is_that_of_one_whole_run_unless_it_says_otherwise():
    assert Outcome({}, (), 1.0) == Outcome({}, (), 1.0, (), copy_seconds=0.0, ran=True, runs=1)
    assert Outcome({}, (), 1.0).cycles == 0


@pytest.mark.parametrize(
    ("cycles", "total"), [((5, 7), 12), ((5, None), None), ((None, 5), None), ((None,), None)]
)
def test_cycles_are_known_where_those_of_every_launch_are(cycles, total):
    launches = tuple(SimpleNamespace(result=SimpleNamespace(cycles=count)) for count in cycles)
    assert Outcome({}, launches, 1.0).cycles == total


@pytest.mark.parametrize(
    ("array", "array_type"),
    [
        (np.zeros((1, 6), np.int8), "int8[1, 6]"),
        (np.zeros((1, 5), np.uint8), "uint8[1, 5]"),
        (np.zeros((2, 5), np.float32), "float32[2, 5]"),
    ],
)
def test_a_value_of_another_type_is_not_copied_to_the_accelerator(array, array_type):
    crossing = Crossing("v", "t", Layout(shape=(1, 5), block=4, batch=1))
    assert _packed(crossing, np.ones((1, 5), np.int8)).size == crossing.layout.size
    with pytest.raises(ModuleError) as caught:
        _packed(crossing, array)
    assert str(caught.value) == (
        f"v is {array_type}, and the accelerator takes int8[1, 5]; compile the network again"
    )


def test_inputs_that_are_left_out_are_none_and_results_beyond_the_outputs_are_dropped(monkeypatch):
    asked, x = [], np.arange(3)
    monkeypatch.setattr(
        "vdla.runtime.session.session.evaluate",
        lambda op, inputs, attributes: asked.append((op, inputs, attributes)) or [x + 1, x + 2],
    )
    values = _OnHost({"x": x})
    _run_host(HostStep("a", "Op", ("", "x", ""), ("y",), {"axis": 1}), values)
    ((op, inputs, attributes),) = asked
    assert (op, inputs[0], inputs[2], attributes) == ("Op", None, None, {"axis": 1})
    assert inputs[1] is x
    assert values["y"].tolist() == [1, 2, 3]
    assert values.size == 2 * x.nbytes
