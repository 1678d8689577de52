"""Pooling of planes: maxima of windows, by the ALU or on the multiplier array, and means of whole planes.

`PoolingTask` computes maxima by the ALU: inputs are loaded into the accumulators.

`MaximumTask` computes maxima of inputs that the multiplier array widens, by products with the identity. The
load unit loads the inputs, so loads overlap with work on other tiles. The products group rows and columns by
their phase of the stride. The maxima along columns of windows are computed first, then the maxima along rows.
Along each, the lines of a phase that a window holds are adjacent: maxima of one, two, four lines and so on
overwrite the first of their lines, and then the phases are combined. So accumulators need no initialisation,
windows share the maxima of smaller windows, and a kernel of k lines takes about log2(k) operations. If
windows hold a single line of the last phase, its maxima are contiguous for STOREs; else each row has a STORE.

`MeanTask` sums planes on the multiplier array; requantisation divides the sums by the number of elements.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.ir.nodes import Func, Scope, cast
from vdla.compiler.operands.address_map import AddressMap
from vdla.compiler.operands.interleaved import Interleaved, interleaved
from vdla.compiler.tasks.base import Choice, PartedTask, PlaneTile, divisors, plane_tile
from vdla.compiler.tasks.program_text import (
    IDENTITY,
    REQUANTISATION,
    SCALED,
    ChipBuffer,
    nest,
    operand_type,
    parse_program,
    threaded,
)
from vdla.compiler.tasks.scheduling import tensorize, virtual_threads
from vdla.compiler.te.operators.convolution import with_border
from vdla.compiler.te.operators.narrowing import LEAST
from vdla.compiler.te.operators.sizes import Pooling, blocks
from vdla.compiler.te.schedule import Schedule, create_schedule
from vdla.compiler.te.tensor import Tensor, compute, max_over, placeholder, reduce_axis
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter

SETS = len(Parameter)
Tile = tuple[int, int]  # rows and columns of the result
SUMMED = 256
"""Greatest tile of a mean, in elements: it is small, since the sums of the last tile do not overlap with
loads, but its LOAD takes longer than the latency of the memory."""


@dataclass(frozen=True)
class MaxPoolTensors:
    """The tensors of a max pooling, producers first.

    Attributes:
        inp: placeholder of the input, int8.
        wide: the padded input, widened to accumulators.
        greatest: the maximum of each window, in accumulators.
        out: the result, int8.
    """

    inp: Tensor
    wide: Tensor
    greatest: Tensor
    out: Tensor


def max_pool(size: Pooling, config: AcceleratorConfig) -> MaxPoolTensors:
    """Define max pooling of int8[n / batch, c / block_out, h, w, batch, block_out].

    The result is int8[n / batch, c / block_out, oh, ow, batch, block_out]. The padding is the least value of
    int8.

    Source: ONNX operator MaxPool.
    """
    b, o, acc = config.batch, config.block_out, f"int{config.acc_bits}"
    inp = placeholder(
        (blocks(size.batch, b), blocks(size.channels, o), size.height, size.width, b, o), "X", "int8"
    )
    wide = (
        with_border(inp, size.padding, LEAST, "XW", acc)
        if any(size.padding)
        else compute(inp.shape, lambda n, c, y, x, b, k: cast(acc, inp[n, c, y, x, b, k]), "XW")
    )
    dy, dx = reduce_axis(size.kernel[0], "dy"), reduce_axis(size.kernel[1], "dx")
    (sy, sx), shape = size.stride, (*inp.shape[:2], *size.out_size, b, o)
    greatest = compute(
        shape,
        lambda n, c, y, x, b, j: max_over(wide[n, c, y * sy + dy, x * sx + dx, b, j], (dy, dx), start=LEAST),
        "Y",
    )
    return MaxPoolTensors(
        inp,
        wide,
        greatest,
        compute(shape, lambda n, c, y, x, b, j: cast("int8", greatest[n, c, y, x, b, j]), "Z"),
    )


@dataclass(frozen=True, slots=True)
class PoolingTask(PartedTask[Tile]):
    """A max pooling by the ALU.

    Attributes:
        reads, writes: number of channel blocks of the input, and of the result, that are interleaved in DRAM
            pixel by pixel, see `vdla.compiler.operands.interleaved`.
    """

    size: Pooling
    reads: int = 1
    writes: int = 1

    @property
    def smallest(self) -> str:
        """The smallest tile."""
        return f"a window of {self.size.kernel}"

    def tile(self, config: AcceleratorConfig, copies: int) -> Tile | None:
        """Return the rows and columns of the largest tile whose inputs and result fit the accumulators; see
        `PartedTask.tile`."""
        size, room = self.size, config.depth(MemoryType.ACC) // copies
        (stride_y, stride_x), (kernel_y, kernel_x) = size.stride, size.kernel

        def elements(rows: int, columns: int) -> int:
            return rows * columns + ((rows - 1) * stride_y + kernel_y) * ((columns - 1) * stride_x + kernel_x)

        height, width = size.out_size
        whole = [(rows, width) for rows in range(blocks(height, copies), 0, -1)]
        partial = [(1, columns) for columns in range(width - 1, 0, -1)]
        return next((tile for tile in (*whole, *partial) if elements(*tile) <= room), None)

    def tiled(self, tile: Tile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program with a tile size."""
        operator = max_pool(self.size, config)
        return schedule_max_pool(operator, tile, config, threads=choice.threads).lower(verified=False)

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        size, count = self.size, blocks(self.size.channels, config.block_out)
        return interleaved(
            X=Interleaved(self.reads, size.height * size.width, count),
            Z=Interleaved(self.writes, prod(size.out_size), count),
        )


