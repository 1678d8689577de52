"""Recording of NORMALISEs in place of the STOREs of a program: rows are normalised on their way to DRAM.

Loop programs do not express normalisation. They store the blocks of a tile of rows one after another, and
each block with one STORE. The first statistic of the rows is gathered from each block at once. When the last
block of a tile comes, further statistics are gathered from all blocks, and then all blocks are written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vdla.compiler.ir.nodes import IrError
from vdla.compiler.operands.address_map import Move, Operand
from vdla.hw.spec import isa
from vdla.hw.spec.numerics import ENTRIES_OF_ELEMENT
from vdla.hw.spec.vocabulary import MemoryType, NormalParameter, Statistic
from vdla.runtime.stream.builder import Rows, StreamBuilder

NORMAL, POWERS = "N", "T"
"""Operand names of the parameters of normalisation, and of the table of powers, which is that of other
tables."""
TABLES_OF_POWERS = isa.POWER_TABLE_ELEMENTS // isa.TABLE_ELEMENTS
"""Tables of bytes in whose place a table of powers is."""


@dataclass(frozen=True, slots=True)
class Normal:
    """The normalisation of the rows that a program stores.

    Attributes:
        statistic: POWERS for softmax, MOMENTS for mean and standard deviation.
        blocks: blocks of a row, of `block_out` columns each.
        sets: sets of parameters of normalisation: one for each block; or one for all blocks but the last,
            and one for the last; or one for all.
        table: number on chip of the table of powers, from 1.
    """

    statistic: Statistic
    blocks: int
    sets: int
    table: int = 1

    @property
    def elements(self) -> int:
        """Accumulators that these sets take."""
        return self.sets * len(NormalParameter)

    @property
    def has_powers(self) -> bool:
        """Whether a table of powers is read."""
        return self.statistic is Statistic.POWERS

    @property
    def gathers(self) -> tuple[Statistic, ...]:
        """The statistics that are gathered, in order."""
        return (Statistic.GREATEST, Statistic.POWERS) if self.has_powers else (self.statistic,)

    def set_of(self, block: int) -> int:
        """Return the number, from 1, of the set of parameters of a block."""
        if self.sets == self.blocks:
            return 1 + block
        return self.sets if block == self.blocks - 1 else 1

    def table_for(self, statistic: Statistic) -> int:
        """Return the table of powers that a NORMALISE by a statistic names; 0: none."""
        return self.table if statistic is Statistic.POWERS else 0


def power_entries(powers: np.ndarray) -> np.ndarray:
    """Return int8[128, 4]: the elements of TABLE that hold uint16[256]."""
    return powers.astype("<u2").view(np.int8).reshape(-1, ENTRIES_OF_ELEMENT)


class _Block(NamedTuple):
    """A STORE of a block of a tile that the program asked for."""

    chip: int
    tensor: str
    element: int
    rows: Rows
    parameters: int


class NormalisingStores:
    """Recorder of NORMALISEs in place of a program's STOREs.

    Args:
        builder: records the instructions.
        operands: positions of NORMAL and POWERS in DRAM.
        normal: the normalisation.
        first: the first accumulator of the parameters of normalisation.
    """

    def __init__(
        self, builder: StreamBuilder, operands: Mapping[str, Operand], normal: Normal, first: int
    ) -> None:
        self._builder, self._operands, self._normal, self._first = builder, operands, normal, first
        self._blocks: list[_Block] = []

    def begin(self) -> None:
        """Load the parameters of normalisation, and the table of powers."""
        load, normal = self._builder.load, self._normal
        if normal.has_powers:
            size = isa.POWER_TABLE_ELEMENTS
            place = (normal.table - 1) * isa.TABLE_ELEMENTS
            load(MemoryType.TABLE, place, self._operands[POWERS].tensor, 0, Rows(1, size, size))
        rows = Rows(1, normal.elements, normal.elements)
        load(MemoryType.ACC, self._first, self._operands[NORMAL].tensor, 0, rows)

    def scaled(self, parameters: int) -> Move:
        """Return the recorder of STOREs that requantise by a set of parameters."""

        def store(chip: int, tensor: str, element: int, rows: Rows) -> None:
            if rows.height * rows.width > isa.NORMAL_ROWS:
                raise IrError(
                    f"a STORE of {rows.height * rows.width} rows is to be normalised, and the store unit "
                    f"holds statistics of {isa.NORMAL_ROWS}; use smaller tiles"
                )
            block = _Block(chip, tensor, element, rows, parameters)
            self._gather(self._normal.gathers[0], block, anew=not self._blocks)
            self._blocks.append(block)
            if len(self._blocks) == self._normal.blocks:
                self._record()

        return store

    def _gather(self, statistic: Statistic, block: _Block, *, anew: bool) -> None:
        """Record the NORMALISE that gathers a statistic from a block."""
        self._builder.gather_statistics(
            block.chip,
            block.rows,
            statistic,
            anew=anew,
            parameters=block.parameters,
            table=self._normal.table_for(statistic),
        )

    def _record(self) -> None:
        """Record the other NORMALISEs of a tile of rows whose blocks are complete."""
        blocks, normal = self._blocks, self._normal
        self._blocks = []
        for statistic in normal.gathers[1:]:
            for number, block in enumerate(blocks):
                self._gather(statistic, block, anew=number == 0)
        for number, block in enumerate(blocks):
            self._builder.normalise(
                block.chip,
                block.tensor,
                block.element,
                block.rows,
                normal.statistic,
                normal=self._first // len(NormalParameter) + normal.set_of(number),
                parameters=block.parameters,
                table=normal.table_for(normal.statistic),
            )
