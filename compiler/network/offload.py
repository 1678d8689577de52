"""Support: which integer operators a target carries out, and why it cannot carry out others."""

from collections.abc import Iterator, Mapping
from itertools import chain

from vdla.compiler.codegen.intrinsics import NARROW
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tasks import Unfit
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.network import elements, products
from vdla.compiler.network.maker import Kind, Maker, Offloaded, foreign
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension

SUM_BITS = 32  # of the sums that the integer operators are defined by
OPERATORS: Mapping[str, Kind] = dict(sorted({**products.OPERATORS, **elements.OPERATORS}.items()))


def offload(graph: Graph, node: Node, target: Target, *, folds: bool = False) -> Offloaded | Unfit:
    """Return an operator as `target` carries it out; Unfit where it cannot.

    Args:
        folds: its input comes from the host and may be folded.
    """
    if node.op not in OPERATORS:
        return Unfit(foreign(graph, node))
    kind, maker = OPERATORS[node.op], Maker(graph, node, target, folds)
    reason = next(chain(_reasons(target.config), kind.reasons(maker)), None)
    if reason is not None:
        return Unfit(reason)
    made = kind.make(maker)
    spaces = (space_of(piece.task, target) for piece in made.pieces)
    return next((space for space in spaces if isinstance(space, Unfit)), made)


def _reasons(config: AcceleratorConfig) -> Iterator[str]:
    """Yield why the integer operators do not describe a configuration."""
    if config.acc_bits != SUM_BITS:
        yield f"acc_bits = {config.acc_bits}: sums of networks have {SUM_BITS} bits"
    missing = [
        extension for extension in (Extension.REQUANTISE, Extension.PAD_MINIMUM) if not config.has(extension)
    ]
    if missing:
        yield f"the configuration has switched off {', '.join(missing)}"
    if (config.inp_bits, config.wgt_bits) != (NARROW, NARROW):
        yield (
            f"inp_bits = {config.inp_bits} and wgt_bits = {config.wgt_bits}: programs are compiled for "
            f"{NARROW}-bit inputs and weights only"
        )
