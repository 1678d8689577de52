"""STOREs of the stream machine, many computed at once.

A STORE takes its accumulators and parameters, and where its residuals stand, when it runs. What it writes is
computed later, together with the results of the STOREs that follow: before an instruction reads the bytes,
before anything but these results changes the bytes of residuals, and at the end of a run at the latest.
Instructions between may change accumulators, parameters and the scratchpad of residuals, but not what was
taken.
"""

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
from vdla.prove.memory import Dram, Lanes, are_defined

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


class Stores:
    """The STOREs whose results are still to be computed.

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

    def expect(self, form: Form) -> None:
        """Compute all results if a STORE of a form cannot be computed together with them. The results may
        replace what the residuals of that STORE refer to, so residuals are taken afterwards.

        Raises:
            StoreError: a proof does not cover a STORE.
        """
        if form != self._form or self._lanes >= MOST_LANES:
            self.compute()
        self._form = form

    def add(self, taken: Taken) -> None:
        """Take up a STORE of the form that is expected."""
        assert self._form is not None
        form, first, last = self._form, int(taken.places[0]), int(taken.places[-1]) + 1
        low, high = first * form.element_bytes, last * form.element_bytes
        self._low, self._high = (min(self._low, low), max(self._high, high)) if self._taken else (low, high)
        self._taken.append(taken)
        self._lanes += prod(taken.sums.shape)

    def compute_before(self, low: int, high: int) -> None:
        """Compute all results if some may stand among the bytes `low` to `high - 1`.

        Raises:
            StoreError: a proof does not cover a STORE.
        """
        if self._taken and low < self._high and high > self._low:
            self.compute()

    def compute(self) -> None:
        """Compute all results, and write them into DRAM.

        Raises:
            StoreError: a proof does not cover a STORE.
        """
        taken, self._taken, self._lanes = self._taken, [], 0
        if not taken:
            return
        assert self._form is not None
        try:
            values = self.results(self._form, taken)
        except ProofError:
            values = _joined_lanes([self._result(self._form, each) for each in taken])
        self._write(self._form, taken, values)

    def _result(self, form: Form, taken: Taken) -> Lanes:
        """Compute the results of one STORE, which an error names."""
        try:
            return self.results(form, [taken])
        except ProofError as error:
            raise StoreError(taken.index, str(error)) from error

    def _write(self, form: Form, taken: list[Taken], values: Lanes) -> None:
        counts = [len(each.places) for each in taken]
        places = np.concatenate([each.places for each in taken])
        last = last_of_each(places)
        writers = np.repeat([each.index for each in taken], counts)
        if not last.all():
            kept = np.flatnonzero(last)
            places, values, writers = places[kept], values.chosen(kept), writers[kept]
        self._dram.put(form.element_bytes, places, values, writers)

    def results(self, form: Form, taken: list[Taken]) -> Lanes:
        """Return what STOREs write, lanes[n, lanes].

        Raises:
            ProofError: a proof does not cover a STORE.
        """
        out = self._outputs(form, taken)
        return Lanes(out, self._domain.values(out).residues)

    def _outputs(self, form: Form, taken: list[Taken]) -> Elements:
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
        if form.residual is not None:
            words = np.frombuffer(form.residual, np.int64).reshape(4, 1, 1)
            out = domain.add_residual(out, sums_of_bytes(self._residuals(taken)), words)
        return out

    def _residuals(self, taken: list[Taken]) -> Lanes:
        """Return the residuals of STOREs, lanes[n, lanes]."""
        rows = [each.residuals for each in taken if each.residuals is not None]
        lanes = self._dram.view(taken[0].sums.shape[-1]).chosen(np.concatenate(rows))
        if not are_defined(lanes.elements):
            raise ProofError("it adds residuals that nothing has loaded")
        return lanes


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
