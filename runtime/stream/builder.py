"""The stream builder: records transfers and loops; tokens follow from what the instructions read and write.

As in VTA's runtime, but dependences are found from addresses, so launches are joined without a full
synchronisation.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

import numpy as np

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.declared import PlacedField
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.footprint import executing_unit
from vdla.hw.spec.meaning import check_form, missing
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Statistic
from vdla.hw.spec.window import TAPS
from vdla.runtime.stream.encode import encode_rows
from vdla.runtime.stream.micro_kernels import MicroKernel, MicroKernels, MicroOps
from vdla.runtime.stream.record import NO_TENSOR, Edit, InsertedLoad, Record
from vdla.runtime.stream.tokens import conflicts, loads_beside, plan_tokens
from vdla.runtime.windows import GatheredLines
from vdla.sim.rows import element_bytes

UOP_TENSOR = "micro-ops"
PLAIN = False, False, False, 0  # pad_minimum, pad_value, beside and halvings of a LOAD


class Rows(NamedTuple):
    """Rows that a LOAD or STORE moves, in elements; pads are `(before, behind)`."""

    height: int
    width: int
    stride: int
    y_pads: tuple[int, int] = (0, 0)
    x_pads: tuple[int, int] = (0, 0)

    @property
    def fields(self) -> tuple[int, ...]:
        """The fields of a transfer from `y_size` to `x_pad_1`."""
        height, width, stride, y_pads, x_pads = self
        return height, width, stride, *y_pads, *x_pads


class Loop(NamedTuple):
    """A hardware loop: its trips, and the step of each operand's index."""

    trips: int = 1
    dst: int = 0
    src: int = 0
    wgt: int = 0


