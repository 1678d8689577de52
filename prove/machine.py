"""The stream machine: interprets a decoded stream over elements in place of bytes.

It knows the instruction set and nothing of networks. Weights, parameters, tables and micro-ops have their
concrete values; activations are elements (`vdla.prove.elements`). The readable semantics of the instructions
on numbers are `vdla.sim.reference`; a stream whose activations are constants gives the same bytes in both.

The verifier of streams (`vdla.sim.verify`) has judged tokens, bounds and initialisation before.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa, numerics
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import MEMORIES
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType, Parameter
from vdla.prove.domain import Domain
from vdla.prove.elements import RESIDUES, Elements, Sums, undefined
from vdla.prove.errors import ProofError
from vdla.prove.loops import Product, Rows, Steps, depthwise_rows, last_of_each, levels, products, steps_of
from vdla.prove.memory import Accumulators, Dram, Lanes, Scratchpads, are_defined
from vdla.prove.stream_products import Operands, matrix_product, row_sums
from vdla.prove.transfers import block_of, first_byte
from vdla.sim.access import uop_column
from vdla.sim.decoded import DecodedStream, slots

Indices = NDArray[np.int64]
KNOWN_LOOPS = 512
FORMS = {form.opcode: form for form in isa.INSTRUCTIONS}
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
            f"configuration {config.name} has accumulators of {config.acc_bits} bits; a proof covers {WORD_BITS}"
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
        self.pads = _scratchpads(config, domain)
        lanes = config.batch * config.block_out
        self.accumulators = Accumulators(domain, config.depth(MemoryType.ACC), lanes)
        self._operands = Operands(
            self.pads.inputs, self.pads.weights, self.pads.activations, self.pads.is_activation
        )

    def run(self, program: DecodedStream, order: Iterable[int]) -> None:
        """Execute instructions of a program, by their positions in a legal order.

        Raises:
            ProofError: an instruction does what a proof does not cover, or what no correct stream does; the
                message names it.
        """
        for index in order:
            try:
                self._execute(_instruction(program, index), index)
            except ProofError as error:
                raise ProofError(f"{program.describe(index)}: {error}") from error

    def _execute(self, instruction: isa.Instruction, index: int) -> None:
        match instruction:
            case isa.Load() | isa.Gather():
                self._load(instruction)
            case isa.Store():
                if instruction.x_size and instruction.y_size:
                    self._store(instruction, index)
            case isa.Gemm():
                self._gemm(instruction)
            case isa.Alu():
                self._alu(instruction)
            case isa.Depthwise():
                self._depthwise(instruction)

    # Transfers

    def _load(self, it: isa.Load | isa.Gather) -> None:
        """Copy a padded 2-D block from DRAM into a scratchpad."""
        memory, registers = MemoryType(it.memory_type), self.pads.pad_registers
        unit = MEMORIES[memory].loaded_by
        assert unit is not None, "the stream is valid"
        if not it.x_size:
            if it.pad_value and isinstance(it, isa.Load):
                registers[unit] = numerics.wrap(it.sram_base, isa.PAD_VALUE_BITS)
            return
        padding = 0
        if it.pad_minimum:
            padding = self.config.least_value(memory)
        elif it.pad_value:
            padding = self.config.pad_value(memory, registers.get(unit, 0))
        block = block_of(it)
        to = slice(it.sram_base, it.sram_base + block.elements)
        if len(block.filled) < block.elements:
            self._fill(memory, to, padding)
        if not len(block.filled):
            return
        places: Indices | slice = to if len(block.filled) == block.elements else it.sram_base + block.filled
        begin, size = first_byte(it, self.config), self.config.element_bytes(memory)
        unit_bytes = 1 if isinstance(it, isa.Gather) else size
        end = begin + int(block.source[-1]) * unit_bytes + size
        if end <= self.dram.low or begin >= self.dram.high:
            first = begin + block.source * unit_bytes
            self._put_bytes(memory, places, self.dram.constants[first[:, None] + np.arange(size)])
        elif self.dram.low <= begin and end <= self.dram.high:
            self._put_elements(memory, places, self._activations(it, begin, block.source, size))
        else:
            raise ProofError(f"it reads bytes {begin:#x}..{end - 1:#x}, of which some are activations")

    def _activations(self, it: isa.Load | isa.Gather, begin: int, source: Indices, size: int) -> Lanes:
        """Return elements of activations as lanes of `size` bytes; those of a GATHER begin at any byte."""
        if isinstance(it, isa.Gather):
            places = begin - self.dram.low + source[:, None] + np.arange(size)
            lanes = Lanes(self.dram.elements[places], self.dram.residues[:, places])
        else:
            view, places = self.dram.view(size), (begin - self.dram.low) // size + source
            lanes = Lanes(view.elements[places], view.residues.take(places, axis=1))
        if not are_defined(lanes.elements):
            raise ProofError("it reads bytes that nothing has written")
        return lanes

    def _fill(self, memory: MemoryType, places: slice, value: int) -> None:
        """Write padding."""
        pads, count = self.pads, places.stop - places.start
        match memory:
            case MemoryType.UOP:
                pads.uops[places] = 0
            case MemoryType.TABLE:
                pads.table.reshape(-1, self.config.entries)[places] = value
            case MemoryType.WGT:
                pads.weights[places], pads.is_activation[places] = value, False
            case MemoryType.ACC | MemoryType.ACC_8BIT:
                self.accumulators.load_words(
                    places, np.full((count, self.config.values(MemoryType.ACC)), value, np.int64)
                )
            case MemoryType.INP | MemoryType.RES:
                values = np.full((count, self.config.values(memory)), value, np.int64)
                self._put_elements(memory, places, Lanes.of_constants(self.domain, values))
            case MemoryType.OUT:
                raise AssertionError("OUT is not loaded")

    def _put_bytes(self, memory: MemoryType, places: Indices | slice, source: NDArray[np.uint8]) -> None:
        """Write constants from DRAM, uint8[n, element bytes], into a scratchpad."""
        pads = self.pads
        match memory:
            case MemoryType.UOP:
                pads.uops[places] = source.view(f"<u{source.shape[1]}")[:, 0].astype(np.int64)
            case MemoryType.TABLE:
                pads.table.reshape(-1, self.config.entries)[places] = source.view(np.int8)
            case MemoryType.WGT:
                pads.weights[places] = source.view(np.int8).reshape(len(source), *pads.weights.shape[1:])
                pads.is_activation[places] = False
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
                pads.residuals[places] = values.elements
            case MemoryType.ACC_8BIT:
                self.accumulators.put(places, self._bytes_as_sums(values))
            case MemoryType.WGT:
                pads.activations.put(places, values)
                pads.weights[places], pads.is_activation[places] = 0, True
            case _:
                raise ProofError(f"it reads activations as {MEMORIES[memory].values}")

    def _bytes_as_sums(self, values: Lanes) -> Sums:
        """Return bytes as sums of one term each."""
        least, greatest = self.domain.functions.bounds(values.elements["function"])
        return Sums(values.residues, values.elements, greatest - least, max(-least, greatest, 0))

    def _store(self, it: isa.Store, index: int) -> None:
        """Copy a block of accumulators, narrowed or requantised, into DRAM."""
        block = block_of(it)
        sums = self.accumulators.sums(slice(it.sram_base, it.sram_base + block.elements))
        out = self._requantised(sums, it) if it.parameters else self._narrowed(sums)
        size = self.config.element_bytes(it.memory_type)
        begin = first_byte(it, self.config)
        end = begin + (int(block.source[-1]) + 1) * size
        if begin < self.dram.low or end > self.dram.high:
            raise ProofError(f"it writes bytes {begin:#x}..{end - 1:#x}, of which some are constants")
        places = (begin - self.dram.low) // size + block.source
        view = self.dram.view(size)
        view.put(places, Lanes(out, self.domain.values(out).residues))
        self.dram.writers[: len(view.elements) * size].reshape(-1, size)[places] = index

    def _requantised(self, sums: Sums, it: isa.Store) -> Elements:
        """Return sums [n, lanes] as a STORE requantises them."""
        parameters = self._parameters(it.parameters_base)
        out = self.domain.requantise(sums, parameters[:, None, :], self.config.acc_bits)
        if it.table:
            first = it.table_base * self.config.entries
            entries = self.pads.table[first : first + numerics.TABLE_ENTRIES].astype(np.int64)
            out = self.domain.apply(out, self.domain.functions.number(np.roll(entries, len(entries) // 2)))
        if it.residual:
            residuals = self.pads.residuals[it.residual - 1 : it.residual - 1 + len(out)]
            if not are_defined(residuals):
                raise ProofError("it adds residuals that nothing has loaded")
            words = self._parameters(0)[:, :1]
            out = self.domain.add_residual(out, residuals, words[:, :, None])
        return out

    def _parameters(self, base: int) -> Indices:
        """Return int64[4, lanes]: the parameters in accumulators from `base` on."""
        words = self.accumulators.constants(slice(base, base + len(Parameter)))
        if words is None:
            raise ProofError(f"its parameters, accumulators {base} to {base + len(Parameter) - 1}, vary")
        return words

    def _narrowed(self, sums: Sums) -> Elements:
        """Return the low bits of sums."""
        return self.domain.mapped("narrowed", lambda values: wrapped(values, BYTE_BITS), sums)

    # Computation

    def _uops(self, loop: isa.Gemm | isa.Alu | isa.Depthwise) -> bytes:
        return self.pads.uops[loop.uop_begin : loop.uop_end].tobytes()

    def _gemm(self, it: isa.Gemm) -> None:
        """Multiply and accumulate, or reset."""
        key = _LoopKey(self.config, self._uops(it), it.iter_out, it.iter_in, *_factors(it))
        if it.reset:
            self._reset(np.unique(_steps(key).dst))
            return
        for product in _products(key, bool(it.overwrite)):
            self._accumulate(
                product.dst.reshape(-1),
                lambda with_source, product=product: matrix_product(  # type: ignore[misc]
                    self.domain, self._operands, product, with_source
                ),
                bool(it.overwrite),
            )

    def _depthwise(self, it: isa.Depthwise) -> None:
        """Slide windows along rows."""
        key = _LoopKey(
            self.config,
            self._uops(it),
            it.iter_out,
            it.iter_in,
            it.dst_factor_out,
            it.dst_factor_in,
            it.src_factor_out,
            it.src_factor_in,
            it.wgt_factor_out,
            it.stride_2,
        )
        for rows in _rows(key, bool(it.overwrite)):
            self._accumulate(
                rows.dst,
                lambda with_source, rows=rows: row_sums(  # type: ignore[misc]
                    self.domain, self._operands, rows, with_source
                ),
                bool(it.overwrite),
            )

    def _accumulate(self, dst: Indices, sums_of: Callable[[bool], Sums], overwrite: bool) -> None:
        """Add sums to accumulators, or replace them."""
        sums = sums_of(overwrite or self.accumulators.may_have_one_root(dst))
        if overwrite:
            self.accumulators.put(dst, sums)
        else:
            self.accumulators.add(dst, sums)

    def _reset(self, places: Indices) -> None:
        """Zero accumulators."""
        self.accumulators.load_words(places, np.zeros((len(places), self.accumulators.lanes), np.int64))

    def _alu(self, it: isa.Alu) -> None:
        """Apply an operation element-wise."""
        steps = _steps(_LoopKey(self.config, self._uops(it), it.iter_out, it.iter_in, *_factors(it)))
        opcode = AluOpcode(it.alu_opcode)
        if it.use_imm:
            operand = self.domain.values(self.domain.constants(np.full((1, 1), it.imm)))
            for group in levels(steps.dst, steps.dst):
                dst = steps.dst[group]
                self.accumulators.put(dst, self._operation(opcode, self.accumulators.sums(dst), operand))
            return
        for group in levels(steps.dst, steps.src):
            left, right = (self.accumulators.sums(places[group]) for places in (steps.dst, steps.src))
            self.accumulators.put(steps.dst[group], self._operation(opcode, left, right))
