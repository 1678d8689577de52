"""What a stream computed a byte of: the operands of the steps to its accumulator, and the parameters.

A first look goes back from a STORE to the instructions and steps that its accumulator depends on, by indices
alone (`Trail`). A second run of the stream machine notes the operands of those steps (`Recorder`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import scratchpads_of
from vdla.hw.spec.numerics import TABLE_ENTRIES
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.prove.domain import Domain
from vdla.prove.indices import LoopFactors, block_of, depthwise_rows, first_byte, halvings_of, steps_of
from vdla.prove.loops import LOOP_FACTORS
from vdla.prove.machine import StreamMachine
from vdla.prove.memory import Dram
from vdla.sim.access import uop_column
from vdla.sim.decoded import DecodedStream

Indices = NDArray[np.int64]
NOTHING = -1
"""In place of an instruction or an address: none."""
ON_CHIP = -2
"""In place of an address: a STORE wrote the element of a scratchpad."""
Loops = isa.Gemm | isa.Alu | isa.Depthwise
LOOPS = (isa.Gemm, isa.Alu, isa.Depthwise)
LOADS = (isa.Load, isa.Gather)


@dataclass(frozen=True)
class Step:
    """What an instruction did to an accumulator.

    Attributes:
        instruction: its position in the stream.
        form: the instruction.
        rank: of the step in the instruction.
        dst: the accumulator.
        src, wgt: elements that it read; `wgt` has no meaning for the ALU. A DEPTHWISE reads a window of
            inputs.
        address: of the bytes that a LOAD put into the accumulator; NOTHING for padding.
        operand: the steps that made the other accumulator that the ALU read.
    """

    instruction: int
    form: isa.Instruction
    rank: int
    dst: int
    src: tuple[int, ...] = ()
    wgt: int = 0
    address: int = NOTHING
    operand: "tuple[Step, ...] | None" = None


class Origins:
    """Which LOAD or STORE filled each element of the scratchpads, and from where.

    Attributes:
        loaders: by memory, int64[depth], positions of instructions.
        addresses: by memory, int64[depth], bytes; NOTHING for padding, ON_CHIP for results of a STORE.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self._config = config
        depths = {memory: config.depth(memory) for memory in scratchpads_of(config)}
        self.loaders = {memory: np.full(depth, NOTHING) for memory, depth in depths.items()}
        self.addresses = {memory: np.full(depth, NOTHING) for memory, depth in depths.items()}

    def load(self, it: isa.Load | isa.Gather, index: int) -> tuple[MemoryType, int, int] | None:
        """Note a LOAD or GATHER; return the memory and the range that it filled, None if there is none."""
        if not it.x_size:
            return None
        memory = MemoryType(it.memory_type)
        chip = MemoryType.ACC if memory is MemoryType.ACC_8BIT else memory
        block = block_of(it)
        size = self._config.element_bytes(memory, halvings_of(it))
        unit = 1 if isinstance(it, isa.Gather) else size
        end = it.sram_base + block.elements
        self.loaders[chip][it.sram_base : end] = index
        self.addresses[chip][it.sram_base : end] = NOTHING
        source = first_byte(it, size) + block.source * unit
        self.addresses[chip][it.sram_base + block.filled] = source
        return chip, it.sram_base, end

    def store(self, it: isa.Store | isa.Normalise, index: int) -> None:
        """Note a STORE or NORMALISE into a scratchpad."""
        if it.memory_type == MemoryType.INP:
            places = it.dram_base + block_of(it).source
            self.loaders[MemoryType.INP][places] = index
            self.addresses[MemoryType.INP][places] = ON_CHIP


@dataclass(frozen=True)
class _Entry:
    """An instruction that writes accumulators: of loops the steps, of LOADs the addresses from `first` on."""

    instruction: int
    form: isa.Instruction
    dst: Indices
    src: Indices
    wgt: Indices


def accumulator_of(program: DecodedStream, store: int, element: int, low: int) -> int:
    """Return the accumulator of which a STORE wrote an element.

    Args:
        store: position of the STORE.
        element: of INP; or of DRAM, counted from address `low` on, where activations begin.
    """
    it = program.instruction(store)
    assert isinstance(it, isa.Store | isa.Normalise)
    first = it.dram_base
    if it.memory_type != MemoryType.INP:
        size = program.config.element_bytes(it.memory_type)
        first = (first_byte(it, size) - low) // size
    return it.sram_base + int(np.flatnonzero(block_of(it).source == element - first)[-1])


