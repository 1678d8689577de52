"""Elements: what a byte of an activation is in a proof, instead of a number.

An element is a function of one *root*, a byte that nothing is known of. (kind, lo, hi) names the root.
`function` numbers an entry of `vdla.prove.functions.Functions`, the values of the element for all 256 values
of the root. Kind 0 is no root: the element is a constant. Two elements are equal where their four fields are.
A root is a network's input, or the requantised sum of several roots; its name then holds the residues of the
sum, and its kind tells the parameters. Names of roots are therefore exact, not hashed.

A sum is a polynomial in functions of roots, of which `Sums` holds residues modulo the primes of `PRIMES` at a
secret random point (`vdla.prove.domain`). Where a sum is a function of at most one root, `source` says which.

```python
domain = Domain(seed=1)
x = domain.fresh("x", (2, 3))  # elements[2, 3]: six unknown bytes
y = domain.constants(np.zeros((1, 3)))  # elements[1, 3]
z = np.concatenate((x, y))  # elements are NumPy arrays: moves of elements are NumPy's
relu = domain.functions.number(np.maximum(BYTES, 0))
sums = products(domain, weights, domain.apply(z, relu))  # weights int[M, 3] times elements[3, 3]
out = domain.requantise(sums, parameters)  # elements[M, 3]
top = domain.maximum(out)  # elements[3]: greatest along the first axis
```
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.prove.errors import ProofError

ELEMENT = np.dtype([("lo", "u8"), ("hi", "u8"), ("kind", "i4"), ("function", "i4")])
Elements = NDArray[np.void]
Floats = NDArray[np.float64]

NO_ROOT = 0
"""The kind of constants."""
SEVERAL, UNDEFINED = -1, -2
"""In place of a function: of a sum, that it depends on several roots; of a byte, that nothing defined it."""

PRIMES = (1073741827, 1073741831, 1073741833, 1073741839)
"""The four least above 2**30: 32 pseudo-random bits give a residue of which none is likelier than 1 / 2**30.
Products of two residues fit int64. Sums of residues times weights fit float64 as long as the magnitudes of
the weights add up to less than 2**23."""
RESIDUES = len(PRIMES)
PRIME_ROW = np.array(PRIMES, np.float64)
LARGEST_MAGNITUDE = 1 << 52
"""Of a residue that has not been reduced."""
LARGEST_BOUND = 1 << 62
"""Of coefficients and constants of a sum."""
REDUCED = (1 << 29) + (1 << 8)
"""Magnitude of reduced residues."""
HALF_WORD = np.uint64((1 << 32) - 1)
LARGEST_DEGREE = 2
"""Of a sum as a polynomial in functions of roots: `Domain` draws matrices of this rank."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of products of elements.

    Attributes:
        residues: float64[RESIDUES, *shape], whole numbers.
        source: elements[*shape]: a sum of at most one root as a function of it; where `function` is
            `SEVERAL`, the sum has several. None: all sums have several.
        reach: bound on the magnitude of the coefficients of functions of roots, and of the sum without its
            constant.
        offset: bound on the magnitude of the constant.
        degree: bound on the degree.
        magnitude: bound on the residues, at most `LARGEST_MAGNITUDE`.
    """

    residues: Floats
    source: Elements | None
    reach: int
    offset: int
    degree: int = 1
    magnitude: int = LARGEST_MAGNITUDE

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sums."""
        return self.residues.shape[1:]

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """Reach, offset, degree and magnitude.

        Raises:
            ProofError: reach or offset exceeds `LARGEST_BOUND`.
        """
        largest = max(self.reach, self.offset)
        if largest > LARGEST_BOUND:
            raise ProofError(f"a sum is bounded by {largest:,}; a proof covers up to {LARGEST_BOUND:,}")
        return self.reach, self.offset, self.degree, self.magnitude


def within(sums: Sums, largest: int) -> Sums:
    """Return sums whose residues have at most a magnitude of `largest`, which is `REDUCED` or more."""
    if sums.magnitude <= largest:
        return sums
    return replace(sums, residues=reduced(sums.residues), magnitude=REDUCED)


