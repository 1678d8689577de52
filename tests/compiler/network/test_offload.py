"""Operators on the accelerator, and the reasons why others cannot be offloaded."""

import numpy as np
import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import LEAST, Net, resized
from tests.compiler.network.test_networks import check
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.lower.tables import OPERATORS
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import Offloaded
from vdla.compiler.rules import Unfit
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.host.convolution import conv_integer
from vdla.runtime.host.windows import padded
from vdla.runtime.layout import Layout


def sums(image: np.ndarray, weights: np.ndarray, size: Convolution, border: int) -> np.ndarray:
    return conv_integer(
        padded(image, size.padding, border),
        weights,
        dilations=size.dilation,
        group=size.groups,
        pads=(0, 0, 0, 0),
        strides=size.stride,
    )


# Factors and averages of channels


SHARED = TINY.with_changes(block_in=8)  # than which block_out is less


@pytest.mark.parametrize("factors", [[-3], [1, 1, 1, 1, 1], [127, -127, 0, 3, -1]])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 5), -1), ((1, 5, 2, 3), 1)])
@pytest.mark.parametrize("config", [TINY, SHARED.with_changes(batch=2), DEFAULT])
def test_factors_of_channels_are_a_depthwise_convolution(factors, shape, axis, config):
    net = Net()
    graph = net.graph(net.scale(net.input(*shape), axis, np.array(factors, np.int8)))
    offloaded = offload(graph, graph.nodes[-1], Target(config))
    assert isinstance(offloaded, Offloaded)
    assert offloaded.macs == 6 * 5
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes))


@pytest.mark.parametrize("config", [TINY, SHARED, DEFAULT])
@pytest.mark.parametrize("of_window", [False, True])
def test_one_block_of_weights_serves_channels_that_share_a_factor(config, of_window):
    net = Net()
    x = net.input(1, 40, 6, 6)
    y = net.average(x, (2, 2)) if of_window else net.scale(x, 1, np.array([-7], np.int8))
    graph = net.graph(y)
    offloaded = offload(graph, graph.nodes[0], Target(config))
    assert isinstance(offloaded, Offloaded)
    blocks = offloaded.constants["W"].size // (config.block_in * config.block_out)
    assert (blocks == 1) == (config.block_in == config.block_out)


# What is refused


def first(op: str) -> Graph:
    """Return a graph of one operator."""
    net = Net()
    x = net.input(1, 4, 5, 5)
    make = {
        "Concat": lambda: net.join(x, x),
        "Int8ConvTranspose": lambda: net.spread(x, 4, (2, 2)),
        "Int8Add": lambda: net.add(x, x),
        "Int8AveragePool": lambda: net.average(x, (2, 2)),
        "Int8Conv": lambda: net.conv(x, 4),
        "Int8LayerNormalization": lambda: net.op(
            "Int8LayerNormalization",
            (net.input(3, 4), net.constant(np.ones(4, np.int16)), net.constant(np.ones(4, np.int32))),
            epsilon=1,
            centred=1,
        ),
        "Int8Lookup": lambda: net.op("Int8Lookup", (x, net.constant(net.integers(256)))),
        "Int8MatMul": lambda: net.matmul(net.input(2, 3), 4),
        "Int8MaxPool": lambda: net.pool(x),
        "Int8Mul": lambda: net.mul(x, x),
        "Int8Products": lambda: multiplied(net, (0, 0)),
        "Int8Requantise": lambda: net.requantise(x),
        "Int8Scale": lambda: net.scale(x, 1),
        "Int8Softmax": lambda: net.op(
            "Int8Softmax",
            (
                net.input(3, 4),
                net.constant(np.arange(256, dtype=np.uint16)),
                *(net.constant(np.array(1, kind)) for kind in (np.int16, np.int32)),
            ),
            axis=1,
        ),
        "Resize": lambda: resized(net, x, (2, 2)),
        "Slice": lambda: net.op("Slice", (x,), axes=(1,), starts=(0,), ends=(4,), steps=(1,)),
        "Transpose": lambda: net.op("Transpose", (x,), perm=(0, 1, 3, 2)),
    }
    return net.graph(make[op]())


