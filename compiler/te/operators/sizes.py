"""Sizes of operators and derived quantities: output size, joined groups, phases, multiply-accumulates."""

from dataclasses import dataclass
from math import lcm, prod

from vdla.compiler.ir.nodes import IrError
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.host.windows import larger_window, spans

Pads = tuple[int, int, int, int]  # above, left, below, right


def blocks(size: int, block: int) -> int:
    """Return the number of blocks that hold `size` channels; the last block may be padded with zeros."""
    return -(-size // block)


def window_size(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: Pads,
    dilation: tuple[int, int] = (1, 1),
) -> tuple[int, int]:
    """Return the height and width of the output of a sliding window."""
    height, width = (
        (size[axis] + padding[axis] + padding[axis + 2] - dilation[axis] * (kernel[axis] - 1) - 1)
        // stride[axis]
        + 1
        for axis in (0, 1)
    )
    return height, width


def _check_window(
    subject: str,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: Pads,
    dilation: tuple[int, int] = (1, 1),
) -> None:
    """Check that the window fits the padded input and that kernel, stride and dilation are positive.

    Raises:
        IrError: a check fails.
    """
    if min(*kernel, *stride, *dilation) < 1:
        raise IrError(
            f"{subject}: kernel = {kernel}, stride = {stride} and dilation = {dilation} must be at least 1"
        )
    above, left, below, right = padding
    image, window = (size[0] + above + below, size[1] + left + right), spans(kernel, dilation)
    if any(span > extent for span, extent in zip(window, image, strict=True)):
        raise IrError(f"{subject}: {larger_window(window, image)}")


@dataclass(frozen=True, slots=True)
class Convolution:
    """The sizes of a 2-D convolution.

    Attributes:
        batch, channels, height, width: shape of the input.
        outputs: number of output channels.
        kernel, stride, dilation: (vertical, horizontal), in pixels.
        padding: pixels added above, left, below and right.
        groups: number of channel groups that are convolved separately; `channels` for a depthwise
            convolution.

    Source: ONNX operator Conv.
    """

    channels: int
    height: int
    width: int
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: Pads = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    batch: int = 1

    def __post_init__(self) -> None:
        if min(self.channels, self.outputs, self.groups, self.batch) < 1:
            raise IrError(
                f"convolution: channels = {self.channels}, outputs = {self.outputs}, groups = {self.groups} "
                f"and batch = {self.batch} must each be at least 1"
            )
        size = self.height, self.width
        _check_window("convolution", size, self.kernel, self.stride, self.padding, self.dilation)
        if self.channels % self.groups or self.outputs % self.groups:
            raise IrError(
                f"convolution: {self.groups} groups divide {self.channels} channels and {self.outputs} "
                "outputs unevenly"
            )

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        return window_size((self.height, self.width), self.kernel, self.stride, self.padding, self.dilation)

    @property
    def skips_rows(self) -> bool:
        """Whether the stride skips whole rows of the input, which then need not be loaded."""
        return self.kernel[0] == 1 and self.stride[0] > 1 and not any(self.padding)

    @property
    def is_pointwise(self) -> bool:
        """Whether each pixel of the result depends on the same pixel of all channels."""
        window = self.kernel, self.stride, self.padding, self.groups
        return window == ((1, 1), (1, 1), (0, 0, 0, 0), 1)

    def lines_read(self, axis: int, lines: int) -> int:
        """Return the lines of the input along an axis that adjacent lines of the output read."""
        return (lines - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return (
            self.batch * self.outputs * self.channels // self.groups * prod(self.kernel) * prod(self.out_size)
        )


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups of a convolution, joined to fill whole channel blocks, with zero weights between groups.

    Attributes:
        count: number of joined groups; the last may be padded with groups of zeros.
        inputs, outputs: channel blocks per joined group.
        joined: groups per joined group.
    """

    count: int
    inputs: int
    outputs: int
    joined: int


def grouping(size: Convolution, config: AcceleratorConfig) -> Grouping:
    """Return the grouping of `size` for the block sizes of `config`."""
    inputs, outputs = size.channels // size.groups, size.outputs // size.groups
    joined = lcm(lcm(inputs, config.block_in) // inputs, lcm(outputs, config.block_out) // outputs)
    joined_groups = Grouping(
        blocks(size.groups, joined),
        joined * inputs // config.block_in,
        joined * outputs // config.block_out,
        joined,
    )
    whole = joined_groups.count * joined_groups.inputs, joined_groups.count * joined_groups.outputs
    if whole == (blocks(size.channels, config.block_in), blocks(size.outputs, config.block_out)):
        return joined_groups
    return Grouping(
        1, blocks(size.channels, config.block_in), blocks(size.outputs, config.block_out), size.groups
    )


def matrix_product(rows: int, outputs: int, inputs: int, config: AcceleratorConfig) -> Convolution:
    """Return a matrix product or a dense layer as a 1x1 convolution over a column of `batch`-row blocks.

    inp: int8[1, inputs / block_in, rows / batch, 1, batch, block_in];
    out: int8[1, outputs / block_out, rows / batch, 1, batch, block_out].

    Source: ONNX operators MatMul and Gemm.
    """
    return Convolution(inputs, blocks(rows, config.batch), 1, outputs, (1, 1), batch=config.batch)


@dataclass(frozen=True, slots=True)
class Transposed:
    """The sizes of a transposed 2-D convolution; attributes as in `Convolution`.

    Attributes:
        padding: pixels cropped from the result: above, left, below and right.
        extra: pixels added below and right of the result.

    Source: ONNX operator ConvTranspose.
    """

    channels: int
    height: int
    width: int
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Pads = (0, 0, 0, 0)
    extra: tuple[int, int] = (0, 0)
    batch: int = 1

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        sides = zip(
            (self.height, self.width),
            self.kernel,
            self.stride,
            self.padding[:2],
            self.padding[2:],
            self.extra,
            strict=True,
        )
        return tuple(
            (size - 1) * stride + kernel - before - after + extra
            for size, kernel, stride, before, after, extra in sides
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.batch * self.outputs * self.channels * prod(self.kernel) * self.height * self.width


@dataclass(frozen=True, slots=True)
class Phases:
    """Phases of a transposed convolution along a single axis.

    The result at `stride * y + phase` sums `taps` elements of the input, which begin at
    `y + slope * phase - before`.

    Attributes:
        before: padding before the input, in elements.
        after: padding after the input, in elements; negative if the last elements are not read.
        size: results per phase.
    """

    stride: int
    taps: int
    slope: int
    before: int
    after: int
    size: int

    def tap(self, phase: int, place: int, pad: int) -> int:
        """Return the kernel element at position `place` among the taps of a phase; it may be past the end of
        the kernel."""
        return (phase + pad) % self.stride + self.stride * (self.taps - 1 - place)


def phases_fault(kernel: int, stride: int, pad: int, result: int) -> str:
    """Return the reason why a transposed convolution has no uniform phases along an axis, or ""."""
    first, slope = _phase_starts(stride, pad)
    starts = [(phase + pad) // stride for phase in range(stride)]
    if result % stride or starts != [first + slope * phase for phase in range(stride)]:
        return f"a result of {result} with stride {stride} and padding {pad}, which has no uniform phases"
    if blocks(kernel, stride) <= first:
        return f"padding {pad}, which cuts off whole elements of the input"
    return ""


def _phase_starts(stride: int, pad: int) -> tuple[int, int]:
    """Return the start of the first phase in the input, and the offset from each phase to the next."""
    return pad // stride, (1 + pad) // 2 - pad // 2 if stride == 2 else 0


def phases(length: int, kernel: int, stride: int, pad: int, result: int) -> Phases:
    """Return the phases of a transposed convolution along an axis of `length` inputs and `result` outputs.

    Raises:
        IrError: the phases do not divide the result, or do not start at equal distances in the input.
    """
    fault = phases_fault(kernel, stride, pad, result)
    if fault:
        raise IrError(f"transposed convolution: {fault}")
    first, slope = _phase_starts(stride, pad)
    taps, rows = blocks(kernel, stride), result // stride
    before = taps - 1 - first
    return Phases(stride, taps, slope, before, rows - 1 + slope * (stride - 1) + taps - before - length, rows)


@dataclass(frozen=True, slots=True)
class Pooling:
    """The sizes of a 2-D pooling; attributes as in `Convolution`.

    Source: ONNX operators MaxPool and AveragePool.
    """

    channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Pads = (0, 0, 0, 0)
    batch: int = 1

    def __post_init__(self) -> None:
        if min(self.channels, self.batch) < 1:
            raise IrError(
                f"pooling: channels = {self.channels} and batch = {self.batch} must each be at least 1"
            )
        _check_window("pooling", (self.height, self.width), self.kernel, self.stride, self.padding)

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        return window_size((self.height, self.width), self.kernel, self.stride, self.padding)


def average_pool(size: Pooling) -> Convolution:
    """Return the window sums of average pooling as a depthwise convolution with weights of 1.

    Requantisation divides by the number of elements.

    Source: ONNX operators AveragePool (without padding, or counting it) and GlobalAveragePool.
    """
    return Convolution(
        size.channels,
        size.height,
        size.width,
        size.channels,
        size.kernel,
        size.stride,
        size.padding,
        groups=size.channels,
        batch=size.batch,
    )
