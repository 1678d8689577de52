"""Matches float operators with their integer forms, or returns the reason why an operator has none."""

from vdla.compiler.graph.conversions import BOUNDS, Conversions
from vdla.compiler.graph.integer_forms.channel_changes import affine_chain_of
from vdla.compiler.graph.integer_forms.prerequisites import RULES as PREREQUISITES
from vdla.compiler.graph.integer_forms.prerequisites import Located
from vdla.compiler.graph.integer_forms.rules import FUNCTION_RULES, QUANTISE, RESULT, RULES
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.nodes import Node
from vdla.compiler.rules import Unfit, unfit
from vdla.runtime.host import elementwise
from vdla.runtime.module.reasons import reason_of


def fit(conversions: Conversions, node: Node, quantise: Node | None) -> Site | Unfit:
    """Return the site of the integer form of `node`; Unfit with the reason if it has no integer form.

    Args:
        quantise: the QuantizeLinear of its result, directly or after Relu and Clip; None if there is none.
    """
    chain = affine_chain_of(conversions, node)
    if chain is not None:
        site = Site(conversions, chain.node, quantise, chain.affine, chain.alone, chain.last)
        subject = node.op if chain.alone else chain.node.op
        return unfit(subject, RULES[site.kind], site) or site
    if node.op in PREREQUISITES:
        located = Located(conversions.graph, node)
        return unfit(node.op, PREREQUISITES[node.op], located) or _unchanged(node)
    if node.op in elementwise.OPERATORS and node.op not in RULES:
        return unfit(node.op, FUNCTION_RULES, Site(conversions, node, quantise)) or _untabulated(node)
    if node.op not in RULES:
        return unsupported(node)
    site = Site(conversions, _bounded(conversions, node), quantise)
    return unfit(node.op, RULES[site.kind], site) or site


def _bounded(conversions: Conversions, node: Node) -> Node:
    """Return the DequantizeLinear whose result a Relu or Clip bounds, because both become a requantisation.
    Return other operators unchanged."""
    maker = conversions.makers.get(conversions.source(node.result)) if node.op in BOUNDS else None
    return maker if maker is not None and maker.op == "DequantizeLinear" else node


def why_float(conversions: Conversions, node: Node) -> Unfit:
    """Return the reason why a float operator has not been lowered: it has no integer form, or its result is
    also read as float32."""
    quantised = any(conversions.bounded_readers(name).quantiser is not None for name in node.outputs)
    quantisers = (quantise for name in node.outputs for quantise in conversions.quantisers(name))
    for quantise in quantisers if quantised else (None,):
        form = fit(conversions, node, quantise)
        if isinstance(form, Unfit):
            return form
    return unfit(node.op, (RESULT,), Site(conversions, node)) or Unfit(
        f"{node.op} with an integer form that the pass ToIntegers has not put in its place"
    )


def _unchanged(node: Node) -> Unfit:
    """Return the reason why an operator remains although its prerequisites hold: a mean of rows."""
    return Unfit(f"{node.op} is a part of a normalisation, which the host runs")


def _untabulated(node: Node) -> Unfit:
    """Return the reason why an elementwise operator with int8 inputs and a quantised result runs on the host:
    its result is also read as real numbers, and its table makes real numbers."""
    return Unfit(reason_of(f"{node.op} with a result that is also read as real numbers", QUANTISE))


def unsupported(node: Node) -> Unfit:
    """Return the reason why an operator runs on the host whose kind has no integer form."""
    called = node.op.removeprefix("Dequantized").removeprefix("Int8")  # name in ONNX models
    return Unfit(f"the accelerator has no {called}")
