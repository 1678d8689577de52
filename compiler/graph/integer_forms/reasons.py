"""Matches float operators with their integer forms; the reason why an operator has none is recorded in its
node, with what would give it one."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from vdla.compiler.graph.conversions import BOUNDS, CONVERSIONS, Conversions
from vdla.compiler.graph.integer_forms.channel_changes import affine_chain_of
from vdla.compiler.graph.integer_forms.prerequisites import DYNAMIC, SAMPLES, Located
from vdla.compiler.graph.integer_forms.prerequisites import RULES as PREREQUISITES
from vdla.compiler.graph.integer_forms.rules import (
    FUNCTION_RULES,
    MOVES,
    NOT_QUANTISED,
    QUANTISE,
    RESULT,
    RULES,
)
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.rewrite import rebuilt
from vdla.compiler.rules import Rule, Unfit, unfit
from vdla.runtime.host import elementwise
from vdla.runtime.module.reasons import reason_of

Case = TypeVar("Case")
NONE: Mapping[str, str] = {}
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
INTEGER = "Int8"  # prefix of operators from int8 tensors to int8 tensors


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
        return unfit(node.op, FUNCTION_RULES, Site(conversions, node, quantise)) or _also_read_as_float(node)
    if node.op not in RULES:
        return unsupported(node)
    site = Site(conversions, _bounded(conversions, node), quantise)
    return unfit(node.op, RULES[site.kind], site) or site


def _bounded(conversions: Conversions, node: Node) -> Node:
    """Return the DequantizeLinear whose result a Relu or Clip bounds, because both become a requantisation.
    Return other operators unchanged."""
    maker = conversions.makers.get(conversions.source(node.result)) if node.op in BOUNDS else None
    return maker if maker is not None and maker.op == "DequantizeLinear" else node


def with_reasons(graph: Graph, rejected: Mapping[str, str] = NONE) -> Graph:
    """Return `graph` with the reason why the host runs it recorded in each node without an integer form.

    Operators that move int8 elements have no reason yet: whether the accelerator moves them depends on the
    target.

    Args:
        rejected: the reasons why operators were not lowered, by their first result.
    """
    conversions = Conversions(graph)
    return rebuilt(graph, (_with_reason(conversions, node, rejected) for node in graph.nodes))


def _with_reason(conversions: Conversions, node: Node, rejected: Mapping[str, str]) -> Node:
    if node.reason or _is_integer(conversions.graph, node):
        return node
    return replace(node, reason=_why_on_host(conversions, node, rejected).reason)


def _is_integer(graph: Graph, node: Node) -> bool:
    """Whether an operator computes with int8 elements, or moves integers."""
    if node.op == "Identity":
        return graph.types[node.result].dtype == "int8"
    return node.op.startswith(INTEGER) or (node.op in MOVES and not is_float(graph, node))


def is_float(graph: Graph, node: Node) -> bool:
    """Whether an operator reads or makes real numbers."""
    names = (name for name in (*node.inputs, *node.outputs) if name)
    return any(graph.types[name].dtype.startswith("float") for name in names)


def _why_on_host(conversions: Conversions, node: Node, rejected: Mapping[str, str]) -> Unfit:
    """Return the reason why an operator remains: it was rejected, it converts a tensor that a float operator
    makes or reads, no QuantizeLinear reads its result, or its result is also read as float32."""
    read_as_float = node.op == "DequantizeLinear" and conversions.float_use(node.result)
    if node.result in rejected and not read_as_float:
        return Unfit(rejected[node.result])
    if node.op in CONVERSIONS:
        return _conversion(conversions, node)
    form = fit(conversions, node, _first_quantiser(conversions, node))
    if isinstance(form, Unfit):
        return form
    return unfit(node.op, (RESULT,), Site(conversions, node)) or _also_read_as_float(node)


def _first_quantiser(conversions: Conversions, node: Node) -> Node | None:
    readers = (conversions.bounded_readers(name).quantiser for name in node.outputs)
    return next((quantiser for quantiser in readers if quantiser is not None), None)


def moved_by_elements(graph: Graph, node: Node) -> Unfit:
    """Return the reason why the accelerator does not run an operator that moves elements and is no view."""
    return _violated(node, MOVE_RULES, Located(graph, node))


def _unchanged(node: Node) -> Unfit:
    """Return the reason why an operator remains although its prerequisites hold: a mean of rows."""
    return Unfit(f"{node.op} is a part of a normalisation, which the host runs")


def _also_read_as_float(node: Node) -> Unfit:
    """Return the reason why an elementwise operator with int8 inputs and a quantised result runs on the host:
    its result is also read as real numbers, and its table makes real numbers."""
    return Unfit(reason_of(f"{node.op} with a result that is also read as real numbers", QUANTISE))


def unsupported(node: Node) -> Unfit:
    """Return the reason why an operator runs on the host whose kind has no integer form."""
    called = node.op.removeprefix("Dequantized").removeprefix("Int8")  # name in ONNX models
    return Unfit(f"the accelerator has no {called}")


def _bytes(at: Located) -> str:
    (name, *_), types = at.node.inputs, at.graph.types
    return "" if types[name].dtype == "int8" else f"input {name} of {types[name].dtype}"


MOVE_RULES: tuple[Rule[Located], ...] = (
    Rule("int8 tensors", _bytes),
    Rule("whole blocks of channels (Concat)", lambda at: "single elements to move"),
)


def _violated(node: Node, rules: Iterable[Rule[Case]], case: Case) -> Unfit:
    """Return the first of `rules` that `case` violates; it always violates the last."""
    reason = unfit(node.op, rules, case)
    assert reason is not None, f"no rule keeps {node} on the host"
    return reason


def _conversion(conversions: Conversions, node: Node) -> Unfit:
    """Return the reason why a conversion between real numbers and int8 remains: the operator that makes or
    reads the real numbers."""
    (real,) = node.inputs[:1] if node.op == "QuantizeLinear" else node.outputs
    return _violated(node, (Rule("int8 tensors", lambda at: _use(conversions, at, real)),), node)


def _use(conversions: Conversions, node: Node, real: str) -> str:
    """Describe the operator that makes the real numbers a conversion reads, or reads the real numbers that it
    makes."""
    if node.op == "DequantizeLinear":
        return f"result {conversions.float_use(real) or f'{real} of {conversions.graph.types[real].dtype}'}"
    maker, dtype = conversions.makers.get(real), conversions.graph.types[real].dtype
    origin = f"enters the network as {dtype}" if maker is None else f"{maker} makes in {dtype}"
    return f"input {real} that {origin}"


# Cures: what would quantise an operator depends on who quantised the network


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
