"""STOREs of the stream machine, many computed at once.

When a STORE runs, it copies its accumulators, its parameters and the addresses of its residuals. Its results
are computed later, together with the results of later STOREs. They are computed before an instruction
reads the bytes, before anything but these results changes the bytes of residuals, and at the end of a run.
Instructions in between may change accumulators, parameters and the scratchpad of residuals, but not the
copies.

A thread computes the results of a batch of STOREs while the machine goes on with the next instructions
(`Stores.in_thread`). Only the thread of the machine reads and writes DRAM.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.prove.alu import sums_of_bytes
from vdla.prove.domain import Domain
from vdla.prove.elements import SEVERAL, Elements, Sums, undefined
from vdla.prove.errors import ProofError, StoreError
from vdla.prove.indices import last_of_each
from vdla.prove.memory import Dram, Lanes, Pad, are_defined

Indices = NDArray[np.int64]
MOST_LANES = 1 << 15
"""Sums that are computed together: more leave the caches of a processor."""


class Form(NamedTuple):
    """What the results of STOREs that are computed together have in common.

    Attributes:
        element_bytes: of an element in DRAM.
        is_requantised: whether sums are requantised; else they are narrowed.
        table: the number of the function that is looked up; None without a table.
        residual: four words as bytes, the parameters by which residuals are added; None without residuals.
        is_greatest: whether the greatest of sums are requantised.
    """

    element_bytes: int
    is_requantised: bool
    table: int | None
    residual: bytes | None
    is_greatest: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What a STORE writes, and where.

    Attributes:
        index: position of the STORE in the stream.
        sums: sums[n, lanes], or sets of `Domain.sums_as_roots` as elements[n, lanes], which nothing changes
            any more.
        columns: int64[4, lanes] of `Domain.columns`; None if sums are narrowed.
        residuals: int64[n], the rows of DRAM that hold the residuals; None without.
        places: int64[n], the elements of DRAM, counted from the first activation on; the first is the
            least, the last the greatest.
    """

    index: int
    sums: Sums | Elements
    columns: Indices | None
    residuals: Indices | None
    places: Indices


@dataclass(frozen=True, slots=True)
class _Batch:
    """STOREs whose results are computed together.

    Attributes:
        form: of all of them.
        taken: what each writes.
        residuals: lanes[n, lanes] of all of them; None without.
        low, high: bytes between which all results stand, counted as `Taken.places`.
    """

    form: Form
    taken: list[Taken]
    residuals: Lanes | None
    low: int
    high: int

    def overlaps(self, low: int, high: int) -> bool:
        """Whether some results may stand among the bytes `low` to `high - 1`."""
        return low < self.high and high > self.low


