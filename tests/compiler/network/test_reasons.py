"""Why operators stay on the host: the exact reason for every kind that can."""

import numpy as np
import pytest

from tests.compiler.graph.integer_forms import test_rules as rules
from tests.compiler.graph.passes.qdq import QdqBuilder
from tests.compiler.network import test_offload as integers
from tests.compiler.network.graphs import HANDMADE, TWICE, Net
from vdla.compiler.codegen.choose import by_estimate
from vdla.compiler.graph.integer_forms import prerequisites
from vdla.compiler.graph.integer_forms.normalisation import OF_ROWS
from vdla.compiler.graph.integer_forms.rules import FUNCTION, QUANTISE
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.to_integers import ToIntegers, is_float
from vdla.compiler.graph.pipeline import INTEGERS, SIMPLIFY
from vdla.compiler.graph.text import print_graph
from vdla.compiler.lower.tables import OPERATORS, RULES
from vdla.compiler.network.compile import FLOATS
from vdla.compiler.network.partition import place
from vdla.compiler.network.placed import OnHost
from vdla.compiler.network.stages import plan_of
from vdla.compiler.network.support import ACCELERATOR, HOST, imported
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host import elementwise
from vdla.runtime.host.evaluate import OPERATORS as ON_HOST


def reasons(graph: Graph) -> list[str]:
    """Return why each operator that stays on the host does."""
    return [
        placement.reason
        for placement in place(ToIntegers().run(graph), Target(TINY))
        if isinstance(placement, OnHost)
    ]


BYTES = "the accelerator takes int8 tensors"
WHOLE_BLOCKS = "the accelerator takes whole blocks of channels (Concat)"
ONE_ROW = (
    "the accelerator takes the same number of rows or pixels, and of channels, before and after (an image of "
    "one pixel is a row; Transpose between channels first and channels last converts images and rows; "
    "heads of whole blocks of channels may be divided and joined)"
)
MADE_THERE = "the accelerator takes an input that an operator on the accelerator computes"
CHANNELS_STAY = "the accelerator takes channels of images or rows that stay channels"
MAYBE_CONSTANT = "the accelerator takes int8 operands of one dimension or more"
NOT_CONSTANT = f"{MAYBE_CONSTANT}, not constant"


def cut(net: Net, axis: int, begin: int, end: int) -> str:
    """Return a Slice of an image of seven channels."""
    x = net.input(1, 7, 3, 3)
    return net.op("Slice", (x,), axes=(axis,), starts=(begin,), ends=(end,), steps=(1,))


MOVED = {  # of the last operator
    f"Transpose with input x0 on the host; {MADE_THERE}": lambda net: net.transpose(net.input(2, 3)),
    f"Transpose with perm = (1, 0) of (2, 3); {CHANNELS_STAY}": lambda net: net.transpose(
        net.requantise(net.input(2, 3))
    ),
    f"Split with single elements to move; {WHOLE_BLOCKS}": lambda net: net.op(
        "Split", (net.input(4),), 2, axis=0, split=(1, 3)
    ),
    f"Transpose with operand x0 of int64; {NOT_CONSTANT}": lambda net: net.transpose(
        net.input(2, 3, dtype="int64")
    ),
    f"Reshape with input x0 of int64; {BYTES}": lambda net: net.reshape(net.input(2, 3, dtype="int64"), 6),
    f"Reshape with a change of int8[2, 3] to int8[6]; {ONE_ROW}": lambda net: net.reshape(
        net.requantise(net.input(2, 3)), 6
    ),
    f"Squeeze with input x0 on the host; {MADE_THERE}": lambda net: net.op(
        "Squeeze", (net.input(1, 6),), axes=(0,)
    ),
    f"Unsqueeze with input x0 on the host; {MADE_THERE}": lambda net: net.op(
        "Unsqueeze", (net.input(6),), axes=(0,)
    ),
    f"Flatten with input x0 on the host; {MADE_THERE}": lambda net: net.op(
        "Flatten", (net.input(1, 6, 1, 1),), axis=1
    ),
    f"DepthToSpace with single elements to move; {WHOLE_BLOCKS}": lambda net: net.op(
        "DepthToSpace", (net.input(1, 4, 2, 2),), blocksize=2, mode="DCR"
    ),
    f"SpaceToDepth with single elements to move; {WHOLE_BLOCKS}": lambda net: net.op(
        "SpaceToDepth", (net.input(1, 4, 2, 2),), blocksize=2, mode="DCR"
    ),
    "Slice with channels 4 to 6 in blocks of 4; the accelerator takes whole blocks of channels": lambda net: (
        cut(net, 1, 4, 6)
    ),
    "Resize with an operand of the shape (2, 3); the accelerator takes one image, and a batch of "
    "1": lambda net: net.op("Resize", (net.input(2, 3),), scales=(1.0, 2.0), sizes=(2, 6), **TWICE),
    "Resize with sizes (1, 4, 3, 3) of an image (1, 4, 2, 2); the accelerator takes pixels repeated by whole "
    "factors": lambda net: net.op(
        "Resize", (net.input(1, 4, 2, 2),), scales=(1.0, 1.0, 1.5, 1.5), sizes=(1, 4, 3, 3), **TWICE
    ),
    f"Concat with operand x0 of int64; {MAYBE_CONSTANT}": lambda net: net.join(
        x := net.input(2, dtype="int64"), x, axis=0
    ),
    "MaxPool with input x0 of int8, not dequantised: it enters the network as int8; "
    "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda net: (
        net.op(
            "MaxPool",
            (net.input(1, 2, 3, 3),),
            ceil_mode=0,
            dilations=(1, 1),
            kernel_shape=(2, 2),
            pads=(0, 0, 0, 0),
            strides=(1, 1),
        )
    ),
}


