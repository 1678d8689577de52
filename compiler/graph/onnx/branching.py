"""What decides an If: an input of the model that may be fixed to a number, and the branch that numbers
take."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.graph.onnx.cut import before, own_inputs
from vdla.compiler.graph.onnx.read import Model

MOST_NODES = 64
CONDITION = "_condition"
SHAPING = ("Expand", "Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze")
"""Operators whose inputs behind the first say which elements there are, not how large they are."""
BRANCHES = {True: "then_branch", False: "else_branch"}
SUBJECT = "an If chooses its branch while the network runs"


def advice(model: Model, node: NodeProto, types: Mapping[str, TensorType]) -> str:
    """Return why an If is left to the host, and how it can be decided when the network is compiled.

    Args:
        types: of the model's inputs, by the model's names.
    """
    graph = model.proto.graph
    places, needed = before(graph, (node.input[0],), ())
    inputs = [value for value in own_inputs(graph) if value.name in needed]
    numbers = all(value.name in types and types[value.name].size == 1 for value in inputs)
    if not inputs or not numbers or len(places) > MOST_NODES:
        return f"{SUBJECT} by its data, which --fix cannot decide"
    name, *others = [value.name for value in inputs]
    if others:
        options = " ".join(f"--fix {one}=NUMBER" for one in (name, *others))
        return (
            f"{SUBJECT}: where its inputs {' and '.join((name, *others))} never change, {options} decide it"
        )
    nodes = [graph.node[place] for place in sorted(places)]
    part, constants = _condition(model, nodes, inputs[0], node.input[0])
    ways = _ways(name, constants, _branches(part, name, types[name], constants))
    return f"{SUBJECT}: where its input {name} never changes, {ways}"


def _ways(name: str, constants: Sequence[float], branches: Mapping[str, float]) -> str:
    """Return the option that takes each branch; of any number where none is known."""
    if not branches:
        return f"--fix {name}=NUMBER decides it"
    return ", ".join(
        f"--fix {name}={number:g} takes {branch}"
        if number in constants
        else f"another number (--fix {name}={number:g}) takes {branch}"
        for branch, number in branches.items()
    )


def _condition(
    model: Model, nodes: Sequence[NodeProto], value: ValueInfoProto, condition: str
) -> tuple[ModelProto, list[float]]:
    """Return a model of a condition alone, and the numbers among its constants; both numbers of a condition
    that is an input."""
    graph = model.proto.graph
    read = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in graph.initializer if tensor.name in read]
    end = helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, None)
    whole = [*nodes, helper.make_node("Identity", [condition], [CONDITION])]
    versions = [helper.make_opsetid(domain, version) for domain, version in model.opsets.items()]
    made = helper.make_model(
        helper.make_graph(whole, "condition", [value], [end], tensors), opset_imports=versions
    )
    return made, [0.0, 1.0] if not nodes else list(_numbers(nodes, tensors))


def _numbers(nodes: Sequence[NodeProto], tensors: Sequence[TensorProto]) -> Iterator[float]:
    """Yield the numbers among the constants of nodes: those of a single element that stand in the model."""
    shapes = {name for node in nodes if node.op_type in SHAPING for name in node.input[1:]}
    constants = {tensor.name: tensor for tensor in tensors}
    for node in nodes:
        values = [one.t for one in node.attribute if node.op_type == "Constant" and one.name == "value"]
        constants |= dict(zip(node.output, values, strict=False))
    for name, tensor in constants.items():
        if name in shapes or tensor.data_location == TensorProto.EXTERNAL or int(np.prod(tensor.dims)) != 1:
            continue
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind in "biuf":
            yield float(array.reshape(-1)[0])


def _branches(
    model: ModelProto, name: str, type_: TensorType, constants: Sequence[float]
) -> dict[str, float]:
    """Return a number of an input for each branch that numbers take: a constant of the condition where there
    is such a number, else one beside a constant. Empty where the condition cannot be computed."""
    beside = [number + step for number in constants for step in (1, -1)]
    found: dict[str, float] = {}
    try:
        evaluator = ReferenceEvaluator(model)
        for number in dict.fromkeys((*constants, *beside, 0.0, 1.0)):
            array = np.full(type_.shape, number).astype(type_.dtype)
            if array.size and float(array.reshape(-1)[0]) == number:
                (made,) = evaluator.run(None, {name: array})
                found.setdefault(BRANCHES[bool(np.all(made))], number)
    except Exception:  # whatever the evaluator raises of operators that it does not compute
        return {}
    return {branch: found[branch] for branch in BRANCHES.values() if branch in found}
