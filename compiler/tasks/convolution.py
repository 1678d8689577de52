"""Convolutions, matrix products and transposed convolutions."""

from abc import abstractmethod
from dataclasses import dataclass, field, fields, replace
from math import prod

from vdla.compiler.codegen.estimate import ranked_tiles
from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.nest import TILE_RANK
from vdla.compiler.codegen.tiles import (
    GROUPS,
    INPUTS,
    OUTPUTS,
    ROWS,
    WEIGHTS,
    TileFootprint,
    Tiles,
    TilingProblem,
    table_of,
)
from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.operands.address_map import AddressMap, Packed
from vdla.compiler.operands.interleaved import Interleaved, interleaved
from vdla.compiler.operands.narrow_weights import NarrowWeights
from vdla.compiler.tasks.base import Choice, Task
from vdla.compiler.tasks.scheduling import narrow, tensorize, virtual_threads
from vdla.compiler.te.operators.convolution import (
    ConvolutionTensors,
    conv2d,
    conv2d_transposed,
    conv2d_windows,
    phase_convolution,
)
from vdla.compiler.te.operators.narrowing import AddingScale, Narrowing, Scale
from vdla.compiler.te.operators.sizes import Convolution, Transposed, blocks
from vdla.compiler.te.schedule import Schedule, StageHandle, create_schedule
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.runtime.windows import GatheredLines

BY_CHANNEL = Scale()
COLUMN_AXIS = 3  # of an input
COLUMNS = "columns"  # the loop over tiles of columns, which never becomes virtual threads