@pytest.mark.parametrize("reason", MOVED)
def test_operators_on_integers_say_why(reason):
    net = Net()
    assert reasons(net.graph(MOVED[reason](net)))[-1] == reason


def test_conversions_name_who_makes_and_who_reads_real_numbers():
    of = QdqBuilder(0)
    graph = of.finish(
        of.pair(of.add("Softmax", of.add("Transpose", of.quantised(2, 3), perm=(1, 0)), axis=1))
    )
    assert reasons(INTEGERS.run(graph)) == [
        f"QuantizeLinear with input x0 that enters the network as float32; {BYTES}",
        f"Transpose with input quantizelinear_0_0 on the host; {MADE_THERE}",
        "configuration tiny with the extension normalise switched off; enable extensions `table` and "
        "`normalise` (--set extensions=+table,+normalise)",
        f"DequantizeLinear with result dequantizelinear_5_0 that leaves the network as float32; {BYTES}",
    ]


NO_TABLE = (
    "configuration tiny with the extension table switched off; enable extension `table` (--set "
    "extensions=+table)"
)


def test_a_table_between_integers_says_how_to_enable_it():
    """For each operator that it stands for: what the target lacks, and not what the first of them lacks."""
    of = QdqBuilder(0)
    x = of.pair(of.add("Sigmoid", of.quantised(1, 4, 2, 2)), 0.01)
    graph = INTEGERS.run(of.finish(of.pair(of.add("GlobalAveragePool", x), 0.01)))
    assert "Int8Lookup" in [node.op for node in graph.nodes]
    assert NO_TABLE in reasons(graph)
    with_table = Target(TINY.with_changes(extensions=tuple(Extension)))
    on_host = [placement.node.op for placement in place(graph, with_table) if isinstance(placement, OnHost)]
    assert "Int8Lookup" not in on_host


TABULATED = {  # by a table of 256 values: the first operator says why
    f"Sigmoid with a result that is also read as real numbers; {QUANTISE}": lambda of: of.add(
        "Relu", of.add("Sigmoid", of.quantised(3))
    ),
    "Mul with result mul_2_0 that Sigmoid 'sigmoid_3_0' reads as float32, not quantised; "
    "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)": lambda of: (
        of.add("Sigmoid", of.add("Mul", of.quantised(3), of.constant(np.float32([2]))))
    ),
    "Relu with scales that make a ratio of 141042; "
    "the accelerator takes ratios of scales between 0 and 32768": lambda of: of.add(
        "Relu", of.pair(of.input(3), 7052.1)
    ),
}


@pytest.mark.parametrize("reason", TABULATED)
def test_a_table_says_why_its_first_operator_is_not_the_accelerators(reason):
    of = QdqBuilder(0)
    graph = INTEGERS.run(of.finish(of.pair(TABULATED[reason](of), 0.05)))
    assert {node.op: node.reason for node in graph.nodes}["Int8Lookup"] == reason
    assert reason in reasons(graph)
    assert parse_graph(print_graph(graph), graph.constants) == graph


