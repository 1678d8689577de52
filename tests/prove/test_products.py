"""Sums of products of elements."""

import numpy as np
import pytest

from vdla.prove.domain import Domain
from vdla.prove.elements import PRIMES, RESIDUES, SEVERAL, Sums, reduced
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES
from vdla.prove.products import DEPTH, Terms, field_products, products, single_sources


def modulo(residues):
    return [np.asarray(row).astype(object) % prime for row, prime in zip(residues, PRIMES, strict=True)]


def test_residues_of_products_are_exact():
    domain, rng = Domain(1), np.random.default_rng(1)
    x, weights = domain.fresh("x", (40, 3)), rng.integers(-128, 128, (5, 40))
    sums = products(domain, weights, x)
    values = domain.values(x).residues.astype(np.int64)
    for got, row, prime in zip(modulo(sums.residues), values, PRIMES, strict=True):
        assert (got == (weights.astype(object) @ row.astype(object)) % prime).all()
    assert sums.source is None
    assert sums.reach == np.abs(weights).sum(1).max() * 255


@pytest.mark.parametrize("depth", [1, 5, DEPTH + 3])
def test_products_of_residues_are_exact(depth):
    rng = np.random.default_rng(depth)
    left, right = (
        Sums(reduced(rng.integers(-(1 << 29), 1 << 29, (RESIDUES, *shape)).astype(np.float64)), None, 1, 1)
        for shape in ((2, depth), (depth, 3))
    )
    result = field_products(Domain(1), left, right)
    for got, left_part, right_part, prime in zip(
        modulo(result.residues), left.residues, right.residues, PRIMES, strict=True
    ):
        exact = left_part.astype(np.int64).astype(object) @ right_part.astype(np.int64).astype(object)
        assert (got == exact % prime).all()
    assert result.degree == 2


def test_weights_that_residues_do_not_hold_are_refused():
    domain = Domain(1)
    with pytest.raises(ProofError, match="add up to 8,388,6"):
        products(domain, np.full((1, 4), 1 << 21), domain.fresh("x", (4, 1)))


def test_sums_of_one_root_are_functions_of_it_however_many_terms_they_have():
    domain, rng = Domain(1), np.random.default_rng(2)
    root, constant = domain.fresh("x", (1,))[0], domain.constants(np.array(9))
    columns = np.full((30, 2), root)
    columns[3:7] = constant
    columns[0, 1] = domain.fresh("y", ())
    weights = rng.integers(-9, 9, (4, 30))
    weights[0] = 0
    weights[1, 0] = 0
    weights[2:, 0] = 5
    sums = products(domain, weights, columns)
    rest = weights[:, [*range(3), *range(7, 30)]].sum(1), 9 * weights[:, 3:7].sum(1)
    for row in range(4):
        values = domain.functions.values[sums.source["function"][row, 0]]
        np.testing.assert_array_equal(values, rest[0][row] * BYTES + rest[1][row])
    assert sums.source["function"][:, 1].tolist()[2:] == [SEVERAL, SEVERAL]
    assert (sums.source["function"][:2, 1] == sums.source["function"][:2, 0]).all()
    assert sums.source["kind"][0, 0] == 0


def test_terms_stand_at_offsets_from_bases():
    domain = Domain(1)
    image = domain.fresh("x", (12,))
    terms = Terms(image, np.array([0, 4, 7]), np.array([0, 1, 2]))
    sources = single_sources(domain, np.array([[0, 3, 0], [1, 1, 0]]), terms)
    assert sources["lo"][0].tolist() == [1, 5, 8]
    assert (sources["function"][1] == SEVERAL).all()
    assert single_sources(domain, np.array([[1, 1, 0]]), terms) is None


def test_products_of_elements_with_one_root_are_functions_of_it():
    domain = Domain(1)
    x, y = domain.fresh("x", (3, 1)), domain.fresh("y", (1, 2))
    zero, seven = (domain.constants(np.array([[number]])) for number in (0, 7))
    left = np.concatenate((x, np.broadcast_to(seven, (3, 1))), 1)
    right = np.concatenate((y, np.broadcast_to(zero, (1, 2))), 0)
    right[0, 1] = domain.constants(np.array(5))
    right[1, 1] = domain.constants(np.array(-2))
    product = field_products(domain, domain.values(left), domain.values(right))
    assert (product.source["function"][:, 0] == SEVERAL).all()
    expected = domain.functions.number(5 * BYTES.astype(np.int64) - 14)
    assert (product.source["function"][:, 1] == expected).all()
    assert (product.source["lo"][:, 1] == x["lo"][:, 0]).all()
    several = field_products(domain, domain.values(left), domain.values(y[:, :1].repeat(2, 0)))
    assert several.source is None
