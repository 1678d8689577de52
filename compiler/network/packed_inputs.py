"""Convolutions with few channels over windows of packed lines, which the host packs.

A block of `block_in` channels is mostly empty if an image has one to four channels. So the host packs rows of
the image into lines, and the convolution reads windows of bytes, see `vdla.runtime.windows`. A window holds
bytes of several rows, columns and channels. A sum takes as many steps as windows cover the kernel.

Three parameters decide how many steps a sum takes, and how many bytes are loaded: the rows of a line, the
bytes of a column, and the distance of windows. The windows of a kernel begin at multiples of that distance.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from vdla.compiler.codegen.choose import least_estimate
from vdla.compiler.tasks.convolution import ConvolutionTask, GatheredTask
from vdla.compiler.tasks.pooled_convolution import least_pooled_estimate
from vdla.compiler.te.operators.sizes import Convolution, Pooling, blocks
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.windows import Windows

NEAR = 1.02  # a smaller ratio of estimates means nothing; then the bytes that the host packs decide


class PackedInput(NamedTuple):
    """A convolution over windows of packed lines.

    Attributes:
        windows: the windows, and the lines that hold them.
        size: the convolution over windows; the bytes of a window are its channels.
    """

    windows: Windows
    size: Convolution

    def task(self, writes: int) -> ConvolutionTask:
        """Return the task of the convolution, whose result has `writes` interleaved blocks of channels."""
        if not self.windows.pitch:
            return ConvolutionTask(self.size, writes=writes)
        windows = self.windows
        return GatheredTask(self.size, writes=writes, step=windows.step, pitch=windows.pitch)

    @property
    def costs(self) -> tuple[int, int, int]:
        """Steps of the array for a sum, bytes of an image in DRAM, elements of its windows."""
        windows = self.windows
        whole = windows.lines * windows.columns
        stored = windows.lines * windows.pitch or whole * self.size.channels
        return windows.elements * prod(self.size.kernel), stored, whole * windows.elements


@lru_cache(maxsize=64)
def best_packed(
    pixels: ConvolutionTask, target: Target, pooling: Pooling | None = None
) -> PackedInput | None:
    """Return the convolution over windows that takes the fewest estimated cycles, or None if the convolution
    of pixels does. Among convolutions that take about as few, the fewest bytes of an image in DRAM decide.

    Args:
        pooling: a max pooling of the sums, which is part of the same task; None: the sums are stored.
    """
    size, block = pixels.size, target.config.block_in
    stored = blocks(size.channels, block) * block * size.height * size.width
    forms: list[tuple[float, int, PackedInput | None]] = [(_least(pixels, target, pooling), stored, None)]
    for packed in packed_inputs(size, pixels.border, target.config):
        forms.append((_least(packed.task(pixels.writes), target, pooling), packed.costs[1], packed))
    least = min(cycles for cycles, *_ in forms)
    near = [form for form in forms if form[0] <= NEAR * least]
    return min(near, key=lambda form: form[1])[2]


def _least(task: ConvolutionTask, target: Target, pooling: Pooling | None) -> float:
    if pooling is None:
        return least_estimate(task, target)
    return least_pooled_estimate(task, pooling, target.config)


def packed_inputs(size: Convolution, border: int, config: AcceleratorConfig) -> list[PackedInput]:
    """Return the convolutions over windows that compute a convolution, in order of their `costs`. A
    convolution is left out if another costs at most as much in every respect; of several with equal costs,
    the convolution with the smallest kernel stays. The list is empty if the channels fill whole blocks, or
    the convolution has groups or dilations."""
    if size.groups != 1 or size.dilation != (1, 1) or size.channels % config.block_in == 0:
        return []
    every = (
        _packed_input(size, border, config, rows, spacing)
        for rows in range(1, size.kernel[0] + 1)
        for spacing in _spacings(size, rows, config)
    )
    best: list[PackedInput] = []
    for packed in sorted(filter(None, every), key=lambda form: (form.costs, prod(form.size.kernel))):
        if all(any(np.less(packed.costs, kept.costs)) for kept in best):
            best.append(packed)
    return best


class _Spacing(NamedTuple):
    """How windows lie in a line.

    Attributes:
        column: bytes of a column.
        step: bytes from one window to the next.
        elements: elements of a window.
        gathers: GATHER reads the windows.
    """

    column: int
    step: int
    elements: int
    gathers: bool


def _spacings(size: Convolution, rows: int, config: AcceleratorConfig) -> Iterator[_Spacing]:
    """Yield the spacings of windows in lines of `rows` rows, by which windows may cover a kernel."""
    element, least = config.block_in, rows * size.channels
    for elements in range(1, blocks(size.kernel[1] * least, element) + 1):
        yield _Spacing(least, size.stride[1] * least, elements, gathers=False)
    may_gather = config.has(Extension.GATHER) and config.batch == 1
    for column in range(least, least + element):
        stride = size.stride[1] * column
        if stride % element == 0:
            yield _Spacing(column, element, 1, gathers=False)
        if may_gather:
            steps = (step for step in range(1, element) if stride % step == 0)
            yield from (_Spacing(column, step, 1, gathers=True) for step in steps)


def _packed_input(
    size: Convolution, border: int, config: AcceleratorConfig, rows: int, spacing: _Spacing
) -> PackedInput | None:
    """Return a convolution over windows; None if windows leave gaps in a kernel, or lines are too long."""
    step, window = spacing.step, spacing.elements * config.block_in
    bands, advance, down, apart = _bands(size, rows)
    kernel = (size.kernel[1] - 1) * spacing.column + rows * size.channels  # bytes
    if kernel > window and step > window:
        return None
    taps = 1 + blocks(max(0, kernel - window), window // step * step) if kernel > window else 1
    dilation = blocks(blocks(kernel - window, taps - 1), step) if taps > 1 else 1
    across = size.stride[1] * spacing.column // step
    lines = (size.out_size[0] - 1) * down + (bands - 1) * apart + 1
    columns = (size.out_size[1] - 1) * across + (taps - 1) * dilation + 1
    pitch = blocks((columns - 1) * step + window, window) * window if spacing.gathers else 0
    if pitch * down > isa.LONGEST_ROW:
        return None
    held = (lines, rows, advance, spacing.column, columns, step, size.padding[:2])
    whole = Convolution(
        window,
        lines,
        columns,
        size.outputs,
        (bands, taps),
        (down, across),
        dilation=(apart, dilation),
        batch=size.batch,
    )
    return PackedInput(Windows(*held, pitch, spacing.elements, border), whole)


def _bands(size: Convolution, rows: int) -> tuple[int, int, int, int]:
    """Return four numbers for lines that hold `rows` rows of the image: the lines that cover a kernel, the
    image rows from the start of a line to the start of the next line, the vertical stride and the vertical
    dilation of the kernel, both in lines."""
    bands = blocks(size.kernel[0], rows)
    if bands == 1:
        return 1, size.stride[0], 1, 1
    advance = gcd(size.stride[0], rows)
    return bands, advance, size.stride[0] // advance, rows // advance


def packed_weights(weights: np.ndarray, packed: PackedInput) -> np.ndarray:
    """Return int8[o, window bytes, bands, taps] of int8[o, c, kh, kw]. Each weight applies in the first
    window that holds its byte; in further windows the byte has weight 0."""
    windows, (bands, taps) = packed.windows, packed.size.kernel
    window, apart = packed.size.channels, packed.size.dilation[1] * windows.step
    outputs, channels, height, width = weights.shape
    result = np.zeros((outputs, window, bands, taps), np.int8)
    for row, column, channel in np.ndindex(height, width, channels):
        band, inner = divmod(row, windows.rows)
        byte = column * windows.column + inner * channels + channel
        tap = max(0, blocks(byte + 1 - window, apart))
        result[:, byte - tap * apart, band, tap] = weights[:, channel, row, column]
    return result
