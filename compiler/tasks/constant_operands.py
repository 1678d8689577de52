"""Constant operands of programs that use the multiplier array for other operators than matrix products."""

from collections.abc import Sequence

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig


def scalar_weights(factors: Sequence[int], config: AcceleratorConfig) -> np.ndarray:
    """Return int8[n, block_out, block_in]: for each factor, the identity matrix times the factor."""
    identity = np.eye(config.block_out, config.block_in, dtype=np.int8)
    return np.stack([identity * np.int8(factor) for factor in factors])


def channel_masks(config: AcceleratorConfig) -> np.ndarray:
    """Return int8[block_out, block_out, block_in]: block r keeps channel r and clears all other channels."""
    rows = np.arange(config.block_out)
    weights = np.zeros((config.block_out,) * 3, np.int8)
    weights[rows, rows, rows] = 1
    return weights


def constant_inputs(values: Sequence[int], config: AcceleratorConfig) -> np.ndarray:
    """Return int8[n, batch, block_in]: for each value, an input with the value in every lane."""
    column = np.array(values, np.int8).reshape(-1, 1, 1)
    return np.ascontiguousarray(np.broadcast_to(column, (len(values), config.batch, config.block_in)))


def one_hot_inputs(config: AcceleratorConfig) -> np.ndarray:
    """Return int8[block_in, 1, block_in]: input r is 1 in lane r and 0 elsewhere."""
    return np.eye(config.block_in, dtype=np.int8)[:, None, :]
