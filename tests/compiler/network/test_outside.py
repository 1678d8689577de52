"""Networks with operators that the kit has not, beside convolutions: from the model to the module's outputs."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.compiler.graph.onnx.networks import model, node
from vdla.api import Module
from vdla.cli.inspect import described
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.network.compile import compile_network
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.host.onnx_runtime import PART
from vdla.runtime.module.file import from_bytes, to_bytes
from vdla.runtime.module.plan import ModuleError

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape, scale=0.3).astype(np.float32)


def branch(op: str):
    """Return a branch that computes on the value `r` outside of it."""
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 8, 6, 6])
    return helper.make_graph([node(op, "r", "z")], op, [], [value])


CONV = [node("Conv", "input.1 w1", "208"), node("Relu", "208", "r")]
SECOND = helper.make_node("Conv", ["b", "w2"], ["a/b"])
NETWORKS = {
    "If": (
        [
            *CONV,
            node("ReduceMax", "r", "top", keepdims=0),
            node("Greater", "top two", "much"),
            node("If", "much", "b", then_branch=branch("Relu"), else_branch=branch("Sqrt")),
            SECOND,
        ],
        "a/b",
        {"two": np.float32(2)},
    ),
    "LSTM": (
        [
            *CONV,
            node("Reshape", "r rows", "rows_of"),
            node("LSTM", "rows_of lstm.w lstm.r", "h", hidden_size=6, clip=9.0),
            node("Squeeze", "h ones", "s"),
            node("MatMul", "s last", "y"),
        ],
        "y",
        {
            "rows": np.array([8, 1, 36]),
            "lstm.w": weights(1, 24, 36),
            "lstm.r": weights(1, 24, 6),
            "ones": np.array([1]),
            "last": weights(6, 5),
        },
    ),
    "TopK": (
        [*CONV, node("TopK", "r three", "b places"), node("CumSum", "b axis", "y")],
        "y",
        {"three": np.array([3]), "axis": np.array(1)},
    ),
    "shapes that only a run tells": (
        [
            *CONV,
            helper.make_node("Conv", ["r", "w2"], ["c"]),
            node("NonZero", "c", "n"),
        ],
        "n",
        {},
    ),
}


def network(name: str):
    """Return a model of an image [1, 3, 8, 8]."""
    nodes, output, constants = NETWORKS[name]
    constants = {"w1": weights(8, 3, 3, 3), "w2": weights(4, 8, 3, 3), **constants}
    proto = model(nodes, {"input.1": [1, 3, 8, 8]}, [output], constants)
    if name == "shapes that only a run tells":
        proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    return proto


def image(seed: int) -> dict[str, np.ndarray]:
    return {"input.1": np.random.default_rng(seed).normal(size=(1, 3, 8, 8)).astype(np.float32)}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_module_equals_the_interpreter_also_after_it_was_saved(name):
    proto = network(name)
    samples = [image(seed) for seed in range(4)]
    compiled = compile_network(proto.SerializeToString(), Target(TINY), samples=samples)
    assert compiled.plan.launches
    assert [step.op for step in compiled.plan.host_steps].count(PART) == 1
    data = to_bytes(compiled.plan)
    assert to_bytes(from_bytes(data)) == data
    for inputs in samples:
        expected = interpret(compiled.graph, inputs)
        for plan in (compiled.plan, from_bytes(data)):
            results = Module(plan).run(inputs).outputs
            assert list(results) == [proto.graph.output[0].name]
            for key, array in expected.items():
                np.testing.assert_array_equal(results[key], array)


@pytest.mark.parametrize("name", ["If", "LSTM", "TopK"])
def test_a_module_is_as_near_to_onnxruntime_as_its_convolutions(name):
    proto = network(name)
    samples = [image(seed) for seed in range(4)]
    module = Module(compile_network(proto.SerializeToString(), Target(TINY), samples=samples).plan)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for inputs in samples:
        (expected,) = session.run(None, inputs)
        (result,) = module.run(inputs).outputs.values()
        assert np.abs(result - expected).max() < 0.1 * np.abs(expected).max()


def test_the_report_says_what_runs_there_and_why():
    plan = compile_network(network("LSTM").SerializeToString(), Target(TINY), samples=[image(0)]).plan
    (line,) = (line for line in described(plan).splitlines() if line.startswith(f"on the host: {PART}"))
    assert line == (
        "on the host: OnnxRuntime LSTM the_LSTM: onnxruntime runs it: attribute clip = 9.0 is not supported, "
        "leave it out"
    )


UNFIT = {  # for an input [2, 3]
    "a product with a matrix of four rows": node("MatMul", "r w", "z"),
    "an order of three dimensions": node("Transpose", "r", "z", perm=[0, 2, 1]),
}


@pytest.mark.parametrize("title", UNFIT)
@pytest.mark.parametrize("stated", [True, False])
def test_a_branch_that_does_not_fit_the_shapes_may_stay_if_it_is_not_taken(title, stated):
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    unfit, fit = (
        helper.make_graph([node_proto], "g", [], [value])
        for node_proto in (UNFIT[title], node("Exp", "r", "z"))
    )
    nodes = [
        node("Abs", "x", "r"),
        node("ReduceMin", "x", "m", keepdims=0),
        node("Greater", "m zero", "c"),
        node("If", "c", "b", then_branch=unfit, else_branch=fit),
        node("Neg", "b", "y"),
    ]
    constants = {"zero": np.float32(0), "w": weights(4, 3)}
    proto = model(nodes, {"x": [2, 3] if stated else ["n", "m"]}, ["y"], constants)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m"]))
    compiled = compile_network(proto.SerializeToString(), Target(TINY), shapes={"x": (2, 3)})
    x = -np.abs(RNG.normal(size=(2, 3))).astype(np.float32)
    (result,) = Module(from_bytes(to_bytes(compiled.plan))).run({"x": x}).outputs.values()
    np.testing.assert_allclose(result, -np.exp(-x), rtol=1e-6)
    with pytest.raises(ModuleError, match=r"^OnnxRuntime If the_If, .* on the host: .*(MatMul|Transpose)"):
        Module(compiled.plan).run({"x": -x})


def test_products_in_a_loop_count_as_the_hosts_and_what_is_not_known_is_kept():
    """Of a Loop whose condition depends on data one trip counts."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("MatMul", "s w", "t"), node("ReduceMax", "t", "m", keepdims=0), node("Cast", "m", "d", to=9)],
        "body",
        [value("n", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s", 1, [3, 4])],
        [value("d", TensorProto.BOOL, []), value("t", 1, [3, 4])],
    )
    nodes = [helper.make_node("Loop", ["most", "yes", "x"], ["y"], "l", body=body)]
    constants = {"w": weights(4, 4), "most": np.array(6), "yes": np.array(True)}
    proto = model(nodes, {"x": [3, 4]}, ["y"], constants)
    proto.graph.output[0].CopyFrom(value("y", TensorProto.FLOAT, [3, 4]))
    plan = from_bytes(to_bytes(compile_network(proto.SerializeToString(), Target(TINY)).plan))
    (step,) = plan.host_steps
    assert (step.macs, step.uncounted) == (3 * 4 * 4, ("Loop 'l' counted for one trip",))
