"""Chains of convolutions: which a configuration supports, and their tiles, with buffers in the scratchpads
and estimated cycles."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import lcm, prod

from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.plane_tile import divisors, fit_memories
from vdla.compiler.te.operators.convolution import Windows, odd_pitch, windows_of
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import Convolution, blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

SETS = len(Parameter)
MOST_BLOCKS = 8
"""Limit of the blocks of channels of a unit."""
PARAMETER_TURNS = 3
"""Units whose parameters are in use: of a unit that is expanded, of the unit after it, whose parameters are
loaded meanwhile, and of the unit before it, whose depthwise results are requantised later."""
RESULT_TURNS = 2
"""Buffers of depthwise results that have separate buffers."""
UNIT_CYCLES = 30
"""Estimated cycles of a unit that do not overlap with other work."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A depthwise convolution, after a 1x1 convolution, before a 1x1 convolution, or both.

    Attributes:
        window: the depthwise convolution, whose windows slide.
        expansion: the convolution whose result it reads; None: it reads the input.
        projection: the convolution that reads its result; None: it writes the result.
    """

    window: ConvolutionTask
    expansion: ConvolutionTask | None = None
    projection: ConvolutionTask | None = None

    @property
    def stages(self) -> tuple[ConvolutionTask, ...]:
        """The convolutions, in order."""
        return tuple(stage for stage in (self.expansion, self.window, self.projection) if stage is not None)


@dataclass(frozen=True, slots=True)
class ChainTile:
    """A tile: rows of results, of all columns and all channels.

    Attributes:
        rows: rows of results.
        blocks: blocks of expanded channels of a unit.
        copies: sets of buffers of the input and of the sums of the projection, which tiles use in turn.
        sums: whether units take turns with the sums of the expansion and of the depthwise convolution.
    """

    rows: int
    blocks: int
    copies: int
    sums: bool


@dataclass(frozen=True)
class ChainPlan:
    """What a tile takes of the scratchpads, and its cycles."""

    chain: Chain
    tile: ChainTile
    config: AcceleratorConfig

    @property
    def size(self) -> Convolution:
        """The sizes of the depthwise convolution."""
        return self.chain.window.size

    @cached_property
    def units(self) -> int:
        """Units of a tile of rows."""
        return blocks(self.size.channels, self.config.block_in) // self.tile.blocks

    @property
    def tiles(self) -> int:
        """Tiles of rows of an image."""
        return self.size.out_size[0] // self.tile.rows

    @cached_property
    def inputs(self) -> int:
        """Blocks of channels that the expansion reads; 0 without an expansion."""
        expansion = self.chain.expansion
        return 0 if expansion is None else blocks(expansion.size.channels, self.config.block_in)

    @cached_property
    def outputs(self) -> int:
        """Blocks of channels that the projection computes; 0 without a projection."""
        projection = self.chain.projection
        return 0 if projection is None else blocks(projection.size.outputs, self.config.block_out)

    @cached_property
    def windows(self) -> Windows:
        """The windows that cover a depthwise kernel."""
        return windows_of(self.size, self.config)

    @property
    def covers(self) -> dict[str, int]:
        """Loops over the windows that cover a kernel."""
        return {"dy": self.windows.down, "dx": self.windows.across}

    @cached_property
    def held(self) -> tuple[int, int]:
        """Rows and columns of inputs, with the border, that the windows of a unit read."""
        rows, columns = (
            (count - 1) * stride + kernel
            for count, stride, kernel in zip(self.results, self.size.stride, self.size.kernel, strict=True)
        )
        return rows, columns

    @cached_property
    def pitch(self) -> int:
        """Elements from one row of a unit's inputs to the next: the border to the left of a row is the border
        to the right of the row before it."""
        left, columns = self.size.padding[1], self.held[1]
        pitch: int = odd_pitch(max(left + self.read[1], columns - left), self.windows)
        return pitch

    @cached_property
    def inputs_of_block(self) -> int:
        """Elements of a unit's inputs of a block of channels, with the border."""
        rows, columns = self.held
        return (rows - 1) * self.pitch + max(self.pitch, columns)

    @cached_property
    def results(self) -> tuple[int, int]:
        """Rows and columns of a unit's results."""
        return self.tile.rows, self.size.out_size[1]

    @property
    def first_row(self) -> int:
        """The first row of a unit's inputs that may hold pixels."""
        return self.size.padding[0] if self.tiles == 1 else 0

    @cached_property
    def read(self) -> tuple[int, int]:
        """Rows and columns of pixels that a unit reads at most."""
        (rows, columns), (top, left, _, _) = self.held, self.size.padding
        whole = min(self.size.height, rows - top) if self.tiles == 1 else rows
        return whole, min(self.size.width, columns - left)

    @property
    def below(self) -> int:
        """Rows of border at the end of the last tile."""
        begin = (self.tiles - 1) * self.tile.rows * self.size.stride[0] - self.size.padding[0]
        return max(0, begin + self.held[0] - self.size.height)

    @property
    def first_filled(self) -> int:
        """The first element of a unit's inputs of a block that is filled with the border once; the elements
        before it are loaded."""
        return 0 if self.chain.expansion is not None else self.held[0] * self.pitch

    @property
    def has_border(self) -> bool:
        """Whether some of a unit's inputs are the border and not loaded."""
        if self.chain.expansion is None:
            return self.first_filled < self.inputs_of_block
        return any((*self.size.padding[:2], self.below)) or self.inputs_of_block > prod(self.read)

    @property
    def weights(self) -> int:
        """Elements of weights of a unit."""
        return self.tile.blocks * (self.inputs + self.windows.count + self.outputs)

    @cached_property
    def keeps_weights(self) -> bool:
        """Whether the weights of all units stay on chip."""
        return self.units * self.weights <= self._weight_room

    @property
    def _weight_room(self) -> int:
        return self.config.depth(MemoryType.WGT)

    @property
    def sets(self) -> int:
        """Sets of parameters of a unit."""
        return self.tile.blocks * (1 + (self.chain.expansion is not None))

    @property
    def keeps_parameters(self) -> bool:
        """Whether the parameters of all units stay on chip."""
        return self.units * self.sets + self.outputs < MOST_PARAMETER_SETS

    @property
    def late(self) -> int:
        """Number of following units whose work begins before the work on a unit ends: 2 with a projection,
        else 1."""
        return 1 if self.chain.projection is None else 2

    @cached_property
    def results_apart(self) -> bool:
        """Whether depthwise results have separate buffers. Otherwise they overwrite the inputs, which then
        need one more buffer. In a chain with expansion and projection, whichever takes less room is
        chosen."""
        chained = self.chain.projection is not None and self.chain.expansion is not None
        return chained and 2 * prod(self.results) < self.inputs_of_block

    @property
    def input_turns(self) -> int:
        """Buffers of depthwise inputs."""
        return 2 if self.results_apart else 1 + self.late

    @property
    def sum_turns(self) -> int:
        """Sets of buffers of the sums of a unit."""
        return 2 if self.tile.sums else 1

    @property
    def parameter_turns(self) -> int:
        """Buffers of the parameters of a unit, unless those of all units stay on chip."""
        return self.units if self.keeps_parameters else min(self.units, PARAMETER_TURNS)

    @property
    def weight_turns(self) -> int:
        """Buffers of the weights of a unit, unless those of all units stay on chip."""
        if self.keeps_weights:
            return self.units
        return max(
            (turns for turns in (1 + self.late, self.period) if turns * self.weights <= self._weight_room),
            default=1 + self.late,
        )

    @property
    def period(self) -> int:
        """Number of consecutive units after which the same buffers are next in turn."""
        return lcm(self.input_turns, self.sum_turns, 1 + self.late, PARAMETER_TURNS)

    @property
    def fits(self) -> bool:
        """Whether all buffers fit the scratchpads, and results fit between the borders."""
        count, copies = self.tile.blocks, self.tile.copies
        results, read = prod(self.results), prod(self.read)
        sets = self.parameter_turns * self.sets + self.outputs
        expanded = read if self.chain.expansion is not None else 0
        taken = {
            MemoryType.INP: copies * self.inputs * read
            + count * self.input_turns * self.inputs_of_block
            + count * RESULT_TURNS * results * self.results_apart,
            MemoryType.WGT: self.weight_turns * self.weights,
            MemoryType.ACC: (sets + 1) * SETS
            + copies * self.outputs * results
            + self.sum_turns * count * (expanded + results),
            MemoryType.UOP: 8 * count * (self.inputs + self.windows.count * self.tile.rows + self.outputs),
        }
        return fit_memories(taken, self.config) and sets < MOST_PARAMETER_SETS and self._results_fit

    @property
    def first_result(self) -> tuple[int, int]:
        """Row and column of a unit's inputs that the first depthwise result overwrites: behind the border, if
        units that follow read the border, too."""
        top, left, _, _ = self.size.padding
        return (0, 0) if self.chain.expansion is None else (top, left)

    @property
    def _results_fit(self) -> bool:
        """Whether depthwise results that overwrite inputs overwrite neither each other nor the border."""
        if self.chain.projection is None or self.results_apart:
            return True
        (top, _), (rows, columns) = self.first_result, self.results
        if self.chain.expansion is None:
            return columns <= self.pitch and rows <= self.held[0]
        return top + rows <= self.held[0] - self.below and columns <= self.read[1]

    @property
    def cycles(self) -> float:
        """Estimated cycles: the multipliers, the store unit or the bus bound them."""
        config, count, images = self.config, self.tile.blocks, blocks(self.size.batch, self.config.batch)
        results, read = prod(self.results), prod(self.read)
        stored = blocks(config.block_out, config.values_per_store_read)
        row = self.windows.slots(self.results[1], self.size.stride[1])
        first = self.inputs * read
        second, third = self.tile.rows * row, self.outputs * results
        stores = stored * (read * (self.inputs > 0) + results * (1 + self.outputs / self.units / count))
        unit = count * max(first + second + third, stores) + UNIT_CYCLES / (2 if self.tile.sums else 1)
        element = config.element_bytes(MemoryType.INP) / config.bus_bytes
        loads = (self.inputs or self.units * count) * read * element
        last = (self.outputs or self.units * count) * results * element
        exposed = 0.0
        if self.tile.copies == 1 and self.tiles > 1:
            exposed += max(0, self.inputs * read * element - count * (second + third))
            exposed += max(0, self.outputs * results * stored - count * (first + second))
        weights = self.units * self.weights * config.element_bytes(MemoryType.WGT) / config.bus_bytes
        rounds = 1 if self.keeps_weights else self.tiles
        bus = self.tiles * (loads + last) + rounds * weights
        start = loads + self.late * unit + last
        return images * max(self.tiles * (self.units * unit + exposed), bus) + start


