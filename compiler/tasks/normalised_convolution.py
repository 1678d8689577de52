"""A convolution, and the normalisation of the channels of each pixel of its result, as one task.

A unit is a block of channels of a tile of pixels. The accumulators hold the sums of all units of a tile, in a
ring in which the units of the next tile follow. The store unit gathers the statistics of a unit and writes
the units of a complete tile, while the multipliers compute further units.

Sums over windows load the input of each unit. Products load the input of a tile, which all of its units read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import ClassVar, NamedTuple

from vdla.compiler.codegen.epilogue import Epilogue
from vdla.compiler.codegen.normalising_stores import Normal
from vdla.compiler.codegen.tiles import tile_sizes
from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.operands.address_map import AddressMap
from vdla.compiler.tasks.base import Choice, PartedTask, fit_memories
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.program_text import (
    ChipBuffer,
    ConstantOperand,
    inside_image,
    nest,
    operand_type,
    padded_load,
    parse_program,
    where,
    window_places,
)
from vdla.compiler.te.operators.convolution import Windows, odd_pitch, windows_of
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import Convolution, blocks, grouping
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS, NORMAL_ROWS
from vdla.hw.spec.vocabulary import MemoryType, Parameter, Statistic

UNIT_CYCLES = 30
"""Estimated cycles of a unit that do not overlap with other work."""
SHARPNESS = 3
"""Order of the norm over the bounds of a task: bounds of similar size interfere."""


@dataclass(frozen=True, slots=True)
class NormalisedTile:
    """A tile of pixels of the result.

    Attributes:
        rows, columns: extents of the tile; the last tiles of an axis may be smaller.
        ring: number of units whose sums the accumulators hold.
    """

    rows: int
    columns: int
    ring: int

    @property
    def pixels(self) -> int:
        """Pixels of the tile."""
        return self.rows * self.columns


@dataclass(frozen=True, slots=True)
class NormalisedTask(PartedTask[NormalisedTile]):
    """A convolution, and the normalisation of the channels of each pixel by mean and standard deviation.

    Attributes:
        convolution: depthwise by windows, or of one group of channels; requantised by parameters of each
            channel.
        blocks: blocks of channels of its result.
    """

    convolution: ConvolutionTask
    blocks: int
    SMALLEST: ClassVar[str] = "a pixel of all channels"

    @property
    def normal(self) -> Normal:
        """The normalisation of the rows."""
        return Normal(Statistic.MOMENTS, self.blocks, self.blocks)

    @property
    def epilogue(self) -> Epilogue:
        """The epilogue of the STOREs; see `Task.epilogue`."""
        return Epilogue(normal=self.normal)

    def tile(self, config: AcceleratorConfig, copies: int) -> NormalisedTile | None:
        """Return the tile with the fewest estimated cycles, with `copies` buffers of inputs; see
        `PartedTask.tile`."""
        return _best_tile(self, config, copies)

    def tiled(self, tile: NormalisedTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of the requantised convolution; the epilogue of its STOREs normalises each
        tile. Its parameters are the convolution's: the parameters P of requantisation, the input X, the
        weights W, and the result Z, in blocks."""
        return _NormalisedProgram(self, tile, config, choice.copies).program()

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        return self.convolution.address_maps(config)


def normalises_sums(task: ConvolutionTask, config: AcceleratorConfig) -> bool:
    """Whether the program of a `NormalisedTask` can compute a convolution."""
    whole = task.slides or grouping(task.size, config).count == 1
    dense = task.reads == task.writes == 1
    return whole and dense and not task.alike and task.narrowing == Scale()


class _Band(NamedTuple):
    """Equal tiles along an axis: `tiles` tiles of `extent` lines from line `first` on."""

    first: int
    extent: int
    tiles: int


def _bands(lines: int, extent: int) -> list[_Band]:
    """Return the tiles of an axis: whole tiles, and a smaller last tile if they leave lines."""
    count, rest = divmod(lines, extent)
    bands = _Band(0, extent, count), _Band(lines - rest, rest, 1)
    return [band for band in bands if band.extent and band.tiles]


@lru_cache(maxsize=256)
def _best_tile(task: NormalisedTask, config: AcceleratorConfig, copies: int) -> NormalisedTile | None:
    plans = (
        _Plan(task, NormalisedTile(rows, columns, ring), config)
        for rows, columns in product(*map(tile_sizes, task.convolution.size.out_size))
        if (ring := _ring(task, rows * columns, config))
    )
    fitting = [plan for plan in plans if plan.fits(copies)]
    best = min(fitting, key=lambda plan: plan.cycles, default=None)
    return None if best is None else best.tile


