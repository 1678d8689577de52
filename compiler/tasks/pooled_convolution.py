"""A convolution and the max pooling that alone reads its result, as one task.

The sums of the convolution stay in the accumulators. The ALU takes the greatest sum of each window, and only
the greatest sums are requantised and stored. Requantisation never decreases, so the results equal the results
of the separate operators.

The rows of sums are computed in groups: the window of row r of the result holds the rows of group r, and the
last rows of group r - 1, which stay in the accumulators (`W` below). So each row of sums is computed once.
Columns are grouped alike. In the accumulators, columns of equal place in their groups are contiguous, and
the greatest sums overwrite sums of a place that no other window reads, so STOREs find them contiguous.

Rows of the result take turns with several sets of buffers, so that the loads of a row, the sums of another
and the STOREs of a third overlap.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from typing import ClassVar

from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.operands.address_map import AddressMap
from vdla.compiler.operands.interleaved import Interleaved, interleaved
from vdla.compiler.tasks.base import Choice, PartedTask, divisors, fit_memories
from vdla.compiler.tasks.convolution import ConvolutionTask, GatheredTask
from vdla.compiler.tasks.program_text import (
    ChipBuffer,
    inside_image,
    nest,
    operand_type,
    padded_load,
    parse_program,
)
from vdla.compiler.te.operators.sizes import Convolution, Pooling, blocks, grouping
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter

SETS = len(Parameter)
MOST_PARTS = 16
"""Limit of the parts in which the columns of a tile are loaded and summed."""
PART_CYCLES = 40
"""Estimated cycles of a part that do not overlap with other work."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """The lines (rows, or columns) of sums along an axis of a pooling, in groups of `stride` lines.

    Line j of group g is line `g * stride + first + j`. Window g holds the lines `used` of group g, and the
    lines `shared` of group g - 1.

    Attributes:
        extent: number of lines.
        kernel, stride, before: of the pooling; `before` is the padding before the first line.
        windows: number of windows.
    """

    extent: int
    kernel: int
    stride: int
    before: int
    windows: int

    @property
    def first(self) -> int:
        """The first line of group 0; negative if it is in the padding."""
        return self.kernel - self.stride - self.before

    @property
    def used(self) -> range:
        """The lines of a group that its window holds."""
        return range(max(0, self.stride - self.kernel), self.stride)

    @property
    def shared(self) -> range:
        """The lines of a group that the next window holds, too."""
        return range(min(self.stride, 2 * self.stride - self.kernel), self.stride)

    def has(self, group: int, line: int) -> bool:
        """Whether a line of a group is not in the padding."""
        return 0 <= group * self.stride + self.first + line < self.extent

    @property
    def gathered(self) -> int | None:
        """The line of a group that the greatest sums overwrite: no other window reads it, and it is never
        in the padding. None if there is none."""
        unshared = range(self.used.start, self.shared.start)
        return next(
            (line for line in unshared if self.has(0, line) and self.has(self.windows - 1, line)), None
        )

    @property
    def begin(self) -> int:
        """The first group: -1 if a line before group 0 belongs to window 0, else 0."""
        return -1 if any(self.has(-1, line) for line in self.shared) else 0


@dataclass(frozen=True, slots=True)
class PooledTile:
    """A tile of results: blocks of channels, all rows, all columns.

    Attributes:
        outputs: blocks of channels.
        parts: numbers of groups of columns that are loaded and summed at a time, from the first group on.
    """

    outputs: int
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PooledTask(PartedTask[PooledTile]):
    """A convolution, the greatest sums of the windows of a max pooling, and their requantisation.

    Attributes:
        convolution: of one group of channels, requantised by parameters of each channel.
        pooling: of the convolution's result.
    """

    convolution: ConvolutionTask
    pooling: Pooling
    SMALLEST: ClassVar[str] = "a row of pooled sums"

    @property
    def rows(self) -> Grouped:
        """The rows of sums."""
        return self._grouped(0)

    @property
    def columns(self) -> Grouped:
        """The columns of sums."""
        return self._grouped(1)

    def _grouped(self, axis: int) -> Grouped:
        size = self.pooling
        extent = (size.height, size.width)[axis]
        return Grouped(extent, size.kernel[axis], size.stride[axis], size.padding[axis], size.out_size[axis])

    def tile(self, config: AcceleratorConfig, copies: int) -> PooledTile | None:
        """Return the tile with the fewest estimated cycles; see `PartedTask.tile`."""
        return _best_tile(self, config, copies)

    def tiled(self, tile: PooledTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program. Its parameters are the convolution's: the parameters P of requantisation,
        the input X, the weights W, and the result Z, in blocks."""
        return _PooledProgram(self, tile, choice.threads, config).program()

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        task, count = self.convolution, blocks(self.convolution.size.outputs, config.block_out)
        result = Interleaved(task.writes, prod(self.pooling.out_size), count)
        maps = {name: each for name, each in task.address_maps(config).items() if name != "Z"}
        return {**maps, **interleaved(Z=result)}


