"""The statistics of rows that NORMALISE gathers, in the stream machine.

The machine keeps the values that were gathered, and computes statistics when outputs are written. Rows of
constants have numbers, too, as the functional model computes them.
"""

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.isa import NORMAL_ROWS
from vdla.hw.spec.normalisation import (
    LEAST_VALUE,
    NormalOperands,
    RowStatistics,
    begun_anew,
    gathered,
    normalised,
)
from vdla.hw.spec.vocabulary import Statistic
from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, NO_ROOT, Elements
from vdla.prove.errors import ProofError
from vdla.prove.normal_terms import POWERS, NormalFunction, outputs, powers_number

Indices = NDArray[np.int64]
NOTHING = -1
"""Number of values of a row of which nothing was gathered."""


class Members:
    """Values of rows that were gathered for a statistic."""

    def __init__(self) -> None:
        self._values = np.zeros((NORMAL_ROWS, 0), ELEMENT)
        self.counts = np.full(NORMAL_ROWS, NOTHING)
        self.are_constants = np.zeros(NORMAL_ROWS, np.bool_)

    def gather(self, rows: slice, values: Elements, anew: bool) -> None:
        """Add values[n, m] to rows.

        Raises:
            ProofError: the values join values of rows of which nothing was gathered.
        """
        constant = (values["kind"] == NO_ROOT).all(1)
        if anew:
            self.counts[rows], self.are_constants[rows] = 0, True
        self.require(rows)
        self.are_constants[rows] &= constant
        counts, more = self.counts[rows], values.shape[1]
        missing = int(counts.max()) + more - self._values.shape[1]
        if missing > 0:
            room = np.zeros((NORMAL_ROWS, self._values.shape[1] + missing), ELEMENT)
            self._values = np.concatenate((self._values, room), 1)
        numbers = np.arange(rows.start, rows.stop)[:, None]
        self._values[numbers, counts[:, None] + np.arange(more)] = values
        self.counts[rows] += more

    def require(self, rows: slice) -> None:
        """Refuse rows of which nothing was gathered.

        Raises:
            ProofError: there is one.
        """
        if (self.counts[rows] == NOTHING).any():
            raise ProofError("it uses statistics of rows that no NORMALISE has begun")

    def of(self, count: int, chosen: Indices) -> Elements:
        """Return the values of rows that hold `count` values each, elements[n, count]."""
        return self._values[chosen, :count]


