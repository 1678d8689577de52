"""What the store unit does behind requantisation: it looks values up in a table and adds residuals.

Programs do not say so: what they store is changed on its way. The residuals of a STORE are loaded ahead of
it, in the order of its elements.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vdla.compiler.operands.address_map import Move, Operand
from vdla.hw.spec import isa
from vdla.hw.spec.numerics import ENTRIES_OF_ELEMENT, TABLE_ENTRIES
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.runtime.stream.builder import Rows, StreamBuilder

TABLE, RESIDUAL, SUM = "T", "R", "S"
"""The tensors of the table, of the residuals and of the parameters of the sum, as operators name them."""


@dataclass(frozen=True, slots=True)
class After:
    """What comes behind requantisation.

    Attributes:
        table: number of the table on chip, from 1, in which values are looked up; 0: in none.
        adds: residuals are added then.
    """

    table: int = 0
    adds: bool = False

    @property
    def reserved(self) -> int:
        """The accumulators, from the first on, that the parameters of a sum take."""
        return len(Parameter) * self.adds


NOTHING = After()


def table_entries(table: np.ndarray) -> np.ndarray:
    """Return int8[64, 4]: a table of the values -128 to 127 as TABLE holds it, from the value 0 on."""
    return np.roll(table, -TABLE_ENTRIES // 2).reshape(-1, ENTRIES_OF_ELEMENT)


class Part(NamedTuple):
    """Some rows of a transfer, or some columns of one: where they begin on chip and in the tensor."""

    chip: int
    dram: int
    rows: Rows


class Stored(NamedTuple):
    """A STORE: its first element in the tensor, and its rows."""

    element: int
    rows: Rows


def parts(rows: Rows, most: int) -> Iterator[Part]:
    """Divide rows, which stand densely on chip, into parts of at most `most` elements."""
    height, width, stride = rows.height, rows.width, rows.stride
    if width > most:
        for y in range(height):
            for x in range(0, width, most):
                count = min(most, width - x)
                yield Part(y * width + x, y * stride + x, Rows(1, count, count))
        return
    at_once = max(1, most // max(1, width))
    for y in range(0, height, at_once):
        yield Part(y * width, y * stride, Rows(min(at_once, height - y), width, stride))


class FollowedStores:
    """Records the STOREs of one program with what comes behind requantisation.

    Args:
        builder: records the instructions.
        operands: where TABLE, RESIDUAL and SUM lie.
        after: what comes behind requantisation.
        stores: the STOREs that the program will record, in order; needed where residuals are added.
    """

    def __init__(
        self,
        builder: StreamBuilder,
        operands: Mapping[str, Operand],
        after: After,
        stores: Iterable[Stored],
    ) -> None:
        self._builder, self._operands, self._after = builder, operands, after
        if after.adds:
            self._load_residuals = operands[RESIDUAL].load(builder, MemoryType.RES)
        depth = builder.config.depth(MemoryType.RES)
        self._depth = min(depth, (1 << isa.RESIDUAL_BITS) - 2)
        self._most = max(1, self._depth // 4)
        self._waiting = deque(
            (store.element + part.dram, part.rows)
            for store in stores
            for part in parts(store.rows, self._most)
        )
        self._loaded: deque[int] = deque()  # where residuals stand that are not stored yet
        self._held, self._at = 0, 0

    def begin(self) -> None:
        """Load what all STOREs need, and the residuals of the first."""
        load, after = self._builder.load, self._after
        if after.table:
            size = isa.TABLE_ELEMENTS
            load(
                MemoryType.TABLE,
                (after.table - 1) * size,
                self._operands[TABLE].tensor,
                0,
                Rows(1, size, size),
            )
        if after.adds:
            size = len(Parameter)
            load(MemoryType.ACC, 0, self._operands[SUM].tensor, 0, Rows(1, size, size))
            self._fetch()

    def scaled(self, parameters: int) -> Move:
        """Return what records STOREs by a set of parameters."""

        def store(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record a STORE; one with residuals in the parts in which they were loaded."""
            record, table = self._builder.store, self._after.table
            if not self._after.adds:
                record(chip, tensor, element, rows, parameters=parameters, table=table)
                return
            for part in parts(rows, self._most):
                residual = self._loaded.popleft() + 1
                record(
                    chip + part.chip,
                    tensor,
                    element + part.dram,
                    part.rows,
                    parameters=parameters,
                    table=table,
                    residual=residual,
                )
                self._held -= part.rows.height * part.rows.width
                self._fetch()

        return store

    def _fetch(self) -> None:
        """Load residuals ahead, up to half of the memory, so that those just stored are not waited for."""
        while self._waiting:
            element, rows = self._waiting[0]
            count = rows.height * rows.width
            if self._held + count > max(self._depth // 2, self._most):
                return
            self._waiting.popleft()
            at = self._at if self._at + count <= self._depth else 0
            self._load_residuals(at, self._operands[RESIDUAL].tensor, element, rows)
            self._loaded.append(at)
            self._held, self._at = self._held + count, at + count
