"""Sums of products of elements with constant weights, and with each other."""

import numpy as np
from numpy.typing import NDArray

from vdla.prove.domain import Domain, product_degree, product_reach, same_roots
from vdla.prove.elements import (
    ELEMENT,
    LARGEST_MAGNITUDE,
    NO_ROOT,
    REDUCED,
    RESIDUES,
    SEVERAL,
    Elements,
    Floats,
    Sums,
    reduced,
    within,
)
from vdla.prove.errors import ProofError
from vdla.prove.functions import Numbers

FEW = 3
"""Largest number of terms of a sum that are compared: as many as a weight has parts of eight bits."""
PIECE = 1 << 22  # elements that are looked at together
HALF_BITS = 15
DEPTH = LARGEST_MAGNITUDE >> HALF_BITS + 28  # products of a half and a residue that are added at a time


def products(domain: Domain, weights: np.ndarray, columns: Elements) -> Sums:
    """Return the matrix product of weights int[M, K] and elements[K, P], Sums[M, P]."""
    values = domain.values(columns)
    depth, count = columns.shape
    side_by_side = values.residues.transpose(1, 0, 2).reshape(depth, RESIDUES * count)
    residues = (weights.astype(np.float64) @ side_by_side).reshape(len(weights), RESIDUES, count)
    source = single_sources(domain, weights, columns) if few_terms(weights, columns).any() else None
    return weighted(values, np.ascontiguousarray(residues.transpose(1, 0, 2)), source, weights)


def weighted(values: Sums, residues: Floats, source: Elements | None, weights: np.ndarray) -> Sums:
    """Return sums of values times weights int[M, ...], each of one row of weights.

    Raises:
        ProofError: weights are so large that residues could exceed `LARGEST_MAGNITUDE`.
    """
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    largest = int(np.abs(rows).sum(1).max(initial=0))
    if largest * values.magnitude > LARGEST_MAGNITUDE:
        raise ProofError(
            f"weights whose magnitudes add up to {largest:,} are too large for a proof, which takes up to "
            f"{LARGEST_MAGNITUDE // values.magnitude:,}"
        )
    return Sums(
        residues,
        source,
        values.reach * largest,
        values.offset * largest,
        values.degree,
        max(values.magnitude * largest, REDUCED),
    )


def few_terms(weights: np.ndarray, columns: Elements) -> NDArray[np.bool_]:
    """Return bool[P]: whether a sum of weights int[M, K] times elements[K, P] may have at most `FEW` terms
    with roots."""
    least = int((weights != 0).sum(1).min(initial=len(columns)))
    constants = (columns["kind"] == NO_ROOT).sum(0)
    few: NDArray[np.bool_] = least - constants <= FEW
    return few


def single_sources(domain: Domain, weights: np.ndarray, columns: Elements) -> Elements:
    """Return the sources of the sums of weights int[M, K] times elements[K, P], elements[M, P]. A sum of at
    most `FEW` terms with one root is a function of it."""
    sources = np.zeros((len(weights), columns.shape[1]), ELEMENT)
    sources["function"] = SEVERAL
    rooted = columns["kind"] != NO_ROOT
    counts = (weights != 0).astype(np.float32) @ rooted.astype(np.float32)
    constants = np.where(rooted, 0, domain.functions.least[columns["function"]])
    offsets = weights.astype(np.float64) @ constants.astype(np.float64)
    rows, places = np.nonzero(counts <= FEW)
    piece = max(1, PIECE // max(1, len(columns)))
    for first in range(0, len(rows), piece):
        at = rows[first : first + piece], places[first : first + piece]
        sources[at] = _functions_of_terms(domain, weights[at[0]], columns.T[at[1]], offsets[at])
    return sources


def _functions_of_terms(domain: Domain, weights: np.ndarray, terms: Elements, offsets: Floats) -> Elements:
    """Return the sums of weights int[n, K] times elements[n, K] as functions of one root each, elements[n].

    Args:
        offsets: float64[n], the sums of the terms that are constants.
    """
    places, columns = np.nonzero((weights != 0) & (terms["kind"] != NO_ROOT))
    counts = np.bincount(places, minlength=len(weights))
    begins = np.cumsum(counts) - counts
    functions = domain.functions.constants(offsets.astype(np.int64))
    roots = np.zeros(len(weights), ELEMENT)
    for number in range(FEW):
        rows = np.flatnonzero(counts > number)
        chosen = columns[begins[rows] + number]
        term = terms[rows, chosen]
        if not number:
            roots[rows] = term
        same = same_roots(roots[rows], term)
        scaled = _scaled(domain, term["function"], weights[rows, chosen])
        total = domain.functions.of_pairs("sum", np.add, np.maximum(functions[rows], 0), scaled)
        functions[rows] = np.where(same & (functions[rows] != SEVERAL), total, SEVERAL)
    return domain.of_functions(roots, functions)


def _scaled(domain: Domain, functions: Numbers, factors: np.ndarray) -> Numbers:
    """Return functions times integers, int32[n]."""
    return domain.functions.of_pairs("product", np.multiply, functions, domain.functions.constants(factors))


def field_products(left: Sums, right: Sums) -> Sums:
    """Return the matrix product of Sums[M, K] and Sums[K, P], Sums[M, P], whose sources are not followed.

    Raises:
        ProofError: the degree of the products is too high.
    """
    one, other = within(left, REDUCED), within(right, REDUCED)
    depth = one.shape[-1]
    high = np.rint(one.residues * 2.0**-HALF_BITS)
    halves = high, one.residues - high * 2.0**HALF_BITS
    residues: Floats = np.zeros((RESIDUES, one.shape[0], other.shape[1]))
    for half, factor in zip(halves, (2.0**HALF_BITS, 1.0), strict=True):
        for first in range(0, depth, DEPTH):
            part = slice(first, first + DEPTH)
            residues += reduced(half[:, :, part] @ other.residues[:, part]) * factor
        residues = reduced(residues)
    return Sums(
        residues,
        None,
        product_reach(left, right) * depth,
        left.offset * right.offset * depth,
        product_degree(left, right),
        REDUCED,
    )
