"""Lossless serialisation of graphs: a line of JSON, then the elements of the constants."""

import json
from math import prod

import numpy as np

from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType
from vdla.runtime.module.plan import State

ALIGNMENT = 64  # bytes, of each constant: NumPy is slower on unaligned arrays


def graph_to_bytes(graph: Graph) -> bytes:
    """Return the bytes of a graph."""
    head = {
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": graph.outputs,
        "nodes": [
            [node.op, node.inputs, node.outputs, dict(node.attributes), node.name, node.reason, node.macs]
            for node in graph.nodes
        ],
        "constants": [[name, array.dtype.str, array.shape] for name, array in graph.constants.items()],
        "types": {name: [type_.shape, type_.dtype] for name, type_ in graph.types.items()},
        "states": {name: [state.output, state.scale, state.zero] for name, state in graph.states.items()},
    }
    text = json.dumps(head).encode() + b"\n"
    parts = (text, *(array.tobytes() for array in graph.constants.values()))
    return b"".join(piece for part in parts for piece in (part, bytes(-len(part) % ALIGNMENT)))


def graph_from_bytes(data: bytes) -> Graph:
    """Return the graph that `graph_to_bytes` serialised."""
    end = data.index(b"\n") + 1
    head, begin = json.loads(data[:end]), _aligned(end)
    types = {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in head["types"].items()}
    constants = {}
    for name, dtype, shape in head["constants"]:
        array = np.frombuffer(data, dtype, prod(shape), begin).reshape(shape)
        begin = _aligned(begin + array.nbytes)
        constants[name] = array
    nodes = tuple(
        Node(
            op,
            tuple(inputs),
            tuple(outputs),
            {key: _attribute(value) for key, value in attributes.items()},
            name,
            reason,
            macs,
        )
        for op, inputs, outputs, attributes, name, reason, macs in head["nodes"]
    )
    inputs = {name: types[name] for name in head["inputs"]}
    states = {name: State(*parts) for name, parts in head["states"].items()}
    return Graph(head["name"], inputs, tuple(head["outputs"]), nodes, constants, types, states)


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


def _attribute(value: Attribute | list[int] | list[float]) -> Attribute:
    return tuple(value) if isinstance(value, list) else value