def reason(graph: Graph, config: AcceleratorConfig = TINY) -> str:
    unfit = offload(graph, graph.nodes[-1], Target(config), layouts=layouts_of_inputs(graph))
    assert isinstance(unfit, Unfit)
    return unfit.reason


def layouts_of_inputs(graph: Graph) -> dict[str, Layout]:
    """Return the layouts of the inputs as operators on TINY make them."""
    return {name: Layout(type_.shape, TINY.block_out, 1) for name, type_ in graph.inputs.items()}


@pytest.mark.parametrize("op", OPERATORS)
def test_every_operator_is_offloaded_and_needs_what_the_hardware_may_lack(op):
    graph = first(op)
    target = Target(TINY.with_changes(extensions=tuple(Extension)))
    offloaded = offload(graph, graph.nodes[0], target, layouts=layouts_of_inputs(graph))
    assert isinstance(offloaded, Offloaded)
    assert offloaded.node.op == op
    assert (
        reason(graph, TINY.with_changes(acc_bits=16))
        == "configuration tiny with acc_bits = 16; use sums of 32 bits (--set acc_bits=32)"
    )
    assert reason(graph, TINY.with_changes(extensions=(Extension.OVERWRITE,))) == (
        "configuration tiny with the extensions requantise and pad_minimum switched off; "
        "enable extensions `requantise` and `pad_minimum` (--set extensions=+requantise,+pad_minimum)"
    )


@pytest.mark.parametrize(
    ("op", "lacking", "needed"),
    [
        ("Int8MaxPool", "MAX", "MAX and ADD"),
        ("Int8Add", "MUL", "ADD and MUL"),
        ("Int8Mul", "MUL", "ADD and MUL"),
    ],
)
def test_an_operator_needs_its_alu_operations(op, lacking, needed):
    config = TINY.with_changes(
        alu_opcodes=tuple(opcode for opcode in TINY.alu_opcodes if opcode is not AluOpcode[lacking])
    )
    assert reason(first(op), config) == (
        f"configuration tiny with an ALU without {lacking}; {op} needs an ALU with {needed}"
    )


def computed_weights(net: Net) -> Graph:
    x, w = net.input(1, 4, 3, 3), net.transpose(net.input(1, 1, 4, 2))
    return net.graph(
        net.op(
            "Int8Conv",
            (x, w, net.words(2, 999.0)),
            strides=(1, 1),
            pads=(0, 0, 0, 0),
            dilations=(1, 1),
            group=1,
            border=0,
        )
    )


def odd_border(net: Net) -> Graph:
    return net.graph(net.conv(net.input(1, 4, 3, 3), 4, (3, 3), pads=(1, 1, 1, 1), border=3))


def beside_the_image(net: Net) -> Graph:
    x = net.input(1, 4, 3, 1)
    return net.graph(net.conv(x, 4, (1, 2), strides=(1, 4), pads=(0, 2, 0, 0), dilations=(1, 1)))


def spread_unevenly(net: Net) -> Graph:
    return net.graph(net.spread(net.input(1, 2, 3, 3), 2, (3, 3), strides=(3, 3), pads=(1, 1, 1, 1)))


def spread_and_cut(net: Net) -> Graph:
    return net.graph(net.spread(net.input(1, 2, 4, 4), 2, (2, 2), strides=(2, 2), pads=(2, 2, 2, 2)))


WIDE = "the accelerator takes int8 weights, or wider weights as sums of int8 parts"
ZERO = "the accelerator takes an input of zero point 0, or of another as a sum of int8 parts"
INT8 = "the accelerator takes int8 operands of one dimension or more, not constant"
PHASES = (
    "the accelerator takes strides of 1 or 2, or of which one divides the padding; they divide the result"
)


