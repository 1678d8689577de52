"""Tasks: operators with their sizes, for which programs are chosen and lowered.

Equal tasks have equal programs.
"""

from dataclasses import dataclass
from enum import StrEnum

from vdla.compiler.te.operators.narrowing import Narrowing, Scale
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed

BY_CHANNEL = Scale()


@dataclass(frozen=True, slots=True)
class ConvolutionTask:
    """A convolution or a matrix product.

    Attributes:
        border, alike: as `vdla.compiler.te.operators.convolution.conv2d` has them.
        slides: it is a depthwise convolution with kernels of whole windows, as
            `vdla.compiler.te.operators.windows.conv2d_windows` has it.
        reads, writes: blocks of channels of its input, and of its result, that alternate in DRAM pixel by
            pixel, see `vdla.compiler.codegen.interleaved`.
    """

    size: Convolution
    narrowing: Narrowing = BY_CHANNEL
    border: int = 0
    alike: bool = False
    slides: bool = False
    reads: int = 1
    writes: int = 1


@dataclass(frozen=True, slots=True)
class TransposedTask:
    """A transposed convolution; `reads` and `writes` as those of a `ConvolutionTask`."""

    size: Transposed
    narrowing: Narrowing = BY_CHANNEL
    reads: int = 1
    writes: int = 1


@dataclass(frozen=True, slots=True)
class PoolingTask:
    """A max pooling; `reads` and `writes` as those of a `ConvolutionTask`."""

    size: Pooling
    reads: int = 1
    writes: int = 1


class Elements(StrEnum):
    """What is done with elements."""

    ADD = "add"
    COPY = "copy"
    MULTIPLY = "multiply"
    REQUANTISE = "requantise"


@dataclass(frozen=True, slots=True)
class ElementsTask:
    """An operator on elements.

    Attributes:
        elements: of `batch x block_out` numbers each.
        constants: the factors of ADD, the zeros of MULTIPLY.
    """

    kind: Elements
    elements: int
    constants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SumTask:
    """A sum of two scaled tensors by the multiplier array, see `vdla.compiler.codegen.sums`; its factors
    stand in the weights.

    Attributes:
        elements: as those of an `ElementsTask`.
    """

    elements: int


@dataclass(frozen=True, slots=True)
class MaximumTask:
    """A max pooling that reads through the multiplier array, see `vdla.compiler.codegen.maxima`."""

    size: Pooling


@dataclass(frozen=True, slots=True)
class FactorsTask:
    """A product of planes with a factor for each channel, see `vdla.compiler.codegen.planes`.

    Attributes:
        blocks: of channels.
        elements: of one block, of `batch x block_out` numbers each.
        units, constants: weights and inputs that stand for the zero points of the factors and the planes.
    """

    blocks: int
    elements: int
    units: int = 0
    constants: int = 0


@dataclass(frozen=True, slots=True)
class ScalingTask:
    """A product of planes with a factor for each channel by the ALU, see `vdla.compiler.codegen.planes`.

    Attributes:
        blocks: of channels, as they stand in DRAM.
        elements: pixels of a plane.
        parts: elements of a block's pixel, of `block_out` numbers each.
        zeros: zero points of the planes and of the factors.
    """

    blocks: int
    elements: int
    parts: int
    zeros: tuple[int, int]


@dataclass(frozen=True, slots=True)
class DiagonalTask:
    """The factors of blocks of channels as diagonals of weights."""

    blocks: int


@dataclass(frozen=True, slots=True)
class MeanTask:
    """The requantised sum of each plane of blocks of channels; `elements` as those of a `FactorsTask`."""

    blocks: int
    elements: int


@dataclass(frozen=True, slots=True)
class RowsTask:
    """Rows of activations as weights, see `vdla.compiler.codegen.heads`.

    Attributes:
        blocks: of channels of a row.
        pitch: blocks of weights from one row of blocks to the next; 0: as many as there are of channels.
    """

    blocks: int
    rows: int
    pitch: int = 0


@dataclass(frozen=True, slots=True)
class TurnTask:
    """Blocks of weights that are turned, see `vdla.compiler.codegen.heads`: so many rows and columns of
    blocks.

    Attributes:
        pitch: blocks from one row of turned blocks to the next; 0: as many as there are rows.
    """

    rows: int
    columns: int
    pitch: int = 0


@dataclass(frozen=True, slots=True)
class RepeatTask:
    """An image each pixel of which is repeated `factors` times, down and across.

    Attributes:
        blocks: of channels, as they stand in DRAM.
        parts: elements of a block's pixel, of `block_out` numbers each.
    """

    blocks: int
    height: int
    width: int
    factors: tuple[int, int]
    parts: int = 1


ScheduledTask = ConvolutionTask | TransposedTask | PoolingTask | ElementsTask
"""The tasks whose programs come from schedules of tensor expressions."""

PlaneTask = FactorsTask | ScalingTask | DiagonalTask | MeanTask | RepeatTask
HeadsTask = RowsTask | TurnTask
TiledTask = ConvolutionTask | TransposedTask
SharedTask = PoolingTask | ElementsTask | SumTask | MaximumTask | PlaneTask | HeadsTask
"""Tasks whose tiles are the largest that fit so many times."""
Task = TiledTask | SharedTask
