"""Products of the stream machine: GEMM and DEPTHWISE over elements.

BLAS multiplies residues. Which sums are functions of a single root is decided term by term, and exactly; most
sums of a network have two roots among their first terms.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, REDUCED, RESIDUES, SEVERAL, Elements, Floats, Sums
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES
from vdla.prove.indices import Product, Rows
from vdla.prove.memory import Pad, Weights
from vdla.prove.products import field_products
from vdla.prove.stream_kernels import (
    depthwise_roots,
    depthwise_sums,
    gather_columns,
    product_roots,
    term_of_depthwise,
    term_of_product,
    two_roots,
)

Bytes = NDArray[np.int8]
Indices = NDArray[np.int64]
BYTE_REACH = int(BYTES[-1] - BYTES[0])
"""The greatest difference between two values of a byte."""
MOST_WEIGHT = 1 << 23
"""Magnitudes of weights of a sum, added up: residues below 2**29 times so many fit float64."""


@dataclass(frozen=True)
class Operands:
    """What GEMM and DEPTHWISE multiply.

    Attributes:
        inputs: inputs of batch * block_in values each.
        weights: of GEMM and DEPTHWISE.
    """

    inputs: Pad
    weights: Weights

    @property
    def batch(self) -> int:
        """Rows of an input."""
        return int(self.inputs.lanes.elements.shape[1] // self.weights.numbers.shape[2])


def matrix_product(domain: Domain, operands: Operands, product: Product, with_source: bool) -> Sums:
    """Return the sums of a matrix product, [P * O, batch * block_out].

    Args:
        with_source: find the sums of a single root; else all sums are taken to have several.

    Raises:
        ProofError: weights are too large to be added up exactly, or the degree of a product is too high.
    """
    weights, lanes = operands.weights, operands.inputs.lanes
    if weights.has_activations and weights.is_activation[product.wgt].any():
        return _product_of_activations(domain, operands, product, with_source)
    count, terms = product.wgt.shape
    _, depth, width = weights.columns.shape
    columns, largest = np.empty((terms * depth, count * width)), np.empty(1, np.int64)
    gather_columns(weights.columns, weights.magnitudes, product.wgt, columns, largest)
    src = operands.inputs.rows[product.src]
    rows = _rows(lanes.residues, src, operands.batch)
    residues = _as_lanes(rows @ columns, product.dst.shape, operands.batch)
    source = None
    if with_source:
        source = _sources_of_product(domain, lanes.elements, weights.numbers, src, product.wgt)
    return _sums(residues, source, _exact(largest[0]))


def _sources_of_product(
    domain: Domain, elements: Elements, weights: Bytes, src: Indices, wgt: Indices
) -> Elements | None:
    """Return the sources of a matrix product, elements[P * O, batch * block_out]; None if every sum has
    several roots.

    Args:
        elements: elements[rows, batch * block_in].
        weights: int8[depth, block_out, block_in].
        src: int64[P, R]; wgt: int64[O, R].
    """
    steps, has_several = (elements, weights, src, wgt), np.empty(1, bool)
    two_roots(*steps, has_several)
    if has_several[0]:
        return None
    batch = elements.shape[1] // weights.shape[2]
    return _sources(
        domain,
        (len(src) * len(wgt), batch * weights.shape[1]),
        lambda sources, counts, offsets: product_roots(
            *steps, domain.functions.least, sources, counts, offsets
        ),
        lambda *term: term_of_product(*steps, *term),
    )


def row_sums(domain: Domain, operands: Operands, rows: Rows, with_source: bool) -> Sums:
    """Return the sums of a DEPTHWISE, [n, batch * block]. The arguments and errors are as of
    `matrix_product`."""
    if operands.weights.is_activation[rows.wgt].any():
        raise ProofError("a DEPTHWISE by activations is not covered; use a GEMM")
    weights, inputs = operands.weights.numbers, operands.inputs.lanes
    src = operands.inputs.rows[rows.src]
    terms = weights[rows.wgt][:, :, rows.terms[:, 2]]
    largest = _exact(np.abs(terms.astype(np.int16)).sum(2, dtype=np.int64).max(initial=0))
    residues = np.empty((RESIDUES, len(rows.dst), inputs.elements.shape[1]))
    windows = src, rows.wgt, rows.terms, rows.shared
    depthwise_sums(inputs.residues, weights, *windows, residues)
    source = None
    if with_source:
        steps = inputs.elements, weights, *windows
        source = _sources(
            domain,
            residues.shape[1:],
            lambda sources, counts, offsets: depthwise_roots(
                *steps, domain.functions.least, sources, counts, offsets
            ),
            lambda *term: term_of_depthwise(*steps, *term),
        )
    return _sums(residues, source, largest)


def _sums(residues: Floats, source: Elements | None, largest: int) -> Sums:
    """Return sums of bytes times weights whose magnitudes add up to at most `largest`."""
    return Sums(
        residues, source, BYTE_REACH * largest, -int(BYTES[0]) * largest, 1, REDUCED * max(largest, 1)
    )


def _exact(largest: Any) -> int:
    """Return the largest sum of magnitudes of weights.

    Raises:
        ProofError: residues times such weights are no exact float64.
    """
    if largest >= MOST_WEIGHT:
        raise ProofError(
            f"weights of a sum add up to {largest:,}, and a proof multiplies by less than "
            f"{MOST_WEIGHT:,} at once"
        )
    return int(largest)


def _rows(lanes: Any, src: Indices, batch: int) -> Any:
    """Return values[n * P * batch, R * block_in] of lanes[n, depth, batch * block_in]."""
    taken = lanes.take(src, axis=1)
    count, terms = src.shape
    if batch > 1:
        taken = taken.reshape(len(lanes), count, terms, batch, -1).transpose(0, 1, 3, 2, 4)
    return taken.reshape(len(lanes) * count * batch, -1)


def _as_lanes(sums: Any, shape: tuple[int, ...], batch: int) -> Any:
    """Return values[n, P * O, batch * block_out] of values[n * P * batch, O * block_out]."""
    pixels, columns = shape
    parts = sums.reshape(len(sums) // (pixels * batch), pixels, batch, columns, -1)
    return parts.transpose(0, 1, 3, 2, 4).reshape(len(parts), pixels * columns, -1)


Find = Callable[[Elements, Indices, Indices], None]
Term = Callable[[Indices, int, Indices, Indices], None]


def _sources(domain: Domain, shape: tuple[int, ...], find: Find, term: Term) -> Elements | None:
    """Return sums of at most one root as functions of it, elements[shape]; None if all have several roots.

    Args:
        find: writes the root of each sum, how many terms have it, and the sum of the others.
        term: writes function and weight of the term of a number, of the sums that have so many.
    """
    sources = np.zeros(shape, ELEMENT)
    counts, offsets = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    find(sources.reshape(-1), counts.reshape(-1), offsets.reshape(-1))
    single = sources["function"] != SEVERAL
    if not single.any():
        return None
    functions = domain.functions
    total = np.full(shape, SEVERAL, np.int32)
    total[single] = functions.constants(offsets[single])
    for number in range(int(counts.max())):
        inner, factors = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        term(counts.reshape(-1), number, inner.reshape(-1), factors.reshape(-1))
        has = counts > number
        terms = functions.of_pairs(
            "product", np.multiply, inner[has].astype(np.int32), functions.constants(factors[has])
        )
        total[has] = functions.of_pairs("sum", np.add, total[has], terms)
    return domain.of_functions(sources, total)


def _product_of_activations(domain: Domain, operands: Operands, product: Product, with_source: bool) -> Sums:
    """Return the sums of a matrix product whose weights are activations; see `matrix_product`."""
    batch, lanes, src = operands.batch, operands.inputs.lanes, operands.inputs.rows[product.src]
    rows = _rows(lanes.residues, src, batch)
    columns = _weights_of_activations(operands, product.wgt)
    elements = (
        _rows(lanes.elements[None], src, batch),
        _elements_of_weights(domain, operands, product.wgt),
    )
    left, right = (
        Sums(residues, each if with_source else None, *domain.reach_and_offset(each), 1, REDUCED)
        for residues, each in zip((rows.reshape(RESIDUES, -1, rows.shape[1]), columns), elements, strict=True)
    )
    sums = field_products(domain, left, right)
    residues = _as_lanes(sums.residues.reshape(-1, columns.shape[2]), product.dst.shape, batch)
    source = None if sums.source is None else _as_lanes(sums.source, product.dst.shape, batch)[0]
    return replace(sums, residues=residues, source=source)


def _elements_of_weights(domain: Domain, operands: Operands, wgt: Indices) -> Elements:
    """Return weights, elements[R * block_in, O * block_out]: activations, and constants among them."""
    columns, terms = wgt.shape
    _, rows, depth = operands.weights.numbers.shape
    weights = operands.weights.activations.elements[wgt]
    constants = ~operands.weights.is_activation[wgt]
    weights[constants] = domain.constants(operands.weights.numbers[wgt].reshape(weights.shape)[constants])
    turned = weights.reshape(columns, terms, rows, depth).transpose(1, 3, 0, 2)
    return turned.reshape(terms * depth, columns * rows)


def _weights_of_activations(operands: Operands, wgt: Indices) -> Floats:
    """Return the residues of weights, float64[RESIDUES, R * block_in, O * block_out]: of activations, and of
    constants among them."""
    columns, terms = wgt.shape
    _, rows, depth = operands.weights.numbers.shape
    numbers = operands.weights.numbers[wgt].reshape(columns, terms, -1).astype(np.float64)
    is_activation = operands.weights.is_activation[wgt][..., None]
    residues = np.where(is_activation, operands.weights.activations.residues[:, wgt], numbers)
    turned = residues.reshape(RESIDUES, columns, terms, rows, depth).transpose(0, 2, 4, 1, 3)
    return turned.reshape(RESIDUES, terms * depth, columns * rows)
