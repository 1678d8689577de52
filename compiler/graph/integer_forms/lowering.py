"""Lowering of float operators between conversions to integer operators: the graph under construction, and the
declaration of an integer form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.conversions import Conversions, QuantisedTensor
from vdla.compiler.graph.integer_forms.rules import RATIOS
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.integers import GREATEST, LEAST, Quantisation, scaling
from vdla.compiler.graph.nodes import Attribute
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.rules import Rule


class Lowering(GraphBuilder):
    """The lowered graph under construction: integer operators, and all float operators. Float operators
    without readers are removed afterwards.

    Attributes:
        moved: int8 results of operators that only move elements, by the real result and the int8 operands.
    """

    def __init__(self, conversions: Conversions) -> None:
        super().__init__(conversions.graph)
        self.conversions = conversions
        self.moved: dict[tuple[str, ...], str] = {}

    def add_product(
        self, site: Site, weights: np.ndarray, op: str, attributes: Mapping[str, Attribute] | None = None
    ) -> None:
        """Add an operator that sums products of the site's operand with `weights`, in the weight layout of
        `op`."""
        words = site.product.parameters(site.operands[0].quantisation, site.result)
        self.add_weighted(site, weights, words, op, attributes)

    def add_weighted(
        self,
        site: Site,
        weights: np.ndarray,
        words: np.ndarray,
        op: str,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Add an operator on the site's operand with `weights` and parameters of requantisation."""
        names = (
            self.constant(f"{site.out}_weights", _narrowed(weights)),
            self.constant(f"{site.out}_parameters", words),
        )
        self.add(op, (site.operands[0].name, *names), site.out, attributes, site.node.name)

    def add_binary(self, op: str, site: Site, words: np.ndarray, attributes: Mapping[str, Attribute]) -> None:
        """Add an operator on two tensors, with requantisation parameters `words`."""
        a, b = (part.name for part in site.operands)
        parameters = self.constant(f"{site.out}_parameters", words)
        self.add(op, (a, b, parameters), site.out, attributes, site.node.name)

    def with_quantisation(
        self, operand: QuantisedTensor, quantisation: Quantisation, out: str
    ) -> QuantisedTensor:
        """Return an operand requantised to the scale and zero point of `quantisation`."""
        plain = replace(quantisation, least=LEAST, greatest=GREATEST)
        if operand.quantisation == plain:
            return operand
        name = self.value(f"{out}_{operand.name}", self.graph.types[operand.name])
        self.rescaled(operand, name, plain, None)
        return QuantisedTensor(name, plain)

    def rescaled(
        self,
        operand: QuantisedTensor,
        out: str,
        quantisation: Quantisation,
        make: Callable[[str], object] | None,
    ) -> None:
        """Add the requantisation of an operand to `out`, if scale or bounds differ.

        Args:
            make: adds an operator on the operand whose result has the given name; its result is requantised
                instead of the operand. None: no operator.
        """
        same = operand.quantisation == quantisation
        if make is not None:
            result = out if same else self.value(f"{out}_before", self.graph.types[out])
            make(result)
            operand = replace(operand, name=result)
        if same:
            if make is None:
                self.add("Identity", (operand.name,), out)
            return
        ratio = operand.quantisation.scale / quantisation.scale
        words = scaling(np.array([ratio]), -operand.quantisation.zero, quantisation)
        self.add("Int8Requantise", (operand.name, self.constant(f"{out}_parameters", words)), out)


def border_of(site: Site) -> int:
    """Return the value that pads the input of a window: its zero point."""
    return site.operands[0].quantisation.zero if any(site.window.extents("pads")) else 0


def _narrowed(weights: np.ndarray) -> np.ndarray:
    """Return weights as int8, or as int16 if they do not fit int8."""
    narrow = weights.astype(np.int8)
    return np.ascontiguousarray(narrow if np.array_equal(narrow, weights) else weights.astype(np.int16))


@dataclass(frozen=True, slots=True)
class IntegerForm:
    """The integer form of a float operator.

    Attributes:
        lower: adds it to the lowered graph.
        first: rules for the operator itself.
        inside: rules for its int8 tensors, which hold after the rules for its conversions.
    """

    lower: Callable[[Lowering, Site], None]
    first: tuple[Rule[Site], ...] = ()
    inside: tuple[Rule[Site], ...] = (RATIOS,)
