"""The built-in suites are the layers of the published networks, built here stage by stage."""

from math import prod

import pytest

from vdla.explore.sweep.specification import Conv
from vdla.explore.sweep.suites import MOBILENET, RESNET18

WIDTHS = (64, 128, 128, 256, 256, *(512,) * 6, 1024)
STRIDES = (2, 1, 2, 1, 2, *(1,) * 5, 2, 1)
"""Of the depthwise convolutions of MobileNet-v1 from the second on. Source: MobileNets, 2017, table 1."""


def resnet18() -> set[tuple[int, ...]]:
    """Return size, channels, outputs, kernel and stride of each convolution. Source: He et al., 2015, table 1;
    TVM counts a 1x1 convolution of the first stage, too."""
    found = {(224, 3, 64, 7, 2), (56, 64, 64, 1, 1)}
    for stage in range(4):
        size, outputs = 56 >> stage, 64 << stage
        found.add((size, outputs, outputs, 3, 1))
        if stage:
            found |= {(2 * size, outputs // 2, outputs, kernel, 2) for kernel in (3, 1)}
    return found


def mobilenet() -> set[tuple[int, ...]]:
    found, size = {(112, 32, 1)}, 112
    for channels, stride in zip(WIDTHS, STRIDES, strict=True):
        found.add((size, channels, stride))
        size //= stride
    return found


def test_resnet18_has_each_of_its_convolutions_once():
    layers = [(one.size, one.channels, one.outputs, one.kernel, one.stride) for one in RESNET18.values()]
    assert len(layers) == len(set(layers))
    assert set(layers) == resnet18()
    assert {one.groups for one in RESNET18.values()} == {1}
    assert list(RESNET18) == [f"C{number}" for number in range(1, 13)]


def test_mobilenet_has_each_of_its_depthwise_convolutions_once():
    layers = [(one.size, one.channels, one.stride) for one in MOBILENET.values()]
    assert len(layers) == len(set(layers))
    assert set(layers) == mobilenet()
    assert all(one.channels == one.outputs == one.groups and one.kernel == 3 for one in MOBILENET.values())
    assert list(MOBILENET) == [f"D{number}" for number in range(1, 10)]


def macs(conv: Conv) -> int:
    return prod((conv.size // conv.stride, conv.size // conv.stride, conv.channels // conv.groups, conv.outputs, conv.kernel, conv.kernel))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"), [("C1", 118_013_952), ("C2", 115_605_504), ("C11", 6_422_528), ("C12", 115_605_504)]
)
def test_layers_of_resnet18_multiply_as_often_as_published(name, expected):
    assert macs(RESNET18[name]) == expected
