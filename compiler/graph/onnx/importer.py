"""The importer: goes from a model to a graph node by node, and collects all problems."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, defs, helper

from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import Graph, GraphError, Node, TensorType
from vdla.compiler.graph.onnx import nibbles
from vdla.compiler.graph.onnx.branching import advice
from vdla.compiler.graph.onnx.call import Call, Form, InvalidError, RefusalError
from vdla.compiler.graph.onnx.checks import check_computable, check_constant, check_usable
from vdla.compiler.graph.onnx.domains import check_known, expanded, runs_elsewhere
from vdla.compiler.graph.onnx.elements import check_room, size_of
from vdla.compiler.graph.onnx.handover import Handover
from vdla.compiler.graph.onnx.infer import PARAMETER_ELEMENTS, check_attributes, defaults_of, output_types
from vdla.compiler.graph.onnx.inputs import shape_advice
from vdla.compiler.graph.onnx.names import LONGEST_NAME, printable, trimmed, without_ends
from vdla.compiler.graph.onnx.outside import LONGEST_REASON, Outside, in_parts
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS, Model
from vdla.compiler.graph.onnx.subgraphs import own_names, reads, renamed, taken_branch
from vdla.compiler.graph.onnx.survey import (
    IMPORTERS,
    described,
    order_problems,
    refusal_of,
)
from vdla.compiler.graph.onnx.tensors import (
    array_of,
    attributes_from,
    constant_value,
    type_from,
    type_with_shape,
)
from vdla.compiler.graph.onnx.values import Values
from vdla.compiler.graph.onnx.written import Written
from vdla.compiler.graph.passes.constant_folding import QUANTISATION
from vdla.hw.spec.showing import short
from vdla.runtime.host import onnx_runtime

GRAPHLESS = (TensorProto.STRING,)  # elements of constants that only onnxruntime has
MANY_OUTPUTS = {"DynamicQuantizeLinear": 3, "LayerNormalization": 3, "Split": 1 << 31}

Shapes = Mapping[str, tuple[int, ...]]


class Importer:
    """A graph under construction.

    Attributes:
        problems: sentences, one for each thing that cannot be imported.
        values: the values so far; `names`, `types` and `constants` are theirs.
        handover: what is left to onnxruntime.
        steps: nodes of the graph, and those that onnxruntime runs.
        initializer_bytes: what the initializers so far take.
        misses_onnxruntime: whether a node was refused that onnxruntime might run, were it there.
    """

    def __init__(self, model: Model, shapes: Shapes) -> None:
        self.model, self.shapes = model, shapes
        self.problems: list[str] = []
        self.steps: list[Node | Outside] = []
        self.initializer_bytes = 0
        self.misses_onnxruntime = False
        graph = model.proto.graph
        self.values = Values(
            {name for node in graph.node for name in node.output}
            | {value.name for value in (*graph.input, *graph.initializer)}
        )
        self.names, self.types = self.values.names, self.values.types
        self.constants = self.values.constants
        self.handover = Handover(self.values, model.opsets, (*graph.value_info, *graph.output))
        self.used = {name for node in graph.node for name in reads(node)} | {
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
        for place, node in enumerate(graph.node):
            self.attempt(described(node, place), partial(self.add_node, node))
        for value in graph.output:
            self.attempt(f"output {value.name!r}", partial(self.check_output, value.name))
        if self.problems:
            raise self.failure()
        outputs = tuple(self.names[value.name] for value in graph.output)
        nodes = self.nodes_of(outputs)
        return Graph(printable(graph.name or "model"), inputs, outputs, nodes, self.constants, self.types)

    def nodes_of(self, outputs: tuple[str, ...]) -> tuple[Node, ...]:
        """Return the nodes of the graph, with one for each part that onnxruntime runs."""
        try:
            return in_parts(self.steps, outputs, self.handover.nodes)
        except RefusalError as error:
            self.problems.append(str(error))
            raise self.failure() from error

    def check_output(self, name: str) -> None:
        """Refuse a constant that goes out but that no device can hold."""
        own = self.names.get(name)
        if name in self.values.ranges:
            raise RefusalError(
                "it is of integers of less than eight bits, which must not leave a network; put a "
                "DequantizeLinear or a Cast to int8 behind it"
            )
        if own in self.constants:
            check_usable(self.types[own], "it ")
        elif own is not None and own not in self.types:
            self.handover.add_type(name, own)

    def failure(self) -> GraphError:
        """Return the error that lists all problems."""
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) > 1)}"
        lines = [f"{self.model.label}: cannot be imported, {count}:", *self.problems]
        if self.misses_onnxruntime:
            lines.append(onnx_runtime.cure())
        return GraphError("\n  ".join(lines))

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
        if tensor.data_type in GRAPHLESS and onnx_runtime.is_there():
            self.handover.add_tensor(tensor)
            return
        self.initializer_bytes += size_of(tensor)
        check_room(self.initializer_bytes, "with those before it, it takes")
        self.values.add_constant(tensor.name, array_of(tensor, self.model.folder))

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
        self.names[value.name] = self.values.define(value.name, type_)

    def input_type(self, value: ValueInfoProto) -> TensorType:
        """Return the type of an input, with the shape the caller gives in place of a dynamic one."""
        if value.name in self.shapes and value.type.HasField("tensor_type"):
            return type_with_shape(value.type, self.shapes[value.name])
        try:
            return type_from(value.type)
        except RefusalError as error:
            hint = f"; {shape_advice(value)}" if "dynamic" in str(error) else ""
            raise RefusalError(f"{error}{hint}") from None

    def add_node(self, node: NodeProto) -> None:
        """Import a node; what depends on a value that could not be made is passed over."""
        if any(name not in self.names for name in reads(node)):
            if not onnx_runtime.is_there():
                self.check_supported(node)
            return
        is_if = node.op_type == "If" and node.domain in MAIN_DOMAINS
        condition = self.constants.get(self.names[node.input[0]]) if is_if else None
        if condition is not None and condition.size == 1:
            self.add_branch(node, taken_branch(node, bool(condition.item())))
            return
        try:
            self.add_known(node)
        except InvalidError:
            raise
        except RefusalError as error:
            if not runs_elsewhere(node) or any(
                name in self.values.ranges and not self.handover.is_constant(name) for name in reads(node)
            ):
                raise  # the graph has bytes in place of what onnxruntime would need
            self.hand_over(node, advice(self.model, node, self.input_types()) if is_if else str(error))

    def input_types(self) -> dict[str, TensorType]:
        """Return the types of the model's inputs, by its names."""
        inputs = (value.name for value in self.model.proto.graph.input)
        return {name: self.types[self.names[name]] for name in inputs if self.names.get(name) in self.types}

    def add_known(self, node: NodeProto) -> None:
        """Import a node that the kit runs itself."""
        check_known(node)
        self.check_supported(node)
        for name in filter(None, node.input):
            if self.names[name] not in self.types:
                raise RefusalError(f"its input {name!r} is a {self.described(name)}")
        if node.domain in MAIN_DOMAINS:
            nibbles.check_reader(node, self.values.ranges)
            for one in self.bounded(node):
                self.add_part(one, self.model.opset)
            if node.op_type in nibbles.MOVERS and node.input[0] in self.values.ranges:
                self.values.ranges[node.output[0]] = self.values.ranges[node.input[0]]
            return
        parts = list(expanded(self.written(node)))
        self.used |= {name for part in parts for name in part.node.input}
        for part in parts:
            self.add_part(part.node, part.opset)

    def bounded(self, node: NodeProto) -> Iterator[NodeProto]:
        """Yield a node; with bounds before it, if it quantises to less than eight bits."""
        limits = (
            self.values.ranges.get(node.input[2])
            if node.op_type == "QuantizeLinear" and len(node.input) > 2
            else None
        )
        if limits is None:
            yield node
            return
        real, scale, zero = (self.names[name] for name in node.input)
        values = self.constants.get(scale), self.constants.get(zero)
        yield from nibbles.bounded(node, limits, *values, len(self.types[real].shape))
        self.values.ranges[node.output[0]] = limits

    def written(self, node: NodeProto) -> Written:
        """Return what is known about an operator of another domain."""
        names = [self.names.get(name, "") for name in node.input]
        types = [self.types[name] if name else None for name in names]
        values = [self.constants.get(name) for name in names]
        return Written(node, values, types, self.values.own_names)

    def add_part(self, node: NodeProto, opset: int) -> None:
        """Import an operator of ONNX, of a version of its operator set."""
        if node.op_type == "Constant":
            self.values.add_constant(
                node.output[0],
                constant_value(attributes_from({proto.name: proto for proto in node.attribute})),
            )
            return
        count = self.wanted_outputs(node)
        call = self.call_of(node, count, opset)
        form = IMPORTERS[call.op](call)
        if isinstance(form, np.ndarray):
            self.values.add_constant(node.output[0], form)
        else:
            outputs = list(zip(node.output, call.output_types, strict=False))[:count]
            self.make(form, short(node.name, LONGEST_NAME), outputs)

    def check_supported(self, node: NodeProto) -> None:
        """Refuse a node that the kit never runs."""
        refusal = refusal_of(node, self.model.opset)
        if refusal:
            raise RefusalError(refusal)

    def described(self, name: str) -> str:
        """Return what a value is that the graph cannot hold."""
        made = self.handover.made.get(self.names[name])
        return "constant of a type that only onnxruntime has" if made is None else str(made)

    def hand_over(self, node: NodeProto, reason: str) -> None:
        """Leave a node to onnxruntime; refuse it where that is not there, or refuses it, too."""
        if not onnx_runtime.is_there():
            self.misses_onnxruntime = True
            raise RefusalError(reason)
        try:
            taken = self.handover.take(node, reason, [name for name in node.output if name in self.used])
        except RefusalError as error:
            expansion = self.handover.expansion(node)
            if not expansion:
                both = f"{short(reason, LONGEST_REASON)}; {short(str(error), LONGEST_REASON)}"
                raise RefusalError(both) from error
            self.add_inner(expansion, {name for one in expansion for name in one.output} - set(node.output))
            return
        if taken is not None:
            self.steps.append(taken)

    def add_inner(self, nodes: list[NodeProto], own: set[str], tensors: Iterable[TensorProto] = ()) -> None:
        """Import nodes that stand for another one.

        Args:
            own: names that they make and that nobody else sees; they are replaced if they are taken.
            tensors: constants among these.
        """
        names = {name: self.values.own_names.take(name) for name in sorted(own)}
        self.values.taken.add(*names.values())
        for tensor in tensors:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            copy.name = names[tensor.name]
            self.add_initializer(copy)
        inner = [renamed(node, names) for node in nodes]
        self.used |= {name for node in inner for name in reads(node)}
        for node in inner:
            self.add_node(node)

    def add_branch(self, node: NodeProto, graph: GraphProto) -> None:
        """Import the branch of an If that is always taken in place of the If."""
        ends = zip(graph.output, node.output, strict=True)
        results = [helper.make_node("Identity", [end.name], [out]) for end, out in ends]
        self.add_inner([*graph.node, *results], own_names(graph), graph.initializer)

    def wanted_outputs(self, node: NodeProto) -> int:
        """Return how many outputs of a node something reads; at least 1."""
        count = max((place for place, name in enumerate(node.output, 1) if name in self.used), default=1)
        if not node.output or "" in node.output[:count]:
            raise RefusalError("it leaves out an output before one that is read")
        if count > MANY_OUTPUTS.get(node.op_type, 1):
            raise RefusalError(f"its output {count - 1} ({node.output[count - 1]!r}) is not supported")
        return count

    def call_of(self, node: NodeProto, wanted: int, opset: int) -> Call:
        """Return all that is known about a node."""
        inputs = tuple(self.names[name] if name else "" for name in trimmed(node.input))
        types = tuple(self.types[name] if name else None for name in inputs)
        values = tuple(self.constants.get(name) for name in inputs)
        op = node.op_type
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
        made = tuple(self.values.define(wish, type_) for wish, type_ in outputs)
        node = Node(form.op, inputs, made, form.attributes, name)
        if self.is_known(node):
            self.constants |= self.evaluate(node)
        else:
            self.check_used(node)
            self.steps.append(node)
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
        return self.values.new_constant(f"{wish}_constant", part)

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
                check_constant(node.op, name, self.constants[name])
            else:
                check_computable(self.types[name], f"its input {name!r} ")
        check = check_usable if node.op == "Cast" else check_computable
        for name in node.outputs:
            check(self.types[name], f"its output {name!r} ")
