"""The short program that the system benches run: loads of all kinds, GEMM, ALU, stores, and what DRAM must
hold afterwards."""

import numpy as np

from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType

BYTES = 1 << 14
UOPS, INP, WGT, ACC, OUT, STREAM = 0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000


def program(config: AcceleratorConfig) -> tuple[bytes, np.ndarray, int]:
    """Return (DRAM before, outputs int8[8, block_out] at OUT, instructions at STREAM) for an 8-bit
    configuration of batch 1."""
    rng = np.random.default_rng(3)
    inp = rng.integers(-128, 128, (8, config.block_in), dtype=np.int8)
    wgt = rng.integers(-128, 128, (2, config.block_out, config.block_in), dtype=np.int8)
    bias = rng.integers(-1000, 1000, (8, config.block_out), dtype=np.int32)
    uops = codec.uops_to_bytes([isa.MicroOp(dst=0, src=0, wgt=0), isa.MicroOp(dst=0, src=0, wgt=1)], config)
    stream = codec.to_bytes(instructions(config), config)
    dram = bytearray(BYTES)
    for address, data in (
        (UOPS, uops),
        (INP, inp.tobytes()),
        (WGT, wgt.tobytes()),
        (ACC, bias.tobytes()),
        (STREAM, stream),
    ):
        dram[address : address + len(data)] = data
    sums = bias.astype(np.int64) + inp.astype(np.int64) @ wgt.sum(0, dtype=np.int64).T
    return bytes(dram), np.clip(sums >> 6, -100, 127).astype(np.int8), len(stream) // 16


def instructions(config: AcceleratorConfig) -> tuple[isa.Instruction, ...]:
    def transfer(form, memory, address, count, **flags):
        element = config.element_bytes(memory)
        return form(
            memory_type=memory, dram_base=address // element, y_size=1, x_size=count, x_stride=count, **flags
        )

    def alu(opcode, imm, **flags):
        return isa.Alu(
            alu_opcode=opcode, use_imm=1, imm=imm, uop_end=1, iter_out=1, iter_in=8, dst_factor_in=1, **flags
        )

    return (
        transfer(isa.Load, MemoryType.UOP, UOPS, 2),
        transfer(isa.Load, MemoryType.ACC, ACC, 8),
        transfer(isa.Load, MemoryType.INP, INP, 8),
        transfer(isa.Load, MemoryType.WGT, WGT, 2, push_next=1),
        isa.Gemm(pop_prev=1, uop_end=2, iter_out=1, iter_in=8, dst_factor_in=1, src_factor_in=1),
        alu(AluOpcode.SHR, 6),
        alu(AluOpcode.MIN, 127),
        alu(AluOpcode.MAX, -100, push_next=1),
        transfer(isa.Store, MemoryType.OUT, OUT, 8, pop_prev=1, push_prev=1),
        isa.Finish(pop_next=1),
    )
