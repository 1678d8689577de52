"""The on-chip memories as NumPy arrays, and the packing of narrow values in DRAM."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.limits import SCRATCHPAD_BYTES, require_room
from vdla.hw.spec.memories import SCRATCHPADS, scratchpads_of
from vdla.hw.spec.vocabulary import Extension, MemoryType, Unit

K_GROUP = 4
MIN_LANES = 4
ALIGNMENT_BYTES = 64
SUMS_OF_ROWS = {"powers": np.uint32, "totals": np.int32, "squares": np.uint32}
"""The sums that NORMALISEs gather of a row, as they are held."""


def padded_block_in(config: AcceleratorConfig) -> int:
    """Return `block_in` rounded up to whole groups of `K_GROUP`."""
    return -(-config.block_in // K_GROUP) * K_GROUP


def padded_block_out(config: AcceleratorConfig) -> int:
    """Return `block_out`, at least the smallest vector."""
    return max(config.block_out, MIN_LANES)


def uop_dtype(config: AcceleratorConfig) -> np.dtype[np.unsignedinteger]:
    """Return the type of an encoded micro-op: uint32 or uint64."""
    return np.dtype(f"u{config.uop_bits // 8}")


def acc_dtype(config: AcceleratorConfig) -> np.dtype[np.signedinteger]:
    """Return the type of an accumulator: int16 or int32."""
    return np.dtype(f"i{config.acc_bits // 8}")


@dataclass(frozen=True)
class Scratchpads:
    """The memories of one accelerator, all zero at first. 2- and 4-bit values take a byte each.

    Raises:
        DeviceError: they take more than `SCRATCHPAD_BYTES`.

    Attributes:
        uop: uint32 or uint64[depth].
        inp: int8[depth, batch, block_in].
        wgt: int8[depth, block_out, block_in].
        acc: int16 or int32[depth, batch, block_out].
        table: int8[depth, 4], and res: int8[depth, batch, block_out]; empty where there is no such memory.
        inp_operand: uint8[depth, batch, padded block_in], `inp + 128`: the native GEMM's unsigned operand.
        wgt_operand: int8[depth, padded block_in / 4, padded block_out, 4], `wgt` in groups of 4 along k.
        wgt_bias: int32[depth, padded block_out], -128 times each row's sum: makes up for `inp + 128`.
        pad_registers: int8[units], the pad register of each unit.
        greatest: int8[rows], powers: uint32[rows], totals: int32[rows] of 24 bits, squares: uint32[rows]: the
            statistics of rows that NORMALISEs gather; empty where there is no NORMALISE.
    """

    config: AcceleratorConfig
    uop: np.ndarray = field(init=False)
    inp: np.ndarray = field(init=False)
    wgt: np.ndarray = field(init=False)
    acc: np.ndarray = field(init=False)
    table: np.ndarray = field(init=False)
    res: np.ndarray = field(init=False)
    inp_operand: np.ndarray = field(init=False)
    wgt_operand: np.ndarray = field(init=False)
    wgt_bias: np.ndarray = field(init=False)
    pad_registers: np.ndarray = field(init=False)
    greatest: np.ndarray = field(init=False)
    powers: np.ndarray = field(init=False)
    totals: np.ndarray = field(init=False)
    squares: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        c = self.config
        depths = dict.fromkeys(SCRATCHPADS, 0) | {memory: c.depth(memory) for memory in scratchpads_of(c)}
        inps, wgts = depths[MemoryType.INP], depths[MemoryType.WGT]
        k, o = padded_block_in(c), padded_block_out(c)
        rows = isa.NORMAL_ROWS if c.has(Extension.NORMALISE) else 0
        arrays: dict[str, tuple[tuple[int, ...], DTypeLike]] = {
            "uop": ((depths[MemoryType.UOP],), uop_dtype(c)),
            "inp": ((inps, c.batch, c.block_in), np.int8),
            "wgt": ((wgts, c.block_out, c.block_in), np.int8),
            "acc": ((depths[MemoryType.ACC], c.batch, c.block_out), acc_dtype(c)),
            "table": ((depths[MemoryType.TABLE], c.entries), np.int8),
            "res": ((depths[MemoryType.RES], c.batch, c.block_out), np.int8),
            "inp_operand": ((inps, c.batch, k), np.uint8),
            "wgt_operand": ((wgts, k // K_GROUP, o, K_GROUP), np.int8),
            "wgt_bias": ((wgts, o), np.int32),
            "pad_registers": ((len(Unit),), np.int8),
            "greatest": ((rows,), np.int8),
            **{name: ((rows,), kind) for name, kind in SUMS_OF_ROWS.items()},
        }
        size = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in arrays.values())
        require_room(size, SCRATCHPAD_BYTES, "the functional model's scratchpads take", DeviceError)
        for name, (shape, dtype) in arrays.items():
            object.__setattr__(self, name, _aligned_zeros(shape, dtype))
        self.refresh_operands()

    def refresh_operands(self) -> None:
        """Recompute the native GEMM's operands after `inp` or `wgt` were written from Python."""
        c = self.config
        self.inp_operand[:, :, : c.block_in] = self.inp.view(np.uint8) ^ 128
        self.wgt_operand[...] = 0
        for k in range(c.block_in):
            self.wgt_operand[:, k // K_GROUP, : c.block_out, k % K_GROUP] = self.wgt[:, :, k]
        self.wgt_bias[:, : c.block_out] = -128 * self.wgt.sum(axis=2, dtype=np.int32)

    def clear(self) -> None:
        """Zero every memory."""
        for array in (self.uop, self.inp, self.wgt, self.acc, self.table, self.res):
            array[...] = 0
        for statistic in (self.greatest, self.powers, self.totals, self.squares):
            statistic[...] = 0
        self.clear_registers()
        self.refresh_operands()

    def clear_registers(self) -> None:
        """Zero what a run begins with: everything but the memories."""
        self.pad_registers[...] = 0


def _aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return zeros that start at a multiple of `ALIGNMENT_BYTES`: a vector load then meets one cache line,
    not two."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + ALIGNMENT_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + size].view(dtype).reshape(shape)


def unpack(source: NDArray[np.uint8], bits: int) -> NDArray[np.int8]:
    """Return int8[n * 8 / bits]: the signed `bits`-bit values of uint8[n], low bits of a byte first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    raised = (source.reshape(-1, 1) >> shifts) << (8 - bits)
    return (raised.astype(np.uint8).view(np.int8) >> (8 - bits)).reshape(-1)


def pack(values: NDArray[np.integer], bits: int) -> NDArray[np.uint8]:
    """Return uint8[n * bits / 8]: the low `bits` bits of each of n integers, low bits of a byte first."""
    per_byte = 8 // bits
    fields = values.astype(np.uint8).reshape(-1, per_byte) & ((1 << bits) - 1)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(fields << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    return packed
