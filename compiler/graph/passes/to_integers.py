"""Lowers operators between DequantizeLinear and QuantizeLinear to operators on int8 tensors.

`QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), b)))` becomes `Int8Conv(x, w,
parameters)`. Scales, zero points, bias and bounds become the parameters of an exact integer requantisation,
so results may differ from float arithmetic by 1. Weights less their zero point are int16 if they do not fit
int8. The pass is independent of the target: the network compiler expands unsupported operators. The reason
why an operator has no integer form is recorded in its node.

Channelwise affine operators after a product belong to its form, as its requantisation absorbs them: batch
normalisation, scales, shifts and biases. `AffineChain` is their canonical form: a single function of float64
numbers. No rule writes it into the graph, because operators without an integer form, and tables, must round
after each operator, as the file does.

Source: Jacob et al., CVPR 2018, section 2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from vdla.compiler.graph.affine import ChannelAffine, affine_of
from vdla.compiler.graph.conversions import BOUNDS, CONVERSIONS, Conversions, check_scales
from vdla.compiler.graph.integer_forms.cures import GENERAL, Cures
from vdla.compiler.graph.integer_forms.lowering import Lowering
from vdla.compiler.graph.integer_forms.prerequisites import RULES as PREREQUISITES
from vdla.compiler.graph.integer_forms.prerequisites import VOLUME_RANK, Located
from vdla.compiler.graph.integer_forms.rules import FUNCTION_RULES, MOVES, QUANTISE, RESULT, ROW_RULES
from vdla.compiler.graph.integer_forms.site import CHANGE, Site, multiplies_activations
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.rewrite import rebuilt
from vdla.compiler.lower.tables import FORMS, OPERATORS, RULES
from vdla.compiler.rules import Rule, Unfit, unfit
from vdla.runtime.host import elementwise
from vdla.runtime.layout import IMAGE_RANK

Case = TypeVar("Case")
CHANNEL_AXES = {"Conv": 1, "ConvTranspose": 1, "Gemm": -1, "MatMul": -1}  # of the results of products
INTEGER = "Int8"  # prefix of operators from int8 tensors to int8 tensors


class AffineChain(NamedTuple):
    """Channelwise affine operators after a product or a DequantizeLinear, merged into a single function.

    Attributes:
        node: the product; after a DequantizeLinear, the operator `Affine` with the axis of the channels.
        affine: the composition of the functions.
    """

    node: Node
    affine: ChannelAffine


class MergedConversions(Conversions):
    """The conversions of a graph, and its chains of affine operators.

    Attributes:
        chains: the chain that ends with a value, by the value's name and the axis of the channels.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.chains: dict[tuple[str, int], AffineChain] = {}
        for node in graph.nodes:
            for axis in (1, -1):
                change = affine_of(graph, node, axis)
                chain = None if change is None else self._chain(node, change, axis)
                if chain is not None:
                    self.chains[node.result, axis] = chain

    def chain(self, node: Node) -> AffineChain | None:
        """Return the chain that ends with a node; None if there is no such chain."""
        return self.chains.get((node.result, 1)) or self.chains.get((node.result, -1))

    def _chain(self, node: Node, change: ChannelAffine, axis: int) -> AffineChain | None:
        """Return the chain that an affine operator begins or continues."""
        before = self.maker(change.x)
        if before is not None and before.op == "DequantizeLinear":
            fits = axis == -1 or len(self.types[change.x].shape) in (IMAGE_RANK, VOLUME_RANK)
            merged = Node(CHANGE, (change.x,), node.outputs, {"axis": axis}, node.name)
            return AffineChain(merged, change) if fits else None
        if before is None or not self.is_read_once(change.x):
            return None
        if CHANNEL_AXES.get(before.op) == axis and self._multiplies(before):
            return AffineChain(before, change)
        chain = self.chains.get((change.x, axis))
        return chain and chain._replace(affine=change.after(chain.affine))

    def _multiplies(self, node: Node) -> bool:
        """Whether a product has quantised constant weights, or two quantised operands."""
        return self.dequantised_constants(node.inputs[1]) is not None or (
            multiplies_activations(self, node) and all(map(self.is_dequantised, node.inputs))
        )


