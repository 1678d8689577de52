"""Sums, products, requantisations and tables of the elements of int8 tensors."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from vdla.compiler.codegen.epilogue import TABLE, Epilogue, table_entries
from vdla.compiler.graph.integer_forms.lowering import IntegerForm, Lowering
from vdla.compiler.graph.integer_forms.rules import FACTORED, FACTORS, RATIOS, SHAPES
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.integers import Quantisation, factors_and_shift, scaling
from vdla.compiler.lower.channelwise import by_alu, by_channel, factor_place, multiplies
from vdla.compiler.network.placed import (
    SAME,
    OffloadCandidate,
    Offloaded,
    OperatorKind,
    alu,
    constants,
    operands,
)
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.elementwise import FORMS as ELEMENTS_FORMS
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.scaling import SumTask, diagonal_weights, multiplies_sums
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.requantise import parameter_words


def _alike(candidate: OffloadCandidate, count: int) -> str:
    """Describe `count` operands and results of different shapes; "" if the rule holds."""
    names = *candidate.node.inputs[:count], *candidate.node.outputs
    shapes = [candidate.graph.types[name].shape for name in names]
    return "" if len(set(shapes)) == 1 else f"operands of the shapes {' and '.join(map(str, shapes[:-1]))}"


def same_shapes(count: int) -> Rule[OffloadCandidate]:
    """Return the rule that `count` operands and the result have one shape."""
    return Rule("operands of one shape", lambda candidate: _alike(candidate, count))


def by_alu_passes(kind: Elements) -> OperatorKind:
    """Return the kind of operator that the task `kind` computes. If the task requantises, the operator's last
    input is the parameters."""
    form = ELEMENTS_FORMS[kind]

    def make(candidate: OffloadCandidate) -> Offloaded:
        constants = candidate.node.extents(form.constants) if form.constants else ()
        parameters = {"P": candidate.parameters()} if form.requantises else {}
        inputs = dict(zip("AB", range(form.operands), strict=False))
        return candidate.on_elements(lambda count: ElementsTask(kind, count, constants), inputs, parameters)

    parameters = (PARAMETERS,) if form.requantises else ()
    rules = *parameters, operands(form.operands, constant=form.operands > 1), same_shapes(form.operands)
    return OperatorKind(rules, make, (alu(*form.alu),) if form.alu else ())


def _add(candidate: OffloadCandidate) -> Offloaded:
    """Return a sum, computed by the multiplier array if it supports the factors, else by the ALU."""
    factors = candidate.node.extents("factors")
    if not multiplies_sums(candidate.config, factors):
        return ADDS.make(candidate)
    constants = {"P": candidate.parameters(), "W": diagonal_weights(factors, candidate.config)}
    return candidate.on_elements(SumTask, {"A": 0, "B": 1}, constants)


def _factors(candidate: OffloadCandidate) -> str:
    """Describe operands of different shapes, unless one operand has a factor for each channel of the
    other operand; "" if the rule holds."""
    if factor_place(candidate.graph, candidate.node) is None:
        return _alike(candidate, 2)
    batch = candidate.config.batch
    return "" if batch == 1 else f"factors of channels and batch = {batch}"


def _multiply(candidate: OffloadCandidate) -> Offloaded:
    place = factor_place(candidate.graph, candidate.node)
    if place is None:
        return MULTIPLIES.make(candidate)
    return (by_channel if multiplies(candidate.config) else by_alu)(candidate, place)


def _lookup(candidate: OffloadCandidate) -> Offloaded:
    """Return a table lookup in the epilogue of a requantisation that keeps values."""
    constants = {"P": candidate.parameters(words=SAME), TABLE: table_entries(candidate.constant(1))}
    requantised = candidate.on_elements(partial(ElementsTask, Elements.REQUANTISE), {"A": 0}, constants)
    return replace(requantised, epilogue=Epilogue(table=1))


def _bytes(candidate: OffloadCandidate) -> str:
    dtype = candidate.constant(1).dtype
    return "" if dtype == np.int8 else f"a table of {dtype}"


def _tables(config: AcceleratorConfig) -> str:
    return "" if config.has(Extension.TABLE) else f"the extension {Extension.TABLE} switched off"


def _integer_sum(lowering: Lowering, site: Site) -> None:
    """Add the sum of two tensors, each multiplied by an integer factor."""
    factors, shift = factors_and_shift(list(site.ratios))
    bias = -sum(part.quantisation.zero * factor for part, factor in zip(site.operands, factors, strict=True))
    lowering.add_binary("Int8Add", site, _single(bias, 1, shift, site.result), {"factors": factors})


def _integer_product(lowering: Lowering, site: Site) -> None:
    """Add the elementwise product of two tensors."""
    zeros = tuple(part.quantisation.zero for part in site.operands)
    lowering.add_binary("Int8Mul", site, scaling(site.ratios, 0, site.result), {"zeros": zeros})


def _requantised(lowering: Lowering, site: Site) -> None:
    """Add the requantisation of an int8 tensor, with the bounds of Relu and Clip."""
    lowering.rescaled(site.operands[0], site.out, site.result, None)


def _single(bias: int, multiplier: int, shift: int, out: Quantisation) -> np.ndarray:
    """Return int64[4, 1]: requantisation parameters that all channels share."""
    return parameter_words(
        *(np.array([value]) for value in (bias, multiplier, shift, out.zero, out.least, out.greatest))
    )


PARAMETERS = constants(-1)
OPERAND_FACTORS = Rule(
    "operands of one shape, or a factor for each channel of one image and a batch of 1", _factors
)
ADDS, MULTIPLIES = by_alu_passes(Elements.ADD), by_alu_passes(Elements.MULTIPLY)
FORMS = {
    "Add": IntegerForm(_integer_sum, (), (SHAPES, FACTORS)),
    "DequantizeLinear": IntegerForm(_requantised),
    "Mul": IntegerForm(_integer_product, (), (FACTORED, RATIOS)),
}
OPERATORS: Mapping[str, OperatorKind] = {
    "Int8Add": replace(ADDS, make=_add),
    "Int8Lookup": OperatorKind(
        (PARAMETERS, operands(1), same_shapes(1), Rule("a table of int8", _bytes)),
        _lookup,
        (Rule(f"the extension {Extension.TABLE}", _tables, enabling(Extension.TABLE)),),
    ),
    "Int8Mul": replace(
        MULTIPLIES, rules=(PARAMETERS, operands(2, constant=True), OPERAND_FACTORS), make=_multiply
    ),
    "Int8Requantise": by_alu_passes(Elements.REQUANTISE),
}
