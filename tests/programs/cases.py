"""Hand-written programs: each instruction and each of its fields at work at least once."""

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType

UOPS, DATA, RESULT = 4096, 8192, 65536  # byte addresses


def base(config: AcceleratorConfig, memory: MemoryType, address: int = DATA) -> int:
    """Return `address` as a `dram_base` of `memory`."""
    return address // config.element_bytes(memory)


def load(memory: MemoryType, config: AcceleratorConfig = TINY, address: int = DATA, **fields) -> isa.Load:
    return isa.Load(
        memory_type=memory,
        dram_base=base(config, memory, address),
        **{"y_size": 1, "x_size": 4, "x_stride": 4, **fields},
    )


def uops(count: int, **fields) -> isa.Load:
    return load(MemoryType.UOP, address=UOPS, x_size=count, **fields)


def store(count: int, *, address: int = RESULT, **fields) -> isa.Store:
    return isa.Store(
        memory_type=MemoryType.OUT,
        dram_base=base(TINY, MemoryType.OUT, address),
        **{"y_size": 1, "x_size": count, "x_stride": count, **fields},
    )


def all_out(pop: int = 1) -> tuple:
    """Store sixteen accumulators, then finish."""
    return (
        isa.Load(memory_type=MemoryType.UOP, push_next=1),
        store(16, pop_prev=pop, push_prev=1),
        isa.Finish(pop_next=1),
    )


def alu(opcode: AluOpcode, **fields) -> isa.Alu:
    return isa.Alu(alu_opcode=opcode, **{"uop_end": 4, "iter_out": 1, "iter_in": 1, **fields})


ACC, INP, WGT, UOP = MemoryType.ACC, MemoryType.INP, MemoryType.WGT, MemoryType.UOP
ACC_8BIT = MemoryType.ACC_8BIT
# The image holds micro-op k = (dst k, src 2k+1, wgt k) at UOPS, random bytes elsewhere.
FILL = load(ACC, x_size=16, y_size=1)
OPERANDS = (load(INP, x_size=8, sram_base=0), load(WGT, x_size=8, sram_base=0, push_next=1))


def _gemm(**fields) -> tuple:
    gemm = isa.Gemm(pop_prev=1, **{"uop_end": 2, "iter_out": 1, "iter_in": 1, **fields})
    return (*OPERANDS, FILL, uops(4), gemm, *all_out())