@dataclass(frozen=True, slots=True)
class ToIntegers:
    """The pass. Operators without an integer form remain, and so do values that are read as float.

    Attributes:
        cures: the cures in reasons.
    """

    cures: Cures = GENERAL

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with integer operators. Each other node has the reason why the host runs it.

        Raises:
            GraphError: a scale is no number or not positive.
        """
        check_scales(graph)
        conversions, rejected = MergedConversions(graph), dict[str, Unfit]()
        lowering = Lowering(conversions)
        for node in graph.nodes:
            if node.op != "QuantizeLinear" or not _is_lowered(conversions, lowering, node, rejected):
                lowering.nodes.append(node)
        return with_reasons(DeadCode().run(lowering.finished()), rejected, self.cures)


def _is_lowered(
    conversions: MergedConversions, lowering: Lowering, quantise: Node, rejected: dict[str, Unfit]
) -> bool:
    """Lower the operator before a QuantizeLinear; return whether it has an integer form.

    Args:
        rejected: reasons why operators have none, by their first result; a reason is added.
    """
    maker = conversions.makers.get(conversions.source(quantise.inputs[0]))
    if maker is None:
        return False
    form = fit(conversions, maker, quantise)
    if isinstance(form, Unfit):
        for node in (maker, quantise) if maker.op == "DequantizeLinear" else (maker,):  # a requantisation
            rejected.setdefault(node.result, form)
        return False
    FORMS[form.kind].lower(lowering, form)
    return True


def fit(conversions: MergedConversions, node: Node, quantise: Node | None) -> Site | Unfit:
    """Return the site of the integer form of `node`; Unfit with the reason if it has no integer form.

    Args:
        quantise: the QuantizeLinear of its result, directly or after Relu and Clip; None if there is none.
    """
    chain = conversions.chain(node)
    if chain is not None:
        site = Site(conversions, chain.node, quantise, chain.affine)
        subject = node.op if site.kind == CHANGE else chain.node.op
        return unfit(subject, RULES[site.kind], site) or site
    if node.op in PREREQUISITES:
        located = Located(conversions.graph, node)
        return unfit(node.op, PREREQUISITES[node.op], located) or _unchanged(node)
    if node.op in elementwise.OPERATORS and node.op not in RULES:
        return unfit(node.op, FUNCTION_RULES, Site(conversions, node, quantise)) or _also_read_as_float(node)
    if node.op in ROW_RULES:
        return unfit(node.op, ROW_RULES[node.op], Site(conversions, node, quantise)) or _inexact(node)
    if node.op not in RULES:
        return unsupported(node)
    site = Site(conversions, _bounded(conversions, node), quantise)
    return unfit(node.op, RULES[site.kind], site) or site


def _bounded(conversions: Conversions, node: Node) -> Node:
    """Return the DequantizeLinear whose result a Relu or Clip bounds, because both become a requantisation.
    Return other operators unchanged."""
    maker = conversions.makers.get(conversions.source(node.result)) if node.op in BOUNDS else None
    return maker if maker is not None and maker.op == "DequantizeLinear" else node


def with_reasons(graph: Graph, rejected: Mapping[str, Unfit], cures: Cures) -> Graph:
    """Return `graph` with the reason why the host runs it recorded in each node without an integer form.

    Operators that move int8 elements have no reason yet: whether the accelerator moves them depends on the
    target.

    Args:
        rejected: the reasons why operators were not lowered, by their first result.
        cures: the cures for this network.
    """
    conversions = MergedConversions(graph)

    def with_reason(node: Node) -> Node:
        if node.reason or _is_integer(graph, node):
            return node
        return replace(node, reason=cures.of(node, _why_on_host(conversions, node, rejected)).reason)

    return rebuilt(graph, map(with_reason, graph.nodes))


def _is_integer(graph: Graph, node: Node) -> bool:
    """Whether an operator computes with int8 elements, or an operator of the accelerator or of `MOVES` has
    integers."""
    if node.op == "Identity":
        return graph.types[node.result].dtype == "int8"
    of_integers = node.op in MOVES or node.op in OPERATORS
    return node.op.startswith(INTEGER) or (of_integers and not is_float(graph, node))


def is_float(graph: Graph, node: Node) -> bool:
    """Whether an operator reads or makes real numbers."""
    names = (name for name in (*node.inputs, *node.outputs) if name)
    return any(graph.types[name].dtype.startswith("float") for name in names)


def _why_on_host(conversions: MergedConversions, node: Node, rejected: Mapping[str, Unfit]) -> Unfit:
    """Return the reason why an operator remains: it was rejected, it converts a tensor that a float operator
    makes or reads, no QuantizeLinear reads its result, or its result is also read as float32."""
    read_as_float = node.op == "DequantizeLinear" and conversions.float_use(node.result)
    if node.result in rejected and not read_as_float:
        return rejected[node.result]
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


def _inexact(node: Node) -> Unfit:
    """Return the reason why a normalisation between conversions remains."""
    return Unfit(
        f"{node.op} with an axis, constants or scales for which it has no integer form; --explain tells which"
    )


def _also_read_as_float(node: Node) -> Unfit:
    """Return the reason why an elementwise operator with int8 inputs and a quantised result runs on the host:
    its result is also read as real numbers, and its table makes real numbers."""
    return Unfit(f"{node.op} with a result that is also read as real numbers", cure=QUANTISE)


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
    origin = f"enters the network as {dtype}" if maker is None else f"{maker} computes as {dtype}"
    return f"input {real} that {origin}"
