"""Cures in reasons: what would put an operator on the accelerator depends on who quantised the network."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from vdla.compiler.graph.integer_forms.prerequisites import DYNAMIC, SAMPLES
from vdla.compiler.graph.integer_forms.rules import NOT_QUANTISED, QUANTISE
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.rules import Unfit

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


@dataclass(frozen=True, slots=True)
class Cures:
    """The cures for a network.

    Attributes:
        by_rule: the cure in place of the cure that a rule names; others remain.
        in_float: why operators were kept in float, by name and by first result.
    """

    by_rule: Mapping[str, str] = field(default_factory=dict)
    in_float: Mapping[str, str] = field(default_factory=dict)

    def of(self, node: Node, unfit: Unfit) -> Unfit:
        """Return the reason why the host runs a node, with its cure for this network."""
        why = next(filter(None, map(self.in_float.get, (node.step_of, node.name, node.result))), None)
        if why and (unfit.cure == QUANTISE or NOT_QUANTISED in unfit.what):
            return Unfit(f"{node.op} in float", cure=why)
        return replace(unfit, cure=self.by_rule.get(unfit.cure, unfit.cure))


GENERAL = Cures()
NOTHING_QUANTISED = Cures({QUANTISE: NOTHING})


def cures_in_file(graph: Graph, sampled: bool) -> Cures:
    """Return the cures for a graph that was quantised in its file.

    Args:
        sampled: samples were given. They help only where the file computes all its ranges at run time.
    """
    ops = {node.op for node in graph.nodes}
    if DYNAMIC in ops and "QuantizeLinear" not in ops and not sampled:
        return GENERAL
    return Cures({QUANTISE: IN_FILE, SAMPLES: CONSTANT_RANGES})


def cures_here(in_float: Collection[str], for_quality: Collection[str]) -> Cures:
    """Return the cures for a graph that was quantised here.

    Args:
        in_float: names and first results of the operators that were kept in float.
        for_quality: which of them were kept for the requested signal to noise.
    """
    kept = dict.fromkeys(in_float, CHOSEN) | dict.fromkeys(for_quality, FOR_QUALITY)
    return Cures({QUANTISE: BESIDE_FLOAT if kept else BETWEEN, SAMPLES: CONSTANT_RANGES}, kept)