class Rows:
    """The statistics that the store unit holds.

    Args:
        domain: of the proof.
    """

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._members = {statistic: Members() for statistic in Statistic}
        self._numbers = [RowStatistics() for _ in range(NORMAL_ROWS)]
        self._known = {statistic: np.zeros(NORMAL_ROWS, ELEMENT) for statistic in Statistic}
        self._is_known = {statistic: np.zeros(NORMAL_ROWS, np.bool_) for statistic in Statistic}
        # of the powers that were gathered: their table, the greatest value, and whether there were several
        self._tables = np.zeros(NORMAL_ROWS, np.int64)
        self._greatest = np.zeros(NORMAL_ROWS, ELEMENT)
        self._is_mixed = np.zeros(NORMAL_ROWS, np.bool_)

    def gather(self, statistic: Statistic, values: Elements, table: bytes | None, anew: bool) -> None:
        """Gather a statistic of the values of elements, elements[n, m].

        Raises:
            ProofError: nothing was gathered before of what the values join, or count from.
        """
        for first in range(0, len(values), NORMAL_ROWS):
            part = values[first : first + NORMAL_ROWS]
            members, rows = self._members[statistic], slice(0, len(part))
            members.gather(rows, part, anew)
            if statistic is Statistic.POWERS:
                members.are_constants[rows] &= self._members[Statistic.GREATEST].are_constants[rows]
                self._note_powers(rows, powers_number(self._domain, table), anew)
            self._is_known[statistic][rows] = False
            for row in np.flatnonzero(members.are_constants[rows]).tolist():
                before = begun_anew(statistic, self._numbers[row]) if anew else self._numbers[row]
                self._numbers[row] = gathered(statistic, before, self._bytes(part[row]), _entries(table))

    def _bytes(self, constants: Elements) -> list[int]:
        known: list[int] = self._domain.functions.least[constants["function"]].tolist()
        return known

    def _note_powers(self, rows: slice, table: int, anew: bool) -> None:
        """Note the table and the greatest values of powers that are gathered."""
        greatest = self._statistic(Statistic.GREATEST, rows)
        differs = (self._tables[rows] != table) | (self._greatest[rows] != greatest)
        self._is_mixed[rows] = False if anew else self._is_mixed[rows] | differs
        self._tables[rows], self._greatest[rows] = table, greatest

    def _statistic(self, statistic: Statistic, rows: slice) -> Elements:
        """Return statistics of rows, elements[n]: the greatest values, or the rows without their order.

        Raises:
            ProofError: nothing was gathered of a row.
        """
        members, known = self._members[statistic], self._known[statistic]
        members.require(rows)
        missing = np.flatnonzero(~self._is_known[statistic][rows])
        for count in np.unique(members.counts[missing]).tolist():
            chosen = missing[members.counts[missing] == count]
            values = members.of(count, chosen)
            if statistic is not Statistic.GREATEST:
                known[chosen] = self._domain.multisets(values)
            elif count:
                known[chosen] = self._domain.maximum(values.T)
            else:
                known[chosen] = self._domain.constants(np.array(LEAST_VALUE))
        self._is_known[statistic][rows] = True
        return known[rows].copy()

    def outputs(
        self, statistic: Statistic, values: Elements, table: bytes | None, normal: NormalOperands
    ) -> Elements:
        """Return the outputs for values of elements, elements[n, m].

        Raises:
            ProofError: the statistics were not gathered, or of several tables or greatest values.
        """
        return np.concatenate(
            [
                self._outputs(statistic, values[first : first + NORMAL_ROWS], table, normal)
                for first in range(0, len(values), NORMAL_ROWS)
            ]
        )

    def _outputs(
        self, statistic: Statistic, values: Elements, table: bytes | None, normal: NormalOperands
    ) -> Elements:
        constant, rows = values["kind"] == NO_ROOT, slice(0, len(values))
        for used in {statistic, *(() if statistic is Statistic.MOMENTS else (Statistic.GREATEST,))}:
            self._members[used].require(rows)
            constant &= self._members[used].are_constants[rows, None]
        result = np.zeros_like(values)
        others = np.flatnonzero(~constant.all(1))
        sums = self._tables[others] if statistic is Statistic.POWERS else np.zeros_like(others)
        for number in np.unique(sums).tolist():
            chosen = others[sums == number]
            tables = powers_number(self._domain, table), number
            function = NormalFunction.of(statistic, tables, normal)
            terms, parameters = self._terms(statistic, chosen), (normal.factor, normal.addend)
            result[chosen] = outputs(self._domain, function, values[chosen], terms, *parameters)
        for row in np.flatnonzero(constant.any(1)).tolist():
            columns = np.flatnonzero(constant[row])
            own = normal._replace(factor=normal.factor[columns], addend=normal.addend[columns])
            result[row, columns] = self._of_numbers(row, statistic, values[row, columns], table, own)
        return result

    def _terms(self, statistic: Statistic, chosen: Indices) -> tuple[Elements, ...]:
        """Return the statistics of rows that outputs follow from, elements[n] each."""
        rows = slice(0, int(chosen.max()) + 1)
        if statistic is Statistic.MOMENTS:
            return (self._statistic(statistic, rows)[chosen],)
        greatest = self._statistic(Statistic.GREATEST, rows)[chosen]
        if statistic is Statistic.GREATEST:
            return (greatest,)
        if self._is_mixed[chosen].any() or (greatest != self._greatest[chosen]).any():
            raise ProofError(
                "a proof does not cover sums of powers of several tables, or from several greatest values"
            )
        return greatest, self._statistic(statistic, rows)[chosen]

    def _of_numbers(
        self, row: int, statistic: Statistic, values: Elements, table: bytes | None, normal: NormalOperands
    ) -> Elements:
        """Return the outputs for constants of a row of constants, elements[m]."""
        columns = zip(self._bytes(values), normal.factor.tolist(), normal.addend.tolist(), strict=True)
        operands = [(value, normal._replace(factor=f, addend=a)) for value, f, a in columns]
        entries, numbers = _entries(table), self._numbers[row]
        known = [normalised(statistic, numbers, value, entries, each) for value, each in operands]
        return self._domain.constants(np.array(known))


def _entries(table: bytes | None) -> list[int] | None:
    """Return the entries of a table of powers."""
    if table is None:
        return None
    entries: list[int] = np.frombuffer(table, POWERS).tolist()
    return entries