def _tiles(chain: Chain, config: AcceleratorConfig, copies: int) -> Iterator[ChainTile]:
    """Yield the tiles to choose from."""
    height, _ = chain.window.size.out_size
    for rows in divisors(height):
        for count in divisors(blocks(chain.window.size.channels, config.block_in)):
            if count <= MOST_BLOCKS:
                for held in range(1, min(copies, height // rows) + 1):
                    yield from (ChainTile(rows, count, held, sums) for sums in (False, True))


def chains(chain: Chain, config: AcceleratorConfig) -> bool:
    """Whether `config` supports convolutions as a chain: values between them are requantised into INP, and
    the depthwise results fit the buffer of its inputs."""
    needed = (Extension.FEEDBACK, Extension.REQUANTISE, Extension.DEPTHWISE)
    size = chain.window.size
    dense = (stage for stage in (chain.expansion, chain.projection) if stage is not None)
    return (
        all(config.has(extension) for extension in needed)
        and config.block_in == config.block_out
        and chain.window.slides
        and size.dilation == (1, 1)
        and not size.skips_rows
        and all(pads < size.kernel[place % 2] for place, pads in enumerate(size.padding))
        and all(stage.size.is_pointwise and not stage.alike for stage in dense)
        and all(stage.narrowing == Scale() for stage in chain.stages[:-1])
        and all(type(stage) is ConvolutionTask for stage in chain.stages)
        and best_tile(chain, config, 1) is not None
    )


@lru_cache(maxsize=1024)
def best_tile(chain: Chain, config: AcceleratorConfig, copies: int) -> ChainTile | None:
    """Return the tile with the fewest estimated cycles, with `copies` sets of buffers at most; None if no
    tile fits the scratchpads."""
    plans = (ChainPlan(chain, tile, config) for tile in _tiles(chain, config, copies))
    best = min((plan for plan in plans if plan.fits), key=lambda plan: plan.cycles, default=None)
    return None if best is None else best.tile
