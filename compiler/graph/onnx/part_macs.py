"""Multiply-accumulates of a part that onnxruntime runs, also of what stands in subgraphs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, helper, numpy_helper, shape_inference

from vdla.compiler.graph.macs import Shape, Use, macs_of
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.infer import NOT_INFERRED
from vdla.compiler.graph.onnx.part import Opsets, model_of, probe
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import captured, subgraphs
from vdla.hw.spec.showing import short
from vdla.runtime.host.dtypes import UNKNOWN

ENDLESS = 1 << 31  # trips from which on a Loop is one that its condition ends
SMALL = 1024  # elements of a constant on which shapes may depend
NO_SHAPE: Shape = (UNKNOWN,)
LONGEST_LABEL = 80


@dataclass(frozen=True, slots=True)
class Counted:
    """Multiply-accumulates.

    Attributes:
        macs: those that are known.
        open: what is not known of them, as "Loop 'l' counted for one trip"; in order.
    """

    macs: int = 0
    open: tuple[str, ...] = ()

    def times(self, trips: int) -> "Counted":
        """Return what as many trips take."""
        return Counted(self.macs * trips, self.open)

    def __add__(self, other: "Counted") -> "Counted":
        return Counted(self.macs + other.macs, tuple(dict.fromkeys((*self.open, *other.open))))


NONE = Counted()


def macs_of_part(model: bytes) -> Counted:
    """Return the multiply-accumulates of a model that onnxruntime takes.

    Where a Loop ends by a condition, one trip counts; of an If, the branch that multiplies more.
    """
    proto = ModelProto.FromString(model)
    opsets = {one.domain: one.version for one in proto.opset_import}
    return _Scope(proto.graph, opsets, {}, {}).counted()


class _Scope:
    """The values of a graph, with those around it.

    Attributes:
        types: of values, as far as they are known.
        constants: that are small.
    """

    def __init__(
        self,
        graph: GraphProto,
        opsets: Opsets,
        types: Mapping[str, TypeProto],
        constants: Mapping[str, np.ndarray],
    ) -> None:
        self.graph, self.opsets = graph, opsets
        own = {one.name: one for one in graph.initializer}
        self.constants = {**constants, **dict(_small(graph))}
        self.types = {**types, **{name: _type(one.dims, one.data_type) for name, one in own.items()}}
        self.types |= {one.name: one.type for one in graph.input if one.type.WhichOneof("value")}
        self.infer(types)

    def infer(self, outer: Mapping[str, TypeProto]) -> None:
        """Find types of what the nodes make: by ONNX, and by onnxruntime where that knows no shape."""
        wanted = [name for node in self.graph.node for name in node.output if name]
        if not self.multiplies():
            return
        model = self.alone(outer)
        try:
            found = shape_inference.infer_shapes(model, data_prop=True).graph
            self.types |= {one.name: one.type for one in (*found.value_info, *found.output)}
        except NOT_INFERRED:
            pass
        missing = [name for name in wanted if UNKNOWN in self.shape(name)]
        if missing:
            self.ask(model, missing)

    def multiplies(self) -> bool:
        """Whether a node may multiply, so that shapes matter."""
        return any(
            any(subgraphs(node)) or macs_of(node.op_type, Use((), (), _plain(node)), _domain(node)) != 0
            for node in self.graph.node
        )

    def alone(self, outer: Mapping[str, TypeProto]) -> ModelProto:
        """Return the graph as a model: what it takes from outside are inputs, or constants."""
        own = {one.name for one in (*self.graph.initializer, *self.graph.input)}
        holder = NodeProto()
        holder.attribute.append(helper.make_attribute("body", self.graph))
        outside = [name for name in dict.fromkeys(captured(holder)) if name in outer and name not in own]
        inputs = {one.name: self.types[one.name] for one in self.graph.input if one.name in self.types}
        inputs |= {name: outer[name] for name in outside if name not in self.constants}
        tensors = [
            numpy_helper.from_array(self.constants[name], name) for name in outside if name in self.constants
        ]
        outputs = [one.name for one in self.graph.output]
        return model_of(self.graph.node, self.opsets, inputs, [*self.graph.initializer, *tensors], outputs)

    def ask(self, model: ModelProto, names: Iterable[str]) -> None:
        """Take over what onnxruntime says of the shapes of values."""
        present = {one.name for one in model.graph.output}
        model.graph.output.extend(
            helper.make_empty_tensor_value_info(name) for name in names if name not in present
        )
        try:
            found = probe(model)
        except RefusalError:
            return
        self.types |= {name: one.proto for name, one in found.items()}

    def shape(self, name: str) -> Shape:
        """Return the shape of a value, with `UNKNOWN` where it is not known."""
        tensor = self.types[name].tensor_type if name in self.types else TypeProto().tensor_type
        if not tensor.HasField("shape"):
            return NO_SHAPE
        return tuple(dim.dim_value if dim.HasField("dim_value") else UNKNOWN for dim in tensor.shape.dim)

    # Counting

    def counted(self) -> Counted:
        """Return the multiply-accumulates of all nodes."""
        return sum(map(self.of, self.graph.node), NONE)

    def of(self, node: NodeProto) -> Counted:
        """Return the multiply-accumulates of a node."""
        inner = dict(subgraphs(node))
        if inner:
            return self.held(node, inner)
        inputs = [self.shape(name) if name else None for name in node.input]
        outputs = [self.shape(name) if name else None for name in node.output]
        found = macs_of(node.op_type, Use(inputs, outputs, _plain(node)), _domain(node))
        return Counted(0, (f"{_label(node)} not counted",)) if found is None else Counted(found)

    def held(self, node: NodeProto, inner: Mapping[str, GraphProto]) -> Counted:
        """Return the multiply-accumulates of what a node's subgraphs do."""
        if node.op_type == "If":
            then, other = (self.within(graph) for graph in inner.values())
            most = max(then, other, key=lambda one: one.macs)
            same = then.macs == other.macs
            return most + Counted(0, () if same else (f"{_label(node)} counted for its larger branch",))
        (body,) = inner.values()
        given, trips = self.given(node, body), self.trips(node, body)
        one = self.within(body, given)
        if trips is not None or one == NONE:
            return one.times(trips or 0)
        return one + Counted(0, (f"{_label(node)} counted for one trip",))

    def within(self, graph: GraphProto, given: Mapping[str, TypeProto] | None = None) -> Counted:
        """Return the multiply-accumulates of a subgraph, whose inputs have the types `given`."""
        copy = GraphProto()
        copy.CopyFrom(graph)
        for value in copy.input:
            if given is not None and value.name in given:
                value.type.CopyFrom(given[value.name])
        return _Scope(copy, self.opsets, self.types, self.constants).counted()

    def given(self, node: NodeProto, body: GraphProto) -> dict[str, TypeProto]:
        """Return the types of what goes into the body of a Loop or Scan: those that the node reads."""
        names = [one.name for one in body.input]
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
        """Yield the place of each input that a Scan takes apart, with the axis."""
        attributes = _plain(node)
        count = attributes.get("num_scan_inputs", 0)
        axes = attributes.get("scan_input_axes")
        if not isinstance(count, int) or self.opsets.get("", 0) < 9:
            return  # of version 8, with a batch
        for place in range(count):
            where = len(node.input) - count + place
            axis = axes[place] if isinstance(axes, list) else 0
            yield where, axis % max(len(self.shape(node.input[where])), 1)

    def trips(self, node: NodeProto, body: GraphProto) -> int | None:
        """Return how often a body runs; None where only a run tells."""
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
    """Whether the condition that the body of a Loop makes is the one it is given, or always true."""
    makers = {name: node for node in body.node for name in node.output}
    constants, name = dict(_small(body)), body.output[0].name
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return name == body.input[1].name or bool(constants.get(name, np.zeros(1)).all())


