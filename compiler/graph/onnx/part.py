"""Models of a few nodes for onnxruntime, and the types of what they make.

A model names the oldest version of the main operator set in which its operators are what they were:
onnxruntime knows fewer of the newest versions than the `onnx` package.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, defs, helper, inliner

from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import nodes_within, subgraphs
from vdla.runtime.host.dtypes import TENSOR_DTYPES, UNKNOWN
from vdla.runtime.host.onnx_runtime import session_from

IR_VERSION = 10
OLDEST_OPSET = 7  # from which on onnxruntime has operators
RANK = "_its_rank"  # ends the name of a value of a probe that tells a rank

Opsets = Mapping[str, int]  # versions of operator sets by domain, the main one being ""


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of a value that onnxruntime makes.

    Attributes:
        proto: its type; without a shape where not even the rank is known.
    """

    proto: TypeProto

    @property
    def tensor(self) -> TensorType | None:
        """Its type as a graph has it; None where a graph cannot hold it."""
        if not self.proto.HasField("tensor_type") or not self.proto.tensor_type.HasField("shape"):
            return None
        tensor = self.proto.tensor_type
        dtype = _dtype(tensor.elem_type)
        shape = tuple(
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else UNKNOWN
            for dim in tensor.shape.dim
        )
        return TensorType(shape, dtype) if dtype in TENSOR_DTYPES else None

    def __str__(self) -> str:
        tensor = self.proto.tensor_type
        if self.proto.HasField("tensor_type") and self.tensor is None:
            kind = f"tensor of {TensorProto.DataType.Name(tensor.elem_type).lower()}"
            return kind if tensor.HasField("shape") else f"{kind}, of a rank that only a run tells"
        kind = str(self.proto.WhichOneof("value")).removesuffix("_type")
        return kind if self.tensor is None else str(self.tensor)


def versions_of(node: NodeProto, opset: int) -> Iterator[int]:
    """Yield the versions of the main operator set in which a node is what it is in `opset`, the most recent
    first: those after which only the types changed that its operator takes."""
    version = _since([node], opset)
    yield version
    if node.domain in MAIN_DOMAINS and not any(subgraphs(node)) and defs.has(node.op_type, opset, ""):
        newer = defs.get_schema(node.op_type, opset, "")
        while newer.since_version > OLDEST_OPSET and defs.has(node.op_type, newer.since_version - 1, ""):
            older = defs.get_schema(node.op_type, newer.since_version - 1, "")
            if _signature(older) != _signature(newer):
                return
            newer = older
            yield max(newer.since_version, OLDEST_OPSET)


def same_in(op: str, opset: int, other: int) -> bool:
    """Whether an operator is the same in two versions of the main operator set, but for the types that it
    takes."""
    if not (defs.has(op, opset, "") and defs.has(op, other, "")):
        return False
    return _signature(defs.get_schema(op, opset, "")) == _signature(defs.get_schema(op, other, ""))


def _signature(schema: defs.OpSchema) -> tuple[object, ...]:
    """Return what an operator takes and makes, but for the types."""
    attributes = [
        (name, one.type, one.required, one.default_value.SerializeToString())
        for name, one in sorted(schema.attributes.items())
    ]
    values = [[(one.name, one.option) for one in part] for part in (schema.inputs, schema.outputs)]
    return attributes, values, schema.min_input, schema.max_input, schema.deprecated


def _since(nodes: Iterable[NodeProto], opset: int) -> int:
    """Return the oldest version of the main operator set in which all nodes are what they are in `opset`."""
    found = min(OLDEST_OPSET, opset)
    for node in (inner for outer in nodes for inner in nodes_within(outer)):
        if node.domain in MAIN_DOMAINS:
            known = defs.has(node.op_type, opset, "")
            found = max(found, defs.get_schema(node.op_type, opset, "").since_version if known else opset)
    return found


def go_together(nodes: Iterable[NodeProto], versions: Sequence[int]) -> bool:
    """Whether nodes, each of which was taken in a version, are the same in the newest of these versions."""
    return all(
        _since([node], max(versions)) <= version for node, version in zip(nodes, versions, strict=True)
    )


def expanded(model: ModelProto) -> list[NodeProto]:
    """Return the nodes that the operator of the only node of a `model_of` is made of, by its definition; none
    where it has no such definition in the model's version."""
    (node,), version = model.graph.node, {one.domain: one.version for one in model.opset_import}
    asked = ModelProto()
    asked.CopyFrom(model)
    asked.graph.value_info.append(helper.make_tensor_value_info("", TensorProto.FLOAT, None))
    try:  # the inliner asks for the type of every input, also of those that are left out
        made = inliner.inline_selected_functions(
            asked, [(node.domain, node.op_type)], exclude=False, inline_schema_functions=True
        )
    except (RuntimeError, ValueError):
        return []
    same = all(version.get(one.domain, one.version) == one.version for one in made.opset_import)
    is_done = all(one.op_type != node.op_type or one.domain != node.domain for one in made.graph.node)
    return list(made.graph.node) if same and is_done else []


