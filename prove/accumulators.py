"""Accumulators of the stream machine: words that are constants, elements of one root, or sums of several."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vdla.prove.domain import Domain
from vdla.prove.elements import (
    ELEMENT,
    LARGEST_MAGNITUDE,
    REDUCED,
    RESIDUES,
    SEVERAL,
    Elements,
    Floats,
    Sums,
    reduced,
    undefined,
    within,
)
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES
from vdla.prove.memory import Indices, Places
from vdla.prove.stream_kernels import add_rows, put_rows

WORDS, ELEMENTS, ALL_SEVERAL, PENDING, GREATEST = range(5)
"""What is known of the lanes of an accumulator: they are the constants of `words`; `elements` tells; every
lane is a sum of several roots; they are the greatest or the least of members that are still collected; they
are the greatest of sums, of which `elements` holds `Domain.sums_as_roots`."""


OFFSET, DEGREE, MAGNITUDE = 1, 2, 3
"""Rows of the bounds of accumulators; row 0 is the reach."""
Extreme = Callable[[Elements], Elements]


class Accumulators:
    """The accumulators: sums[depth, lanes]. At first, they are zero. Residues are reduced only where they
    could exceed `LARGEST_MAGNITUDE`.

    Attributes:
        words: int64[depth, lanes], the values of accumulators of constants.
        state: uint8[depth], what is known of each: WORDS, ELEMENTS, ALL_SEVERAL, PENDING or GREATEST.
    """

    def __init__(self, domain: Domain, depth: int, lanes: int) -> None:
        self._domain = domain
        self._every = np.arange(depth)
        self.words = np.zeros((depth, lanes), np.int64)
        self.state = np.zeros(depth, np.uint8)
        self._members: dict[int, tuple[Extreme, list[NDArray[np.uint64]]]] = {}
        self._collected: list[tuple[Indices, list[Elements]]] = []  # places, members of their sets
        self._is_collected = np.zeros(depth, bool)
        self._elements = undefined((depth, lanes))
        self._residues = np.zeros((RESIDUES, depth, lanes))
        self._bounds = np.zeros((4, depth), np.int64)  # reach, offset, degree and magnitude of `Sums`

    def load_words(self, places: Places, words: Indices) -> None:
        """Replace accumulators by constants, int64[n, lanes]."""
        self._settle_greatest(places)
        self.words[places], self.state[places] = words, WORDS
        self._residues[:, places] = words
        self._bounds[:, places] = 0
        self._bounds[OFFSET, places] = self._bounds[MAGNITUDE, places] = np.abs(words).max(1, initial=0)

    @property
    def lanes(self) -> int:
        """Sums of an accumulator."""
        return self.words.shape[1]

    def may_have_one_root(self, places: Places) -> bool:
        """Whether some of the accumulators may be sums of at most one root."""
        state = self.state[places]
        return state.tobytes().count(ALL_SEVERAL) < state.size

    def sums(self, places: Places) -> Sums:
        """Return accumulators as sums[n, lanes]."""
        self._settle(places)
        return self._sums(places, self._residues[:, places])

    def _sums(self, places: Places, residues: Floats) -> Sums:
        bounds = np.maximum.reduce(self._bounds[:, places], axis=1, initial=0).tolist()
        return Sums(residues, self._sources(places), *bounds)

    def of_one_root(self, places: Places, what: str) -> Elements:
        """Return accumulators of at most one root as functions of it, elements[n, lanes]; see
        `require_one_root` for the errors."""
        self._settle(places)
        return require_one_root(self._sources(places), what)

    def taken(self, places: slice) -> Sums:
        """Return a copy of accumulators as sums[n, lanes]."""
        self._settle(places)
        return self._sums(places, self._residues[:, places].copy())

    def _sources(self, places: Places) -> Elements | None:
        state = self.state[places]
        known = state.tobytes()
        if GREATEST in known:
            raise ProofError(
                "a proof covers the greatest of sums of several activations only where MAX or a STORE that "
                "requantises reads it"
            )
        if known.count(ALL_SEVERAL) == len(known):
            return None
        elements = self._elements[places].copy()
        words = state == WORDS
        if words.any():
            elements[words] = self._domain.constants(self.words[places][words])
        elements["function"][state == ALL_SEVERAL] = SEVERAL
        return elements

    def put(self, places: Places, sums: Sums) -> None:
        """Replace accumulators by sums[n, lanes]."""
        self._settle_greatest(places)
        rows, numbers = np.ascontiguousarray(sums.residues), self._numbers(places)
        assert rows.shape == (RESIDUES, len(numbers), self.lanes), "sums are as many as accumulators"
        put_rows(rows, np.array(sums.bounds), numbers, self._residues, self._bounds)
        if sums.source is None:
            self.state[places] = ALL_SEVERAL
        else:
            self.state[places] = ELEMENTS
            self._elements[places] = sums.source

    def add(self, places: Places, sums: Sums) -> None:
        """Add sums[n, lanes] to accumulators."""
        self._settle(places)
        if sums.source is not None or GREATEST in self.state[places].tobytes():
            self.put(places, self._domain.add(self.sums(places), sums))
            return
        if not self._has_added(places, sums):
            self._residues[:, places] = reduced(self._residues[:, places])
            self._bounds[MAGNITUDE, places] = REDUCED
            fits = self._has_added(places, within(sums, LARGEST_MAGNITUDE - REDUCED))
            assert fits, "reduced residues can be added"
        self.state[places] = ALL_SEVERAL

    def _has_added(self, places: Places, sums: Sums) -> bool:
        """Add residues and bounds, unless residues could become too large; return whether they were added."""
        rows, more, fits = np.ascontiguousarray(sums.residues), np.array(sums.bounds), np.empty(1, bool)
        add_rows(rows, more, self._numbers(places), self._residues, self._bounds, fits)
        return bool(fits[0])

    def _numbers(self, places: Places) -> Indices:
        """Return places as indices, int64[n]."""
        return self._every[places] if isinstance(places, slice) else places

    def extreme(self, places: Indices, extreme: Extreme, members: Elements) -> None:
        """Replace accumulators by the greatest, or the least, of themselves and of members.

        The members of one accumulator are collected until it is read, because a set of all is quicker than
        sets of sets.

        Args:
            places: int64[n], distinct.
            extreme: returns the greatest or the least along the first axis.
            members: elements[m, n, lanes], each a function of one root.

        Raises:
            ProofError: an accumulator is a sum of several roots.
        """
        new = [
            number
            for number, (place, state) in enumerate(zip(places.tolist(), self.state[places], strict=True))
            if state != PENDING or self._members[place][0] != extreme
        ]
        current = self.of_one_root(places[new], "the greatest or least") if new else None
        for number, place in enumerate(new):
            assert current is not None
            self._members[int(places[place])] = extreme, [_words_of(current[number])]
        words = _words_of(members)
        for number, place in enumerate(places.tolist()):
            self._members[place][1].extend(words[:, number])
        self.state[places] = PENDING

    def are_sums(self, places: Places) -> bool:
        """Whether some accumulators are the greatest of sums, sums of several roots, or functions of a root
        whose values are no bytes."""
        self._settle(places)
        state = self.state[places]
        if (state == GREATEST).any() or (state == ALL_SEVERAL).any():
            return True
        used = np.unique(self._elements[places][state == ELEMENTS]["function"])
        functions = self._domain.functions
        return bool(
            (used == SEVERAL).any()
            or (functions.least[used] < BYTES[0]).any()
            or (functions.greatest[used] > BYTES[-1]).any()
        )

    def have_greatest(self, places: slice) -> bool:
        """Whether some accumulators are the greatest of sums."""
        return GREATEST in self.state[places].tobytes()

    def as_roots(self, places: Places) -> Elements:
        """Return accumulators as elements[n, lanes] of `Domain.sums_as_roots`, or sets of these."""
        self._settle_greatest(places)
        every = self._numbers(places)
        greatest = self.state[every] == GREATEST
        result = self._elements[every]
        if not greatest.all():
            result[~greatest] = self._domain.sums_as_roots(self.sums(every[~greatest]))
        return result

    def put_greatest(self, places: Indices, sources: Indices) -> None:
        """Replace accumulators by the greatest of themselves and of others, where `are_sums` holds for some.

        The sets are computed together, before the first of these accumulators is read or replaced.

        Args:
            places: int64[n], distinct.
            sources: int64[m, n].
        """
        members = [self.as_roots(each) for each in sources]
        if self._collected and np.array_equal(self._collected[-1][0], places):
            self._collected[-1][1].extend(members)
            return
        current = self.as_roots(places)
        self._collected.append((places, [current, *members]))
        self._is_collected[places] = True
        self.state[places] = GREATEST

    def _settle_greatest(self, places: Places) -> None:
        """Compute all sets of sums whose members are collected, if any of the accumulators is such a set."""
        if not self._collected or not self._is_collected[places].any():
            return
        collected, self._collected = self._collected, []
        for count in {len(members) for _, members in collected}:
            groups = [(where, members) for where, members in collected if len(members) == count]
            stack = np.concatenate([np.stack(members) for _, members in groups], axis=1)
            self._elements[np.concatenate([where for where, _ in groups])] = self._domain.maximum(stack)
        self._is_collected[:] = False

    def _settle(self, places: Places) -> None:
        """Compute accumulators whose members are still collected."""
        if not self._members or PENDING not in self.state[places].tobytes():
            return
        every = self._numbers(places)
        pending = every[self.state[every] == PENDING].tolist()
        groups: dict[tuple[Extreme, int], list[int]] = {}
        for place in dict.fromkeys(pending):
            extreme, members = self._members[place]
            groups.setdefault((extreme, len(members)), []).append(place)
        for (extreme, _), group in groups.items():
            rows = np.concatenate([row for place in group for row in self._members.pop(place)[1]])
            stack = rows.view(ELEMENT).reshape(len(group), -1, self.lanes).transpose(1, 0, 2)
            self.put(np.array(group), self._domain.values(extreme(np.ascontiguousarray(stack))))

    def constants(self, places: Places) -> Indices | None:
        """Return the values of accumulators of constants, int64[n, lanes]; None if an accumulator
        is no constant."""
        self._settle(places)
        known = self.state[places].tobytes()
        if known.count(WORDS) == len(known):
            return self.words[places]
        source = self._sources(places)
        if source is None or (source["function"] == SEVERAL).any() or source["kind"].any():
            return None
        values: Indices = self._domain.functions.least[source["function"]]
        return values


def require_one_root(source: Elements | None, what: str) -> Elements:
    """Return the source of sums, all of which must have at most one root.

    Args:
        source: of `Sums`.
        what: is wanted of the sums.

    Raises:
        ProofError: a sum has several roots.
    """
    if source is None or (source["function"] == SEVERAL).any():
        raise ProofError(f"a proof does not cover {what} of a sum of several activations")
    return source


def _words_of(elements: Elements) -> NDArray[np.uint64]:
    """Return elements[..., lanes] as words, uint64[..., words], which NumPy joins quickly."""
    return np.ascontiguousarray(elements).view(np.uint64)
