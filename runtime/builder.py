"""Building instruction streams: transfers and loops are recorded, tokens follow from what they touch.

In the spirit of VTA's runtime, but what must wait for what is found from the addresses, so that launches join without a full synchronisation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import INSTRUCTION_BYTES, AluOpcode, MemoryType, Parameter
from vdla.runtime.encode import encode_rows
from vdla.runtime.micro_kernels import MicroKernel, MicroKernels, MicroOps
from vdla.runtime.tokens import FLAGS, TokenPlanner

UOP_TENSOR = "micro-ops"
TRANSFER = ("memory_type", "sram_base", "dram_base", "pad_minimum", "y_size", "x_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
STORED = ("memory_type", "sram_base", "dram_base", "parameters", "y_size", "x_size", "x_stride")
LOOP = ("reset", "uop_begin", "uop_end", "iter_out", "iter_in", "dst_factor_out", "dst_factor_in", "src_factor_out", "src_factor_in")
GEMM = (*LOOP, "wgt_factor_out", "wgt_factor_in", "overwrite")
ALU = (*LOOP, "alu_opcode", "use_imm", "imm")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that a LOAD or STORE moves, in elements; pads are `(before, behind)`."""

    height: int
    width: int
    stride: int
    y_pads: tuple[int, int] = (0, 0)
    x_pads: tuple[int, int] = (0, 0)

    @property
    def elements(self) -> int:
        """Elements on chip, padding included."""
        return (self.y_pads[0] + self.height + self.y_pads[1]) * (self.x_pads[0] + self.width + self.x_pads[1])


@dataclass(frozen=True, slots=True)
class Loop:
    """A hardware loop: its trips, and the step of each operand's index."""

    trips: int = 1
    dst: int = 0
    src: int = 0
    wgt: int = 0


@dataclass(frozen=True)
class Stream:
    """A finished stream.

    Attributes:
        words: uint64[n, 2]; `dram_base` counts from the begin of its tensor until it is relocated.
        tensors: by name, the instructions whose `dram_base` is relative to it.
        uops: uint32[m], the contents of the tensor UOP_TENSOR.
    """

    config: AcceleratorConfig
    words: np.ndarray
    tensors: Mapping[str, np.ndarray]
    uops: np.ndarray

    @property
    def count(self) -> int:
        """Number of instructions."""
        return len(self.words)

    def relocated(self, addresses: Mapping[str, int]) -> np.ndarray:
        """Return uint8[n, 16]: the stream for tensors at these byte addresses, each a multiple of its element's size."""
        words = self.words.copy()
        field = isa.field_of(isa.Load, "dram_base", self.config)
        memory = isa.field_of(isa.Load, "memory_type", self.config)
        sizes = np.array([self.config.element_bytes(MemoryType(kind)) if kind in tuple(MemoryType) else 1 for kind in range(8)])
        for name, positions in self.tensors.items():
            kinds = (words[positions, 0] >> np.uint64(memory.start) & np.uint64(7)).astype(np.int64)
            base = addresses[name] // sizes[kinds]
            words[positions, 0] += base.astype(np.uint64) << np.uint64(field.start)
        return words.view(np.uint8).reshape(-1, INSTRUCTION_BYTES)


