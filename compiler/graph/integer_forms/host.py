"""Reasons why operators without an integer form run on the host."""

from collections.abc import Iterable
from typing import TypeVar

from vdla.compiler.graph.conversions import CONVERSIONS, Conversions
from vdla.compiler.graph.integer_forms.prerequisites import Located
from vdla.compiler.graph.integer_forms.reasons import fit, why_float
from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.rules import Rule, Unfit, unfit

Case = TypeVar("Case")


def is_float(graph: Graph, node: Node) -> bool:
    """Whether an operator reads or makes real numbers."""
    names = (name for name in (*node.inputs, *node.outputs) if name)
    return any(graph.types[name].dtype.startswith("float") for name in names)


def why_on_host(conversions: Conversions, node: Node) -> Unfit:
    """Return the reason why an operator runs on the host that reads or makes real numbers, or whose kind has
    no integer form."""
    if node.reason:
        return Unfit(node.reason)
    if node.op in CONVERSIONS:
        return _conversion(conversions, node)
    if node.op in MOVES and not is_float(conversions.graph, node):
        return _unfit(node, MOVE_RULES, Located(conversions.graph, node))
    return why_float(conversions, node)


def _bytes(at: Located) -> str:
    (name, *_), types = at.node.inputs, at.graph.types
    return "" if types[name].dtype == "int8" else f"input {name} of {types[name].dtype}"


MOVE_RULES: tuple[Rule[Located], ...] = (
    Rule("int8 tensors", _bytes),
    Rule("whole blocks of channels (Concat)", lambda at: "single elements to move"),
)


def _unfit(node: Node, rules: Iterable[Rule[Case]], case: Case) -> Unfit:
    """Return the first of `rules` that `case` violates; it always violates the last."""
    reason = unfit(node.op, rules, case)
    assert reason is not None, f"no rule keeps {node} on the host"
    return reason


def _conversion(conversions: Conversions, node: Node) -> Unfit:
    """Return the reason why a conversion between real numbers and int8 remains: the operator that makes or
    reads the real numbers."""
    requantised = _requantised(conversions, node)
    if requantised is not None:
        return requantised
    (real,) = node.inputs[:1] if node.op == "QuantizeLinear" else node.outputs
    return _unfit(node, (Rule("int8 tensors", lambda at: _use(conversions, at, real)),), node)


def _use(conversions: Conversions, node: Node, real: str) -> str:
    """Describe the operator that makes the real numbers a conversion reads, or reads the real numbers that it
    makes."""
    if node.op == "DequantizeLinear":
        return f"result {conversions.float_use(real) or f'{real} of {conversions.graph.types[real].dtype}'}"
    maker, dtype = conversions.makers.get(real), conversions.graph.types[real].dtype
    origin = f"enters the network as {dtype}" if maker is None else f"{maker} makes in {dtype}"
    return f"input {real} that {origin}"


def _requantised(conversions: Conversions, node: Node) -> Unfit | None:
    """Return the reason why the requantisation of an int8 tensor to another scale, perhaps with bounds, has
    no integer form; None if the conversion belongs to another operator."""
    if node.op == "QuantizeLinear":
        maker = conversions.makers.get(conversions.source(node.inputs[0]))
        pairs = iter([(maker, node)] if maker is not None and maker.op == "DequantizeLinear" else [])
    else:
        quantisers = () if conversions.float_use(node.result) else conversions.quantisers(node.result)
        pairs = ((node, quantise) for quantise in quantisers)
    reasons = (fit(conversions, maker, quantise) for maker, quantise in pairs)
    return next((reason for reason in reasons if isinstance(reason, Unfit)), None)
