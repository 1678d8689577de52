"""Multiply-accumulates of a part that onnxruntime runs, subgraphs included."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    shape_inference,
)

from vdla.compiler.graph.macs import OperatorShapes, Shape, macs_of
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.part_models import Opsets, model_of, probe
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import captured, subgraphs
from vdla.compiler.graph.onnx.tensors import ONNX_ERRORS, extents_of
from vdla.hw.spec.showing import short
from vdla.runtime.host.dtypes import UNKNOWN

ENDLESS = 1 << 31  # trip count from which on the condition of a Loop ends it
SMALL = 1024  # most elements of a constant that shapes may depend on
NO_SHAPE: Shape = (UNKNOWN,)
LONGEST_LABEL = 80


@dataclass(frozen=True, slots=True)
class MacCount:
    """A count of multiply-accumulates.

    Attributes:
        macs: the known multiply-accumulates.
        open: what the count leaves out, in order, such as "Loop 'l' counted for one trip".
    """

    macs: int = 0
    open: tuple[str, ...] = ()

    def __add__(self, other: "MacCount") -> "MacCount":
        return MacCount(self.macs + other.macs, tuple(dict.fromkeys((*self.open, *other.open))))


NONE = MacCount()


def macs_of_part(model: bytes) -> MacCount:
    """Return the multiply-accumulates of a serialised model.

    A Loop that ends by a condition counts as a single trip, an If as the larger branch.
    """
    proto = ModelProto.FromString(model)
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    return _Scope(proto.graph, opsets, {}, {}, {}).count()


class _Scope:
    """The values visible in a graph, including the values of enclosing graphs.

    Attributes:
        types: the known types of values.
        constants: small constants.
    """

    def __init__(
        self,
        graph: GraphProto,
        opsets: Opsets,
        outer: Mapping[str, TypeProto],
        constants: Mapping[str, np.ndarray],
        given: Mapping[str, TypeProto],
    ) -> None:
        self.graph, self.opsets = graph, opsets
        self.constants = {**constants, **dict(_small_constants(graph))}
        stated = {value.name: value.type for value in graph.input if value.type.WhichOneof("value")}
        weights = {
            each.name: helper.make_tensor_type_proto(each.data_type, list(each.dims))
            for each in graph.initializer
        }
        self.types = {**outer, **weights, **stated, **given}
        if self.multiplies():
            self.infer(self.standalone(outer))

    def infer(self, model: ModelProto) -> None:
        """Infer the types of the results of nodes by ONNX, and by onnxruntime where ONNX infers no shape.

        Args:
            model: the graph as a model, which gets further outputs.
        """
        try:
            inferred = shape_inference.infer_shapes(model, data_prop=True).graph
            self.types |= {value.name: value.type for value in (*inferred.value_info, *inferred.output)}
        except ONNX_ERRORS:
            pass
        results = (name for node in self.graph.node for name in node.output if name)
        missing = [name for name in results if UNKNOWN in self.shape(name)]
        present = {value.name for value in model.graph.output}
        model.graph.output.extend(ValueInfoProto(name=name) for name in missing if name not in present)
        try:
            probed = probe(model) if missing else {}
        except RefusalError:
            return
        self.types |= {name: result.proto for name, result in probed.items()}

    def multiplies(self) -> bool:
        """Whether any node may multiply, so that shapes matter."""
        return any(
            any(subgraphs(node))
            or macs_of(node.op_type, OperatorShapes((), (), _attributes(node)), _domain(node)) != 0
            for node in self.graph.node
        )

    def standalone(self, outer: Mapping[str, TypeProto]) -> ModelProto:
        """Return the graph as a model; values captured from outside become inputs, or constants."""
        outside = [name for name in dict.fromkeys(captured(self.graph)) if name in outer]
        known = [name for name in outside if name in self.constants]
        inputs = {
            value.name: self.types[value.name] for value in self.graph.input if value.name in self.types
        }
        inputs |= {name: outer[name] for name in outside if name not in known}
        tensors = [numpy_helper.from_array(self.constants[name], name) for name in known]
        outputs = [value.name for value in self.graph.output]
        return model_of(self.graph.node, self.opsets, inputs, [*self.graph.initializer, *tensors], outputs)

    def shape(self, name: str) -> Shape:
        """Return the shape of a value, with `UNKNOWN` for unknown extents."""
        shape = extents_of(self.types.get(name, TypeProto()))
        return NO_SHAPE if shape is None else shape

    # Counting

    def count(self) -> MacCount:
        """Return the multiply-accumulates of all nodes."""
        return sum(map(self.count_node, self.graph.node), NONE)

    def count_node(self, node: NodeProto) -> MacCount:
        """Return the multiply-accumulates of a node."""
        inner = dict(subgraphs(node))
        if inner:
            return self.count_subgraphs(node, inner)
        inputs = [self.shape(name) if name else None for name in node.input]
        outputs = [self.shape(name) if name else None for name in node.output]
        count = macs_of(node.op_type, OperatorShapes(inputs, outputs, _attributes(node)), _domain(node))
        return MacCount(0, (f"{_label(node)} not counted",)) if count is None else MacCount(count)

    def count_subgraphs(self, node: NodeProto, inner: Mapping[str, GraphProto]) -> MacCount:
        """Return the multiply-accumulates of a node's subgraphs."""
        if node.op_type == "If":
            least, most = sorted(map(self.count_subgraph, inner.values()), key=lambda branch: branch.macs)
            same = least.macs == most.macs
            larger = () if same else (f"{_label(node)} counted for its larger branch",)
            return most + MacCount(0, (*least.open, *larger))
        (body,) = inner.values()
        given, trips = self.body_input_types(node, body), self.trips(node, body)
        trip = self.count_subgraph(body, given)
        if trips is not None or trip == NONE:
            return MacCount(trip.macs * (trips or 0), trip.open)
        return trip + MacCount(0, (f"{_label(node)} counted for one trip",))

    def count_subgraph(self, graph: GraphProto, given: Mapping[str, TypeProto] | None = None) -> MacCount:
        """Return the multiply-accumulates of a subgraph, whose inputs have the types `given`."""
        return _Scope(graph, self.opsets, self.types, self.constants, given or {}).count()

    def body_input_types(self, node: NodeProto, body: GraphProto) -> dict[str, TypeProto]:
        """Return the types of the inputs of the body of a Loop or Scan, derived from the node's inputs."""
        names = [value.name for value in body.input]
        if node.op_type == "Loop":
            pairs = zip(names[2:], node.input[2:], strict=False)
            return {name: self.types[read] for name, read in pairs if read in self.types}
        axes = dict(self.scanned(node))
        pairs = zip(names, node.input, strict=False)
        return {
            name: _without(self.types[read], axes.get(place))
            for place, (name, read) in enumerate(pairs)
            if read in self.types
        }

    def scanned(self, node: NodeProto) -> Iterator[tuple[int, int]]:
        """Yield the position of each input that a Scan slices, with the axis."""
        attributes = _attributes(node)
        count = attributes.get("num_scan_inputs", 0)
        axes = attributes.get("scan_input_axes")
        if not isinstance(count, int) or self.opsets.get("", 0) < 9:
            return  # a Scan of version 8 has a batch dimension
        for place in range(count):
            where = len(node.input) - count + place
            axis = axes[place] if isinstance(axes, list) else 0
            yield where, axis % max(len(self.shape(node.input[where])), 1)

    def trips(self, node: NodeProto, body: GraphProto) -> int | None:
        """Return the trip count of a body, or None if it is only known in a run."""
        if node.op_type == "Scan":
            lengths = [self.shape(node.input[place])[axis] for place, axis in self.scanned(node)]
            return lengths[0] if lengths and lengths[0] != UNKNOWN else None
        if node.op_type != "Loop" or not node.input[0]:
            return None
        most = self.constants.get(node.input[0])
        begins = not node.input[1] or bool(self.constants.get(node.input[1], np.zeros(1)).all())
        if most is None or most.size != 1 or most.item() >= ENDLESS or not begins or not _goes_on(body):
            return None
        return max(int(most.item()), 0)


