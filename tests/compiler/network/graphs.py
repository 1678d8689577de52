"""Small graphs of integer operators: made one operator after another, by hand or at random."""

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node, TensorType, type_of
from vdla.compiler.graph.verify import verify
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.requantise import parameter_words

LEAST = -128
TWICE = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
PRODUCT = 5500.0  # about the magnitude of a product of two random int8


class Net:
    """A graph in the making; every method adds an operator with random constants and returns the value that
    it makes."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.given: dict[str, TensorType] = {}
        self.values: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []

    def input(self, *shape: int, dtype: str = "int8") -> str:
        name = f"x{len(self.given)}"
        self.values[name] = self.integers(*shape).astype(dtype)
        self.given[name] = type_of(self.values[name])
        return name

    def integers(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-128, 128, shape, np.int8)

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.values[name] = array
        return name

    def words(self, channels: int, magnitude: float) -> str:
        """Return parameters that bring sums of this magnitude to half the range of int8, and a little more or
        less."""
        low = int(np.log2(magnitude)) + 9
        return self.constant(
            parameter_words(
                self.rng.integers(-50, 50, channels),
                self.rng.integers(1 << 14, 1 << 16, channels),
                self.rng.integers(low, low + 2, channels),
                self.rng.integers(-9, 9, channels),
                self.rng.integers(-128, -60, channels),
                self.rng.integers(60, 128, channels),
            )
        )

    def op(self, op: str, inputs: tuple[str, ...], outputs: int = 1, **attributes) -> str:
        """Add any operator; return its first output."""
        results = tuple(f"v{len(self.nodes)}" + (f"_{number}" if number else "") for number in range(outputs))
        self.nodes.append(Node(op, inputs, results, attributes, f"the {op}"))
        self.values |= dict(
            zip(
                results,
                evaluate(op, [self.values[name] if name else None for name in inputs], attributes),
                strict=True,
            )
        )
        return results[0]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def conv(
        self,
        x: str,
        outputs: int,
        kernel: tuple[int, int] = (1, 1),
        *,
        strides=(1, 1),
        pads=(0, 0, 0, 0),
        dilations=(1, 1),
        group: int = 1,
        border: int = 0,
        weights: np.ndarray | None = None,
    ) -> str:
        inputs = self.shape(x)[1] // group
        weights = self.integers(outputs, inputs, *kernel) if weights is None else weights
        words = self.words(outputs, PRODUCT * (inputs * np.prod(kernel)) ** 0.5)
        return self.op(
            "Int8Conv",
            (x, self.constant(weights), words),
            strides=strides,
            pads=pads,
            dilations=dilations,
            group=group,
            border=border,
        )

    def spread(
        self,
        x: str,
        outputs: int,
        kernel: tuple[int, int],
        *,
        strides=(1, 1),
        pads=(0, 0, 0, 0),
        output_padding=(0, 0),
        zero: int = 0,
        weights: np.ndarray | None = None,
    ) -> str:
        inputs = self.shape(x)[1]
        words = self.words(outputs, PRODUCT * (inputs * np.prod(kernel)) ** 0.5)
        weights = self.integers(inputs, outputs, *kernel) if weights is None else weights
        return self.op(
            "Int8ConvTranspose",
            (x, self.constant(weights), words),
            strides=strides,
            pads=pads,
            output_padding=output_padding,
            zero=zero,
        )

    def join(self, *parts: str, axis: int = 1) -> str:
        return self.op("Concat", parts, axis=axis)

    def matmul(self, x: str, outputs: int, weights: np.ndarray | None = None) -> str:
        inputs = self.shape(x)[-1]
        weights = self.integers(inputs, outputs) if weights is None else weights
        return self.op("Int8MatMul", (x, self.constant(weights), self.words(outputs, PRODUCT * inputs**0.5)))

    def wide(self, *shape: int) -> np.ndarray:
        """Return int16 weights of nine bits."""
        return self.rng.integers(-255, 256, shape, np.int16)

    def scale(self, x: str, axis: int, factors: np.ndarray | None = None) -> str:
        channels = self.shape(x)[axis]
        factors = self.integers(channels) if factors is None else factors
        return self.op("Int8Scale", (x, self.constant(factors), self.words(channels, PRODUCT)), axis=axis)

    def average(
        self,
        x: str,
        kernel: tuple[int, int],
        *,
        strides: tuple[int, int] = (1, 1),
        pads: tuple[int, ...] = (0, 0, 0, 0),
        border: int = 0,
    ) -> str:
        words = self.words(1, PRODUCT**0.5 * np.prod(kernel))
        window = {"kernel_shape": kernel, "strides": strides, "pads": pads, "border": border}
        return self.op("Int8AveragePool", (x, words), **window)

    def add(self, a: str, b: str) -> str:
        return self.op(
            "Int8Add",
            (a, b, self.words(1, 1.5 * PRODUCT)),
            factors=tuple(map(int, self.rng.integers(30, 120, 2))),
        )

    def mul(self, a: str, b: str) -> str:
        return self.op(
            "Int8Mul", (a, b, self.words(1, PRODUCT)), zeros=tuple(map(int, self.rng.integers(-9, 9, 2)))
        )

    def requantise(self, x: str) -> str:
        return self.op("Int8Requantise", (x, self.words(1, PRODUCT**0.5)))

    def pool(self, x: str, kernel: tuple[int, int] = (2, 2), *, strides=(1, 1), pads=(0, 0, 0, 0)) -> str:
        return self.op("Int8MaxPool", (x,), kernel_shape=kernel, strides=strides, pads=pads)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", (x,), shape=shape)

    def transpose(self, x: str, *perm: int) -> str:
        return self.op("Transpose", (x,), perm=perm or tuple(range(len(self.shape(x))))[::-1])

    def graph(self, *outputs: str) -> Graph:
        """Return the graph with these outputs."""
        graph = Graph(
            "net",
            self.given,
            outputs,
            tuple(self.nodes),
            self.constants,
            {name: type_of(array) for name, array in self.values.items()},
        )
        verify(graph)
        return graph


def resized(net: Net, x: str, factors: tuple[int, int], **how: str) -> str:
    """Add a Resize to the nearest pixel by whole factors."""
    n, channels, height, width = net.shape(x)
    scales = (1.0, 1.0, *map(float, factors))
    sizes = (n, channels, height * factors[0], width * factors[1])
    return net.op("Resize", (x,), scales=scales, sizes=sizes, **{**TWICE, **how})


def random_inputs(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Return an array for each input."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-128, 128, type_.shape).astype(type_.dtype) for name, type_ in graph.inputs.items()
    }


# By hand: what networks are made of, and what is rare in them.


def residual(net: Net) -> Graph:
    x = net.conv(net.input(1, 1, 9, 9), 8, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), border=LEAST)
    y = net.conv(net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1)), 8)
    return net.graph(net.matmul(net.reshape(net.conv(net.add(x, y), 6, (5, 5)), 1, 6), 10))


def depthwise(net: Net) -> Graph:
    x = net.conv(net.input(1, 6, 8, 7), 6, (3, 3), pads=(1, 1, 1, 1), group=6)
    return net.graph(net.conv(net.conv(x, 12, (3, 3), strides=(2, 1), group=3), 4, (2, 2), dilations=(2, 2)))


def pooled(net: Net) -> Graph:
    x = net.conv(net.input(2, 4, 8, 8), 5, (3, 2), strides=(1, 2), pads=(2, 0, 1, 1))
    return net.graph(
        net.pool(net.pool(x, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), (2, 1), pads=(1, 0, 0, 0))
    )


def with_the_host_between(net: Net) -> Graph:
    x = net.input(3, 5)
    y = net.matmul(x, 7)
    z = net.matmul(net.transpose(y), 4)
    return net.graph(net.add(z, net.requantise(z)), y)


def several_ends(net: Net) -> Graph:
    a, b = net.input(2, 6), net.input(2, 6)
    both = net.mul(a, b)
    return net.graph(both, net.add(both, both), b, net.constant(net.integers(3)), net.add(a, both))


def elements_of_many_ranks(net: Net) -> Graph:
    a, b = net.input(2, 3, 1, 4), net.input(7)
    return net.graph(
        net.requantise(net.add(a, a)), net.requantise(b), net.requantise(net.input(1, 2, 3, 2, 5))
    )


def views(net: Net) -> Graph:
    x = net.conv(net.input(1, 4, 3, 3), 8, (3, 3))
    flat = net.op("Flatten", (x,), axis=1)
    again = net.reshape(net.matmul(flat, 12), 1, 12, 1, 1)
    row = net.op("Squeeze", (again,), axes=(0, 2, 3))
    return net.graph(net.conv(again, 4), flat, row, net.requantise(row), net.reshape(again, 3, 4))


def pixels_of_images(net: Net) -> Graph:
    """Images read in other shapes of as many pixels, by windows."""
    x = net.requantise(net.input(2, 6, 4, 6))
    wide, high = net.reshape(x, 2, 6, 1, 24), net.reshape(x, 2, 6, 12, 2)
    image = net.reshape(net.conv(wide, 5, (1, 3), pads=(0, 1, 0, 1)), 2, 5, 4, 6)
    return net.graph(net.conv(image, 3, (2, 2), strides=(2, 2)), net.pool(high), wide)


def split(net: Net) -> Graph:
    x = net.requantise(net.input(1, 8, 2, 2))
    half = net.op("Split", (x,), 2, axis=1, split=(3, 5))
    return net.graph(net.op("Concat", (net.conv(half, 5), f"{half}_1"), axis=1))


def only_the_host(net: Net) -> Graph:
    return net.graph(net.transpose(net.input(2, 3)))


def nothing(net: Net) -> Graph:
    x = net.input(2, 3)
    return net.graph(x)


def batches(net: Net) -> Graph:
    x = net.conv(net.input(3, 5, 4, 4), 6, (4, 4))
    return net.graph(net.matmul(net.reshape(x, 3, 6), 3))


def rows_of_images(net: Net) -> Graph:
    return net.graph(
        net.matmul(net.requantise(net.input(1, 2, 3, 5)), 4),
        net.matmul(net.requantise(net.input(2, 3, 5)), 4),
    )


def gathered(net: Net) -> Graph:
    a, b = net.input(2, 1, 7, 9), net.input(3, 1, 11, 8)
    of_a = net.conv(a, 5, (4, 3), strides=(2, 3), pads=(0, 1, 2, 0))
    of_b = net.conv(b, 3, (5, 5), strides=(3, 4), pads=(2, 0, 0, 3), border=LEAST)
    return net.graph(of_a, of_b, net.conv(net.transpose(net.input(5, 5, 2, 1)), 4, (2, 2), strides=(2, 2)))


def strided_and_read_twice(net: Net) -> Graph:
    x = net.input(1, 3, 8, 8)
    return net.graph(net.conv(x, 4, (4, 4), strides=(2, 2)), net.conv(x, 4, (3, 3), strides=(3, 3)))


def broadcast(net: Net) -> Graph:
    return net.graph(
        net.add(net.requantise(net.input(2, 3)), net.requantise(net.input(1, 3))), net.requantise(net.input())
    )


def spread(net: Net) -> Graph:
    x = net.spread(net.input(1, 5, 3, 2), 6, (4, 4), strides=(2, 2), pads=(1, 1, 1, 1), zero=-128)
    y = net.spread(x, 3, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1))
    return net.graph(
        net.spread(y, 2, (2, 3)),
        net.spread(net.input(2, 4, 2, 2), 4, (2, 2), strides=(2, 2)),
        net.spread(net.input(1, 2, 3, 3), 3, (3, 3), strides=(3, 2), pads=(0, 1, 2, 0)),
    )


def averaged(net: Net) -> Graph:
    x = net.conv(net.input(1, 3, 9, 8), 20, (3, 3), pads=(1, 1, 1, 1))
    y = net.average(x, (3, 2), strides=(2, 1), pads=(1, 0, 1, 1), border=LEAST)
    return net.graph(net.average(y, net.shape(y)[2:]), net.average(net.input(2, 5, 4, 4), (4, 4)))


def scaled(net: Net) -> Graph:
    x = net.scale(net.conv(net.input(1, 3, 5, 4), 7), 1)
    rows = net.scale(net.input(2, 3, 5), -1)
    alike = np.array([-3], np.int8)
    return net.graph(
        net.conv(net.scale(x, 1, alike), 4),
        net.scale(rows, -1, alike),
        net.scale(net.input(1, 2, 3, 5), -1),
        net.scale(net.input(2, 5, 3, 3), 1),
    )


def wide_weights(net: Net) -> Graph:
    x = net.input(1, 6, 5, 4)
    same: dict[str, tuple[int, ...]] = {"pads": (1, 1, 1, 1), "dilations": (1, 1)}
    depthwise = net.conv(x, 6, (3, 3), group=6, weights=net.wide(6, 1, 3, 3), **same)
    groups = net.conv(depthwise, 4, (2, 2), group=2, weights=net.wide(4, 3, 2, 2))
    both = net.conv(x, 16, weights=net.wide(16, 6, 1, 1)), net.conv(x, 3, weights=net.wide(3, 6, 1, 1))
    rows = net.matmul(net.matmul(net.input(3, 5), 16, net.wide(5, 16)), 4, net.wide(16, 4))
    spread = net.spread(both[0], 3, (2, 2), strides=(2, 2), zero=5, weights=net.wide(16, 3, 2, 2))
    return net.graph(groups, both[1], rows, net.conv(spread, 2, (3, 3), **same))


def joined(net: Net) -> Graph:
    a, b = net.conv(net.input(1, 3, 3, 3), 8), net.requantise(net.input(1, 5, 3, 3))
    rows = net.matmul(net.input(3, 4), 8)
    return net.graph(
        net.requantise(net.join(a, a, b)),
        net.join(b, a),
        net.join(rows, net.input(3, 2), axis=-1),
        net.join(rows, rows, axis=0),
        net.join(net.input(2, 8, 1, 1), net.input(2, 1, 1, 1)),
        net.join(a, net.constant(net.integers(1, 2, 3, 3))),
    )


HANDMADE: Mapping[str, Callable[[Net], Graph]] = {
    function.__name__.replace("_", " "): function
    for function in (
        residual,
        depthwise,
        pooled,
        with_the_host_between,
        several_ends,
        elements_of_many_ranks,
        views,
        pixels_of_images,
        split,
        only_the_host,
        nothing,
        batches,
        rows_of_images,
        gathered,
        strided_and_read_twice,
        broadcast,
        spread,
        averaged,
        scaled,
        wide_weights,
        joined,
    )
}


# At random


def random_graph(seed: int, operators: int = 6) -> Graph:
    """Return a random graph of a few operators; every value that nobody reads goes out."""
    net = Net(seed)
    alive = [net.input(*shape) for shape in ((1, 1 + 2 * (seed % 2), 7, 6), (2, 5))]
    for _ in range(operators):
        alive.append(_random_operator(net, alive[int(net.rng.integers(len(alive)))], alive))
    read = {name for node in net.nodes for name in node.inputs}
    return net.graph(*[name for name in alive if name not in read or net.rng.random() < 0.2])


def _random_operator(net: Net, x: str, alive: list[str]) -> str:
    """Return what a random operator makes of `x`, and perhaps of another value of its shape."""
    other = net.rng.choice([name for name in alive if net.shape(name) == net.shape(x)])
    choices: list[Callable[[], str]] = [
        lambda: net.add(x, str(other)),
        lambda: net.mul(str(other), x),
        lambda: net.requantise(x),
    ]
    if net.rng.random() < 0.2:
        return net.join(x, str(other), axis=1)
    if len(net.shape(x)) == 4:
        choices += [
            lambda: _random_conv(net, x),
            lambda: _random_spread(net, x),
            lambda: _random_pool(net, x),
            lambda: _random_average(net, x),
            lambda: net.scale(x, 1, _random_factors(net, x, 1)),
            lambda: net.reshape(x, net.shape(x)[0], int(np.prod(net.shape(x)[1:]))),
        ]
    else:
        choices += [
            lambda: _random_matmul(net, x),
            lambda: net.scale(x, -1, _random_factors(net, x, -1)),
            lambda: net.transpose(x),
            lambda: net.reshape(x, *net.shape(x), 1, 1),
        ]
    return choices[int(net.rng.integers(len(choices)))]()


def _random_window(net: Net, x: str) -> dict[str, tuple[int, ...]]:
    """Return a window that fits `x` with its padding."""
    kernel, strides = ([int(net.rng.integers(1, least + 1)) for least in (3, 3)] for _ in range(2))
    pads = [int(net.rng.integers(0, kernel[axis % 2])) for axis in range(4)]
    kernel = [min(size, extent) for size, extent in zip(kernel, net.shape(x)[2:], strict=True)]
    return {"kernel": tuple(kernel), "strides": tuple(strides), "pads": tuple(pads)}


def _random_pool(net: Net, x: str) -> str:
    window = _random_window(net, x)
    return net.pool(
        x,
        window["kernel"],
        strides=window["strides"],
        pads=tuple(min(pad, window["kernel"][axis % 2] - 1) for axis, pad in enumerate(window["pads"])),
    )


def _random_average(net: Net, x: str) -> str:
    border = int(net.rng.choice([0, LEAST, 5]))
    return net.average(x, **_random_window(net, x), border=border)


def _random_factors(net: Net, x: str, axis: int) -> np.ndarray:
    """Return a factor for each channel, or a single factor."""
    return net.integers(int(net.rng.choice([1, net.shape(x)[axis]])))


def _random_matmul(net: Net, x: str) -> str:
    outputs = int(net.rng.integers(1, 13))
    return net.matmul(x, outputs, _sometimes_wide(net, net.shape(x)[-1], outputs))


def _sometimes_wide(net: Net, *shape: int) -> np.ndarray:
    """Return weights of eight bits, or of nine in one case of five."""
    return net.wide(*shape) if net.rng.random() < 0.2 else net.integers(*shape)


def _random_spread(net: Net, x: str) -> str:
    strides = int(net.rng.integers(1, 4)), int(net.rng.integers(1, 4))
    if min(net.shape(x)[2:]) < 2 or max(net.shape(x)[2:]) > 8:
        return _random_conv(net, x)
    kernel, pads = tuple(map(int, net.rng.integers(1, 4, 2))), tuple(map(int, net.rng.integers(0, 2, 4)))
    pads = tuple(min(pad, kernel[axis % 2] - 1) for axis, pad in enumerate(pads))
    outputs, zero = int(net.rng.integers(1, 7)), int(net.rng.choice([0, LEAST, 3, 127]))
    weights = _sometimes_wide(net, net.shape(x)[1], outputs, *kernel)
    return net.spread(x, outputs, kernel, strides=strides, pads=pads, zero=zero, weights=weights)


def _random_conv(net: Net, x: str) -> str:
    window, channels = _random_window(net, x), net.shape(x)[1]
    group = int(net.rng.choice([count for count in range(1, channels + 1) if channels % count == 0]))
    border = int(net.rng.choice([0, LEAST, *net.rng.integers(LEAST, -LEAST, 2)]))
    outputs = group * int(net.rng.integers(1, 7 // group + 2))
    return net.conv(
        x,
        outputs,
        window["kernel"],
        strides=window["strides"],
        pads=window["pads"],
        group=group,
        border=border,
        weights=_sometimes_wide(net, outputs, channels // group, *window["kernel"]),
    )
