"""The double-buffered GEMM in VTA's encoding: out[m][n] = clip(sum over k of inp[m][k] * wgt[n][k] >> shift).

Per output tile: a GEMM that resets, one GEMM per tile of K, then SHR, MIN and MAX with immediates, and a
STORE. Every scratchpad is halved: the loads of one K tile overlap the computation of the previous one, and
the store of one output tile the computation of the next. Operands are stored in DRAM tile by tile, so every
transfer is one contiguous row. All micro-ops are loaded once, at the start.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType
from vdla.runtime.device import Device, RunResult

MAX_TRIPS = (1 << isa.LOOP_BITS) - 1
EPILOGUE = (AluOpcode.SHR, AluOpcode.MIN, AluOpcode.MAX)


@dataclass(frozen=True)
class GemmPlan:
    """Sizes and tiling of one GEMM.

    Attributes:
        config: the accelerator.
        m, n, k: sizes in values.
        shift: right shift before the clip.
        tile_m, tile_n, tile_k: tile sizes in blocks of batch, block_out and block_in.
    """

    config: AcceleratorConfig
    m: int
    n: int
    k: int
    shift: int
    tile_m: int
    tile_n: int
    tile_k: int

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles along m, n and k."""
        c = self.config
        return (
            self.m // (c.batch * self.tile_m),
            self.n // (c.block_out * self.tile_n),
            self.k // (c.block_in * self.tile_k),
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the product."""
        return self.m * self.n * self.k

    @property
    def gemm_cycles(self) -> int:
        """Cycles of the product at peak."""
        return self.macs // self.config.macs_per_cycle

    @property
    def compute_cycles(self) -> int:
        """Steps of all passes: the product, the reset and the epilogue, one cycle each."""
        outputs = self.m * self.n // (self.config.batch * self.config.block_out)
        return self.gemm_cycles + (1 + len(EPILOGUE)) * outputs

    def half(self, memory: MemoryType) -> int:
        """Elements of one of the two buffers in `memory`."""
        return self.config.depth(memory) // 2


def plan_gemm(config: AcceleratorConfig, m: int, n: int, k: int, shift: int = 10) -> GemmPlan:
    """Choose the tiles that move the least data, and among these the longest along k.

    Raises:
        ProgramError: a size is not a multiple of its block, or the ALU lacks an operation of the epilogue.
    """
    for name, size, block in (("m", m, config.batch), ("n", n, config.block_out), ("k", k, config.block_in)):
        if size <= 0 or size % block:
            raise ProgramError(f"GEMM {name} = {size} is not a positive multiple of {block}")
    if missing := [operation.name for operation in EPILOGUE if operation not in config.alu_opcodes]:
        raise ProgramError(
            f"the GEMM workload needs ALU operation {missing[0]}, which this configuration lacks"
        )
    blocks = (_divisors(m // config.batch), _divisors(n // config.block_out), _divisors(k // config.block_in))
    plans = (GemmPlan(config, m, n, k, shift, *tiles) for tiles in product(*blocks))
    return min(filter(_fits, plans), key=_cost)


def _divisors(value: int) -> list[int]:
    return [divisor for divisor in range(1, value + 1) if value % divisor == 0]


def _fits(plan: GemmPlan) -> bool:
    return (
        plan.tile_m * plan.tile_n <= plan.half(MemoryType.ACC)
        and plan.tile_m * plan.tile_k <= plan.half(MemoryType.INP)
        and plan.tile_n * plan.tile_k <= plan.half(MemoryType.WGT)
        and 2 + 4 * plan.tile_n <= plan.config.depth(MemoryType.UOP)
        and max(plan.tile_m, plan.tile_k, plan.tile_n) <= MAX_TRIPS
    )


def _cost(plan: GemmPlan) -> tuple[float, int]:
    """Bytes loaded per step, then the inverse order of tile_k."""
    inp, wgt = (plan.config.element_bytes(memory) for memory in (MemoryType.INP, MemoryType.WGT))
    return inp / plan.tile_n + wgt / plan.tile_m, -plan.tile_k


# Micro-ops: two that name the accumulator buffers, then tile_n for each choice of operand and accumulator
# buffer.


def _uops(plan: GemmPlan) -> list[isa.MicroOp]:
    acc, inp, wgt = (plan.half(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT))
    uops = [isa.MicroOp(dst=buffer * acc) for buffer in range(2)]
    for out, operand in product(range(2), range(2)):
        uops += [
            isa.MicroOp(dst=out * acc + n, src=operand * inp, wgt=operand * wgt + n * plan.tile_k)
            for n in range(plan.tile_n)
        ]
    return uops


def _product_uops(plan: GemmPlan, out: int, operand: int) -> dict[str, int]:
    begin = 2 + (2 * out + operand) * plan.tile_n
    return {"uop_begin": begin, "uop_end": begin + plan.tile_n}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Byte addresses of the operands in DRAM, multiples of their element sizes."""

    uop: int
    inp: int
    wgt: int
    out: int


def gemm_instructions(plan: GemmPlan, at: Addresses) -> Iterator[isa.Instruction]:
    """Yield the stream.

    The loads of a step stand before the product of the preceding step. Each token is then taken before the
    next token of its kind is pushed, so that queues and token counters of any depth suffice.
    """
    yield isa.Load(
        memory_type=MemoryType.UOP,
        dram_base=_element(plan, MemoryType.UOP, at.uop),
        y_size=1,
        x_size=len(_uops(plan)),
        x_stride=len(_uops(plan)),
    )
    tiles_m, tiles_n, tiles_k = plan.tiles
    steps = list(product(range(tiles_m), range(tiles_n), range(tiles_k)))
    yield from _loads(plan, at, 0, *steps[0])
    for step, (m, n, k) in enumerate(steps):
        tile = step // tiles_k
        if k == 0:
            yield _reset(plan, tile)
        if step + 1 < len(steps):
            yield from _loads(plan, at, step + 1, *steps[step + 1])
        yield _product(plan, tile, step, last=step + 2 >= len(steps))
        if k == tiles_k - 1:
            yield from _epilogue(plan, tile)
            yield _store(plan, at, tile, m, n, last=tile + 2 >= tiles_m * tiles_n)
    yield isa.Finish()


def _element(plan: GemmPlan, memory: MemoryType, address: int) -> int:
    return address // plan.config.element_bytes(memory)


def _reset(plan: GemmPlan, tile: int) -> isa.Gemm:
    out = tile % 2
    return isa.Gemm(
        reset=1,
        uop_begin=out,
        uop_end=out + 1,
        iter_out=plan.tile_m,
        iter_in=plan.tile_n,
        dst_factor_out=plan.tile_n,
        dst_factor_in=1,
        pop_next=int(tile >= 2),
    )


def _loads(plan: GemmPlan, at: Addresses, step: int, m: int, n: int, k: int) -> Iterator[isa.Load]:
    tiles_m, tiles_n, _ = plan.tiles
    inp_size, wgt_size = plan.tile_m * plan.tile_k, plan.tile_n * plan.tile_k
    yield isa.Load(
        memory_type=MemoryType.INP,
        sram_base=step % 2 * plan.half(MemoryType.INP),
        y_size=1,
        dram_base=_element(plan, MemoryType.INP, at.inp) + (k * tiles_m + m) * inp_size,
        x_size=inp_size,
        x_stride=inp_size,
        pop_next=int(step >= 2),
    )
    yield isa.Load(
        memory_type=MemoryType.WGT,
        sram_base=step % 2 * plan.half(MemoryType.WGT),
        y_size=1,
        dram_base=_element(plan, MemoryType.WGT, at.wgt) + (k * tiles_n + n) * wgt_size,
        x_size=wgt_size,
        x_stride=wgt_size,
        push_next=1,
    )


def _product(plan: GemmPlan, tile: int, step: int, *, last: bool) -> isa.Gemm:
    return isa.Gemm(
        **_product_uops(plan, tile % 2, step % 2),
        iter_out=plan.tile_m,
        iter_in=plan.tile_k,
        dst_factor_out=plan.tile_n,
        src_factor_out=plan.tile_k,
        src_factor_in=1,
        wgt_factor_in=1,
        pop_prev=1,
        push_prev=int(not last),
    )


def _epilogue(plan: GemmPlan, tile: int) -> Iterator[isa.Alu]:
    high = (1 << (plan.config.out_bits - 1)) - 1
    for operation, immediate in zip(EPILOGUE, (plan.shift, high, -high - 1), strict=True):
        yield isa.Alu(
            alu_opcode=operation,
            use_imm=1,
            imm=immediate,
            uop_begin=tile % 2,
            uop_end=tile % 2 + 1,
            iter_out=plan.tile_m,
            iter_in=plan.tile_n,
            dst_factor_out=plan.tile_n,
            dst_factor_in=1,
            push_next=int(operation is EPILOGUE[-1]),
        )


def _store(plan: GemmPlan, at: Addresses, tile: int, m: int, n: int, *, last: bool) -> isa.Store:
    size = plan.tile_m * plan.tile_n
    return isa.Store(
        memory_type=MemoryType.OUT,
        sram_base=tile % 2 * plan.half(MemoryType.ACC),
        y_size=1,
        dram_base=_element(plan, MemoryType.OUT, at.out) + (n * plan.tiles[0] + m) * size,
        x_size=size,
        x_stride=size,
        pop_prev=1,
        push_prev=int(not last),
    )


def _blocked(values: np.ndarray, rows: int, columns: int, tile_columns: int) -> np.ndarray:
    """Reorder [R, C] to [C / columns / tile_columns, R / rows, tile_columns, rows, columns]."""
    height, width = values.shape
    split = values.reshape(height // rows, rows, width // columns // tile_columns, tile_columns, columns)
    return split.transpose(2, 0, 3, 1, 4)


@dataclass(frozen=True)
class GemmRun:
    """A GEMM placed in a device's DRAM, to be run any number of times.

    Attributes:
        device: where it stands.
        plan: what it computes.
        inp: int8[m, k].
        wgt: int8[n, k].
        at: where the operands stand.
        stream_address, count: the instructions.
    """

    device: Device
    plan: GemmPlan
    inp: np.ndarray = field(repr=False)
    wgt: np.ndarray = field(repr=False)
    at: Addresses
    stream_address: int
    count: int

    def run(self, *, cycle_limit: int | None = None) -> RunResult:
        """Run the stream once."""
        return self.device.run(self.stream_address, self.count, cycle_limit=cycle_limit)

    def output(self) -> np.ndarray:
        """Return int8[m, n], as it stands in DRAM."""
        plan, c = self.plan, self.plan.config
        raw = self.device.copy_out(self.at.out, plan.m * plan.n * c.out_bits // 8)
        values = unpack_values(raw, c.out_bits)
        blocks = values.reshape(plan.tiles[1], plan.m // c.batch, plan.tile_n, c.batch, c.block_out)
        return blocks.transpose(1, 3, 0, 2, 4).reshape(plan.m, plan.n)

    def expected(self) -> np.ndarray:
        """Return int8[m, n], computed with NumPy."""
        return expected_gemm(self.plan, self.inp, self.wgt)


def expected_gemm(plan: GemmPlan, inp: np.ndarray, wgt: np.ndarray) -> np.ndarray:
    """Return int8[m, n] for inp int8[m, k] and wgt int8[n, k]."""
    exact = (inp.astype(np.float64) @ wgt.T.astype(np.float64)).astype(np.int64)  # sums stay below 2**53
    wrapped = exact.astype(f"i{plan.config.acc_bits // 8}")
    high = (1 << (plan.config.out_bits - 1)) - 1
    shifted: np.ndarray = wrapped >> plan.shift  # of its width or more: the sign is left
    clipped: np.ndarray = np.clip(shifted, -high - 1, high).astype(np.int8)
    return clipped


def random_operands(plan: GemmPlan, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inp int8[m, k] and wgt int8[n, k], uniform over their range."""
    generator, c = np.random.default_rng(seed), plan.config
    inp_high, wgt_high = 1 << (c.inp_bits - 1), 1 << (c.wgt_bits - 1)
    return (
        generator.integers(-inp_high, inp_high, (plan.m, plan.k), np.int8),
        generator.integers(-wgt_high, wgt_high, (plan.n, plan.k), np.int8),
    )


def place_gemm(device: Device, plan: GemmPlan, inp: np.ndarray, wgt: np.ndarray) -> GemmRun:
    """Copy operands inp int8[m, k], wgt int8[n, k] and the stream into the DRAM of `device`.

    Raises:
        DeviceError: DRAM is full.
    """
    c = plan.config
    inp_bytes = pack_values(_blocked(inp, c.batch, c.block_in, plan.tile_k), c.inp_bits)
    wgt_bytes = pack_values(_blocked(wgt, c.block_out, c.block_in, plan.tile_k), c.wgt_bits)
    uop_bytes = codec.uops_to_bytes(_uops(plan), c)
    at = Addresses(
        _allocate(device, MemoryType.UOP, len(uop_bytes)),
        _allocate(device, MemoryType.INP, inp_bytes.size),
        _allocate(device, MemoryType.WGT, wgt_bytes.size),
        _allocate(device, MemoryType.OUT, plan.m * plan.n * c.out_bits // 8),
    )
    for address, data in ((at.uop, uop_bytes), (at.inp, inp_bytes), (at.wgt, wgt_bytes)):
        device.copy_in(address, data)
    stream = codec.to_bytes(gemm_instructions(plan, at), c)
    address = device.allocate(len(stream))
    device.copy_in(address, stream)
    return GemmRun(device, plan, inp, wgt, at, address, len(stream) // c.instruction_bytes)


def _allocate(device: Device, memory: MemoryType, size: int) -> int:
    """Allocate at a multiple of the element's size, which may exceed a page."""
    element = device.config.element_bytes(memory)
    return -(-device.allocate(size + element) // element) * element


def pack_values(values: NDArray[np.int8], bits: int) -> NDArray[np.uint8]:
    """Return uint8[n * bits / 8]: the low `bits` bits (2, 4 or 8) of each of n int8 values, in memory
    order."""
    flat = np.ascontiguousarray(values, np.int8).reshape(-1).view(np.uint8)
    if bits == 8:
        return flat
    fields = (flat & ((1 << bits) - 1)).reshape(-1, 8 // bits)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(fields << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    return packed


def unpack_values(data: NDArray[np.uint8], bits: int) -> NDArray[np.int8]:
    """Return int8[n * 8 / bits]: the signed values in uint8[n]."""
    raised = data.reshape(-1, 1) << (8 - bits - np.arange(0, 8, bits)).astype(np.uint8)
    return (raised.astype(np.uint8).view(np.int8) >> (8 - bits)).reshape(-1)
