"""Border values of padded inputs: LOADs pad with them, or the host does before the launch."""

from dataclasses import replace

from vdla.compiler.graph.integers import LEAST
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension

WINDOW_OPERATORS = ("Int8AveragePool", "Int8Conv")
BORDERS = (0, LEAST)  # every accelerator for networks can pad with these
TAKES = f"a border of {' or '.join(map(str, BORDERS))}, or any with the extension {Extension.PAD_VALUE}"


def pads_with(config: AcceleratorConfig, border: int) -> bool:
    """Whether LOADs of an accelerator can pad with the int8 value `border`."""
    return border in BORDERS or config.has(Extension.PAD_VALUE)


def with_explicit_pads(graph: Graph, config: AcceleratorConfig) -> Graph:
    """Return a graph of integer operators with a Pad before each window operator whose border value LOADs do
    not support."""
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        pads = node.op in WINDOW_OPERATORS and any(node.extents("pads"))
        cannot = pads and not pads_with(config, node.integer("border"))
        builder.nodes.append(_with_pad(builder, node) if cannot else node)
    return builder.finished()


def _with_pad(builder: GraphBuilder, node: Node) -> Node:
    """Add the Pad; return the window operator without padding that reads it."""
    pads, (source, *constants) = node.extents("pads"), node.inputs
    n, channels, height, width = builder.graph.types[source].shape
    shape = n, channels, height + pads[0] + pads[2], width + pads[1] + pads[3]
    wide = builder.value(f"{node.result}_padded", TensorType(shape, "int8"))
    ends = (0, 0, *pads[:2], 0, 0, *pads[2:])
    builder.add("Pad", (source,), wide, {"mode": "constant", "pads": ends, "value": node.integer("border")})
    return replace(
        node, inputs=(wide, *constants), attributes={**node.attributes, "border": 0, "pads": (0, 0, 0, 0)}
    )