def schedule_max_pool(
    operator: MaxPoolTensors, tile: Tile, config: AcceleratorConfig, *, threads: int = 2
) -> Schedule:
    """Return the schedule of a max pooling with a tile size and `threads` virtual threads."""
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    handle = schedule[operator.out]
    n, c, y, x, b, j = handle.axis
    rows, columns = tile
    outer_y, inner_y = handle.split(y, rows)
    outer_x, inner_x = handle.split(x, columns)
    outer, thread = virtual_threads(handle, outer_y, threads)
    handle.reorder(n, c, outer_x, outer, *thread, inner_y, inner_x, b, j)
    place = [outer, *thread][-1]
    for tensor in (operator.greatest, operator.wide):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
        schedule[tensor].compute_at(operator.out, place)
    greatest = schedule[operator.greatest]
    dy, dx = greatest.reduce_axis
    spatial = greatest.axis
    greatest.reorder(*spatial[:2], dy, dx, *spatial[2:])
    tensorize(
        schedule,
        (
            (operator.wide, intrinsics.load_acc),
            (operator.greatest, intrinsics.alu),
            (operator.out, intrinsics.store),
        ),
    )
    return schedule


TILE_LOOPS = ("n", "c", "tx", "ty")
"""Loops over images, blocks of channels, tiles of columns, and tiles of rows."""


def pools_by_multiplier(config: AcceleratorConfig, size: Pooling) -> bool:
    """Whether `config` supports this max pooling: it pads with the least value if need be, and a window fits
    the scratchpads."""
    return (
        config.block_in == config.block_out
        and AluOpcode.MAX in config.alu_opcodes
        and (config.has(Extension.PAD_MINIMUM) or not any(size.padding))
        and MaximumTask(size).tile(config, 1) is not None
    )


@dataclass(frozen=True, slots=True)
class MaximaTile:
    """A tile of outputs.

    Attributes:
        rows, columns: size; divisors of the output's size.
        threaded: loop of TILE_LOOPS that becomes virtual threads.
    """

    rows: int
    columns: int
    threaded: str


