"""What stands around the inputs of convolutions: LOADs pad with it, or the host does so before."""

from dataclasses import replace

from vdla.compiler.graph.integers import LEAST
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension

PADDING = ("Int8AveragePool", "Int8Conv")
BORDERS = (0, LEAST)  # with which every accelerator of networks can pad
TAKES = f"a border of {' or '.join(map(str, BORDERS))}, or any with the extension {Extension.PAD_VALUE}"


def pads_with(config: AcceleratorConfig, border: int) -> bool:
    """Whether LOADs of an accelerator can pad with a value of int8."""
    return border in BORDERS or config.has(Extension.PAD_VALUE)


def padded_before(graph: Graph, config: AcceleratorConfig) -> Graph:
    """Return a graph of integer operators with a Pad before each window operator whose border LOADs cannot
    make."""
    made = GraphBuilder(graph)
    for node in graph.nodes:
        pads = node.op in PADDING and any(node.extents("pads"))
        cannot = pads and not pads_with(config, node.integer("border"))
        made.nodes.append(_padded(made, node) if cannot else node)
    return made.finished()


def _padded(made: GraphBuilder, node: Node) -> Node:
    """Add the Pad; return the convolution behind it."""
    pads, (source, *constants) = node.extents("pads"), node.inputs
    n, channels, height, width = made.graph.types[source].shape
    shape = n, channels, height + pads[0] + pads[2], width + pads[1] + pads[3]
    wide = made.value(f"{node.outputs[0]}_padded", TensorType(shape, "int8"))
    ends = (0, 0, *pads[:2], 0, 0, *pads[2:])
    made.add("Pad", (source,), wide, {"mode": "constant", "pads": ends, "value": node.integer("border")})
    return replace(
        node, inputs=(wide, *constants), attributes={**node.attributes, "border": 0, "pads": (0, 0, 0, 0)}
    )