def _small(graph: GraphProto) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the constants of a graph on which shapes and trips may depend."""
    for tensor in graph.initializer:
        if np.prod(tensor.dims, dtype=float) <= SMALL:
            yield tensor.name, numpy_helper.to_array(tensor)
    for node in graph.node:
        values = [one for one in node.attribute if one.name == "value"]
        if node.op_type == "Constant" and values and np.prod(values[0].t.dims, dtype=float) <= SMALL:
            yield node.output[0], numpy_helper.to_array(values[0].t)


def _plain(node: NodeProto) -> dict[str, object]:
    """Return the attributes that are no graphs."""
    return {
        one.name: helper.get_attribute_value(one).decode("utf-8", "replace")
        if one.type == one.STRING
        else helper.get_attribute_value(one)
        for one in node.attribute
        if one.type in (one.INT, one.INTS, one.STRING)
    }


def _domain(node: NodeProto) -> str:
    return "" if node.domain in MAIN_DOMAINS else node.domain


def _label(node: NodeProto) -> str:
    return short(f"{node.op_type} {(node.name or node.output[0])!r}", LONGEST_LABEL)


def _type(dims: Iterable[int], code: int) -> TypeProto:
    return helper.make_tensor_type_proto(code, list(dims))


def _without(type_: TypeProto, axis: int | None) -> TypeProto:
    """Return a type without one of its dimensions."""
    copy = TypeProto()
    copy.CopyFrom(type_)
    if axis is not None and copy.tensor_type.HasField("shape"):
        del copy.tensor_type.shape.dim[axis]
    return copy
