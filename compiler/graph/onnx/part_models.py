"""Models of a few nodes for onnxruntime, and the types of their results.

A model declares the oldest version of the main operator set in which its operators have the same definition:
onnxruntime supports fewer of the newest versions than the `onnx` package.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    defs,
    helper,
    inliner,
)

from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import nodes_within, subgraphs
from vdla.compiler.graph.onnx.tensors import ONNX_ERRORS, extents_of
from vdla.runtime.host.dtypes import TENSOR_DTYPES
from vdla.runtime.host.onnx_runtime import prepare, session_from

IR_VERSION = 10
OLDEST_OPSET = 7  # the oldest that onnxruntime supports
RANK = "_its_rank"  # suffix of the values that hold a rank in a probe

Opsets = Mapping[str, int]  # versions of operator sets by domain; "" is the main domain


@dataclass(frozen=True, slots=True)
class ResultType:
    """The type of a value that onnxruntime computes, as far as it is known.

    Attributes:
        proto: its type; without a shape if the rank is unknown.
    """

    proto: TypeProto

    @property
    def tensor(self) -> TensorType | None:
        """The type in a graph; None if a graph cannot hold the value."""
        shape, code = extents_of(self.proto), self.proto.tensor_type.elem_type
        if shape is None or code == TensorProto.STRING:
            return None
        dtype = str(helper.tensor_dtype_to_np_dtype(code))
        return TensorType(shape, dtype) if dtype in TENSOR_DTYPES else None

    def __str__(self) -> str:
        tensor = self.proto.tensor_type
        if self.proto.HasField("tensor_type") and self.tensor is None:
            kind = f"tensor of {TensorProto.DataType.Name(tensor.elem_type).lower()}"
            return kind if tensor.HasField("shape") else f"{kind}, of unknown rank"
        kind = str(self.proto.WhichOneof("value")).removesuffix("_type")
        return kind if self.tensor is None else str(self.tensor)


def versions_of(node: NodeProto, opset: int) -> Iterator[int]:
    """Yield the versions of the main operator set in which a node has the same meaning as in `opset`.

    Versions are in descending order; the operator's definition differs between them only in supported types.
    """
    version = _since(node, opset)
    yield version
    if node.domain not in MAIN_DOMAINS or any(subgraphs(node)):
        return
    while version > OLDEST_OPSET and same_in(node.op_type, version, version - 1):
        version = max(defs.get_schema(node.op_type, version - 1, "").since_version, OLDEST_OPSET)
        yield version


def same_in(op: str, opset: int, other_opset: int) -> bool:
    """Whether an operator is the same in two main operator sets, except for supported types."""
    if not (defs.has(op, opset, "") and defs.has(op, other_opset, "")):
        return False
    return _signature(defs.get_schema(op, opset, "")) == _signature(defs.get_schema(op, other_opset, ""))


def _signature(schema: defs.OpSchema) -> tuple[object, ...]:
    """Return the attributes, inputs and outputs of an operator, without types."""
    attributes = [
        (name, attribute.type, attribute.required, attribute.default_value.SerializeToString())
        for name, attribute in sorted(schema.attributes.items())
    ]
    values = [[(value.name, value.option) for value in part] for part in (schema.inputs, schema.outputs)]
    return attributes, values, schema.min_input, schema.max_input, schema.deprecated


def _since(outer: NodeProto, opset: int) -> int:
    """Return the oldest main operator set in which a node has the same definition as in `opset`."""
    oldest = min(OLDEST_OPSET, opset)
    for node in nodes_within(outer):
        if node.domain in MAIN_DOMAINS:
            known = defs.has(node.op_type, opset, "")
            oldest = max(oldest, defs.get_schema(node.op_type, opset, "").since_version if known else opset)
    return oldest


def have_common_version(nodes: Iterable[NodeProto], versions: Sequence[int]) -> bool:
    """Whether nodes, each accepted in its version, have the same definition in the newest of the versions."""
    return all(_since(node, max(versions)) <= version for node, version in zip(nodes, versions, strict=True))


def definition_of(model: ModelProto) -> list[NodeProto]:
    """Return the definition, as an ONNX function, of the only node of a model of `model_of`.

    The result is empty if the operator has no definition in the model's version.
    """
    (node,), version = model.graph.node, {entry.domain: entry.version for entry in model.opset_import}
    asked = ModelProto()
    asked.CopyFrom(model)
    asked.graph.value_info.append(helper.make_tensor_value_info("", TensorProto.FLOAT, None))
    asked.graph.node[0].attribute.extend(_defaults(node, version))
    try:  # the inliner needs a type for every input, even for inputs that are left out
        inlined = inliner.inline_selected_functions(
            asked, [(node.domain, node.op_type)], exclude=False, inline_schema_functions=True
        )
    except ONNX_ERRORS:
        return []
    nodes = list(inlined.graph.node)
    same = all(version.get(entry.domain, entry.version) == entry.version for entry in inlined.opset_import)
    is_done = all(inner.op_type != node.op_type or inner.domain != node.domain for inner in nodes)
    return nodes if same and is_done else []


def _defaults(node: NodeProto, versions: Opsets) -> list[AttributeProto]:
    """Return the defaults of attributes that a node leaves out. The inliner does not know them."""
    version = versions.get(node.domain)
    if version is None or not defs.has(node.op_type, version, node.domain):
        return []
    given = {attribute.name for attribute in node.attribute}
    attributes = defs.get_schema(node.op_type, version, node.domain).attributes.values()
    defaults = (attribute.default_value for attribute in attributes if attribute.name not in given)
    return [default for default in defaults if default.name]


def model_of(
    nodes: Sequence[NodeProto],
    opsets: Opsets,
    inputs: Mapping[str, TypeProto],
    constants: Iterable[TensorProto],
    outputs: Iterable[str],
) -> ModelProto:
    """Return a model of nodes without types of its outputs; onnxruntime infers them.

    Args:
        nodes: in topological order.
        opsets: versions of operator sets by domain; unused domains are ignored.
        inputs: types of the inputs by name.
        constants: initializers.
        outputs: names of the outputs.
    """
    graph = helper.make_graph(
        nodes,
        "part",
        [helper.make_value_info(name, type_) for name, type_ in inputs.items()],
        [ValueInfoProto(name=name) for name in outputs],
        list(constants),
    )
    named: set[str] = set()
    for node in graph.node:  # copies; a name may not repeat
        node.domain = "" if node.domain in MAIN_DOMAINS else node.domain
        node.name = "" if node.name in named else node.name
        named.add(node.name)
    used = {inner.domain for node in nodes for inner in nodes_within(node)}
    domains = sorted({"" if domain in MAIN_DOMAINS else domain for domain in used})
    versions = [helper.make_opsetid(domain, opsets.get(domain, 1)) for domain in domains]
    return helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION)


def probe(model: ModelProto) -> dict[str, ResultType]:
    """Return the types of the outputs of a model, as onnxruntime infers them.

    Raises:
        RefusalError: onnxruntime does not accept the model.
    """
    types = _outputs(model)
    # onnxruntime reports no extents of scalars, and of values of unknown rank
    unranked = [name for name, type_ in types.items() if extents_of(type_.proto) == ()]
    if not unranked:
        return types
    asking = ModelProto()
    asking.CopyFrom(model)
    for name in unranked:
        asking.graph.node.append(helper.make_node("Shape", [name], [name + RANK]))
        asking.graph.output.append(ValueInfoProto(name=name + RANK))
    if not any(entry.domain in MAIN_DOMAINS for entry in asking.opset_import):
        asking.opset_import.append(helper.make_opsetid("", OLDEST_OPSET))
    ranks = _outputs(asking)
    for name in unranked:
        rank = ranks[name + RANK].tensor
        if rank is None or rank.shape != (0,):
            types[name].proto.tensor_type.ClearField("shape")
    return types


def run(model: ModelProto, inputs: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Run a model in onnxruntime; return its outputs by name.

    Raises:
        RefusalError: onnxruntime fails.
    """
    try:
        session = session_from(model.SerializeToString(), optimised=False)
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, map(np.asarray, session.run(None, dict(inputs or {}))), strict=True))
    except Exception as error:  # the exceptions of onnxruntime have no other common class
        raise RefusalError(f"onnxruntime does not run it: {error}") from error


