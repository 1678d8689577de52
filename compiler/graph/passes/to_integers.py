"""Lowers operators between DequantizeLinear and QuantizeLinear to operators on int8 tensors.

`QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), b)))` becomes `Int8Conv(x, w,
parameters)`. Scales, zero points, bias and bounds become the parameters of an exact integer requantisation,
so results may differ from float arithmetic by 1. Weights less their zero point are int16 if they do not fit
int8. The pass is independent of the target: the network compiler expands unsupported operators.

Source: Jacob et al., CVPR 2018, section 2.
"""

from dataclasses import dataclass

from vdla.compiler.graph.conversions import check_scales
from vdla.compiler.graph.integer_forms.cures import GENERAL, Cures
from vdla.compiler.graph.integer_forms.lowering import Lowering
from vdla.compiler.graph.integer_forms.reasons import MergedConversions, fit, with_reasons
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.lower.tables import FORMS
from vdla.compiler.rules import Unfit


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