class Trail:
    """The instructions of a stream that write accumulators, in the order in which they ran.

    Args:
        program: the stream.
        order: instructions in a legal order.
        constants: DRAM, of which micro-ops are read.
    """

    def __init__(self, program: DecodedStream, order: Sequence[int], constants: NDArray[np.uint8]) -> None:
        self._config, self._entries = program.config, list[_Entry]()
        origins, size = Origins(program.config), program.config.element_bytes(MemoryType.UOP)
        for index in order:
            it = program.instruction(index)
            if isinstance(it, LOADS):
                filled = origins.load(it, index)
                if filled is not None and filled[0] is MemoryType.ACC:
                    dst = np.arange(*filled[1:])
                    self._entries.append(_Entry(index, it, dst, origins.addresses[MemoryType.ACC][dst], dst))
            elif isinstance(it, LOOPS):
                first = origins.addresses[MemoryType.UOP][it.uop_begin : it.uop_end]
                words = constants[np.maximum(first, 0)[:, None] + np.arange(size)]
                uops = np.where(first == NOTHING, 0, words.view(f"<u{size}")[:, 0].astype(np.int64))
                self._entries.append(_Entry(index, it, *_steps(it, uops, program.config)))

    def steps(self, store: int, accumulator: int) -> tuple[Step, ...]:
        """Return the steps that made what a STORE read of an accumulator."""
        end = next(
            (number for number, entry in enumerate(self._entries) if entry.instruction > store),
            len(self._entries),
        )
        return tuple(self._before(accumulator, end, NOTHING))

    def _before(self, accumulator: int, end: int, rank: int) -> list[Step]:
        """Return the steps to an accumulator before entry `end`, or in it before step `rank`, in order."""
        steps: list[Step] = []
        for number in range(end if rank > 0 else end - 1, -1, -1):
            entry = self._entries[number]
            ranks = np.flatnonzero(entry.dst == accumulator)
            ranks = ranks[ranks < rank] if number == end else ranks
            for step in self._of_entry(number, entry, ranks):
                steps.append(step)
                if is_fresh(step.form):
                    return steps[::-1]
        return steps[::-1]

    def _of_entry(self, number: int, entry: _Entry, ranks: Indices) -> Iterator[Step]:
        """Yield the steps of an entry, the last first."""
        for rank in reversed(ranks.tolist()):
            it, at = entry.form, (entry.instruction, entry.form, rank, int(entry.dst[rank]))
            src, wgt = tuple(np.atleast_1d(entry.src[rank]).tolist()), int(entry.wgt[rank])
            if isinstance(it, LOADS):
                yield Step(*at, address=src[0])
            elif isinstance(it, isa.Alu) and not it.use_imm:
                yield Step(*at, src, operand=tuple(self._before(src[0], number, rank)))
            else:
                yield Step(*at, src, wgt)


def _steps(it: Loops, uops: Indices, config: AcceleratorConfig) -> tuple[Indices, Indices, Indices]:
    dst, src, wgt = (uop_column(uops, name, config) for name in ("dst", "src", "wgt"))
    factors = {name: getattr(it, name, 0) for name in LOOP_FACTORS}
    loop = LoopFactors(iter_out=it.iter_out, iter_in=it.iter_in, **factors)
    if isinstance(it, isa.Depthwise):
        rows = depthwise_rows(loop, (dst, src, wgt), config.window)
        return rows.dst, rows.src, rows.wgt
    steps = steps_of(loop, (dst, src, wgt))
    return steps.dst, steps.src, steps.wgt


def is_fresh(it: isa.Instruction) -> bool:
    """Whether an instruction replaces what an accumulator holds."""
    if isinstance(it, isa.Gemm):
        return bool(it.reset or it.overwrite)
    return isinstance(it, LOADS) or (isinstance(it, isa.Depthwise) and bool(it.overwrite))


@dataclass(frozen=True)
class Operand:
    """An element of a scratchpad when a step read it.

    Attributes:
        memory, place: the element.
        values: elements, or numbers.
        loader: the instruction that filled it; NOTHING if there is none.
        address: of its first byte in DRAM; NOTHING for padding, ON_CHIP for results of a STORE.
    """

    memory: MemoryType
    place: int
    values: Any
    loader: int
    address: int