def prepared(model: ModelProto) -> np.ndarray:
    """Return a model as uint8[n], with the session that its runs use.

    Raises:
        RefusalError: onnxruntime does not accept the model.
    """
    array = np.frombuffer(model.SerializeToString(deterministic=True), np.uint8)
    try:
        prepare(array)
    except ValueError as error:
        raise RefusalError(f"onnxruntime does not run it: {error}") from error
    return array


def _outputs(model: ModelProto) -> dict[str, ResultType]:
    try:
        session = session_from(model.SerializeToString(), optimised=False)
    except ValueError as error:
        raise RefusalError(f"onnxruntime does not run it: {error}") from error
    return {out.name: ResultType(_parsed_type(out.type, out.shape)) for out in session.get_outputs()}


def _parsed_type(text: str, shape: Sequence[int | str | None] | None = None) -> TypeProto:
    """Return the type of an onnxruntime type string such as "seq(tensor(float))"; `shape` is a tensor's."""
    kind, _, inner = text.partition("(")
    inner = inner.removesuffix(")")
    match kind:
        case "tensor":
            known = [size if isinstance(size, int) and size >= 0 else None for size in shape or ()]
            code = TensorProto.DataType.Value(inner.upper())
            return helper.make_tensor_type_proto(code, None if shape is None else known)
        case "seq":
            return helper.make_sequence_type_proto(_parsed_type(inner))
        case "optional":
            return helper.make_optional_type_proto(_parsed_type(inner))
        case "map":
            key, _, value = inner.partition(",")
            code = TensorProto.DataType.Value(key.strip().upper())
            return helper.make_map_type_proto(code, _parsed_type(value.strip()))
    raise RefusalError(f"onnxruntime makes {text} of it, which is not supported")


def unshaped(type_: TypeProto, *, is_ranked: bool = False) -> TypeProto:
    """Return a type without its shape, or with a rank but without extents."""
    proto = TypeProto()
    proto.CopyFrom(type_)
    if proto.HasField("tensor_type") and not is_ranked:
        proto.tensor_type.ClearField("shape")
    for dim in proto.tensor_type.shape.dim if is_ranked else ():
        dim.Clear()
    return proto


def declarations(
    nodes: Iterable[NodeProto], types: Mapping[str, TypeProto]
) -> Iterator[Mapping[str, TypeProto]]:
    """Yield alternative type declarations of a model's inputs, from the most to the least specific.

    The first declares full types. If nodes hold subgraphs, types with ranks but no extents follow, then types
    without shapes: onnxruntime refuses a model whose declared shapes do not fit an operator, even in a branch
    that is never taken, but accepts unknown shapes.
    """
    yield types
    if not any(any(subgraphs(node)) for node in nodes):
        return
    tensors = [type_.tensor_type for type_ in types.values() if type_.tensor_type.HasField("shape")]
    if any(dim.WhichOneof("value") for tensor in tensors for dim in tensor.shape.dim):
        yield {name: unshaped(type_, is_ranked=True) for name, type_ in types.items()}
    if tensors:
        yield {name: unshaped(type_) for name, type_ in types.items()}