@dataclass(frozen=True, slots=True)
class MaximumTask(PartedTask[MaximaTile]):
    """A max pooling on inputs that the multiplier array widens."""

    size: Pooling

    @property
    def smallest(self) -> str:
        """The smallest tile."""
        return f"a window of {self.size.kernel}"

    def tile(self, config: AcceleratorConfig, copies: int) -> MaximaTile | None:
        """Return the tile with the fewest input reads per output; see `PartedTask.tile`."""
        size = self.size
        room = min(config.depth(MemoryType.INP), config.depth(MemoryType.ACC)) // copies
        candidates = []
        for rows in divisors(size.out_size[0]):
            for columns in divisors(size.out_size[1]):
                read = _read(size, rows, columns)
                trips = _trips(size, config, rows, columns)
                shared = [loop for loop in reversed(TILE_LOOPS) if trips[loop] % copies == 0]
                if read[0] * read[1] <= room and shared:
                    cost = read[0] * read[1] / (rows * columns)
                    candidates.append((cost, -columns, MaximaTile(rows, columns, shared[0])))
        return min(candidates, key=lambda item: item[:2])[2] if candidates else None

    def tiled(self, tile: MaximaTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program. Its parameters are the identity weights W, the input X and the result Z,
        in blocks."""
        size, threads = self.size, choice.threads
        outer = blocks(size.batch, config.batch), blocks(size.channels, config.block_out)
        operands = {
            "X": operand_type(config, *outer, size.height, size.width),
            "Z": operand_type(config, *outer, *size.out_size),
        }
        trips = _trips(size, config, tile.rows, tile.columns)
        loops = {name: trips[name] for name in TILE_LOOPS if name != tile.threaded}
        loops |= {"outer": trips[tile.threaded] // threads, "thread": threads}
        at = {name: name for name in TILE_LOOPS} | {tile.threaded: f"(outer * {threads} + thread)"}
        body = _Body(size, config, tile, at).statements()
        return parse_program(operands, [threaded(loops, body)], config, [IDENTITY])


@dataclass(frozen=True)
class _Body:
    """The statements of a tile.

    Attributes:
        at: expression of the tile's position in each loop of TILE_LOOPS.
    """

    size: Pooling
    config: AcceleratorConfig
    tile: MaximaTile
    at: dict[str, str]

    def statements(self) -> Iterator[str]:
        """Yield the program, statement by statement."""
        rows, columns = _read(self.size, self.tile.rows, self.tile.columns)
        inputs = ChipBuffer("XL", Scope.INPUT, {"y": rows, "x": columns}, self.config)
        yield inputs.allocation
        yield inputs.each(self._load())
        sy, sx = self.size.stride
        for y, x in product(*self.phases):
            part = ChipBuffer(f"L{y}{x}", Scope.ACCUMULATOR, self._lines(y, x), self.config)
            yield part.zeros()
            source = f"XL[y * {sy} + {y}, x * {sx} + {x}, 0, 0]"
            yield part.each(f"gemm({part.element}, {source}, WL[0, 0, 0])")
        yield from self._combine()
        place = ", ".join((self.at["n"], self.at["c"], self._begin("ty", self.tile.rows) + " + y"))
        place += f", {self._begin('tx', self.tile.columns)} + x"
        y, x = (phases[-1] for phases in self.phases)
        yield nest(self._windows, f"store(Z[{place}, 0, 0], L{y}{x}[y, x, 0, 0])")

    def _begin(self, loop: str, step: int) -> str:
        return f"{self.at[loop]} * {step}"

    def _load(self) -> str:
        """Return the load of an input, which may be in the padding."""
        (sy, sx), (top, left, _, _) = self.size.stride, self.size.padding
        y = f"{self._begin('ty', self.tile.rows * sy)} + y"
        x = f"{self._begin('tx', self.tile.columns * sx)} + x"
        local, source = (
            "XL[y, x, 0, 0]",
            f"X[{self.at['n']}, {self.at['c']}, {y} - {top}, {x} - {left}, 0, 0]",
        )
        if not any(self.size.padding):
            return f"load_inp({local}, {source})"
        inside = (
            f"{top} <= {y} and {y} < {self.size.height + top} and "
            f"{left} <= {x} and {x} < {self.size.width + left}"
        )
        return f"load_inp_padded_least({local}, {source}, {inside})"

    @property
    def phases(self) -> tuple[range, range]:
        """The phases of rows and of columns that windows hold."""
        rows, columns = map(min, self.size.stride, self.size.kernel)
        return range(rows), range(columns)

    @property
    def _windows(self) -> dict[str, int]:
        """Loops over the windows of the tile."""
        return {"y": self.tile.rows, "x": self.tile.columns}

    def _held(self, axis: int, phase: int) -> int:
        """Return how many lines of a phase a window holds."""
        return len(range(phase, self.size.kernel[axis], self.size.stride[axis]))

    def _lines(self, y: int, x: int) -> dict[str, int]:
        """Return the loops over the inputs of a phase of rows and of columns."""
        rows, columns = self.tile.rows - 1, self.tile.columns - 1
        return {"y": rows + self._held(0, y), "x": columns + self._held(1, x)}

    def _combine(self) -> Iterator[str]:
        """Yield the maxima along columns, for the columns of each phase, then the maxima along rows."""
        rows, columns = self.phases
        for x in columns:
            loops = self._windows | {"x": self._lines(rows[-1], x)["x"]}
            yield from self._along(0, [f"L{y}{x}" for y in rows], loops)
        yield from self._along(1, [f"L{rows[-1]}{x}" for x in columns], self._windows)

    def _along(self, axis: int, parts: Sequence[str], loops: Mapping[str, int]) -> Iterator[str]:
        """Yield the maxima along an axis. The last part takes the maxima of all.

        Args:
            parts: buffers of inputs, one for each phase of the axis.
            loops: loops over the maxima.
        """
        name = tuple(loops)[axis]
        for phase, part in enumerate(parts):
            for step, more in _doubled(self._held(axis, phase)):
                shifted = f"{part}[{', '.join(f'{at} + {step * (at == name)}' for at in loops)}, 0, 0]"
                yield _greater({**loops, name: loops[name] + more}, part, shifted)
        for part in parts[:-1]:
            yield _greater(loops, parts[-1], f"{part}[{', '.join(loops)}, 0, 0]")


def _greater(loops: Mapping[str, int], part: str, candidate: str) -> str:
    """Return the statement that raises each element of a buffer to another element."""
    element = f"{part}[{', '.join(loops)}, 0, 0]"
    return nest(loops, f"max({element}, {element}, {candidate})")


def _doubled(lines: int) -> Iterator[tuple[int, int]]:
    """Yield the passes that compute the maximum of `lines` adjacent lines by doubling. A pass replaces m[i]
    by max(m[i], m[i + step]). Yield `step`, and the number of maxima that the pass computes beyond the number
    of windows, because later passes read them."""
    held = 1
    while held < lines:
        step = min(held, lines - held)
        held += step
        yield step, lines - held


def _read(size: Pooling, rows: int, columns: int) -> tuple[int, int]:
    """Return the rows and columns of input that a tile reads."""
    return (rows - 1) * size.stride[0] + size.kernel[0], (columns - 1) * size.stride[1] + size.kernel[1]


def _trips(size: Pooling, config: AcceleratorConfig, rows: int, columns: int) -> dict[str, int]:
    """Return the trips of the loops over tiles."""
    height, width = size.out_size
    trips = (
        blocks(size.batch, config.batch),
        blocks(size.channels, config.block_out),
        width // columns,
        height // rows,
    )
    return dict(zip(TILE_LOOPS, trips, strict=True))


@dataclass(frozen=True, slots=True)
class MeanTask(PartedTask[PlaneTile]):
    """The requantised sum of each plane.

    Attributes:
        blocks: number of channel blocks. The accumulators hold the sums of all blocks at once.
        elements: number of elements of a block, of `batch x block_out` numbers each.
    """

    blocks: int
    elements: int
    SMALLEST: ClassVar[str] = "one sum for each channel"

    def tile(self, config: AcceleratorConfig, copies: int) -> PlaneTile | None:
        """Return the tile; see `PartedTask.tile`."""
        if self.blocks + SETS > config.depth(MemoryType.ACC):
            return None
        depth = config.depth(MemoryType.INP)
        rooms = min(depth, copies * SUMMED), depth
        tiles = (plane_tile(self.blocks, self.elements, room, copies) for room in rooms)
        return next((tile for tile in tiles if tile is not None), None)

    def tiled(self, tile: PlaneTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of the requantised sums of X: int8[blocks, elements, batch, block].

        The parameters of the program are P, a single set for all channels, the image X, the identity weights
        W, and the result Z.
        """
        loops, block, element = tile.loops(self.blocks, self.elements, choice.threads)
        image = ChipBuffer("XL", Scope.INPUT, {"c": tile.blocks, "e": tile.elements}, config)
        sums = ChipBuffer("S", Scope.ACCUMULATOR, {"s": self.blocks}, config)
        body = (
            image.loaded(f"X[{block} + c, {element} + e, 0, 0]"),
            image.each(f"gemm(S[{block} + c, 0, 0], {image.element}, WL[0, 0, 0])"),
        )
        statements = (
            sums.zeros(),
            threaded(loops, body),
            sums.each(f"store_scaled(Z[s, 0, 0], {sums.element}, {SCALED})"),
        )
        operands = {
            "X": operand_type(config, self.blocks, self.elements),
            "Z": operand_type(config, self.blocks),
        }
        return parse_program(operands, statements, config, [REQUANTISATION, IDENTITY])
