"""The kit from Python: compile, save, load, run."""

import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import vdla
from tests.cli.models import float_model, model, node
from tests.runtime.test_exchange import Array, Dlpack, Interface
from vdla.compiler.graph.nodes import GraphError
from vdla.hw.spec.presets import TINY
from vdla.runtime.module.file import to_bytes
from vdla.runtime.module.plan import ModuleError
from vdla.runtime.samples import InputError

IMAGE = np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32)
BYTES = model().SerializeToString()


@pytest.fixture(scope="module")
def module():
    return vdla.compile(BYTES, TINY)


def test_a_model_comes_as_bytes_or_file_and_an_accelerator_by_name_or_value(module, tmp_path):
    (tmp_path / "net.onnx").write_bytes(BYTES)
    assert to_bytes(vdla.compile(tmp_path / "net.onnx", "tiny").plan) == to_bytes(module.plan)


def test_devices_agree_and_keep_the_module(module):
    functional, cycle = (module.run({"x": IMAGE}, device) for device in ("functional", "cycle"))
    np.testing.assert_array_equal(functional.outputs["y"], cycle.outputs["y"])
    assert functional.report.cycles is None
    assert f"cycle: {cycle.report.cycles:,} cycles" in cycle.table()
    assert module.session("cycle") is module.session("cycle")
    assert module.run({"x": IMAGE}, "cycle", clock_hz=1e6).report.seconds == cycle.report.cycles / 1e6


def test_a_module_that_was_saved_runs_without_the_compiler(module, tmp_path):
    module.save(tmp_path / "net.vdla")
    np.save(tmp_path / "x.npy", IMAGE)
    code = (
        "import sys, numpy as np, vdla\n"
        "out = "
        f"vdla.load({str(tmp_path / 'net.vdla')!r}).run({{'x': np.load({str(tmp_path / 'x.npy')!r})}}).outputs['y']\n"
        "assert not {'onnx', 'amaranth', 'vdla.compiler'} & set(sys.modules), sorted(sys.modules)\n"
        f"np.save({str(tmp_path / 'y.npy')!r}, out)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), module.run({"x": IMAGE}).outputs["y"])


def test_a_float_model_needs_samples():
    with pytest.raises(GraphError, match="give samples of its inputs for quantisation"):
        vdla.compile(float_model().SerializeToString(), TINY)
    assert vdla.compile(float_model().SerializeToString(), TINY, samples=[{"x": IMAGE}]).plan.launches


def test_a_dynamic_shape_is_given():
    dynamic = model(shape=("N", 1, 8, 8)).SerializeToString()
    assert vdla.compile(dynamic, TINY, shapes={"x": (1, 1, 8, 8)}).plan.inputs["x"].shape == (1, 1, 8, 8)
    assert not vdla.compile(dynamic, TINY, shapes={"x": (1, 1, 8, 8)}, fixed={"x": 1}).plan.inputs


def test_progress_tells_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))  # else the network may come from the cache whole
    told = []
    vdla.compile(BYTES, TINY, progress=told.append)
    assert told[0] == "import"
    steps = [text.split(": ")[0] for text in told]
    for what, total in (("place", 7), ("tiles", 3), ("instructions", 3)):
        numbered = [step for step in steps if step.startswith(f"{what} ")]
        assert numbered == [f"{what} {number} of {total}" for number in range(1, total + 1)]
    assert "place 2 of 7: Int8Conv 'C'" in told


def test_progress_of_quantisation_tells_what_is_compared(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    told = []
    vdla.compile(float_model().SerializeToString(), TINY, samples=[{"x": IMAGE}] * 2, progress=told.append)
    quantising = [text for text in told if text.startswith("quantise: ")]
    assert quantising[0] == "quantise: ranges on 2 samples"
    assert quantising[1].endswith("1 of 5 kinds of ranges")
    assert quantising[-1] == "quantise: biases"


def test_a_forecast_has_the_cycles_of_a_run(module):
    found, ran = module.forecast(), module.run({"x": IMAGE}, "cycle")
    assert found.cycles == ran.report.cycles
    assert [(one.name, one.cycles, one.bound) for one in found.layers] == [
        (one.name, one.cycles, one.bound) for one in ran.report.layers
    ]
    assert found.energy_pj == ran.report.energy_pj
    assert (found.host_seconds, found.copy_seconds) == (None, None)


def test_summaries_before_and_after_a_run_differ_in_measured_times_alone(module):
    before, after = module.summary(), module.run({"x": IMAGE}, "cycle").summary
    assert after.host_seconds > 0
    assert after.copy_seconds > 0
    for name in {*before.to_json()} - {"host_seconds", "copy_seconds"}:
        assert getattr(before, name) == getattr(after, name), name
    assert str(before).splitlines()[2] == str(after).splitlines()[2]


@pytest.mark.parametrize("speaker", [Dlpack, Array, Interface])
def test_arrays_of_other_libraries_are_inputs_and_samples(module, speaker, tmp_path):
    expected = module.run({"x": IMAGE}).outputs["y"]
    np.testing.assert_array_equal(module.run({"x": speaker(IMAGE)}).outputs["y"], expected)
    plans = (
        vdla.compile(float_model().SerializeToString(), TINY, samples=[{"x": image}]).plan
        for image in (IMAGE, speaker(IMAGE))
    )
    assert len({to_bytes(plan) for plan in plans}) == 1


def test_outputs_are_taken_over_without_a_copy(module):
    found = module.run({"x": IMAGE}).outputs["y"]
    taken = np.from_dlpack(Dlpack(found))
    assert np.shares_memory(taken, found)
    again = found.copy()
    module.run({"x": -IMAGE})
    np.testing.assert_array_equal(taken, again)


def test_an_output_that_is_an_input_is_not_copied_and_a_constant_is():
    value = helper.make_tensor_value_info
    constant = numpy_helper.from_array(np.float32([1, 2]), "c")
    graph = helper.make_graph(
        [node("Identity", "x", "y"), node("Identity", "c", "z")],
        "same",
        [value("x", TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2]), value("z", TensorProto.FLOAT, [2])],
        [constant],
    )
    same = vdla.compile(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8
        ).SerializeToString()
    )
    x = np.float32([3, 4])
    found = same.run({"x": Dlpack(x)}).outputs
    np.testing.assert_array_equal(found["y"], x)
    found["z"][:] = 9
    np.testing.assert_array_equal(same.run({"x": x}).outputs["z"], [1, 2])
    assert np.shares_memory(same.run({"x": x}).outputs["y"], x)


def test_arrays_on_another_device_are_refused_by_name(module):
    gpu = Dlpack(IMAGE, kind=2)
    message = "is on device 0 of CUDA; arrays are read from the memory of the CPU; copy it there first"
    with pytest.raises(ModuleError, match=f"^input x {message}$"):
        module.run({"x": gpu})
    with pytest.raises(InputError, match=f"^sample 1: input x {message}$"):
        vdla.compile(float_model().SerializeToString(), TINY, samples=[{"x": IMAGE}, {"x": gpu}])


def test_inputs_are_checked(module):
    with pytest.raises(ModuleError, match="the network takes x"):
        module.run({})


def test_the_package_gives_only_what_it_says():
    assert {"Module", "compile", "load"} <= set(dir(vdla))
    with pytest.raises(AttributeError, match="module 'vdla' has no attribute 'colour'"):
        _ = vdla.colour
