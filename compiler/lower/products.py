"""Convolutions and matrix products on the accelerator.

A convolution whose input the host packs may read windows of packed lines in place of pixels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from msgspec import structs

from vdla.compiler.graph.integer_forms.lowering import IntegerForm, Lowering, border_of
from vdla.compiler.graph.integer_forms.rules import BIAS, DIMENSIONS, MATRIX, RATIOS, SUMS, WEIGHTS, attribute
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.integers import LEAST
from vdla.compiler.network.packed_inputs import best_packed, packed_weights
from vdla.compiler.network.placed import (
    OffloadCandidate,
    Offloaded,
    OperatorKind,
    Stored,
    constants,
    operands,
)
from vdla.compiler.operands.narrow_weights import halvings_of, narrowed
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.te.operators.convolution import (
    blocked_weights,
    phase_weights,
    prefers_windows,
    sides_fault,
    window_weights,
    with_whole_windows,
)
from vdla.compiler.te.operators.sizes import Convolution, Transposed, matrix_product
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host.windows import at_last, spans
from vdla.runtime.layout import IMAGE_RANK
from vdla.runtime.windows import Windows

BORDERS = (0, LEAST)  # every accelerator for networks can pad with these
TAKES = f"a border of {' or '.join(map(str, BORDERS))}, or any with the extension {Extension.PAD_VALUE}"


def pads_with(config: AcceleratorConfig, border: int) -> bool:
    """Whether LOADs of an accelerator can pad with the int8 value `border`."""
    return border in BORDERS or config.has(Extension.PAD_VALUE)


def border_fault(candidate: OffloadCandidate) -> str:
    """Describe a border value that the accelerator cannot pad with; "" if the rule holds."""
    border = candidate.node.integer("border")
    return "" if pads_with(candidate.config, border) else f"a border of {border}"


def reach_fault(size: Convolution) -> str:
    """Describe a kernel that reads padding alone at every position; "" if the rule holds."""
    top, left, *_ = size.padding
    places = zip(
        (top, left),
        (size.height, size.width),
        size.kernel,
        size.stride,
        size.dilation,
        size.out_size,
        strict=True,
    )
    is_reached = all(
        any(
            0 <= begin * stride - before + tap * dilation < extent
            for begin in range(out)
            for tap in range(taps)
        )
        for before, extent, taps, stride, dilation, out in places
    )
    return "" if is_reached else "a kernel that reads padding alone"


def _size(candidate: OffloadCandidate) -> Convolution:
    (n, channels, height, width), node = candidate.shape(0), candidate.node
    outputs, _, *kernel = candidate.shape(1)
    return Convolution(
        channels,
        height,
        width,
        outputs,
        (kernel[0], kernel[1]),
        node.pair("strides"),
        node.border("pads"),
        node.pair("dilations"),
        node.integer("group"),
        n,
    )


def _convolution(candidate: OffloadCandidate) -> Offloaded:
    size, weights, border = _size(candidate), candidate.constant(1), candidate.node.integer("border")
    pixels = convolved(candidate, size, weights, border)
    task = pixels.pieces[0].task
    assert isinstance(task, ConvolutionTask), f"{pixels} is a convolution"
    packed = best_packed(task, candidate.target, candidate.pooling) if candidate.packs else None
    if packed is None:
        return pixels
    whole = packed_weights(weights, packed)
    return _product(candidate, packed.task(task.writes), whole, size.macs, packed.windows)


def convolved(candidate: OffloadCandidate, size: Convolution, weights: np.ndarray, border: int) -> Offloaded:
    """Return a convolution of pixels: a depthwise convolution by windows along rows, or products."""
    if prefers_windows(size, candidate.config):
        wide = with_whole_windows(size, candidate.config)
        task = ConvolutionTask(wide, border=border, slides=True)
        return offloaded(candidate, task, {"W": window_weights(weights, wide, candidate.config)}, size.macs)
    return _product(candidate, ConvolutionTask(size, border=border), weights, size.macs)


def _transposed_size(candidate: OffloadCandidate) -> Transposed:
    n, channels, height, width = candidate.shape(0)
    weights, node = candidate.constant(1), candidate.node
    _, outputs, *kernel = weights.shape
    return Transposed(
        channels,
        height,
        width,
        outputs,
        (kernel[0], kernel[1]),
        node.pair("strides"),
        node.border("pads"),
        node.pair("output_padding"),
        n,
    )


def _transposed(candidate: OffloadCandidate) -> Offloaded:
    size = _transposed_size(candidate)
    weights = {"W": phase_weights(candidate.constant(1), size, candidate.config)}
    return offloaded(candidate, TransposedTask(size), weights, size.macs)


def _rows_fault(candidate: OffloadCandidate) -> str:
    """Describe rows with as many dimensions as images, which a batch would divide; "" if the rule holds."""
    image = len(candidate.shape(0)) == IMAGE_RANK and candidate.config.batch > 1
    return f"an operand of {IMAGE_RANK} dimensions and batch = {candidate.config.batch}" if image else ""


def _matrix_product(candidate: OffloadCandidate) -> Offloaded:
    weights, rows = candidate.constant(1), prod(candidate.shape(0)[:-1])
    task = ConvolutionTask(matrix_product(rows, weights.shape[1], weights.shape[0], candidate.config))
    return as_rows(candidate, _product(candidate, task, weights.T[:, :, None, None], rows * weights.size))


def as_rows(candidate: OffloadCandidate, product: Offloaded) -> Offloaded:
    """Return a matrix product whose operand and result are stored as rows in DRAM, even if they have as many
    dimensions as an image."""
    if len(candidate.shape(0)) != IMAGE_RANK:
        return product
    (name, layout), (out, result) = product.inputs["X"], product.output
    return replace(
        product,
        inputs={"X": Stored(name, structs.replace(layout, stack=1))},
        output=Stored(out, structs.replace(result, stack=1)),
    )


def _product(
    candidate: OffloadCandidate,
    task: ConvolutionTask,
    weights: np.ndarray,
    macs: int,
    windows: Windows | None = None,
) -> Offloaded:
    packed = {"W": blocked_weights(weights, task.size, candidate.config)}
    return offloaded(candidate, task, packed, macs, windows)


def offloaded(
    candidate: OffloadCandidate,
    task: ConvolutionTask | TransposedTask,
    weights: Mapping[str, np.ndarray],
    macs: int,
    windows: Windows | None = None,
) -> Offloaded:
    """Return a product.

    Args:
        weights: packed weights, by parameter of the task's program.
        windows: windows that it reads in place of pixels; None: it reads pixels.
    """
    config = candidate.config
    alone = candidate.packs or config.batch > 1  # no other reader of this layout
    x = candidate.operand(0, config.block_in if alone else None, windows)
    task = replace(task, reads=x.layout.block // config.block_in, writes=candidate.parts)
    parameters = candidate.parameters(task.size.outputs)
    task, weights = _with_narrow_weights(task, weights, config)
    return candidate.as_tasks(task, {"X": x}, {**weights, "P": parameters}, macs)


def _with_narrow_weights(
    task: ConvolutionTask | TransposedTask, weights: Mapping[str, np.ndarray], config: AcceleratorConfig
) -> tuple[ConvolutionTask | TransposedTask, Mapping[str, np.ndarray]]:
    """Return a task and its weights with the fewest bits of a weight in DRAM, where LOADs decode weights. A
    single block of weights stays as it is."""
    if type(task) is not ConvolutionTask or task.alike:
        return task, weights
    halvings = halvings_of(weights["W"], config)
    if not halvings:
        return task, weights
    return task.narrowed(halvings), {**weights, "W": narrowed(weights["W"], halvings)}


def _wide(candidate: OffloadCandidate) -> str:
    """Describe weights that `in_eight_bits` has not expanded; "" if the rule holds."""
    dtype = candidate.constant(1).dtype
    return "" if dtype == np.int8 else f"weights of {dtype}"


def _shifted(candidate: OffloadCandidate) -> str:
    """Describe a zero point that `in_eight_bits` has not expanded; "" if the rule holds."""
    zero = candidate.node.integer("zero")
    return f"an input of zero point {zero}" if zero else ""


def _integer_convolution(lowering: Lowering, site: Site) -> None:
    """Add a convolution."""
    weights = site.product.weights.reshape(site.weights.values.shape)
    lowering.add_product(site, weights, "Int8Conv", {**site.node.attributes, "border": border_of(site)})


def _integer_transposed(lowering: Lowering, site: Site) -> None:
    """Add a transposed convolution of an image less its zero point, with a dense (undilated) kernel. The
    padding around and between the pixels is 0."""
    inputs, outputs, *kernel = site.weights.values.shape
    dense = site.product.weights.reshape(outputs, inputs, *kernel).swapaxes(0, 1)
    weights = _dilated(dense, site.node.extents("dilations"))
    kept = {name: site.node.attributes[name] for name in ("output_padding", "pads", "strides")}
    inp = site.operands[0].quantisation
    words = site.product.parameters(replace(inp, zero=0), site.result)
    lowering.add_weighted(site, weights, words, "Int8ConvTranspose", {**kept, "zero": inp.zero})


def _integer_matrix_product(lowering: Lowering, site: Site) -> None:
    """Add a product with constant weights."""
    lowering.add_product(site, site.product.weights.T, "Int8MatMul")


def _dilated(weights: np.ndarray, dilations: Sequence[int]) -> np.ndarray:
    """Return weights [C, M, kernel...] with zeros between adjacent elements of kernels, for dilations."""
    spread = np.zeros((*weights.shape[:2], *spans(weights.shape[2:], dilations)), weights.dtype)
    spread[at_last(*(slice(None, None, step) for step in dilations))] = weights
    return spread


ROWS = Rule("rows of any number of dimensions but 4, or a batch of 1", _rows_fault)
BORDER_CURE = f"{enabling(Extension.PAD_VALUE)}, or quantise its input with the zero point 0 or -128"
BOTH = (
    constants(1, 2),
    operands(1),
    Rule("int8 weights, or wider weights as sums of int8 parts", _wide),
)
SUMMED = (SUMS, RATIOS)
FORMS = {
    "Conv": IntegerForm(_integer_convolution, (DIMENSIONS, *WEIGHTS, *BIAS), SUMMED),
    "ConvTranspose": IntegerForm(
        _integer_transposed, (DIMENSIONS, attribute("group", 1), *WEIGHTS, *BIAS), SUMMED
    ),
    "Gemm": IntegerForm(_integer_matrix_product, (attribute("transA", 0), *WEIGHTS, *BIAS), SUMMED),
    "MatMul": IntegerForm(_integer_matrix_product, (MATRIX, *WEIGHTS), SUMMED),
}
OPERATORS: Mapping[str, OperatorKind] = {
    "Int8Conv": OperatorKind(
        (
            *BOTH,
            Rule(TAKES, border_fault, BORDER_CURE),
            Rule(
                "kernels that read at least one pixel of the image",
                lambda candidate: reach_fault(_size(candidate)),
            ),
        ),
        _convolution,
    ),
    "Int8ConvTranspose": OperatorKind(
        (
            *BOTH,
            Rule("an input of zero point 0, or of another as a sum of int8 parts", _shifted),
            Rule(
                "strides of 1 or 2, or of which one divides the padding; they divide the result",
                lambda candidate: sides_fault(_transposed_size(candidate)),
            ),
        ),
        _transposed,
    ),
    "Int8MatMul": OperatorKind((*BOTH, ROWS), _matrix_product),
}