def multiplied(net: Net, zeros: tuple[int, int]) -> str:
    """Return the product of two activations."""
    return net.op(
        "Int8Products",
        (net.input(3, 4), net.input(4, 4), net.words(1, 9000.0)),
        a_places=(0, 0),
        b_places=(0, 0),
        places=(0, 0),
        shape=(3, 4),
        size=(3, 4, 4),
        transposed=0,
        zeros=zeros,
    )


REFUSED = {
    "Int8Products with zero points 0 and -7; enable extension `table` (--set extensions=+table)": (
        lambda net: net.graph(multiplied(net, (0, -7)))
    ),
    "Int8Conv with v0 that is not constant; the accelerator takes constant weights and parameters": (
        computed_weights
    ),
    f"Int8MatMul with weights of int16; {WIDE}": lambda net: net.graph(
        net.matmul(net.input(2, 3), 4, net.wide(3, 4))
    ),
    f"Int8ConvTranspose with an input of zero point -128; {ZERO}": lambda net: net.graph(
        net.spread(net.input(1, 2, 3, 3), 2, (2, 2), zero=LEAST)
    ),
    "Int8Scale with axis = 1 of 3 dimensions; "
    "the accelerator takes channels of images, or the last dimension": lambda net: net.graph(
        net.scale(net.input(2, 3, 5), 1)
    ),
    f"Int8MatMul with constant operand c0; {INT8}": lambda net: net.graph(
        net.matmul(net.constant(net.integers(2, 3)), 4)
    ),
    f"Int8Requantise with constant operand c0; {INT8}": lambda net: net.graph(
        net.requantise(net.constant(net.integers(2, 3)))
    ),
    f"Int8Requantise with operand x0 without dimensions; {INT8}": lambda net: net.graph(
        net.requantise(net.input())
    ),
    "configuration tiny with the extension table switched off; enable extension `table` (--set "
    "extensions=+table)": (
        lambda net: net.graph(net.op("Int8Lookup", (net.input(2, 3), net.constant(net.integers(256)))))
    ),
    "Int8Add with operands of the shapes (2, 3) and (3,); the accelerator takes operands of one shape": (
        lambda net: net.graph(net.add(net.input(2, 3), net.input(3)))
    ),
    "Int8Mul with operands of the shapes (2, 3) and (3,); the accelerator takes operands of one shape, "
    "or a factor for each channel of one image and a batch of 1": (
        lambda net: net.graph(net.mul(net.input(2, 3), net.input(3)))
    ),
    f"Int8MaxPool with constant operand c0; {INT8}": lambda net: net.graph(
        net.pool(net.constant(net.integers(1, 2, 3, 3)))
    ),
    "Int8Conv with a border of 3; enable extension `pad_value` (--set extensions=+pad_value), or "
    "quantise its input with the zero point 0 or -128": odd_border,
    "Int8AveragePool with a border of 3; enable extension `pad_value` (--set extensions=+pad_value), or "
    "quantise its input with the zero point 0 or -128": lambda net: net.graph(
        net.average(net.input(1, 4, 3, 3), (3, 3), pads=(1, 1, 1, 1), border=3)
    ),
    "Int8Conv with a kernel that reads padding alone; the accelerator takes kernels that read at least one pixel of the image": (
        beside_the_image
    ),
    "Int8ConvTranspose with a result of 7 with stride 3 and padding 1, which has no uniform phases; "
    f"{PHASES}": spread_unevenly,
    f"Int8ConvTranspose with padding 2, which cuts off whole elements of the input; {PHASES}": spread_and_cut,
    "Concat with operand x0 of 6 channels in blocks of 4; "
    "the accelerator takes whole blocks of channels in all operands but the last, along channels": lambda net: (
        net.graph(net.join(x := net.input(2, 6), x, axis=-1))
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_offloaded_says_why(message):
    assert reason(REFUSED[message](Net())) == message


def test_what_does_not_fit_says_so():
    net = Net()
    graph = net.graph(net.conv(net.input(1, 4, 40, 400), 4, (20, 20)))
    assert "fit" in reason(
        graph, TINY.with_changes(inp_buffer_bytes=64, wgt_buffer_bytes=64, acc_buffer_bytes=256)
    )
