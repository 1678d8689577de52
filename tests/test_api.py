"""The kit from Python: compile, save, load, run."""

import subprocess
import sys

import numpy as np
import pandas
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


SAMPLES = np.random.default_rng(1).normal(size=(4, 1, 8, 8))
FORMS = {
    "a mapping of samples in place of a batch": {"x": SAMPLES},
    "samples along a new axis": SAMPLES[:, None],
    "a list of arrays": list(SAMPLES),
    "a list of mappings": [{"x": image[None]} for image in SAMPLES],
    "batches of a loader": [SAMPLES[:3], SAMPLES[3:]],
}


@pytest.mark.parametrize("shape", [(1, 1, 8, 8), ("N", 1, "h", "w")], ids=["fixed", "open"])
@pytest.mark.parametrize("title", FORMS)
def test_samples_of_all_forms_give_one_module(title, shape):
    expected = vdla.compile(
        float_model().SerializeToString(),
        TINY,
        samples=[{"x": image[None].astype(np.float32)} for image in SAMPLES],
    )
    found = vdla.compile(float_model(shape=shape), TINY, samples=FORMS[title])
    assert to_bytes(found.plan) == to_bytes(expected.plan)


def test_a_model_in_memory_is_compiled_and_other_objects_are_refused():
    assert to_bytes(vdla.compile(model(), TINY).plan) == to_bytes(vdla.compile(BYTES, TINY).plan)
    with pytest.raises(
        GraphError, match=r"a model is an ONNX file, its bytes or an onnx\.ModelProto, not dict; export"
    ):
        vdla.compile({}, TINY)


def test_a_batch_is_compiled_for_where_its_shape_is_given():
    shapes = {"x": (2, 1, 8, 8)}
    batch = vdla.compile(float_model(shape=("N", 1, 8, 8)), TINY, samples=SAMPLES, shapes=shapes)
    assert batch.inputs["x"].shape == (2, 1, 8, 8)
    one = vdla.compile(float_model(), TINY, samples=SAMPLES)
    images = SAMPLES[:2].astype(np.float32)
    # Calibration sums floats in another order for a batch on some processors, so that a scale may differ by
    # a rounding error; a step of the output is 10,000 times as large as this tolerance.
    np.testing.assert_allclose(batch.run(images).outputs["y"], one.run(images).outputs["y"], rtol=1e-6)


def test_a_module_says_what_it_takes_and_makes(module):
    assert repr(module) == "<vdla.Module net on tiny, 2 launches: x float32[1, 1, 8, 8] -> y float32[1, 5]>"
    assert {name: (value.shape, value.dtype) for name, value in module.inputs.items()} == {
        "x": ((1, 1, 8, 8), "float32")
    }
    assert {name: (value.shape, value.dtype) for name, value in module.outputs.items()} == {
        "y": ((1, 5), "float32")
    }
    ran = module.run(IMAGE, "cycle")
    assert repr(ran) == f"<vdla.Run net on tiny, cycle, {ran.report.cycles:,} cycles: y float32[1, 5]>"


def test_a_run_takes_an_array_a_name_or_a_file(module, tmp_path):
    expected = module.run({"x": IMAGE}).outputs["y"]
    np.save(tmp_path / "x.npy", IMAGE)
    for found in (
        module.run(IMAGE),
        module.run(x=IMAGE),
        module.run(IMAGE[0]),
        module.run(IMAGE.tolist()),
        module.run(tmp_path / "x.npy"),
        module.run(x=tmp_path / "x.npy"),
    ):
        np.testing.assert_array_equal(found.outputs["y"], expected)
    with pytest.raises(
        InputError, match="inputs are given twice, the second time as x; pass a mapping of all"
    ):
        module.run(IMAGE, x=IMAGE)


def test_a_stack_runs_once_for_each_sample_and_the_summary_says_so(module):
    ran = module.run(SAMPLES, "cycle")
    single = [module.run(image[None].astype(np.float32), "cycle") for image in SAMPLES]
    expected = np.concatenate([one.outputs["y"] for one in single])
    np.testing.assert_array_equal(ran.outputs["y"], expected)
    np.testing.assert_array_equal(module.run(SAMPLES[:, None]).outputs["y"], expected[:, None])
    np.testing.assert_array_equal(module.run(list(SAMPLES)).outputs["y"], expected)
    assert module.run(SAMPLES[:1, None]).outputs["y"].shape == (1, 1, 5)
    assert module.run([SAMPLES[:1]]).outputs["y"].shape == (1, 5)
    cycles = single[0].report.cycles
    assert (ran.report.runs, ran.summary.runs, ran.report.cycles) == (4, 4, cycles)
    row = f"4, one for each sample, {4 * cycles:,} cycles in all; all figures below are for one run"
    assert [line.split(maxsplit=1) for line in str(ran.summary).splitlines() if "runs" in line[:8]] == [
        ["runs", row]
    ]
    assert f"cycle, each of 4 runs: {cycles:,} cycles" in ran.table()
    assert repr(ran).startswith(f"<vdla.Run net on tiny, cycle, {cycles:,} cycles, 4 runs: y float32[4, 5]")
    assert (ran.report.to_json()["runs"], ran.summary.to_json()["runs"]) == (4, 4)
    assert len(ran.outcome.host_seconds) == len(single[0].outcome.host_seconds)


def test_a_report_is_a_table_of_pandas(module):
    found = module.run(IMAGE, "cycle").report
    table = pandas.DataFrame(found.layers)
    assert list(table["name"]) == [layer.name for layer in found.layers]
    assert table["cycles"].sum() == found.cycles
    assert table.groupby("on")["macs"].sum()["accelerator"] == found.macs


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
    with pytest.raises(InputError, match=f"^input x {message}$"):
        module.run({"x": gpu})
    with pytest.raises(InputError, match=f"^sample 1: input x {message}$"):
        vdla.compile(float_model().SerializeToString(), TINY, samples=[{"x": IMAGE}, {"x": gpu}])


def test_inputs_are_checked(module):
    with pytest.raises(InputError, match="the network takes x"):
        module.run({})
    with pytest.raises(ModuleError, match="input x holds 64 values that are not finite"):
        module.run({"x": IMAGE * np.float32("nan")})


def test_the_package_gives_only_what_it_says():
    assert {"Module", "compile", "load"} <= set(dir(vdla))
    with pytest.raises(AttributeError, match="module 'vdla' has no attribute 'colour'"):
        _ = vdla.colour
