"""Rows have the same name where they hold each byte equally often, for every input."""

import numpy as np
import pytest

from tests.prove.assignments import Assignments
from vdla.prove.axioms import Axiom
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements, undefined
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES

RELU, NEGATIVE = np.maximum(BYTES, 0), np.minimum(BYTES, 0)


def root_of(domain: Domain, *values: Elements) -> Elements:
    """Return the name of a row."""
    return domain.multisets(np.stack(values)[None])[0]


def test_the_order_of_values_does_not_count():
    domain = Domain(1)
    rows = domain.fresh("x", (4, 50))
    rows[0, :3] = domain.constants(np.array([5, 5, -128]))
    order = np.random.default_rng(0).permutation(50)
    assert (domain.multisets(rows) == domain.multisets(rows[:, order])).all()
    assert len(np.unique(domain.multisets(rows))) == 4
    assert domain.axioms == (Axiom.ORDER_OF_ROW,)


def test_functions_that_exchange_their_values_make_the_same_row():
    domain = Domain(1)
    x = domain.fresh("x", (2,))
    inverse, relu, negative = (
        domain.apply(x, domain.functions.number(each)) for each in (~BYTES, RELU, NEGATIVE)
    )
    assert root_of(domain, x[0], inverse[0]) == root_of(domain, inverse[0], x[0])
    zero = domain.constants(np.array(0))
    assert root_of(domain, relu[0], negative[0]) == root_of(domain, x[0], zero)
    assert root_of(domain, relu[0], negative[1]) != root_of(domain, x[0], zero)


def test_every_value_counts_as_often_as_the_row_holds_it():
    domain = Domain(1)
    x, y = domain.fresh("x", (2,))
    one, two = (domain.constants(np.array(number)) for number in (1, 2))
    rows = [(x,), (y,), (x, x), (x, y), (x, one), (x, two), (one, two), (one, one), (x, x, y), (x, y, y)]
    names = {root_of(domain, *row).tobytes() for row in rows}
    assert len(names) == len(rows)


def test_rows_with_equal_sums_and_squares_differ():
    domain = Domain(1)
    left, right = np.array([0, 4, 5]), np.array([1, 2, 6])
    assert left.sum() == right.sum()
    assert np.square(left).sum() == np.square(right).sum()
    names = domain.multisets(domain.constants(np.stack((left, right))))
    assert names[0] != names[1]


def test_equal_rows_hold_the_same_bytes():
    assignments = Assignments()
    elements, values = assignments.mixed("x", (60, 3))
    names = assignments.domain.multisets(elements)
    ordered = np.sort(values, axis=2)
    for name in np.unique(names):
        same = ordered[:, names == name]
        assert (same == same[:, :1]).all()
    assert len(np.unique(names)) < len(names)


def test_functions_that_appear_later_are_known():
    domain = Domain(1)
    x = domain.fresh("x", (1, 2))
    before = domain.multisets(x)
    doubled = domain.apply(x, domain.functions.number(np.clip(2 * BYTES, -128, 127)))
    assert domain.multisets(doubled) != before
    assert domain.multisets(x) == before


def test_undefined_values_are_refused():
    with pytest.raises(ProofError, match="a byte that nothing has defined is read"):
        Domain(1).multisets(undefined((1, 2)))


def test_more_rows_raise_the_bound():
    domain, bounds = Domain(1), []
    for number in range(3):
        domain.multisets(domain.fresh(str(number), (100, 40)))
        bounds.append(domain.failure_probability)
    assert 0 < bounds[0] < bounds[1] < bounds[2] < 2.0**-80
