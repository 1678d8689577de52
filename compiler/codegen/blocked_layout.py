"""Conversion of weights and parameters to the blocked layouts of the accelerator's programs."""

import numpy as np

from vdla.compiler.te.operators.sizes import Convolution, grouping
from vdla.hw.spec.config import AcceleratorConfig


def blocked_weights(weights: np.ndarray, size: Convolution, config: AcceleratorConfig) -> np.ndarray:
    """Convert int8[o, c / groups, kh, kw] to int8[g, o / block_out, c / block_in, kh, kw, block_out,
    block_in] with g joined groups.

    Weights between two groups that share a block are 0.
    """
    groups, o, i = grouping(size, config), config.block_out, config.block_in
    outputs, inputs = size.outputs // size.groups, size.channels // size.groups
    dense = np.zeros((groups.count, groups.outputs * o, groups.inputs * i, *size.kernel), np.int8)
    whole = np.zeros((groups.count * groups.joined, outputs, inputs, *size.kernel), np.int8)
    whole[: size.groups] = weights.reshape(size.groups, outputs, inputs, *size.kernel)
    apart = whole.reshape(groups.count, groups.joined, *whole.shape[1:])
    for number in range(groups.joined):
        dense[:, number * outputs : (number + 1) * outputs, number * inputs : (number + 1) * inputs] = apart[
            :, number
        ]
    parts = dense.reshape(groups.count, groups.outputs, o, groups.inputs, i, *size.kernel)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 5, 6, 2, 4))


def blocked_parameters(words: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Convert int[4, channels] to int[channels / block_out, 4, batch, block_out], repeated along the batch.
    Padding channels have parameters 0, which give outputs of 0."""
    rows, channels = words.shape
    whole = np.pad(words, ((0, 0), (0, -channels % config.block_out)))
    parts = whole.reshape(rows, -1, 1, config.block_out).transpose(1, 0, 2, 3)
    return np.ascontiguousarray(np.repeat(parts, config.batch, 2)).astype(f"int{config.acc_bits}")