def pools_sums(task: ConvolutionTask, pooling: Pooling, config: AcceleratorConfig) -> bool:
    """Whether `config` supports a convolution and a max pooling of its result as a single task: windows
    overlap by less than half and hold no padding alone, and a tile fits the scratchpads."""
    fused = PooledTask(task, pooling)
    return (
        AluOpcode.MAX in config.alu_opcodes
        and config.has(Extension.REQUANTISE)
        and not (task.slides or task.alike)
        and grouping(task.size, config).count == 1
        and all(axis.gathered is not None for axis in (fused.rows, fused.columns))
        and fused.tile(config, 1) is not None
    )


def least_pooled_estimate(task: ConvolutionTask, pooling: Pooling, config: AcceleratorConfig) -> float:
    """Return the fewest estimated cycles of a convolution and a max pooling of its result as a single task;
    infinity if `config` does not support that."""
    if not pools_sums(task, pooling, config):
        return inf
    fused = PooledTask(task, pooling)
    tile = fused.tile(config, 1)
    assert tile is not None, "a tile of a supported task fits"
    return _Footprint(fused, tile, config).cycles


@lru_cache(maxsize=256)
def _best_tile(task: PooledTask, config: AcceleratorConfig, copies: int) -> PooledTile | None:
    outputs, columns = blocks(task.convolution.size.outputs, config.block_out), task.columns
    tiles = (
        PooledTile(count, _parts(columns, number))
        for count in divisors(outputs)
        for number in range(1, MOST_PARTS + 1)
    )
    footprints = (_Footprint(task, tile, config) for tile in tiles)
    fitting = [footprint for footprint in footprints if footprint.fits(copies)]
    best = min(fitting, key=lambda footprint: footprint.cycles, default=None)
    return None if best is None else best.tile