CASES = {
    "finish alone": (isa.Finish(),),
    "load and store": (FILL, *all_out()),
    "load nothing": (FILL, load(ACC, x_size=0, y_size=3, x_pad_0=2, y_pad_0=1), *all_out()),
    "load pads only": (FILL, load(ACC, y_size=0, x_size=2, y_pad_0=1, y_pad_1=1, x_pad_1=1), *all_out()),
    "load strided": (FILL, load(ACC, y_size=3, x_size=2, x_stride=5, sram_base=3), *all_out()),
    "load overlapping rows": (FILL, load(ACC, y_size=3, x_size=3, x_stride=1), *all_out()),
    "load padded": (load(ACC, y_size=2, x_size=2, y_pad_0=1, y_pad_1=1, x_pad_0=1, x_pad_1=1), *all_out()),
    "load padded with the minimum": (
        load(ACC, y_size=2, x_size=2, y_pad_0=1, x_pad_0=1, x_pad_1=2, pad_minimum=1),
        *all_out(),
    ),
    "load padded with a value": (
        *(load(memory, x_size=0, sram_base=0x1F0 + memory, pad_value=1) for memory in (UOP, INP)),
        load(ACC, y_size=2, x_size=2, y_pad_0=1, x_pad_0=1, x_pad_1=2, pad_value=1),
        load(ACC_8BIT, x_size=1, x_pad_0=1, x_pad_1=2, pad_value=1, pad_minimum=1, sram_base=2),
        load(ACC_8BIT, x_size=0, y_size=3, y_pad_0=1, sram_base=0xFFFF, pad_value=1),
        load(ACC_8BIT, x_size=1, x_pad_1=1, pad_value=1, sram_base=9),
        load(ACC, x_size=1, x_pad_0=1, sram_base=13),
        *all_out(),
    ),
    "gemm of padding with a value": (
        load(ACC, x_size=0, sram_base=99, pad_value=1),
        load(WGT, x_size=0, sram_base=0xB3, pad_value=1),
        load(INP, x_size=2, y_size=2, x_pad_0=1, y_pad_1=1, pad_value=1),
        load(INP, x_size=0, sram_base=5, pad_value=1),
        load(WGT, x_size=3, x_pad_0=1, y_pad_1=1, pad_value=1, push_next=1),
        FILL,
        uops(4),
        isa.Gemm(pop_prev=1, uop_end=4, iter_out=1, iter_in=2, dst_factor_in=4, src_factor_in=1),
        *all_out(),
    ),
    "load narrow accumulators": (
        FILL,
        load(ACC_8BIT, y_size=2, x_size=3, x_stride=7, x_pad_0=1, sram_base=1),
        *all_out(),
    ),
    "load narrow, minimum pads": (load(ACC_8BIT, x_size=3, x_pad_1=2, pad_minimum=1), *all_out()),
    "load from odd lanes": (load(ACC_8BIT, address=DATA + 4, y_size=3, x_size=3, x_stride=3), *all_out()),
    "load across 4 KiB": (load(ACC, address=12288 - 32, x_size=16), *all_out()),
    "store strided": (
        FILL,
        isa.Load(memory_type=MemoryType.UOP, push_next=1),
        store(3, y_size=4, x_stride=5, sram_base=2, pop_prev=1),
        isa.Finish(),
    ),
    # answers of later bursts come while the empty STOREs are still retiring
    "stores of nothing between stores": (
        FILL,
        isa.Load(memory_type=MemoryType.UOP, push_next=1),
        store(2, pop_prev=1),
        store(0),
        store(4, y_size=0),
        store(0),
        store(2, sram_base=4),
        store(0),
        store(0),
        store(1, sram_base=8, push_prev=1),
        isa.Finish(pop_next=1),
    ),
    **{
        f"store by parameters {number}": (
            FILL,
            isa.Load(memory_type=MemoryType.UOP, push_next=1),
            store(3, pop_prev=1),
            store(7, parameters=number, sram_base=5),
            store(0, parameters=2),
            store(2, y_size=3, x_stride=5, parameters=5 - number, address=RESULT + 256),
            store(4, address=RESULT + 512, push_prev=1),
            isa.Finish(pop_next=1),
        )
        for number in (1, 4)
    },
    "gemm": _gemm(),
    "gemm loops": _gemm(
        iter_out=2,
        iter_in=3,
        dst_factor_out=6,
        dst_factor_in=2,
        src_factor_out=1,
        src_factor_in=1,
        wgt_factor_out=3,
        wgt_factor_in=1,
    ),
    "gemm on one accumulator": _gemm(iter_out=4, iter_in=2, uop_end=1, wgt_factor_in=1, src_factor_out=1),
    "gemm without trips": _gemm(iter_in=0),
    "gemm without micro-ops": _gemm(uop_begin=3, uop_end=3),
    "gemm reset": _gemm(reset=1, iter_in=2, dst_factor_in=3),
    "gemm overwrite": _gemm(overwrite=1, iter_in=2, dst_factor_in=3),
    "gemm reset and overwrite": _gemm(reset=1, overwrite=1, iter_in=2, dst_factor_in=3),
    "gemm then its sums": (
        *OPERANDS,
        FILL,
        uops(4),
        isa.Gemm(pop_prev=1, uop_end=4, iter_out=1, iter_in=1),
        alu(AluOpcode.SHR, use_imm=1, imm=3),
        alu(AluOpcode.MIN, use_imm=1, imm=100),
        alu(AluOpcode.MAX, use_imm=1, imm=-100),
        *all_out(),
    ),
    "alu chain": (
        FILL,
        uops(4),
        alu(AluOpcode.ADD, iter_in=3, dst_factor_in=1, src_factor_in=0, uop_end=1),
        *all_out(),
    ),
    "alu loops": (
        FILL,
        uops(4),
        alu(
            AluOpcode.MAX,
            iter_out=2,
            iter_in=2,
            dst_factor_out=4,
            dst_factor_in=2,
            src_factor_out=1,
            src_factor_in=3,
            uop_end=2,
        ),
        *all_out(),
    ),
    **{
        f"alu {opcode.name.lower()} {imm}": (FILL, uops(4), alu(opcode, use_imm=1, imm=imm), *all_out())
        for opcode in AluOpcode
        for imm in (3, -3, 40, -40, 96, 103, 32767, -32768)
    },
    **{
        f"alu {opcode.name.lower()} of accumulators": (FILL, uops(4), alu(opcode), *all_out())
        for opcode in AluOpcode
    },
    "load what was stored": (
        FILL,
        isa.Load(memory_type=MemoryType.UOP, push_next=1),
        store(16, pop_prev=1, push_prev=1),
        load(ACC_8BIT, address=RESULT, x_size=8, sram_base=4, pop_next=1, push_next=1),
        store(16, pop_prev=1, push_prev=1),
        isa.Finish(pop_next=1),
    ),
    "micro-ops replaced": (
        *OPERANDS,
        FILL,
        uops(4),
        alu(AluOpcode.ADD, use_imm=1, imm=1),
        uops(2, sram_base=1, y_pad_0=1),
        isa.Gemm(pop_prev=1, uop_end=4, iter_out=1, iter_in=1),
        *all_out(),
    ),
    "noise on unused edges": (
        isa.Load(memory_type=INP, pop_prev=1, push_prev=1),
        isa.Store(pop_next=1, push_next=1),
        FILL,
        *all_out(),
    ),
}
