"""The epilogue of the store unit, after requantisation: table lookup, addition of residuals, normalisation.

Loop programs do not express the epilogue: the store unit applies it to the values that they store. The
residuals of a STORE are loaded ahead of it, in the order of its elements.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vdla.compiler.codegen.normalising_stores import TABLES_OF_POWERS, Normal
from vdla.compiler.operands.address_map import Move, Operand, Transfer
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import ENTRIES_OF_ELEMENT, TABLE_ENTRIES
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.runtime.stream.builder import Rows, StreamBuilder

RESULT, TABLE, RESIDUAL, SUM = "Z", "T", "R", "S"
"""Operand names of the result, of the table, of the residuals, and of the parameters of the addition."""


class InnerTable(NamedTuple):
    """The table of STOREs into INP.

    Attributes:
        kept: name of the buffer of the parameters by which the STOREs requantise.
        operand: name of the operand that holds the table.
        number: number of the table on chip, from 1.
    """

    kept: str
    operand: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The epilogue of a program's STOREs.

    Attributes:
        table: number of the lookup table on chip of STOREs of results, from 1; 0: no lookup.
        adds: residuals are added to results after the lookup.
        inner: the tables of STOREs into INP.
        normal: rows are normalised in place of lookup and addition; None: they are not.
    """

    table: int = 0
    adds: bool = False
    inner: tuple[InnerTable, ...] = ()
    normal: Normal | None = None

    @property
    def reserved(self) -> int:
        """Number of accumulators, from the first on, that hold the parameters of the addition, or of the
        normalisation."""
        return len(Parameter) * self.adds if self.normal is None else self.normal.elements

    @property
    def splits(self) -> bool:
        """Whether STOREs may be split by an address map: residuals have the positions of the result's
        elements, and the rows that are normalised are numbered in their STORE."""
        return not self.adds and self.normal is None

    def fits(self, config: AcceleratorConfig) -> bool:
        """Whether the memory TABLE holds all tables at once."""
        powers = TABLES_OF_POWERS if self.normal is not None and self.normal.has_powers else 0
        return len(self.inner) + bool(self.table) + powers <= tables_held(config)


NO_EPILOGUE = Epilogue()


def tables_held(config: AcceleratorConfig) -> int:
    """Return the number of tables that the memory TABLE holds and STOREs can name; 0 without the memory."""
    held = config.depth(MemoryType.TABLE) // isa.TABLE_ELEMENTS if config.has(Extension.TABLE) else 0
    return min(held, isa.MOST_TABLES)


def table_entries(table: np.ndarray) -> np.ndarray:
    """Return int8[64, 4]: the contents of TABLE, which begin with the entry of the value 0.

    Args:
        table: int8[256], the entries of the values -128 to 127.
    """
    return np.roll(table, -TABLE_ENTRIES // 2).reshape(-1, ENTRIES_OF_ELEMENT)


def table_of_entries(entries: np.ndarray) -> np.ndarray:
    """Return int8[256], the entries of the values -128 to 127, of the contents of TABLE."""
    return np.roll(entries.reshape(-1), TABLE_ENTRIES // 2)


class PlannedStore(NamedTuple):
    """A STORE that the program will record: first element in the tensor, and rows."""

    element: int
    rows: Rows


def row_parts(rows: Rows, most: int) -> Iterator[Transfer]:
    """Split rows, which are contiguous on chip, into parts of at most `most` elements, whose first elements
    count from the first of the rows."""
    height, width, stride = rows.height, rows.width, rows.stride
    if width > most:
        for y in range(height):
            for x in range(0, width, most):
                count = min(most, width - x)
                yield Transfer(y * width + x, y * stride + x, Rows(1, count, count))
        return
    at_once = max(1, most // max(1, width))
    for y in range(0, height, at_once):
        yield Transfer(y * width, y * stride, Rows(min(at_once, height - y), width, stride))


class EpilogueStores:
    """Recorder of a program's STOREs with their epilogue.

    Args:
        builder: records the instructions.
        operands: positions of TABLE, RESIDUAL and SUM in DRAM.
        epilogue: the epilogue of the STOREs.
        stores: the STOREs that the program will record, in order; required if residuals are added.
    """

    def __init__(
        self,
        builder: StreamBuilder,
        operands: Mapping[str, Operand],
        epilogue: Epilogue,
        stores: Iterable[PlannedStore],
    ) -> None:
        self._builder, self._operands, self._epilogue = builder, operands, epilogue
        if epilogue.adds:
            self._load_residuals = operands[RESIDUAL].load(builder, MemoryType.RES)
        depth = builder.config.depth(MemoryType.RES)
        self._depth = min(depth, (1 << isa.RESIDUAL_BITS) - 2)
        self._most = max(1, self._depth // 4)
        self._waiting = deque(
            (store.element + part.dram, part.rows)
            for store in stores
            for part in row_parts(store.rows, self._most)
        )
        self._loaded: deque[int] = deque()  # first elements in RES of loaded residuals whose STORE is pending
        self._held, self._at = 0, 0

    def begin(self) -> None:
        """Load the tables and the parameters of the addition, and prefetch residuals."""
        load, epilogue = self._builder.load, self._epilogue
        for inner in epilogue.inner:
            self._load_table(inner.operand, inner.number)
        if epilogue.table:
            self._load_table(TABLE, epilogue.table)
        if epilogue.adds:
            size = len(Parameter)
            load(MemoryType.ACC, 0, self._operands[SUM].tensor, 0, Rows(1, size, size))
            self._prefetch()

    def _load_table(self, operand: str, number: int) -> None:
        size = isa.TABLE_ELEMENTS
        place, rows = (number - 1) * size, Rows(1, size, size)
        self._builder.load(MemoryType.TABLE, place, self._operands[operand].tensor, 0, rows)

    def scaled(self, parameters: int) -> Move:
        """Return the recorder of STOREs that requantise by a set of parameters."""

        def store(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record a STORE; with residuals, record it in the parts in which they were loaded."""
            record, table = self._builder.store, self._epilogue.table
            if not self._epilogue.adds:
                record(chip, tensor, element, rows, parameters=parameters, table=table)
                return
            for part in row_parts(rows, self._most):
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
                self._prefetch()

        return store

    def _prefetch(self) -> None:
        """Load residuals ahead, up to half of RES, so that no LOAD waits for the latest STORE."""
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
