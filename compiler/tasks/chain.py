"""A depthwise convolution with the 1x1 convolutions around it, as one task.

Expanded channels and the channels of the depthwise convolution never leave the chip: STOREs requantise them
into the input scratchpad, from which the next convolution reads them. A unit is a tile of rows of some blocks
of expanded channels. The convolutions work on it in turn: the expansion, the depthwise convolution one unit
later, the projection two units later. So the store unit requantises a unit while the multipliers work on the
others. The sums of the projection stay in the accumulators over all units of a tile of rows.

The inputs of the depthwise convolution stand in a buffer with its border. Its results overwrite them, inside
the border, since no sum reads an input once all sums of its unit are complete.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, lcm, prod
from typing import ClassVar

from vdla.compiler.codegen.epilogue import RESULT
from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.operands.address_map import AddressMap
from vdla.compiler.tasks.base import Choice, PartedTask
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.plane_tile import divisors
from vdla.compiler.tasks.program_text import ChipBuffer, inside_image, nest, operand_type, padded_load
from vdla.compiler.tasks.program_text import parse_program
from vdla.compiler.te.operators.convolution import Windows, odd_pitch, windows_of
from vdla.compiler.te.operators.narrowing import AddingScale, Narrowing, Scale
from vdla.compiler.te.operators.sizes import Convolution, blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

SETS = len(Parameter)
MOST_BLOCKS = 8
"""Limit of the blocks of channels of a unit."""
UNIT_CYCLES = 30
"""Estimated cycles of a unit that do not overlap with other work."""


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


@dataclass(frozen=True, slots=True)
class ChainTask(PartedTask[ChainTile]):
    """A depthwise convolution, after a 1x1 convolution, before a 1x1 convolution, or both.

    Attributes:
        window: the depthwise convolution, whose windows slide.
        expansion: the convolution whose result it reads; None: it reads the input.
        projection: the convolution that reads its result; None: it writes the result.
    """

    window: ConvolutionTask
    expansion: ConvolutionTask | None = None
    projection: ConvolutionTask | None = None
    SMALLEST: ClassVar[str] = "a row of a chain of convolutions"

    @property
    def stages(self) -> tuple[ConvolutionTask, ...]:
        """The convolutions, in order."""
        return tuple(
            stage for stage in (self.expansion, self.window, self.projection) if stage is not None
        )

    @property
    def narrowing(self) -> Narrowing:
        """How the sums of the last convolution become results."""
        return self.stages[-1].narrowing

    @property
    def adds_residual(self) -> bool:
        """Whether the STOREs of results add a residual."""
        return isinstance(self.narrowing, AddingScale)

    def narrowed(self, narrowing: Narrowing) -> "ChainTask":
        """Return the task with another narrowing of the last convolution."""
        if self.projection is None:
            return replace(self, window=replace(self.window, narrowing=narrowing))
        return replace(self, projection=replace(self.projection, narrowing=narrowing))

    def tile(self, config: AcceleratorConfig, copies: int) -> ChainTile | None:
        """Return the tile with the fewest estimated cycles, with `copies` sets of buffers at most; see
        `PartedTask.tile`."""
        return _best_tile(self, config, copies)

    def tiled(self, tile: ChainTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program. Its parameters are the input X, the result Z, and weights and parameters
        of requantisation of each convolution, in blocks: W and P of the last one, W0, P0, W1, P1 of those
        before it, in order."""
        return _ChainProgram(self, tile, config).program()

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        return {}


def chains(task: ChainTask, config: AcceleratorConfig) -> bool:
    """Whether `config` supports convolutions as a chain: values between them are requantised into INP, and
    the depthwise results fit the buffer of its inputs."""
    needed = (Extension.FEEDBACK, Extension.REQUANTISE, Extension.DEPTHWISE)
    size = task.window.size
    dense = (stage for stage in (task.expansion, task.projection) if stage is not None)
    return (
        all(config.has(extension) for extension in needed)
        and config.block_in == config.block_out
        and task.window.slides
        and size.dilation == (1, 1)
        and not size.skips_rows
        and all(_is_pointwise(stage) for stage in dense)
        and all(stage.narrowing == Scale() for stage in task.stages[:-1])
        and all(type(stage) is ConvolutionTask for stage in task.stages)
        and task.tile(config, 1) is not None
    )


