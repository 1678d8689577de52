"""Integer operators on the accelerator: which there are, and what they ask of the configuration."""

from collections.abc import Callable, Mapping

from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.network import elements, products
from vdla.compiler.network.maker import Maker, Offloaded, OffloadError, foreign
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension

SUM_BITS = 32  # of the sums that the integer operators are defined by
OPERATORS: Mapping[str, Callable[[Maker], Offloaded]] = dict(sorted({**products.OPERATORS, **elements.OPERATORS}.items()))


def offload(graph: Graph, node: Node, config: AcceleratorConfig, *, folds: bool = False) -> Offloaded:
    """Return an operator as `config` carries it out.

    Args:
        folds: its input comes from the host and may be folded.

    Raises:
        OffloadError: it cannot.
    """
    if node.op not in OPERATORS:
        raise OffloadError(foreign(graph, node))
    _check(config)
    try:
        return OPERATORS[node.op](Maker(graph, node, config, folds))
    except IrError as error:
        raise OffloadError(str(error).splitlines()[0]) from error


def _check(config: AcceleratorConfig) -> None:
    """Refuse configurations that the integer operators do not describe."""
    if config.acc_bits != SUM_BITS:
        raise OffloadError(f"acc_bits = {config.acc_bits}: sums of networks have {SUM_BITS} bits")
    missing = [extension for extension in (Extension.REQUANTISE, Extension.PAD_MINIMUM) if not config.has(extension)]
    if missing:
        raise OffloadError(f"the configuration has switched off {', '.join(missing)}")
