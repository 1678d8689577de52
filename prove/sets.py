"""The greatest of several elements, in a unique form.

The greatest of functions T_i of distinct roots r_i is at least L, the greatest of the T_i's least values. So
each T_i may be replaced by max(T_i, L), and what is then constant left out. The functions that remain follow
from the result: max(T_i(r_i), L) is the result where every other root takes a value at which its function is
at most L. Therefore two sets of functions of distinct roots have the same greatest only if their forms are
equal.

A set takes values of a range: from L to the greatest of the T_i's greatest values. It is written as its root,
clipped to the range. Functions that differ outside the range only are therefore equal functions of the set.

A function that never decreases, applied to a set, gives the set of the function's results. This set may first
appear in such a way, as a function of another set, its *origin*. It is then written as that function of the
origin wherever it appears, which is its *form*. So sums of several functions of a set are functions of it. A
set that first appears by itself is its own form. Every set has one form within a proof.
"""

from collections.abc import Callable
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from vdla.prove.axioms import Axiom
from vdla.prove.elements import ELEMENT, Elements, undefined
from vdla.prove.functions import BYTES, IDENTITY, Functions, Numbers
from vdla.prove.kernels import MEMBER_BITS as HALF
from vdla.prove.kernels import NO_MEMBER as NONE
from vdla.prove.kernels import enter_roots, look_at_members, name_rows, number_roots

MOST_NUMBERED = 1 << 18
"""Elements for which there is room at a time: they may all have new roots, and most have known roots."""
Codes = NDArray[np.int64]
"""Members: the number of the root times 2**32, plus the number of the function."""


class Roots:
    """Roots, numbered in order of appearance. No root is number 0."""

    def __init__(self) -> None:
        self._table = np.full(1 << 10, -1, np.int32)
        self._roots = np.zeros(1 << 10, ELEMENT)
        self._count = np.zeros(1, np.int64)
        self.numbers(np.zeros(1, ELEMENT))

    @property
    def count(self) -> int:
        """How many roots there are."""
        return int(self._count[0])

    def numbers(self, elements: Elements) -> Codes:
        """Return the numbers of the roots of elements[...], int64[...]."""
        flat = np.ascontiguousarray(elements).reshape(-1)
        out = np.empty(flat.size, np.int64)
        for first in range(0, flat.size, MOST_NUMBERED):
            part = slice(first, first + MOST_NUMBERED)
            self._make_room(self.count + len(flat[part]))
            number_roots(flat[part], self._table, self._roots, self._count, out[part])
        return out.reshape(elements.shape)

    def _make_room(self, most: int) -> None:
        """Make room for so many roots. The table and the roots grow by more than is needed, since all roots
        move."""
        count = self.count
        if most > len(self._roots):
            known, self._roots = self._roots[:count], np.zeros(2 * most, ELEMENT)
            self._roots[:count] = known
        if 2 * most > len(self._table):
            self._table = np.full(2 << most.bit_length(), -1, np.int32)
            enter_roots(self._roots[:count], self._table)

    def codes(self, elements: Elements) -> Codes:
        """Return elements[...] as members."""
        codes: Codes = self.numbers(elements) << HALF | elements["function"]
        return codes

    def are_of(self, codes: Codes, kind: int) -> NDArray[np.bool_]:
        """Return whether members have roots of a kind, bool[...]. `NONE` has no root."""
        has_kind: NDArray[np.bool_] = self._roots["kind"][np.where(codes == NONE, 0, codes >> HALF)] == kind
        return has_kind

    def elements(self, codes: Codes) -> Elements:
        """Return members by their codes, elements[...]."""
        elements: Elements = self._roots[codes >> HALF]
        elements["function"] = codes & (1 << HALF) - 1
        return elements


