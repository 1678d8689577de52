"""Elements: what a byte of an activation is in a proof, instead of a number.

An element is a function of one *root*: (kind, lo, hi) names the root, a byte that nothing is known of, and
`function` numbers an entry of `vdla.prove.functions.Functions`: the values of the element for all 256 values
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

import numpy as np
from numpy.typing import NDArray

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
REDUCED = (1 << 29) + (1 << 8)
"""Magnitude of reduced residues."""
LARGEST_DEGREE = 2
"""Of a sum as a polynomial in functions of roots: `Domain` draws matrices of this rank."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of products of elements.

    Attributes:
        residues: float64[RESIDUES, *shape], whole numbers.
        source: elements[*shape]: a sum of at most one root as a function of it; where `function` is
            `SEVERAL`, the sum has several. None: all sums have several.
        reach: bound on the magnitude of the coefficients of functions of roots.
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
    one, other = (np.ascontiguousarray(each).view(np.uint64).reshape(-1, 3) for each in (left, right))
    return np.asarray((one == other).all(1))
