"""The tables of all operators that the accelerator runs, collected from the files of this package."""

from collections.abc import Mapping

from vdla.compiler.discovery import declared
from vdla.compiler.graph.conversions import BOUNDS
from vdla.compiler.graph.integer_forms.lowering import IntegerForm
from vdla.compiler.graph.integer_forms.rules import AROUND, RESULT, unquantised
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.network.placed import OperatorKind
from vdla.compiler.rules import Rule, unfit

PACKAGE = "vdla.compiler.lower"
FORMS: Mapping[str, IntegerForm] = declared(PACKAGE, "FORMS")
OPERATORS: Mapping[str, OperatorKind] = declared(PACKAGE, "OPERATORS")


def _bounded(site: Site) -> str:
    source = site.conversions.source(site.node.result)
    maker = site.conversions.makers.get(source)
    if maker is None or maker.op not in RULES:
        return unquantised(site, source)
    unfit_maker = unfit(maker.op, RULES[maker.op], Site(site.conversions, maker, site.quantise))
    return f"input {source} that {maker} computes on the host" if unfit_maker else ""


RULES: Mapping[str, tuple[Rule[Site], ...]] = {
    **{op: (*form.first, *AROUND, *form.inside) for op, form in FORMS.items()},
    **dict.fromkeys(
        BOUNDS, (RESULT, Rule("bounds after an operator that runs on the accelerator", _bounded))
    ),
}
