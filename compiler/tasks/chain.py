"""A depthwise convolution with the convolution before it, the 1x1 convolution after it, or both, as one task.

Expanded channels and the channels of the depthwise convolution never leave the chip: STOREs requantise them
into the input scratchpad, from which the next convolution reads them. A unit is a tile of some blocks of
expanded channels. The convolutions work on it in turn: the expansion, the depthwise convolution one unit
later, the projection two units later. So the store unit requantises a unit while the multipliers work on the
others. The sums of the projection stay in the accumulators over all units of a tile.

Work is divided in halves where one unit of the accelerator would wait for another. The first expansion of a
tile starts when half of the blocks of its input are loaded. The last expansion frees them by halves for the
input of the next tile. The last projection of an image completes half of its results before the others, whose
products overlap with STOREs.

The inputs of the depthwise convolution stand in a buffer with its border. Its results overwrite them, inside
the border, since no sum reads an input once all sums of its unit are complete. Tiles follow each other from
the top of a strip of columns to its end, then strip by strip. So the border to the left and right of a unit's
inputs changes only from strip to strip.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from vdla.compiler.codegen.epilogue import RESULT
from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.operands.address_map import AddressMap
from vdla.compiler.tasks.base import WEIGHTS, Choice, PartedTask
from vdla.compiler.tasks.chain_plan import RESULT_TURNS, SETS, Chain, ChainPlan, ChainTile, best_tile
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.program_text import (
    ChipBuffer,
    inside_image,
    nest,
    operand_type,
    padded_load,
    parse_program,
    summed,
    where,
    window_places,
)
from vdla.compiler.te.operators.narrowing import AddingScale, Narrowing
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig

LEAST_HALF = 300
"""Slots of the smallest half that is worth its instructions. Fitted to MobileNetV1, V2 and V3-small,
ShuffleNetV2 and EfficientNet-B0."""


@dataclass(frozen=True, slots=True)
class ChainTask(PartedTask[ChainTile]):
    """A depthwise convolution, after a convolution without a border, before a 1x1 convolution, or both.

    Attributes:
        chain: the convolutions.
    """

    chain: Chain
    SMALLEST: ClassVar[str] = "a pixel of a chain of convolutions"

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

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense: windows of packed lines,
        and weights of few bits."""
        maps = [stage.address_maps(config) for stage in self.chain.stages]
        own = zip(self.chain.weights, maps, strict=True)
        weights = {name: each[WEIGHTS] for name, each in own if WEIGHTS in each}
        return {name: each for name, each in maps[0].items() if name != WEIGHTS} | weights

    def tile(self, config: AcceleratorConfig, copies: int) -> ChainTile | None:
        """Return the tile with the fewest estimated cycles, with `copies` sets of buffers at most; see
        `PartedTask.tile`."""
        return best_tile(self.chain, config, copies)

    def tiled(self, tile: ChainTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program. Its parameters are the input X, the result Z, and weights and parameters
        of requantisation of each convolution, in blocks: W and P of the last convolution, W0, P0, W1, P1 of
        the convolutions before it, in order."""
        return _ChainProgram(ChainPlan(self.chain, tile, config)).program()


@dataclass(frozen=True)
class _ChainProgram:
    """The program of a tile.

    Attributes:
        plan: the chain and its tile.
    """

    plan: ChainPlan

    def program(self) -> Func:
        """Return the program."""
        images = blocks(self.plan.size.batch, self.plan.config.batch)
        image = nest({"n": images}, "\n".join([*self._border(), self._units()]))
        return parse_program(self._operands(), [*self._buffers(), image], self.plan.config)

    def _names(self) -> list[str]:
        """Return the suffix of the operand names of each convolution: its number, as in W0 and P0; "" for the
        last convolution, whose operands are W and P."""
        return [*map(str, range(len(self.plan.chain.stages) - 1)), ""]

    def _name(self, stage: ConvolutionTask | None) -> str:
        """Return what distinguishes the operands of a convolution."""
        place = next(place for place, each in enumerate(self.plan.chain.stages) if each is stage)
        return self._names()[place]

    def _operands(self) -> dict[str, str]:
        config, plan, stages = self.plan.config, self.plan, self.plan.chain.stages
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
            inner = plan.covers.values() if stage is self.plan.chain.window else (inputs, *stage.size.kernel)
            operands[f"P{name}"] = operand_type(config, outputs, SETS, scope=Scope.PARAMETERS)
            operands[f"W{name}"] = operand_type(config, outputs, *inner, scope=Scope.WEIGHT)
        return operands

    def _buffers(self) -> Iterator[str]:
        """Yield the allocations of all buffers, and the load of the parameters of the projection."""
        task, plan, config, count = self.plan.chain, self.plan, self.plan.config, self.plan.tile.blocks
        weights = plan.weight_turns * count
        parameters = plan.parameter_turns * count
        taken, read, results = (
            dict(zip("yx", each, strict=True)) for each in (plan.taken, plan.read, plan.results)
        )
        sums = {"t": plan.sum_turns, "b": count}

        def buffer(name: str, scope: Scope, loops: dict[str, int]) -> ChipBuffer:
            return ChipBuffer(name, scope, loops, config)

        window = self._name(task.window)
        if task.projection is not None:
            yield from self._projection_buffers(weights)
        yield buffer(f"P{window}L", Scope.PARAMETERS, {"c": parameters, "row": SETS}).allocation
        yield buffer(f"W{window}L", Scope.WEIGHT, {"c": weights, **plan.covers}).allocation
        yield buffer("D", Scope.ACCUMULATOR, {**sums, **results}).allocation
        held = {"t": plan.input_turns, "b": count, "e": plan.inputs_of_block}
        yield buffer("M", Scope.INPUT, held).allocation
        if plan.results_apart:
            yield buffer("N", Scope.INPUT, {"t": RESULT_TURNS, "b": count, **results}).allocation
        if task.expansion is not None:
            yield buffer("P0L", Scope.PARAMETERS, {"c": parameters, "row": SETS}).allocation
            yield buffer("W0L", Scope.WEIGHT, {"c": weights, "i": plan.inputs, **plan.taps}).allocation
            yield buffer("E", Scope.ACCUMULATOR, {**sums, **read}).allocation
            yield buffer("XL", Scope.INPUT, {"f": plan.tile.copies, "i": plan.inputs, **taken}).allocation

    def _projection_buffers(self, weights: int) -> Iterator[str]:
        """Yield the allocations of the buffers of the projection, with its weights for so many blocks, and
        the load of its parameters, unless each part of its channels loads its parameters."""
        plan, config = self.plan, self.plan.config
        parameter = ChipBuffer("PL", Scope.PARAMETERS, {"k": plan.outputs, "row": SETS}, config)
        yield parameter.loaded("P[k, row, 0, 0]") if plan.tile.parts == 1 else parameter.allocation
        sizes = {"k": plan.outputs, "c": weights}
        held = sizes if plan.leaves_weights else dict(reversed(sizes.items()))
        yield ChipBuffer("WL", Scope.WEIGHT, held, config).allocation
        sums = {"f": plan.tile.copies, "k": plan.outputs, **dict(zip("yx", plan.results, strict=True))}
        yield ChipBuffer("S", Scope.ACCUMULATOR, sums, config).allocation

    def _border(self) -> Iterator[str]:
        """Yield the loads that fill the buffers of the depthwise inputs with the border."""
        plan = self.plan
        if plan.has_border:
            first = plan.first_filled
            loops = {"t": plan.input_turns, "b": plan.tile.blocks, "e": plan.inputs_of_block - first}
            yield nest(loops, self._filled(f"M[t, b, e + {first}"))

    def _filled(self, place: str) -> str:
        """Return the load of the border."""
        return self._padded(f"{place}, 0, 0], X[n, 0, 0, 0, 0, 0]", "1 < 0")

    def _input(self, row: str, column: str) -> str:
        """Return the place of a depthwise input of block `b` of a unit."""
        return f"M[{_turn(self.plan.input_turns)}, b, ({row}) * {self.plan.pitch} + {column}"

    def _padded(self, operands: str, inside: str) -> str:
        return padded_load(operands, inside, self.plan.chain.window.border)

    # Order of the units

    def _units(self) -> str:
        """Return the work on all units of an image. Step `u` expands unit `u`, computes the windows of unit
        `u - 1` and projects unit `u - 2`. Units of consecutive tiles overlap."""
        plan, expands = self.plan, self.plan.chain.expansion is not None
        units = plan.steps * plan.units
        begin = where(f"{self._unit} < 1", "\n".join((*self._read(), self._parameters())))

        def work(unit: str, condition: str, statements: Iterable[str]) -> str:
            return where(condition, "\n".join((*self._variables(unit), *statements)))

        ahead = work("u + 1", f"u < {units - 1}", [where(f"1 <= {self._unit}", self._parameters())])
        works = [
            work("u", f"u < {units}", [begin, self._weights(), *self._inputs()]),
            work("u - 1", f"1 <= u and u <= {units}", self._window()),
        ]
        if plan.chain.projection is not None:
            works.append(work("u - 2", "2 <= u", self._project()))
        works.insert(1 if expands else len(works), ahead)
        return nest({"u": units + plan.late}, "\n".join(works))

    def _variables(self, unit: str) -> Iterator[str]:
        """Yield the variables of a unit: the number of its tile in all parts of the projected channels; the
        part, the tile, the tile's place in its strip, the strip, the tile's set of buffers; and the unit's
        turn among the units after which buffers are used again."""
        plan = self.plan
        yield f"step = ({unit}) // {plan.units}"
        yield f"part = step // {plan.tiles}"
        yield f"tile = step % {plan.tiles}"
        yield f"rows = tile % {plan.counts[0]}"
        yield f"strip = tile // {plan.counts[0]}"
        yield f"copy = step % {plan.tile.copies}"
        counts = {plan.strip_units, plan.units, plan.input_turns, plan.sum_turns, RESULT_TURNS}
        for count in sorted(counts | {plan.weight_turns, plan.parameter_turns}):
            yield f"{_turn(count)} = ({unit}) % {count}"

    @property
    def _unit(self) -> str:
        """The number of a unit in its tile."""
        return _turn(self.plan.units)

    @property
    def _block(self) -> str:
        """The number of block `b` of a unit."""
        return f"{self._unit} * {self.plan.tile.blocks} + b"

    # Loads

    def _read(self) -> Iterator[str]:
        """Yield the loads of the input of a tile."""
        expansion, plan = self.plan.chain.expansion, self.plan
        if expansion is not None:
            size = expansion.size
            row, column, inside = self._place((size.height, size.width), plan.taken, size.stride)
            pixels = dict(zip("yx", plan.taken, strict=True))
            for loop, block in _halves("i", plan.inputs, prod(plan.taken)):
                load = f"load_inp(XL[copy, {block}, y, x, 0, 0], X[n, {block}, {row}, {column}, 0, 0])"
                yield nest(loop | pixels, where(inside, load))

    def _place(
        self,
        image: tuple[int, int],
        taken: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        *,
        bordered: bool = False,
    ) -> tuple[str, str, str]:
        """Return where pixel `y`, `x` of a tile's input is in an image: its row, its column, and the
        condition that the image has such a pixel; "" if the condition always holds.

        Args:
            image: rows and columns of the image.
            taken: rows and columns of the tile's input.
            stride: pixels of the image for each depthwise input.
            bordered: the tile's input begins with the border even if a single tile covers the image.
        """
        plan, places, inside = self.plan, list[str](), list[str]()
        for axis, (tile, pixel) in enumerate((("rows", "y"), ("strip", "x"))):
            step = plan.results[axis] * plan.size.stride[axis] * stride[axis]
            count, pads = plan.counts[axis], plan.size.padding[axis] * stride[axis]
            before = pads if bordered or count > 1 else 0
            places.append(f"{tile} * {step} + {pixel} - {before}")
            end = (count - 1) * step - before + taken[axis]
            inside += inside_image(places[axis], -before, end, image[axis])
        return places[0], places[1], " and ".join(inside)

    def _weights(self) -> str:
        """Return the loads of a unit's weights. Weights that stay on chip are loaded for the first tile of a
        part."""
        plan, task, count = self.plan, self.plan.chain, self.plan.tile.blocks
        slot, name, loads = self._slot(plan.weight_turns), self._name(task.window), list[str]()
        if task.expansion is not None:
            loops, taps = {"b": count, "i": plan.inputs, **plan.taps}, ", ".join(plan.taps)
            weights = f"load_wgt(W0L[{slot}, i, {taps}, 0, 0], W0[{self._block}, i, {taps}, 0, 0])"
            loads.append(nest(loops, weights))
        window = f"load_wgt(W{name}L[{slot}, dy, dx, 0, 0], W{name}[{self._block}, dy, dx, 0, 0])"
        loads.append(nest({"b": count, **plan.covers}, window))
        if task.projection is not None:
            loops, block = {"k": plan.outputs, "b": count}, self._projected_block("k")
            loads.append(nest(loops, f"load_wgt({self._held('k')}, W[{block}, {self._block}, 0, 0, 0, 0])"))
        first = "n + step < 1" if plan.leaves_weights else "tile < 1"
        return where(first if plan.keeps_weights else "", "\n".join(loads))

    def _held(self, block: str) -> str:
        """Return the place of the weights of the projection. Weights of a unit that other units overwrite are
        contiguous, so that they are loaded while the weights of other units are in use."""
        slot = self._slot(self.plan.weight_turns)
        return f"WL[{block}, {slot}, 0, 0]" if self.plan.leaves_weights else f"WL[{slot}, {block}, 0, 0]"

    def _projected_block(self, block: str) -> str:
        """Return the number of a block of a part among all blocks of projected channels."""
        return f"part * {self.plan.outputs} + {block}"

    def _parameters(self) -> str:
        """Return the loads of a unit's parameters of requantisation. Those of the next unit run beside the
        longest of the instructions before them: the expansion, or without an expansion, the projection."""
        slot, names = self._slot(self.plan.parameter_turns), self._names()
        stages = zip(names, self.plan.chain.stages, strict=True)
        loads = [
            nest(
                {"b": self.plan.tile.blocks, "row": SETS},
                f"load_parameters(P{name}L[{slot}, row, 0, 0], P{name}[{self._block}, row, 0, 0])",
            )
            for name, stage in stages
            if stage is not self.plan.chain.projection
        ]
        return where("n + step < 1" if self.plan.keeps_parameters else "", "\n".join(loads))

    def _slot(self, turns: int) -> str:
        """Return the index of block `b` of the current unit in a buffer that holds the constants of `turns`
        units."""
        return f"{_turn(turns)} * {self.plan.tile.blocks} + b"

    # The convolutions

    def _inputs(self) -> Iterator[str]:
        """Yield the statements that write the depthwise inputs of a unit: the expansion, or a load."""
        plan, task, count = self.plan, self.plan.chain, self.plan.tile.blocks
        if task.expansion is None:
            yield self._loaded()
            return
        if plan.counts[1] > 1 and plan.has_border:
            begins = f"1 <= strip and {_turn(plan.strip_units)} < {plan.input_turns}"
            yield where(begins, self._border_of_strip())
        if plan.counts[0] > 1 and plan.beyond[0]:
            yield where(f"{self._unit} < {plan.input_turns}", self._border_below())
        sums, loops = (
            f"E[{_turn(plan.sum_turns)}, b, y, x, 0, 0]",
            {"b": count, **dict(zip("yx", plan.read, strict=True))},
        )
        inside = self._place(plan.image, plan.read)[-1]
        yield from self._expanded(sums, loops, inside)
        top, left = plan.first_pixel
        target = f"{self._input(f'y + {top}', f'x + {left}')}, 0, 0]"
        parameters = f"P0L[{self._slot(plan.parameter_turns)}, 0, 0, 0]"
        yield nest(loops, where(inside, f"feed_scaled({target}, {sums}, {parameters})"))

    def _expanded(self, sums: str, loops: dict[str, int], inside: str) -> Iterator[str]:
        """Yield the products of a unit for the expansion. The reset of sums stands beside their first
        products, so that both become a single instruction.

        Args:
            sums, loops: the accumulators, and the loops over them.
            inside: the condition that the image has the pixel of a sum.
        """
        plan, slot = self.plan, self._slot(self.plan.weight_turns)
        expansion = plan.chain.expansion
        assert expansion is not None, "only an expansion is computed"
        (down, across), (row, column) = expansion.size.stride, expansion.size.dilation
        pixel, taps = f"y * {down} + ky * {row}, x * {across} + kx * {column}", ", ".join(plan.taps)

        def products(parts: Iterable[_Part]) -> str:
            product = f"gemm({sums}, XL[copy, {{0}}, {pixel}, 0, 0], W0L[{slot}, {{0}}, {taps}, 0, 0])"
            nests = (
                nest(loops | loop | plan.taps, where(inside, product.format(block))) for loop, block in parts
            )
            return "\n".join((nest(loops, where(inside, f"reset({sums})")), *nests))

        halves, unit, last = _halves("i", plan.inputs, prod(plan.read)), self._unit, plan.units - 1
        yield where(f"{unit} < 1", products(halves))
        yield where(f"1 <= {unit} and {unit} < {last}", products([_whole("i", plan.inputs)]))
        yield where(f"1 <= {unit} and {last} <= {unit}", products(halves))

    def _border_of_strip(self) -> str:
        """Return the load that fills the buffer of a unit with the border again: the strip before it may have
        the border at other edges."""
        loops = {"b": self.plan.tile.blocks, "e": self.plan.inputs_of_block}
        return nest(loops, self._filled(f"M[{_turn(self.plan.input_turns)}, b, e"))

    def _border_below(self) -> str:
        """Return the load of the border at the end of a tile that reaches below the image."""
        plan = self.plan
        first, step = plan.held[0] - plan.beyond[0], plan.tile.rows * plan.size.stride[0]
        loops = {"b": plan.tile.blocks, "y": plan.beyond[0], "x": plan.pitch}
        outside = f"{plan.size.height + plan.size.padding[0] - first} <= rows * {step} + y"
        return nest(loops, where(outside, self._filled(self._input(f"y + {first}", "x"))))

    def _loaded(self) -> str:
        """Return the load of the depthwise inputs of a unit, with their border."""
        held = self.plan.held[0], self.plan.pitch
        row, column, inside = self._place(self.plan.image, held, bordered=True)
        source = f"X[n, {self._block}, {row}, {column}, 0, 0]"
        loops = {"b": self.plan.tile.blocks, **dict(zip("yx", held, strict=True))}
        return nest(loops, self._padded(f"{self._input('y', 'x')}, 0, 0], {source}", inside))

    def _window(self) -> Iterator[str]:
        """Yield the depthwise convolution of a unit."""
        plan, count, name = self.plan, self.plan.tile.blocks, self._name(self.plan.chain.window)
        loops = {"b": count, **dict(zip("yx", plan.results, strict=True))}
        sums = f"D[{_turn(plan.sum_turns)}, b, y, x, 0, 0]"
        slot = self._slot(plan.weight_turns)
        yield nest(loops, f"reset({sums})")
        windows, weights = plan.windows, f"W{name}L[{slot}, dy, dx, 0, 0]"
        places = window_places(windows, plan.size)
        inputs = ", ".join(f"{self._input(row, column)}, 0, 0]" for row, column in places)
        yield nest({**loops, **plan.covers}, f"{windows.intrinsic}({sums}, {inputs}, {weights})")
        parameters = f"P{name}L[{self._slot(plan.parameter_turns)}, 0, 0, 0]"
        if plan.chain.projection is None:
            result = self._result(self._block)
            yield nest(loops, f"store_scaled({result}, {sums}, {parameters})")
        else:
            yield nest(loops, f"feed_scaled({self._depthwise()}, {sums}, {parameters})")

    def _result(self, block: str) -> str:
        """Return the result in DRAM that pixel `y`, `x` of a tile is in a block of channels."""
        rows, columns = self.plan.results
        return f"{RESULT}[n, {block}, rows * {rows} + y, strip * {columns} + x, 0, 0]"

    def _depthwise(self) -> str:
        """Return a depthwise result of a unit."""
        if self.plan.results_apart:
            return f"N[{_turn(RESULT_TURNS)}, b, y, x, 0, 0]"
        top, left = self.plan.first_result
        return f"{self._input(f'y + {top}', f'x + {left}')}, 0, 0]"

    def _project(self) -> Iterator[str]:
        """Yield the products of a unit for the projection, and the STOREs of the results after the last."""
        plan = self.plan
        unit, last = f"step * {plan.units} + {self._unit}", plan.steps * plan.units - 1
        halves = _halves("k", plan.outputs, prod(plan.results))
        yield where(f"{unit} < {last}", self._projected(*_whole("k", plan.outputs)))
        yield where(f"{last} <= {unit}", "\n".join(self._projected(*half) for half in halves))

    def _projected(self, loop: dict[str, int], block: str) -> str:
        """Return the products and STOREs of some blocks of the results of the projection."""
        plan = self.plan
        loops, sums = loop | dict(zip("yx", plan.results, strict=True)), f"S[copy, {block}, y, x, 0, 0]"
        product = f"gemm({sums}, {self._depthwise()}, {self._held(block)})"
        channels = self._projected_block(block)
        stores = nest(loops, f"store_scaled({self._result(channels)}, {sums}, PL[{block}, 0, 0, 0])")
        if plan.tile.parts > 1:  # the STOREs of the part before are over
            load = f"load_parameters(PL[{block}, row, 0, 0], P[{channels}, row, 0, 0])"
            stores = f"{where('tile < 1', nest({**loop, 'row': SETS}, load))}\n{stores}"
        return "\n".join(
            (
                *summed(self._unit, loops, sums, nest({**loops, "b": plan.tile.blocks}, product)),
                where(f"{plan.units - 1} <= {self._unit}", stores),
            )
        )


_Part = tuple[dict[str, int], str]
"""A loop over some blocks of channels, and the block of an iteration."""


def _whole(loop: str, count: int) -> _Part:
    """Return the loop over all of so many blocks."""
    return {loop: count}, loop


def _halves(loop: str, count: int, pixels: int) -> list[_Part]:
    """Return the halves of so many blocks, or all blocks if a half takes less than LEAST_HALF slots."""
    middle = count // 2
    if middle * pixels < LEAST_HALF:
        return [_whole(loop, count)]
    return [({loop: middle}, loop), ({loop: count - middle}, f"{loop} + {middle}")]


def _turn(count: int) -> str:
    """Return the name of the number of a unit among `count` consecutive units."""
    return f"turn{count}"
