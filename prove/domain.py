"""The domain in which a proof evaluates streams and graphs: `vdla.prove.elements`.

A proof rests on polynomial identity testing. The variables are the 255 independent functions [root == v] of
each root. A random point gives them the residues B[v] . G[root], with a secret random matrix B[256, 2] for
each prime, and pseudo-random G[root]. A polynomial of degree 2 or less that is not 0 does not vanish on all
matrices of rank 2, so it is not 0 at that point but for a small probability (`failure_probability`). The
matrix B is scaled so that the byte of a root itself has the residue G[root, 0].
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.numerics import residual_operands
from vdla.prove.axioms import Axiom
from vdla.prove.elements import (
    ELEMENT,
    LARGEST_DEGREE,
    LARGEST_MAGNITUDE,
    NO_ROOT,
    PRIMES,
    REDUCED,
    RESIDUES,
    SEVERAL,
    Elements,
    Sums,
    along,
    as_channels,
    of_one_rank,
    product_degree,
    product_reach,
    require_defined,
    residues_of,
    roots_agree,
    undefined,
    undefined_error,
    within,
)
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES, IDENTITY, ZERO, Functions, Numbers, Rule, coefficients, secret_matrix
from vdla.prove.kernels import WORDS_OF_ROOT, evaluate, look_at_functions, name_sums
from vdla.prove.multisets import TOGETHER, Multisets
from vdla.prove.named_sums import NamedSums
from vdla.prove.requantisation import EXACT, Requantisations
from vdla.prove.sets import Sets

SET = "the greatest of a set"
SUM = "a sum"
ROW = "a row without its order"
SUM_BITS = 32
"""Of accumulators; `Domain.requantise` is told of others."""


class Domain:
    """What the two sides of a proof share: names of roots, functions of bytes, and the secret point.

    Two threads may compute with it at the same time. Numbers of kinds and functions then depend on the order
    of the threads, but equal things have equal numbers.

    Args:
        seed: any integer; equal seeds give equal points.
    """

    def __init__(self, seed: int) -> None:
        self.functions = Functions()
        self._seed = seed
        self._numbering = Lock()
        self._kinds: dict[tuple[object, ...], int] = {}
        self._named = NamedSums()
        self._keys = self._words("roots", 4)
        self._matrices = [secret_matrix(prime, self._words(f"matrix {prime}", 1 << 10)) for prime in PRIMES]
        self._coefficients = np.zeros((0, RESIDUES, 1 + LARGEST_DEGREE), np.int64)
        self._used: set[Axiom] = set()
        self._wide: set[int] = set()  # kinds of roots that are no bytes
        self._requantisations = Requantisations(self.functions, self.kind, self._used.add)
        self._sets = Sets(self.functions, self._words("sets", 2), self.kind(SET), self._used.add)
        numbers = self._words("rows", RESIDUES * len(BYTES)).reshape(RESIDUES, -1)
        self._multisets = Multisets(self.functions, self._keys, self._matrices, numbers)
        self._named_bounds = (0, 0, 1)  # the greatest reach, offset and degree of `sums_as_roots`
        self._single: dict[tuple[int, int], np.void] = {}  # sources of `sums_as_roots`, by lo and hi

    def _words(self, purpose: str, count: int) -> NDArray[np.uint64]:
        """Return secret words uint64[count]."""
        text = f"{purpose} {self._seed}".encode()
        return np.frombuffer(hashlib.shake_256(text).digest(8 * count), np.uint64).copy()

    def kind(self, *what: object) -> int:
        """Return the number of a kind of root; equal descriptions have equal numbers."""
        with self._numbering:
            return self._kinds.setdefault(what, len(self._kinds) + NO_ROOT + 1)

    def fresh(self, name: str, shape: tuple[int, ...]) -> Elements:
        """Return unknown bytes, elements[shape], which a name and their places identify."""
        return self.rooted(self.kind("unknown", name), shape)

    def rooted(self, kind: int, shape: tuple[int, ...]) -> Elements:
        """Return elements[shape], each its own root of a kind; their places name the roots."""
        elements = np.zeros(shape, ELEMENT)
        elements["lo"] = np.arange(elements.size).reshape(shape)
        elements["kind"] = kind
        return elements

    def use(self, axiom: Axiom) -> None:
        """Note that the proof uses an axiom."""
        self._used.add(axiom)

    def unknown(self, kind: int, shape: tuple[int, ...], dtype: str) -> Elements:
        """Return elements[shape] of a type, each its own root of a kind; their places name the roots."""
        self._note_type(kind, dtype)
        return self.rooted(kind, shape)

    def named_by(self, rows: Elements, kind: int, dtype: str) -> Elements:
        """Return elements[n] of a type, each its own root of a kind, which a row of elements[n, m] names."""
        self._note_type(kind, dtype)
        return self._sets.named_by(rows, kind)

    def _note_type(self, kind: int, dtype: str) -> None:
        if dtype not in ("int8", "uint8"):
            self._wide.add(kind)

    def is_wide(self, elements: Elements) -> NDArray[np.bool_]:
        """Return whether elements have roots that are no bytes, bool[...]."""
        return np.isin(elements["kind"], list(self._wide))

    def constants(self, values: np.ndarray) -> Elements:
        """Return integers int[...] as elements."""
        elements = np.zeros(np.shape(values), ELEMENT)
        elements["function"] = self.functions.constants(values)
        return elements

    def of_functions(self, roots: Elements, functions: Numbers) -> Elements:
        """Return functions of the roots of elements, in place of theirs. Constants lose their roots."""
        elements = np.zeros(np.broadcast_shapes(roots.shape, functions.shape), ELEMENT)
        elements[...] = roots
        elements["function"] = functions
        constant = self.functions.is_constant[functions] & (functions >= 0)
        if constant.any():
            for field in ("lo", "hi", "kind"):
                elements[field][np.broadcast_to(constant, elements.shape)] = 0
        return elements

    def of_roots(self, roots: Elements, functions: Numbers) -> Elements:
        """Return functions of the roots of elements, as `of_functions`, in their only form for sets."""
        return self._sets.distributed(self.of_functions(roots, functions))

    def apply(self, elements: Elements, functions: int | Numbers) -> Elements:
        """Return functions of bytes, by their numbers, applied to elements."""
        require_defined(elements)
        outer = np.asarray(functions, np.int32)
        return self.of_roots(elements, self.functions.composed(outer, elements["function"]))

    def maximum(self, stack: Elements) -> Elements:
        """Return the greatest along the first axis of elements[m, ...]."""
        require_defined(stack)
        return self._sets.maximum(stack)

    def minimum(self, stack: Elements) -> Elements:
        """Return the least along the first axis of elements[m, ...]."""
        inverse = self.functions.number(~BYTES)
        return self.apply(self.maximum(self.apply(stack, inverse)), inverse)

    def values(self, elements: Elements) -> Sums:
        """Return elements as sums of one term."""
        flat = np.ascontiguousarray(elements).reshape(-1)
        reach, offset = self.reach_and_offset(flat)
        residues = np.empty((RESIDUES, flat.size))
        evaluate(flat, self._keys, self._coefficients_of_functions(), *_scratch(), residues)
        shaped = residues.reshape(RESIDUES, *elements.shape)
        return Sums(shaped, elements, reach, offset, magnitude=REDUCED)

    def reach_and_offset(self, elements: Elements) -> tuple[int, int]:
        """Return the bounds of elements as sums of one term: reach and offset of `Sums`.

        Raises:
            ProofError: an element is undefined.
        """
        flat, bounds = np.ascontiguousarray(elements).reshape(-1), np.empty(2, np.int64)
        look_at_functions(flat, self.functions.least, self.functions.greatest, bounds)
        if bounds[0] < 0:
            raise undefined_error()
        return int(bounds[0]), int(bounds[1])

    def _coefficients_of_functions(self) -> NDArray[np.int64]:
        """Return int64[functions, RESIDUES, 3]: the value for the byte 0, and what both residues of a root
        are multiplied by."""
        with self._numbering:
            first = len(self._coefficients)
            if first < self.functions.count:
                new = self.functions.values[first:]
                rows = np.stack(
                    [coefficients(new, *pair) for pair in zip(self._matrices, PRIMES, strict=True)], 1
                )
                self._coefficients = np.concatenate((self._coefficients, rows))
            return self._coefficients

    def add(self, left: Sums, right: Sums) -> Sums:
        """Return sums that broadcast together, added."""
        left, right = (within(sums, LARGEST_MAGNITUDE // 2) for sums in of_one_rank(left, right))
        return Sums(
            left.residues + right.residues,
            self.sources("sum", np.add, left, right),
            left.reach + right.reach,
            left.offset + right.offset,
            max(left.degree, right.degree),
            left.magnitude + right.magnitude,
        )

    def scale(self, sums: Sums, factors: np.ndarray) -> Sums:
        """Return sums times integers int[...] below 2**23 in magnitude, which broadcast together."""
        numbers = np.asarray(factors, np.int64)
        largest = int(np.abs(numbers).max(initial=1))
        sums = within(sums, LARGEST_MAGNITUDE // largest)
        return Sums(
            sums.residues * numbers.astype(np.float64),
            self._scaled_source(sums.source, numbers),
            sums.reach * largest,
            sums.offset * largest,
            sums.degree,
            sums.magnitude * largest,
        )

    def add_scaled(self, left: Sums, right: Sums, factors: Sequence[np.ndarray]) -> Sums:
        """Return left * factors[0] + right * factors[1], of sums and integers as `scale` takes them."""
        if left.source is not None and right.source is not None:
            shared = roots_agree(left.source, right.source)
            if not shared.any():  # as almost always: then no functions of one root are computed
                left, right = replace(left, source=None), replace(right, source=None)
        return self.add(self.scale(left, factors[0]), self.scale(right, factors[1]))

    def multiply(self, left: Sums, right: Sums) -> Sums:
        """Return the products of sums that broadcast together.

        Raises:
            ProofError: the degree of the products exceeds `LARGEST_DEGREE`.
        """
        left, right = (within(sums, 2 * REDUCED) for sums in of_one_rank(left, right))
        products = left.residues.astype(np.int64) * right.residues.astype(np.int64)
        residues = products % along(products.ndim).astype(np.int64)
        return Sums(
            residues.astype(np.float64),
            self.sources("product", np.multiply, left, right),
            product_reach(left, right),
            left.offset * right.offset,
            product_degree(left, right),
            2 * REDUCED,
        )

    def _scaled_source(self, source: Elements | None, factors: NDArray[np.int64]) -> Elements | None:
        """Return the sources of sums that are multiplied by integers."""
        if source is None:
            return None
        known = source["function"]
        single = np.broadcast_to(known != SEVERAL, np.broadcast_shapes(known.shape, factors.shape))
        scaled = self.functions.of_pairs(
            "product", np.multiply, np.maximum(known, 0), self.functions.constants(factors)
        )
        return self.of_functions(source, np.where(single, scaled, SEVERAL).astype(np.int32))

    def sources(self, name: str, rule: Rule, left: Sums, right: Sums) -> Elements | None:
        """Return the sources of sums that a rule makes of two; None if all have several roots.

        Args:
            name: of the rule; equal names are equal rules.
            rule: returns int64[256] for the values of two functions of the same root.
        """
        if left.source is None or right.source is None:
            return None
        left_source, right_source = np.broadcast_arrays(left.source, right.source)
        single = roots_agree(left_source, right_source)
        single &= (left_source["function"] != SEVERAL) & (right_source["function"] != SEVERAL)
        if not single.any():
            return None
        constant = left_source["kind"] == NO_ROOT
        functions = np.full(left_source.shape, SEVERAL, np.int32)
        functions[single] = self.functions.of_pairs(
            name, rule, left_source["function"][single], right_source["function"][single]
        )
        return self.of_functions(np.where(constant, right_source, left_source), functions)

    def requantise(self, sums: Sums, parameters: np.ndarray, bits: int = 32) -> Elements:
        """Return sums requantised (`vdla.hw.spec.numerics.requantise`), elements[...].

        Args:
            parameters: int[4, ...] that broadcasts against the sums.
            bits: of the accumulator, in which the sum and the bias wrap; `EXACT` if they do not.

        Raises:
            ProofError: coefficients of the sums could exceed the primes.
        """
        words = np.asarray(parameters, np.int64)
        columns = self.columns(words.reshape(4, -1), bits)
        aligned = columns.reshape(4, *[1] * (len(sums.shape) - words.ndim + 1), *words.shape[1:])
        return self.requantised(sums, aligned)

    def columns(self, parameters: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
        """Return what the parameters int64[4, n] of a requantisation are to sums of `bits` bits, int64[4, n];
        see `Requantisations.columns`."""
        return self._requantisations.columns(parameters, bits)

    def requantised(self, sums: Sums, columns: NDArray[np.int64]) -> Elements:
        """Return sums requantised, elements[...], by `columns` int64[4, ...] of the same rank, which
        broadcast against them.

        Raises:
            ProofError: coefficients of the sums could exceed the primes.
        """
        compact, shape = as_channels(columns, sums.shape)
        out = np.empty(shape, ELEMENT)
        residues = np.ascontiguousarray(sums.residues).reshape(RESIDUES, *shape)
        self._named.add(sums, compact[2], shape[0] * shape[2])
        name_sums(residues, compact, out)
        if sums.source is None:  # then every root is of a requantisation, and no set
            return out.reshape(sums.shape)
        numbers = np.broadcast_to(compact[0][:, None], shape)
        self._of_one_root(sums.source.reshape(shape), numbers, out)
        return self._sets.distributed(out.reshape(sums.shape))

    def sums_as_roots(self, sums: Sums) -> Elements:
        """Return sums as elements of the same shape, each its own root, which its residues name. Only
        `maximum` and `requantised_greatest` take such elements, since a sum is no byte."""
        bounds = sums.reach, sums.offset, sums.degree
        self._named_bounds = (
            max(bounds[0], self._named_bounds[0]),
            max(bounds[1], self._named_bounds[1]),
            max(bounds[2], self._named_bounds[2]),
        )
        elements = self._as_roots(sums, SUM)
        if sums.source is not None:
            single = sums.source["function"] != SEVERAL
            for element, source in zip(elements[single], sums.source[single], strict=True):
                self._single[int(element["lo"]), int(element["hi"])] = source.copy()
        return elements

    def multisets(self, rows: Elements) -> Elements:
        """Return rows of bytes, elements[n, m], as elements[n], each its own root. Rows that hold each byte
        equally often have the same root.

        Raises:
            ProofError: an element is undefined.
        """
        self._used.add(Axiom.ORDER_OF_ROW)
        return self._as_roots(self._multisets.sums(rows), ROW)

    def _as_roots(self, sums: Sums, *what: str) -> Elements:
        """Return sums as elements of the same shape, each its own root of a kind, which its residues name."""
        out = np.empty((1, 1, prod(sums.shape)), ELEMENT)
        column = np.array([[0], [0], [self.kind(*what)], [IDENTITY]])
        residues = np.ascontiguousarray(sums.residues).reshape(RESIDUES, *out.shape)
        self._named.add(sums, column[2], out.size)
        name_sums(residues, column, out)
        return out.reshape(sums.shape)

    def requantised_greatest(self, greatest: Elements, columns: NDArray[np.int64]) -> Elements:
        """Return the greatest of sums requantised, elements[...]; the arguments are as in `requantised`.

        The greatest requantised sum is the requantisation of the greatest sum (`Axiom.GREATEST_OF_SUMS`). The
        condition of the axiom is checked here, with the bounds of all sums that have been named.

        Args:
            greatest: sets of elements of `sums_as_roots`.

        Raises:
            ProofError: a sum plus its bias may wrap, so its requantisation may decrease.
        """
        reach, offset, degree = self._named_bounds
        largest = reach + offset + int(np.abs(columns[1]).max(initial=0))
        if largest >= self._requantisations.wraps_at(columns[0]):
            raise ProofError(
                f"a proof does not cover the greatest of sums that may wrap: with biases, up to {largest:,}"
            )
        self._used.add(Axiom.GREATEST_OF_SUMS)
        members = self._sets.members(greatest)
        results = [
            self.requantised(
                Sums(residues_of(member), self._sources_of(member), reach, offset, degree), columns
            )
            for member in members
        ]
        return self.maximum(np.stack(results))

    def _sources_of(self, members: Elements) -> Elements | None:
        """Return the sources of sums that `sums_as_roots` named; None if all have several roots."""
        names = zip(members["lo"].reshape(-1).tolist(), members["hi"].reshape(-1).tolist(), strict=True)
        known = [self._single.get(name) for name in names] if self._single else []
        if not any(source is not None for source in known):
            return None
        sources = undefined(members.shape)
        sources["function"] = SEVERAL
        flat = sources.reshape(-1)
        for place, source in enumerate(known):
            if source is not None:
                flat[place] = source
        return sources

    def _of_one_root(self, source: Elements, numbers: NDArray[np.int64], out: Elements) -> None:
        """Write requantised functions of one root into elements[...]."""
        single = source["function"] != SEVERAL
        functions = self.functions.of_number_pairs(
            "requantised",
            lambda number, function: self._requantisations.result(number, self.functions.values[function]),
            numbers[single],
            source["function"][single],
        )
        out[single] = self.of_functions(source[single], functions)

    def mapped(self, name: str, rule: Callable[[np.ndarray], np.ndarray], sums: Sums) -> Sums:
        """Return a function of sums that is no polynomial, as sums.

        It is computed of sums of at most one root. Of others it is an unknown function, whose results are new
        roots.

        Args:
            name: of the function; equal names are equal functions.
            rule: returns int64[256] for the values int64[256] of a function of a root.
        """
        results = self._mapped(name, rule, sums)
        several = np.ones(sums.shape, bool) if sums.source is None else sums.source["function"] == SEVERAL
        source = results.copy()
        source["function"][several] = SEVERAL
        return replace(self.values(results), source=source)

    def narrowed(self, sums: Sums) -> Elements:
        """Return the low eight bits of sums, signed, as elements."""
        narrowed = self._mapped("narrowed", lambda values: (values + ZERO) % len(BYTES) - ZERO, sums)
        return self._sets.distributed(narrowed)

    def _mapped(self, name: str, rule: Callable[[np.ndarray], np.ndarray], sums: Sums) -> Elements:
        flat = self._as_roots(sums, "mapped", name).reshape(-1)
        if sums.source is not None:
            source = sums.source.reshape(-1)
            single = source["function"] != SEVERAL
            functions = self.functions.of_pairs(
                f"mapped {name}",
                lambda values, _: rule(values),
                source["function"][single],
                np.zeros(1, np.int32),
            )
            flat[single] = self.of_functions(source[single], functions)
        return flat.reshape(sums.shape)

    def add_residual(self, values: Elements, residuals: Sums, parameters: np.ndarray) -> Elements:
        """Return bytes with residuals added (`vdla.hw.spec.numerics.add_residual`), elements[...].

        Args:
            residuals: bytes as sums of one term.
            parameters: int[4, ...] that broadcasts against the elements.
        """
        words = np.asarray(parameters, np.int64)
        addend, factor, other, *_ = residual_operands(tuple(words))
        total = self.add_scaled(self.values(values), residuals, (factor, other))
        largest = total.reach + total.offset + int(np.abs(addend).max(initial=0))
        fits = largest < 1 << SUM_BITS - 1
        if fits:
            self._used.add(Axiom.RESIDUAL_AS_SUM)
        rest = words[2:]
        return self.requantise(
            total, np.stack((words[0], np.ones_like(words[1]), *rest)), SUM_BITS if fits else EXACT
        )

    @property
    def axioms(self) -> tuple[Axiom, ...]:
        """The axioms that were used, in the order of their table."""
        return tuple(axiom for axiom in Axiom if axiom in self._used)

    @property
    def failure_probability(self) -> float:
        """A bound on the probability that two different functions have been given the same name.

        Every pair of different sums of a kind counts (`NamedSums`), and every pair of sets. Names of
        sets have 128 pseudo-random bits.
        """
        return self._named.failure_probability + self._sets.count**2 / 2 * 2.0**-128


def _scratch() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return what `evaluate` overwrites."""
    return np.zeros((WORDS_OF_ROOT, TOGETHER), np.uint64), np.zeros((RESIDUES, TOGETHER), np.uint64)
