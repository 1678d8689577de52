"""Chains of convolutions: which a configuration supports, and their tiles, with buffers in the scratchpads
and estimated cycles."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import lcm, prod

from vdla.compiler.tasks.base import WEIGHTS, divisors, fit_memories
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.te.operators.convolution import Windows, odd_pitch, windows_of
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import Convolution, blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.runtime.host.windows import spans

SETS = len(Parameter)
MOST_BLOCKS = 8
"""Limit of the blocks of channels of a unit."""
PARAMETER_TURNS = 3
"""Units whose parameters are in use: of a unit that is expanded, of the unit after it, whose parameters are
loaded meanwhile, and of the unit before it, whose depthwise results are requantised later."""
COPIES = 2
"""Sets of buffers of a tile by default. A smaller number fits if this number fits."""
MOST_COPIES = 4
"""Limit of the sets of buffers of a tile."""
RESULT_TURNS = 2
"""Buffers of depthwise results that have separate buffers."""
UNIT_CYCLES = 120
"""Estimated cycles of a unit that do not overlap with other work; half as many if units take turns with sums.
Fitted to the chains of MobileNetV1, V2 and V3-small, ShuffleNetV2 and EfficientNet-B0."""

PARAMETER_CYCLES = 600
"""Estimated cycles of a load of parameters, while all bursts that may be in flight are weights."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A depthwise convolution, after a convolution without a border, before a 1x1 convolution, or both.

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

    @property
    def weights(self) -> tuple[str, ...]:
        """The program's names of the weights of the convolutions."""
        return (*(f"{WEIGHTS}{place}" for place in range(len(self.stages) - 1)), WEIGHTS)