class Sets:
    """The sets of a proof. Threads may use them at the same time: a lock admits one thread at a time.

    Args:
        functions: the functions of the proof.
        keys: uint64[2], secret.
        kind: number of the kind of their roots.
        use: is told of each axiom that is used.
    """

    def __init__(
        self, functions: Functions, keys: NDArray[np.uint64], kind: int, use: Callable[[Axiom], None]
    ) -> None:
        self._functions, self._keys, self._kind, self._use = functions, keys, kind, use
        self._naming = RLock()  # a set may be named while another is
        self._roots = Roots()
        self._blocks: list[Codes] = []  # sets that were named together, codes[n, m] each
        self._places = np.zeros((0, 2), np.int64)  # of a set, by the number of its root: block and row
        self._ranges = np.zeros(0, np.int32)  # functions that clip roots to the ranges of their sets
        self._origins = np.zeros(0, ELEMENT)  # forms, by the number of the root; of no kind without an origin
        self._has_functions = False  # whether functions of sets have been members of sets
        self.count = 0
        self._inverse = functions.number(~BYTES)

    def maximum(self, stack: Elements) -> Elements:
        """Return the greatest along the first axis of elements[m, ...]."""
        self._use(Axiom.GREATEST_OF_SET)
        flat = stack.reshape(len(stack), -1)
        with self._naming:
            members = np.ascontiguousarray(self._roots.codes(flat).T)
            codes = self._expanded(members, (flat["kind"] == self._kind).T)
            return self._in_forms(self._named(codes)).reshape(stack.shape[1:])

    def named_by(self, rows: Elements, kind: int) -> Elements:
        """Return roots of a kind, elements[n], which rows of elements[n, m] name."""
        words = np.ascontiguousarray(rows).view(np.uint64).reshape(len(rows), -1)
        with self._naming:
            return self._hashed(words, np.full(len(rows), words.shape[1], np.int64), kind)

    def _hashed(self, words: NDArray[np.uint64], counts: NDArray[np.int64], kind: int) -> Elements:
        result = undefined((len(words),))
        name_rows(words, counts, self._keys, kind, result)
        self.count += len(words)
        return result

    def members(self, elements: Elements) -> Elements:
        """Return the members of sets elements[...] as elements[m, ...]; a set with fewer repeats its first
        member. An element that is no set is its only member."""
        rows = np.ascontiguousarray(elements.reshape(-1, 1))
        with self._naming:
            codes = self._expanded(self._roots.codes(rows), rows["kind"] == self._kind)
            codes = np.where(codes == NONE, codes[:, :1], codes)
            return self._roots.elements(np.ascontiguousarray(codes.T)).reshape(-1, *elements.shape)

    def distributed(self, elements: Elements) -> Elements:
        """Return elements in their only form: monotone functions of sets are applied to the members, and the
        sets of the results are written in their forms."""
        chosen = (elements["kind"] == self._kind) & (elements["function"] != IDENTITY)
        if not chosen.any():
            return elements
        with self._naming:
            return self._distributed(elements, np.flatnonzero(chosen))

    def _distributed(self, elements: Elements, places: NDArray[np.int64]) -> Elements:
        """Return elements in their only form; the elements at `places`, int64[n], are functions of sets."""
        result = elements.reshape(-1).copy()
        places = places[~self._are_sets(result[places])]
        directions = self._directions(result["function"][places])
        for direction in (1, -1):
            at = places[directions == direction]
            if at.size:
                result[at] = self._moved_inside(result[at], direction)
        return result.reshape(elements.shape)

    def _directions(self, functions: Numbers) -> NDArray[np.int64]:
        """Return 1 for functions that never decrease, else -1 for functions that never increase, else 0."""
        constants = self._functions.of_pairs("direction", _direction, functions, np.zeros(1, np.int32))
        return self._functions.least[constants]

    def _moved_inside(self, elements: Elements, direction: int) -> Elements:
        """Return elements[n], functions of sets that never decrease (`direction` 1), or whose inverses never
        do (-1)."""
        if direction < 0 and (elements["function"] == self._inverse).all():
            return elements
        self._use(Axiom.MONOTONE_OF_GREATEST)
        origins, known = elements.copy(), self._roots.count
        origins["function"] = self._turned(elements["function"], direction)
        named = self._named(self._members_of(self._roots.codes(origins)))
        self._note_origins(named, origins, known)
        result = self._in_forms(named)
        result["function"] = self._turned(result["function"], direction)
        return result

    def _note_origins(self, named: Elements, origins: Elements, known: int) -> None:
        """Note that new sets among elements[n] are functions of sets, origins[n].

        Args:
            known: number of roots before; a set with a lower number has a form.
        """
        numbers = self._roots.numbers(named)
        new = self._are_sets(named) & (numbers >= known)
        if new.any():
            missing = max(0, 2 * int(numbers[new].max()) - len(self._origins))
            self._origins = np.concatenate((self._origins, np.zeros(missing, ELEMENT)))
            self._origins[numbers[new]] = origins[new]

    def _in_forms(self, elements: Elements) -> Elements:
        """Return elements[n] with sets in their forms."""
        if not len(self._origins):
            return elements
        places = np.flatnonzero(self._are_sets(elements))
        numbers = self._roots.numbers(elements[places])
        inside = numbers < len(self._origins)
        places, origins = places[inside], self._origins[numbers[inside]]
        has_origin = origins["kind"] == self._kind
        elements[places[has_origin]] = origins[has_origin]
        return elements

    def _are_sets(self, elements: Elements) -> NDArray[np.bool_]:
        """Return whether elements[n] are sets, bool[n]; functions of sets are not."""
        is_set: NDArray[np.bool_] = elements["kind"] == self._kind
        if is_set.any():
            sets = elements[is_set]
            is_set[is_set] = sets["function"] == self._ranges[self._roots.numbers(sets)]
        return is_set

    def _turned(self, functions: Numbers, direction: int) -> Numbers:
        """Return functions, or, where the direction is -1, their inverses: ~f(x)."""
        if direction > 0:
            return functions
        return self._functions.of_pairs("inverse", lambda values, _: ~values, functions, functions[:1])

    def _members(self, numbers: NDArray[np.int64]) -> Codes:
        """Return the members of sets, by the numbers of their roots int64[n], as codes[n, m]."""
        places = self._places[numbers]
        blocks = np.unique(places[:, 0]).tolist()
        codes = np.full((len(numbers), max(self._blocks[block].shape[1] for block in blocks)), NONE)
        for block in blocks:
            at = np.flatnonzero(places[:, 0] == block)
            members = self._blocks[block][places[at, 1]]
            codes[at, : members.shape[1]] = members
        return codes

    def _members_of(self, sets: Codes) -> Codes:
        """Return the members of functions of sets, which never decrease, int64[n], as codes[n, m]."""
        numbers, outer = sets >> HALF, _functions_of(sets)
        codes = self._members(numbers)
        outer[outer == self._ranges[numbers]] = IDENTITY
        if not outer.any():  # IDENTITY is 0
            return codes
        defined = codes != NONE
        inner = np.where(defined, _functions_of(codes), IDENTITY)
        functions = self._functions.composed(outer[:, None], inner)
        return np.where(defined, codes >> HALF << HALF | functions, NONE)

    def _expanded(self, codes: Codes, of_sets: NDArray[np.bool_]) -> Codes:
        """Return codes[n, m] with members in place of functions of sets that never decrease.

        Args:
            of_sets: bool[n, m], which are functions of sets.
        """
        if not of_sets.any():
            return codes
        rising = of_sets.copy()
        rising[of_sets] = self._directions(_functions_of(codes[of_sets])) == 1
        self._has_functions |= bool((rising != of_sets).any())
        columns = []
        for column, chosen in zip(codes.T, rising.T, strict=True):
            expanded = column[:, None]
            if chosen.any():
                members = self._members_of(column[chosen])
                expanded = np.full((len(column), members.shape[1]), NONE)
                expanded[:, 0] = column
                expanded[chosen] = members
            columns.append(expanded)
        return np.concatenate(columns, 1)

    def _named(self, codes: Codes) -> Elements:
        """Return the greatest, elements[n], of each row of expanded codes[n, m]. Sets are not in their forms
        yet."""
        codes = np.sort(codes, axis=1)
        counts, ends, irregular = self._looked_at(codes)
        if irregular.any():
            rows = codes[irregular]
            may_have_new = self._joined(rows) and self._has_functions and self._has_new_forms(rows)
            rows.sort(axis=1)
            codes[irregular] = rows
            if may_have_new:
                return self._named(self._expanded(codes, self._roots.are_of(codes, self._kind)))
            counts[irregular], ends[:, irregular], _ = self._looked_at(rows)
        several = counts > 1
        result = undefined((len(codes),))
        result[~several] = self._roots.elements(codes[~several, 0])
        if several.any():
            members = codes[several, : int(counts.max())]
            result[several] = self._several(members, counts[several], ends[:, several])
        return result

    def _looked_at(self, codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return of sorted rows of codes[n, m] what `look_at_members` writes: counts, lows with highs, and
        which are irregular."""
        counts, irregular = np.empty(len(codes), np.int64), np.empty(len(codes), bool)
        ends, known = np.empty((2, len(codes)), np.int64), self._functions
        look_at_members(codes, known.least, known.greatest, counts, ends[0], ends[1], irregular)
        return counts, ends, irregular

    def _joined(self, codes: Codes) -> bool:
        """Join and clip the members of each sorted row, leave out constants and what is repeated; return
        whether a row has other members then."""
        repeated = codes[:, 1:] == codes[:, :-1]
        codes[:, 1:][repeated] = NONE
        if repeated.any():
            codes.sort(axis=1)
        return self._merge(codes) | self._raise(codes)

    def _has_new_forms(self, codes: Codes) -> bool:
        """Put functions of sets in codes[n, m], which may be new, in their forms; return whether there are
        members to expand or to join."""
        of_sets = self._roots.are_of(codes, self._kind)
        if not of_sets.any():
            return False
        before = codes[of_sets]
        codes[of_sets] = self._roots.codes(self.distributed(self._roots.elements(before)))
        return bool((codes[of_sets] != before).any() or (self._directions(_functions_of(before)) == 1).any())

    def _several(self, codes: Codes, counts: NDArray[np.int64], ends: NDArray[np.int64]) -> Elements:
        """Return sets, elements[n], of the members codes[n, m], of which the first `counts` are defined; the
        sets' least and greatest values are `ends`, int64[2, n]."""
        result = self._hashed(codes.view(np.uint64), counts, self._kind)
        numbers = self._roots.numbers(result)
        missing = 2 * int(numbers.max()) - len(self._places)
        if numbers.max() >= len(self._places):
            self._places = np.concatenate((self._places, np.zeros((missing, 2), np.int64)))
            self._ranges = np.concatenate((self._ranges, np.zeros(missing, np.int32)))
        self._places[numbers] = np.stack(
            (np.full(len(numbers), len(self._blocks)), np.arange(len(numbers))), 1
        )
        self._blocks.append(codes)
        self._ranges[numbers] = result["function"] = self._ranges_of(*ends)
        return result

    def _ranges_of(self, least: NDArray[np.int64], greatest: NDArray[np.int64]) -> Numbers:
        """Return functions int32[n] that clip bytes to ranges of sets: identities for sets that are no
        bytes."""
        wide = (least < BYTES[0]) | (greatest > BYTES[-1])
        ends = np.where(wide, BYTES[0], least), np.where(wide, BYTES[-1], greatest)
        return self._functions.of_number_pairs("range", lambda *each: np.clip(BYTES, *each), *ends)

    def _merge(self, codes: Codes) -> bool:
        """Join functions of the same root in sorted rows; return whether there were any."""
        same = (codes[:, 1:] >> HALF == codes[:, :-1] >> HALF) & (codes[:, 1:] != NONE)
        for place in np.flatnonzero(same.any(0))[::-1]:
            rows = np.flatnonzero(same[:, place])
            left, right = (codes[rows, at] for at in (place, place + 1))
            functions = self._functions.of_pairs("maximum", np.maximum, *map(_functions_of, (left, right)))
            codes[rows, place] = left >> HALF << HALF | functions
            codes[rows, place + 1] = NONE
        return bool(same.any())

    def _raise(self, codes: Codes) -> bool:
        """Clip each row's functions from below, and leave out constants; return whether a row changed."""
        defined = codes != NONE
        functions = np.where(defined, codes & (1 << HALF) - 1, IDENTITY)
        least = np.where(defined, self._functions.least[functions], np.iinfo(np.int64).min)
        bound = least.max(1, keepdims=True)
        low = defined & (least < bound)
        if low.any():
            bounds = np.broadcast_to(bound, low.shape)[low]
            functions[low] = self._functions.of_number_pairs("raised", self._raised, functions[low], bounds)
            codes[low] = codes[low] >> HALF << HALF | functions[low]
        constant = defined & self._functions.is_constant[functions]
        if not constant.any():
            return bool(low.any())
        only = (constant == defined).all(1)
        codes[constant] = NONE
        codes[only, 0] = self._functions.constants(bound[only, 0])
        return True

    def _raised(self, function: int, limit: int) -> np.ndarray:
        values: np.ndarray = np.maximum(self._functions.values[function], limit)
        return values


def _functions_of(codes: Codes) -> Numbers:
    return (codes & (1 << HALF) - 1).astype(np.int32)


def _direction(values: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Return 1 for a function that never decreases, else -1 if it never increases, else 0."""
    steps = np.diff(values)
    return np.full_like(values, 1 if (steps >= 0).all() else -1 if (steps <= 0).all() else 0)
