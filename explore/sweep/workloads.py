"""The workloads of a sweep as graphs of integer operators that can be sent to other processes, and suites of
layers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from os.path import isfile
from pathlib import Path

import numpy as np

from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType, type_of
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.serialise import graph_from_bytes, graph_to_bytes
from vdla.compiler.graph.verify import verify
from vdla.compiler.network.plan_cache import cached_graph
from vdla.compiler.network.source import Source
from vdla.explore.sweep.errors import SweepError, first_repeated, unknown
from vdla.explore.sweep.specification import LARGEST_EXTENT, Conv, Pair, Specification, WorkloadTable
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.limits import TENSOR_BYTES, require_room
from vdla.hw.spec.memo import memoised
from vdla.hw.spec.showing import shown
from vdla.hw.spec.target import Target
from vdla.runtime.requantise import parameter_words
from vdla.runtime.samples.given import given_of

PRODUCT = 5500.0  # about the magnitude of a product of two random int8
MOST_GRAPHS = 64


@dataclass(frozen=True)
class Workload:
    """A network or a layer.

    Attributes:
        name: in the tables of results.
        data: its graph of integer operators, as `graph_to_bytes` gives it.
    """

    name: str
    data: bytes

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the graph."""
        return digest_of([self.data])

    def graph(self) -> Graph:
        """Return the graph; a process reads it once."""
        return _graph(self.data)


@memoised(MOST_GRAPHS)
def _graph(data: bytes) -> Graph:
    return graph_from_bytes(data)


def workloads_of(specification: Specification, folder: Path, base: Target) -> tuple[Workload, ...]:
    """Import every workload of a specification.

    Args:
        folder: of the specification, where relative names of models start.
        base: the target from which all points start. Float models are quantised for what it executes.

    Raises:
        SweepError: a model does not import, a suite is unknown, a convolution is impossible, or two workloads
            have the same name.
    """
    workloads = [
        workload
        for number, table in enumerate(specification.workloads)
        for workload in _workloads(table, f"workloads[{number}]", folder, base, specification.seed)
    ]
    names = [workload.name for workload in workloads]
    twice = first_repeated(names)
    if twice is not None:
        raise SweepError(f"two workloads are called {shown(twice)}; give one of them another name = ...")
    return tuple(workloads)


def _workloads(table: WorkloadTable, where: str, folder: Path, base: Target, seed: int) -> Iterator[Workload]:
    if table.suite is not None:
        if table.suite not in SUITES:
            raise unknown(f"{where}: suite", table.suite, SUITES)
        prefix = "" if table.name is None else f"{table.name}."
        for name, conv in SUITES[table.suite].items():
            yield _of_conv(f"{prefix}{name}", conv, where, seed)
    elif table.conv is not None:
        yield _of_conv(table.name or _shape_name(table.conv, where), table.conv, where, seed)
    else:
        yield _of_model(table, where, folder, base)


def _of_model(table: WorkloadTable, where: str, folder: Path, base: Target) -> Workload:
    assert table.model is not None, "a workload without conv and suite has a model"
    path = located(table.model, where, folder)
    samples = None if table.calibrate is None else given_of(located(table.calibrate, where, folder))
    try:
        source = Source(path, samples, Options(table.percentile), table.shapes).for_target(base)
        graph = cached_graph(source)
    except VdlaError as error:
        raise SweepError(f"{where}: {path}: {error}") from error
    return Workload(table.name or path.stem, graph_to_bytes(graph))


def located(name: str, where: str, folder: Path) -> Path:
    """Return a file that is relative to the specification or to the current folder."""
    for path in (folder / name, Path(name)):
        if isfile(path):  # a name that is too long is no file, and no error
            return path
    raise SweepError(f"{where}: {name} does not exist in {folder} or in the current folder")


def _shape_name(conv: Conv, where: str) -> str:
    height, width = _extents(conv, where)
    (rows, columns), (down, right) = _pair(conv.kernel), _pair(conv.stride)
    stride = f"s{down}" if down == right else f"s{down}x{right}"
    groups = "" if conv.groups == 1 else f"_g{conv.groups}"
    return f"conv_{height}x{width}_{conv.channels}_{conv.outputs}_{rows}x{columns}_{stride}{groups}"


