"""Designs that the estimates are compared with: synthesised whole, and not used to fit anything."""

from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.vocabulary import AluOpcode

KIB = 1 << 10

DESIGNS = (
    TINY,
    SMALL,
    TINY.with_changes(name="tiny-plain", extensions=()),
    TINY.with_changes(name="tiny-bus-128", bus_bits=128, max_requests=32),
    TINY.with_changes(name="tall-8x4", block_in=8, wgt_buffer_bytes=16 * KIB, inp_buffer_bytes=16 * KIB),
    TINY.with_changes(name="wide-4x8", block_out=8, acc_buffer_bytes=32 * KIB, wgt_buffer_bytes=8 * KIB),
    TINY.with_changes(name="batch-2x4x4", batch=2, acc_buffer_bytes=16 * KIB, load_queue_depth=64),
    TINY.with_changes(
        name="no-mul",
        alu_opcodes=(AluOpcode.MIN, AluOpcode.MAX, AluOpcode.ADD, AluOpcode.SHR),
        token_depth=15,
    ),
    TINY.with_changes(name="deep-16x4", block_in=16, gemm_stages=5, wgt_buffer_bytes=32 * KIB),
    TINY.with_changes(name="acc-16", acc_bits=16, extensions=(), store_queue_depth=64, burst_bytes=128),
    SMALL.with_changes(name="small-plain", extensions=(), gemm_stages=2, compute_queue_depth=128),
    SMALL.with_changes(
        name="small-bus-256",
        bus_bits=256,
        inp_buffer_bytes=32 * KIB,
        wgt_buffer_bytes=64 * KIB,
        max_requests=8,
    ),
)
"""Between them they change every parameter that a sweep is likely to change."""
