"""The importer: converts a model to a graph node by node, and collects all problems."""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, defs, helper

from vdla.compiler.graph.conversions import CONVERSIONS
from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import Graph, GraphError, Node, TensorType
from vdla.compiler.graph.onnx import quantised
from vdla.compiler.graph.onnx.call import ForeignNode, Form, InvalidError, OnnxCall, OnnxNode, RefusalError
from vdla.compiler.graph.onnx.cut import Shapes, runtime_inputs
from vdla.compiler.graph.onnx.fixed import BRANCHES, advice
from vdla.compiler.graph.onnx.handover import Handover
from vdla.compiler.graph.onnx.infer import (
    PARAMETER_ELEMENTS,
    check_attributes,
    check_references,
    output_types,
)
from vdla.compiler.graph.onnx.inputs import shape_advice
from vdla.compiler.graph.onnx.parts import LONGEST_REASON, HostNode, grouped_into_parts
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS, OnnxModel
from vdla.compiler.graph.onnx.recurrent import RECURRENT
from vdla.compiler.graph.onnx.subgraphs import defined_names, reads, renamed, subgraphs
from vdla.compiler.graph.onnx.survey import (
    IMPORTERS,
    ONLY_HERE,
    foreign_operator,
    label_of,
    order_problems,
    refusal_of,
)
from vdla.compiler.graph.onnx.tensors import (
    array_of,
    attributes_from,
    check_room,
    constant_value,
    size_of,
    type_from,
)
from vdla.compiler.graph.onnx.values import (
    LONGEST_NAME,
    ImportedValues,
    check_computable,
    check_constant,
    check_usable,
    printable,
    without_trailing_names,
)
from vdla.hw.spec.showing import short
from vdla.runtime.host import onnx_runtime

MANY_OUTPUTS = {"DynamicQuantizeLinear": 3, "LayerNormalization": 3, "Split": 1 << 31}
IN_QUANTISED_FILE = (
    "it is in float, and the file is quantised already; compile its float original with --calibrate"
)
"""Why a recurrent operator is not unrolled: its products could not run on the accelerator."""


