"""A 1x1 convolution of an image whose channels are multiplied by factors, as one task.

The image is multiplied by diagonal weights, see `vdla.compiler.tasks.scaling`. The store unit requantises the
products into INP, and the products of the convolution read them there. So the scaled image is never in DRAM.

The work is a sequence of steps. A step loads a chunk of channels of a tile of pixels, scales it, and adds its
products with the weights of the convolution to the sums of the tile. Steps use several sets of buffers in
turn. The program scales the chunks of later steps ahead of the products of a step. So STOREs into INP run
during products, and loads during both. If all weights fit, the steps of the first tile load them. Else there
is a single tile of pixels, and each step loads the weights of its chunk.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm
from typing import ClassVar

from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.tasks.base import Choice, PartedTask, divisors, fit_memories
from vdla.compiler.tasks.program_text import (
    ChipBuffer,
    ConstantOperand,
    nest,
    operand_type,
    parse_program,
    summed,
    where,
)
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

SETS = len(Parameter)
STEP_CYCLES = 70, 30
"""Estimated cycles of a step that do not overlap with other work: of two sets of buffers, and of more."""
MOST_STEPS = 64
"""Limit of the counted steps of a tile size, since the estimate is too low for many short steps. Without the
limit, EfficientNet-B0 and RegNetY take 0.2 % and 2.5 % more cycles."""


@dataclass(frozen=True, slots=True)
class ScaledTile:
    """The sizes of a step.

    Attributes:
        outputs: blocks of channels of the result.
        inputs: blocks of channels of the image.
        pixels: number of pixels.
    """

    outputs: int
    inputs: int
    pixels: int


@dataclass(frozen=True, slots=True)
class ScaledTask(PartedTask[ScaledTile]):
    """The product of planes with a factor per channel, requantised, and its 1x1 convolution.

    Attributes:
        inputs, outputs: blocks of channels of the image and of the result.
        pixels: number of pixels.
        units: number of weight blocks whose sum is the negative zero point of the factors.
        constants: number of inputs whose sum is the negative zero point of the image.
        adds_residual: STOREs add a residual.
    """

    inputs: int
    outputs: int
    pixels: int
    units: int = 0
    constants: int = 0
    adds_residual: bool = False
    SMALLEST: ClassVar[str] = "one pixel of a scaled image"

    @property
    def scales(self) -> int:
        """Products that scale an element."""
        return 1 + self.units + self.constants

    def tile(self, config: AcceleratorConfig, copies: int) -> ScaledTile | None:
        """Return the tile with the fewest estimated cycles; see `PartedTask.tile`."""
        if 1 + self.outputs + self.adds_residual > MOST_PARAMETER_SETS:
            return None
        tiles = (
            ScaledTile(outputs, inputs, pixels)
            for outputs in divisors(self.outputs)
            for inputs in divisors(self.inputs)
            for pixels in divisors(self.pixels)
        )
        fitting = [tile for tile in tiles if _Steps(self, tile, copies + 1).fits(config)]
        return min(fitting, key=lambda tile: _Steps(self, tile, copies + 1).cycles(config), default=None)

    def tiled(self, tile: ScaledTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of the requantised convolution of scaled X: int8[inputs, pixels, batch,
        block].

        Its parameters are the set Q by which the scaled image is requantised, the parameters P and the
        weights W of the convolution, the image X, the factors D as diagonals of weights, and the result Z.
        The weights K and the inputs C are as in `vdla.compiler.tasks.scaling.FactorsTask`.
        """
        return _ScaledProgram(self, _Steps(self, tile, choice.threads + 1), config).program()


def scales_inputs(config: AcceleratorConfig, task: ScaledTask) -> bool:
    """Whether `config` supports a task: the store unit writes inputs, and a tile fits the scratchpads."""
    extensions = Extension.FEEDBACK, Extension.REQUANTISE
    return all(map(config.has, extensions)) and task.tile(config, 1) is not None


