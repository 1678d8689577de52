"""Whether an operator has an integer form where it stands, and why not."""

from vdla.compiler.graph.conversions import BOUNDS, Conversions
from vdla.compiler.graph.integer_forms import early
from vdla.compiler.graph.integer_forms.rules import FUNCTION_RULES, QUANTISE, RESULT, RULES
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.integer_forms.tails import tail_of
from vdla.compiler.graph.nodes import Node
from vdla.compiler.rules import Unfit, unfit
from vdla.runtime.host import elementwise
from vdla.runtime.module.reasons import reason_of


def fit(found: Conversions, node: Node, quantise: Node | None) -> Site | Unfit:
    """Return what the integer form of `node` is made of whose result `quantise` takes to int8, straight or
    behind Relu and Clip; Unfit where there is no such form."""
    changed = tail_of(found, node)
    if changed is not None:
        site = Site(found, changed.node, quantise, changed.affine, changed.alone, changed.last)
        subject = node.op if changed.alone else changed.node.op
        return unfit(subject, RULES[site.kind], site) or site
    if node.op in early.RULES:
        return unfit(node.op, early.RULES[node.op], early.Located(found.graph, node)) or _unchanged(node)
    if node.op in elementwise.OPERATORS and node.op not in RULES:
        return unfit(node.op, FUNCTION_RULES, Site(found, node, quantise)) or _untabulated(node)
    if node.op not in RULES:
        return without_form(node)
    site = Site(found, _bounded(found, node), quantise)
    return unfit(node.op, RULES[site.kind], site) or site


def _bounded(found: Conversions, node: Node) -> Node:
    """Return the DequantizeLinear whose result a Relu or Clip bounds: both are one requantisation; other
    operators as they are."""
    maker = found.makers.get(found.source(node.outputs[0])) if node.op in BOUNDS else None
    return maker if maker is not None and maker.op == "DequantizeLinear" else node


def why_float(found: Conversions, node: Node) -> Unfit:
    """Return why an operator on real numbers has stayed as it is: it has no integer form, or something reads
    its result as float32 all the same."""
    quantised = any(found.bounded_readers(name).quantiser is not None for name in node.outputs)
    quantisers = (quantise for name in node.outputs for quantise in found.quantisers(name))
    for quantise in quantisers if quantised else (None,):
        form = fit(found, node, quantise)
        if isinstance(form, Unfit):
            return form
    return unfit(node.op, (RESULT,), Site(found, node)) or Unfit(
        f"{node.op} with an integer form that the pass ToIntegers has not put in its place"
    )


def _unchanged(node: Node) -> Unfit:
    """Return why an operator has stayed that could have become another: a mean of rows."""
    return Unfit(f"{node.op} is a part of a normalisation, which the host runs")


def _untabulated(node: Node) -> Unfit:
    """Return why an operator on elements runs on the host that has int8 inputs and a quantised result: what
    follows reads real numbers, which its table makes."""
    return Unfit(reason_of(f"{node.op} with a result that goes on as real numbers", QUANTISE))


def without_form(node: Node) -> Unfit:
    """Return why an operator of a kind that has no integer form stays on the host."""
    called = node.op.removeprefix("Dequantized").removeprefix("Int8")  # as networks call it
    return Unfit(f"the accelerator has no {called}")