class Stores:
    """The STOREs whose results are still to be computed. The STOREs of one batch may be under way in a thread
    while the next batch is collected.

    Args:
        domain: of the proof.
        dram: receives the results.
    """

    def __init__(self, domain: Domain, dram: Dram) -> None:
        self._domain, self._dram = domain, dram
        self._form: Form | None = None
        self._taken: list[Taken] = []
        self._lanes = 0
        self._low, self._high = 0, 0  # bytes between which all results stand, counted as `Taken.places`
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: tuple[_Batch, Future[Lanes]] | None = None

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Let a thread compute results within the context. Outside of it, batches are computed at once."""
        with ThreadPoolExecutor(1, "stores") as self._pool:
            try:
                yield
            finally:
                self._pool = self._under_way = None

    def expect(self, form: Form) -> None:
        """Begin with the results of a batch if a STORE of a form cannot be computed together with them.

        Raises:
            StoreError: a proof does not cover a STORE.
        """
        if form != self._form or self._lanes >= MOST_LANES:
            self._begin()
        self._form = form

    def residuals(self, pad: Pad, places: slice) -> Indices:
        """Return the rows of DRAM that hold the residuals of a STORE that is expected, int64[n].

        Results that are under way and replace these rows are written first: then the scratchpad `pad` has
        copied the residuals to rows that stay.

        Raises:
            StoreError: a proof does not cover a STORE.
        """
        if self._under_way is not None:
            rows, size = pad.rows[places], pad.lanes.elements.shape[1]
            if self._under_way[0].overlaps(int(rows.min()) * size, int(rows.max() + 1) * size):
                self._finish()
        return pad.rows[places].copy()

    def add(self, taken: Taken) -> None:
        """Take up a STORE of the form that is expected."""
        assert self._form is not None
        form, first, last = self._form, int(taken.places[0]), int(taken.places[-1]) + 1
        low, high = first * form.element_bytes, last * form.element_bytes
        self._low, self._high = (min(self._low, low), max(self._high, high)) if self._taken else (low, high)
        self._taken.append(taken)
        self._lanes += prod(taken.sums.shape)

    def compute_before(self, low: int, high: int) -> None:
        """Compute and write all results that may stand among the bytes `low` to `high - 1`.

        Raises:
            StoreError: a proof does not cover a STORE.
        """
        if self._taken and low < self._high and high > self._low:
            self.compute()
        elif self._under_way and self._under_way[0].overlaps(low, high):
            self._finish()

    def compute(self) -> None:
        """Compute all results, and write them into DRAM.

        Raises:
            StoreError: a proof does not cover a STORE.
        """
        self._begin()
        self._finish()

    def _begin(self) -> None:
        """Begin with the results of the STOREs that have been collected, after the last batch."""
        self._finish()
        taken, self._taken, self._lanes = self._taken, [], 0
        if not taken:
            return
        assert self._form is not None
        batch = _Batch(self._form, taken, self._residuals(self._form, taken), self._low, self._high)
        if self._pool is None:
            self._write(batch, self._computed(batch))
        else:
            self._under_way = batch, self._pool.submit(self._computed, batch)

    def _finish(self) -> None:
        """Write the results of the batch that is under way."""
        if self._under_way is not None:
            (batch, future), self._under_way = self._under_way, None
            self._write(batch, future.result())

    def _computed(self, batch: _Batch) -> Lanes:
        """Return the results of a batch. An error names its STORE."""
        try:
            return self._results(batch.form, batch.taken, batch.residuals)
        except ProofError:
            return _joined_lanes([self._result(batch, number) for number in range(len(batch.taken))])

    def _result(self, batch: _Batch, number: int) -> Lanes:
        """Compute the results of one STORE of a batch, which an error names."""
        taken, residuals = batch.taken[number], batch.residuals
        if residuals is not None:
            first = sum(len(each.places) for each in batch.taken[:number])
            residuals = residuals.chosen(np.arange(first, first + len(taken.places)))
        try:
            return self._results(batch.form, [taken], residuals)
        except ProofError as error:
            raise StoreError(taken.index, str(error)) from error

    def _write(self, batch: _Batch, values: Lanes) -> None:
        counts = [len(each.places) for each in batch.taken]
        places = np.concatenate([each.places for each in batch.taken])
        last = last_of_each(places)
        writers = np.repeat([each.index for each in batch.taken], counts)
        if not last.all():
            kept = np.flatnonzero(last)
            places, values, writers = places[kept], values.chosen(kept), writers[kept]
        self._dram.put(batch.form.element_bytes, places, values, writers)

    def results(self, form: Form, taken: list[Taken]) -> Lanes:
        """Return what STOREs write, lanes[n, lanes].

        Raises:
            ProofError: a proof does not cover a STORE.
        """
        return self._results(form, taken, self._residuals(form, taken))

    def _results(self, form: Form, taken: list[Taken], residuals: Lanes | None) -> Lanes:
        out = self._outputs(form, taken, residuals)
        return Lanes(out, self._domain.values(out).residues)

    def _outputs(self, form: Form, taken: list[Taken], residuals: Lanes | None) -> Elements:
        domain = self._domain
        if not form.is_requantised:
            return domain.narrowed(_joined_sums(taken))
        counts = [len(each.places) for each in taken]
        columns = np.stack([each.columns for each in taken if each.columns is not None], 1)
        repeated = np.repeat(columns, counts, axis=1)
        if form.is_greatest:
            sets = [each.sums for each in taken if not isinstance(each.sums, Sums)]
            out = domain.requantised_greatest(np.concatenate(sets), repeated)
        else:
            out = domain.requantised(_joined_sums(taken), repeated)
        if form.table is not None:
            out = domain.apply(out, form.table)
        if form.residual is not None and residuals is not None:
            if not are_defined(residuals.elements):
                raise ProofError("it adds residuals that nothing has loaded")
            words = np.frombuffer(form.residual, np.int64).reshape(4, 1, 1)
            out = domain.add_residual(out, sums_of_bytes(residuals), words)
        return out

    def _residuals(self, form: Form, taken: list[Taken]) -> Lanes | None:
        """Return a copy of the residuals of STOREs, lanes[n, lanes]; None without."""
        if form.residual is None:
            return None
        rows = [each.residuals for each in taken if each.residuals is not None]
        return self._dram.view(taken[0].sums.shape[-1]).chosen(np.concatenate(rows))


def _joined_sums(taken: list[Taken]) -> Sums:
    """Return the sums of STOREs none of which takes sets."""
    return joined([each.sums for each in taken if isinstance(each.sums, Sums)])


def joined(parts: list[Sums]) -> Sums:
    """Return sums[n, lanes], joined along their first axis."""
    if len(parts) == 1:
        return parts[0]
    source = None
    if any(part.source is not None for part in parts):
        source = np.concatenate([_source_of(part) for part in parts])
    return Sums(
        np.concatenate([part.residues for part in parts], 1),
        source,
        max(part.reach for part in parts),
        max(part.offset for part in parts),
        max(part.degree for part in parts),
        max(part.magnitude for part in parts),
    )


def _source_of(sums: Sums) -> Elements:
    """Return the sources of sums, elements[n, lanes]."""
    if sums.source is not None:
        return sums.source
    source = undefined(sums.shape)
    source["function"] = SEVERAL
    return source


def _joined_lanes(parts: list[Lanes]) -> Lanes:
    """Return lanes, joined along their first axis."""
    return Lanes(
        np.concatenate([part.elements for part in parts]),
        np.concatenate([part.residues for part in parts], 1),
    )
