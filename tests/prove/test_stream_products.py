"""Products of the stream machine are the sums of their terms, whether these are constants, functions of one
root, or have several roots."""

import numpy as np
import pytest

from vdla.hw.spec.window import Window
from vdla.prove.domain import Domain
from vdla.prove.elements import SEVERAL, Elements, Sums, along, equal
from vdla.prove.indices import Product, Rows, window_terms
from vdla.prove.memory import Dram, Lanes, Pad, Weights
from vdla.prove.stream_products import Operands, matrix_product, row_sums

DEPTH, BLOCK = 6, 4


def operands(domain: Domain, batch: int, seed: int) -> Operands:
    """Return inputs, of which some are constants and some share a root, and weights, of which half are 0."""
    rng = np.random.default_rng(seed)
    roots = domain.fresh("x", (4,))
    inputs = domain.apply(
        roots[rng.integers(0, 4, (DEPTH, batch * BLOCK))], domain.functions.number(np.arange(256) - 128)
    )
    constants = rng.random(inputs.shape) < 0.4
    inputs[constants] = domain.constants(rng.integers(-128, 128, inputs.shape))[constants]
    weights = rng.integers(-128, 128, (DEPTH, BLOCK, BLOCK)).astype(np.int8) * (
        rng.random((DEPTH, BLOCK, BLOCK)) < 0.3
    )
    return Operands(pad_of(domain, inputs), constant_weights(weights.astype(np.int8)))


def pad_of(domain: Domain, elements: Elements) -> Pad:
    """Return a scratchpad that holds elements[n, lanes]."""
    depth, size = elements.shape
    dram = Dram(domain, np.zeros(0, np.uint8), 0, 0, size, (depth + 1) * size)
    pad = Pad(domain, dram, 0, depth, size)
    pad.put(slice(None), Lanes(elements, domain.values(elements).residues))
    return pad


def constant_weights(numbers: np.ndarray) -> Weights:
    """Return weights int8[depth, block_out, block_in]."""
    weights = Weights(*numbers.shape)
    weights.put_numbers(slice(None), numbers)
    return weights


def total(domain: Domain, terms: list[tuple[np.void, int]]) -> Sums:
    """Return a sum of elements times numbers, term by term."""
    result = domain.values(domain.constants(np.zeros(1)))
    for element, factor in terms:
        if factor:
            summand = np.array([element], element.dtype)
            result = domain.add(result, domain.scale(domain.values(summand), np.array([factor])))
    return result


def is_sum(product: Sums, lane: tuple[int, int], expected: Sums) -> bool:
    """Whether a lane of a product has the residues and the source of the expected sum."""
    residues = product.residues[:, lane[0], lane[1]] - expected.residues[:, 0]
    if (residues % along(1)).any():
        return False
    if product.source is None or product.source[lane]["function"] == SEVERAL:
        return expected.source is None
    return expected.source is not None and bool(equal(product.source[lane][None], expected.source).all())


