"""Parts of networks on onnxruntime: sessions are built once, and what cannot run is refused in one line."""

import gc
import sys
import weakref

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, ValueInfoProto, helper

from vdla.hw.spec.errors import ToolError
from vdla.runtime.host import onnx_runtime
from vdla.runtime.host.evaluate import OperatorError, evaluate
from vdla.runtime.host.onnx_runtime import PART, prepare, reason_of, run_part, session_from

X = np.array([[-1.0, 2.0, 3.0]], np.float32)


def part(op: str = "CumSum", **attributes) -> np.ndarray:
    """Return a model of x[1, 3] as bytes: one node, with the axis 1 if it takes an axis."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    y = ValueInfoProto(name="y")
    axis = [helper.make_tensor("axis", TensorProto.INT64, [], [1])] if op == "CumSum" else []
    node = helper.make_node(op, ["x", *(tensor.name for tensor in axis)], ["y"], **attributes)
    model = helper.make_model(
        helper.make_graph([node], "part", [x], [y], axis),
        opset_imports=[helper.make_opsetid("", 14)],
        ir_version=8,
    )
    return np.frombuffer(model.SerializeToString(), np.uint8)


def test_a_part_runs_as_an_operator():
    (result,) = evaluate(PART, [part(), X], {})
    np.testing.assert_array_equal(result, [[-1, 1, 4]])


def test_extents_of_a_result_may_be_unknown():
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "part", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    (result,) = run_part(np.frombuffer(model.SerializeToString(), np.uint8), X)
    np.testing.assert_array_equal(result, [[0, 2, 3]])


def test_a_number_stays_a_number():
    (result,) = run_part(part("ReduceSum", keepdims=0), X)
    assert result.shape == ()


def test_a_session_is_built_once_and_goes_with_its_model(monkeypatch):
    built = []
    monkeypatch.setattr(onnx_runtime, "session_from", lambda data: built.append(1) or session_from(data))
    model = part()
    prepare(model)
    run_part(model, X)
    run_part(model, X)
    assert len(built) == 1
    key = id(model)
    assert key in onnx_runtime._SESSIONS.known
    del model
    gc.collect()
    assert key not in onnx_runtime._SESSIONS.known


def test_a_session_is_not_taken_for_that_of_another_model(monkeypatch):
    model, other = part(), part()
    monkeypatch.setitem(onnx_runtime._SESSIONS.known, id(model), (weakref.ref(other), None))
    (result,) = run_part(model, X)
    np.testing.assert_array_equal(result, [[-1, 1, 4]])


def test_inputs_that_do_not_go_with_the_model_are_refused():
    with pytest.raises(OperatorError, match=r"^OnnxRuntime\(uint8\[\d+\]\): the part takes 1 inputs$"):
        evaluate(PART, [part()], {})
    with pytest.raises(OperatorError, match=r"^OnnxRuntime\(.*, float32\[2\]\): .*Invalid"):
        evaluate(PART, [part(), X[0, :2]], {})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (np.frombuffer(b"no model", np.uint8), "INVALID_PROTOBUF"),
        (part("Nonsense"), "No Op registered for Nonsense"),
        (part("SplitToSequence"), "it makes y, a seq"),
    ],
)
def test_a_model_that_cannot_run_is_refused_in_one_line(model, message):
    with pytest.raises(ValueError, match=message) as caught:
        prepare(model)
    assert len(str(caught.value).splitlines()) == 1


def test_a_result_beyond_the_limit_is_refused_before_it_is_made():
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 20, 1 << 20])
    node = helper.make_node("ConstantOfShape", ["n"], ["y"])
    n = helper.make_tensor_value_info("n", TensorProto.INT64, [2])
    model = helper.make_model(
        helper.make_graph([node], "part", [n], [y]), opset_imports=[helper.make_opsetid("", 14)], ir_version=8
    )
    with pytest.raises(ValueError, match=r"^y takes 4398046511104 bytes, and the limit is"):
        prepare(np.frombuffer(model.SerializeToString(), np.uint8))


def test_without_onnxruntime_the_extra_is_named(monkeypatch):
    assert onnx_runtime.is_there()
    assert onnx_runtime.cure().startswith("running other operators on the host needs onnxruntime, ")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert not onnx_runtime.is_there()
    with pytest.raises(
        ToolError, match=r'needs onnxruntime, which is not installed here; .* "vdla\[models\]"$'
    ):
        evaluate(PART, [part(), X], {})


def test_a_reason_is_one_line():
    assert (
        reason_of(RuntimeError("[ONNXRuntimeError] : 10 : INVALID_GRAPH : a\n  b"))
        == "10 : INVALID_GRAPH : a b"
    )
    assert reason_of(RuntimeError()) == "RuntimeError"


def test_sums_of_products_with_constant_bytes_are_exact():
    """On processors with AVX2 and without VNNI, onnxruntime saturates sums of two products by default."""
    x, w = np.full((3, 32), 255, np.uint8), np.full((32, 16), 127, np.int8)
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)]
    result = helper.make_tensor_value_info("y", TensorProto.INT32, [3, 16])
    constants = [helper.make_tensor("w", TensorProto.INT8, w.shape, w.tobytes(), raw=True)]
    product = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([product], "part", inputs, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    (output,) = session_from(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(output, x.astype(int) @ w.astype(int))


def test_products_without_a_kernel_of_exact_sums_run():
    """onnxruntime turns constant int8 weights into uint8 for exact sums; QGemm of int8 takes none."""
    x, w = np.arange(-8, 8, dtype=np.int8).reshape(2, 8), np.eye(8, dtype=np.int8)
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT8, x.shape)]
    result = helper.make_tensor_value_info("y", TensorProto.INT8, [2, 8])
    scales = [helper.make_tensor("s", TensorProto.FLOAT, [], [1.0])]
    scales += [helper.make_tensor("z", TensorProto.INT8, [], [0])]
    scales += [helper.make_tensor("w", TensorProto.INT8, w.shape, w.tobytes(), raw=True)]
    names = ["x", "s", "z", "w", "s", "z", "", "s", "z"]
    product = helper.make_node("QGemm", names, ["y"], domain="com.microsoft")
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([product], "part", inputs, [result], scales)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (output,) = session_from(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(output, x)


@pytest.mark.parametrize("optimised", [True, False])
def test_a_session_runs_on_one_thread_and_writes_nothing(optimised, monkeypatch):
    """Results are then the same on every machine, and refusals are told once."""
    session_arguments = []
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda model, options, providers: session_arguments.append((model, options, providers)),
    )
    session_from(b"model", **({} if optimised else {"optimised": False}))
    ((model, options, providers),) = session_arguments
    assert (model, providers) == (b"model", ["CPUExecutionProvider"])
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)
    assert options.use_deterministic_compute
    assert options.log_severity_level == 4  # of messages that end the process
    levels = onnxruntime.GraphOptimizationLevel
    assert options.graph_optimization_level == (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    )


@pytest.mark.parametrize(("length", "end"), [(300, ""), (301, "...")])
def test_a_long_reason_is_cut_to_300_characters(length, end):
    assert reason_of(ValueError("r" * length)) == "r" * (300 - len(end)) + end
