"""DRAM and scratchpads of the stream machine: elements and their residues in place of bytes."""

from collections.abc import Callable
from dataclasses import dataclass, field

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
from vdla.prove.stream_kernels import add_rows, copy_rows, put_rows, write_weights

Indices = NDArray[np.int64]
Places = Indices | slice
NO_WRITER = -1


@dataclass(frozen=True)
class Lanes:
    """The values of some elements of a memory.

    Attributes:
        elements: elements[n, lanes].
        residues: float64[RESIDUES, n, lanes], of each value.
    """

    elements: Elements
    residues: Floats

    @classmethod
    def of_constants(cls, domain: Domain, values: np.ndarray) -> "Lanes":
        """Return lanes of constant bytes, int[n, lanes]."""
        residues = np.broadcast_to(values.astype(np.float64), (RESIDUES, *values.shape))
        return cls(domain.constants(values), np.ascontiguousarray(residues))

    def chosen(self, places: Indices) -> "Lanes":
        """Return a copy of some elements, int64[n]."""
        return Lanes(self.elements[places], self.residues.take(places, axis=1))

    def put(self, places: Places, values: "Lanes") -> None:
        """Replace some elements."""
        self.elements[places] = values.elements
        self.residues[:, places] = values.residues

    def copy(self, places: Indices, source: "Lanes", chosen: Indices) -> None:
        """Replace elements, int64[n], by those of other lanes, int64[n]."""
        mine, others = (
            each.elements.view(np.uint64).reshape(len(each.elements), -1) for each in (self, source)
        )
        copy_rows(others, source.residues, chosen, mine, self.residues, places)


