"""The elements that an instruction accesses, and the error for an access out of bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import AccessError
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.sim.decoded import DecodedStream


@dataclass(frozen=True, slots=True)
class Reach:
    """Elements (DRAM: bytes) `low` to `high - 1` of a memory of `limit`; `memory` None is DRAM."""

    memory: MemoryType | None
    low: int
    high: int
    limit: int

    def __str__(self) -> str:
        if self.memory is None:
            return f"reaches DRAM bytes {self.low:#x}..{self.high - 1:#x}, but DRAM has {self.limit:#x} bytes"
        name = self.memory.name
        return f"reaches {name} elements {self.low}..{self.high - 1}, but {name} holds {self.limit}"


def reaches(
    instruction: isa.Instruction, uop: np.ndarray, config: AcceleratorConfig, dram_bytes: int
) -> Iterator[Reach]:
    """Yield what `instruction` touches, memory by memory; nothing where its loops or sizes are empty.

    Micro-ops out of range are yielded alone, as what they would name is not defined.

    Args:
        uop: uint32[depth], the micro-op memory when the instruction runs.
    """
    match instruction:
        case isa.Load():
            yield from _load_reaches(instruction, config, dram_bytes)
        case isa.Store():
            yield from _store_reaches(instruction, config, dram_bytes)
        case isa.Gemm() | isa.Alu():
            yield from _loop_reaches(instruction, uop, config)


def check_access(program: DecodedStream, index: int, uop: np.ndarray, dram_bytes: int) -> None:
    """Refuse the instruction at `index` if it accesses anything outside a memory.

    Raises:
        AccessError: naming the instruction, the memory, the range it reaches and the size.
    """
    for reach in reaches(program.instruction(index), uop, program.config, dram_bytes):
        if reach.high > reach.limit:
            raise AccessError(f"{program.describe(index)} {reach}", index)


def _dram_reach(transfer: isa.Load | isa.Store, config: AcceleratorConfig, dram_bytes: int) -> Reach:
    size = config.element_bytes(transfer.memory_type)
    last = transfer.dram_base + (transfer.y_size - 1) * transfer.x_stride + transfer.x_size
    return Reach(None, transfer.dram_base * size, last * size, dram_bytes)


def _load_reaches(load: isa.Load, config: AcceleratorConfig, dram_bytes: int) -> Iterator[Reach]:
    rows = load.y_pad_0 + load.y_size + load.y_pad_1
    if not (load.x_size and rows):
        return
    high = load.sram_base + rows * (load.x_pad_0 + load.x_size + load.x_pad_1)
    yield Reach(load.memory_type, load.sram_base, high, config.depth(load.memory_type))
    if load.y_size:
        yield _dram_reach(load, config, dram_bytes)


def _store_reaches(store: isa.Store, config: AcceleratorConfig, dram_bytes: int) -> Iterator[Reach]:
    if store.x_size and store.y_size:
        high = store.sram_base + store.y_size * store.x_size
        yield Reach(store.memory_type, store.sram_base, high, config.depth(store.memory_type))
        if store.parameters:
            yield Reach(
                MemoryType.ACC,
                store.parameters_base,
                store.parameters_base + len(Parameter),
                config.depth(MemoryType.ACC),
            )
        yield _dram_reach(store, config, dram_bytes)


OPERANDS: Mapping[type[isa.Gemm | isa.Alu], dict[str, MemoryType]] = {
    isa.Gemm: {"dst": MemoryType.ACC, "src": MemoryType.INP, "wgt": MemoryType.WGT},
    isa.Alu: {"dst": MemoryType.ACC, "src": MemoryType.ACC},
}


def operands(loop: isa.Gemm | isa.Alu) -> dict[str, MemoryType]:
    """Return the micro-op fields that `loop` uses and the memory each indexes."""
    alone = loop.use_imm if isinstance(loop, isa.Alu) else loop.reset
    return {"dst": MemoryType.ACC} if alone else OPERANDS[type(loop)]


def uop_column(uop: np.ndarray, name: str, config: AcceleratorConfig) -> np.ndarray:
    """Return int64[n]: field `name` of micro-ops uint32[n]."""
    field = isa.field_of(isa.MicroOp, name, config)
    return uop.astype(np.int64) >> field.start & ((1 << field.width) - 1)


def _loop_reaches(loop: isa.Gemm | isa.Alu, uop: np.ndarray, config: AcceleratorConfig) -> Iterator[Reach]:
    if not (loop.iter_out and loop.iter_in and loop.uop_begin < loop.uop_end):
        return
    yield Reach(MemoryType.UOP, loop.uop_begin, loop.uop_end, len(uop))
    if loop.uop_end > len(uop):
        return
    for name, memory in operands(loop).items():
        first = uop_column(uop[loop.uop_begin : loop.uop_end], name, config)
        extent = (loop.iter_out - 1) * getattr(loop, f"{name}_factor_out") + (loop.iter_in - 1) * getattr(
            loop, f"{name}_factor_in"
        )
        yield Reach(memory, int(first.min()), int(first.max()) + extent + 1, config.depth(memory))
