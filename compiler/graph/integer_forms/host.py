"""Why operators stay on the host that are none of the accelerator's, wherever they stand in a graph."""

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


def why_on_host(found: Conversions, node: Node) -> Unfit:
    """Return why an operator stays on the host that reads or makes real numbers, or is of a kind without an
    integer form."""
    if node.reason:
        return Unfit(node.reason)
    if node.op in CONVERSIONS:
        return _conversion(found, node)
    if node.op in MOVES and not is_float(found.graph, node):
        return _unfit(node, MOVE_RULES, Located(found.graph, node))
    return why_float(found, node)


def _bytes(at: Located) -> str:
    (name, *_), types = at.node.inputs, at.graph.types
    return "" if types[name].dtype == "int8" else f"input {name} of {types[name].dtype}"


MOVE_RULES: tuple[Rule[Located], ...] = (
    Rule("int8 tensors", _bytes),
    Rule("whole blocks of channels (Concat)", lambda at: "single elements to move"),
)


def _unfit(node: Node, rules: Iterable[Rule[Case]], case: Case) -> Unfit:
    """Return the first of `rules` that `case` breaks; it always breaks the last."""
    found = unfit(node.op, rules, case)
    assert found is not None, f"no rule keeps {node} on the host"
    return found


def _conversion(found: Conversions, node: Node) -> Unfit:
    """Return why a conversion between real numbers and int8 stays: who makes or reads the real ones."""
    requantised = _requantised(found, node)
    if requantised is not None:
        return requantised
    (real,) = node.inputs[:1] if node.op == "QuantizeLinear" else node.outputs
    return _unfit(node, (Rule("int8 tensors", lambda at: _use(found, at, real)),), node)


def _use(found: Conversions, node: Node, real: str) -> str:
    """Say who makes the real numbers that a conversion reads, or reads those that it makes."""
    if node.op == "DequantizeLinear":
        return f"result {found.float_use(real) or f'{real} of {found.graph.types[real].dtype}'}"
    maker, dtype = found.makers.get(real), found.graph.types[real].dtype
    origin = f"enters the network as {dtype}" if maker is None else f"{maker} makes in {dtype}"
    return f"input {real} that {origin}"


def _requantised(found: Conversions, node: Node) -> Unfit | None:
    """Return why int8 tensors of two scales, with nothing but bounds between, stay so; None where there is
    something."""
    if node.op == "QuantizeLinear":
        maker = found.makers.get(found.source(node.inputs[0]))
        pairs = iter([(maker, node)] if maker is not None and maker.op == "DequantizeLinear" else [])
    else:
        quantisers = () if found.float_use(node.outputs[0]) else found.quantisers(node.outputs[0])
        pairs = ((node, quantise) for quantise in quantisers)
    reasons = (fit(found, maker, quantise) for maker, quantise in pairs)
    return next((reason for reason in reasons if isinstance(reason, Unfit)), None)