def _is_pointwise(task: ConvolutionTask) -> bool:
    size = task.size
    shape = size.kernel, size.stride, size.padding, size.groups
    return shape == ((1, 1), (1, 1), (0, 0, 0, 0), 1) and not task.alike


@lru_cache(maxsize=1024)
def _best_tile(task: ChainTask, config: AcceleratorConfig, copies: int) -> ChainTile | None:
    plans = (_Plan(task, tile, config) for tile in _tiles(task, config, copies))
    best = min((plan for plan in plans if plan.fits), key=lambda plan: plan.cycles, default=None)
    return None if best is None else best.tile


def _tiles(task: ChainTask, config: AcceleratorConfig, copies: int) -> Iterator[ChainTile]:
    """Yield the tiles to choose from."""
    height, _ = task.window.size.out_size
    for rows in divisors(height):
        for count in divisors(blocks(task.window.size.channels, config.block_in)):
            if count <= MOST_BLOCKS:
                for held in range(1, min(copies, height // rows) + 1):
                    yield from (ChainTile(rows, count, held, sums) for sums in (False, True))


@dataclass(frozen=True)
class _Plan:
    """What a tile takes of the scratchpads, and its cycles."""

    task: ChainTask
    tile: ChainTile
    config: AcceleratorConfig

    @property
    def size(self) -> Convolution:
        """The sizes of the depthwise convolution."""
        return self.task.window.size

    @property
    def units(self) -> int:
        """Units of a tile of rows."""
        return blocks(self.size.channels, self.config.block_in) // self.tile.blocks

    @property
    def tiles(self) -> int:
        """Tiles of rows of an image."""
        return self.size.out_size[0] // self.tile.rows

    @property
    def inputs(self) -> int:
        """Blocks of channels that the expansion reads; 0 without an expansion."""
        expansion = self.task.expansion
        return 0 if expansion is None else blocks(expansion.size.channels, self.config.block_in)

    @property
    def outputs(self) -> int:
        """Blocks of channels that the projection computes; 0 without a projection."""
        projection = self.task.projection
        return 0 if projection is None else blocks(projection.size.outputs, self.config.block_out)

    @property
    def windows(self) -> Windows:
        """The windows that cover a depthwise kernel."""
        return windows_of(self.size, self.config)

    @property
    def covers(self) -> dict[str, int]:
        """Loops over the windows that cover a kernel."""
        return {"dy": self.windows.down, "dx": self.windows.across}

    @property
    def held(self) -> tuple[int, int]:
        """Rows and columns of inputs, with the border, that the windows of a unit read."""
        rows, columns = (
            (count - 1) * stride + kernel
            for count, stride, kernel in zip(self.results, self.size.stride, self.size.kernel, strict=True)
        )
        return rows, columns

    @property
    def pitch(self) -> int:
        """Elements from one row of a unit's inputs to the next: the border to the left of a row is the border
        to the right of the row before it."""
        left, columns = self.size.padding[1], self.held[1]
        return odd_pitch(max(left + self.read[1], columns - left), self.windows)

    @property
    def inputs_of_block(self) -> int:
        """Elements of a unit's inputs of a block of channels, with the border."""
        rows, columns = self.held
        return (rows - 1) * self.pitch + max(self.pitch, columns)

    @property
    def results(self) -> tuple[int, int]:
        """Rows and columns of a unit's results."""
        return self.tile.rows, self.size.out_size[1]

    @property
    def first_row(self) -> int:
        """The first row of a unit's inputs that may hold pixels."""
        return self.size.padding[0] if self.tiles == 1 else 0

    @property
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
        return 0 if self.task.expansion is not None else self.held[0] * self.pitch

    @property
    def has_border(self) -> bool:
        """Whether some of a unit's inputs are the border and not loaded."""
        if self.task.expansion is None:
            return self.first_filled < self.inputs_of_block
        return (self.inputs_of_block, self.below) != (prod(self.read), 0)

    @property
    def weights(self) -> int:
        """Elements of weights of a unit."""
        return self.tile.blocks * (self.inputs + self.windows.count + self.outputs)

    @property
    def keeps_weights(self) -> bool:
        """Whether the weights of all units stay on chip."""
        return self.units * self.weights <= self._weight_room

    @property
    def _weight_room(self) -> int:
        return self.config.depth(MemoryType.WGT)

    @property
    def sets(self) -> int:
        """Sets of parameters of a unit."""
        return self.tile.blocks * (1 + (self.task.expansion is not None))

    @property
    def keeps_parameters(self) -> bool:
        """Whether the parameters of all units stay on chip."""
        return self.units * self.sets + self.outputs < MOST_PARAMETER_SETS

    @property
    def late(self) -> int:
        """Units whose work begins before the work on a unit ends."""
        return 1 if self.task.projection is None else 2

    @property
    def results_apart(self) -> bool:
        """Whether depthwise results have separate buffers, since these are smaller than another buffer of
        inputs in which results overwrite inputs."""
        chained = self.task.projection is not None and self.task.expansion is not None
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
        return self.units if self.keeps_parameters else min(self.units, 1 + self.late)

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
        return lcm(self.input_turns, self.sum_turns, 1 + self.late)

    @property
    def unrolled(self) -> int:
        """Number of consecutive tiles after which the same buffers are next in turn."""
        return lcm(self.tile.copies, self.period // gcd(self.period, self.units))

    @property
    def fits(self) -> bool:
        """Whether all buffers fit the scratchpads, and results fit between the borders."""
        count, copies = self.tile.blocks, self.tile.copies
        results, read = prod(self.results), prod(self.read)
        sets = self.parameter_turns * self.sets + self.outputs
        expanded = read if self.task.expansion is not None else 0
        taken = {
            MemoryType.INP: copies * self.inputs * read
            + count * self.input_turns * self.inputs_of_block
            + count * 2 * results * self.results_apart,
            MemoryType.WGT: self.weight_turns * self.weights,
            MemoryType.ACC: (sets + 1) * SETS
            + copies * self.outputs * results
            + self.sum_turns * count * (expanded + results),
            MemoryType.UOP: 8 * count * (self.inputs + self.windows.count * self.tile.rows + self.outputs),
        }
        fit = all(elements <= self.config.depth(memory) for memory, elements in taken.items())
        return fit and sets < MOST_PARAMETER_SETS and self._results_fit

    @property
    def _results_fit(self) -> bool:
        """Whether depthwise results, which begin behind the border, end before it."""
        if self.task.projection is None or self.task.expansion is None or self.results_apart:
            return True
        (top, left, _, _), (rows, columns) = self.size.padding, self.results
        high = self.held[0] - self.below
        return top + rows <= high and left + columns <= left + self.read[1]

    @property
    def cycles(self) -> float:
        """Estimated cycles: the multipliers, the store unit or the bus bound them."""
        config, count, images = self.config, self.tile.blocks, blocks(self.size.batch, self.config.batch)
        results, read = prod(self.results), prod(self.read)
        lanes = config.requantise_lanes or config.bus_bytes // config.batch
        stored = max(1, config.block_out // lanes)
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


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit of a tile of rows.

    Attributes:
        rows: the tile, as an expression.
        copy: number of the tile's set of buffers.
        group: the unit in its tile, as an expression.
        turn: number of the unit's buffers.
    """

    rows: str
    copy: int
    group: str
    turn: int


@dataclass(frozen=True)
class _ChainProgram:
    """The program of a tile."""

    task: ChainTask
    tile: ChainTile
    config: AcceleratorConfig

    @property
    def plan(self) -> _Plan:
        """Sizes of the tile."""
        return _Plan(self.task, self.tile, self.config)

    def program(self) -> Func:
        """Return the program."""
        images = blocks(self.plan.size.batch, self.config.batch)
        body = [*self._buffers(), nest({"n": images}, "\n".join([*self._border(), *self._tiles()]))]
        return parse_program(self._operands(), body, self.config)

    def _names(self) -> list[str]:
        """Return what distinguishes the operands of each convolution: their number, but for the last."""
        return [*map(str, range(len(self.task.stages) - 1)), ""]

    def _name(self, stage: ConvolutionTask | None) -> str:
        """Return what distinguishes the operands of a convolution."""
        place = next(place for place, each in enumerate(self.task.stages) if each is stage)
        return self._names()[place]

    def _operands(self) -> dict[str, str]:
        config, plan, stages = self.config, self.plan, self.task.stages
        images, first, last = blocks(plan.size.batch, config.batch), stages[0].size, stages[-1].size
        channels = blocks(first.channels, config.block_in)
        operands = {
            "X": f"int8[{images}, {channels}, {first.height}, {first.width}, {config.batch}, {config.block_in}]",
            RESULT: operand_type(config, images, blocks(last.outputs, config.block_out), *last.out_size),
        }
        for name, stage in zip(self._names(), stages, strict=True):
            outputs, inputs = blocks(stage.size.outputs, config.block_out), blocks(
                stage.size.channels, config.block_in
            )
            inner = plan.covers.values() if stage is self.task.window else (inputs,)
            operands[f"P{name}"] = operand_type(config, outputs, SETS, scope=Scope.PARAMETERS)
            operands[f"W{name}"] = operand_type(config, outputs, *inner, scope=Scope.WEIGHT)
        return operands

    def _buffers(self) -> Iterator[str]:
        """Yield the allocations of all buffers, and the load of the parameters of the projection."""
        task, plan, config, count = self.task, self.plan, self.config, self.tile.blocks
        weights = plan.weight_turns * count
        parameters = plan.parameter_turns * count
        read, results = (dict(zip("yx", each, strict=True)) for each in (plan.read, plan.results))
        sums = {"t": plan.sum_turns, "b": count}

        def buffer(name: str, scope: Scope, loops: dict[str, int]) -> ChipBuffer:
            return ChipBuffer(name, scope, loops, config)

        window = self._name(task.window)
        if task.projection is not None:
            parameter = buffer("PL", Scope.PARAMETERS, {"k": plan.outputs, "row": SETS})
            yield parameter.loaded("P[k, row, 0, 0]")
            yield buffer("WL", Scope.WEIGHT, {"k": plan.outputs, "c": weights}).allocation
            yield buffer("S", Scope.ACCUMULATOR, {"f": self.tile.copies, "k": plan.outputs, **results}).allocation
        yield buffer(f"P{window}L", Scope.PARAMETERS, {"c": parameters, "row": SETS}).allocation
        yield buffer(f"W{window}L", Scope.WEIGHT, {"c": weights, **plan.covers}).allocation
        yield buffer("D", Scope.ACCUMULATOR, {**sums, **results}).allocation
        held = {"t": plan.input_turns, "b": count, "e": plan.inputs_of_block}
        yield buffer("M", Scope.INPUT, held).allocation
        if plan.results_apart:
            yield buffer("N", Scope.INPUT, {"t": 2, "b": count, **results}).allocation
        if task.expansion is not None:
            yield buffer("P0L", Scope.PARAMETERS, {"c": parameters, "row": SETS}).allocation
            yield buffer("W0L", Scope.WEIGHT, {"c": weights, "i": plan.inputs}).allocation
            yield buffer("E", Scope.ACCUMULATOR, {**sums, **read}).allocation
            yield buffer("XL", Scope.INPUT, {"f": self.tile.copies, "i": plan.inputs, **read}).allocation

    def _border(self) -> Iterator[str]:
        """Yield the loads that fill the buffers of the depthwise inputs with the border."""
        plan = self.plan
        if plan.has_border:
            first = plan.first_filled
            loops = {"t": plan.input_turns, "b": self.tile.blocks, "e": plan.inputs_of_block - first}
            yield nest(loops, self._filled(f"M[t, b, e + {first}"))

    def _filled(self, place: str) -> str:
        """Return the load of the border."""
        return self._padded(f"{place}, 0, 0], X[n, 0, 0, 0, 0, 0]", "1 < 0")

    def _input(self, unit: _Unit, row: str, column: str) -> str:
        """Return the place of a depthwise input of block `b` of a unit."""
        return f"M[{unit.turn % self.plan.input_turns}, b, ({row}) * {self.plan.pitch} + {column}"

    def _padded(self, operands: str, inside: str) -> str:
        return padded_load(operands, inside, self.task.window.border)

    # Order of the units

    @property
    def _overlaps(self) -> bool:
        """Whether units of consecutive tiles overlap."""
        return self.plan.tiles > 1 and self.plan.units >= self.plan.late

    def _tiles(self) -> Iterator[str]:
        """Yield the statements of all tiles of rows of an image."""
        tiles, unrolled = self.plan.tiles, self.plan.unrolled
        trips = tiles // unrolled
        if trips > 1:
            places = [(f"(ty * {unrolled} + {tile})", tile) for tile in range(unrolled)]
            yield nest({"ty": trips}, "\n".join(part for place in places for part in self._tile(*place)))
        for rows in range(trips * unrolled if trips > 1 else 0, tiles):
            yield from self._tile(str(rows), rows)
        if self._overlaps:
            yield from self._drain(str(tiles - 1), tiles - 1)

    def _tile(self, rows: str, tile: int) -> Iterator[str]:
        """Yield the statements of a tile: its first units, a loop over the units after them, the rest."""
        units, turns = self.plan.units, self.plan.period
        trips = max(0, (units - turns - 1) // turns)  # the loop loads parameters of units after it
        yield from self._read(rows, tile)
        for step in range(min(turns, units)):
            yield from self._step(rows, tile, step)
        if trips:
            inner = (part for step in range(turns, 2 * turns) for part in self._step(rows, tile, step, trips))
            yield nest({"g": trips}, "\n".join(inner))
        for step in range(turns * (1 + trips), units):
            yield from self._step(rows, tile, step)
        if not self._overlaps:
            yield from self._drain(rows, tile)

    def _drain(self, rows: str, tile: int) -> Iterator[str]:
        """Yield the work on units that begins after the last unit of a tile."""
        units = self.plan.units
        for step in range(units, units + self.plan.late):
            yield from self._later(rows, tile, step)

    def _step(self, rows: str, tile: int, step: int, trips: int = 0) -> Iterator[str]:
        """Yield the work that begins with a unit: its expansion, and what comes later for units before it.

        Args:
            trips: the unit is one of so many in a loop, and `step` is the first of them.
        """
        unit, expands = self._unit(rows, tile, step, trips), self.task.expansion is not None
        if step == 0:
            yield from self._ahead(rows, tile, 0, 0)
        yield self._constants(unit, self.plan.keeps_weights, self._weights(unit))
        yield from self._inputs(unit, step)
        if expands:
            yield from self._ahead(rows, tile, step + 1, trips)
        yield from self._later(rows, tile, step, trips)
        if not expands:
            yield from self._ahead(rows, tile, step + 1, trips)

    def _later(self, rows: str, tile: int, step: int, trips: int = 0) -> Iterator[str]:
        """Yield the work on the units before a unit, those of the tile before included."""
        works = [self._window] if self.task.projection is None else [self._window, self._project]
        for late, work in enumerate(works, 1):
            place = step - late
            if 0 <= place < self.plan.units:
                yield from work(self._unit(rows, tile, place, trips))
            elif place < 0 and self._overlaps and rows != "0":
                earlier = self._before(rows, tile)
                text = "\n".join(work(self._unit(*earlier, place + self.plan.units)))
                yield text if rows.isdigit() else f"if 1 <= {rows}:\n{_indented(text)}"

    def _ahead(self, rows: str, tile: int, step: int, trips: int) -> Iterator[str]:
        """Yield the load of the next unit's parameters. It runs beside the longest of the instructions before
        it: the expansion, or without an expansion, the projection."""
        if step < self.plan.units:
            unit = self._unit(rows, tile, step, trips)
            yield self._constants(unit, self.plan.keeps_parameters, self._parameters(unit))

    def _before(self, rows: str, tile: int) -> tuple[str, int]:
        """Return the tile before a tile."""
        earlier = str(int(rows) - 1) if rows.isdigit() else f"({rows} - 1)"
        return earlier, (tile - 1) % self.plan.unrolled

    def _unit(self, rows: str, tile: int, place: int, trips: int = 0) -> _Unit:
        turns = self.plan.period
        group = f"(g * {turns} + {place})" if trips else str(place)
        return _Unit(rows, tile % self.tile.copies, group, (tile * self.plan.units + place) % turns)

    # Loads

    def _read(self, rows: str, tile: int) -> Iterator[str]:
        """Yield the loads of the input of a tile, and of its border."""
        plan = self.plan
        if self.task.expansion is None:
            return
        loops = {"i": plan.inputs, **self._pixels}
        place, inside = self._row(rows)
        yield nest(loops, _where(inside, f"load_inp(XL[{tile % self.tile.copies}, i, y, x, 0, 0], X[n, i, {place}, x, 0, 0])"))

    @property
    def _pixels(self) -> dict[str, int]:
        """Loops over the pixels that a unit reads."""
        return dict(zip("yx", self.plan.read, strict=True))

    def _row(self, rows: str) -> tuple[str, str]:
        """Return the row of the image that is row `y` of those that a tile reads, and the condition that the
        image has it; "" if it always has."""
        plan = self.plan
        if plan.tiles == 1:
            return "y", ""
        step, top = self.tile.rows * plan.size.stride[0], plan.size.padding[0]
        place = f"{rows} * {step} + y - {top}"
        end = (plan.tiles - 1) * step - top + plan.read[0]
        return place, " and ".join(inside_image(place, -top, end, plan.size.height))

    def _weights(self, unit: _Unit) -> Iterator[str]:
        """Yield the loads of a unit's weights."""
        plan, task, count = self.plan, self.task, self.tile.blocks
        slot, block = self._slot(unit, plan.weight_turns), f"{unit.group} * {count} + b"
        name = self._name(task.window)
        if task.expansion is not None:
            loops = {"b": count, "i": plan.inputs}
            yield nest(loops, f"load_wgt(W0L[{slot}, i, 0, 0], W0[{block}, i, 0, 0])")
        window = f"load_wgt(W{name}L[{slot}, dy, dx, 0, 0], W{name}[{block}, dy, dx, 0, 0])"
        yield nest({"b": count, **plan.covers}, window)
        if task.projection is not None:
            loops = {"k": plan.outputs, "b": count}
            yield nest(loops, f"load_wgt(WL[k, {slot}, 0, 0], W[k, {block}, 0, 0])")

    def _parameters(self, unit: _Unit) -> Iterator[str]:
        """Yield the loads of a unit's parameters of requantisation."""
        count = self.tile.blocks
        slot, block = self._slot(unit, self.plan.parameter_turns), f"{unit.group} * {count} + b"
        for stage in (self.task.expansion, self.task.window):
            if stage is not None:
                name = self._name(stage)
                yield nest(
                    {"b": count, "row": SETS},
                    f"load_parameters(P{name}L[{slot}, row, 0, 0], P{name}[{block}, row, 0, 0])",
                )

    def _constants(self, unit: _Unit, kept: bool, loads: Iterable[str]) -> str:
        """Return loads of a unit's constants. Constants that stay on chip are loaded for the first tile."""
        once = "n < 1" if unit.rows == "0" else f"n + {unit.rows} < 1"
        return _where(once if kept else "", "\n".join(loads))

    def _slot(self, unit: _Unit, turns: int) -> str:
        """Return which block of constants on chip, of those of `turns` units, is that of block `b` of a
        unit."""
        slot = unit.group if turns == self.plan.units else unit.turn % turns
        return f"{slot} * {self.tile.blocks} + b"

    # The convolutions

    def _inputs(self, unit: _Unit, step: int) -> Iterator[str]:
        """Yield the statements that write the depthwise inputs of a unit: the expansion, or a load."""
        plan, task, count = self.plan, self.task, self.tile.blocks
        if task.expansion is None:
            yield self._loaded(unit)
            return
        if step < plan.input_turns and plan.tiles > 1 and plan.below and unit.group.isdigit():
            yield self._border_below(unit)
        _, inside = self._row(unit.rows)
        left, turn = plan.size.padding[1], self._sum_turn(unit)
        sums, loops = f"E[{turn}, b, y, x, 0, 0]", {"b": count, **self._pixels}
        weights = f"W0L[{self._slot(unit, plan.weight_turns)}, i, 0, 0]"
        yield nest(loops, _where(inside, f"reset({sums})"))
        product = f"gemm({sums}, XL[{unit.copy}, i, y, x, 0, 0], {weights})"
        yield nest({**loops, "i": plan.inputs}, _where(inside, product))
        target = f"{self._input(unit, f'y + {plan.first_row}', f'x + {left}')}, 0, 0]"
        parameters = f"P0L[{self._slot(unit, plan.parameter_turns)}, 0, 0, 0]"
        yield nest(loops, _where(inside, f"feed_scaled({target}, {sums}, {parameters})"))

    def _sum_turn(self, unit: _Unit) -> int:
        return unit.turn % self.plan.sum_turns

    def _border_below(self, unit: _Unit) -> str:
        """Return the load of the border at the end of a tile that reaches below the image."""
        plan = self.plan
        first, step = plan.held[0] - plan.below, self.tile.rows * plan.size.stride[0]
        loops = {"b": self.tile.blocks, "y": plan.below, "x": plan.pitch}
        place = f"{self._input(unit, f'y + {first}', 'x')}"
        outside = f"{plan.size.height + plan.size.padding[0] - first} <= {unit.rows} * {step} + y"
        return nest(loops, _where(outside, self._filled(place)))

    def _loaded(self, unit: _Unit) -> str:
        """Return the load of the depthwise inputs of a unit, with their border."""
        plan, size = self.plan, self.plan.size
        top, left, _, _ = size.padding
        step = self.tile.rows * size.stride[0]
        high, wide = plan.held[0], plan.pitch
        y, end = f"{unit.rows} * {step} + y - {top}", (plan.tiles - 1) * step - top + high
        inside = [
            *inside_image(y, -top, end, size.height),
            *inside_image(f"x - {left}", -left, wide - left, size.width),
        ]
        source = f"X[n, {unit.group} * {self.tile.blocks} + b, {y}, x - {left}, 0, 0]"
        return nest(
            {"b": self.tile.blocks, "y": high, "x": wide},
            self._padded(f"{self._input(unit, 'y', 'x')}, 0, 0], {source}", " and ".join(inside)),
        )

    def _window(self, unit: _Unit) -> Iterator[str]:
        """Yield the depthwise convolution of a unit."""
        plan, count, name = self.plan, self.tile.blocks, self._name(self.task.window)
        loops = {"b": count, **dict(zip("yx", plan.results, strict=True))}
        sums, (down, across) = f"D[{self._sum_turn(unit)}, b, y, x, 0, 0]", plan.size.stride
        slot = self._slot(unit, plan.weight_turns)
        yield nest(loops, f"reset({sums})")
        windows, weights = plan.windows, f"W{name}L[{slot}, dy, dx, 0, 0]"
        inputs = ", ".join(
            f"{self._input(unit, f'y * {down} + dy * {windows.row_step} + {row}', column)}, 0, 0]"
            for row in range(windows.rows)
            for column in (
                f"x * {across} + dx * {windows.column_step} + {column}" for column in range(windows.columns)
            )
        )
        yield nest({**loops, **plan.covers}, f"{windows.intrinsic}({sums}, {inputs}, {weights})")
        parameters = f"P{name}L[{self._slot(unit, plan.parameter_turns)}, 0, 0, 0]"
        if self.task.projection is None:
            first = f"{unit.group} * {count} + b"
            result = f"{RESULT}[n, {first}, {unit.rows} * {self.tile.rows} + y, x, 0, 0]"
            yield nest(loops, f"store_scaled({result}, {sums}, {parameters})")
        else:
            yield nest(loops, f"feed_scaled({self._depthwise(unit)}, {sums}, {parameters})")

    def _depthwise(self, unit: _Unit) -> str:
        """Return a depthwise result of a unit."""
        if self.plan.results_apart:
            return f"N[{unit.turn % 2}, b, y, x, 0, 0]"
        top, left, _, _ = self.plan.size.padding
        return f"{self._input(unit, f'y + {top}', f'x + {left}')}, 0, 0]"

    def _project(self, unit: _Unit) -> Iterator[str]:
        """Yield the products of a unit for the projection, and the STOREs of the results after the last."""
        plan = self.plan
        loops = {"k": plan.outputs, **dict(zip("yx", plan.results, strict=True))}
        sums = f"S[{unit.copy}, k, y, x, 0, 0]"
        if unit.group == "0":
            yield nest(loops, f"reset({sums})")
        weights = f"WL[k, {self._slot(unit, plan.weight_turns)}, 0, 0]"
        yield nest(
            {**loops, "b": self.tile.blocks}, f"gemm({sums}, {self._depthwise(unit)}, {weights})"
        )
        if unit.group == str(plan.units - 1):
            result = f"{RESULT}[n, k, {unit.rows} * {self.tile.rows} + y, x, 0, 0]"
            yield nest(loops, f"store_scaled({result}, {sums}, PL[k, 0, 0, 0])")


def _where(condition: str, body: str) -> str:
    """Return statements under a condition; "" always holds."""
    return f"if {condition}:\n{_indented(body)}" if condition else body


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