def single(elements: Elements, element: int, lane: int) -> np.void:
    return elements[element, lane]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_matrix_products_are_the_sums_of_their_terms(seed, batch):
    domain, rng = Domain(seed), np.random.default_rng(seed)
    given = operands(domain, batch, seed)
    src, wgt = rng.integers(0, DEPTH, (3, 2)), rng.integers(0, DEPTH, (2, 2))
    product = Product(np.arange(6).reshape(3, 2), src, wgt)
    sums = matrix_product(domain, given, product, with_source=True)
    elements, weights = given.inputs.chosen(slice(None)).elements, given.weights.numbers
    for p, o, b, row in np.ndindex(3, 2, batch, BLOCK):
        terms = [
            (single(elements, src[p, r], b * BLOCK + k), int(weights[wgt[o, r], row, k]))
            for r, k in np.ndindex(2, BLOCK)
        ]
        assert is_sum(sums, (p * 2 + o, b * BLOCK + row), total(domain, terms))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("window", [Window(1, 3, 2), Window(2, 3, 1), Window(2, 3, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_sums_of_rows_are_the_sums_of_their_terms(seed, batch, window):
    domain, rng = Domain(seed), np.random.default_rng(seed)
    block, terms_of_sum = window.inputs + 2, window_terms(window, window.rows - 1, 0)
    inputs = domain.fresh("x", (DEPTH, batch * block))
    constants = rng.random(inputs.shape) < 0.7
    inputs[constants] = domain.constants(rng.integers(-128, 128, inputs.shape))[constants]
    weights = (
        rng.integers(-128, 128, (DEPTH, block, block)) * (rng.random((DEPTH, block, block)) < 0.5)
    ).astype(np.int8)
    given = Operands(pad_of(domain, inputs), constant_weights(weights))
    src, wgt = rng.integers(0, DEPTH, (2, 3 * window.rows)), rng.integers(0, DEPTH, 2)
    rows = Rows(np.arange(2), src, wgt, terms_of_sum, window.channels)
    sums = row_sums(domain, given, rows, with_source=True)
    for step, lane in np.ndindex(2, batch * block):
        row = lane % block
        terms = [
            (
                single(inputs, rows.src[step, element], lane - row % window.channels + channel),
                int(weights[rows.wgt[step], row, place]),
            )
            for element, channel, place in terms_of_sum
        ]
        assert is_sum(sums, (step, lane), total(domain, terms))


@pytest.mark.parametrize("largest", [3, 100])
def test_products_of_activations_are_bounded_by_the_values_of_these(largest):
    domain = Domain(1)
    narrow = domain.functions.number(np.clip(np.arange(256) - 128, 0, largest))
    inputs, columns = (
        domain.apply(domain.fresh(name, (1, size)), narrow)
        for name, size in (("x", BLOCK), ("y", BLOCK * BLOCK))
    )
    weights = Weights(1, BLOCK, BLOCK)
    weights.put_activations(slice(None), Lanes(columns, domain.values(columns).residues))
    place = np.zeros((1, 1), np.int64)
    given = Operands(pad_of(domain, inputs), weights)
    sums = matrix_product(domain, given, Product(place, place, place), with_source=False)
    assert (sums.degree, sums.reach, sums.offset) == (2, 3 * largest**2 * BLOCK, largest**2 * BLOCK)


ROOTS = np.arange(2 * 2 * BLOCK).reshape(2, 2 * BLOCK)
MIXED = {
    "all roots differ": (ROOTS, np.ones((1, BLOCK, BLOCK), np.int8), 0),
    "the first input of a row is a constant": (
        np.where(ROOTS == 0, -1, ROOTS),
        np.ones((1, BLOCK, BLOCK), np.int8),
        0,
    ),
    "two factors of a sum are not 0, of one root": (
        np.where(ROOTS == 1, 0, ROOTS),
        np.stack([np.array([[1, 2, 0, 0], *np.ones((3, 4))], np.int8)]),
        1,
    ),
    "one factor of a sum is not 0": (
        ROOTS,
        np.stack([np.array([*np.ones((3, 4)), [0, 0, 5, 0]], np.int8)]),
        4,
    ),
    "no factor of a sum is not 0": (
        ROOTS,
        np.stack([np.array([[0, 0, 0, 0], *np.ones((3, 4))], np.int8)]),
        4,
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_sums_of_one_root_are_found_among_sums_of_several(name):
    """The inputs are two elements of two images; -1 is a constant."""
    roots, weights, singles = MIXED[name]
    domain = Domain(1)
    inputs = domain.fresh("x", (ROOTS.size,))[roots]
    inputs[roots < 0] = domain.constants(np.full(1, 7))
    held = Operands(pad_of(domain, inputs), constant_weights(weights))
    product = Product(np.arange(2)[:, None], np.arange(2)[:, None], np.zeros((1, 1), np.int64))
    sums = matrix_product(domain, held, product, with_source=True)
    single_roots = 0 if sums.source is None else int((sums.source["function"] != SEVERAL).sum())
    assert single_roots == singles
