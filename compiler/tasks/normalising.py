"""Softmax and normalisation of the rows of matrices, by the statistics that the store unit gathers.

The accumulators hold a tile of whole rows. The store unit reads it twice, or for a softmax three times: it
gathers the statistics of the rows, and then it writes the rows. Each block of a tile has one STORE.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from vdla.compiler.codegen.epilogue import Epilogue
from vdla.compiler.codegen.normalising_stores import Normal
from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.tasks.base import BUS_BOUND_THREADS, Choice, PartedTask, rounds_of_tiles
from vdla.compiler.tasks.program_text import (
    ChipBuffer,
    ConstantOperand,
    nest,
    operand_type,
    parse_program,
    threaded,
)
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS, NORMAL_ROWS
from vdla.hw.spec.vocabulary import MemoryType, Parameter, Statistic


@dataclass(frozen=True, slots=True)
class NormalisingTask(PartedTask[int]):
    """Softmax or normalisation of the rows of matrices.

    Attributes:
        matrices: number of matrices.
        blocks: blocks of columns of a row.
        rows: number of rows of a matrix.
        is_softmax: rows are divided by the sums of their powers; else by their standard deviations.
        partial: the last block has columns that are left out of the statistics.
    """

    matrices: int
    blocks: int
    rows: int
    is_softmax: bool
    partial: bool = False
    SMALLEST: ClassVar[str] = "one row of a normalisation"

    @property
    def normal(self) -> Normal:
        """The normalisation of the rows."""
        statistic = Statistic.POWERS if self.is_softmax else Statistic.MOMENTS
        return Normal(statistic, self.blocks, self.sets if self.is_softmax else self.blocks)

    @property
    def epilogue(self) -> Epilogue:
        """The epilogue of the STOREs; see `Task.epilogue`."""
        return Epilogue(normal=self.normal)

    @property
    def sets(self) -> int:
        """Sets of parameters of requantisation: of whole blocks, and of a last block that is not whole."""
        return 1 + self.partial

    def tile(self, config: AcceleratorConfig, copies: int) -> int | None:
        """Return the most rows of a tile; see `PartedTask.tile`."""
        return _most_rows(self.normal, self.sets, config, copies)

    def tiled(self, tile: int, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program that copies A: int8[matrices, blocks, rows, 1, block_out] to Z by way of
        the accumulators. The epilogue of its STOREs normalises each tile of rows.

        The parameters of the program are A, Z, and P: the sets of requantisation, which keep values, and
        leave columns out of statistics.
        """
        rows = operand_type(config, self.matrices, self.blocks, self.rows)
        statements = _tiles(
            self.rows,
            tile,
            choice.threads,
            lambda name, begin, count: self._tile(name, begin, count, config),
            {"matrix": self.matrices},
        )
        sets = ConstantOperand("P", Scope.PARAMETERS, self.sets)
        return parse_program({"A": rows, "Z": rows}, statements, config, [sets])

    def _tile(self, name: str, begin: str, count: int, config: AcceleratorConfig) -> Iterator[str]:
        """Yield the statements that normalise `count` rows from row `begin` on."""
        block, row = f"{name}_c", f"{name}_e"
        values = ChipBuffer(name, Scope.ACCUMULATOR, {block: self.blocks, row: count}, config)
        yield values.loaded(f"A[matrix, {block}, {begin} + {row}, 0, 0]")
        for number in range(self.blocks):
            kept = int(self.partial and number == self.blocks - 1)
            place, value = f"Z[matrix, {number}, {begin} + {row}, 0, 0]", f"{name}[{number}, {row}, 0, 0]"
            yield nest({row: count}, f"store_scaled({place}, {value}, PL[{kept}, 0, 0, 0])")