@dataclass
class Record:
    """What `Recorder` noted.

    Attributes:
        inputs, weights: operands of products, by instruction and place. Weights are numbers
            int64[block_out, block_in], or elements of that shape.
        loaded: what a LOAD put into an accumulator, elements[lanes], by instruction and accumulator.
        padding: what a LOAD pads accumulators with, by instruction.
        parameters: int64[4, lanes] of the STORE, with the instruction that loaded them and the address.
        table: entries of the STORE's table, and the same.
        residual: elements that the STORE added.
        residual_parameters: int64[4, lanes], by which it added them.
    """

    inputs: dict[tuple[int, int], Operand] = field(default_factory=dict)
    weights: dict[tuple[int, int], Operand] = field(default_factory=dict)
    loaded: dict[tuple[int, int], Operand] = field(default_factory=dict)
    padding: dict[int, int] = field(default_factory=dict)
    parameters: Operand | None = None
    table: Operand | None = None
    residual: Operand | None = None
    residual_parameters: Operand | None = None


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield steps, and the steps of their operands."""
    for step in steps:
        yield step
        yield from flat(step.operand or ())


class Recorder(StreamMachine):
    """A stream machine that notes the operands of some steps.

    Args:
        config, domain, dram: as of `StreamMachine`.
        steps: the steps.
        store: position of the STORE that ends them.
        element: accumulator that the STORE read.
    """

    def __init__(
        self,
        config: AcceleratorConfig,
        domain: Domain,
        dram: Dram,
        *,
        steps: Sequence[Step],
        store: int,
        element: int,
    ) -> None:
        super().__init__(config, domain, dram)
        self.record, self.steps, self._origins = Record(), steps, Origins(config)
        self._store_at, self._element = store, element
        self._wanted: dict[int, list[Step]] = {}
        for step in flat(steps):
            self._wanted.setdefault(step.instruction, []).append(step)

    def _execute(self, instruction: isa.Instruction, index: int) -> None:
        for step in self._wanted.get(index, ()):
            self._note(step)
        if index == self._store_at and isinstance(instruction, isa.Store):
            self._note_store(instruction)
        super()._execute(instruction, index)
        for step in self._wanted.get(index, ()):
            self._note_loaded(step)
        if isinstance(instruction, LOADS):
            self._origins.load(instruction, index)
        elif isinstance(instruction, isa.Store) or (
            isinstance(instruction, isa.Normalise) and instruction.normal
        ):
            self._origins.store(instruction, index)

    def _note(self, step: Step) -> None:
        """Note the operands of a step before it runs."""
        if isinstance(step.form, isa.Gemm | isa.Depthwise):
            if getattr(step.form, "reset", 0):
                return
            for place in step.src:
                values = self.pads.inputs.chosen(np.array([place])).elements[0]
                self.record.inputs[step.instruction, place] = self._operand(MemoryType.INP, place, values)
            weights = self.pads.weights
            rows = weights.numbers[step.wgt].astype(np.int64)
            if weights.is_activation[step.wgt]:
                rows = weights.activations.elements[step.wgt].reshape(rows.shape).copy()
            self.record.weights[step.instruction, step.wgt] = self._operand(MemoryType.WGT, step.wgt, rows)
        elif isinstance(step.form, LOADS) and step.address == NOTHING:
            self.record.padding[step.instruction] = self._padding(step.form)

    def _note_loaded(self, step: Step) -> None:
        """Note what a LOAD has put into an accumulator."""
        if isinstance(step.form, LOADS) and step.address != NOTHING:
            sums = self.accumulators.sums(slice(step.dst, step.dst + 1))
            assert sums.source is not None, "a LOAD puts bytes or numbers into accumulators"
            self.record.loaded[step.instruction, step.dst] = Operand(
                MemoryType.ACC, step.dst, sums.source[0].copy(), step.instruction, step.address
            )

    def _note_store(self, it: isa.Store) -> None:
        if it.parameters:
            words = self.accumulators.constants(slice(it.parameters_base, it.parameters_base + 4))
            self.record.parameters = self._operand(MemoryType.ACC, it.parameters_base, words)
        if it.parameters and it.table:
            first = it.table_base * self.config.entries
            entries = self.pads.table[first : first + TABLE_ENTRIES].astype(np.int64)
            self.record.table = self._operand(MemoryType.TABLE, it.table_base, entries)
        if it.parameters and it.residual:
            place = it.residual - 1 + self._element - it.sram_base
            values = self.pads.residuals.chosen(np.array([place])).elements[0]
            self.record.residual = self._operand(MemoryType.RES, place, values)
            words = self.accumulators.constants(slice(0, len(Parameter)))
            self.record.residual_parameters = self._operand(MemoryType.ACC, 0, words)

    def _operand(self, memory: MemoryType, place: int, values: Any) -> Operand:
        loader, address = self._origins.loaders[memory][place], self._origins.addresses[memory][place]
        return Operand(memory, place, values, int(loader), int(address))
