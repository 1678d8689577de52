"""Operators on volumes as operators on images: the same bytes, on devices and in proofs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from onnxruntime import InferenceSession

from tests.compiler.graph.onnx.networks import model, node
from tests.compiler.graph.passes.qdq import QdqBuilder
from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import LEAST, TWICE, Net, random_inputs
from tests.compiler.network.test_networks import CONFIGS, assert_equal, check
from vdla.api import compile as compile_model
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.pipeline import FLOATS, INTEGERS
from vdla.compiler.graph.verify import verify
from vdla.compiler.network.target_passes import target_passes
from vdla.compiler.network.volumes import volumes_as_images
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.prove.compare import prove
from vdla.prove.graphs import Graphs
from vdla.runtime.devices.functional import FunctionalDevice

ONES, NONE, AROUND = (1, 1, 1), (0,) * 6, (1,) * 6
WINDOWS = ("Int8AveragePool", "Int8Conv", "Int8ConvTranspose", "Int8MaxPool")
Builder = Callable[[Net], tuple[str, ...] | str]


def conv(net: Net, x: str, outputs: int, kernel: tuple[int, ...] = ONES, **how) -> str:
    return net.conv(x, outputs, kernel, **{"strides": ONES, "pads": NONE, "dilations": ONES, **how})


def average(net: Net, x: str, kernel: tuple[int, ...], **how) -> str:
    return net.average(x, kernel, **{"strides": ONES, "pads": NONE, **how})


def spread(net: Net, x: str, outputs: int, kernel: tuple[int, ...], **how) -> str:
    return net.spread(
        x, outputs, kernel, **{"strides": ONES, "pads": NONE, "output_padding": (0,) * 3, **how}
    )


def after_conv(channels: int, make: Callable[[Net, str], str], shape=(5, 6, 4)) -> Builder:
    """Return an operator on a volume that a convolution makes."""
    return lambda net: make(
        net, conv(net, net.input(1, 3, *shape), channels, (2, 1, 2), pads=(1, 0, 1, 0, 0, 0))
    )


def wide(kernel: tuple[int, ...], channels: int = 16, **how) -> Builder:
    return after_conv(channels, lambda net, x: conv(net, x, 24, kernel, **how))


CONVOLUTIONS: dict[str, Builder] = {
    "few channels of the host": lambda net: conv(net, net.input(1, 3, 5, 6, 4), 8, (3, 3, 3), pads=AROUND),
    "few channels, dilated and strided": lambda net: conv(
        net,
        net.input(1, 3, 9, 6, 4),
        8,
        (3, 2, 1),
        pads=(2, 0, 0, 1, 1, 0),
        strides=(2, 1, 2),
        dilations=(2, 1, 1),
    ),
    "whole blocks of the host": lambda net: conv(
        net, net.input(1, 16, 4, 5, 4), 8, (3, 1, 1), pads=(1, 0, 0) * 2
    ),
    "groups of the host": lambda net: conv(
        net, net.input(1, 6, 4, 5, 4), 12, (3, 3, 3), pads=AROUND, group=3, border=-7
    ),
    "all taps": wide((3, 3, 3), pads=AROUND),
    "a border that is not 0": wide((3, 3, 3), pads=AROUND, border=LEAST),
    "uneven padding": wide((4, 2, 3), pads=(0, 1, 2, 2, 0, 1), border=9),
    "strides": wide((3, 3, 3), pads=AROUND, strides=(2, 2, 2), border=-5),
    "strides without a kernel": wide(ONES, strides=(2, 2, 2)),
    "dilations": wide((3, 2, 2), pads=(2, 1, 0, 2, 0, 1), dilations=(2, 1, 2)),
    "space alone": wide((1, 3, 3), pads=(0, 1, 1, 0, 1, 1)),
    "depth alone": wide((3, 1, 1), pads=(1, 0, 0, 1, 0, 0)),
    "a kernel as deep as the volume": wide((5, 6, 3)),
    "padding alone": wide((2, 1, 1), pads=(3, 0, 0, 2, 0, 0), border=11),
    "parts of blocks": wide((3, 3, 1), channels=10, pads=(1, 1, 0, 1, 1, 0)),
    "groups of whole blocks": wide((3, 3, 3), channels=32, group=2, pads=AROUND),
    "groups of parts of blocks": wide((3, 1, 1), channels=48, group=12, pads=(1, 0, 0, 1, 0, 0)),
    "groups of no whole blocks": wide((2, 2, 2), channels=12, group=4),
    "depthwise": after_conv(32, lambda net, x: conv(net, x, 32, (3, 3, 3), group=32, pads=AROUND, border=3)),
    "depthwise with twice the channels": after_conv(32, lambda net, x: conv(net, x, 64, (3, 1, 1), group=32)),
    "depthwise of space": after_conv(
        32, lambda net, x: conv(net, x, 32, (1, 3, 3), group=32, pads=(0, 1, 1, 0, 1, 1))
    ),
    "transposed": after_conv(16, lambda net, x: spread(net, x, 8, (2, 2, 2), strides=(2, 2, 2))),
    "transposed with a zero point": after_conv(
        16,
        lambda net, x: spread(
            net, x, 8, (3, 3, 3), strides=(2, 2, 2), pads=AROUND, output_padding=ONES, zero=-9
        ),
    ),
    "transposed with gaps": after_conv(16, lambda net, x: spread(net, x, 8, (1, 2, 1), strides=(3, 2, 1))),
}
POOLS: dict[str, Builder] = {
    "maximum": after_conv(20, lambda net, x: net.pool(x, (2, 2, 2), strides=(2, 2, 2), pads=NONE)),
    "maximum with a border": after_conv(
        20, lambda net, x: net.pool(x, (3, 3, 2), strides=(2, 1, 2), pads=AROUND)
    ),
    "maximum of depth": after_conv(
        20, lambda net, x: net.pool(x, (3, 1, 1), strides=ONES, pads=(1, 0, 0, 1, 0, 0))
    ),
    "maximum of space": after_conv(20, lambda net, x: net.pool(x, (1, 2, 2), strides=(2, 2, 2), pads=NONE)),
    "mean of all": after_conv(20, lambda net, x: average(net, x, net.shape(x)[2:])),
    "mean of planes": after_conv(
        20, lambda net, x: average(net, x, (2, *net.shape(x)[3:]), strides=(2, 1, 1))
    ),
    "mean of planes and a border": after_conv(
        20, lambda net, x: average(net, x, (3, *net.shape(x)[3:]), pads=(2, 0, 0, 1, 0, 0), border=-20)
    ),
    "mean of windows": after_conv(
        32, lambda net, x: average(net, x, (3, 2, 2), strides=(2, 2, 1), pads=(1, 1, 0, 1, 0, 0), border=5)
    ),
    "mean of space": after_conv(20, lambda net, x: average(net, x, (1, 2, 2), strides=(2, 2, 2))),
}


def residual(net: Net) -> str:
    x = conv(net, net.input(1, 3, 4, 6, 6), 16, (3, 3, 3), pads=AROUND, border=LEAST)
    y = conv(net, conv(net, x, 16, (3, 3, 3), pads=AROUND), 16, (1, 3, 3), pads=(0, 1, 1, 0, 1, 1))
    return average(net, net.scale(net.add(x, y), 1), (4, 6, 6))


def recalibrated(net: Net) -> str:
    """Factors of channels, computed from the means of a volume."""
    x = conv(net, net.input(1, 3, 3, 4, 4), 16, (3, 3, 3), pads=AROUND)
    table = net.constant(net.integers(256))
    factors = net.op("Int8Lookup", (conv(net, average(net, x, (3, 4, 4)), 16), table))
    return net.mul(x, factors)


def decoder(net: Net) -> str:
    x = conv(net, net.input(1, 3, 4, 4, 4), 16, (3, 3, 3), pads=AROUND)
    low = conv(net, net.pool(x, (2, 2, 2), strides=(2, 2, 2), pads=NONE), 16)
    sizes, scales = (1, 16, 4, 4, 4), (1.0, 1.0, 2.0, 2.0, 2.0)
    high = net.op("Resize", (low,), sizes=sizes, scales=scales, **TWICE)
    return conv(net, net.join(x, high), 8, (3, 3, 3), pads=AROUND)


def pieces_of_depth(net: Net) -> tuple[str, ...]:
    x = conv(net, net.input(1, 3, 5, 4, 4), 32)
    first = net.op("Split", (x,), 2, axis=2, split=(2, 3))
    last = net.op("Slice", (x,), axes=(2,), starts=(-3,), ends=(9,), steps=(2,))
    half = net.op("Slice", (x,), axes=(1,), starts=(16,), ends=(32,), steps=(1,))
    return conv(net, net.join(first, last, axis=2), 4), conv(net, half, 4), f"{first}_1"


def flattened(net: Net) -> tuple[str, ...]:
    x = conv(net, net.input(1, 3, 2, 4, 4), 16, (2, 1, 1))
    y = conv(net, net.requantise(net.reshape(net.matmul(net.input(1, 4), 16), 1, 16, 1, 1, 1)), 4)
    return net.matmul(net.reshape(average(net, x, (1, 4, 4)), 1, 16), 5), y, x


NETWORKS: dict[str, Builder] = {
    build.__name__: build for build in (residual, recalibrated, decoder, pieces_of_depth, flattened)
}
ALL = {**CONVOLUTIONS, **POOLS, **NETWORKS}


def graph_of(title: str) -> Graph:
    net = Net()
    results = ALL[title](net)
    return net.graph(*((results,) if isinstance(results, str) else results))


@pytest.mark.parametrize("title", ALL)
@pytest.mark.parametrize("config", [DEFAULT, TINY], ids=lambda config: config.name)
def test_images_compute_the_same_bytes(title, config):
    graph = graph_of(title)
    changed = volumes_as_images(graph, Target(config))
    verify(changed)
    for seed in range(2):
        inputs = random_inputs(graph, seed)
        assert_equal(interpret(changed, inputs), interpret(graph, inputs))
    windows = [
        changed.types[name] for each in changed.nodes if each.op in WINDOWS for name in each.inputs[:1]
    ]
    assert windows
    assert {len(type_.shape) for type_ in windows} == {4}
    assert volumes_as_images(changed, Target(config)) is changed


ON_HOST = {"Concat", "Reshape", "Slice", "Split"}


@pytest.mark.parametrize("title", ALL)
def test_the_accelerator_computes_everything_between_the_ends_in_one_launch(title):
    graph = graph_of(title)
    plan = plan_of(graph, DEFAULT)
    assert len(plan.launches) == 1
    assert {step.op for step in plan.host_steps} <= ON_HOST
    check(graph, plan, FunctionalDevice(DEFAULT, plan.dram_bytes, 0))


@pytest.mark.parametrize("title", NETWORKS)
@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_the_same_on_other_accelerators(title, name):
    graph, config = graph_of(title), CONFIGS[name]
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))


PROVED = (
    "few channels of the host",
    "groups of no whole blocks",
    "transposed with gaps",
    "maximum of depth",
    "mean of planes and a border",
)


@pytest.mark.parametrize("title", PROVED)
def test_proofs_cover_the_division(title):
    graph = graph_of(title)
    plan = plan_of(graph, DEFAULT)
    changed = target_passes(plan.target).run(graph)
    assert prove(plan, Graphs(graph, changed), seed=0).proved
    wrong = replace(changed, constants={**changed.constants, **_one_weight_changed(changed)})
    assert not prove(plan, Graphs(graph, wrong), seed=0).proved


def _one_weight_changed(graph: Graph) -> dict[str, np.ndarray]:
    name = next(
        each.inputs[1] for each in reversed(graph.nodes) if each.op in ("Int8Conv", "Int8ConvTranspose")
    )
    array = graph.constants[name].copy()
    array.flat[-1] ^= 1
    return {name: array}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_quantised_file_keeps_nothing_on_the_host(dtype):
    of = QdqBuilder(1, dtype)
    window = {"dilations": ONES, "pads": AROUND, "strides": ONES}
    x = of.add(
        "Conv",
        of.quantised(1, 3, 4, 5, 5),
        of.weights(16, 3, 3, 3, 3, axis=0),
        of.bias(16, "float"),
        group=1,
        **window,
    )
    y = of.pair(of.add("Relu", x))
    nine_bits = of.weights(16, 16, 3, 3, 3, axis=-1, zero=20 if dtype == "uint8" else 0, dtype=dtype)
    z = of.pair(of.add("Conv", y, nine_bits, group=1, **window))
    total = of.pair(of.add("Add", y, z))
    size = {"ceil_mode": 0, "dilations": ONES, "kernel_shape": (2, 2, 2), "pads": NONE, "strides": (2, 2, 2)}
    pooled = of.kept(of.add("MaxPool", total, **size), total)
    graph = INTEGERS.run(FLOATS.run(of.finish(of.pair(of.add("GlobalAveragePool", pooled)))))
    plan = plan_of(graph, TINY.with_changes(extensions=tuple(Extension)))
    assert {step.op for step in plan.host_steps} <= {
        "QuantizeLinear",
        "DequantizeLinear",
        "FlipSign",
    } | ON_HOST
    assert len(plan.launches) == 1
    check(graph, plan, FunctionalDevice(plan.config, plan.dram_bytes, 0))


def test_slices_of_equal_taps_share_their_weights():
    graph = volumes_as_images(graph_of("all taps"), Target(DEFAULT))
    weights = [each.inputs[1] for each in graph.nodes if each.op == "Int8Conv"][-5:]
    assert len(set(weights)) == 3  # the first slice, the last, and all between


def test_a_volume_that_no_window_reads_stays():
    net = Net()
    graph = net.graph(net.requantise(net.input(1, 16, 2, 3, 3)))
    assert volumes_as_images(graph, Target(DEFAULT)) is graph


def test_a_target_without_convolutions_keeps_volumes():
    graph = graph_of("all taps")
    config = TINY.with_changes(extensions=())
    assert volumes_as_images(graph, Target(config)) is graph


RNG = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    return RNG.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape).astype(np.float32)


C3D = [
    node("BatchNormalization", "x m m m m", "x0"),
    node("Conv", "x0 a", "x1", pads=[1] * 6),
    node("Relu", "x1", "x2"),
    node("MaxPool", "x2", "x3", kernel_shape=[1, 2, 2], strides=[1, 2, 2]),
    node("Conv", "x3 b", "x4", pads=[1] * 6),
    node("Relu", "x4", "x5"),
    node("MaxPool", "x5", "x6", kernel_shape=[2, 2, 2], strides=[2, 2, 2]),
    node("Flatten", "x6", "x7"),
    node("Gemm", "x7 c", "y", transB=1),
]
RESNET = [
    node("Conv", "x a", "x1", pads=[1] * 6, strides=[1, 2, 2]),
    node("BatchNormalization", "x1 n n n v", "x2"),
    node("Relu", "x2", "x3"),
    node("Conv", "x3 d", "x4", pads=[0, 1, 1, 0, 1, 1]),
    node("Relu", "x4", "x5"),
    node("Conv", "x5 e", "x6", pads=[1, 0, 0, 1, 0, 0]),
    node("Add", "x6 x3", "x7"),
    node("Relu", "x7", "x8"),
    node("Conv", "x8 f", "x9", strides=[2, 2, 2]),
    node("GlobalAveragePool", "x9", "x10"),
    node("Flatten", "x10", "x11"),
    node("Gemm", "x11 g", "y", transB=1),
]
WEIGHTS = {
    "a": real(16, 3, 3, 3, 3),
    "b": real(32, 16, 3, 3, 3),
    "c": real(10, 32 * 2 * 2 * 2),
    "d": real(16, 16, 1, 3, 3),
    "e": real(16, 16, 3, 1, 1),
    "f": real(32, 16, 1, 1, 1),
    "g": real(10, 32),
    "m": RNG.uniform(0.5, 1, 3).astype(np.float32),
    "n": RNG.uniform(0.5, 1, 16).astype(np.float32),
    "v": np.ones(16, np.float32),
}


@pytest.mark.parametrize("nodes", [C3D, RESNET], ids=["c3d", "resnet"])
def test_float_networks_of_volumes_run_in_one_launch(nodes):
    read = {name for each in nodes for name in each.input}
    weights = {name: array for name, array in WEIGHTS.items() if name in read}
    x = RNG.normal(size=(4, 3, 4, 8, 8)).astype(np.float32)
    built = model(nodes, {"x": (1, 3, 4, 8, 8)}, ["y"], weights)
    for each in built.graph.node:
        each.name = f"{each.op_type}_{each.output[0]}"  # onnxruntime takes unique names
    module = compile_model(built, samples={"x": x}, quality="fast")
    summary = module.summary()
    assert (summary.launches, summary.mac_share) == (1, 1.0)
    floats = InferenceSession(built.SerializeToString())
    wanted = np.concatenate([floats.run(None, {"x": each[None]})[0] for each in x])
    noise = module.run({"x": x}).outputs["y"] - wanted
    assert 10 * np.log10(wanted.var() / noise.var()) > 30
