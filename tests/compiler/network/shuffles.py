"""Graphs of integer operators between which channels are joined, divided and shuffled, by hand and at random."""

import numpy as np

from tests.compiler.network.graphs import Net
from vdla.compiler.graph.nodes import Graph

PIXELS = (4, 5)


def part(net: Net, x: str, begin: int, end: int, step: int = 1) -> str:
    return net.op("Slice", (x,), axes=(1,), starts=(begin,), ends=(end,), steps=(step,))


def halves(net: Net, x: str, *sizes: int) -> list[str]:
    first = net.op("Split", (x,), len(sizes), axis=1, split=sizes)
    return [first, *(f"{first}_{number}" for number in range(1, len(sizes)))]


def shuffled(net: Net, x: str, groups: int) -> str:
    _, channels, *pixels = net.shape(x)
    parts = net.reshape(x, 1, groups, channels // groups, *pixels)
    turned = net.op("Transpose", (parts,), perm=(0, 2, 1, 3, 4))
    return net.reshape(turned, 1, channels, *pixels)


def depthwise(net: Net, x: str) -> str:
    return net.conv(x, net.shape(x)[1], (3, 3), pads=(1, 1, 1, 1), group=net.shape(x)[1])


def table(net: Net, x: str) -> str:
    return net.op("Int8Lookup", (x, net.constant(net.integers(256))))


def unit(net: Net, x: str, *, again: bool = False) -> str:
    """Return a unit of ShuffleNet v2: the left half stays, the right half is convolved, both are shuffled."""
    half = net.shape(x)[1] // 2
    left, right = halves(net, x, half, half)
    convolved = net.conv(depthwise(net, net.conv(right, half)), half)
    return shuffled(net, net.join(net.requantise(left) if again else left, convolved), 2)


def units(net: Net, channels: int, count: int) -> Graph:
    x = net.input(1, 3, *PIXELS)
    y = shuffled(net, net.join(net.conv(x, channels), net.conv(x, channels)), 2)
    for number in range(count):
        y = unit(net, y, again=number % 2 == 1)
    strided = net.conv(y, 2 * channels, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), group=2 * channels)
    return net.graph(net.conv(net.join(net.conv(strided, channels + 1), net.conv(strided, channels)), 5))


def moved_at_random(net: Net, images: list[str]) -> str:
    rng = net.rng
    x = images[int(rng.integers(len(images)))]
    channels = net.shape(x)[1]
    kind = rng.integers(4)
    if kind == 0 and channels > 2:
        cut = int(rng.integers(1, channels - 1))
        images.append(halves(net, x, cut, channels - cut)[1])
        return f"{images[-1].removesuffix('_1')}"
    if kind == 1:
        begin = int(rng.integers(channels))
        backwards = rng.integers(4) == 0
        return part(net, x, begin, -channels - 1, -1) if backwards else part(net, x, begin, channels)
    if kind == 2:
        groups = [number for number in range(1, channels + 1) if channels % number == 0]
        return shuffled(net, x, groups[int(rng.integers(len(groups)))])
    others = [images[int(rng.integers(len(images)))] for _ in range(int(rng.integers(1, 3)))]
    return net.join(x, *others)


def computed_at_random(net: Net, images: list[str]) -> str:
    rng = net.rng
    x = images[int(rng.integers(len(images)))]
    channels = net.shape(x)[1]
    outputs = int(rng.integers(2, 14))
    match int(rng.integers(11)):
        case 0:
            return depthwise(net, x)
        case 1:
            return table(net, x)
        case 2:
            return net.requantise(x)
        case 3:
            return net.pool(x, (3, 3), pads=(1, 1, 1, 1))
        case 4:
            groups = np.gcd(channels, 12)
            return net.conv(x, int(2 * groups), group=int(groups))
        case 5:
            alike = [other for other in images if net.shape(other) == net.shape(x)]
            return net.add(x, alike[int(rng.integers(len(alike)))])
        case 6:
            return net.scale(x, 1, None if rng.integers(2) else net.integers(1))
        case 7:
            return net.average(x, (3, 3), pads=(1, 1, 1, 1), border=int(rng.integers(-9, 9)))
        case _:
            return net.conv(x, outputs, (3, 3), pads=(1, 1, 1, 1), border=int(rng.integers(-9, 9)))


def at_random(seed: int) -> Graph:
    """Return a random graph; one operator in two moves channels."""
    net = Net(seed)
    x = net.input(1, int(net.rng.integers(1, 9)), *PIXELS)
    images = [net.conv(x, int(net.rng.integers(2, 14))) for _ in range(2)]
    images += [x] if net.rng.integers(3) == 0 else []
    for _ in range(int(net.rng.integers(3, 12))):
        generate = moved_at_random if net.rng.integers(2) else computed_at_random
        images.append(generate(net, images))
        if net.shape(images[-1])[1] > 40:
            images.pop()
    ends = [images[-1], *(name for name in images if net.rng.integers(6) == 0)]
    return net.graph(*dict.fromkeys(ends))