@dataclass(frozen=True, slots=True)
class ProductSoftmaxTask(PartedTask[int]):
    """The softmax of the rows of a matrix product, as of the scores of an attention.

    Attributes:
        rows: number of rows.
        depth: blocks of inputs that a sum has.
        blocks: blocks of columns of a row.
        partial: the last block has columns that are left out.
    """

    rows: int
    depth: int
    blocks: int
    partial: bool
    THREADS: ClassVar[tuple[int, ...]] = BUS_BOUND_THREADS
    SMALLEST: ClassVar[str] = "one row of a product"

    @property
    def normal(self) -> Normal:
        """The normalisation of the rows."""
        return Normal(Statistic.POWERS, self.blocks, 1 + self.partial)

    @property
    def epilogue(self) -> Epilogue:
        """The epilogue of the STOREs; see `Task.epilogue`."""
        return Epilogue(normal=self.normal)

    def tile(self, config: AcceleratorConfig, copies: int) -> int | None:
        """Return the most rows of a tile; see `PartedTask.tile`."""
        if self.blocks * self.depth > config.depth(MemoryType.WGT):
            return None
        rows = _most_rows(self.normal, self.blocks, config, copies)
        return min(rows or 0, config.depth(MemoryType.INP) // (self.depth * copies)) or None

    def tiled(self, tile: int, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of the requantised product Z: int8[blocks, rows, 1, block_out] of X:
        int8[depth, rows, 1, block_in] and W: int8[blocks * depth, block_out, block_in]. The epilogue of its
        STOREs makes the softmax of each tile of rows.

        The parameters of the program are X, W, Z, and P: a set of requantisation for each block, whose last
        leaves columns out of statistics.
        """
        weights = ConstantOperand("W", Scope.WEIGHT, self.blocks * self.depth)
        sets = ConstantOperand("P", Scope.PARAMETERS, self.blocks)
        operands = {
            "X": operand_type(config, self.depth, self.rows),
            "Z": operand_type(config, self.blocks, self.rows),
        }
        statements = _tiles(
            self.rows,
            tile,
            choice.threads,
            lambda name, begin, count: self._tile(name, begin, count, config),
        )
        return parse_program(operands, statements, config, [sets, weights])

    def _tile(self, name: str, begin: str, count: int, config: AcceleratorConfig) -> Iterator[str]:
        """Yield the statements that compute `count` rows from row `begin` on."""
        block, part, row = f"{name}_c", f"{name}_k", f"{name}_e"
        inputs = ChipBuffer(f"{name}X", Scope.INPUT, {part: self.depth, row: count}, config)
        sums = ChipBuffer(name, Scope.ACCUMULATOR, {block: self.blocks, row: count}, config)
        yield inputs.loaded(f"X[{part}, {begin} + {row}, 0, 0]")
        yield sums.zeros()
        weight = f"WL[{block} * {self.depth} + {part}, 0, 0]"
        loops = {block: self.blocks, part: self.depth, row: count}
        yield nest(loops, f"gemm({sums.element}, {inputs.element}, {weight})")
        for number in range(self.blocks):
            place, value = f"Z[{number}, {begin} + {row}, 0, 0]", f"{name}[{number}, {row}, 0, 0]"
            yield nest({row: count}, f"store_scaled({place}, {value}, PL[{number}, 0, 0, 0])")


def _most_rows(normal: Normal, sets: int, config: AcceleratorConfig, copies: int) -> int | None:
    """Return the most rows of which `copies` tiles fit the accumulators beside the parameters; None if no row
    fits.

    Args:
        sets: sets of parameters of requantisation.
    """
    held = normal.elements + sets * len(Parameter)
    if held > MOST_PARAMETER_SETS * len(Parameter):
        return None
    room = (config.depth(MemoryType.ACC) - held) // (normal.blocks * copies)
    return min(room, NORMAL_ROWS) if room > 0 else None


def _tiles(
    rows: int,
    most: int,
    threads: int,
    tile: Callable[[str, str, int], Iterator[str]],
    around: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield the statements of all rows. All tiles have the same size except the last, which is computed
    outside the loop over threads.

    Args:
        most: rows of a tile, at most.
        tile: yields the statements of a tile from a prefix of names, the first row, and the number of rows.
        around: loops around the loops over tiles.
    """
    rounds, size = rounds_of_tiles(rows, most, threads)
    done = rounds * threads * size
    if size:
        begin = f"outer * {threads * size} + thread * {size}"
        loops = {**around, "outer": rounds, "thread": threads}
        yield threaded(loops, tile("S", begin, size))
    if done < rows:
        yield nest(around, "\n".join(tile("R", str(done), rows - done)))
