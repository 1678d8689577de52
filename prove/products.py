"""Sums of products of elements with constant weights, and with each other."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.prove.domain import Domain
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
    product_degree,
    product_reach,
    reduced,
    within,
)
from vdla.prove.errors import ProofError
from vdla.prove.functions import Numbers
from vdla.prove.kernels import common_roots

NO_TERM = -1
PIECE = 1 << 22  # elements that are looked at together
HALF_BITS = 15
DEPTH = LARGEST_MAGNITUDE >> HALF_BITS + 28  # products of a half and a residue that are added at a time


def products(domain: Domain, weights: np.ndarray, columns: Elements) -> Sums:
    """Return the matrix product of weights int[M, K] and elements[K, P], Sums[M, P]."""
    values = domain.values(columns)
    depth, count = columns.shape
    side_by_side = values.residues.transpose(1, 0, 2).reshape(depth, RESIDUES * count)
    rows = [weights[rows].astype(np.float64) @ side_by_side for rows in pieces(weights)]
    residues = np.concatenate(rows).reshape(len(weights), RESIDUES, count)
    places = Terms(columns.reshape(-1), np.arange(count), np.arange(depth) * count)
    source = single_sources(domain, weights, places)
    return weighted(values, np.ascontiguousarray(residues.transpose(1, 0, 2)), source, weights)


def weighted(values: Sums, residues: Floats, source: Elements | None, weights: np.ndarray) -> Sums:
    """Return sums of values times weights int[M, ...], each of one row of weights.

    Raises:
        ProofError: weights are so large that residues could exceed `LARGEST_MAGNITUDE`.
    """
    flat = weights.reshape(len(weights), -1)
    sums = (np.abs(flat[rows].astype(np.int64)).sum(1).max(initial=0) for rows in pieces(flat))
    largest = int(max(sums, default=0))
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


def pieces(weights: np.ndarray) -> list[slice]:
    """Return slices of the rows of weights [M, K], of about `PIECE` elements each."""
    step = max(1, PIECE // max(1, weights.shape[1]))
    return [slice(first, first + step) for first in range(0, len(weights), step)]


@dataclass(frozen=True, slots=True)
class Terms:
    """Where the terms of sums stand: term k of sum p is elements[bases[p] + offsets[k]].

    Attributes:
        elements: elements[n].
        bases: int64[P].
        offsets: int64[K].
    """

    elements: Elements
    bases: NDArray[np.int64]
    offsets: NDArray[np.int64]


def single_sources(domain: Domain, weights: np.ndarray, terms: Terms) -> Elements | None:
    """Return the sources of the sums of weights int[M, K] times terms, elements[M, P]; None if all have
    several roots."""
    used, scratch = np.ascontiguousarray(weights != 0), np.empty(weights.shape[1], np.int64)
    firsts = np.empty((len(weights), len(terms.bases)), np.int64)
    common_roots(terms.elements, terms.bases, terms.offsets, used, scratch, firsts)
    rows, columns = np.nonzero(firsts >= NO_TERM)
    if not rows.size:
        return None
    sources = np.zeros(firsts.shape, ELEMENT)
    sources["function"] = SEVERAL
    piece = max(1, PIECE // max(1, len(terms.offsets)))
    for begin in range(0, len(rows), piece):
        at = rows[begin : begin + piece], columns[begin : begin + piece]
        elements = terms.elements[terms.bases[at[1], None] + terms.offsets]
        sources[at] = _functions_of_terms(domain, weights[at[0]], elements, firsts[at])
    return sources


def _functions_of_terms(
    domain: Domain, weights: np.ndarray, terms: Elements, firsts: NDArray[np.int64]
) -> Elements:
    """Return the sums of weights int[n, K] times elements[n, K], which have at most one root, as elements[n].

    Args:
        firsts: int64[n], the place of the first term with a root; `NO_TERM` if there is none.
    """
    rooted = terms["kind"] != NO_ROOT
    constants = np.where(rooted, 0, domain.functions.least[terms["function"]])
    functions = domain.functions.constants((constants * weights).sum(1))
    places, columns = np.nonzero((weights != 0) & rooted)
    counts = np.bincount(places, minlength=len(weights))
    begins = np.cumsum(counts) - counts
    for number in range(counts.max(initial=0)):
        rows = np.flatnonzero(counts > number)
        chosen = columns[begins[rows] + number]
        scaled = _scaled(domain, terms[rows, chosen]["function"], weights[rows, chosen])
        functions[rows] = domain.functions.of_pairs("sum", np.add, functions[rows], scaled)
    roots = np.where(firsts == NO_TERM, np.zeros(1, ELEMENT), terms[np.arange(len(terms)), firsts])
    return domain.of_functions(roots, functions)


def _scaled(domain: Domain, functions: Numbers, factors: np.ndarray) -> Numbers:
    """Return functions times integers, int32[n]."""
    return domain.functions.of_pairs("product", np.multiply, functions, domain.functions.constants(factors))


def field_products(domain: Domain, left: Sums, right: Sums) -> Sums:
    """Return the matrix product of Sums[M, K] and Sums[K, P], Sums[M, P].

    Raises:
        ProofError: the degree of the products is too high.
    """
    reduced_left, reduced_right = within(left, REDUCED), within(right, REDUCED)
    depth = reduced_left.shape[-1]
    high = np.rint(reduced_left.residues * 2.0**-HALF_BITS)
    halves = high, reduced_left.residues - high * 2.0**HALF_BITS
    residues: Floats = np.zeros((RESIDUES, reduced_left.shape[0], reduced_right.shape[1]))
    for half, factor in zip(halves, (2.0**HALF_BITS, 1.0), strict=True):
        for first in range(0, depth, DEPTH):
            part = slice(first, first + DEPTH)
            residues += reduced(half[:, :, part] @ reduced_right.residues[:, part]) * factor
        residues = reduced(residues)
    source = None
    if left.source is not None and right.source is not None:
        source = _sources_of_pairs(domain, left.source, right.source)
    return Sums(
        residues,
        source,
        product_reach(left, right) * depth,
        left.offset * right.offset * depth,
        product_degree(left, right),
        REDUCED,
    )


def _sources_of_pairs(domain: Domain, left: Elements, right: Elements) -> Elements | None:
    """Return the sources of the matrix product of elements[M, K] and elements[K, P], elements[M, P]; None if
    every sum has several roots.

    A column of `right` often has a single factor that is not 0, as where a GEMM multiplies element by
    element. Factors of 0 are passed over. The others are looked at until every sum has several roots, so a
    product of two tensors of activations ends after its first terms.
    """
    functions, known = domain.functions, right["function"]
    is_zero = (known == functions.constants(np.zeros(1, np.int64))[0]) & (right["kind"] == NO_ROOT)
    order = np.argsort(is_zero, axis=0, kind="stable")
    total = np.broadcast_to(domain.constants(np.zeros((1, 1))), (len(left), right.shape[1]))
    for term in order[: int((~is_zero).sum(0).max(initial=0))]:
        factors = left[:, term], right[term, np.arange(right.shape[1])][None]
        product = domain.sources("product", np.multiply, *map(_with_source, factors))
        added = (
            None
            if product is None
            else domain.sources("sum", np.add, _with_source(total), _with_source(product))
        )
        if added is None:
            return None
        total = added
    return total


def _with_source(source: Elements) -> Sums:
    """Return sums of which the source alone is used."""
    return Sums(np.zeros((RESIDUES, *[1] * source.ndim)), source, 0, 0)
