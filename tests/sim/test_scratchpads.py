"""The scratchpads: their shapes, the operands derived from them, and what a clearing leaves."""

import re

import numpy as np
import pytest

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.sim.scratchpads import Scratchpads

UNEVEN = TINY.with_changes(
    name="uneven", batch=2, block_in=2, block_out=8, wgt_buffer_bytes=1024, extensions=tuple(Extension)
)
NARROW = TINY.with_changes(name="narrow", block_in=16, block_out=2, acc_bits=16, extensions=())
MEMORIES = ("uop", "inp", "wgt", "acc", "table", "res")
DERIVED = ("inp_operand", "wgt_operand", "wgt_bias")
CACHE_LINE_BYTES = 64


def filled(config: AcceleratorConfig) -> Scratchpads:
    """Return scratchpads of random values, their derived operands refreshed."""
    pads, rng = Scratchpads(config), np.random.default_rng(0)
    for name in MEMORIES:
        array = getattr(pads, name)
        array[...] = rng.integers(-100 if array.dtype.kind == "i" else 0, 100, array.shape)
    pads.pad_registers[...] = 7
    pads.refresh_operands()
    return pads


@pytest.mark.parametrize(
    ("config", "shapes"),
    [
        (
            UNEVEN,
            {
                "uop": (512,),
                "inp": (1024, 2, 2),
                "wgt": (64, 8, 2),
                "acc": (128, 2, 8),
                "table": (UNEVEN.table_buffer_bytes // 4, 4),
                "res": (UNEVEN.res_buffer_bytes // 16, 2, 8),
                "inp_operand": (1024, 2, 4),
                "wgt_operand": (64, 1, 8, 4),
                "wgt_bias": (64, 8),
            },
        ),
        (
            NARROW,
            {
                "acc": (2048, 1, 2),
                "table": (0, 4),
                "res": (0, 1, 2),
                "wgt_operand": (128, 4, 4, 4),
                "wgt_bias": (128, 4),
            },
        ),
    ],
    ids=["uneven", "narrow"],
)
def test_memories_have_the_shapes_of_their_elements(config, shapes):
    pads = Scratchpads(config)
    assert {name: getattr(pads, name).shape for name in shapes} == shapes
    assert pads.acc.dtype.itemsize == config.acc_bits // 8
    assert pads.uop.dtype == np.dtype(f"u{config.uop_bits // 8}")


@pytest.mark.parametrize("config", [UNEVEN, NARROW], ids=lambda config: config.name)
def test_every_memory_begins_with_a_cache_line_and_is_writable(config):
    """Several times, for where memory stands is chance."""
    for pads in [Scratchpads(config) for _ in range(5)]:
        for name in (*MEMORIES, *DERIVED, "pad_registers"):
            array = getattr(pads, name)
            assert array.size == 0 or array.ctypes.data % CACHE_LINE_BYTES == 0, name
            assert array.flags.writeable
            assert array.flags.c_contiguous
            assert name in DERIVED or not array.any()


@pytest.mark.parametrize("config", [UNEVEN, NARROW], ids=lambda config: config.name)
def test_operands_hold_the_values_of_their_memories_in_groups_of_four(config):
    pads = filled(config)
    assert np.array_equal(pads.inp_operand[:, :, : config.block_in], pads.inp.astype(int) + 128)
    for k in range(config.block_in):
        assert np.array_equal(pads.wgt_operand[:, k // 4, : config.block_out, k % 4], pads.wgt[:, :, k])
    assert pads.wgt_operand.astype(bool).sum() == pads.wgt.astype(bool).sum()  # the rest is padding
    biases = -128 * pads.wgt.astype(int).sum(axis=2)
    assert np.array_equal(pads.wgt_bias[:, : config.block_out], biases)
    assert not pads.wgt_bias[:, config.block_out :].any()


def test_clearing_zeroes_memories_registers_and_operands():
    pads, fresh = filled(UNEVEN), Scratchpads(UNEVEN)
    pads.clear()
    for name in (*MEMORIES, *DERIVED, "pad_registers"):
        assert np.array_equal(getattr(pads, name), getattr(fresh, name)), name


def test_clearing_registers_leaves_memories():
    pads, same = filled(UNEVEN), filled(UNEVEN)
    pads.clear_registers()
    assert not pads.pad_registers.any()
    for name in (*MEMORIES, *DERIVED):
        assert np.array_equal(getattr(pads, name), getattr(same, name)), name


def test_scratchpads_beyond_the_limit_are_refused_with_what_they_take():
    """Operands take as much as inputs and weights, and 4 bytes for each of 64 biases of a weight matrix."""
    inps, wgts = 1 << 27, 1 << 28
    huge = TINY.with_changes(
        block_in=64, block_out=64, inp_buffer_bytes=inps, wgt_buffer_bytes=wgts, extensions=()
    )
    others = huge.uop_buffer_bytes + huge.acc_buffer_bytes + 3  # a pad register for each unit
    taken = 2 * inps + 2 * wgts + wgts // 64**2 * 64 * 4 + others
    with pytest.raises(DeviceError, match=re.escape(f"scratchpads take {taken} bytes")):
        Scratchpads(huge)