@dataclass(frozen=True)
class _Steps:
    """The steps of a task with a tile size.

    Attributes:
        turns: number of sets of buffers.
    """

    task: ScaledTask
    tile: ScaledTile
    turns: int

    @property
    def chunks(self) -> int:
        """Steps of a tile of pixels."""
        return self.task.inputs // self.tile.inputs

    @property
    def tiles(self) -> int:
        """Tiles of pixels."""
        return self.task.pixels // self.tile.pixels

    @property
    def parts(self) -> int:
        """Tiles of blocks of channels of the result."""
        return self.task.outputs // self.tile.outputs

    @property
    def sums(self) -> int:
        """Sets of sums, which tiles of pixels use in turn."""
        return min(self.turns, self.tiles)

    @property
    def round(self) -> int:
        """Number of steps after which the same chunk meets the same buffers again."""
        return lcm(self.chunks, self.chunks * self.sums, self.turns)

    @property
    def weights(self) -> int:
        """Blocks of weights of the convolution on chip."""
        return self.tile.outputs * (self.task.inputs if self.tiles > 1 else self.turns * self.tile.inputs)

    @property
    def counted(self) -> int:
        """Number of steps that is compared with MOST_STEPS: all steps, but at most three rounds and `turns`
        further steps."""
        return min(self.tiles * self.chunks, 3 * self.round + self.turns)

    def fits(self, config: AcceleratorConfig) -> bool:
        """Whether the buffers fit the scratchpads of `config`."""
        task, tile = self.task, self.tile
        held = self.turns * tile.inputs * tile.pixels
        sets = SETS * (1 + task.outputs + task.adds_residual)
        taken = {
            MemoryType.INP: 2 * held + task.constants,
            MemoryType.WGT: task.inputs + task.units + self.weights,
            MemoryType.ACC: sets + held + self.sums * tile.outputs * tile.pixels,
            MemoryType.UOP: 4 * self.turns * tile.outputs * tile.inputs,
        }
        return fit_memories(taken, config) and self.counted <= MOST_STEPS

    def cycles(self, config: AcceleratorConfig) -> float:
        """Return the estimated cycles: products, STOREs or the bus bound them."""
        task, tile, bus = self.task, self.tile, config.bus_bytes
        scaled, results = self.parts * task.inputs * task.pixels, task.outputs * task.pixels
        element, weight = (config.element_bytes(memory) / bus for memory in (MemoryType.INP, MemoryType.WGT))
        store = blocks(config.batch * config.block_out, config.values_per_store_read)
        of_step = tile.inputs * tile.pixels
        steps = self.parts * self.tiles * self.chunks
        bounds = (
            scaled * task.scales + task.inputs * results + steps * STEP_CYCLES[self.turns > 2],
            (scaled + results) * store + steps * STEP_CYCLES[self.turns > 2],
            (scaled + results * (1 + task.adds_residual)) * element
            + (task.inputs * task.outputs + self.parts * task.inputs) * weight,
        )
        first = of_step * (element + task.scales + store) + tile.inputs * (tile.outputs + 1) * weight
        last = of_step * tile.outputs + tile.outputs * tile.pixels * max(store, element)
        return max(bounds) + first + last