def test_a_change_of_scale_says_why_it_stays():
    of = QdqBuilder(0)
    x = of.add(
        "DequantizeLinear",
        of.add("Cast", of.input(2), to="int8"),
        of.input(),
        of.constant(np.int8(0)),
        axis=0,
    )
    graph = INTEGERS.run(of.finish(of.pair(x, 0.1)))
    again = (
        "DequantizeLinear with input cast_0_0 of a scale or zero point that is not constant; "
        "the accelerator takes one constant scale and zero point for a tensor"
    )
    entered = f"Cast with input x0 not quantised: it enters the network as float32; {QUANTISE}"
    assert reasons(graph)[:3] == [entered, again, again]


NORMALISED = {
    "BatchNormalization with a result of 3 dimensions; the accelerator takes images, of 4 dimensions, or "
    "volumes, of 5": (2, 3, 4),
    "BatchNormalization with parameter x1 that is not constant; the accelerator takes constant parameters": (
        2,
        3,
        4,
        5,
    ),
}


@pytest.mark.parametrize("reason", NORMALISED)
def test_batch_normalisation_says_why(reason):
    of = QdqBuilder(0)
    x, unit = of.input(*NORMALISED[reason]), of.constant(np.ones(3, np.float32))
    parameters = (of.input(3) if "parameter x1" in reason else unit, unit, unit, unit)
    graph = of.finish(of.add("BatchNormalization", x, *parameters, epsilon=1e-5))
    assert reasons(INTEGERS.run(FLOATS.run(graph))) == [reason]


AXES = {"ReduceMax": (1, 2, 3), "ReduceMean": (0, 1)}
SPACE = "the accelerator takes only dimensions of space"
IMAGES = "the accelerator takes rows, images or volumes, of 3 to 5 dimensions"
REDUCED = {
    f"ReduceMean with axes = (0, 1); {SPACE}": (2, 3, 4),
    f"ReduceMax with axes = (1, 2, 3); {SPACE}": (2, 3, 4, 5),
    f"ReduceMax with input x0: float32[1, 2, 1, 3, 4, 5]; {IMAGES}": (1, 2, 1, 3, 4, 5),
    f"GlobalMaxPool with input x0: float32[1, 2, 1, 3, 4, 5]; {IMAGES}": (1, 2, 1, 3, 4, 5),
}


@pytest.mark.parametrize("reason", REDUCED)
def test_a_reduction_says_why(reason):
    of = QdqBuilder(0)
    op = reason.split()[0]
    attributes = {"axes": AXES[op], "keepdims": 0} if op in AXES else {}
    graph = of.finish(of.add(op, of.input(*REDUCED[reason]), **attributes))
    assert reasons(INTEGERS.run(graph)) == [reason]


@pytest.mark.parametrize(
    ("mode", "cause"),
    [("constant", "a border that no operator after it can pad with"), ("reflect", "mode = reflect")],
)
def test_a_border_says_why_no_operator_has_taken_it(mode, cause):
    net = Net()
    x = net.input(1, 2, 4, 4, dtype="float32")
    padded = net.op("Pad", (x,), mode=mode, pads=(0, 0, 1, 1, 0, 0, 1, 1), value=0.0)
    assert reasons(INTEGERS.run(SIMPLIFY.run(net.graph(padded)))) == [
        f"Pad with {cause}; the accelerator takes {prerequisites.TAKEN}"
    ]


def test_the_mean_of_a_normalisation_says_that_it_has_no_form():
    net = Net()
    x = net.input(1, 3, 8, dtype="float32")
    mean = net.op("ReduceMean", (x,), axes=(2,), keepdims=1)
    graph = INTEGERS.run(SIMPLIFY.run(net.graph(net.op("Sub", (x, mean)))))
    assert reasons(graph) == [
        "ReduceMean is a part of a normalisation, which the host runs",
        "Sub with 2 inputs that are not constant; the accelerator takes an elementwise function of one int8 "
        "tensor",
    ]