def reduced(residues: Floats) -> Floats:
    """Return residues[RESIDUES, ...], whole numbers of at most `LARGEST_MAGNITUDE`, between -p/2 and p/2 up
    to rounding."""
    primes = along(residues.ndim)
    quotients = np.rint(residues * (1 / primes))
    quotients *= primes
    difference: Floats = np.subtract(residues, quotients, out=quotients)
    return difference


def along(rank: int) -> Floats:
    """Return the primes as float64[RESIDUES, 1, ...] of a rank."""
    return PRIME_ROW.reshape(-1, *[1] * (rank - 1))


def undefined(shape: tuple[int, ...]) -> Elements:
    """Return elements that nothing has defined."""
    elements = np.zeros(shape, ELEMENT)
    elements["function"] = UNDEFINED
    return elements


def equal(left: Elements, right: Elements) -> NDArray[np.bool_]:
    """Return whether elements[n] are equal, bool[n]."""
    left_words, right_words = (
        np.ascontiguousarray(each).view(np.uint64).reshape(-1, 3) for each in (left, right)
    )
    return np.asarray((left_words == right_words).all(1))


def same_roots(left: Elements, right: Elements) -> NDArray[np.bool_]:
    """Return whether elements have the same roots, bool[...]."""
    same: NDArray[np.bool_] = left["lo"] == right["lo"]
    same &= left["kind"] == right["kind"]
    same &= left["hi"] == right["hi"]
    return same


def roots_agree(left: Elements, right: Elements) -> NDArray[np.bool_]:
    """Return whether elements that broadcast together have the same root, or one of the two is a constant,
    bool[...]."""
    agree = same_roots(left, right)
    for each in (left, right):
        agree |= each["kind"] == NO_ROOT
    return agree


def of_one_rank(left: Sums, right: Sums) -> tuple[Sums, Sums]:
    """Return sums with new axes of extent 1 in front, so that both have the same rank."""
    rank = max(len(left.shape), len(right.shape))
    expanded_left, expanded_right = (
        replace(sums, residues=sums.residues.reshape(RESIDUES, *[1] * (rank - len(sums.shape)), *sums.shape))
        for sums in (left, right)
    )
    return expanded_left, expanded_right


def product_reach(left: Sums, right: Sums) -> int:
    """Return the reach of products of sums: a bound on their values, their constants apart, and on their
    coefficients. A product of two functions of roots may come from both sums in either order."""
    largest = (left.reach + left.offset) * (right.reach + right.offset)
    return max(largest - left.offset * right.offset, 2 * left.reach * right.reach)


def product_degree(left: Sums, right: Sums) -> int:
    """Return the degree of the products of sums.

    Raises:
        ProofError: it exceeds `LARGEST_DEGREE`.
    """
    degree = sum(sums.degree for sums in (left, right) if sums.reach)
    if degree > LARGEST_DEGREE:
        raise ProofError(
            f"products of degree {degree} are too high for a proof, which covers degrees up to "
            f"{LARGEST_DEGREE}"
        )
    return degree


def residues_of(roots: Elements) -> NDArray[np.float64]:
    """Return float64[RESIDUES, ...]: the residues that name roots of `Domain.sums_as_roots`."""
    words = [roots[field] >> np.uint64(shift) & HALF_WORD for field in ("lo", "hi") for shift in (0, 32)]
    return np.stack(words).astype(np.float64)


def require_defined(elements: Elements) -> None:
    """Check that elements are functions of at most one root.

    Raises:
        ProofError: an element is undefined.
    """
    if elements.size and elements["function"].min() < 0:
        raise undefined_error()


def undefined_error() -> ProofError:
    """Return the error for an element that is undefined."""
    return ProofError("a byte that nothing has defined is read")


def as_channels(
    fields: NDArray[np.int64], shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], tuple[int, int, int]]:
    """Return fields int64[4, ...] that broadcast to a shape as int64[4, channels], and the shape as (n,
    channels, m)."""
    axes = [axis for axis, extent in enumerate(fields.shape[1:]) if extent != 1] or [0]
    first, last = min(axes), max(axes) + 1
    outer, channels, inner = shape[:first], shape[first:last], shape[last:]
    compact = np.broadcast_to(fields.reshape(4, *fields.shape[1:][first:last]), (4, *channels))
    return np.ascontiguousarray(compact).reshape(4, -1), (prod(outer), prod(channels), prod(inner))
