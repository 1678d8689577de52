"""The stream machine: interprets a decoded stream over elements in place of bytes.

It knows the instruction set and nothing of networks. Weights, parameters, tables and micro-ops have their
concrete values; activations are elements (`vdla.prove.elements`). The readable semantics of the instructions
on numbers are `vdla.sim.reference`; a stream whose activations are constants gives the same bytes in both.

The verifier of streams (`vdla.sim.verify`) has judged tokens, bounds and initialisation before.
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa, normalisation, numerics
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import MEMORIES
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType, NormalParameter, Parameter, Statistic
from vdla.prove.accumulators import Accumulators
from vdla.prove.alu import Operation, sums_of_bytes
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements, Sums
from vdla.prove.errors import ProofError, StoreError
from vdla.prove.indices import Block, block_of, first_byte, halvings_of
from vdla.prove.loops import (
    LoopKey,
    instructions_of,
    loop_gathered,
    loop_levels,
    loop_products,
    loop_rows,
    loop_steps,
)
from vdla.prove.memory import COPIED, Dram, Lanes, constant_bytes, empty_scratchpads, signed_values
from vdla.prove.rows import Rows
from vdla.prove.stores import Form, Stores, Taken
from vdla.prove.stream_products import Operands, matrix_product, row_sums
from vdla.sim.decoded import DecodedStream

Indices = NDArray[np.int64]
BYTE_BITS = 8
WORD_BITS = 32


def require_covered(config: AcceleratorConfig) -> None:
    """Refuse a configuration whose values a proof does not cover.

    Raises:
        ProofError: activations or weights are not of 8 bits, or accumulators not of 32.
    """
    bits = {memory: config.value_bits(memory) for memory in (MemoryType.INP, MemoryType.WGT, MemoryType.OUT)}
    for memory, width in bits.items():
        if width != BYTE_BITS:
            raise ProofError(
                f"configuration {config.name} has values of {width} bits in {memory.name}; a proof covers "
                f"{BYTE_BITS} bits"
            )
    if config.acc_bits != WORD_BITS:
        raise ProofError(
            f"configuration {config.name} has accumulators of {config.acc_bits} bits; a proof "
            f"covers {WORD_BITS}"
        )


class StreamMachine:
    """An accelerator over elements.

    Args:
        config: the accelerator.
        domain: of the proof.
        dram: constants and activations.
    """

    def __init__(self, config: AcceleratorConfig, domain: Domain, dram: Dram) -> None:
        require_covered(config)
        self.config, self.domain, self.dram = config, domain, dram
        self.pads = empty_scratchpads(config, domain, dram)
        lanes = config.batch * config.block_out
        self._steps: list[tuple[int, Indices, bool]] = []
        self._running = 0
        self._element_bytes = {memory: config.element_bytes(memory) for memory in MemoryType}
        self._stores = Stores(domain, dram)
        self.accumulators = Accumulators(domain, config.depth(MemoryType.ACC), lanes)
        self.rows = Rows(domain)
        self._operands = Operands(self.pads.inputs, self.pads.weights)

    def run(self, program: DecodedStream, order: Iterable[int]) -> None:
        """Execute instructions of a program, by their positions in a legal order.

        Raises:
            ProofError: an instruction does what a proof does not cover, or what no correct stream does; the
                message names it.
        """
        self._steps.clear()
        try:
            with self._stores.in_thread():
                for self._running, instruction in instructions_of(program, list(order)):
                    self._execute(instruction, self._running)
                self._stores.compute()
        except ProofError as error:
            raise _named(program, self._running, error) from error

    def contributors(self, store: int, program: DecodedStream, place: int) -> list[int]:
        """Return the instructions of the last run that computed an element which a STORE wrote, in order.

        Args:
            store: position of the STORE.
            program: the stream.
            place: the element, counted in DRAM from the first activation on.
        """
        ((_, it),) = instructions_of(program, [store])
        assert isinstance(it, isa.Store | isa.Normalise)
        size = self._element_bytes[it.memory_type]
        first = (first_byte(it, size) - self.dram.low) // size
        element = it.sram_base + int(np.flatnonzero(block_of(it).source == place - first)[-1])
        positions: list[int] = []
        for index, dst, fresh in reversed(self._steps):
            if index < store and element in dst:
                positions.append(index)
                if fresh:
                    break
        return positions[::-1]

    def _execute(self, instruction: isa.Instruction, index: int) -> None:
        match instruction:
            case isa.Load() | isa.Gather():
                self._load(instruction)
            case isa.Store() | isa.Normalise() if not (instruction.x_size and instruction.y_size):
                pass  # it pops and pushes tokens
            case isa.Store():
                self._store(instruction, index)
            case isa.Normalise():
                self._normalise(instruction, index)
            case isa.Gemm():
                self._gemm(instruction)
            case isa.Alu():
                self._alu(instruction)
            case isa.Depthwise():
                self._depthwise(instruction)

    # Transfers

    def _load(self, it: isa.Load | isa.Gather) -> None:
        """Copy a padded 2-D block from DRAM into a scratchpad."""
        memory = MemoryType(it.memory_type)
        if not it.x_size:
            if it.pad_value and isinstance(it, isa.Load):
                self.pads.pad_registers[_loader(memory)] = numerics.wrap(it.sram_base, isa.PAD_VALUE_BITS)
            return
        block = block_of(it)
        to = slice(it.sram_base, it.sram_base + block.elements)
        if not block.is_whole:
            self._fill(memory, to, self._padding(it))
        if block.last < 0:
            return
        self._copy(it, memory, block, to if block.is_whole else it.sram_base + block.filled)

    def _padding(self, it: isa.Load | isa.Gather) -> int:
        """Return the value of the padding of a block."""
        memory = MemoryType(it.memory_type)
        if it.pad_minimum:
            return self.config.least_value(memory, halvings_of(it))
        if it.pad_value:
            register = self.pads.pad_registers.get(_loader(memory), 0)
            return self.config.pad_value(memory, register, halvings_of(it))
        return 0

    def _copy(
        self, it: isa.Load | isa.Gather, memory: MemoryType, block: Block, places: Indices | slice
    ) -> None:
        """Copy a block without its padding; the block of a GATHER begins at any byte."""
        size, low, high = self.config.element_bytes(memory, halvings_of(it)), self.dram.low, self.dram.high
        bits = self.config.value_bits(memory, halvings_of(it))
        unit, begin = 1 if isinstance(it, isa.Gather) else size, first_byte(it, size)
        end = begin + block.last * unit + size
        if end <= low or begin >= high:
            self._put_bytes(memory, places, self.dram.constant(size, begin + block.source * unit), bits)
            return
        if begin < low or end > high:
            raise ProofError(f"it reads bytes {begin:#x}..{end - 1:#x}, of which some are activations")
        self._stores.compute_before(begin - low, end - low)
        if isinstance(it, isa.Gather):
            lanes = self.dram.read(begin + block.source[:, None] + np.arange(size))
            self._put_activations(memory, places, lanes, BYTE_BITS)
            return
        rows = (begin - low) // size + block.source
        if memory in COPIED:
            (self.pads.inputs if memory is MemoryType.INP else self.pads.residuals).refer(places, rows)
        else:
            self._put_activations(memory, places, self.dram.view(size).chosen(rows), bits)

    def _put_activations(
        self, memory: MemoryType, places: Indices | slice, lanes: Lanes, value_bits: int
    ) -> None:
        """Write lanes of activations from DRAM into a scratchpad; some memories, and weights of fewer bits
        than a byte, take constants alone."""
        constants = None if memory in LANES else constant_bytes(self.domain, lanes.elements)
        if constants is not None:
            self._put_bytes(memory, places, constants, value_bits)
        elif memory is MemoryType.WGT and value_bits < BYTE_BITS:
            raise ProofError(f"it reads activations as weights of {value_bits} bits")
        else:
            self._put_elements(memory, places, lanes)

    def _fill(self, memory: MemoryType, places: slice, value: int) -> None:
        """Write padding."""
        pads, count = self.pads, places.stop - places.start
        match memory:
            case MemoryType.UOP:
                pads.uops[places] = 0
            case MemoryType.TABLE:
                pads.table.reshape(-1, self.config.entries)[places] = value
            case MemoryType.WGT:
                pads.weights.put_numbers(places, value)
            case MemoryType.ACC | MemoryType.ACC_8BIT:
                self.accumulators.load_words(
                    places, np.full((count, self.config.values(MemoryType.ACC)), value, np.int64)
                )
            case MemoryType.INP:
                pads.inputs.fill(places, value)
            case MemoryType.RES:
                self._stores.compute()  # which read rows of residuals
                pads.residuals.fill(places, value)
            case MemoryType.OUT:
                raise AssertionError("OUT is not loaded")

    def _put_bytes(
        self,
        memory: MemoryType,
        places: Indices | slice,
        source: NDArray[np.uint8],
        value_bits: int,
    ) -> None:
        """Write constants from DRAM, uint8[n, element bytes], into a scratchpad; weights of `value_bits`."""
        pads = self.pads
        match memory:
            case MemoryType.UOP:
                pads.uops[places] = source.view(f"<u{source.shape[1]}")[:, 0].astype(np.int64)
            case MemoryType.TABLE:
                pads.table.reshape(-1, self.config.entries)[places] = source.view(np.int8)
            case MemoryType.WGT:
                pads.weights.put_numbers(places, signed_values(source, value_bits))
            case MemoryType.ACC:
                self.accumulators.load_words(places, source.view("<i4").astype(np.int64))
            case MemoryType.ACC_8BIT:
                self.accumulators.load_words(places, source.view(np.int8).astype(np.int64))
            case _:
                self._put_elements(memory, places, Lanes.of_constants(self.domain, source.view(np.int8)))

    def _put_elements(self, memory: MemoryType, places: Indices | slice, values: Lanes) -> None:
        """Write lanes of activations into a scratchpad."""
        pads = self.pads
        match memory:
            case MemoryType.INP:
                pads.inputs.put(places, values)
            case MemoryType.RES:
                self._stores.compute()  # which read rows of residuals
                pads.residuals.put(places, values)
            case MemoryType.ACC_8BIT:
                self.accumulators.put(places, sums_of_bytes(values))
            case MemoryType.WGT:
                pads.weights.put_activations(places, values)
            case _:
                raise ProofError(f"it reads activations as {MEMORIES[memory].values}")

    def _store(self, it: isa.Store, index: int) -> None:
        """Copy a block of accumulators, narrowed or requantised, into DRAM or INP."""
        form = self._form(it)
        self._put_results(it, form, lambda places: self._taken(it, form, index, places))

    def _put_results(
        self, it: isa.Store | isa.Normalise, form: Form, taken_to: Callable[[Indices], Taken]
    ) -> None:
        """Write a block of results into DRAM or INP.

        Args:
            taken_to: returns what is written to elements, int64[n].
        """
        block = block_of(it)
        if it.memory_type == MemoryType.INP:
            taken = taken_to(it.dram_base + block.source)
            self.pads.inputs.put(taken.places, self._stores.results(form, [taken]))
            return
        size = form.element_bytes
        begin = first_byte(it, size)
        end = begin + (block.last + 1) * size
        if begin < self.dram.low or end > self.dram.high:
            raise ProofError(f"it writes bytes {begin:#x}..{end - 1:#x}, of which some are constants")
        self._stores.expect(form)
        self._stores.add(taken_to((begin - self.dram.low) // size + block.source))

    def _normalise(self, it: isa.Normalise, index: int) -> None:
        """Gather statistics of a block of accumulators, or write it normalised."""
        values, table, statistic = self._bytes_of(it, index), self._powers(it), Statistic(it.statistic)
        if not it.normal:
            self.rows.gather(statistic, values[:, ~self._left_out(it)], table, bool(it.anew))
            return
        words = self._constants(it.normal_base, len(NormalParameter), "parameters of normalisation")
        normal = normalisation.normal_operands(tuple(words), lambda word: int(word[0]))
        results = self.domain.values(self.rows.outputs(statistic, values, table, normal))
        form = Form(self._element_bytes[it.memory_type], False, None, None)
        self._put_results(it, form, lambda places: Taken(index, results, None, None, places))

    def _bytes_of(self, it: isa.Normalise, index: int) -> Elements:
        """Return the values of a NORMALISE, elements[n, lanes]."""
        chosen = np.arange(it.y_size * it.x_size)
        requantised, size = it.parameters > 0, self._element_bytes[MemoryType.OUT]
        greatest = requantised and self.accumulators.have_greatest(
            slice(it.sram_base, it.sram_base + len(chosen))
        )
        form = Form(size, requantised, None, None, greatest)
        return self._stores.results(form, [self._taken(it, form, index, chosen)]).elements

    def _left_out(self, it: isa.Normalise) -> NDArray[np.bool_]:
        """Return which lanes are left out of statistics, bool[lanes]."""
        if not it.parameters:
            return np.zeros(self.accumulators.lanes, np.bool_)
        clip = self._parameters(it.parameters_base)[Parameter.CLIP]
        left_out: NDArray[np.bool_] = (clip >> normalisation.LEFT_OUT_BIT & 1).astype(np.bool_)
        return left_out

    def _powers(self, it: isa.Normalise) -> bytes | None:
        """Return the table of powers of a NORMALISE as bytes."""
        if not it.table:
            return None
        first = it.table_base * self.config.entries
        return self.pads.table[first : first + isa.POWER_TABLE_ELEMENTS * self.config.entries].tobytes()

    def _form(self, it: isa.Store) -> Form:
        """Return how the results of a STORE are computed."""
        table = words = None
        if it.parameters:
            table = self._table(it) if it.table else None
            words = self._parameters(0)[:, 0].tobytes() if it.residual else None
        chosen = slice(it.sram_base, it.sram_base + block_of(it).elements)
        is_greatest = it.parameters > 0 and self.accumulators.have_greatest(chosen)
        return Form(self._element_bytes[it.memory_type], it.parameters > 0, table, words, is_greatest)

    def _taken(self, it: isa.Store | isa.Normalise, form: Form, index: int, places: Indices) -> Taken:
        """Return what a STORE writes to the elements `places`."""
        chosen = slice(it.sram_base, it.sram_base + len(places))
        taken = self.accumulators.as_roots(chosen) if form.is_greatest else self.accumulators.taken(chosen)
        columns = residuals = None
        if form.is_requantised:
            columns = self.domain.columns(self._parameters(it.parameters_base), self.config.acc_bits)
        if form.residual is not None and isinstance(it, isa.Store):
            held = slice(it.residual - 1, it.residual - 1 + len(places))
            residuals = self._stores.residuals(self.pads.residuals, held)
        return Taken(index, taken, columns, residuals, places)

    def _table(self, it: isa.Store) -> int:
        """Return the number of the function that a STORE looks up."""
        first = it.table_base * self.config.entries
        entries = self.pads.table[first : first + numerics.TABLE_ENTRIES].astype(np.int64)
        return self.domain.functions.number(np.roll(entries, len(entries) // 2))

    def _parameters(self, base: int) -> Indices:
        """Return int64[4, lanes]: the parameters in accumulators from `base` on."""
        return self._constants(base, len(Parameter), "parameters")

    def _constants(self, base: int, count: int, what: str) -> Indices:
        """Return int64[count, lanes]: constants in accumulators from `base` on."""
        words = self.accumulators.constants(slice(base, base + count))
        if words is None:
            raise ProofError(f"its {what}, accumulators {base} to {base + count - 1}, vary")
        return words

    # Computation

    def _key(self, it: isa.Gemm | isa.Alu | isa.Depthwise) -> LoopKey:
        """Return what the steps of an instruction follow from."""
        return LoopKey.of(self.config, it, self.pads.uops)

    def _gemm(self, it: isa.Gemm) -> None:
        """Multiply and accumulate, or reset."""
        key = self._key(it)
        if it.reset:
            places = np.unique(loop_steps(key).dst)
            self._steps.append((self._running, places, True))
            self.accumulators.load_words(places, np.zeros((len(places), self.accumulators.lanes), np.int64))
            return
        for product in loop_products(key, bool(it.overwrite)):
            sums_of = partial(matrix_product, self.domain, self._operands, product)
            self._accumulate(product.dst.reshape(-1), sums_of, bool(it.overwrite))

    def _depthwise(self, it: isa.Depthwise) -> None:
        """Slide windows along rows."""
        for rows in loop_rows(self._key(it), bool(it.overwrite)):
            sums_of = partial(row_sums, self.domain, self._operands, rows)
            self._accumulate(rows.dst, sums_of, bool(it.overwrite))

    def _accumulate(self, dst: Indices, sums_of: Callable[[bool], Sums], overwrite: bool) -> None:
        """Add sums to accumulators, or replace them.

        Args:
            sums_of: returns the sums; its argument says whether to find the sums of a single root.
        """
        self._steps.append((self._running, dst, overwrite))
        sums = sums_of(overwrite or self.accumulators.may_have_one_root(dst))
        if overwrite:
            self.accumulators.put(dst, sums)
        else:
            self.accumulators.add(dst, sums)

    def _alu(self, it: isa.Alu) -> None:
        """Apply an operation element-wise."""
        opcode = AluOpcode(it.alu_opcode)
        operation = Operation(self.domain, opcode, self.config.acc_bits)
        extremes = None if it.use_imm or not operation.is_extreme else loop_gathered(self._key(it))
        if extremes is not None:
            for each in extremes:
                self._steps.append((self._running, each.dst, False))
                if opcode is AluOpcode.MAX and any(
                    self.accumulators.are_sums(places) for places in (each.dst, *each.src)
                ):
                    self.accumulators.put_greatest(each.dst, each.src)
                    continue
                members = [self.accumulators.of_one_root(places, opcode.name) for places in each.src]
                self.accumulators.extreme(each.dst, operation.extreme, np.stack(members))
            return
        steps, sums = loop_steps(self._key(it)), self.accumulators.sums
        for group in loop_levels(self._key(it), bool(it.use_imm)):
            dst, src = steps.dst[group], steps.src[group]
            self._steps.append((self._running, dst, False))
            left = sums(dst)
            result = operation.with_immediate(left, it.imm) if it.use_imm else operation.of(left, sums(src))
            self.accumulators.put(dst, result)


LANES = (*COPIED, MemoryType.ACC_8BIT)
"""Memories into which activations are loaded as such."""


def _loader(memory: MemoryType) -> Unit:
    """Return the unit that loads a memory."""
    unit = MEMORIES[memory].loaded_by
    assert unit is not None, "the stream is valid"
    return unit


def _named(program: DecodedStream, index: int, error: ProofError) -> ProofError:
    """Return an error of the instruction at `index`, or of an earlier STORE, with the instruction's name."""
    return ProofError(f"{program.describe(error.index if isinstance(error, StoreError) else index)}: {error}")