def model_of(
    nodes: Sequence[NodeProto],
    opsets: Opsets,
    inputs: Mapping[str, TypeProto],
    constants: Iterable[TensorProto],
    outputs: Iterable[str],
) -> ModelProto:
    """Return a model of nodes, whose outputs have no types: onnxruntime infers them.

    Args:
        opsets: versions of operator sets, those that the nodes do not need included.
    """
    named: set[str] = set()
    graph = helper.make_graph(
        [_plain(node, named) for node in nodes],
        "part",
        [helper.make_value_info(name, type_) for name, type_ in inputs.items()],
        [ValueInfoProto(name=name) for name in outputs],
        list(constants),
    )
    used = {inner.domain for node in nodes for inner in nodes_within(node)}
    domains = sorted({"" if domain in MAIN_DOMAINS else domain for domain in used})
    versions = [helper.make_opsetid(domain, opsets.get(domain, 1)) for domain in domains]
    return helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION)


def probe(model: ModelProto) -> dict[str, Made]:
    """Return what onnxruntime says of the outputs of a model.

    Raises:
        RefusalError: onnxruntime does not take the model.
    """
    found = _outputs(model)
    unranked = [name for name, made in found.items() if _is_scalar(made)]
    if not unranked:
        return found
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
            found[name].proto.tensor_type.ClearField("shape")
    return found


def run(model: ModelProto, inputs: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Return the outputs of a model.

    Raises:
        RefusalError: onnxruntime does not run it.
    """
    try:
        session = session_from(model.SerializeToString(), optimised=False)
        names = [one.name for one in session.get_outputs()]
        return dict(zip(names, map(np.asarray, session.run(None, dict(inputs or {}))), strict=True))
    except Exception as error:  # onnxruntime's own have no other class in common
        raise RefusalError(f"onnxruntime does not run it: {error}") from error


def _outputs(model: ModelProto) -> dict[str, Made]:
    try:
        session = session_from(model.SerializeToString(), optimised=False)
    except ValueError as error:
        raise RefusalError(f"onnxruntime does not run it: {error}") from error
    return {one.name: Made(_typed(one.type, one.shape)) for one in session.get_outputs()}


def _is_scalar(made: Made) -> bool:
    """Whether onnxruntime said nothing of extents: there are none, or not even their number is known."""
    tensor = made.proto.tensor_type
    return made.proto.HasField("tensor_type") and tensor.HasField("shape") and not tensor.shape.dim


def _typed(text: str, shape: Sequence[int | str | None]) -> TypeProto:
    """Return a type that onnxruntime writes as a text, such as "seq(tensor(float))"."""
    kind, _, inner = text.partition("(")
    inner = inner.removesuffix(")")
    match kind:
        case "tensor":
            extents = [size if isinstance(size, int) and size >= 0 else None for size in shape]
            return helper.make_tensor_type_proto(TensorProto.DataType.Value(inner.upper()), extents)
        case "seq":
            return helper.make_sequence_type_proto(_without_shape(inner))
        case "optional":
            return helper.make_optional_type_proto(_without_shape(inner))
        case "map":
            key, _, value = inner.partition(",")
            code = TensorProto.DataType.Value(key.strip().upper())
            return helper.make_map_type_proto(code, _without_shape(value.strip()))
    raise RefusalError(f"onnxruntime makes {text} of it, which is not supported")


def _without_shape(text: str) -> TypeProto:
    return unshaped(_typed(text, ()))


def unshaped(type_: TypeProto) -> TypeProto:
    """Return a type without what it says of the shape."""
    proto = TypeProto()
    proto.CopyFrom(type_)
    if proto.HasField("tensor_type"):
        proto.tensor_type.ClearField("shape")
    return proto


def statements(
    nodes: Iterable[NodeProto], types: Mapping[str, TypeProto]
) -> Iterator[Mapping[str, TypeProto]]:
    """Yield what a model may state of its inputs: their types; where nodes hold subgraphs, also the types
    with no more of the shapes than ranks, then without shapes.

    onnxruntime refuses a model whose shapes do not fit an operator, also one in a branch that is never taken.
    What it does not know it does not refuse; as it runs, it tells the shapes from the inputs.
    """
    yield types
    if not any(any(subgraphs(node)) for node in nodes):
        return
    tensors = [one for one in types.values() if one.tensor_type.HasField("shape")]
    if any(dim.WhichOneof("value") for one in tensors for dim in one.tensor_type.shape.dim):
        yield {name: _ranked(one) for name, one in types.items()}
    if tensors:
        yield {name: unshaped(one) for name, one in types.items()}


def _ranked(type_: TypeProto) -> TypeProto:
    """Return a type without the extents of its shape."""
    proto = TypeProto()
    proto.CopyFrom(type_)
    if proto.HasField("tensor_type"):
        for dim in proto.tensor_type.shape.dim:
            dim.Clear()
    return proto


def _dtype(code: int) -> str:
    if code == TensorProto.STRING:
        return "string"
    return str(helper.tensor_dtype_to_np_dtype(code))


def _plain(node: NodeProto, named: set[str]) -> NodeProto:
    """Return a node with the one spelling of the main domain, and without a name that one before it has."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.domain = "" if node.domain in MAIN_DOMAINS else node.domain
    copy.name = "" if node.name in named else node.name
    named.add(node.name)
    return copy