@dataclass(frozen=True)
class _ScaledProgram:
    """The program of a task with a tile size."""

    task: ScaledTask
    steps: _Steps
    config: AcceleratorConfig

    def program(self) -> Func:
        """Return the program."""
        task, config = self.task, self.config
        operands = {
            "P": operand_type(config, task.outputs, SETS, scope=Scope.PARAMETERS),
            "X": operand_type(config, task.inputs, task.pixels),
            "D": operand_type(config, task.inputs, scope=Scope.WEIGHT),
            "W": operand_type(config, task.outputs, task.inputs, scope=Scope.WEIGHT),
            "Z": operand_type(config, task.outputs, task.pixels),
        }
        constants = (
            ConstantOperand("Q", Scope.PARAMETERS),
            ConstantOperand("K", Scope.WEIGHT, task.units),
            ConstantOperand("C", Scope.INPUT, task.constants),
        )
        body = "\n".join((*self._buffers(), self._all_steps()))
        held = ChipBuffer("PL", Scope.PARAMETERS, {"k": task.outputs, "row": SETS}, config)
        statements = held.loaded("P[k, row, 0, 0]"), nest({"part": self.steps.parts}, body)
        return parse_program(operands, statements, config, constants)

    def _buffers(self) -> Iterator[str]:
        """Yield the allocations of all buffers. `X` holds the chunk of a step, and its scaled chunk."""
        task, tile, config, steps = self.task, self.steps.tile, self.config, self.steps
        chunk, weights = {"c": tile.inputs, "e": tile.pixels}, {"k": tile.outputs, "c": task.inputs}
        turns = {"t": steps.turns}
        yield ChipBuffer("DL", Scope.WEIGHT, {"c": task.inputs}, config).allocation
        if steps.tiles == 1:
            weights = turns | weights | {"c": tile.inputs}
        yield ChipBuffer("WL", Scope.WEIGHT, weights, config).allocation
        yield ChipBuffer("XL", Scope.INPUT, {**turns, "scaled": 2, **chunk}, config).allocation
        yield ChipBuffer("S", Scope.ACCUMULATOR, turns | chunk, config).allocation
        sums = {"t": steps.sums, "k": tile.outputs, "e": tile.pixels}
        yield ChipBuffer("Y", Scope.ACCUMULATOR, sums, config).allocation

    def _all_steps(self) -> str:
        """Return the statements of all steps: the chunk of step `s` is scaled before the products of a step
        `turns - 1` steps before it."""
        steps = self.steps
        count, ahead = steps.tiles * steps.chunks, steps.turns - 1
        scaled = "\n".join((*self._variables("s"), *self._scaled()))
        products = "\n".join((*self._variables(f"s - {ahead}"), *self._products()))
        body = f"{where(f's < {count}', scaled)}\n{where(f'{ahead} <= s', products)}"
        return nest({"s": count + ahead}, body)

    def _variables(self, step: str) -> Iterator[str]:
        """Yield the variables of a step: its buffers, its chunk, its tile of pixels, and the tile's sums."""
        steps = self.steps
        yield f"turn = ({step}) % {steps.turns}"
        yield f"chunk = ({step}) % {steps.chunks}"
        yield f"tile = ({step}) // {steps.chunks}"
        yield f"sums = tile % {steps.sums}"

    def _scaled(self) -> Iterator[str]:
        """Yield the loads of a step, and the scaling of its chunk."""
        task, tile = self.task, self.steps.tile
        channel, loops = f"chunk * {tile.inputs} + c", {"c": tile.inputs, "e": tile.pixels}
        source, factor = "XL[turn, 0, c, e, 0, 0]", f"DL[{channel}, 0, 0]"
        yield nest(loops, f"load_inp({source}, X[{channel}, tile * {tile.pixels} + e, 0, 0])")
        factors = nest({"c": tile.inputs}, f"load_wgt({factor}, D[{channel}, 0, 0])")
        weights = f"load_wgt({self._weights}, W[part * {tile.outputs} + k, {channel}, 0, 0])"
        loads = f"{factors}\n{nest({'k': tile.outputs, 'c': tile.inputs}, weights)}"
        yield where("tile < 1", loads)
        total = "S[turn, c, e, 0, 0]"
        yield nest(loops, f"reset({total})")
        yield nest(loops, f"gemm({total}, {source}, {factor})")
        for number in range(task.units):
            yield nest(loops, f"gemm({total}, {source}, KL[{number}, 0, 0])")
        for number in range(task.constants):
            yield nest(loops, f"gemm({total}, CL[{number}, 0, 0], {factor})")
        yield nest(loops, f"feed_scaled(XL[turn, 1, c, e, 0, 0], {total}, QL[0, 0, 0, 0])")

    @property
    def _weights(self) -> str:
        """A block of weights of the convolution, of the chunk of a step."""
        if self.steps.tiles == 1:
            return "WL[turn, k, c, 0, 0]"
        return f"WL[k, chunk * {self.steps.tile.inputs} + c, 0, 0]"

    def _products(self) -> Iterator[str]:
        """Yield the products of the convolution with the chunk of a step, and the STOREs of a whole tile."""
        tile, loops = self.steps.tile, {"k": self.steps.tile.outputs, "e": self.steps.tile.pixels}
        total, place = "Y[sums, k, e, 0, 0]", f"part * {tile.outputs} + k"
        product = f"gemm({total}, XL[turn, 1, c, e, 0, 0], {self._weights})"
        yield from summed("chunk", loops, total, nest({**loops, "c": tile.inputs}, product))
        result = f"Z[{place}, tile * {tile.pixels} + e, 0, 0]"
        store = nest(loops, f"store_scaled({result}, {total}, PL[{place}, 0, 0, 0])")
        yield where(f"{self.steps.chunks - 1} <= chunk", store)
