"""Products of the stream machine: GEMM and DEPTHWISE over elements.

BLAS multiplies residues. Which sums are functions of a single root is decided term by term, and exactly; most
sums of a network have two roots among their first terms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, LARGEST_DEGREE, RESIDUES, SEVERAL, Elements, Floats, Sums, along, reduced
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES
from vdla.prove.loops import Product, Rows
from vdla.prove.memory import Lanes
from vdla.prove.stream_kernels import (
    common_roots,
    depthwise_roots,
    depthwise_sums,
    term_of_depthwise,
    term_of_product,
)

Bytes = NDArray[np.int8]
Indices = NDArray[np.int64]
BYTE_REACH = int(BYTES[-1] - BYTES[0])
"""The greatest difference between two values of a byte."""
SPLIT = float(1 << 15)
"""Residues of activations as weights are multiplied in two parts, the lower of which is below this."""
MOST_WEIGHT = 1 << 23
"""Magnitudes of weights of a sum, added up: residues below 2**29 times so many fit float64."""


@dataclass(frozen=True)
class Operands:
    """What GEMM and DEPTHWISE multiply.

    Attributes:
        inputs: lanes of inputs [depth, batch * block_in].
        weights: int8[depth, block_out, block_in]; 0 where weights are activations.
        activations: lanes of weights that are activations [depth, block_out * block_in].
        is_activation: bool[depth], which weights are activations.
    """

    inputs: Lanes
    weights: Bytes
    activations: Lanes
    is_activation: NDArray[np.bool_]

    @property
    def batch(self) -> int:
        """Rows of an input."""
        return self.inputs.elements.shape[1] // self.weights.shape[2]


def matrix_product(domain: Domain, operands: Operands, product: Product, with_source: bool) -> Sums:
    """Return the sums of a matrix product, [P * O, batch * block_out].

    Args:
        with_source: find the sums of a single root; else all sums are taken to have several.

    Raises:
        ProofError: weights are too large to be added up exactly, or the degree of a product is too high.
    """
    if operands.is_activation[product.wgt].any():
        return _product_of_activations(domain, operands, product, with_source)
    weights = operands.weights[product.wgt]
    columns = weights.transpose(1, 3, 0, 2).reshape(-1, weights.shape[0] * weights.shape[2])
    largest = _largest(np.abs(columns.astype(np.int16)).sum(0, dtype=np.int64))
    rows = _rows(operands.inputs.residues, product.src, operands.batch)
    residues = _as_lanes(rows @ columns.astype(np.float64), product.dst.shape, operands.batch)
    source = None
    if with_source:
        place = operands.inputs.elements, operands.weights
        steps = product.src, product.wgt
        source = _sources(
            domain,
            residues.shape[1:],
            lambda found, counts, offsets: common_roots(
                *place, domain.functions.least, *steps, found, counts, offsets
            ),
            lambda *term: term_of_product(*place, *steps, *term),
        )
    return Sums(residues, source, BYTE_REACH * largest, -int(BYTES[0]) * largest)


def row_sums(domain: Domain, operands: Operands, rows: Rows, with_source: bool) -> Sums:
    """Return the sums of a DEPTHWISE, [n, batch * block]. The arguments and errors are those of
    `matrix_product`."""
    if operands.is_activation[rows.wgt].any():
        raise ProofError("a DEPTHWISE by activations is not covered; use a GEMM")
    weights = np.ascontiguousarray(operands.weights[rows.wgt][:, :, : isa.PAIR * isa.TAPS])
    largest = _largest(np.abs(weights.astype(np.int16)).sum(2, dtype=np.int64))
    inputs = operands.inputs
    residues = np.empty((RESIDUES, len(rows.dst), inputs.elements.shape[1]))
    depthwise_sums(inputs.residues, operands.weights, rows.src, rows.wgt, residues)
    source = None
    if with_source:
        place = inputs.elements, operands.weights
        steps = rows.src, rows.wgt
        source = _sources(
            domain,
            residues.shape[1:],
            lambda found, counts, offsets: depthwise_roots(
                *place, domain.functions.least, *steps, found, counts, offsets
            ),
            lambda *term: term_of_depthwise(*place, *steps, *term),
        )
    return Sums(residues, source, BYTE_REACH * largest, -int(BYTES[0]) * largest)


def _largest(magnitudes: Indices) -> int:
    """Return the largest sum of magnitudes of weights.

    Raises:
        ProofError: residues times such weights are no exact float64.
    """
    largest = int(magnitudes.max(initial=0))
    if largest >= MOST_WEIGHT:
        raise ProofError(
            f"weights of a sum add up to {largest:,}, and a proof multiplies by less than {MOST_WEIGHT:,} at once"
        )
    return largest


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
    found = np.zeros(shape, ELEMENT)
    counts, offsets = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    find(found.reshape(-1), counts.reshape(-1), offsets.reshape(-1))
    single = found["function"] != SEVERAL
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
    return domain.of_functions(found, total)


def _product_of_activations(domain: Domain, operands: Operands, product: Product, with_source: bool) -> Sums:
    """Return the sums of a matrix product whose weights are activations; see `matrix_product`."""
    shape, batch = product.dst.shape, operands.batch
    inputs = operands.inputs
    left = _rows(inputs.residues, product.src, batch).reshape(RESIDUES, shape[0] * batch, -1)
    weights = _element_weights(domain, operands, product.wgt)
    right = weights.residues.reshape(RESIDUES, left.shape[2], -1)
    high = np.rint(right / SPLIT)
    residues = reduced(reduced(left @ high) * SPLIT + left @ (right - high * SPLIT))
    source = None
    if with_source:
        rows = _rows(inputs.elements[None], product.src, batch)
        found = _sources_of_activations(domain, rows, weights.elements.reshape(right.shape[1:]))
        source = None if found is None else _as_lanes(found, shape, batch)[0]
    terms, largest = left.shape[2], -int(BYTES[0])
    lanes = _as_lanes(residues.reshape(-1, right.shape[2]), shape, batch)
    reach = terms * (BYTE_REACH + largest) ** 2
    return Sums(lanes, source, reach, terms * largest**2, LARGEST_DEGREE)


def _element_weights(domain: Domain, operands: Operands, wgt: Indices) -> Lanes:
    """Return weights as lanes [R * block_in, O * block_out]: activations, and constants in their place."""
    columns, terms = wgt.shape
    _, rows, depth = operands.weights.shape
    numbers = operands.weights[wgt].reshape(columns, terms, -1)
    activations = operands.is_activation[wgt][..., None]
    elements = np.where(activations, operands.activations.elements[wgt], domain.constants(numbers))
    residues = np.where(activations, operands.activations.residues[:, wgt], numbers.astype(np.float64))
    order = (1, 3, 0, 2)
    return Lanes(
        elements.reshape(columns, terms, rows, depth).transpose(order).reshape(terms * depth, -1),
        residues.reshape(RESIDUES, columns, terms, rows, depth)
        .transpose(0, *(1 + axis for axis in order))
        .reshape(RESIDUES, terms * depth, -1),
    )


def _sources_of_activations(domain: Domain, rows: Elements, columns: Elements) -> Elements | None:
    """Return the sums of a product elements[m, k] times elements[k, n] of at most one root as functions of
    it, elements[m, n]; None if all have several roots."""
    total: Elements | None = domain.constants(np.zeros((len(rows), columns.shape[1]), np.int64))
    for k in range(len(columns)):
        term = domain.sources("product", np.multiply, rows[:, k, None], columns[k])
        total = domain.sources("sum", np.add, total, term)
        if total is None:
            return None
    return total