class StreamBuilder:
    """Records instructions; see `Stream` for what comes of them.

    Args:
        config: the accelerator.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.kernels = MicroKernels(config)
        self._tokens = TokenPlanner(config.token_depth, self._relay)
        self._rows: dict[type, list[tuple[int, ...]]] = {form: [] for form in isa.INSTRUCTIONS}
        self._positions: dict[type, list[int]] = {form: [] for form in isa.INSTRUCTIONS}
        self._tensors: dict[str, list[int]] = {}
        depth = {memory: config.depth(memory) for memory in (MemoryType.INP, MemoryType.WGT, MemoryType.ACC)}
        self._loaded = {memory: np.full(depth[memory], -1) for memory in (MemoryType.INP, MemoryType.WGT)}  # by the load unit
        self._used = {memory: np.full(depth[memory], -1) for memory in (MemoryType.INP, MemoryType.WGT)}  # by the compute unit
        self._computed, self._stored = np.full(depth[MemoryType.ACC], -1), np.full(depth[MemoryType.ACC], -1)
        self._written: dict[str, int] = {}  # tensors in DRAM: the last STORE into them,
        self._read: dict[str, dict[Unit, int]] = {}  # and the last LOAD from them, by unit

    # Recording

    def load(self, memory: MemoryType, sram: int, tensor: str, element: int, rows: Rows, *, pad_minimum: bool = False) -> None:
        """Load rows of `tensor`, from its `element` on, to `sram` of `memory`."""
        row = (memory, sram, element, pad_minimum, rows.height, rows.width, rows.stride, *rows.y_pads, *rows.x_pads)
        end = sram + rows.elements
        needs = {Unit.STORE: self._written.get(tensor, -1)}
        if memory in self._loaded:
            unit = Unit.LOAD
            needs[Unit.COMPUTE] = int(self._used[memory][sram:end].max(initial=-1))
        else:
            unit = Unit.COMPUTE
            if memory is not MemoryType.UOP:
                needs[Unit.STORE] = max(needs[Unit.STORE], int(self._stored[sram:end].max(initial=-1)))
        position = self._append(isa.Load, row, unit, needs, tensor)
        self._read.setdefault(tensor, {})[unit] = position
        written = self._loaded.get(memory, self._computed if memory is not MemoryType.UOP else None)
        if written is not None:
            written[sram:end] = position

    def store(self, sram: int, tensor: str, element: int, rows: Rows, *, parameters: int = 0) -> None:
        """Store rows of outputs from `sram` to `tensor`, from its `element` on; requantised where a set of `parameters` is given."""
        end = sram + rows.elements
        used = slice((parameters - 1) * len(Parameter), parameters * len(Parameter)) if parameters else slice(0)
        needs = {Unit.COMPUTE: int(max(self._computed[sram:end].max(initial=-1), self._computed[used].max(initial=-1))), Unit.LOAD: -1}
        for unit, position in self._read.get(tensor, {}).items():
            needs[unit] = max(needs[unit], position)
        row = (MemoryType.OUT, sram, element, parameters, rows.height, rows.width, rows.stride)
        position = self._append(isa.Store, row, Unit.STORE, needs, tensor)
        self._stored[sram:end] = self._stored[used] = position
        self._written[tensor] = position

    def gemm(self, uops: MicroOps, outer: Loop, inner: Loop, *, reset: bool = False, overwrite: bool = False) -> None:
        """Multiply and accumulate, or reset, over two loops and micro-ops; `overwrite`: write products instead of adding them."""
        uops = uops if isinstance(uops, MicroKernel) else MicroKernel(uops)
        row = (reset, *self._micro_kernel(uops), outer.trips, inner.trips, outer.dst, inner.dst, outer.src, inner.src,
               outer.wgt, inner.wgt, overwrite)
        dst, src, wgt = (_span(uops, which, outer, inner) for which in range(3))
        needs = {Unit.STORE: int(self._stored[slice(*dst)].max(initial=-1)), Unit.LOAD: -1}
        if not reset:
            for memory, span in ((MemoryType.INP, src), (MemoryType.WGT, wgt)):
                needs[Unit.LOAD] = max(needs[Unit.LOAD], int(self._loaded[memory][slice(*span)].max(initial=-1)))
        position = self._append(isa.Gemm, row, Unit.COMPUTE, needs)
        self._computed[slice(*dst)] = position
        if not reset:
            self._used[MemoryType.INP][slice(*src)] = position
            self._used[MemoryType.WGT][slice(*wgt)] = position

    def alu(self, opcode: AluOpcode, uops: MicroOps, outer: Loop, inner: Loop, *, imm: int | None = None) -> None:
        """Apply an operation to accumulators, with a constant or with others, over two loops and micro-ops."""
        uops = uops if isinstance(uops, MicroKernel) else MicroKernel(uops)
        row = (0, *self._micro_kernel(uops), outer.trips, inner.trips, outer.dst, inner.dst, outer.src, inner.src,
               opcode, imm is not None, imm or 0)
        dst = _span(uops, 0, outer, inner)
        needs = {Unit.STORE: int(self._stored[slice(*dst)].max(initial=-1))}
        self._computed[slice(*dst)] = self._append(isa.Alu, row, Unit.COMPUTE, needs)

    def _micro_kernel(self, uops: MicroOps) -> tuple[int, int]:
        """Return begin and end of a micro-kernel in micro-op memory; load it if it is not there."""
        placement = self.kernels.place(uops)
        if placement.must_load:
            size = len(uops)
            self.load(MemoryType.UOP, placement.begin, UOP_TENSOR, self.kernels.starts[uops], Rows(1, size, size))
        return placement.begin, placement.begin + len(uops)

    def _append(self, form: type, row: tuple[int, ...], unit: Unit, needs: Mapping[Unit, int], tensor: str | None = None) -> int:
        position = self._tokens.place(unit, needs)
        self._rows[form].append(row)
        self._positions[form].append(position)
        if tensor is not None:
            self._tensors.setdefault(tensor, []).append(position)
        return position

    def _relay(self, unit: Unit, needs: Mapping[Unit, int]) -> int:
        """Append a transfer of nothing."""
        memory = {Unit.LOAD: MemoryType.INP, Unit.COMPUTE: MemoryType.UOP, Unit.STORE: MemoryType.OUT}[unit]
        form, fields = (isa.Store, STORED) if unit is Unit.STORE else (isa.Load, TRANSFER)
        return self._append(form, (memory, *(0 for _ in fields[1:])), unit, needs)

    # Finishing

    def finish(self) -> Stream:
        """Return the stream, ended by FINISH. Nothing can be recorded afterwards."""
        self._append(isa.Finish, (), Unit.COMPUTE, {})
        words = np.zeros((len(self._tokens.flags), 2), np.uint64)
        names = {isa.Load: TRANSFER, isa.Store: STORED, isa.Gemm: GEMM, isa.Alu: ALU, isa.Finish: ()}
        for form, fields in names.items():
            words[self._positions[form]] = encode_rows(form, self.config, fields, self._rows[form])
        for number, flag in enumerate(FLAGS):
            start = isa.field_of(isa.Instruction, flag, self.config).start
            words[:, 0] |= (np.array(self._tokens.flags, np.uint64) >> np.uint64(number) & np.uint64(1)) << np.uint64(start)
        tensors = {name: np.array(positions) for name, positions in self._tensors.items()}
        return Stream(self.config, words, tensors, np.array(self.kernels.words, np.uint32))


def _span(uops: MicroKernel, which: int, outer: Loop, inner: Loop) -> tuple[int, int]:
    """Return the least interval [begin, end) that holds every index of one operand."""
    low, high = uops.ranges[which]
    step_out, step_in = ((loop.dst, loop.src, loop.wgt)[which] for loop in (outer, inner))
    return low, high + (outer.trips - 1) * step_out + (inner.trips - 1) * step_in + 1