@dataclass(frozen=True, slots=True)
class ChainTile:
    """A tile: rows and columns of results, of all channels.

    Attributes:
        rows, columns: of results.
        blocks: blocks of expanded channels of a unit.
        copies: sets of buffers of the input and of the sums of the projection, which tiles use in turn.
        sums: whether units take turns with the sums of the expansion and of the depthwise convolution.
        parts: parts of the projected channels. All tiles of an image are computed for each part, so that the
            weights of a part stay on chip.
    """

    rows: int
    columns: int
    blocks: int
    copies: int
    sums: bool
    parts: int


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

    @property
    def image(self) -> tuple[int, int]:
        """Rows and columns of the depthwise input."""
        return self.size.height, self.size.width

    @cached_property
    def units(self) -> int:
        """Units of a tile."""
        return blocks(self.size.channels, self.config.block_in) // self.tile.blocks

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Tiles of an image, below each other and side by side. The tiles that stand below each other are a
        strip."""
        rows, columns = self.size.out_size
        return rows // self.tile.rows, columns // self.tile.columns

    @property
    def tiles(self) -> int:
        """Tiles of an image."""
        return prod(self.counts)

    @property
    def steps(self) -> int:
        """Tiles that are computed for an image: each tile for each part of the projected channels."""
        return self.tile.parts * self.tiles

    @property
    def strip_units(self) -> int:
        """Units of a strip."""
        return self.counts[0] * self.units

    @cached_property
    def inputs(self) -> int:
        """Blocks of channels that the expansion reads; 0 without an expansion."""
        expansion = self.chain.expansion
        return 0 if expansion is None else blocks(expansion.size.channels, self.config.block_in)

    @cached_property
    def all_outputs(self) -> int:
        """Blocks of channels that the projection computes; 0 without a projection."""
        projection = self.chain.projection
        return 0 if projection is None else blocks(projection.size.outputs, self.config.block_out)

    @property
    def outputs(self) -> int:
        """Blocks of channels that the projection computes for a tile; 0 without a projection."""
        return self.all_outputs // self.tile.parts

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
        """Elements from one row of a unit's inputs to the next. In a tile of whole rows, the border to the
        left of a row is the border to the right of the row before it."""
        left, columns = self.size.padding[1], self.held[1]
        whole = self.counts[1] == 1
        pitch: int = odd_pitch(max(left + self.read[1], columns - left) if whole else columns, self.windows)
        return pitch

    @cached_property
    def inputs_of_block(self) -> int:
        """Elements of a unit's inputs of a block of channels, with the border."""
        rows, columns = self.held
        return (rows - 1) * self.pitch + max(self.pitch, columns)

    @cached_property
    def results(self) -> tuple[int, int]:
        """Rows and columns of a unit's results."""
        return self.tile.rows, self.tile.columns

    @property
    def first_pixel(self) -> tuple[int, int]:
        """The first row and column of a unit's inputs that may hold pixels."""
        top, left = (
            pads if count == 1 else 0 for pads, count in zip(self.size.padding[:2], self.counts, strict=True)
        )
        return top, left

    @cached_property
    def read(self) -> tuple[int, int]:
        """Rows and columns of pixels that a unit reads at most."""
        rows, columns = (
            min(extent, held - pads) if count == 1 else held
            for extent, held, pads, count in zip(
                self.image, self.held, self.size.padding[:2], self.counts, strict=True
            )
        )
        return rows, columns

    @cached_property
    def beyond(self) -> tuple[int, int]:
        """Rows and columns of border at the end of the last tile."""
        below, right = (
            max(0, (count - 1) * extent * stride - pads + held - whole)
            for count, extent, stride, pads, held, whole in zip(
                self.counts,
                self.results,
                self.size.stride,
                self.size.padding[:2],
                self.held,
                self.image,
                strict=True,
            )
        )
        return below, right

    @property
    def mean_read(self) -> float:
        """Pixels that a unit reads on average: tiles at the edges of the image read fewer."""
        rows, columns = (
            read if count == 1 else read - (pads + beyond) / count
            for read, count, pads, beyond in zip(
                self.read, self.counts, self.size.padding[:2], self.beyond, strict=True
            )
        )
        return rows * columns

    @property
    def taps(self) -> dict[str, int]:
        """Loops over the kernel of the expansion."""
        expansion = self.chain.expansion
        return {} if expansion is None else dict(zip(("ky", "kx"), expansion.size.kernel, strict=True))

    @cached_property
    def taken(self) -> tuple[int, int]:
        """Rows and columns of the input that the expansion of a unit reads at most."""
        expansion = self.chain.expansion
        if expansion is None:
            return self.read
        rows, columns = (
            (count - 1) * stride + span
            for count, stride, span in zip(
                self.read,
                expansion.size.stride,
                spans(expansion.size.kernel, expansion.size.dilation),
                strict=True,
            )
        )
        return rows, columns

    @property
    def first_filled(self) -> int:
        """The first element of a unit's inputs of a block that is filled with the border; the elements before
        it are loaded."""
        return 0 if self.chain.expansion is not None else self.held[0] * self.pitch

    @property
    def has_border(self) -> bool:
        """Whether some of a unit's inputs are the border and not loaded."""
        if self.chain.expansion is None:
            return self.first_filled < self.inputs_of_block
        return any((*self.size.padding[:2], *self.beyond)) or self.inputs_of_block > prod(self.read)

    @property
    def weights(self) -> int:
        """Elements of weights of a unit."""
        return self.tile.blocks * (self.products + self.windows.count + self.outputs)

    @property
    def products(self) -> int:
        """Products of a sum of the expansion."""
        return self.inputs * prod(self.taps.values())

    @cached_property
    def keeps_weights(self) -> bool:
        """Whether the weights of all units stay on chip, for a part of the projected channels. Those of the
        next part are loaded while up to `late` units of the part before are not yet projected."""
        room = self.units * self.weights <= self._weight_room
        return room and (self.tile.parts == 1 or self.units > self.late)

    @property
    def leaves_weights(self) -> bool:
        """Whether no weights are overwritten once they are on chip."""
        return self.keeps_weights and self.tile.parts == 1

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
        """Buffers of the parameters of a unit, unless the parameters of all units stay on chip."""
        return self.units if self.keeps_parameters else min(self.units, PARAMETER_TURNS)

    @property
    def weight_turns(self) -> int:
        """Buffers of the weights of a unit, unless the weights of all units stay on chip."""
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
            MemoryType.INP: copies * self.inputs * prod(self.taken)
            + count * self.input_turns * self.inputs_of_block
            + count * RESULT_TURNS * results * self.results_apart,
            MemoryType.WGT: self.weight_turns * self.weights,
            MemoryType.ACC: (sets + 1) * SETS
            + copies * self.outputs * results
            + self.sum_turns * count * (expanded + results),
            MemoryType.UOP: 8 * count * (self.products + self.windows.count * self.tile.rows + self.outputs),
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
        if self.chain.expansion is None:
            return self.results[1] <= self.pitch and self.results[0] <= self.held[0]
        return all(
            first + count <= held - beyond
            for first, count, held, beyond in zip(
                self.first_result, self.results, self.held, self.beyond, strict=True
            )
        )

    @property
    def cycles(self) -> float:
        """Estimated cycles: the multipliers, the store unit or the bus bound them."""
        config, count, images = self.config, self.tile.blocks, blocks(self.size.batch, self.config.batch)
        results, read = prod(self.results), self.mean_read
        stored = blocks(config.block_out, config.values_per_store_read)
        row = self.windows.slots(self.results[1], self.size.stride[1])
        first = self.products * read
        second, third = self.tile.rows * row, self.outputs * results
        stores = stored * (read * (self.inputs > 0) + results * (1 + self.outputs / self.units / count))
        unit = count * max(first + second + third, stores) + UNIT_CYCLES / (2 if self.tile.sums else 1)
        if not self.keeps_parameters and (self.steps == 1 or not self.leaves_weights):
            unit += max(0, PARAMETER_CYCLES - count * (first or third))
        element = config.element_bytes(MemoryType.INP) / config.bus_bytes
        loads = (self.inputs * prod(self.taken) or self.units * count * read) * element
        last = (self.outputs or self.units * count) * results * element
        exposed = 0.0
        if self.tile.copies == 1 and self.steps > 1:
            exposed += max(0, self.inputs * prod(self.taken) * element - count * (second + third)) / 2
            results_stored = self.outputs * results * stored
            exposed += max(0, results_stored - count * (self.late * first + second))
            exposed += results_stored / 2 * min(1, count * stores / unit) ** 8
        weights = self.units * self.weights * config.element_bytes(MemoryType.WGT) / config.bus_bytes
        rounds = self.tile.parts if self.keeps_weights else self.steps
        bus = self.steps * (loads + last) + rounds * weights
        least, most = sorted((self.steps * (self.units * unit + exposed), bus))
        return images * (most + least / 8) + self.late * unit


