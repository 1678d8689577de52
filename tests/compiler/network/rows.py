"""Random networks that slice, join and reshape matrices and images."""

from collections.abc import Callable, Sequence

import numpy as np

from tests.compiler.network.graphs import Net
from tests.compiler.network.test_groups import EpilogueNet
from vdla.compiler.graph.nodes import Graph
from vdla.runtime.layout import IMAGE_RANK

MOST_ELEMENTS = 4000  # of a value


def random_moves(seed: int, operators: int = 12) -> Graph:
    """Return a random graph, half of whose operators move rows, channels and images. Every value without a
    reader is an output, and so are a few others."""
    net = EpilogueNet(seed)
    rows, channels = (int(net.rng.integers(1, most)) for most in (7, 13))
    shapes = [(rows, channels), (rows, 1, channels), (2, rows, channels), (rows, channels, 2, 1)]
    alive = [net.input(*shapes[int(net.rng.integers(len(shapes)))])]
    for _ in range(operators):
        x = alive[-1] if net.rng.random() < 0.6 else _any(net, alive)
        makers = _movers(net, x, alive) if net.rng.random() < 0.6 else _operators(net, x, alive)
        alive.append(makers[int(net.rng.integers(len(makers)))]())
    read = {name for node in net.nodes for name in node.inputs}
    return net.graph(*[name for name in alive if name not in read or net.rng.random() < 0.1])


def _any(net: Net, names: Sequence[str]) -> str:
    return names[int(net.rng.integers(len(names)))]


def _movers(net: Net, x: str, alive: Sequence[str]) -> list[Callable[[], str]]:
    """Return the makers of Slices, Splits, Concats, Transposes and changes of shape."""
    return [
        lambda: _sliced(net, x),
        lambda: _sliced(net, x),
        lambda: _divided(net, x),
        lambda: _joined(net, x, alive),
        lambda: _joined(net, x, alive),
        lambda: _in_other_shape(net, x),
        lambda: _turned(net, x),
    ]


def _operators(net: EpilogueNet, x: str, alive: Sequence[str]) -> list[Callable[[], str]]:
    """Return the makers of operators that compute."""
    is_image = len(net.shape(x)) == IMAGE_RANK
    product, channels = (net.conv, net.shape(x)[1]) if is_image else (net.matmul, net.shape(x)[-1])
    other = _any(net, [name for name in alive if net.shape(name) == net.shape(x)])
    return [
        lambda: product(x, int(net.rng.integers(1, 13))),
        lambda: net.sum(product(x, channels), x),
        lambda: net.sum(product(x, channels), other),
        lambda: net.lookup(product(x, channels)),
        lambda: net.requantise(x),
        lambda: net.mul(x, other),
        lambda: net.add(x, other),
    ]


def _sliced(net: Net, x: str) -> str:
    """Return a Slice along an axis or two; half of the Slices of channels are of whole blocks of 4."""
    shape = net.shape(x)
    axes = sorted({int(net.rng.integers(len(shape))) for _ in range(int(net.rng.integers(1, 3)))})
    cuts = [np.sort(net.rng.choice(shape[axis] + 1, 2, replace=False)).tolist() for axis in axes]
    last = 1 if len(shape) == IMAGE_RANK else len(shape) - 1
    for axis, cut in zip(axes, cuts, strict=True):
        if axis == last and net.rng.random() < 0.5:
            cut[:] = cut[0] // 4 * 4, -(-cut[1] // 4) * 4
    starts, ends = ([cut[place] for cut in cuts] for place in (0, 1))
    steps = [int(net.rng.choice([1, 1, 2])) if axis != last else 1 for axis in axes]
    return net.op("Slice", (x,), axes=(*axes,), starts=(*starts,), ends=(*ends,), steps=(*steps,))


def _divided(net: Net, x: str) -> str:
    """Return the last part of a Split in two or three parts; the operator has no other reader."""
    shape = net.shape(x)
    axis = int(net.rng.integers(len(shape)))
    most = min(shape[axis], 3)
    inner = np.sort(net.rng.choice(np.arange(1, shape[axis]), int(net.rng.integers(most)), replace=False))
    sizes = tuple(int(size) for size in np.diff([0, *inner, shape[axis]]))
    first = net.op("Split", (x,), len(sizes), axis=axis - len(shape), split=sizes)
    return first if len(sizes) == 1 else f"{first}_{len(sizes) - 1}"


def _joined(net: Net, x: str, alive: Sequence[str]) -> str:
    """Return a Concat of two to four values whose shapes differ along one axis alone."""
    shape = net.shape(x)
    axis = int(net.rng.integers(len(shape)))
    others = [name for name in alive if _rest(net.shape(name), axis) == _rest(shape, axis)]
    parts = [x, *(_any(net, others) for _ in range(int(net.rng.integers(1, 4))))]
    net.rng.shuffle(parts)
    if sum(net.values[part].size for part in parts) > MOST_ELEMENTS:
        return net.requantise(x)
    return net.join(*parts, axis=axis)


def _rest(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], -1, *shape[axis + 1 :], len(shape))


def _turned(net: Net, x: str) -> str:
    """Return a Transpose; every other Transpose of a matrix keeps the channels last."""
    rank = len(net.shape(x))
    perm = net.rng.permutation(rank).tolist()
    if rank < IMAGE_RANK and net.rng.random() < 0.5:
        perm = [place for place in perm if place != rank - 1] + [rank - 1]
    return net.op("Transpose", (x,), perm=tuple(perm))


def _in_other_shape(net: Net, x: str) -> str:
    """Return a Reshape that keeps the channels of a matrix, or makes a matrix of an image."""
    *rows, channels = net.shape(x)
    if len(rows) == IMAGE_RANK - 1:
        return net.reshape(x, rows[0], int(np.prod(rows[1:])) * channels)
    count = int(np.prod(rows))
    shapes = [(count, channels), (1, count, channels), (count, 1, channels)]
    shapes += [(count, channels, 1, 1)] if count == 1 else []
    return net.reshape(x, *shapes[int(net.rng.integers(len(shapes)))])
