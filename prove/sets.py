"""The greatest of several elements, in a unique form.

The greatest of functions T_i of distinct roots r_i is at least L, the greatest of the T_i's least values. So
each T_i may be replaced by max(T_i, L), and what is then constant left out. The functions that remain follow
from the result: max(T_i(r_i), L) is the result where every other root takes a value at which its function is
at most L. Therefore two sets of functions of distinct roots have the same greatest only if their forms are
equal.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.prove.axioms import Axiom
from vdla.prove.elements import UNDEFINED, Elements, undefined
from vdla.prove.functions import BYTES, IDENTITY, Functions
from vdla.prove.kernels import name_sets, sort_sets


@dataclass(frozen=True, slots=True)
class _Block:
    """Sets that were named together: uint64[n] `lo`, sorted, uint64[n] `hi`, and members elements[n, m]."""

    lo: NDArray[np.uint64]
    hi: NDArray[np.uint64]
    members: Elements


class Sets:
    """The sets of a proof.

    Args:
        functions: the functions of the proof.
        keys: uint64[2], secret.
        kind: number of the kind of their roots.
        use: is told of each axiom that is used.
    """

    def __init__(
        self,
        functions: Functions,
        keys: NDArray[np.uint64],
        kind: int,
        use: Callable[[Axiom], None],
    ) -> None:
        self._functions, self._keys, self._kind, self._use = functions, keys, kind, use
        self._blocks: list[_Block] = []
        self.count = 0
        self._inverse = functions.number(~BYTES)

    def maximum(self, stack: Elements) -> Elements:
        """Return the greatest along the first axis of elements[m, ...]."""
        self._use(Axiom.GREATEST_OF_SET)
        rows = np.ascontiguousarray(stack.reshape(len(stack), -1).T)
        return self._named(self._expanded(rows)).reshape(stack.shape[1:])

    def named_by(self, rows: Elements, kind: int) -> Elements:
        """Return roots of a kind, elements[n], which rows of elements[n, m] name."""
        result = undefined((len(rows),))
        counts = np.full(len(rows), rows.shape[1], np.int64)
        name_sets(np.ascontiguousarray(rows), counts, self._keys, kind, result)
        self.count += len(rows)
        return result

    def distributed(self, elements: Elements) -> Elements:
        """Return elements whose functions of sets are applied to the members, where they are monotone."""
        chosen = (elements["kind"] == self._kind) & (elements["function"] != IDENTITY)
        if not chosen.any():
            return elements
        directions = self._functions.of_pairs(
            "direction", _direction, elements["function"][chosen], np.zeros(1, np.int32)
        )
        result = elements.reshape(-1).copy()
        places = np.flatnonzero(chosen)
        for direction, turned in ((1, IDENTITY), (-1, self._inverse)):
            at = places[directions == self._functions.constants(np.array(direction))]
            if at.size:
                result[at] = self._turned(result[at], turned)
        return result.reshape(elements.shape)

    def _turned(self, elements: Elements, turned: int) -> Elements:
        """Return elements[n], functions of sets that never decrease after the function `turned`."""
        if turned != IDENTITY and (elements["function"] == turned).all():
            return elements
        self._use(Axiom.MONOTONE_OF_GREATEST)
        inner = self._functions.composed(np.array(turned, np.int32), elements["function"])
        members = self._members(elements)
        defined = members["function"] != UNDEFINED
        functions = self._functions.composed(
            inner[:, None], np.where(defined, members["function"], IDENTITY).astype(np.int32)
        )
        members["function"] = np.where(defined, functions, UNDEFINED)
        result = self._named(members)
        result["function"] = self._functions.composed(np.array(turned, np.int32), result["function"])
        return result

    def _members(self, elements: Elements) -> Elements:
        """Return the members elements[n, m] of sets elements[n], undefined behind the last."""
        found: list[tuple[NDArray[np.int64], Elements]] = []
        rest = np.arange(len(elements))
        for block in reversed(self._blocks):
            if not rest.size:
                break
            lo = elements["lo"][rest]
            at = np.minimum(np.searchsorted(block.lo, lo), len(block.lo) - 1)
            known = (block.lo[at] == lo) & (block.hi[at] == elements["hi"][rest])
            found.append((rest[known], block.members[at[known]]))
            rest = rest[~known]
        assert not rest.size, "every set has been named"
        result = undefined((len(elements), max((block.shape[1] for _, block in found), default=0)))
        for places, members in found:
            result[places, : members.shape[1]] = members
        return result

    def _expanded(self, rows: Elements) -> Elements:
        """Return rows of members elements[n, m] with the members of sets in place of the sets."""
        is_set = (rows["kind"] == self._kind) & (rows["function"] == IDENTITY)
        if not is_set.any():
            return rows
        columns = []
        for place in range(rows.shape[1]):
            chosen = is_set[:, place]
            members = self._members(rows[chosen, place])
            column = undefined((len(rows), max(1, members.shape[1])))
            column[:, 0] = rows[:, place]
            column[chosen, : members.shape[1]] = members
            columns.append(column)
        return np.concatenate(columns, 1)

    def _named(self, members: Elements) -> Elements:
        """Return the greatest, elements[n], of each row of members elements[n, m] without sets."""
        counts = np.zeros(len(members), np.int64)
        sort_sets(members, counts)
        if self._merge(members) | self._raise(members):
            sort_sets(members, counts)
        members = np.ascontiguousarray(members[:, : max(1, int(counts.max(initial=0)))])
        result = members[:, 0].copy()
        several = counts > 1
        if several.any():
            result[several] = self._several(members[several], counts[several])
        return result

    def _several(self, members: Elements, counts: NDArray[np.int64]) -> Elements:
        result = undefined((len(members),))
        name_sets(members, counts, self._keys, self._kind, result)
        order = np.argsort(result["lo"])
        sorted_ = result[order]
        self._blocks.append(_Block(sorted_["lo"].copy(), sorted_["hi"].copy(), members[order]))
        self.count += len(result)
        return result

    def _merge(self, members: Elements) -> bool:
        """Join functions of the same root in sorted rows; return whether there were any."""
        changed = False
        for place in range(members.shape[1] - 1, 0, -1):
            one, other = members[:, place - 1], members[:, place]
            same = other["function"] != UNDEFINED
            for field in ("lo", "hi", "kind"):
                same &= one[field] == other[field]
            if same.any():
                changed = True
                one["function"][same] = self._functions.of_pairs(
                    "maximum", np.maximum, one["function"][same], other["function"][same]
                )
                other["function"][same] = UNDEFINED
        return changed

    def _raise(self, members: Elements) -> bool:
        """Clip each row's functions from below, and leave out constants; return whether a row changed."""
        functions = members["function"]
        defined = functions != UNDEFINED
        least = np.where(defined, self._functions.least[functions], np.iinfo(np.int64).min)
        bound = least.max(1, keepdims=True)
        low = defined & (least < bound)
        if low.any():
            bounds = np.broadcast_to(bound, low.shape)[low]
            functions[low] = self._functions.of_number_pairs(
                "raised",
                lambda number, limit: np.maximum(self._functions.values[number], limit),
                functions[low],
                bounds,
            )
        constant = defined & self._functions.is_constant[functions]
        if not constant.any():
            return False
        self._drop(members, constant, bound)
        return True

    def _drop(self, members: Elements, constant: np.ndarray, bound: np.ndarray) -> None:
        """Leave out constant members, but for one of rows that have no other."""
        defined = members["function"] != UNDEFINED
        only = (constant == defined).all(1)
        members["function"][constant] = UNDEFINED
        for field in ("lo", "hi", "kind"):
            members[field][only, 0] = 0
        members["function"][only, 0] = self._functions.constants(bound[only, 0])


def _direction(values: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Return 1 for a function that never decreases, else -1 if it never increases, else 0."""
    steps = np.diff(values)
    return np.full_like(values, 1 if (steps >= 0).all() else -1 if (steps <= 0).all() else 0)