def _pair(value: Pair) -> tuple[int, int]:
    """Return the numbers of rows and columns."""
    return (value, value) if isinstance(value, int) else value


def _extents(conv: Conv, where: str) -> tuple[int, int]:
    """Return height and width of the input."""
    height, width = conv.height or conv.size, conv.width or conv.size
    if height is None or width is None:
        raise SweepError(f"{where}: conv needs size, or height and width")
    return height, width


def _of_conv(name: str, conv: Conv, where: str, seed: int) -> Workload:
    return Workload(name, graph_to_bytes(conv_graph(name, conv, where, seed)))


def conv_graph(name: str, conv: Conv, where: str = "conv", seed: int = 0) -> Graph:
    """Return a graph of one int8 convolution with random weights, and bias and requantisation for them.

    Raises:
        SweepError: the shape is impossible.
    """
    height, width = _extents(conv, where)
    for kind in ("channels", "outputs"):
        if getattr(conv, kind) % conv.groups:
            raise SweepError(
                f"{where}: {kind} = {getattr(conv, kind)} is not a multiple of groups = {conv.groups}"
            )
    for kind in ("kernel", "stride", "dilation"):
        if not all(1 <= value <= LARGEST_EXTENT for value in _pair(getattr(conv, kind))):
            raise SweepError(f"{where}: {kind} = {getattr(conv, kind)} is outside 1..{LARGEST_EXTENT}")
    reach = [step * (side - 1) for step, side in zip(_pair(conv.dilation), _pair(conv.kernel), strict=True)]
    border = [side // 2 if conv.padding == "same" else 0 for side in reach]
    if isinstance(conv.padding, int):
        border = [conv.padding] * 2
    sides = [
        (side + 2 * around - beyond - 1) // stride + 1
        for side, around, beyond, stride in zip(
            (height, width), border, reach, _pair(conv.stride), strict=True
        )
    ]
    if min(sides) < 1:
        raise SweepError(
            f"{where}: a kernel of {reach[0] + 1} x {reach[1] + 1} pixels does not fit an input of {height} "
            f"x {width} with padding {border[0]} and {border[1]}"
        )
    weights = prod((conv.outputs, conv.channels // conv.groups, *_pair(conv.kernel)))
    require_room(weights, TENSOR_BYTES, f"{where}: its weights take", SweepError)
    given = TensorType((1, conv.channels, height, width), "int8")
    output = TensorType((1, conv.outputs, sides[0], sides[1]), "int8")
    return _verified(name, conv, given, output, (border[0], border[1]), seed)


def _verified(
    name: str, conv: Conv, given: TensorType, output: TensorType, border: tuple[int, int], seed: int
) -> Graph:
    """Return the graph of a possible convolution."""
    rng = np.random.default_rng(seed)
    shape = (conv.outputs, conv.channels // conv.groups, *_pair(conv.kernel))
    shift = int(np.log2(PRODUCT * prod(shape[1:]) ** 0.5)) + 9
    constants = {
        "w": rng.integers(-128, 128, shape, np.int8),
        "parameters": parameter_words(
            rng.integers(-50, 50, conv.outputs),
            rng.integers(1 << 14, 1 << 16, conv.outputs),
            np.full(conv.outputs, shift),
        ),
    }
    attributes: dict[str, Attribute] = {
        "border": 0,
        "dilations": _pair(conv.dilation),
        "group": conv.groups,
        "pads": (*border, *border),
        "strides": _pair(conv.stride),
    }
    node = Node("Int8Conv", ("x", "w", "parameters"), ("y",), attributes, name)
    types = {"x": given, "y": output, **{key: type_of(array) for key, array in constants.items()}}
    graph = Graph("layer", {"x": given}, ("y",), (node,), constants, types)
    verify(graph)
    return graph


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
