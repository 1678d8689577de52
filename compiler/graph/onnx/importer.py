"""The importer: goes from a model to a graph node by node, and collects all problems."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, defs

from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import Graph, GraphError, Node, TensorType, fresh_name, type_of
from vdla.compiler.graph.onnx.call import Call, Form, RefusalError
from vdla.compiler.graph.onnx.checks import check_constant, check_usable
from vdla.compiler.graph.onnx.elements import check_room, size_of
from vdla.compiler.graph.onnx.infer import PARAMETER_ELEMENTS, check_attributes, defaults_of, output_types
from vdla.compiler.graph.onnx.names import LONGEST_NAME, identifier, trimmed, without_ends
from vdla.compiler.graph.onnx.quantised import contributed_types
from vdla.compiler.graph.onnx.read import Model
from vdla.compiler.graph.onnx.survey import (
    CONTRIBUTED_DOMAIN,
    IMPORTERS,
    described,
    order_problems,
    refused_nodes,
)
from vdla.compiler.graph.onnx.tensors import (
    array_of,
    attributes_from,
    constant_value,
    type_from,
    type_with_shape,
)
from vdla.compiler.graph.passes.constant_folding import QUANTISATION
from vdla.hw.spec.showing import short

MANY_OUTPUTS = {"LayerNormalization": 3, "Split": 1 << 31}

Shapes = Mapping[str, tuple[int, ...]]


class Importer:
    """A graph under construction.

    Attributes:
        problems: sentences, one for each thing that cannot be imported.
        names: the graph's name of each of the model's values, as far as they could be made.
        types, constants, nodes: as in a graph.
        initializer_bytes: what the initializers so far take.
    """

    def __init__(self, model: Model, shapes: Shapes) -> None:
        self.model, self.shapes = model, shapes
        self.problems: list[str] = []
        self.names: dict[str, str] = {}
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.initializer_bytes = 0
        graph = model.proto.graph
        self.own_names = {name for node in graph.node for name in node.output} | {
            value.name for value in (*graph.input, *graph.initializer)
        }
        self.taken = set(self.own_names)
        self.used = {name for node in graph.node for name in node.input} | {
            value.name for value in graph.output
        }

    def run(self) -> Graph:
        """Return the graph.

        Raises:
            GraphError: listing every problem.
        """
        graph = self.model.proto.graph
        self.problems += order_problems(graph)
        if self.problems:
            raise self.failure()
        if not graph.output:
            self.problems.append("it has no outputs")
        self.add_constants()
        inputs = self.add_inputs()
        refused = refused_nodes(graph, self.model.opset)
        for place, node in enumerate(graph.node):
            self.attempt(described(node, place), partial(self.add_node, node, refused.get(place)))
        for value in graph.output:
            self.attempt(f"output {value.name!r}", partial(self.check_output, value.name))
        if self.problems:
            raise self.failure()
        return Graph(
            identifier(graph.name or "model"),
            inputs,
            tuple(self.names[value.name] for value in graph.output),
            tuple(self.nodes),
            self.constants,
            self.types,
        )

    def check_output(self, name: str) -> None:
        """Refuse a constant that goes out but that no device can hold."""
        own = self.names.get(name)
        if own in self.constants:
            check_constant(own, self.constants[own])

    def failure(self) -> GraphError:
        """Return the error that lists all problems."""
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) > 1)}"
        return GraphError("\n  ".join([f"{self.model.label}: cannot be imported, {count}:", *self.problems]))

    def attempt(self, subject: str, action: Callable[[], None]) -> None:
        """Do something; record a refusal as a problem."""
        try:
            action()
        except RefusalError as error:
            self.problems.append(f"{subject}: {error}")

    def add_constants(self) -> None:
        """Import the initializers that are read."""
        for tensor in self.model.proto.graph.sparse_initializer:
            self.problems.append(f"initializer {tensor.values.name!r}: it is sparse, which is not supported")
        for tensor in self.model.proto.graph.initializer:
            if tensor.name in self.used:
                self.attempt(f"initializer {tensor.name!r}", partial(self.add_initializer, tensor))

    def add_initializer(self, tensor: TensorProto) -> None:
        """Make a constant of a tensor that the model carries."""
        self.initializer_bytes += size_of(tensor)
        check_room(self.initializer_bytes, "with those before it, it takes")
        self.add_constant(tensor.name, array_of(tensor, self.model.folder))

    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Make a constant for a value of the model."""
        self.names[name] = self.new_constant(name, array)

    def new_constant(self, wish: str, array: np.ndarray) -> str:
        """Make a constant; return its name."""
        name = self.define(wish, type_of(array))
        self.constants[name] = array
        return name

    def define(self, wish: str, type_: TensorType) -> str:
        """Make a value; return its name: the model's own if it is an identifier, else one like it that is
        free."""
        plain = identifier(wish)
        name = wish if plain == wish and wish in self.own_names else fresh_name(plain, self.taken)
        self.taken.add(name)
        self.types[name] = type_
        return name

    def add_inputs(self) -> dict[str, TensorType]:
        """Take over the inputs that are no initializers."""
        constant = {tensor.name for tensor in self.model.proto.graph.initializer}
        values = [value for value in self.model.proto.graph.input if value.name not in constant]
        for name in sorted(set(self.shapes) - {value.name for value in values}):
            self.problems.append(
                f"shapes names {name!r}, which is not an input; there are "
                f"{', '.join(value.name for value in values) or 'none'}"
            )
        for value in values:
            self.attempt(f"input {value.name!r}", partial(self.add_input, value))
        names = [self.names[value.name] for value in values if value.name in self.names]
        return {name: self.types[name] for name in names}

    def add_input(self, value: ValueInfoProto) -> None:
        """Take an input of the model into the graph; refuse a type that no device can hold."""
        type_ = self.input_type(value)
        check_usable(type_)
        self.names[value.name] = self.define(value.name, type_)

    def input_type(self, value: ValueInfoProto) -> TensorType:
        """Return the type of an input, with the shape the caller gives in place of a dynamic one."""
        if value.name in self.shapes and value.type.HasField("tensor_type"):
            return type_with_shape(value.type, self.shapes[value.name])
        try:
            return type_from(value.type)
        except RefusalError as error:
            hint = (
                f"; give it with shapes={{{value.name!r}: (...)}}, or --shape {value.name}=..."
                if "dynamic" in str(error)
                else ""
            )
            raise RefusalError(f"{error}{hint}") from None

    def add_node(self, node: NodeProto, refusal: str | None) -> None:
        """Import a node; what depends on a value that could not be made is passed over."""
        if refusal:
            raise RefusalError(refusal)
        if any(name and name not in self.names for name in node.input):
            return
        if node.op_type == "Constant":
            self.add_constant(
                node.output[0],
                constant_value(attributes_from({proto.name: proto for proto in node.attribute})),
            )
            return
        count = self.wanted_outputs(node)
        call = self.call_of(node, count)
        form = IMPORTERS[call.op](call)
        if isinstance(form, np.ndarray):
            self.add_constant(node.output[0], form)
        else:
            outputs = list(zip(node.output, call.output_types, strict=False))[:count]
            self.make(form, short(node.name, LONGEST_NAME), outputs)

    def wanted_outputs(self, node: NodeProto) -> int:
        """Return how many outputs of a node something reads; at least 1."""
        count = max((place for place, name in enumerate(node.output, 1) if name in self.used), default=1)
        if not node.output or "" in node.output[:count]:
            raise RefusalError("it leaves out an output before one that is read")
        if count > MANY_OUTPUTS.get(node.op_type, 1):
            raise RefusalError(f"its output {count - 1} ({node.output[count - 1]!r}) is not supported")
        return count

    def call_of(self, node: NodeProto, wanted: int) -> Call:
        """Return all that is known about a node."""
        inputs = tuple(self.names[name] if name else "" for name in trimmed(node.input))
        types = tuple(self.types[name] if name else None for name in inputs)
        values = tuple(self.constants.get(name) for name in inputs)
        op, opset = node.op_type, self.model.opset
        if node.domain == CONTRIBUTED_DOMAIN:
            return Call(op, opset, inputs, {}, types, values, contributed_types(types))
        schema = defs.get_schema(op, opset, "")
        attributes = attributes_from(defaults_of(schema) | {proto.name: proto for proto in node.attribute})
        check_attributes(attributes)
        return Call(
            op,
            opset,
            inputs,
            attributes,
            types,
            values,
            output_types(without_ends(node), schema, opset, types, values, wanted),
        )

    def make(self, form: Form, name: str, outputs: list[tuple[str, TensorType]]) -> None:
        """Make the nodes of a form, or constants where all of it is known and small."""
        inputs = tuple(self.input_of(part, outputs[0][0], name) for part in form.inputs)
        made = tuple(self.define(wish, type_) for wish, type_ in outputs)
        node = Node(form.op, inputs, made, form.attributes, name)
        if self.is_known(node):
            self.constants |= self.evaluate(node)
        else:
            self.check_used(node)
            self.nodes.append(node)
        self.names |= {wish: new for (wish, _), new in zip(outputs, made, strict=True)}

    def input_of(self, part: str | np.ndarray | Form, wish: str, name: str) -> str:
        """Return the name of an input of a form; make it if it is a constant or a form itself."""
        match part:
            case str():
                return part
            case Form():
                assert part.type is not None, "inner forms have types"
                inner = f"{wish}_{part.op}"
                self.make(part, name, [(inner, part.type)])
                return self.names.pop(inner)
        return self.new_constant(f"{wish}_constant", part)

    def is_known(self, node: Node) -> bool:
        """Whether a node can be computed now: a chain that computes a shape or another parameter."""
        values = [name for name in (*node.inputs, *node.outputs) if name]
        inputs_known = all(name in self.constants for name in node.inputs if name)
        return (
            node.op not in QUANTISATION
            and inputs_known
            and all(self.types[name].size <= PARAMETER_ELEMENTS for name in values)
        )

    def evaluate(self, node: Node) -> dict[str, np.ndarray]:
        """Return what a node makes of constants, by name; refuse it where its operator does."""
        try:
            return run_node(node, self.constants, self.types)
        except GraphError as error:
            raise RefusalError(str(error)) from error

    def check_used(self, node: Node) -> None:
        """Refuse a node that computes with, or makes, what no device can hold."""
        for name in filter(None, node.inputs):
            if name in self.constants:
                check_constant(name, self.constants[name])
        for name in node.outputs:
            check_usable(self.types[name], f"its output {name!r} ")