def _goes_on(body: GraphProto) -> bool:
    """Whether the body of a Loop passes its condition through, or sets it to true."""
    makers = {name: node for node in body.node for name in node.output}
    constants, name = dict(_small_constants(body)), body.output[0].name
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return name == body.input[1].name or bool(constants.get(name, np.zeros(1)).all())


def _small_constants(graph: GraphProto) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the constants of a graph that shapes and trip counts may depend on."""
    for tensor in graph.initializer:
        if np.prod(tensor.dims, dtype=float) <= SMALL:
            yield tensor.name, numpy_helper.to_array(tensor)
    for node in graph.node:
        values = [attribute for attribute in node.attribute if attribute.name == "value"]
        if node.op_type == "Constant" and values and np.prod(values[0].t.dims, dtype=float) <= SMALL:
            yield node.output[0], numpy_helper.to_array(values[0].t)


def _attributes(node: NodeProto) -> dict[str, object]:
    """Return the attributes that are integers, lists of integers or strings."""
    return {
        each.name: helper.get_attribute_value(each).decode("utf-8", "replace")
        if each.type == each.STRING
        else helper.get_attribute_value(each)
        for each in node.attribute
        if each.type in (each.INT, each.INTS, each.STRING)
    }


def _domain(node: NodeProto) -> str:
    return "" if node.domain in MAIN_DOMAINS else node.domain


def _label(node: NodeProto) -> str:
    return short(f"{node.op_type} {(node.name or node.output[0])!r}", LONGEST_LABEL)


def _without(type_: TypeProto, axis: int | None) -> TypeProto:
    """Return a type without the dimension `axis`."""
    copy = TypeProto()
    copy.CopyFrom(type_)
    if axis is not None and copy.tensor_type.HasField("shape"):
        del copy.tensor_type.shape.dim[axis]
    return copy
