"""Workloads: convolutions by shape, models, and suites, the layers of the published networks."""

from math import prod

import numpy as np
import pytest

from vdla.compiler.graph.interpret import interpret
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.specification import Conv, from_values
from vdla.explore.sweep.workloads import MOBILENET, RESNET18, conv_graph, workloads_of
from vdla.hw.spec.target_files import load

WIDTHS = (64, 128, 128, 256, 256, *(512,) * 6, 1024)
STRIDES = (2, 1, 2, 1, 2, *(1,) * 5, 2, 1)
"""Of the depthwise convolutions of MobileNet-v1 from the second on. Source: MobileNets, 2017, table 1."""


def workloads(tmp_path, *tables):
    """Return the workloads of a specification."""
    return workloads_of(
        from_values({"parameters": {"batch": 1}, "workloads": list(tables)}), tmp_path, load("default")
    )


@pytest.mark.parametrize(
    ("conv", "shape"),
    [
        (Conv(channels=16, outputs=32, size=8), (1, 32, 8, 8)),
        (Conv(channels=16, outputs=32, size=8, stride=2), (1, 32, 4, 4)),
        (Conv(channels=16, outputs=32, size=8, padding="valid"), (1, 32, 6, 6)),
        (Conv(channels=16, outputs=32, size=8, padding=2, kernel=1), (1, 32, 12, 12)),
        (Conv(channels=16, outputs=32, height=5, width=9, dilation=2), (1, 32, 5, 9)),
        (Conv(channels=16, outputs=16, size=8, groups=16), (1, 16, 8, 8)),
        (Conv(channels=16, outputs=16, size=8, kernel=(1, 7), stride=(2, 1)), (1, 16, 4, 8)),
    ],
)
def test_a_convolution_computes_its_shape(conv, shape):
    graph = conv_graph("layer", conv)
    x = np.random.default_rng(0).integers(-128, 128, graph.inputs["x"].shape, np.int8)
    result = interpret(graph, {"x": x})["y"]
    assert (result.shape, result.dtype) == (shape, np.int8)
    assert np.ptp(result.astype(int)) > 100, "requantisation keeps the range of int8 in use"


def test_a_suite_is_its_layers_and_may_have_a_prefix(tmp_path):
    assert [workload.name for workload in workloads(tmp_path, {"suite": "resnet18-convolutions"})] == list(
        RESNET18
    )
    named = workloads(tmp_path, {"suite": "mobilenet-depthwise", "name": "m"})
    assert [workload.name for workload in named] == [f"m.{name}" for name in MOBILENET]


def test_a_convolution_is_called_by_its_shape(tmp_path):
    (workload,) = workloads(tmp_path, {"conv": {"size": 8, "channels": 16, "outputs": 16, "groups": 16}})
    assert workload.name == "conv_8x8_16_16_3x3_s1_g16"


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([{"suite": "resnet-convolutions"}], "workloads[0]: suite 'resnet-convolutions' is unknown; did you mean resnet18-convolutions?"),
        ([{"model": "no.onnx"}], "workloads[0]: no.onnx does not exist in"),
        ([{"model": "bad.onnx"}], "bad.onnx"),
        ([{"conv": {"size": 8, "channels": 3, "outputs": 8, "stride": [1, 0]}}], "workloads[0]: stride = (1, 0) is outside 1..65536"),
        ([{"conv": {"size": 8, "channels": 65536, "outputs": 65536}}], "workloads[0]: its weights take 38654705664 bytes"),
        ([{"conv": {"channels": 3, "outputs": 8}}], "workloads[0]: conv needs size, or height and width"),
        ([{"conv": {"size": 8, "channels": 3, "outputs": 8, "groups": 2}}], "workloads[0]: channels = 3 is not a multiple of groups = 2"),
        ([{"conv": {"size": 2, "channels": 8, "outputs": 8, "padding": "valid"}}], "workloads[0]: a kernel of 3 x 3 pixels does not fit an input of 2 x 2 with padding 0 and 0"),
        ([{"suite": "mobilenet-depthwise"}, {"suite": "mobilenet-depthwise"}], "two workloads are called 'D1'"),
    ],
)  # fmt: skip
def test_a_wrong_workload_is_one_line(tmp_path, tables, message):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(SweepError) as caught:
        workloads(tmp_path, *tables)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def resnet18() -> set[tuple[int, ...]]:
    """Return size, channels, outputs, kernel and stride of each convolution. Source: He et al., 2015, table 1;
    TVM counts a 1x1 convolution of the first stage, too."""
    shapes = {(224, 3, 64, 7, 2), (56, 64, 64, 1, 1)}
    for stage in range(4):
        size, outputs = 56 >> stage, 64 << stage
        shapes.add((size, outputs, outputs, 3, 1))
        if stage:
            shapes |= {(2 * size, outputs // 2, outputs, kernel, 2) for kernel in (3, 1)}
    return shapes


def mobilenet() -> set[tuple[int, ...]]:
    shapes, size = {(112, 32, 1)}, 112
    for channels, stride in zip(WIDTHS, STRIDES, strict=True):
        shapes.add((size, channels, stride))
        size //= stride
    return shapes


def test_resnet18_has_each_of_its_convolutions_once():
    layers = [
        (layer.size, layer.channels, layer.outputs, layer.kernel, layer.stride) for layer in RESNET18.values()
    ]
    assert len(layers) == len(set(layers))
    assert set(layers) == resnet18()
    assert {layer.groups for layer in RESNET18.values()} == {1}
    assert list(RESNET18) == [f"C{number}" for number in range(1, 13)]


def test_mobilenet_has_each_of_its_depthwise_convolutions_once():
    layers = [(layer.size, layer.channels, layer.stride) for layer in MOBILENET.values()]
    assert len(layers) == len(set(layers))
    assert set(layers) == mobilenet()
    assert all(
        layer.channels == layer.outputs == layer.groups and layer.kernel == 3 for layer in MOBILENET.values()
    )
    assert list(MOBILENET) == [f"D{number}" for number in range(1, 10)]


def macs(conv: Conv) -> int:
    return prod((conv.size // conv.stride, conv.size // conv.stride, conv.channels // conv.groups, conv.outputs, conv.kernel, conv.kernel))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"), [("C1", 118_013_952), ("C2", 115_605_504), ("C11", 6_422_528), ("C12", 115_605_504)]
)
def test_layers_of_resnet18_multiply_as_often_as_published(name, expected):
    assert macs(RESNET18[name]) == expected
