"""A depthwise convolution with the 1x1 convolutions around it, as one task.

Expanded channels and the channels of the depthwise convolution never leave the chip: STOREs requantise them
into the input scratchpad, from which the next convolution reads them. A unit is a tile of rows of some blocks
of expanded channels. The convolutions work on it in turn: the expansion, the depthwise convolution one unit
later, the projection two units later. So the store unit requantises a unit while the multipliers work on the
others. The sums of the projection stay in the accumulators over all units of a tile of rows.

Work is divided in halves where one unit of the accelerator would wait for another. The first expansion of a
tile starts when half of the blocks of its input are loaded. The last expansion frees them by halves for the
input of the next tile. The last projection of an image completes half of its results before the others, whose
products overlap with STOREs.

The inputs of the depthwise convolution stand in a buffer with its border. Its results overwrite them, inside
the border, since no sum reads an input once all sums of its unit are complete.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from vdla.compiler.codegen.epilogue import RESULT
from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.tasks.base import Choice, PartedTask
from vdla.compiler.tasks.chain_plan import SETS, Chain, ChainPlan, ChainTile, best_tile
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.program_text import (
    ChipBuffer,
    inside_image,
    nest,
    operand_type,
    padded_load,
    parse_program,
)
from vdla.compiler.te.operators.narrowing import AddingScale, Narrowing
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig

LEAST_HALF = 300
"""Slots of the smallest half that is worth its instructions. Fitted to MobileNetV1, V2 and V3-small,
ShuffleNetV2 and EfficientNet-B0."""


@dataclass(frozen=True, slots=True)
class ChainTask(PartedTask[ChainTile]):
    """A depthwise convolution, after a 1x1 convolution, before a 1x1 convolution, or both.

    Attributes:
        chain: the convolutions.
    """

    chain: Chain
    SMALLEST: ClassVar[str] = "a row of a chain of convolutions"

    @property
    def narrowing(self) -> Narrowing:
        """How the sums of the last convolution become results."""
        return self.chain.stages[-1].narrowing

    @property
    def adds_residual(self) -> bool:
        """Whether the STOREs of results add a residual."""
        return isinstance(self.narrowing, AddingScale)

    def narrowed(self, narrowing: Narrowing) -> "ChainTask":
        """Return the task with another narrowing of the last convolution."""
        chain = self.chain
        if chain.projection is None:
            return ChainTask(replace(chain, window=replace(chain.window, narrowing=narrowing)))
        return ChainTask(replace(chain, projection=replace(chain.projection, narrowing=narrowing)))

    def tile(self, config: AcceleratorConfig, copies: int) -> ChainTile | None:
        """Return the tile with the fewest estimated cycles, with `copies` sets of buffers at most; see
        `PartedTask.tile`."""
        return best_tile(self.chain, config, copies)

    def tiled(self, tile: ChainTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program. Its parameters are the input X, the result Z, and weights and parameters
        of requantisation of each convolution, in blocks: W and P of the last one, W0, P0, W1, P1 of those
        before it, in order."""
        return _ChainProgram(ChainPlan(self.chain, tile, config)).program()


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
    """The program of a tile.

    Attributes:
        plan: the chain and its tile.
    """

    plan: ChainPlan

    @property
    def chain(self) -> Chain:
        """The convolutions."""
        return self.plan.chain

    @property
    def tile(self) -> ChainTile:
        """The tile."""
        return self.plan.tile

    @property
    def config(self) -> AcceleratorConfig:
        """The configuration of the accelerator."""
        return self.plan.config

    def program(self) -> Func:
        """Return the program."""
        images = blocks(self.plan.size.batch, self.config.batch)
        body = [*self._buffers(), nest({"n": images}, "\n".join([*self._border(), *self._tiles()]))]
        return parse_program(self._operands(), body, self.config)

    def _names(self) -> list[str]:
        """Return what distinguishes the operands of each convolution: their number, but for the last."""
        return [*map(str, range(len(self.chain.stages) - 1)), ""]

    def _name(self, stage: ConvolutionTask | None) -> str:
        """Return what distinguishes the operands of a convolution."""
        place = next(place for place, each in enumerate(self.chain.stages) if each is stage)
        return self._names()[place]

    def _operands(self) -> dict[str, str]:
        config, plan, stages = self.config, self.plan, self.chain.stages
        images, first, last = blocks(plan.size.batch, config.batch), stages[0].size, stages[-1].size
        shape = images, blocks(first.channels, config.block_in), first.height, first.width
        operands = {
            "X": f"int8[{', '.join(map(str, (*shape, config.batch, config.block_in)))}]",
            RESULT: operand_type(config, images, blocks(last.outputs, config.block_out), *last.out_size),
        }
        for name, stage in zip(self._names(), stages, strict=True):
            outputs, inputs = (
                blocks(stage.size.outputs, config.block_out),
                blocks(stage.size.channels, config.block_in),
            )
            inner = plan.covers.values() if stage is self.chain.window else (inputs,)
            operands[f"P{name}"] = operand_type(config, outputs, SETS, scope=Scope.PARAMETERS)
            operands[f"W{name}"] = operand_type(config, outputs, *inner, scope=Scope.WEIGHT)
        return operands

    def _buffers(self) -> Iterator[str]:
        """Yield the allocations of all buffers, and the load of the parameters of the projection."""
        task, plan, config, count = self.chain, self.plan, self.config, self.tile.blocks
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
            yield buffer(
                "S", Scope.ACCUMULATOR, {"f": self.tile.copies, "k": plan.outputs, **results}
            ).allocation
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
        return padded_load(operands, inside, self.chain.window.border)

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
        unit, expands = self._unit(rows, tile, step, trips), self.chain.expansion is not None
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
        works = [self._window] if self.chain.projection is None else [self._window, self._project]
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
        if self.chain.expansion is None:
            return
        place, inside = self._row(rows)
        for part in _halves(plan.inputs, prod(plan.read)):
            block = _shifted("i", part)
            source = f"X[n, {block}, {place}, x, 0, 0]"
            load = f"load_inp(XL[{tile % self.tile.copies}, {block}, y, x, 0, 0], {source})"
            yield nest({"i": len(part), **self._pixels}, _where(inside, load))

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
        plan, task, count = self.plan, self.chain, self.tile.blocks
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
        for stage in (self.chain.expansion, self.chain.window):
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
        plan, task, count = self.plan, self.chain, self.tile.blocks
        if task.expansion is None:
            yield self._loaded(unit)
            return
        if step < plan.input_turns and plan.tiles > 1 and plan.below and unit.group.isdigit():
            yield self._border_below(unit)
        _, inside = self._row(unit.rows)
        left, turn = plan.size.padding[1], self._sum_turn(unit)
        sums, loops = f"E[{turn}, b, y, x, 0, 0]", {"b": count, **self._pixels}
        slot = self._slot(unit, plan.weight_turns)
        yield nest(loops, _where(inside, f"reset({sums})"))
        is_end = unit.group in ("0", str(plan.units - 1))
        for part in _halves(plan.inputs, prod(plan.read)) if is_end else [range(plan.inputs)]:
            block = _shifted("i", part)
            product = f"gemm({sums}, XL[{unit.copy}, {block}, y, x, 0, 0], W0L[{slot}, {block}, 0, 0])"
            yield nest({**loops, "i": len(part)}, _where(inside, product))
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
        plan, count, name = self.plan, self.tile.blocks, self._name(self.chain.window)
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
        if self.chain.projection is None:
            first = f"{unit.group} * {count} + b"
            result = f"{RESULT}[n, {first}, {unit.rows} * {self.tile.rows} + y, x, 0, 0]"
            yield nest(loops, f"store_scaled({result}, {sums}, {parameters})")
        else:
            yield nest(loops, f"feed_scaled({self._depthwise(unit)}, {sums}, {parameters})")

    def _depthwise(self, unit: _Unit) -> str:
        """Return a depthwise result of a unit."""
        if self.plan.results_apart:
            return f"N[{unit.turn % 2}, b, y, x, 0, 0]"
        top, left = self.plan.first_result
        return f"{self._input(unit, f'y + {top}', f'x + {left}')}, 0, 0]"

    def _project(self, unit: _Unit) -> Iterator[str]:
        """Yield the products of a unit for the projection, and the STOREs of the results after the last."""
        plan, slot = self.plan, self._slot(unit, self.plan.weight_turns)
        is_last = unit.group == str(plan.units - 1)
        is_end = is_last and unit.rows == str(plan.tiles - 1)
        for part in _halves(plan.outputs, prod(plan.results)) if is_end else [range(plan.outputs)]:
            block = _shifted("k", part)
            loops = {"k": len(part), **dict(zip("yx", plan.results, strict=True))}
            sums = f"S[{unit.copy}, {block}, y, x, 0, 0]"
            if unit.group == "0":
                yield nest(loops, f"reset({sums})")
            product = f"gemm({sums}, {self._depthwise(unit)}, WL[{block}, {slot}, 0, 0])"
            yield nest({**loops, "b": self.tile.blocks}, product)
            if is_last:
                result = f"{RESULT}[n, {block}, {unit.rows} * {self.tile.rows} + y, x, 0, 0]"
                yield nest(loops, f"store_scaled({result}, {sums}, PL[{block}, 0, 0, 0])")


def _halves(count: int, pixels: int) -> list[range]:
    """Return the halves of so many blocks, or all blocks if halves take less than LEAST_HALF slots."""
    middle = count // 2
    return [range(middle), range(middle, count)] if middle * pixels >= LEAST_HALF else [range(count)]


def _shifted(variable: str, part: range) -> str:
    """Return the block of a part that a loop variable, which counts from 0, stands for."""
    return f"{variable} + {part.start}" if part.start else variable


def _where(condition: str, body: str) -> str:
    """Return statements under a condition; "" always holds."""
    return f"if {condition}:\n{_indented(body)}" if condition else body


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
