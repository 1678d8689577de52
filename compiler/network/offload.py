"""Support: the integer operators that a target can execute, and the reasons why it cannot execute others."""

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler.codegen.intrinsics import NARROW
from vdla.compiler.codegen.space import space_of
from vdla.compiler.graph.integers import SUM_BITS
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.lower.tables import OPERATORS
from vdla.compiler.network.placed import OffloadCandidate, Offloaded
from vdla.compiler.rules import Rule, Unfit, enabling, unfit
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import Layout

NOWHERE: Mapping[str, Layout] = {}
EXTENSIONS = (Extension.REQUANTISE, Extension.PAD_MINIMUM)


def offload(
    graph: Graph,
    node: Node,
    target: Target,
    *,
    packs: bool = False,
    pooling: Pooling | None = None,
    layouts: Mapping[str, Layout] = NOWHERE,
) -> Offloaded | Unfit:
    """Return an operator of `OPERATORS` as tasks of `target`; Unfit with the reason if the target cannot run
    it.

    Args:
        packs, pooling, layouts: see `OffloadCandidate`.
    """
    kind, candidate = OPERATORS[node.op], OffloadCandidate(graph, node, target, packs, pooling, layouts)
    required = (*CONFIGURATION, *kind.configuration)
    reason = unfit(f"configuration {target.name}", required, target.config, f"{node.op} needs") or unfit(
        node.op, kind.rules, candidate
    )
    if reason is not None:
        return reason
    offloaded = kind.make(candidate)
    if node.macs is not None:
        offloaded = replace(offloaded, macs=node.macs)
    spaces = (space_of(piece.task, target) for piece in offloaded.pieces)
    return next((space for space in spaces if isinstance(space, Unfit)), offloaded)


def operators_of(config: AcceleratorConfig) -> tuple[str, ...]:
    """Return the integer operators whose rules for the configuration hold."""
    return tuple(
        op
        for op, kind in OPERATORS.items()
        if unfit(op, (*CONFIGURATION, *kind.configuration), config) is None
    )


def _acc_bits(config: AcceleratorConfig) -> str:
    return "" if config.acc_bits == SUM_BITS else f"acc_bits = {config.acc_bits}"


def _extensions(config: AcceleratorConfig) -> str:
    missing = [extension for extension in EXTENSIONS if not config.has(extension)]
    return f"the extensions {' and '.join(missing)} switched off" if missing else ""


def _widths(config: AcceleratorConfig) -> str:
    if (config.inp_bits, config.wgt_bits) == (NARROW, NARROW):
        return ""
    return f"inp_bits = {config.inp_bits} and wgt_bits = {config.wgt_bits}"


CONFIGURATION: tuple[Rule[AcceleratorConfig], ...] = (
    Rule(f"acc_bits = {SUM_BITS}", _acc_bits, f"use sums of {SUM_BITS} bits (--set acc_bits={SUM_BITS})"),
    Rule(f"the extensions {' and '.join(EXTENSIONS)}", _extensions, enabling(*EXTENSIONS)),
    Rule(
        f"inp_bits = wgt_bits = {NARROW}",
        _widths,
        f"use values of {NARROW} bits (--set inp_bits={NARROW} --set wgt_bits={NARROW})",
    ),
)