class TiledTask(Task):
    """A convolution, whose tile sizes are chosen independently of each other.

    Attributes:
        size: sizes of the operator.
        narrowing: how sums become results.
        alike: all blocks of weights are equal; the program loads a single block.
        slides: a depthwise convolution whose windows slide along the rows.
        reads, writes: number of channel blocks of the input, and of the result, that are interleaved in DRAM
            pixel by pixel, see `vdla.compiler.operands.interleaved`.
    """

    __slots__ = ()
    size: Convolution | Transposed
    narrowing: Narrowing
    alike: bool = False
    slides: bool = False
    reads: int
    writes: int

    @property
    @abstractmethod
    def convolution(self) -> Convolution:
        """The sizes of the convolution that is tiled; for a transposed convolution, of a single phase."""

    @abstractmethod
    def operator(self, config: AcceleratorConfig) -> ConvolutionTensors:
        """Return the tensor expression of the operator."""

    @property
    def adds_residual(self) -> bool:
        """Whether the STOREs of the task add a residual."""
        return isinstance(self.narrowing, AddingScale)

    def schedule(self, choice: Choice, config: AcceleratorConfig) -> Schedule:
        """Return the schedule for a choice; raises the same errors as `program`."""
        operator = self.operator(config)
        return schedule_conv2d(operator, self.convolution, config, threads=choice.threads, tiles=choice.tiles)

    def program(self, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program for a choice; see `Task.program`."""
        return self.schedule(choice, config).lower(verified=False)

    def work(self, target: Target, threads: int) -> TilingProblem:
        """Return the tiling problem of the task with `threads` virtual threads."""
        return TilingProblem(
            self.convolution,
            target.config,
            threads,
            isinstance(self.narrowing, Scale),
            self.alike,
            self.slides,
            target.estimated_memory,
            self.adds_residual,
            self.reads,
            self.writes,
        )

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        size = self.size
        inputs, outputs = blocks(size.channels, config.block_in), blocks(size.outputs, config.block_out)
        return interleaved(
            X=Interleaved(self.reads, size.height * size.width, inputs),
            Z=Interleaved(self.writes, prod(size.out_size), outputs),
        )


@dataclass(frozen=True, slots=True)
class ConvolutionTask(TiledTask):
    """A convolution or a matrix product; further attributes as in `TiledTask`.

    Attributes:
        border: int8 value with which the input is padded.
        alike: see `vdla.compiler.te.operators.convolution.conv2d`.
        slides: the kernel consists of whole windows, see
            `vdla.compiler.te.operators.convolution.conv2d_windows`.
    """

    size: Convolution
    narrowing: Narrowing = BY_CHANNEL
    border: int = 0
    alike: bool = False
    slides: bool = False
    reads: int = 1
    writes: int = 1

    @property
    def convolution(self) -> Convolution:
        """The sizes of the convolution."""
        return self.size

    def narrowed(self, halvings: int) -> "NarrowTask":
        """Return the task with weights of fewer bits in DRAM."""
        kept = {part.name: getattr(self, part.name) for part in fields(ConvolutionTask)}
        return NarrowTask(**kept, halvings=halvings)

    def operator(self, config: AcceleratorConfig) -> ConvolutionTensors:
        """Return the tensor expression of the operator."""
        if self.slides:
            return conv2d_windows(self.size, config, self.narrowing, border=self.border)
        return conv2d(self.size, config, self.narrowing, border=self.border, alike=self.alike)


@dataclass(frozen=True, slots=True)
class NarrowTask(ConvolutionTask):
    """A convolution or a matrix product whose weights have fewer bits in DRAM; further attributes as in
    `ConvolutionTask`.

    Attributes:
        halvings: of LOADs of weights.
    """

    halvings: int = field(kw_only=True)

    def work(self, target: Target, threads: int) -> TilingProblem:
        """Return the tiling problem of the task with `threads` virtual threads."""
        return replace(ConvolutionTask.work(self, target, threads), halvings=self.halvings)

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        return {**ConvolutionTask.address_maps(self, config), "W": NarrowWeights(self.halvings)}


@dataclass(frozen=True, slots=True)
class GatheredTask(ConvolutionTask):
    """A convolution over windows of packed lines, which GATHER loads; further attributes as in
    `ConvolutionTask`.

    Attributes:
        step: bytes from one window of a line to the next.
        pitch: bytes from one line to the next.
    """

    step: int = field(kw_only=True)
    pitch: int = field(kw_only=True)

    def work(self, target: Target, threads: int) -> TilingProblem:
        """Return the tiling problem of the task with `threads` virtual threads."""
        return replace(ConvolutionTask.work(self, target, threads), step=self.step)

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        lines = GatheredLines(self.size.width, self.step, self.pitch)
        return {**ConvolutionTask.address_maps(self, config), "X": Packed(lines)}


@dataclass(frozen=True, slots=True)
class TransposedTask(TiledTask):
    """A transposed convolution; attributes as in `TiledTask`."""

    size: Transposed
    narrowing: Narrowing = BY_CHANNEL
    reads: int = 1
    writes: int = 1

    @property
    def convolution(self) -> Convolution:
        """The sizes of the convolution that computes a phase of the result."""
        return phase_convolution(self.size)

    def operator(self, config: AcceleratorConfig) -> ConvolutionTensors:
        """Return the tensor expression of the operator."""
        return conv2d_transposed(self.size, config, self.narrowing)


def schedule_conv2d(
    operator: ConvolutionTensors,
    size: Convolution,
    config: AcceleratorConfig,
    *,
    threads: int = 2,
    tiles: Tiles | None = None,
) -> Schedule:
    """Return the schedule of a convolution with `threads` virtual threads.

    Output tiles are accumulated over chunks of input blocks.

    Args:
        tiles: tile sizes; None: the sizes with the fewest estimated cycles.

    Raises:
        IrError: no tile fits the scratchpads.
    """
    scales, slides = operator.narrowed.parameters is not None, operator.windows is not None
    work = TilingProblem(size, config, threads, scales, slides=slides)
    tiles = tiles or ranked_tiles(work, 1)[0]
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    source, weights = _operands(schedule, operator)
    outputs_loop, pixels_loop, place = _tile_outputs(schedule, operator, tiles, threads)
    parameters_loop = None
    if not work.keeps_parameters:  # fewer loads then wait for the STOREs that use the parameters before
        rounds = TileFootprint(work, table_of(tiles)).rounds
        parameters_loop, inner = schedule[operator.out].split(outputs_loop, int(rounds[0]))
        place, outputs_loop = inner if place == outputs_loop else place, inner
    narrow(schedule, operator.narrowed, place, parameters_loop, intrinsics)
    schedule[operator.total].compute_at(operator.out, place)
    chunk = _order_sums(schedule, operator, tiles)
    for stage, what, loop in ((source, INPUTS, pixels_loop), (weights, WEIGHTS, outputs_loop)):
        at = (operator.out, loop) if tiles.keeps == what else (operator.total, chunk)
        schedule[stage].compute_at(*at)
    sums = intrinsics.slide if operator.windows else intrinsics.gemm
    tensorize(
        schedule, ((source, intrinsics.load_inp), (weights, intrinsics.load_wgt), (operator.total, sums))
    )
    return schedule


def _operands(schedule: Schedule, operator: ConvolutionTensors) -> tuple[Tensor, Tensor]:
    """Give the operands and the sums their scratchpads; return the stages that load inputs and weights."""
    source = operator.padded or schedule.cache_read(operator.inp, Scope.INPUT, [operator.total], name="XL")
    weights = schedule.cache_read(operator.wgt, Scope.WEIGHT, [operator.total], name="WL", whole=TILE_RANK)
    schedule[source].set_scope(Scope.INPUT)
    if operator.windows and operator.windows.rows > 1:
        schedule[source].make_odd(source.axes[COLUMN_AXIS].name)
    schedule[operator.total].set_scope(Scope.ACCUMULATOR)
    return source, weights


def _tile_outputs(
    schedule: Schedule, operator: ConvolutionTensors, tiles: Tiles, threads: int
) -> tuple[str, str, str]:
    """Tile the loops of the result. Return the loop over tiles of outputs, the loop over tiles of columns,
    and the innermost loop around a tile.

    If inputs are kept on chip, the loop over tiles of outputs is inside the loops over tiles of pixels.
    """
    handle = schedule[operator.out]
    axes = _named_axes(operator.out, handle)
    outer_o, inner_o = handle.split(axes["o"], tiles.outputs)
    outer_y, inner_y = handle.split(axes["y"], tiles.rows)
    outer_x, inner_x = handle.split(axes["x"], tiles.columns)
    loops = {name: axes[name] for name in operator.outer}
    tiled = {OUTPUTS: outer_o, ROWS: outer_y, COLUMNS: outer_x}
    first = (ROWS, COLUMNS, OUTPUTS) if tiles.keeps == INPUTS else (OUTPUTS, ROWS, COLUMNS)
    loops |= {name: tiled[name] for name in first}
    threaded = operator.outer[-1] if tiles.threads_over == GROUPS else tiles.threads_over
    loops[threaded], thread = virtual_threads(handle, loops[threaded], threads)
    order = [*loops.values(), *thread]
    handle.reorder(*order, inner_o, inner_y, inner_x, axes["b"], axes["j"])
    return loops[OUTPUTS], loops[COLUMNS], order[-1]


def _named_axes(tensor: Tensor, handle: StageHandle) -> dict[str, str]:
    """Return the loops of a stage, by the axis names of the tensor."""
    return dict(zip((axis.name for axis in tensor.axes), handle.axis, strict=True))


def _order_sums(schedule: Schedule, operator: ConvolutionTensors, tiles: Tiles) -> str:
    """Order the loops of the sums, with chunks of input blocks outermost; return the loop over chunks."""
    handle = schedule[operator.total]
    axes = _named_axes(operator.total, handle)
    ci, dy, dx, *of_element = handle.reduce_axis
    chunk, inner = handle.split(ci, tiles.inputs)
    around = (axes[name] for name in (*operator.outer, "o", "y", "x"))
    handle.reorder(chunk, *around, inner, dy, dx, axes["b"], axes["j"], *of_element)
    return chunk