def _ring(task: NormalisedTask, pixels: int, config: AcceleratorConfig) -> int:
    """Return the units of so many pixels whose sums the accumulators hold beside the parameters: those of a
    tile, and the first unit of the next tile; 0 if they do not hold a tile.

    The other units of the next tile wait for STOREs of the tile before. So the LOADs behind them run while
    the store unit gathers statistics and leaves the bus idle.
    """
    parameters = task.normal.elements + task.blocks * len(Parameter)
    if parameters > MOST_PARAMETER_SETS * len(Parameter) or pixels > NORMAL_ROWS:
        return 0
    units = (config.depth(MemoryType.ACC) - parameters) // pixels
    return min(units, task.blocks + 1) if units >= task.blocks else 0


@dataclass(frozen=True)
class _Plan:
    """What a tile takes of the scratchpads, and its cycles."""

    task: NormalisedTask
    tile: NormalisedTile
    config: AcceleratorConfig

    @property
    def size(self) -> Convolution:
        """The sizes of the convolution."""
        return self.task.convolution.size

    @cached_property
    def windows(self) -> Windows | None:
        """The windows that cover a kernel; None: products compute the sums."""
        return windows_of(self.size, self.config) if self.task.convolution.slides else None

    @property
    def inputs(self) -> int:
        """Blocks of input channels of a unit."""
        return 1 if self.windows else grouping(self.size, self.config).inputs

    @property
    def terms(self) -> dict[str, int]:
        """Loops over the weights of a block of channels."""
        if self.windows:
            return {"dy": self.windows.down, "dx": self.windows.across}
        height, width = self.size.kernel
        return {"c": self.inputs, "dy": height, "dx": width}

    @property
    def weights(self) -> int:
        """Elements of weights of all blocks of channels."""
        return self.task.blocks * prod(self.terms.values())

    @property
    def images(self) -> int:
        """Images of the input."""
        return blocks(self.size.batch, self.config.batch)

    def read(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the rows of input that a tile reads, and the elements from one row on chip to the next."""
        high, wide = self.size.lines_read(0, rows), self.size.lines_read(1, columns)
        return high, odd_pitch(wide, self.windows) if self.windows else wide

    def fits(self, copies: int) -> bool:
        """Whether the buffers fit the scratchpads with `copies` buffers of inputs."""
        taken = {
            MemoryType.INP: copies * self.inputs * prod(self.read(self.tile.rows, self.tile.columns)),
            MemoryType.WGT: self.weights,
            MemoryType.UOP: 4 * prod(self.terms.values()),
        }
        return fit_memories(taken, self.config)

    @property
    def cycles(self) -> float:
        """Estimated cycles: sums, the store unit and the bus bound them; the last tile is written after its
        sums. Without units beyond a tile, each tile waits for the STORE of the tile before it."""
        config, task, (rows, columns) = self.config, self.task, self.size.out_size
        bands = [_bands(extent, part) for extent, part in self._axes]
        pixels = task.blocks * rows * columns
        read = config.element_bytes(MemoryType.OUT) / config.store_read_bytes
        loaded = self.inputs * (task.blocks if self.windows else 1) * prod(map(self._lines_loaded, (0, 1)))
        elements = {MemoryType.INP: loaded, MemoryType.WGT: self.weights, MemoryType.OUT: pixels}
        moved = sum(count * config.element_bytes(memory) for memory, count in elements.items())
        units = task.blocks * prod(sum(band.tiles for band in axis) for axis in bands)
        bounds = self._slots, 2 * read * pixels, moved / config.bus_bytes
        last = task.blocks * prod(axis[-1].extent for axis in bands) * read
        waits = 2 * read * self.tile.pixels * units / task.blocks * (self.tile.ring == task.blocks)
        steady: float = sum(bound**SHARPNESS for bound in bounds) ** (1 / SHARPNESS)
        return self.images * (steady + UNIT_CYCLES * units + waits) + last

    @property
    def _axes(self) -> list[tuple[int, int]]:
        """The lines of the result and of a tile, along both axes."""
        return list(zip(self.size.out_size, (self.tile.rows, self.tile.columns), strict=True))

    @property
    def _slots(self) -> int:
        """Slots of the sums of an image."""
        rows, columns = self.size.out_size
        if self.windows is None:
            return rows * columns * self.weights
        across = _bands(columns, self.tile.columns)
        return (
            self.task.blocks
            * rows
            * sum(band.tiles * self.windows.slots(band.extent, self.size.stride[1]) for band in across)
        )

    def _lines_loaded(self, axis: int) -> int:
        """Return the lines of input along an axis that all tiles load together, without the border."""
        extent = (self.size.height, self.size.width)[axis]
        return sum(
            min(first + self.size.lines_read(axis, band.extent), extent) - max(first, 0)
            for band in _bands(*self._axes[axis])
            for place in range(band.tiles)
            for first in [
                (band.first + place * band.extent) * self.size.stride[axis] - self.size.padding[axis]
            ]
        )


@dataclass(frozen=True)
class _NormalisedProgram(_Plan):
    """The program of a tile.

    Attributes:
        turns: number of buffers of inputs, which units or tiles use in turn.
    """

    turns: int

    def program(self) -> Func:
        """Return the program."""
        config, size, count = self.config, self.size, self.task.blocks
        channels = blocks(size.channels, config.block_in)
        shape = self.images, channels, size.height, size.width, config.batch, config.block_in
        operands = {
            "X": f"int8[{', '.join(map(str, shape))}]",
            "W": operand_type(config, count, *self.terms.values(), scope=Scope.WEIGHT),
            "Z": operand_type(config, self.images, count, *size.out_size),
        }
        constants = [ConstantOperand("P", Scope.PARAMETERS, count)]
        tiles = nest({"n": self.images}, "\n".join(self._tiles()))
        return parse_program(operands, [*self._buffers(), tiles], config, constants)

    def _buffers(self) -> Iterator[str]:
        """Yield the allocations of the weights, of the inputs and of the sums."""
        read = prod(self.read(self.tile.rows, self.tile.columns))
        inputs = {"t": self.turns, "e": self.inputs * read}
        sums = {"u": self.tile.ring, "e": self.tile.pixels}
        yield ChipBuffer("WL", Scope.WEIGHT, {"g": self.task.blocks, **self.terms}, self.config).allocation
        yield ChipBuffer("XL", Scope.INPUT, inputs, self.config).allocation
        yield ChipBuffer("S", Scope.ACCUMULATOR, sums, self.config).allocation

    def _tiles(self) -> Iterator[str]:
        """Yield the statements of the tiles of an image."""
        down, across = (_bands(*axis) for axis in self._axes)
        tiles = prod(sum(band.tiles for band in axis) for axis in (down, across))
        first = 0
        for rows, columns in product(down, across):
            step = f"step = n * {tiles} + ty * {columns.tiles} + tx + {first}"
            unit = [f"unit = step * {self.task.blocks} + g", f"slot = unit % {self.tile.ring}"]
            load = [f"turn = {'unit' if self.windows else 'step'} % {self.turns}", self._load(rows, columns)]
            before, inside = ([], load) if self.windows else (load, [])
            units = nest({"g": self.task.blocks}, "\n".join([*unit, *inside, *self._unit(rows, columns)]))
            yield nest({"ty": rows.tiles, "tx": columns.tiles}, "\n".join([step, *before, units]))
            first += rows.tiles * columns.tiles

    def _load(self, rows: _Band, columns: _Band) -> str:
        """Return the load of the inputs of a tile, or of one of its units, with their border."""
        size, (high, wide) = self.size, self.read(rows.extent, columns.extent)
        places, inside = list[str](), list[str]()
        for axis, (tile, pixel, band, read, extent) in enumerate(
            (("ty", "y", rows, high, size.height), ("tx", "x", columns, wide, size.width))
        ):
            begin = band.first * size.stride[axis] - size.padding[axis]
            step = band.extent * size.stride[axis]
            places.append(f"{tile} * {step} + {pixel} + {begin}")
            inside += inside_image(places[axis], begin, begin + (band.tiles - 1) * step + read, extent)
        block = "g" if self.windows else "c"
        call = f"XL[turn, (c * {high} + y) * {wide} + x, 0, 0], X[n, {block}, {', '.join(places)}, 0, 0]"
        loops = {"c": self.inputs, "y": high, "x": wide}
        return nest(loops, padded_load(call, " and ".join(inside), self.task.convolution.border))

    def _unit(self, rows: _Band, columns: _Band) -> Iterator[str]:
        """Yield the sums and the STORE of a unit."""
        loops = {"y": rows.extent, "x": columns.extent}
        sums = f"S[slot, y * {columns.extent} + x, 0, 0]"
        weights = f"g, {', '.join(self.terms)}, 0, 0]"
        yield where("step < 1", nest(self.terms, f"load_wgt(WL[{weights}, W[{weights})"))
        yield nest(loops, f"reset({sums})")
        yield nest({**loops, **self.terms}, self._term(sums, *self.read(rows.extent, columns.extent)))
        y, x = (
            f"{tile} * {band.extent} + {pixel} + {band.first}"
            for tile, pixel, band in (("ty", "y", rows), ("tx", "x", columns))
        )
        yield nest(loops, f"store_scaled(Z[n, g, {y}, {x}, 0, 0], {sums}, PL[g, 0, 0, 0])")

    def _term(self, sums: str, high: int, wide: int) -> str:
        """Return the intrinsic that adds a window, or a product, to the sums of a unit.

        Args:
            high, wide: rows of input on chip, and elements from one row to the next.
        """
        weights = f"WL[g, {', '.join(self.terms)}, 0, 0]"
        if self.windows:
            inputs = ", ".join(
                f"XL[turn, ({row}) * {wide} + {column}, 0, 0]"
                for row, column in window_places(self.windows, self.size)
            )
            return f"{self.windows.intrinsic}({sums}, {inputs}, {weights})"
        (down, across), (below, beside) = self.size.stride, self.size.dilation
        row, column = f"c * {high} + y * {down} + dy * {below}", f"x * {across} + dx * {beside}"
        return f"gemm({sums}, XL[turn, ({row}) * {wide} + {column}, 0, 0], {weights})"
