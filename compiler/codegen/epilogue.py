"""The epilogue of the store unit, after requantisation: table lookup, addition of residuals, sums of planes.

Loop programs do not express the epilogue: the store unit applies it to the values that they store. The
residuals of a STORE are loaded ahead of it, in the order of its elements. Results whose planes are summed are
stored into INP as well, where products with the identity add them to the sums of their planes. A product is
recorded when a later STORE takes the place of its results, so that it does not stall behind its own STORE.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vdla.compiler.operands.address_map import Move, Operand, Transfer
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import ENTRIES_OF_ELEMENT, TABLE_ENTRIES
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.runtime.stream.builder import Loop, Rows, StreamBuilder
from vdla.runtime.stream.micro_kernels import MicroKernel

RESULT, TABLE, RESIDUAL, SUM = "Z", "T", "R", "S"
"""Operand names of the result, of the table, of the residuals, and of the parameters of the addition."""
MEAN, MEAN_PARAMETERS, IDENTITY = "M", "N", "I"
"""Operand names of the means of planes, of their parameters, and of the identity as weights."""
FUSED = (RESIDUAL, SUM, MEAN, MEAN_PARAMETERS, IDENTITY)
"""Operands of epilogues that a task names."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The epilogue of a program's STOREs.

    Attributes:
        table: number of the lookup table on chip, from 1; 0: no lookup.
        adds: residuals are added after the lookup.
        planes: number of planes whose results are summed as well; 0: none are.
        elements: elements of each of these planes.
    """

    table: int = 0
    adds: bool = False
    planes: int = 0
    elements: int = 0

    @property
    def reserved(self) -> int:
        """Number of accumulators, from the first on, that hold the parameters of the addition, or of the
        requantisation of the planes' sums."""
        return len(Parameter) * (self.adds or self.planes > 0)

    def kept(self, config: AcceleratorConfig) -> dict[MemoryType, int]:
        """Return the elements at the end of memories that the sums of planes, and results that are to be
        added to them, take."""
        return {MemoryType.ACC: self.planes, MemoryType.INP: held_results(config)} if self.planes else {}


def held_results(config: AcceleratorConfig) -> int:
    """Return how many results INP holds until they are added to the sums of their planes."""
    return config.depth(MemoryType.INP) // 4


NO_EPILOGUE = Epilogue()


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
        self._kept = {
            memory: builder.config.depth(memory) - count
            for memory, count in epilogue.kept(builder.config).items()
        }  # first elements
        self._fed: deque[tuple[int, int, int]] = deque()  # plane, first element held, elements
        self._loaded: deque[int] = deque()  # first elements in RES of loaded residuals whose STORE is pending
        self._held, self._at = 0, 0

    def begin(self, identity: int = 0) -> None:
        """Load the table and the parameters of the addition, and prefetch residuals.

        Args:
            identity: place of the identity as weights, if planes are summed.
        """
        load, epilogue = self._builder.load, self._epilogue
        if epilogue.table:
            size = isa.TABLE_ELEMENTS
            load(
                MemoryType.TABLE,
                (epilogue.table - 1) * size,
                self._operands[TABLE].tensor,
                0,
                Rows(1, size, size),
            )
        if epilogue.adds:
            size = len(Parameter)
            load(MemoryType.ACC, 0, self._operands[SUM].tensor, 0, Rows(1, size, size))
            self._prefetch()
        if epilogue.planes:
            size, self._identity = len(Parameter), identity
            load(MemoryType.WGT, identity, self._operands[IDENTITY].tensor, 0, Rows(1, 1, 1))
            load(MemoryType.ACC, 0, self._operands[MEAN_PARAMETERS].tensor, 0, Rows(1, size, size))
            sums = MicroKernel(((self._kept[MemoryType.ACC], 0, 0),))
            self._builder.gemm(sums, Loop(epilogue.planes, dst=1), Loop(), reset=True)

    def end(self) -> None:
        """Add the last results to the sums of planes, and store the means."""
        while self._fed:
            self._add()
        if self._epilogue.planes:
            mean, rows = self._operands[MEAN], Rows(1, self._epilogue.planes, self._epilogue.planes)
            sums = self._kept[MemoryType.ACC]
            self._builder.store(sums, mean.tensor, mean.begin, rows, parameters=1)

    def _feed(self, chip: int, element: int, rows: Rows, parameters: int) -> None:
        """Store results into INP, too, from where a later product adds them to the sum of their plane."""
        epilogue, room = self._epilogue, held_results(self._builder.config)
        begin = self._operands.get(RESULT, Operand(RESULT)).begin
        for part in row_parts(rows, room):
            count = part.rows.height * part.rows.width
            first = self._at if self._at + count <= room else 0
            while any(first < at + held and at < first + count for _, at, held in self._fed):
                self._add()
            self._builder.feed_back(
                chip + part.chip,
                self._kept[MemoryType.INP] + first,
                Rows(1, count, count),
                parameters=parameters,
                table=epilogue.table,
            )
            self._fed.append(((element + part.dram - begin) // epilogue.elements, first, count))
            self._at = first + count

    def _add(self) -> None:
        """Add the earliest results in INP to the sum of their plane."""
        plane, first, count = self._fed.popleft()
        sums, results = self._kept[MemoryType.ACC], self._kept[MemoryType.INP]
        product = MicroKernel(((sums + plane, results + first, self._identity),))
        self._builder.gemm(product, Loop(count, src=1), Loop())

    def scaled(self, parameters: int) -> Move:
        """Return the recorder of STOREs that requantise by a set of parameters."""

        def store(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record a STORE; with residuals, record it in the parts in which they were loaded."""
            record, table = self._builder.store, self._epilogue.table
            if not self._epilogue.adds:
                record(chip, tensor, element, rows, parameters=parameters, table=table)
                if self._epilogue.planes:
                    self._feed(chip, element, rows, parameters)
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
