"""Reading of a model from a file, from bytes, or from a model of the `onnx` package.

Functions are inlined, and nodes are sorted: some tools write nodes in any order, as ONNX Runtime accepts it.
Functions that call each other twice double the number of nodes at each level, so the nodes are counted before
inlining.

Source: ONNX intermediate representation, Model Local Functions: they must not call themselves.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, defs, inliner, version_converter

from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.half import with_float32
from vdla.compiler.graph.onnx.subgraphs import graphs_within, nodes_within, producers
from vdla.compiler.graph.onnx.tensors import ONNX_ERRORS, first_line
from vdla.compiler.graph.source import ModelSource
from vdla.hw.spec.limits import ARRAY_BYTES, EXPANDED_NODES, limit_of, read_at_most, require_room
from vdla.hw.spec.showing import short

OLDEST_OPSET = 7
MAIN_DOMAINS = ("", "ai.onnx")

FunctionKey = tuple[str, str, str]  # domain, name and overload
WHOLE: FunctionKey = ("", "", "")  # stands for the model's graph


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model and its origin.

    Attributes:
        proto: the model, with functions inlined, nodes in topological order, and float32 in place of float16
            and bfloat16.
        label: its name in messages.
        folder: the folder of its external files; None if the model was not read from a file.
        opsets: versions of the operator sets by domain; "" is the main domain.
    """

    proto: ModelProto
    label: str
    folder: Path | None
    opsets: Mapping[str, int]

    @property
    def opset(self) -> int:
        """The version of the main operator set."""
        return self.opsets[""]


def read_model(source: ModelSource) -> OnnxModel:
    """Read a model.

    Raises:
        GraphError: the source cannot be read, is not an ONNX model, or has an unsupported operator set.
    """
    match source:
        case ModelProto():
            return _checked(source, source.graph.name or "model", None)
        case bytes():
            return _decoded(source, "the bytes given", None)
        case str() | os.PathLike():
            path = Path(source)
            try:
                data = read_at_most(path, limit_of(ARRAY_BYTES), GraphError)
            except OSError as error:
                raise GraphError(f"{path}: cannot be read: {error.strerror or error}") from error
            return _decoded(data, str(path), path.parent)
    raise GraphError(
        f"a model is an ONNX file, its bytes or an onnx.ModelProto, not {type(source).__name__}; export it "
        "to ONNX"
    )


def _decoded(data: bytes, label: str, folder: Path | None) -> OnnxModel:
    try:
        proto = onnx.load_model_from_string(data)
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        raise GraphError(
            f"{label}: this is not an ONNX model, or it is damaged ({len(data)} bytes): {first_line(error)}"
        ) from error
    return _checked(proto, label, folder)


def _checked(proto: ModelProto, label: str, folder: Path | None) -> OnnxModel:
    if not proto.HasField("graph") or not proto.ir_version or not proto.opset_import:
        raise GraphError(
            f"{label}: this is not an ONNX model, or it is damaged: it has no graph, no version or no "
            "operator set"
        )
    if not all(isinstance(name, str) for name in _names(proto)):
        raise GraphError(f"{label}: this is a damaged ONNX model: it has a name that is not UTF-8 text")
    proto = _of_known_version(proto, label)
    opsets = {
        "" if entry.domain in MAIN_DOMAINS else entry.domain: entry.version for entry in proto.opset_import
    }
    opsets.setdefault("", defs.onnx_opset_version())  # the model has no node of the main domain
    return OnnxModel(with_float32(in_order(without_functions(proto, label)), folder), label, folder, opsets)


def _of_known_version(proto: ModelProto, label: str) -> ModelProto:
    """Return a model of a supported version of the main operator set, converted if it is older."""
    versions = {entry.version for entry in proto.opset_import if entry.domain in MAIN_DOMAINS}
    newest = defs.onnx_opset_version()
    if len(versions) == 1 and 0 < max(versions) < OLDEST_OPSET:
        try:
            return version_converter.convert_version(proto, OLDEST_OPSET)
        except ONNX_ERRORS:
            pass  # the message below says what can be done
    if len(versions) > 1 or not all(OLDEST_OPSET <= version <= newest for version in versions):
        raise GraphError(
            f"{label}: operator set {', '.join(map(str, sorted(versions))) or 'none'} is not supported; "
            f"one of {OLDEST_OPSET} to {newest} is: export it again or use onnx.version_converter"
        )
    return proto


def _names(proto: ModelProto) -> Iterator[str | bytes]:
    """Yield every name that the importer reads; a name that is not UTF-8 is bytes."""
    yield from (entry.domain for entry in proto.opset_import)
    for graph in graphs_within(proto.graph):
        yield graph.name
        for node in graph.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)
        for part in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
            yield part.name
        for value in graph.input:
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        for tensor in graph.initializer:
            yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


# Functions


def without_functions(proto: ModelProto, label: str) -> ModelProto:
    """Return a model with its functions inlined.

    Args:
        label: the model's name in messages.

    Raises:
        GraphError: functions are recursive or damaged, or expand to more than `EXPANDED_NODES` nodes.
    """
    if not proto.functions:
        return proto
    count = expanded_nodes(proto, label)
    subject = f"{label}: with its functions in place of their calls, it has"
    require_room(count, EXPANDED_NODES, subject, GraphError, "nodes")
    try:
        return inliner.inline_local_functions(proto)
    except ONNX_ERRORS as error:
        raise GraphError(
            f"{label}: its functions cannot be put in place of their calls: {first_line(error)}"
        ) from error


def expanded_nodes(proto: ModelProto, label: str) -> int:
    """Return the number of nodes of a model after inlining, including nodes of subgraphs.

    Raises:
        GraphError: functions are recursive.
    """
    bodies = {(each.domain, each.name, each.overload): each.node for each in proto.functions}
    calls = {
        key: [(node.domain, node.op_type, node.overload) for outer in nodes for node in nodes_within(outer)]
        for key, nodes in {**bodies, WHOLE: proto.graph.node}.items()
    }
    counts: dict[FunctionKey, int] = {}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        circle = " → ".join(".".join(filter(None, key)) for key in reversed(error.args[1]))
        raise GraphError(
            f"{label}: its functions call each other in a circle: {short(circle, 200)}"
        ) from error
    for key in order:
        counts[key] = sum(counts[each] for each in calls[key]) if key in calls else 1
    return counts[WHOLE]


# Topological order


def in_order(proto: ModelProto) -> ModelProto:
    """Return a model with its nodes in topological order, otherwise in the order of the file.

    A model with a cycle, or with a value that is defined twice, is returned unchanged.
    """
    graph = proto.graph
    results = [name for node in graph.node for name in node.output if name]
    sorter = TopologicalSorter(producers(graph))
    try:
        sorter.prepare()
    except CycleError:
        return proto
    ready, order = list[int](), list[int]()
    while sorter.is_active():
        for place in sorter.get_ready():
            heappush(ready, place)
        order.append(heappop(ready))
        sorter.done(order[-1])
    if order == list(range(len(order))) or len(set(results)) < len(results):
        return proto
    sorted_model = ModelProto()
    sorted_model.CopyFrom(proto)
    del sorted_model.graph.node[:]
    sorted_model.graph.node.extend(graph.node[place] for place in order)
    return sorted_model
