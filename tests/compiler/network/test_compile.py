"""Which networks are quantised on samples, and what is compiled without them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from tests.compiler.graph.onnx.networks import model, node
from vdla.api import Module
from vdla.compiler.graph.integer_forms.cures import (
    BESIDE_FLOAT,
    BETWEEN,
    CHOSEN,
    CONSTANT_RANGES,
    FOR_QUALITY,
    IN_FILE,
    NOTHING,
)
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.network.compile import compile_network
from vdla.compiler.network.plan_cache import cached_tuned_plan
from vdla.compiler.network.source import Source
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.module.file import to_bytes
from vdla.runtime.samples.given import given_of
from vdla.runtime.session.summary import Summary

RNG = np.random.default_rng(0)
SHAPES = {"rows": (1, 3, 20), "images": (1, 3, 8, 8)}


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(0, 0.3, shape).astype(np.float32)


@pytest.fixture(params=SHAPES)
def dynamic(request, tmp_path) -> tuple[bytes, tuple[int, ...]]:
    """Return a network whose ranges are computed at run time, and the shape of its input."""
    shape = SHAPES[request.param]
    kernel = (3,) * (len(shape) - 2)
    built = model(
        [
            node("Conv", "x w1 b1", "a", pads=[1] * 2 * len(kernel)),
            node("Relu", "a", "b"),
            node("GlobalAveragePool", "b", "c"),
            node("Flatten", "c", "d"),
            node("MatMul", "d fc", "e"),
            node("Add", "e b2", "y"),
        ],
        {"x": shape},
        ["y"],
        {"w1": weights(16, 3, *kernel), "b1": weights(16), "fc": weights(16, 10), "b2": weights(10)},
    )
    onnx.save(built, tmp_path / "float.onnx")
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "dynamic.onnx", weight_type=QuantType.QUInt8)
    return (tmp_path / "dynamic.onnx").read_bytes(), shape


def summary_of(compiled, x: np.ndarray) -> tuple[dict[str, np.ndarray], Summary]:
    """Run a network on the accelerator; it must equal the interpreter."""
    run = Module(compiled.plan).run({"x": x})
    for name, expected in interpret(compiled.graph, {"x": x}).items():
        np.testing.assert_array_equal(run.outputs[name], expected)
    return run.outputs, run.summary


def test_ranges_found_while_a_network_runs_are_fixed_on_samples(dynamic):
    data, shape = dynamic
    samples = [{"x": weights(*shape)} for _ in range(4)]
    fixed, summary = summary_of(compile_network(data, Target(TINY), samples=samples), samples[0]["x"])
    assert summary.mac_share > 0.99
    assert summary.launches == 1
    kept, on_host = summary_of(compile_network(data, Target(TINY)), samples[0]["x"])
    assert on_host.mac_share < 0.01
    assert "give samples of the inputs (--calibrate SAMPLES.npz)" in {
        reason.why for reason in on_host.reasons
    }
    np.testing.assert_allclose(fixed["y"], kept["y"], atol=0.05 * np.abs(kept["y"]).max())


def test_what_is_kept_of_a_network_is_what_is_compiled(dynamic, tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    data, shape = dynamic
    for samples in (None, [{"x": weights(*shape)}]):
        compiled = compile_network(data, Target(TINY), samples=samples)
        assert to_bytes(
            cached_tuned_plan(Source(data, samples and given_of(samples)), Target(TINY))[0]
        ) == to_bytes(compiled.plan)


def test_a_float_network_needs_samples():
    built = model([node("Conv", "x w", "y")], {"x": (1, 3, 8, 8)}, ["y"], {"w": weights(4, 3, 3, 3)})
    with pytest.raises(GraphError, match="give samples of its inputs"):
        compile_network(built.SerializeToString(), Target(TINY))


def test_ranges_stay_where_not_all_of_them_can_be_fixed():
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["m"]),
    ]
    built = model(nodes, {"x": (2, 3)}, ["m"], {"w": np.int8([[1, 2], [3, 4], [5, 6]])})
    built.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    x = weights(2, 3)
    compiled = compile_network(built.SerializeToString(), Target(TINY), samples=[{"x": x}])
    assert [step.op for step in compiled.plan.host_steps] == ["DynamicQuantizeLinear", "MatMulInteger"]
    outputs, _ = summary_of(compiled, x)
    assert outputs["m"].dtype == np.int32


CONVOLVED = [node("Conv", "x w", "a"), node("Sigmoid", "a", "y")]
QDQ = [
    node("QuantizeLinear", "x s z", "q"),
    node("DequantizeLinear", "q s z", "r"),
    node("DequantizeLinear", "v s z", "w"),
    node("Conv", "r w", "a"),
    node("Sigmoid", "a", "y"),
]
BYTES = {"s": np.float32(0.1), "z": np.int8(0), "v": np.ones((4, 3, 3, 3), np.int8)}
WEIGHTS = {"w": weights(4, 3, 3, 3)}
CURES = {
    "a network without products": ([node("Sigmoid", "x", "y")], {}, {}, NOTHING),
    "a function at the end": (CONVOLVED, WEIGHTS, {}, BETWEEN),
    "a function behind a layer in float": (CONVOLVED, WEIGHTS, {"float_layers": ("the_Conv",)}, BESIDE_FLOAT),
    "a layer kept by name": (CONVOLVED, WEIGHTS, {"float_layers": ("the_Conv",)}, CHOSEN),
    "a layer kept for quality": (CONVOLVED, WEIGHTS, {"target_db": 60.0}, FOR_QUALITY),
    "a quantised file": (QDQ, BYTES, {}, IN_FILE),
}


@pytest.mark.parametrize("title", CURES)
def test_the_cure_of_what_stays_in_float_fits_who_quantised_the_network(title):
    nodes, constants, options, cure = CURES[title]
    built = model(nodes, {"x": (1, 3, 8, 8)}, ["y"], constants)
    samples = [{"x": weights(1, 3, 8, 8)} for _ in range(3)]
    compiled = compile_network(
        built.SerializeToString(), Target(TINY), samples=samples, options=Options(**options)
    )
    whys = [reason.why for reason in summary_of(compiled, samples[0]["x"])[1].reasons]
    assert cure in whys
    assert not any("or --calibrate" in why for why in whys)


def test_a_dynamic_range_that_samples_do_not_fix_names_another_cure(dynamic):
    data, shape = dynamic
    built = onnx.load_from_string(data)
    for name in ("s", "z"):
        built.graph.initializer.append(numpy_helper.from_array(BYTES[name], f"my_{name}"))
    (out,) = built.graph.output
    for number, op in enumerate(("QuantizeLinear", "DequantizeLinear")):
        built.graph.node.append(
            node(op, f"{[out.name, 'q_end'][number]} my_s my_z", ["q_end", "end"][number])
        )
    out.name = "end"
    x = weights(*shape)
    for samples in (None, [{"x": x}]):
        compiled = compile_network(built.SerializeToString(), Target(TINY), samples=samples)
        whys = {reason.why for reason in summary_of(compiled, x)[1].reasons}
        assert CONSTANT_RANGES in whys
        assert "give samples of the inputs (--calibrate SAMPLES.npz)" not in whys
