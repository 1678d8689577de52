"""What lies between the DequantizeLinear and the QuantizeLinear nodes of a quantised model."""

from collections import Counter

from onnx import ModelProto, NodeProto

Region = tuple[str, ...]
BORDERS = frozenset({"QuantizeLinear", "DequantizeLinear"})


def regions(model: ModelProto) -> Counter[Region]:
    """Count the connected groups of other nodes, each as its operators in the graph's order."""
    inner = [node for node in model.graph.node if node.op_type not in BORDERS]
    groups: list[list[NodeProto]] = []
    for node in inner:
        joined = [group for group in groups if any(_feeds(member, node) for member in group)]
        groups = [group for group in groups if group not in joined] + [
            [*(member for group in joined for member in group), node]
        ]
    return Counter(tuple(node.op_type for node in group) for group in groups)


def _feeds(first: NodeProto, second: NodeProto) -> bool:
    return bool(set(first.output) & set(second.input))