def _parts(columns: Grouped, number: int) -> tuple[int, ...]:
    """Return the sizes of at most `number` parts of the groups of columns."""
    groups = columns.windows - columns.begin
    size = blocks(groups, number)
    return (*[size] * (groups // size), *([groups % size] if groups % size else []))


@dataclass(frozen=True)
class _Footprint:
    """What a tile takes of the scratchpads, and its cycles."""

    task: PooledTask
    tile: PooledTile
    config: AcceleratorConfig

    @property
    def size(self) -> Convolution:
        """The sizes of the convolution."""
        return self.task.convolution.size

    @property
    def inputs(self) -> int:
        """Blocks of input channels."""
        return grouping(self.size, self.config).inputs

    @property
    def read(self) -> tuple[int, int]:
        """Rows and columns of input of the largest part."""
        lines, groups = self.task.rows.used, self.tile.parts[0]
        columns = (groups - 1) * self.task.columns.stride + len(self.task.columns.used)
        return self.size.lines_read(0, len(lines)), self.size.lines_read(1, columns)

    @property
    def steps(self) -> int:
        """Products of a sum."""
        return self.inputs * prod(self.size.kernel)

    def sums(self, lines: int) -> int:
        """Return the accumulators of so many rows of sums."""
        columns = self.task.columns
        return lines * len(columns.used) * self.tile.outputs * (columns.windows - columns.begin)

    def fits(self, copies: int) -> bool:
        """Whether the buffers fit the scratchpads if `copies` rows of the result are in work at the same
        time."""
        rows, outputs = self.task.rows, self.tile.outputs
        taken = {
            MemoryType.INP: copies * self.inputs * prod(self.read),
            MemoryType.WGT: outputs * self.steps,
            MemoryType.ACC: outputs * SETS
            + self.sums(copies * (rows.shared.start - rows.used.start) + len(rows.shared)),
            MemoryType.UOP: 4 * self.steps * min(outputs, len(self.task.columns.used)) * len(rows.used),
        }
        return fit_memories(taken, self.config) and outputs <= MOST_PARAMETER_SETS and self._loads_inside

    @property
    def _loads_inside(self) -> bool:
        """Whether no load by GATHER reads beyond the image."""
        columns = self.task.columns
        inside = columns.has(columns.begin, columns.used.start) and columns.has(
            columns.windows - 1, columns.stride - 1
        )
        return inside or not isinstance(self.task.convolution, GatheredTask)

    @property
    def _loaded_bytes(self) -> int:
        """Bytes that are loaded for an element of the input: a GATHER reads what its windows share once."""
        task = self.task.convolution
        return task.step if isinstance(task, GatheredTask) else self.config.element_bytes(MemoryType.INP)

    @property
    def cycles(self) -> float:
        """Estimated cycles: sums or loads bound them."""
        rows, config = self.task.rows, self.config
        times = blocks(self.size.batch, config.batch) * rows.windows
        tiles = blocks(self.size.outputs, config.block_out) // self.tile.outputs
        element = max(1.0, self._loaded_bytes / config.bus_bytes)
        high, _ = self.read
        wide = sum(self.size.lines_read(1, groups * self.task.columns.stride) for groups in self.tile.parts)
        loads = self.inputs * high * wide * element
        sums = self.sums(len(rows.used)) * self.steps
        weights = self.tile.outputs * self.steps * config.element_bytes(MemoryType.WGT) / config.bus_bytes
        return tiles * (weights + times * (max(loads, sums) + PART_CYCLES * len(self.tile.parts)))


@dataclass(frozen=True)
class _PooledProgram:
    """The program of a tile.

    Attributes:
        turns: number of sets of buffers, which rows of the result use in turn.
    """

    task: PooledTask
    tile: PooledTile
    turns: int
    config: AcceleratorConfig

    @property
    def size(self) -> Convolution:
        """The sizes of the convolution."""
        return self.task.convolution.size

    def program(self) -> Func:
        """Return the program."""
        config, size = self.config, self.size
        images, outputs = blocks(size.batch, config.batch), blocks(size.outputs, config.block_out)
        inputs = grouping(size, config).inputs
        operands = {
            "P": operand_type(config, outputs, SETS, scope=Scope.PARAMETERS),
            "X": f"int8[{images}, {inputs}, {size.height}, {size.width}, {config.batch}, {config.block_in}]",
            "W": operand_type(config, outputs, inputs, *size.kernel, scope=Scope.WEIGHT),
            "Z": operand_type(config, images, outputs, *self.task.pooling.out_size),
        }
        body = [*self._buffers(), nest({"n": images}, "\n".join(self._rows()))]
        return parse_program(operands, [nest({"og": outputs // self.tile.outputs}, "\n".join(body))], config)

    def _buffers(self) -> Iterator[str]:
        """Yield the allocations of all buffers, and the loads of parameters and weights."""
        config, count, rows = self.config, self.tile.outputs, self.task.rows
        footprint = _Footprint(self.task, self.tile, config)
        height, width = self.size.kernel
        kernel = {"k": count, "c": footprint.inputs, "dy": height, "dx": width}
        first = f"og * {count} + k"
        yield ChipBuffer("PL", Scope.PARAMETERS, {"k": count, "row": SETS}, config).loaded(
            f"P[{first}, row, 0, 0]"
        )
        yield ChipBuffer("WL", Scope.WEIGHT, kernel, config).loaded(f"W[{first}, c, dy, dx, 0, 0]")
        groups = self.task.columns.windows - self.task.columns.begin
        of_line = {"p": len(self.task.columns.used), "k": count, "x": groups}
        read = dict(zip("yx", footprint.read, strict=True))
        for turn in range(self.turns):
            yield ChipBuffer(f"X{turn}", Scope.INPUT, {"c": footprint.inputs, **read}, config).allocation
            unshared = {"l": rows.shared.start - rows.used.start, **of_line}
            yield ChipBuffer(f"S{turn}", Scope.ACCUMULATOR, unshared, config).allocation
        if rows.shared:
            yield ChipBuffer("SW", Scope.ACCUMULATOR, {"l": len(rows.shared), **of_line}, config).allocation

    def _rows(self) -> Iterator[str]:
        """Yield the statements of all rows of the result: a loop over the rows whose windows hold no padding,
        and the rows before and after it."""
        rows, turns = self.task.rows, self.turns
        if rows.begin < 0:
            yield from self._sums_before()
        whole = [row for row in range(rows.windows) if self._is_whole(row)]
        first = whole[0] if whole else rows.windows
        trips = len(whole) // turns
        for row in range(first):
            yield from self._row(row, row % turns)
        if trips:
            places = [(f"ty * {turns} + {first + turn}", (first + turn) % turns) for turn in range(turns)]
            yield nest({"ty": trips}, "\n".join(part for place in places for part in self._row(*place)))
        for row in range(first + trips * turns, rows.windows):
            yield from self._row(row, row % turns)

    def _is_whole(self, row: int) -> bool:
        """Whether the window of a row of the result holds no padding."""
        rows = self.task.rows
        before = row == 0 or all(rows.has(row - 1, line) for line in rows.shared)
        return (
            row >= -rows.begin
            and before
            and (row > 0 or not rows.shared)
            and all(rows.has(row, line) for line in rows.used)
        )

    def _lines(self, row: int | str, lines: range) -> range:
        """Return the lines of a group that are not in the padding; a row given by an expression has all."""
        rows = self.task.rows
        if isinstance(row, str):
            return lines
        valid = [line for line in lines if rows.has(row, line)]
        return range(valid[0], valid[-1] + 1) if valid else range(0)

    def _sums_before(self) -> Iterator[str]:
        """Yield the sums before group 0 that belong to the first window."""
        begin = self.task.columns.begin
        lines = self._lines(-1, self.task.rows.shared)
        for number, count in enumerate(self.tile.parts):
            held = number % self.turns
            yield self._load(-1, lines, held, begin, count)
            yield from self._sums("SW", self.task.rows.shared.start, lines, held, lines, begin, count)
            begin += count

    def _row(self, row: int | str, turn: int) -> Iterator[str]:
        """Yield the statements of a row of the result."""
        rows, columns = self.task.rows, self.task.columns
        unshared = self._lines(row, range(rows.used.start, rows.shared.start))
        shared = self._lines(row, rows.shared)
        earlier = self._lines(row - 1, rows.shared) if isinstance(row, int) else rows.shared
        both = range(unshared.start, shared.stop if shared else unshared.stop)
        begin = columns.begin
        for number, count in enumerate(self.tile.parts, turn * len(self.tile.parts)):
            held = number % self.turns
            yield self._load(row, both, held, begin, count)
            yield from self._sums(f"S{turn}", rows.used.start, unshared, held, both, begin, count)
            for line in earlier:
                yield self._greatest_of_rows(turn, "SW", line - rows.shared.start, begin, count)
            if shared:
                yield from self._sums("SW", rows.shared.start, shared, held, both, begin, count)
            for line in unshared:
                if line != rows.gathered:
                    yield self._greatest_of_rows(turn, f"S{turn}", line - rows.used.start, begin, count)
            for line in shared:
                yield self._greatest_of_rows(turn, "SW", line - rows.shared.start, begin, count)
            begin += count
        yield from self._greatest_of_columns(turn)
        yield self._store(row, turn)

    def _load(self, row: int | str, lines: range, held: int, begin: int, count: int) -> str:
        """Return the load of the inputs of lines of sums, for `count` groups of columns from `begin` on."""
        size, columns = self.size, self.task.columns
        last = (count - 1) * columns.stride + len(columns.used)
        top, left, _, _ = size.padding
        high, wide = size.lines_read(0, len(lines)), size.lines_read(1, last)
        down, across = size.stride
        y = (lines.start + self.task.rows.first) * down - top
        group = self.task.rows.stride * down
        x = (begin * columns.stride + columns.first + columns.used.start) * across - left
        firsts = (
            [row * group + y] * 2 if isinstance(row, int) else [y, (self.task.rows.windows - 1) * group + y]
        )
        place = f"{firsts[0]} + y" if isinstance(row, int) else f"({row}) * {group} + {y} + y"
        inside = [
            *inside_image(place, firsts[0], firsts[1] + high, size.height),
            *inside_image(f"{x} + x", x, x + wide, size.width),
        ]
        call = f"X{held}[c, y, x, 0, 0], X[n, c, {place}, {x} + x, 0, 0]"
        loops = {"c": grouping(size, self.config).inputs, "y": high, "x": wide}
        return nest(loops, self._padded(call, " and ".join(inside)))

    def _padded(self, operands: str, inside: str) -> str:
        """Return the load of an input, which is the border where the condition `inside` does not hold."""
        return padded_load(operands, inside, self.task.convolution.border)

    def _sums(
        self, buffer: str, first: int, lines: range, held: int, loaded: range, begin: int, count: int
    ) -> Iterator[str]:
        """Yield the statements that compute lines of sums into a buffer.

        Args:
            first: the first line that the buffer has.
            held: number of the buffer that holds the inputs of the lines `loaded`.
            begin, count: groups of columns.
        """
        size, columns = self.size, self.task.columns
        (down, across), (below, beside), (height, width) = size.stride, size.dilation, size.kernel
        loops = {"l": len(lines), "p": len(columns.used), "k": self.tile.outputs, "x": count}
        sums = f"{buffer}[l + {lines.start - first}, p, k, x + {begin - columns.begin}, 0, 0]"
        y = f"(l + {lines.start - loaded.start}) * {down} + dy * {below}"
        x = f"(x * {columns.stride} + p) * {across} + dx * {beside}"
        yield nest(loops, f"reset({sums})")
        products = {**loops, "c": grouping(size, self.config).inputs, "dy": height, "dx": width}
        yield nest(products, f"gemm({sums}, X{held}[c, {y}, {x}, 0, 0], WL[k, c, dy, dx, 0, 0])")

    def _greatest_of_rows(self, turn: int, buffer: str, line: int, begin: int, count: int) -> str:
        """Return the maxima of the gathered line of sums and of another line."""
        rows, columns = self.task.rows, self.task.columns
        assert rows.gathered is not None, "the rule of this task has checked it"
        loops = {"p": len(columns.used), "k": self.tile.outputs, "x": count}
        place = f"p, k, x + {begin - columns.begin}, 0, 0]"
        gathered = f"S{turn}[{rows.gathered - rows.used.start}, {place}"
        return nest(loops, f"max({gathered}, {gathered}, {buffer}[{line}, {place})")

    def _greatest_of_columns(self, turn: int) -> Iterator[str]:
        """Yield the maxima along the windows of the gathered line."""
        columns = self.task.columns
        groups = range(columns.windows)
        for back, lines in ((0, columns.used), (1, columns.shared)):
            for line in lines:
                valid = [group for group in groups if columns.has(group - back, line)]
                if valid and (back or line != columns.gathered):
                    first = valid[0]
                    gathered = self._gathered(turn, columns.gathered, first)
                    candidate = self._gathered(turn, line, first - back)
                    loops = {"k": self.tile.outputs, "x": len(valid)}
                    yield nest(loops, f"max({gathered}, {gathered}, {candidate})")

    def _gathered(self, turn: int, column: int | None, group: int) -> str:
        """Return a sum of the gathered line, in column `column` of group `group + x`."""
        rows, columns = self.task.rows, self.task.columns
        assert rows.gathered is not None, "the rule of this task has checked it"
        assert column is not None, "the rule of this task has checked it"
        line, place = rows.gathered - rows.used.start, column - columns.used.start
        return f"S{turn}[{line}, {place}, k, x + {group - columns.begin}, 0, 0]"

    def _store(self, row: int | str, turn: int) -> str:
        """Return the requantisation and the STORE of a row of the result."""
        columns = self.task.columns
        result = f"Z[n, og * {self.tile.outputs} + k, {row}, x, 0, 0]"
        loops = {"k": self.tile.outputs, "x": columns.windows}
        return nest(
            loops, f"store_scaled({result}, {self._gathered(turn, columns.gathered, 0)}, PL[k, 0, 0, 0])"
        )
