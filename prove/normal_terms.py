"""Outputs of softmax and normalisation in the form that a proof compares.

An output is an unknown function of the element's value, its row's statistics, and the column's factor and
addend. Equal functions of equal terms are equal outputs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.normalisation import NormalOperands
from vdla.hw.spec.vocabulary import Statistic
from vdla.prove.axioms import Axiom
from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, Elements

POWERS = "<u2"
"""The type of a table's entries."""


class NormalFunction(NamedTuple):
    """What the outputs of several rows have in common.

    Attributes:
        statistic: what divides values.
        tables: numbers of the tables of powers: of the value, and of the row's sum.
        shared: count, exponent, reciprocal and epsilon.
    """

    statistic: Statistic
    tables: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()

    @classmethod
    def of(cls, statistic: Statistic, tables: tuple[int, int], normal: NormalOperands) -> "NormalFunction":
        """Return the function with those parameters that its statistic uses."""
        match statistic:
            case Statistic.GREATEST:
                return cls(statistic, tables[:1])
            case Statistic.POWERS:
                return cls(statistic, tables)
            case Statistic.MOMENTS:
                shared = normal.count, normal.exponent, normal.reciprocal, normal.epsilon
                return cls(statistic, shared=tuple(map(int, shared)))


def powers_number(domain: Domain, table: bytes | None) -> int:
    """Return the number of a table of powers, uint16[256] as bytes; None: powers are differences."""
    return domain.kind("powers", table)


def outputs(
    domain: Domain,
    function: NormalFunction,
    values: Elements,
    statistics: tuple[Elements, ...],
    factors: NDArray[np.int64],
    addends: NDArray[np.int64],
) -> Elements:
    """Return the outputs for values elements[n, m], elements[n, m].

    Args:
        statistics: of the rows, elements[n] each.
        factors, addends: int64[m] each.
    """
    domain.use(Axiom.NORMALISED_ROW)
    terms = np.zeros((*values.shape, len(statistics) + 2), ELEMENT)
    for place, statistic in enumerate(statistics):
        terms[..., place] = statistic[:, None]
    terms[..., -2] = values
    terms["lo"][..., -1], terms["hi"][..., -1] = factors.astype(np.uint64), addends.astype(np.uint64)
    kind = domain.kind("normalised", function)
    named = domain.named_by(terms.reshape(-1, terms.shape[-1]), kind, "int8")
    return named.reshape(values.shape)
