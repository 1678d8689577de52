"""Cures in reasons: what would put an operator on the accelerator depends on who quantised the network."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from vdla.compiler.graph.integer_forms.prerequisites import DYNAMIC, SAMPLES
from vdla.compiler.graph.integer_forms.rules import NOT_QUANTISED, QUANTISE
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.rewrite import rebuilt
from vdla.runtime.module.reasons import reason_of

IN_FILE = (
    "it needs int8 neighbours: the file is quantised already, so give it QuantizeLinear and DequantizeLinear "
    "there, or compile its float original with --calibrate"
)
CONSTANT_RANGES = (
    "the file needs constant scales: quantise it statically, or compile its float original with --calibrate"
)
NOTHING = (
    "it needs int8 neighbours: the network has no Conv, ConvTranspose, Gemm or MatMul to quantise, so only a "
    "model with QuantizeLinear and DequantizeLinear has it on the accelerator"
)
BETWEEN = (
    "the quantiser leaves it in float because it is not between operators in int8: only a model with "
    "QuantizeLinear and DequantizeLinear around it has it on the accelerator"
)
BESIDE_FLOAT = (
    "the quantiser leaves it in float as it is not between operators in int8: keep fewer layers in float "
    "(--float-layers, --float-share, --quality), or have QuantizeLinear and DequantizeLinear in the model"
)
FOR_QUALITY = "it is kept there for accuracy: a lower --quality quantises it"
CHOSEN = "it is kept there: --float-layers or --float-share names it, or samples make it infinite"


def with_cures(graph: Graph, quantise: str, fix_range: str = SAMPLES) -> Graph:
    """Return `graph` with the cures `quantise` and `fix_range` in reasons that say QUANTISE and SAMPLES."""
    return rebuilt(graph, (_cured(node, quantise, fix_range) for node in graph.nodes))


def cured_in_file(graph: Graph, sampled: bool) -> Graph:
    """Return a graph that was quantised in its file, with the cures that help there.

    Args:
        sampled: samples were given. They help only where the file computes all its ranges at run time.
    """
    dynamic = any(node.op == DYNAMIC for node in graph.nodes)
    static = any(node.op == "QuantizeLinear" or node.op.startswith("Int8") for node in graph.nodes)
    helps = dynamic and not static and not sampled
    return with_cures(graph, QUANTISE if helps else IN_FILE, SAMPLES if helps else CONSTANT_RANGES)


def cured_here(graph: Graph, in_float: Collection[str], for_quality: Collection[str]) -> Graph:
    """Return a graph that was quantised here, with what keeps its other operators in float.

    Args:
        in_float: names and first results of the operators that were kept in float.
        for_quality: those of them that were kept for the requested signal to noise.
    """
    chosen = dict.fromkeys(in_float, CHOSEN) | dict.fromkeys(for_quality, FOR_QUALITY)
    cured = with_cures(graph, BESIDE_FLOAT if chosen else BETWEEN, CONSTANT_RANGES)
    return rebuilt(
        cured, (_kept(before, after, chosen) for before, after in zip(graph.nodes, cured.nodes, strict=True))
    )


def _kept(before: Node, after: Node, chosen: Mapping[str, str]) -> Node:
    """Return an operator with the reason why it was kept in float, if it was, and has no other reason."""
    why = chosen.get(before.name) or chosen.get(before.result, "")
    unquantised = QUANTISE in before.reason or NOT_QUANTISED in before.reason
    return replace(after, reason=reason_of(f"{before.op} in float", why)) if why and unquantised else after


def _cured(node: Node, quantise: str, fix_range: str) -> Node:
    reason = node.reason.replace(QUANTISE, quantise).replace(SAMPLES, fix_range)
    return node if reason == node.reason else replace(node, reason=reason)