def test_an_operator_on_quantised_tensors_says_why():
    of = QdqBuilder(0)
    a = of.add("Cast", of.input(3, 3), to="int8")
    zero, scale = of.constant(np.int8(0)), of.constant(np.float32(1))
    graph = of.finish(of.add("QLinearMatMul", a, of.input(), zero, a, scale, zero, scale, zero))
    assert reasons(INTEGERS.run(graph))[-1] == (
        "QLinearMatMul with scale or zero point x1 that is not constant; "
        "the accelerator takes constant scales and zero points"
    )


def test_a_range_that_is_found_while_it_runs_says_what_is_wanted():
    net = Net()
    graph = net.graph(net.op("DynamicQuantizeLinear", (net.input(2, 3, dtype="float32"),), 3))
    assert reasons(INTEGERS.run(graph)) == [
        "DynamicQuantizeLinear with a range computed at run time; "
        "give samples of the inputs (--calibrate SAMPLES.npz)"
    ]


WITHOUT_FORM = sorted(
    set(ON_HOST)
    - {*RULES, *prerequisites.RULES, *OPERATORS, *elementwise.OPERATORS, *OF_ROWS}
    - {"QuantizeLinear", "DequantizeLinear"}
)
FUNCTIONS = sorted({*elementwise.OPERATORS} - {*RULES, *prerequisites.RULES})


@pytest.mark.parametrize("op", FUNCTIONS)
def test_an_operator_that_may_become_a_table_says_what_keeps_it(op):
    wanted = {
        "float32": f"{op} with input x not quantised: it enters the network as float32; {QUANTISE}",
        "int64": f"{op} with input x of int64; the accelerator takes {FUNCTION.takes}",
    }
    for dtype, reason in wanted.items():
        type_ = TensorType((2,), dtype)
        graph = Graph("f", {"x": type_}, ("y",), (Node(op, ("x",), ("y",)),), {}, {"x": type_, "y": type_})
        assert reasons(graph) == [reason]


@pytest.mark.parametrize(
    "operator",
    [operator for operator in imported() if "." not in operator.op],
    ids=lambda operator: operator.op,
)
def test_what_the_table_of_operators_puts_on_the_accelerator_is_not_said_to_be_lacking(operator):
    """`vdla ops` and reasons agree: what is said to be lacking runs on the host, whatever its operands."""
    lacking = operator.op in WITHOUT_FORM
    assert not (lacking and operator.on == ACCELERATOR)
    assert lacking or operator.on != HOST or operator.op in (*RULES, *NEVER_SEEN)


NEVER_SEEN = (
    "CastLike",
    "QuantizeLinear",
    "Upsample",
)  # importing makes others of them, or asks for its rules


@pytest.mark.parametrize("op", WITHOUT_FORM)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_an_operator_of_a_kind_that_the_accelerator_lacks_says_so(op, dtype):
    type_ = TensorType((2,), dtype)
    graph = Graph("f", {"x": type_}, ("y",), (Node(op, ("x",), ("y",)),), {}, {"x": type_, "y": type_})
    called = op.removeprefix("Dequantized").removeprefix("Int8")
    assert reasons(graph) == [f"the accelerator has no {called}"]


def test_every_kind_that_can_stay_on_the_host_has_a_case():
    """The kinds that the tables of cases name, of float operators and of integer operators."""
    rows = {*OF_ROWS, *OF_ROWS.values()}  # `test_normalisation` has their cases
    tables = (rules.UNFIT, rules.AROUND, MOVED, NORMALISED, REDUCED, integers.REFUSED)
    told = {reason.split()[0] for table in tables for reason in table}
    told |= {
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "Int8Lookup",
        "QuantizeLinear",
        "QLinearMatMul",
        "Pad",
        *WITHOUT_FORM,
        *FUNCTIONS,
        *rows,
    }
    alike = {"QLinearConv"}  # one rule for both
    assert set(ON_HOST) - alike - told == set()


def test_the_reason_is_kept_in_the_plan():
    graph = HANDMADE["only the host"](Net())
    (step,) = plan_of(graph, Target(TINY), choose=by_estimate).host_steps
    assert step.reason == f"Transpose with input x0 on the host; {MADE_THERE}"


@pytest.mark.parametrize(("dtype", "expected"), [("int8", False), ("float32", True)])
def test_an_operand_that_is_left_out_is_no_real_number(dtype, expected):
    clip = Node("Clip", ("x", "", ""), ("y",))
    x = TensorType((4,), dtype)
    assert is_float(Graph("net", {"x": x}, ("y",), (clip,), {}, {"x": x, "y": x}), clip) is expected