@dataclass(frozen=True)
class Stream:
    """A finished stream.

    Attributes:
        words: uint64[n, instruction_bits / 64]; `dram_base` counts from the begin of its tensor until it
            is relocated.
        tensors: by name, the instructions whose `dram_base` is relative to it.
        uops: uint32 or uint64[m], the contents of the tensor UOP_TENSOR.
        labels: by name, the instructions that belong to it.
    """

    config: AcceleratorConfig
    words: np.ndarray
    tensors: Mapping[str, np.ndarray]
    uops: np.ndarray
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of instructions."""
        return len(self.words)

    def relocated(self, addresses: Mapping[str, int]) -> np.ndarray:
        """Return uint8[n, instruction_bytes]: the stream for tensors at these byte addresses.

        Args:
            addresses: by tensor; each a multiple of the size of its elements, narrow or not.

        Raises:
            EncodingError: an address, in elements, does not fit `dram_base`.
        """
        words = self.words.copy()
        field = encoding.field_of(isa.Load, "dram_base", self.config)
        word, start = divmod(field.start, encoding.WORD_BITS)
        sizes = _element_bytes(words, self.config)
        for name, positions in self.tensors.items():
            base = addresses[name] // sizes[positions]
            offset = _values(words[positions], field)
            _check_elements(name, positions, base + offset, field.high)
            words[positions, word] += base.astype(np.uint64) << np.uint64(start)
        return words.view(np.uint8).reshape(-1, self.config.instruction_bytes)


class StreamBuilder:
    """Records instructions; see `Stream` for what comes of them.

    Args:
        config: the accelerator.

    Attributes:
        record: the instructions so far.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.kernels = MicroKernels(config)
        self.record = Record()
        self._tensors = _numbers({})
        self._pad_registers: dict[Unit, int] = {}  # where they are not 0
        self._labels: list[str] = []  # by number
        self._taken: dict[MemoryType, int] = {}  # the end of what a program took last
        self._limits: dict[MemoryType, int] = {}  # the begin of what lasts
        self._places: dict[tuple[MemoryType, Hashable], int] = {}  # of programs

    # Recording

    def label(self, name: str) -> None:
        """Assign the instructions recorded from here on to `name`."""
        self.record.owner = len(self._labels)
        self._labels.append(name)

    def next_place(self, memory: MemoryType, elements: int, program: Hashable, *, lasts: bool = False) -> int:
        """Return where a program's elements of a memory begin.

        They begin behind the elements of the preceding program, so that the program can load them while the
        preceding program still computes. Where they do not fit, they begin at the start of the memory. A
        program that was placed before keeps its place, and so its micro-kernels.

        Args:
            lasts: the elements are read by further programs. They take the end of the memory, where only
                programs that do not fit in front of them overwrite them.
        """
        if (memory, program) not in self._places:  # hashing a program takes long
            self._places[memory, program] = self._new_place(memory, elements, lasts)
        place = self._places[memory, program]
        if not lasts:
            self._taken[memory] = place + elements
        return place

    def _new_place(self, memory: MemoryType, elements: int, lasts: bool) -> int:
        """Return where the elements of a program begin that was not placed before."""
        end, limit = self._taken.get(memory, 0), self._limits.get(memory, self.config.depth(memory))
        if lasts and elements <= limit:
            self._limits[memory] = limit - elements
            return limit - elements
        return end if end + elements <= limit else 0

    def load(
        self,
        memory: MemoryType,
        sram: int,
        tensor: str,
        element: int,
        rows: Rows,
        *,
        pad_minimum: bool = False,
        pad_value: int = 0,
        halvings: int = 0,
    ) -> None:
        """Load rows of `tensor`, from its `element` on, to `sram` of `memory`; padded with the least value,
        or with `pad_value`. With `halvings`, the tensor holds narrow weights; `element` and the stride of
        `rows` count narrow elements.

        Raises:
            EncodingError: the accelerator has no LOADs of `memory` with these `halvings`.
        """
        self._check_halvings(memory, halvings)
        if pad_value:
            self._set_pad_register(memory, pad_value)
        row = memory, sram, element, *rows.fields, pad_minimum, bool(pad_value), False, halvings
        self.record.transfer(isa.Load, row, self._tensors[tensor])

    def _check_halvings(self, memory: MemoryType, halvings: int) -> None:
        """Refuse halvings that LOADs of a memory cannot have to an effect."""
        if halvings and not self.config.has(Extension.NARROW_WEIGHTS):
            needed = missing(Extension.NARROW_WEIGHTS, self.config)
            raise EncodingError(f"a LOAD with halvings = {halvings} needs {needed}")
        possible = self.config.halvings(memory)
        if halvings not in possible:
            raise EncodingError(
                f"a LOAD of {memory.name} has halvings = {halvings}, outside 0..{possible[-1]}"
            )

    def gather(self, lines: GatheredLines, sram: int, tensor: str, element: int, rows: Rows) -> None:
        """Load rows of windows of packed lines in `tensor`, from its window `element` on, to `sram` of INP.

        Raises:
            ValueError: the rows have padding, which packed lines bring with them.
        """
        if any((*rows.y_pads, *rows.x_pads)):
            raise ValueError(f"{tensor} is packed with its border, and {rows} would add padding")
        for part in lines.pieces(element, rows.height, rows.width, rows.stride):
            size = Rows(part.height, part.width, part.stride)
            self.gather_elements(lines.step, sram + part.place, tensor, part.begin, size)

    def gather_elements(self, step: int, sram: int, tensor: str, begin: int, rows: Rows) -> None:
        """Load rows of elements of `tensor` that are `step` bytes apart, from its byte `begin` on, to `sram`
        of INP; the stride of `rows` counts bytes, and they have no padding."""
        row = MemoryType.INP, sram, begin, rows.height, rows.width, rows.stride, 0, 0, step, False, False
        self.record.transfer(isa.Gather, row, self._tensors[tensor])

    def _set_pad_register(self, memory: MemoryType, value: int) -> None:
        """Write the pad register of the unit that loads `memory`, unless it holds `value` already."""
        unit = executing_unit(isa.Load, memory)
        if self._pad_registers.get(unit) != value:
            self._pad_registers[unit] = value
            place = memory, value & (1 << isa.PAD_VALUE_BITS) - 1, 0, *Rows(0, 0, 0).fields
            self.record.transfer(isa.Load, (*place, False, True, False, 0), NO_TENSOR)

    def store(
        self,
        sram: int,
        tensor: str,
        element: int,
        rows: Rows,
        *,
        parameters: int = 0,
        table: int = 0,
        residual: int = 0,
    ) -> None:
        """Store rows of outputs from `sram` to `tensor`, from its `element` on; requantised where a set of
        `parameters` is given, and then by `table` and with the residuals from `residual` on."""
        row = MemoryType.OUT, sram, element, *rows.fields, parameters, table, residual
        self.record.transfer(isa.Store, row, self._tensors[tensor])

    def feed_back(
        self, sram: int, inp: int, rows: Rows, *, parameters: int = 0, table: int = 0, residual: int = 0
    ) -> None:
        """Write rows of outputs from `sram` into INP, from its element `inp` on, as `store` writes them into
        a tensor.

        Raises:
            EncodingError: the accelerator has no such path.
        """
        if not self.config.has(Extension.FEEDBACK):
            raise EncodingError(f"a STORE into INP needs {missing(Extension.FEEDBACK, self.config)}")
        row = MemoryType.INP, sram, inp, *rows.fields, parameters, table, residual
        self.record.transfer(isa.Store, row, NO_TENSOR)

    def gather_statistics(
        self,
        sram: int,
        rows: Rows,
        statistic: Statistic,
        *,
        anew: bool = False,
        parameters: int = 0,
        table: int = 0,
    ) -> None:
        """Gather a statistic of rows of accumulators from `sram` on, each element for another row; `anew`:
        without the values that were gathered before.

        Raises:
            EncodingError: the accelerator has no NORMALISE.
        """
        check_form(isa.Normalise, self.config)
        row = MemoryType.OUT, sram, 0, parameters, rows.height, rows.width, 0, table, 0, statistic, anew
        self.record.transfer(isa.Normalise, row, NO_TENSOR)

    def normalise(
        self,
        sram: int,
        tensor: str,
        element: int,
        rows: Rows,
        statistic: Statistic,
        *,
        normal: int,
        parameters: int = 0,
        table: int = 0,
    ) -> None:
        """Store rows of outputs from `sram` to `tensor`, from its `element` on, normalised by the statistic
        of their rows and by set `normal` of parameters.

        Raises:
            EncodingError: the accelerator has no NORMALISE.
        """
        check_form(isa.Normalise, self.config)
        place = MemoryType.OUT, sram, element, parameters, rows.height, rows.width, rows.stride
        self.record.transfer(isa.Normalise, (*place, table, normal, statistic, False), self._tensors[tensor])

    def gemm(
        self, uops: MicroOps, outer: Loop, inner: Loop, *, reset: bool = False, overwrite: bool = False
    ) -> None:
        """Multiply and accumulate, or reset, over two loops and micro-ops; `overwrite`: write products
        instead of adding them."""
        uops = uops if isinstance(uops, MicroKernel) else MicroKernel(uops)
        row = self._nest(uops, outer, inner, reset=reset)
        self.record.compute(isa.Gemm, (*row, outer.wgt, inner.wgt, overwrite), uops)

    def alu(
        self, opcode: AluOpcode, uops: MicroOps, outer: Loop, inner: Loop, *, imm: int | None = None
    ) -> None:
        """Apply an operation to accumulators, with a constant or with others, over two loops and
        micro-ops."""
        uops = uops if isinstance(uops, MicroKernel) else MicroKernel(uops)
        row = self._nest(uops, outer, inner)
        self.record.compute(isa.Alu, (*row, opcode, imm is not None, imm or 0), uops)

    def depthwise(
        self,
        uops: MicroOps,
        outer: Loop,
        inner: Loop,
        *,
        window: tuple[int, int, int] = (1, TAPS, 1),
        stride_2: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Slide windows along rows, one for each micro-op, over an outer loop.

        The inner loop has the sums of a row as trips; its source's step leads from column to column.

        Args:
            window: its rows, its columns, and the elements from row to row, an odd number.
        """
        uops = uops if isinstance(uops, MicroKernel) else MicroKernel(uops)
        trips, steps = (outer.trips, inner.trips), (outer.dst, inner.dst, outer.src, inner.src, outer.wgt)
        rows, columns, apart = window
        extents = rows - 1, columns > TAPS, apart // 2
        row = (stride_2, *self._micro_kernel(uops), *trips, *steps, *extents, overwrite)
        self.record.compute(isa.Depthwise, row, uops)

    def _nest(self, uops: MicroKernel, outer: Loop, inner: Loop, *, reset: bool = False) -> tuple[int, ...]:
        """Return the fields that GEMM and ALU share; load the micro-ops if they are not resident."""
        micro_ops = self._micro_kernel(uops)
        trips = outer.trips, inner.trips
        return (reset, *micro_ops, *trips, outer.dst, inner.dst, outer.src, inner.src)

    def _micro_kernel(self, uops: MicroOps) -> tuple[int, int]:
        """Return begin and end of a micro-kernel in micro-op memory; load it if it is not resident."""
        placement = self.kernels.place(uops)
        if placement.must_load:
            tensor = self._tensors[UOP_TENSOR]
            for row in self._loads_of(uops, placement.begin):
                self.record.transfer(isa.Load, row, tensor)
        return placement.begin, placement.begin + len(uops)

    def _loads_of(self, uops: MicroOps, begin: int) -> Iterator[tuple[int, ...]]:
        """Yield the fields of the LOADs of a micro-kernel to its place in micro-op memory."""
        for first in range(0, len(uops), isa.LONGEST_ROW):
            size, start = min(len(uops) - first, isa.LONGEST_ROW), self.kernels.starts[uops] + first
            yield (MemoryType.UOP, begin + first, start, *Rows(1, size, size).fields, *PLAIN)

    def edited(self, edit: Edit) -> "StreamBuilder":
        """Return a builder of the same tensors and labels with an edited record. Micro-kernels are placed
        anew, and FINISH is left out."""
        other = StreamBuilder(self.config)
        other._tensors, other._labels = _numbers(self._tensors), list(self._labels)
        kernels = {**self.record.kernels(), **edit.kernels}
        begins, loads = dict[int, int](), list[InsertedLoad]()
        tensor = other._tensors[UOP_TENSOR]
        for number, uops in kernels.items():
            placement = other.kernels.place(uops)
            begins[number] = placement.begin
            if placement.must_load:
                rows = other._loads_of(uops, placement.begin)
                owner = self.record.owners[number]
                loads += [InsertedLoad(number, row, tensor, owner) for row in rows]
        complete = replace(edit, inserted=[*edit.inserted, *loads], kernels=kernels)
        other.record = self.record.edited(complete, begins)
        return other

    # Finishing

    def finish(self) -> Stream:
        """Return the stream, ended by FINISH. Nothing can be recorded afterwards."""
        return self.numbered()[0]

    def numbered(self) -> tuple[Stream, np.ndarray]:
        """Return the stream, ended by FINISH, and int64[n]: the number with which each of its instructions
        was recorded, negative where it only waits. Nothing can be recorded afterwards."""
        self.record.compute(isa.Finish, ())
        units = self.record.units()
        needs = conflicts(units, self.record.touched(), self.config)
        plan = plan_tokens(units, needs, self.config.token_depth)
        order, flags = plan.numbers, plan.flags.astype(np.uint64)
        words = self._words()[order]
        words[:, 0] |= self._flags(flags)
        if self.config.has(Extension.ACC_HALVES):
            self._run_beside(words, order, flags)
        moved = np.append(self.record.tensors(), [NO_TENSOR] * len(Unit))[order]
        tensors = {name: np.flatnonzero(moved == number) for name, number in self._tensors.items()}
        uops = np.array(self.kernels.words, f"u{self.config.uop_bits // 8}")
        return Stream(self.config, words, tensors, uops, self._labelled(order)), order

    def _run_beside(self, words: np.ndarray, order: np.ndarray, flags: np.ndarray) -> None:
        """Let the LOADs of accumulators run beside instructions that work in the other half."""
        recorded = order >= 0  # the others do nothing but wait
        chosen = order[recorded]
        pushes = flags[recorded] >> np.uint64(isa.FLAGS.index("push_prev")) != 0
        beside = loads_beside(self.record.opcodes()[chosen], self.record.halves(self.config)[chosen], pushes)
        place, start = divmod(encoding.field_of(isa.Load, "beside", self.config).start, encoding.WORD_BITS)
        words[np.flatnonzero(recorded)[beside], place] |= np.uint64(1 << start)

    def _labelled(self, order: np.ndarray) -> dict[str, np.ndarray]:
        """Return the positions in `order` of each label's instructions; a transfer of nothing belongs to what
        stands before it."""
        recorded = np.flatnonzero(order >= 0)
        before = recorded[np.searchsorted(recorded, np.arange(len(order)), "right") - 1]
        owners = np.array(self.record.owners)[order[before]]
        return {name: np.flatnonzero(owners == number) for number, name in enumerate(self._labels)}

    def _words(self) -> np.ndarray:
        """Return uint64[n + units, ...]: what was recorded, and last, from the last unit to the first,
        transfers of nothing."""
        words = self.record.words(self.config)
        waits = ((isa.Store, MemoryType.OUT), (isa.Load, MemoryType.UOP), (isa.Load, MemoryType.INP))
        return np.concatenate(
            [
                words,
                *(encode_rows(form, self.config, ("memory_type",), [(memory,)]) for form, memory in waits),
            ]
        )

    def _flags(self, planned: np.ndarray) -> np.ndarray:
        """Return uint64[n]: the planner's flags where the encoding has them."""
        words = np.zeros_like(planned)
        for number, flag in enumerate(isa.FLAGS):
            start = encoding.field_of(isa.Instruction, flag, self.config).start
            words |= (planned >> np.uint64(number) & np.uint64(1)) << np.uint64(start)
        return words


def _element_bytes(words: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Return int64[n]: bytes of what `dram_base` counts in each instruction, uint64[n, ...], if it is a LOAD,
    GATHER, STORE or NORMALISE."""
    opcode = _values(words, encoding.OPCODE_FIELD)
    memory = _values(words, encoding.field_of(isa.Load, "memory_type", config))
    halvings = np.zeros_like(opcode)
    if config.has(Extension.NARROW_WEIGHTS):
        loads = opcode == isa.Opcode.LOAD
        halvings[loads] = _values(words[loads], encoding.field_of(isa.Load, "halvings", config))
    sizes = element_bytes(memory, lambda name: halvings, config)
    return np.where(opcode == isa.Opcode.GATHER, 1, sizes)


def _values(words: np.ndarray, field: PlacedField) -> np.ndarray:
    """Return int64[n]: an unsigned field of instructions, uint64[n, ...]."""
    word, start = divmod(field.start, encoding.WORD_BITS)
    return (words[:, word] >> np.uint64(start) & np.uint64(field.high)).astype(np.int64)


def _numbers(known: Mapping[str, int]) -> defaultdict[str, int]:
    """Return the numbers of tensors; a tensor gets the next number when it is first used."""
    return defaultdict(count(len(known)).__next__, known)


def _check_elements(tensor: str, positions: np.ndarray, element: np.ndarray, high: int) -> None:
    """Refuse addresses that do not fit their field: they would change the field behind it."""
    wrong = np.flatnonzero(element > high)
    if wrong.size:
        index, value = positions[wrong[0]], element[wrong[0]]
        raise EncodingError(
            f"instruction {index} has dram_base = {value} in the tensor {tensor!r}, "
            f"which is outside 0..{high}; put the tensor lower, or compile it again"
        )
