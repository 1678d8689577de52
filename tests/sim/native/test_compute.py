"""The native DEPTHWISE against the NumPy reference: batches, blocks of several parts, strides and overlaps."""

from itertools import product

import numpy as np
import pytest

from tests.sim.helpers import ACC, CONFIG, INP, WGT, machine_with, run
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension


def config_of(batch: int, block: int, acc_bits: int, rows: bool, packed: int) -> AcceleratorConfig:
    """Return a configuration with 16 weights and accumulators, and 32 inputs."""
    return CONFIG.with_changes(
        name=f"{batch}x{block}, {acc_bits} bits, window of {rows} rows, packed {packed}",
        batch=batch,
        block_in=block,
        block_out=block,
        acc_bits=acc_bits,
        extensions=(Extension.DEPTHWISE, Extension.OVERWRITE, *[Extension.DEPTHWISE_ROWS] * rows),
        packed=packed,
        inp_buffer_bytes=32 * batch * block,
        wgt_buffer_bytes=16 * block * block,
        acc_buffer_bytes=16 * batch * block * acc_bits // 8,
    )


SIZES = (
    (1, 8, 16, False, 0),
    (2, 32, 32, False, 18),
    (1, 8, 32, True, 0),
    (1, 16, 32, True, 18),
    (2, 16, 16, True, 0),
    (1, 32, 32, True, 0),
)
CONFIGS = [config_of(*sizes) for sizes in SIZES]
UOPS = (isa.MicroOp(dst=1, src=2, wgt=3), isa.MicroOp(dst=0, src=1, wgt=1), isa.MicroOp(dst=2))


def contents(config: AcceleratorConfig) -> dict[str, np.ndarray]:
    """Return random values, some of them extreme."""
    rng, most = np.random.default_rng(0), 1 << config.acc_bits - 1
    return {
        "inp": rng.choice([-128, 127, *range(-100, 100)], (config.depth(INP), config.batch, config.block_in)),
        "wgt": rng.choice(
            [-128, 127, *range(-100, 100)], (config.depth(WGT), config.block_out, config.block_in)
        ),
        "acc": rng.integers(-most, most, (config.depth(ACC), config.batch, config.block_out)),
    }


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_rows_of_windows_are_summed_as_by_the_reference(config):
    values = contents(config)
    rows = (0, 1, 3) if config.has(Extension.DEPTHWISE_ROWS) else (0,)
    cases = product((0, 1), (0, 1), ((1, 1), (2, 3), (0, 0)), rows)
    for stride, overwrite, (src_step, dst_step), more_rows in cases:
        item = isa.Depthwise(
            uop_begin=1 - overwrite,
            uop_end=3,
            iter_out=2,
            iter_in=2,
            stride_2=stride,
            overwrite=overwrite,
            dst_factor_out=4,
            dst_factor_in=dst_step,
            src_factor_out=3,
            src_factor_in=src_step,
            wgt_factor_out=5,
            more_rows=more_rows,
            wide=int(more_rows > 0 and src_step < 2),
            row_step=0,
        )
        native, reference = (machine_with(config, uops=UOPS, **values) for _ in range(2))
        run(native, item)
        run(reference, item, native=False)
        np.testing.assert_array_equal(native.pads.acc, reference.pads.acc)
        assert (native.pads.acc != machine_with(config, uops=UOPS, **values).pads.acc).any()
