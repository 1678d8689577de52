"""Built-in suites of layers."""

from collections.abc import Mapping

from vdla.explore.sweep.specification import Conv


def _same(size: int, channels: int, outputs: int, kernel: int, stride: int) -> Conv:
    return Conv(channels=channels, outputs=outputs, size=size, kernel=kernel, stride=stride)


def _depthwise(size: int, channels: int, stride: int) -> Conv:
    return Conv(channels=channels, outputs=channels, size=size, stride=stride, groups=channels)


RESNET18: Mapping[str, Conv] = {
    "C1": _same(224, 3, 64, 7, 2),
    "C2": _same(56, 64, 64, 3, 1),
    "C3": _same(56, 64, 64, 1, 1),
    "C4": _same(56, 64, 128, 3, 2),
    "C5": _same(56, 64, 128, 1, 2),
    "C6": _same(28, 128, 128, 3, 1),
    "C7": _same(28, 128, 256, 3, 2),
    "C8": _same(28, 128, 256, 1, 2),
    "C9": _same(14, 256, 256, 3, 1),
    "C10": _same(14, 256, 512, 3, 2),
    "C11": _same(14, 256, 512, 1, 2),
    "C12": _same(7, 512, 512, 3, 1),
}
"""The convolutions of ResNet-18. Source: TVM, OSDI 2018, table 2."""

MOBILENET: Mapping[str, Conv] = {
    "D1": _depthwise(112, 32, 1),
    "D2": _depthwise(112, 64, 2),
    "D3": _depthwise(56, 128, 1),
    "D4": _depthwise(56, 128, 2),
    "D5": _depthwise(28, 256, 1),
    "D6": _depthwise(28, 256, 2),
    "D7": _depthwise(14, 512, 1),
    "D8": _depthwise(14, 512, 2),
    "D9": _depthwise(7, 1024, 1),
}
"""The depthwise convolutions of MobileNet-v1. Source: TVM, OSDI 2018, table 2."""

SUITES: Mapping[str, Mapping[str, Conv]] = {
    "resnet18-convolutions": RESNET18,
    "mobilenet-depthwise": MOBILENET,
}