class Importer:
    """A graph under construction.

    Attributes:
        problems: a sentence for each node, input or constant that cannot be imported.
        values: the values so far; `names`, `types` and `constants` are its attributes.
        handover: the nodes that onnxruntime runs.
        steps: nodes of the graph and host nodes, in topological order.
        initializer_bytes: the size of the initializers so far.
        stays_in_float: the file is quantised already, and onnxruntime runs what it has in float.
        misses_onnxruntime: a node was refused only because onnxruntime is not installed.
    """

    def __init__(self, model: OnnxModel, shapes: Shapes) -> None:
        self.model, self.shapes = model, shapes
        self.problems: list[str] = []
        self.steps: list[Node | HostNode] = []
        self.initializer_bytes = 0
        self.misses_onnxruntime = False
        graph = model.proto.graph
        self.values = ImportedValues(defined_names(graph))
        self.names, self.types = self.values.names, self.values.types
        self.constants = self.values.constants
        self.handover = Handover(self.values, model.opsets, (*graph.value_info, *graph.output))
        ops = {node.op_type for node in graph.node}
        self.stays_in_float = "QuantizeLinear" in ops and onnx_runtime.is_there()
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
            self.attempt(label_of(node, place), partial(self.add_node, node))
        for value in graph.output:
            self.attempt(f"output {value.name!r}", partial(self.check_output, value.name))
        if self.problems:
            raise self.failure()
        outputs = tuple(self.names[value.name] for value in graph.output)
        try:
            nodes = grouped_into_parts(self.steps, outputs, self.handover.nodes)
        except RefusalError as error:
            self.problems.append(str(error))
            raise self.failure() from error
        return Graph(printable(graph.name or "model"), inputs, outputs, nodes, self.constants, self.types)

    def check_output(self, name: str) -> None:
        """Refuse an output that no device can hold."""
        value = self.names.get(name)
        if name in self.values.ranges:
            raise RefusalError(
                "it is of integers of less than eight bits, which must not leave a network; put a "
                "DequantizeLinear or a Cast to int8 after it"
            )
        if value in self.constants:
            check_usable(self.types[value], "it ")
        elif value is not None and value not in self.types:
            self.handover.add_type(name, value)

    def failure(self) -> GraphError:
        """Return the error that lists all problems."""
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) > 1)}"
        lines = [f"{self.model.label}: cannot be imported, {count}:", *self.problems]
        if self.misses_onnxruntime:
            lines.append(onnx_runtime.cure())
        return GraphError("\n  ".join(lines))

    def attempt(self, subject: str, action: Callable[[], None]) -> None:
        """Run an action; record a refusal as a problem."""
        try:
            action()
        except RefusalError as error:
            self.problems.append(f"{subject}: {error}")

    def add_constants(self) -> None:
        """Import the used initializers."""
        for tensor in self.model.proto.graph.sparse_initializer:
            self.problems.append(f"initializer {tensor.values.name!r}: it is sparse, which is not supported")
        for tensor in self.model.proto.graph.initializer:
            if tensor.name in self.used:
                self.attempt(f"initializer {tensor.name!r}", partial(self.add_initializer, tensor))

    def add_initializer(self, tensor: TensorProto) -> None:
        """Add an initializer as a constant."""
        if tensor.data_type == TensorProto.STRING and onnx_runtime.is_there():
            self.handover.add_tensor(tensor)
            return
        self.initializer_bytes += size_of(tensor)
        check_room(self.initializer_bytes, "with the constants before it, it takes")
        self.values.add_constant(tensor.name, array_of(tensor, self.model.folder))

    def add_inputs(self) -> dict[str, TensorType]:
        """Add the inputs that are not initializers; return their types by the graph's names."""
        values = runtime_inputs(self.model.proto.graph)
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
        """Add an input of the model, of the given shape if any; refuse a type that no device can hold."""
        try:
            type_ = type_from(value.type, self.shapes.get(value.name))
        except RefusalError as error:
            hint = f"; {shape_advice(value)}" if "dynamic" in str(error) else ""
            raise RefusalError(f"{error}{hint}") from None
        check_usable(type_)
        self.names[value.name] = self.values.define(value.name, type_)

    def add_node(self, node: NodeProto) -> None:
        """Import a node; skip it if the import of an input failed."""
        if any(name not in self.names for name in reads(node)):
            if not onnx_runtime.is_there():
                self.check_supported(node)
            return
        check_references(node)
        is_if = node.op_type == "If" and node.domain in MAIN_DOMAINS
        condition = self.constants.get(self.names[node.input[0]]) if is_if else None
        if condition is not None and condition.size == 1:
            self.add_branch(node, dict(subgraphs(node))[BRANCHES[bool(condition.item())]])
            return
        try:
            self.add_known(node)
        except InvalidError:
            raise
        except RefusalError as error:
            if node.domain in ONLY_HERE or any(
                name in self.values.ranges and not self.handover.is_constant(name) for name in reads(node)
            ):
                raise  # the graph holds bytes, where onnxruntime would need narrower integers
            if node.op_type in IMPORTERS or not self.add_definition(node, supported_only=True):
                self.hand_over(node, advice(self.model, node, self.input_types()) if is_if else str(error))

    def input_types(self) -> dict[str, TensorType]:
        """Return the types of the model's inputs, by the model's names."""
        inputs = (value.name for value in self.model.proto.graph.input)
        return {name: self.types[self.names[name]] for name in inputs if self.names.get(name) in self.types}

    def add_known(self, node: NodeProto) -> None:
        """Import a node as operators of the kit.

        Raises:
            RefusalError: the kit does not support the node.
        """
        self.check_supported(node)
        for name in filter(None, node.input):
            if self.names[name] not in self.types:
                type_ = self.handover.results.get(self.names[name], "constant that only onnxruntime can hold")
                raise RefusalError(f"its input {name!r} is a {type_}")
        steps, limits, kind = [OnnxNode(node, self.model.opset)], None, foreign_operator(node)
        if kind is not None and self.stays_in_float and node.op_type in RECURRENT:
            raise RefusalError(IN_QUANTISED_FILE)
        if kind is not None:
            steps = kind.expanded(self.foreign(node))
        else:
            limits = quantised.range_of_result(node, self.values.ranges)
            if limits and node.op_type == "QuantizeLinear":
                steps = quantised.clipped_quantisation(self.foreign(node), limits)
        self.used |= {name for step in steps for name in reads(step.proto)}
        for step in steps:
            self.add_operator(step.proto, step.opset, step.step_of)
        if limits:
            self.values.ranges[node.output[0]] = limits

    def foreign(self, node: NodeProto) -> ForeignNode:
        """Return a node that is expanded into other nodes, with what is known about its inputs."""
        names = [self.names[name] if name else "" for name in node.input]
        return ForeignNode(
            node.op_type,
            self.model.opset,
            tuple(node.input),
            attributes_from(node.attribute),
            tuple(self.types[name] if name else None for name in names),
            tuple(self.constants.get(name) for name in names),
            (),
            node,
            self.values.model_names,
        )

    def add_operator(self, node: NodeProto, opset: int, step_of: str = "") -> None:
        """Import a node of the main domain in version `opset`; `step_of` as in `Node`."""
        if node.op_type == "Constant":
            self.values.add_constant(node.output[0], constant_value(attributes_from(node.attribute)))
            return
        node = without_trailing_names(node)
        count = self.count_used_outputs(node)
        call = self.call_of(node, count, opset)
        form = IMPORTERS[call.op](call)
        if isinstance(form, np.ndarray):
            self.values.add_constant(node.output[0], form)
        else:
            outputs = list(zip(node.output, call.output_types, strict=False))[:count]
            self.add_form(form, short(node.name, LONGEST_NAME), outputs, step_of)

    def check_supported(self, node: NodeProto) -> None:
        """Refuse a node that the kit never runs."""
        if refusal := refusal_of(node, self.model.opset):
            raise RefusalError(refusal)

    def hand_over(self, node: NodeProto, reason: str) -> None:
        """Hand a node, or the nodes of its definition, over to onnxruntime.

        Raises:
            RefusalError: onnxruntime is not installed, or refuses the node and there is no definition.
        """
        if not onnx_runtime.is_there():
            self.misses_onnxruntime = True
            raise RefusalError(reason)
        try:
            taken = self.handover.hand_over(node, reason, [name for name in node.output if name in self.used])
        except RefusalError as error:
            if not self.add_definition(node):
                both = f"{short(reason, LONGEST_REASON)}; {short(str(error), LONGEST_REASON)}"
                raise RefusalError(both) from error
            return
        if taken is not None:
            self.steps.append(taken)

    def add_definition(self, node: NodeProto, *, supported_only: bool = False) -> bool:
        """Import the nodes of an operator's definition, an ONNX function; return whether it has a definition.

        Args:
            supported_only: import a definition only if the kit has all its operators.
        """
        definition = self.handover.expansion(node)
        if supported_only and any(refusal_of(inner, self.model.opset) for inner in definition):
            return False
        results = {name for inner in definition for name in inner.output}
        for inner in definition:
            inner.name = inner.name or node.name
        self.add_inner(definition, results - set(node.output))
        return bool(definition)

    def add_inner(self, nodes: list[NodeProto], inner: set[str], tensors: Iterable[TensorProto] = ()) -> None:
        """Import the nodes that replace another node.

        Args:
            nodes: the nodes, in topological order.
            inner: names of values that only these nodes see; taken names are replaced.
            tensors: the constants among these values.
        """
        names = {name: self.values.model_names.take(name) for name in sorted(inner)}
        self.values.taken.add(*names.values())
        for tensor in tensors:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            copy.name = names[tensor.name]
            self.add_initializer(copy)
        unique = [renamed(node, names) for node in nodes]
        self.used |= {name for node in unique for name in reads(node)}
        for node in unique:
            self.add_node(node)

    def add_branch(self, node: NodeProto, graph: GraphProto) -> None:
        """Import the branch that an If always takes, in place of the If."""
        ends = zip(graph.output, node.output, strict=True)
        results = [helper.make_node("Identity", [end.name], [out]) for end, out in ends]
        self.add_inner([*graph.node, *results], defined_names(graph), graph.initializer)

    def count_used_outputs(self, node: NodeProto) -> int:
        """Return the number of outputs of a node up to the last used output; at least 1."""
        count = max((place for place, name in enumerate(node.output, 1) if name in self.used), default=1)
        if not node.output or "" in node.output[:count]:
            raise RefusalError("it leaves out an output before an output that is read")
        if count > MANY_OUTPUTS.get(node.op_type, 1):
            raise RefusalError(f"its output {count - 1} ({node.output[count - 1]!r}) is not supported")
        return count

    def call_of(self, node: NodeProto, wanted: int, opset: int) -> OnnxCall:
        """Return a node as the argument of an importing function."""
        inputs = tuple(self.names[name] if name else "" for name in node.input)
        types = tuple(self.types[name] if name else None for name in inputs)
        values = tuple(self.constants.get(name) for name in inputs)
        schema = defs.get_schema(node.op_type, opset, "")
        defaults = (each.default_value for each in schema.attributes.values() if each.default_value.name)
        attributes = attributes_from((*defaults, *node.attribute))
        check_attributes(attributes)
        outputs = output_types(node, schema, opset, types, values, wanted)
        return OnnxCall(node.op_type, opset, inputs, attributes, types, values, outputs)

    def add_form(
        self, form: Form, name: str, outputs: list[tuple[str, TensorType]], step_of: str = ""
    ) -> None:
        """Add the nodes of a form, or constants if its inputs are constant and small.

        Args:
            form: the form.
            name: the name of its nodes.
            outputs: the wished name and the type of each output.
            step_of: as `Node.step_of`.

        Raises:
            RefusalError: the operator refuses its constant inputs.
        """
        inputs = tuple(self.input_of(part, outputs[0][0], name) for part in form.inputs)
        results = tuple(self.values.define(wish, type_) for wish, type_ in outputs)
        node = Node(form.op, inputs, results, form.attributes, name, step_of=step_of)
        if self.is_foldable(node):
            try:
                self.constants |= run_node(node, self.constants, self.types)
            except GraphError as error:
                raise RefusalError(str(error)) from error
        else:
            self.check_node(node)
            self.steps.append(node)
        self.names |= {wish: new for (wish, _), new in zip(outputs, results, strict=True)}

    def input_of(self, part: str | np.ndarray | Form, wish: str, name: str) -> str:
        """Return the name of an input of a form; add it if it is an array or an inner form."""
        match part:
            case str():
                return part
            case Form():
                assert part.type is not None, "inner forms have types"
                inner = f"{wish}_{part.op}"
                self.add_form(part, name, [(inner, part.type)])
                return self.names.pop(inner)
        return self.values.new_constant(f"{wish}_constant", part)

    def is_foldable(self, node: Node) -> bool:
        """Whether a node is computed at import: its inputs are constant and small."""
        values = [name for name in (*node.inputs, *node.outputs) if name]
        inputs_known = all(name in self.constants for name in node.inputs if name)
        return (
            node.op not in CONVERSIONS
            and inputs_known
            and all(self.types[name].size <= PARAMETER_ELEMENTS for name in values)
        )

    def check_node(self, node: Node) -> None:
        """Refuse a node with an input or output that no device can hold."""
        for name in filter(None, node.inputs):
            if name in self.constants:
                check_constant(node.op, name, self.constants[name])
            else:
                check_computable(self.types[name], f"its input {name!r} ")
        check = check_usable if node.op == "Cast" else check_computable
        for name in node.outputs:
            check(self.types[name], f"its output {name!r} ")