class Dram:
    """DRAM: bytes that never change, and a range of bytes of activations.

    Activations that nothing has written are unknown: a stream may read them, as what fills up a block of
    channels, but no result that is compared may depend on them.

    Args:
        domain: of the proof.
        constants: uint8[bytes], all of DRAM before the run; bytes of activations have no meaning.
        low, high: the range of activations; `low` is a multiple of `alignment`.
        alignment: a multiple of the bytes of every element.
        spare: bytes behind the activations, for elements of scratchpads that are no copies (`Pad`).

    Attributes:
        writers: int64[high - low], the instruction that wrote each byte last; NO_WRITER where none did.
        pads: the scratchpads that refer to activations.
    """

    def __init__(
        self,
        domain: Domain,
        constants: NDArray[np.uint8],
        low: int,
        high: int,
        alignment: int,
        spare: int = 0,
    ) -> None:
        if low % alignment:
            raise ValueError(f"activations from byte {low} on are not aligned to {alignment} bytes")
        self.constants, self.low = constants, low
        size = -(-(high - low) // alignment) * alignment
        self.high = low + size
        self.elements = np.zeros(size + -(-spare // alignment) * alignment, ELEMENT)
        self.elements["kind"] = domain.kind("unwritten byte")
        self.elements["lo"] = np.arange(low, low + len(self.elements))
        self.residues = domain.values(self.elements).residues
        self.writers = np.full(size, NO_WRITER)
        self.pads: list[Pad] = []
        self._views: dict[int, Lanes] = {}

    def view(self, size: int) -> Lanes:
        """Return the activations, and what is spare behind them, as lanes of `size` bytes each."""
        if size not in self._views:
            self._views[size] = Lanes(
                self.elements.reshape(-1, size), self.residues.reshape(RESIDUES, -1, size)
            )
        return self._views[size]

    def put(self, size: int, places: Indices, values: Lanes, writers: Indices) -> None:
        """Replace elements of `size` bytes each, int64[n], by what instructions int64[n] wrote."""
        self._keep(int(places.min()) * size, (int(places.max()) + 1) * size)
        self.view(size).copy(places, values, np.arange(len(places)))
        self.writers.reshape(-1, size)[places] = writers[:, None]

    def constant(self, size: int, addresses: Indices) -> NDArray[np.uint8]:
        """Return elements of `size` bytes that never change, uint8[n, size], by address, int64[n]."""
        chosen: NDArray[np.uint8]
        if (addresses % size).any():
            chosen = self.constants[addresses[:, None] + np.arange(size)]
        else:
            rows = self.constants[: len(self.constants) // size * size].reshape(-1, size)
            chosen = rows.take(addresses // size, axis=0)
        return chosen

    def read(self, addresses: Indices) -> Lanes:
        """Return bytes of activations by address, lanes[n, m] for int64[n, m]."""
        places = addresses - self.low
        return Lanes(self.elements[places], self.residues[:, places])

    def write(self, begin: int, values: Lanes) -> None:
        """Replace bytes of activations from address `begin` on by lanes[n, 1]."""
        place = slice(begin - self.low, begin - self.low + len(values.elements))
        self._keep(place.start, place.stop)
        self.elements[place] = values.elements[:, 0]
        self.residues[:, place] = values.residues[..., 0]
        self.writers[place] = NO_WRITER

    def _keep(self, low: int, high: int) -> None:
        """Let the scratchpads copy what they hold of the bytes `low` to `high - 1`, which will change."""
        for pad in self.pads:
            pad.keep(low, high)


class Pad:
    """A scratchpad of activations. A LOAD copies no values: an element refers to the row of DRAM that holds
    its values. They are copied only when something else is written there. Elements that DRAM does not hold
    stand in rows of their own, in what is spare behind the activations; all that hold the padding share a row
    behind these. At first, all are zero.

    Args:
        domain: of the proof.
        dram: DRAM.
        begin: first byte of the rows of its own, `depth` and one, a multiple of `size`.
        depth: elements.
        size: bytes of an element.

    Attributes:
        lanes: lanes of DRAM.
        rows: int64[depth], the row of `lanes` that holds each element.
    """

    def __init__(self, domain: Domain, dram: Dram, begin: int, depth: int, size: int) -> None:
        self._domain, self._size, self._own = domain, size, begin // size + np.arange(depth)
        self._padding, self._padded = 0, begin // size + depth
        self.lanes, self.rows = dram.view(size), np.full(depth, self._padded)
        self._put_padding()
        dram.pads.append(self)

    def _put_padding(self) -> None:
        row = slice(self._padded, self._padded + 1)
        self.lanes.put(row, Lanes.of_constants(self._domain, np.full((1, 1), self._padding)))

    def fill(self, places: slice, value: int) -> None:
        """Replace elements by padding."""
        if value != self._padding:
            self.keep(self._padded * self._size, (self._padded + 1) * self._size)
            self._padding = value
            self._put_padding()
        self.rows[places] = self._padded

    def refer(self, places: Places, rows: Indices) -> None:
        """Replace elements by rows of DRAM, int64[n]."""
        self.rows[places] = rows

    def put(self, places: Places, values: Lanes) -> None:
        """Replace elements by lanes[n, lanes]."""
        self.rows[places] = self._own[places]
        self.lanes.put(self._own[places], values)

    def chosen(self, places: Places) -> Lanes:
        """Return a copy of some elements."""
        return self.lanes.chosen(self.rows[places])

    def keep(self, low: int, high: int) -> None:
        """Copy the elements that refer to some of the bytes `low` to `high - 1`, which will change."""
        held = np.flatnonzero((self.rows * self._size < high) & ((self.rows + 1) * self._size > low))
        if held.size:
            self.lanes.copy(self._own[held], self.lanes, self.rows[held])
            self.rows[held] = self._own[held]


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
        own = self.of_one_root(places[new], "the greatest or least") if new else None
        for number, place in enumerate(new):
            assert own is not None
            self._members[int(places[place])] = extreme, [_words_of(own[number])]
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
        own = self.as_roots(places)
        self._collected.append((places, [own, *members]))
        self._is_collected[places] = True
        self.state[places] = GREATEST

    def _settle_greatest(self, places: Places) -> None:
        """Compute all sets of sums whose members are collected, if there is one among the accumulators."""
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


class Weights:
    """The weights: numbers, or activations. At first, they are the number 0.

    Attributes:
        numbers: int8[depth, block_out, block_in]; 0 where weights are activations.
        columns: float64[depth, block_in, block_out], the numbers for matrix products.
        magnitudes: int64[depth, block_out], magnitudes of the numbers, added up along block_in.
        activations: lanes of weights that are activations [depth, block_out * block_in].
        is_activation: bool[depth], which weights are activations.
        has_activations: whether some weights have been activations.
    """

    def __init__(self, depth: int, block_out: int, block_in: int) -> None:
        self._every = np.arange(depth)
        self.numbers = np.zeros((depth, block_out, block_in), np.int8)
        self.columns = np.zeros((depth, block_in, block_out))
        self.magnitudes = np.zeros((depth, block_out), np.int64)
        values = block_out * block_in
        self.activations = Lanes(undefined((depth, values)), np.zeros((RESIDUES, depth, values)))
        self.is_activation = np.zeros(depth, bool)
        self.has_activations = False

    def put_numbers(self, places: Places, numbers: NDArray[np.int8] | int) -> None:
        """Replace weights by numbers, int8[n, block_out * block_in] or one for all."""
        rows = self._every[places]
        shape = len(rows), *self.numbers.shape[1:]
        values = np.reshape(numbers, shape) if np.ndim(numbers) else np.full(shape, numbers)
        blocks = np.ascontiguousarray(values, np.int8)
        write_weights(blocks, rows, self.numbers, self.columns, self.magnitudes)
        self.is_activation[places] = False

    def put_activations(self, places: Places, values: Lanes) -> None:
        """Replace weights by activations, lanes [n, block_out * block_in]."""
        self.put_numbers(places, 0)
        self.activations.put(places, values)
        self.is_activation[places] = self.has_activations = True


@dataclass(frozen=True)
class Scratchpads:
    """The other memories on chip.

    Attributes:
        inputs: inputs of batch * block_in values each.
        weights: weights.
        uops: int64[depth], encoded micro-ops.
        table: int8[entries of all elements].
        residuals: residuals of batch * block_out values each.
    """

    inputs: Pad
    weights: Weights
    uops: Indices
    table: NDArray[np.int8]
    residuals: Pad
    pad_registers: dict[int, int] = field(default_factory=dict)


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


def are_defined(elements: Elements) -> bool:
    """Whether no element is undefined."""
    return not elements.size or int(elements["function"].min()) >= 0


def constant_bytes(domain: Domain, elements: Elements) -> NDArray[np.uint8] | None:
    """Return uint8[...], the values of elements that are all constants; None if an element has a root."""
    if elements["kind"].any():
        return None
    values: NDArray[np.uint8] = domain.functions.least[elements["function"]].astype(np.uint8)
    return values
