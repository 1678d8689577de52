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
from vdla.compiler.tasks.base import Choice, PartedTask
from vdla.compiler.tasks.plane_tile import divisors
from vdla.compiler.tasks.program_text import ChipBuffer, ConstantOperand, nest, operand_type, parse_program
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

SETS = len(Parameter)
STEP_CYCLES = 70, 30
"""Estimated cycles of a step that do not overlap with other work: of two sets of buffers, and of more."""
MOST_STEPS = 64
"""Limit of the steps that a program writes out."""


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
    THREADS: ClassVar[tuple[int, ...]] = (2, 1)
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
        """Steps after which chunks and buffers have the same turn again."""
        return lcm(self.chunks, self.chunks * self.sums, self.turns)

    @property
    def weights(self) -> int:
        """Blocks of weights of the convolution on chip."""
        return self.tile.outputs * (self.task.inputs if self.tiles > 1 else self.turns * self.tile.inputs)

    @property
    def written_out(self) -> int:
        """Steps that the program writes out: the first round, a round in a loop, and the rest."""
        steps, whole = self.tiles * self.chunks, self.round
        return min(steps, 3 * whole + self.turns)

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
        fit = all(count <= config.depth(memory) for memory, count in taken.items())
        return fit and self.written_out <= MOST_STEPS

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
        optional = (
            ConstantOperand("Q", Scope.PARAMETERS),
            ConstantOperand("K", Scope.WEIGHT, task.units),
            ConstantOperand("C", Scope.INPUT, task.constants),
        )
        body = "\n".join((*self._buffers(), *self._all_steps()))
        held = ChipBuffer("PL", Scope.PARAMETERS, {"k": task.outputs, "row": SETS}, config)
        statements = held.loaded("P[k, row, 0, 0]"), nest({"part": self.steps.parts}, body)
        return parse_program(
            operands, statements, config, [constant for constant in optional if constant.count]
        )

    def _buffers(self) -> Iterator[str]:
        """Yield the allocations of all buffers."""
        task, tile, config, steps = self.task, self.steps.tile, self.config, self.steps
        yield ChipBuffer("DL", Scope.WEIGHT, {"c": task.inputs}, config).allocation
        chunk, weights = {"c": tile.inputs, "e": tile.pixels}, {"k": tile.outputs, "c": task.inputs}
        if steps.tiles > 1:
            yield ChipBuffer("W0", Scope.WEIGHT, weights, config).allocation
        for turn in range(steps.turns):
            yield ChipBuffer(f"A{turn}", Scope.INPUT, chunk, config).allocation
            yield ChipBuffer(f"X{turn}", Scope.INPUT, chunk, config).allocation
            yield ChipBuffer(f"S{turn}", Scope.ACCUMULATOR, chunk, config).allocation
            if steps.tiles == 1:
                yield ChipBuffer(f"W{turn}", Scope.WEIGHT, weights | {"c": tile.inputs}, config).allocation
        for turn in range(steps.sums):
            of_tile = {"k": tile.outputs, "e": tile.pixels}
            yield ChipBuffer(f"Y{turn}", Scope.ACCUMULATOR, of_tile, config).allocation

    def _all_steps(self) -> Iterator[str]:
        """Yield the statements of all steps: a loop over rounds, and the steps before and after it."""
        count, whole = self.steps.tiles * self.steps.chunks, self.steps.round
        rounds = (count - self.ahead) // whole - 1
        looped = rounds if rounds > 1 else 0
        for step in range(min(self.ahead, count)):
            yield from self._scaled(step)
        for step in range(whole if looped else count):
            yield from self._step(step, count)
        if looped:
            body = [
                part for step in range(whole, 2 * whole) for part in self._step(step, count, f"r * {whole}")
            ]
            yield nest({"r": looped}, "\n".join(body))
            for step in range((looped + 1) * whole, count):
                yield from self._step(step, count)

    @property
    def ahead(self) -> int:
        """How many steps are scaled ahead of the products of a step."""
        return self.steps.turns - 1

    def _step(self, step: int, count: int, more: str = "") -> Iterator[str]:
        """Yield the statements that scale the chunk of a later step, and the products of a step.

        Args:
            count: number of steps.
            more: further steps before it, a multiple of the round.
        """
        if step + self.ahead < count:
            yield from self._scaled(step + self.ahead, more)
        yield from self._products(step, more)

    def _pixel(self, step: int, more: str) -> str:
        """Return the first pixel of a step."""
        first = step // self.steps.chunks * self.steps.tile.pixels
        return f"{more} // {self.steps.chunks} * {self.steps.tile.pixels} + {first}" if more else str(first)

    def _scaled(self, step: int, more: str = "") -> Iterator[str]:
        """Yield the loads of a step, and the scaling of its chunk."""
        task, tile, steps = self.task, self.steps.tile, self.steps
        turn, chunk = step % steps.turns, step % steps.chunks
        first, loops = chunk * tile.inputs, {"c": tile.inputs, "e": tile.pixels}
        yield nest(
            loops, f"load_inp(A{turn}[c, e, 0, 0], X[c + {first}, e + {self._pixel(step, more)}, 0, 0])"
        )
        if step < steps.chunks and not more:
            factors = f"load_wgt(DL[c + {first}, 0, 0], D[c + {first}, 0, 0])"
            weights = f"W[part * {tile.outputs} + k, c + {first}, 0, 0]"
            yield nest({"c": tile.inputs}, factors)
            yield nest({"k": tile.outputs, "c": tile.inputs}, f"load_wgt({self._weights(step)}, {weights})")
        total, source, factor = f"S{turn}[c, e, 0, 0]", f"A{turn}[c, e, 0, 0]", f"DL[c + {first}, 0, 0]"
        yield nest(loops, f"reset({total})")
        yield nest(loops, f"gemm({total}, {source}, {factor})")
        for number in range(task.units):
            yield nest(loops, f"gemm({total}, {source}, KL[{number}, 0, 0])")
        for number in range(task.constants):
            yield nest(loops, f"gemm({total}, CL[{number}, 0, 0], {factor})")
        yield nest(loops, f"feed_scaled(X{turn}[c, e, 0, 0], {total}, QL[0, 0, 0, 0])")

    def _weights(self, step: int) -> str:
        """Return a block of weights of the convolution, of the chunk of a step."""
        if self.steps.tiles == 1:
            return f"W{step % self.steps.turns}[k, c, 0, 0]"
        return f"W0[k, c + {step % self.steps.chunks * self.steps.tile.inputs}, 0, 0]"

    def _products(self, step: int, more: str = "") -> Iterator[str]:
        """Yield the products of the convolution with the chunk of a step, and the STOREs of a whole tile."""
        tile, steps = self.steps.tile, self.steps
        chunk, loops = step % steps.chunks, {"k": tile.outputs, "e": tile.pixels}
        total = f"Y{step // steps.chunks % steps.sums}[k, e, 0, 0]"
        if not chunk:
            yield nest(loops, f"reset({total})")
        source = f"X{step % steps.turns}[c, e, 0, 0]"
        yield nest({**loops, "c": tile.inputs}, f"gemm({total}, {source}, {self._weights(step)})")
        if chunk == steps.chunks - 1:
            place = f"part * {tile.outputs} + k"
            result = f"Z[{place}, e + {self._pixel(step, more)}, 0, 0]"
            yield nest(loops, f"store_scaled({result}, {total}, PL[{place}, 0, 0, 0])")