def plans(chain: Chain, config: AcceleratorConfig, copies: int) -> Iterator[ChainPlan]:
    """Yield the plans to choose from. Of plans that differ in sets of buffers alone, it yields the plan
    with the most sets that fit the scratchpads, `copies` at most."""
    height, width = chain.window.size.out_size
    channels, parts = blocks(chain.window.size.channels, config.block_in), [1]
    if chain.projection is not None and chain.expansion is None:
        parts = divisors(blocks(chain.projection.size.outputs, config.block_out))
    counts = (count for count in divisors(channels) if count <= MOST_BLOCKS)
    for rows, columns, count, part in product(divisors(height), divisors(width), counts, parts):
        if 2 * rows * columns * count > config.depth(MemoryType.INP):
            continue  # two buffers of depthwise inputs do not fit
        most = min(copies, height // rows * (width // columns) * part)
        for sums in (True, False):
            tiles = (ChainTile(rows, columns, count, held, sums, part) for held in range(most, 0, -1))
            sized = (ChainPlan(chain, tile, config) for tile in tiles)
            plan = next((each for each in sized if each.fits), None)
            if plan is not None:
                yield plan
                if plan.tile.copies == most:
                    break


def chains(chain: Chain, config: AcceleratorConfig) -> bool:
    """Whether `config` supports convolutions as a chain: values between them are requantised into INP, and
    the depthwise results fit the buffer of its inputs."""
    needed = (Extension.FEEDBACK, Extension.REQUANTISE, Extension.DEPTHWISE)
    size, expansion, projection = chain.window.size, chain.expansion, chain.projection
    return (
        all(config.has(extension) for extension in needed)
        and config.block_in == config.block_out
        and type(chain.window) is ConvolutionTask
        and chain.window.slides
        and size.dilation == (1, 1)
        and not size.skips_rows
        and all(pads < size.kernel[place % 2] for place, pads in enumerate(size.padding))
        and (expansion is None or _expands(expansion))
        and (projection is None or _projects(projection))
        and all(stage.narrowing == Scale() for stage in chain.stages[:-1])
        and best_tile(chain, config, COPIES) is not None
    )


def _expands(task: ConvolutionTask) -> bool:
    """Whether a convolution may be the expansion of a chain: it has neither groups nor a border."""
    return task.size.groups == 1 and not any(task.size.padding) and not (task.alike or task.slides)


def _projects(task: ConvolutionTask) -> bool:
    """Whether a convolution may be the projection of a chain."""
    return type(task) is ConvolutionTask and task.size.is_pointwise and not task.alike


def best_tile(chain: Chain, config: AcceleratorConfig, copies: int) -> ChainTile | None:
    """Return the tile with the fewest estimated cycles, with `copies` sets of buffers at most; None if no
    tile fits the scratchpads."""
    return _best_tile(chain, config, min(copies, MOST_COPIES))


@lru_cache(maxsize=1024)
def _best_tile(chain: Chain, config: AcceleratorConfig, copies: int) -> ChainTile | None:
    best = min(plans(chain, config, copies), key=lambda plan: plan.cycles, default=None)
    return None if best is None else best.tile
