"""The semantics of every instruction in readable NumPy; tests compare the native code with it."""

from collections.abc import Iterator
from itertools import product, repeat

import numpy as np

from vdla.hw.spec import isa, normalisation, numerics
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import MEMORIES, scratchpad_of
from vdla.hw.spec.touched import accesses, elements, fields_of
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType, NormalParameter, Parameter
from vdla.hw.spec.window import Term, Window, row_distance
from vdla.sim.access import uop_column
from vdla.sim.scratchpads import Scratchpads, pack, unpack


def execute(instruction: isa.Instruction, pads: Scratchpads, dram: np.ndarray) -> None:
    """Execute an instruction whose accesses have been checked. Native operands are not refreshed.

    Args:
        dram: uint8[bytes].
    """
    match instruction:
        case isa.Load() | isa.Gather():
            load(instruction, pads, dram)
        case isa.Store():
            store(instruction, pads, dram)
        case isa.Normalise():
            normalise(instruction, pads, dram)
        case isa.Gemm():
            gemm(instruction, pads)
        case isa.Alu():
            alu(instruction, pads)
        case isa.Depthwise():
            depthwise(instruction, pads)


def load(instruction: isa.Load | isa.Gather, pads: Scratchpads, dram: np.ndarray) -> None:
    """Copy a padded 2-D block from DRAM into a scratchpad."""
    it, config = instruction, pads.config
    unit = MEMORIES[it.memory_type].loaded_by
    if not it.x_size:
        if it.pad_value and isinstance(it, isa.Load):
            pads.pad_registers[unit] = numerics.wrap(it.sram_base, isa.PAD_VALUE_BITS)
        return
    target, padding, halvings = _target(it.memory_type, pads), 0, fields_of(it)("halvings")
    if it.pad_minimum:
        padding = config.least_value(it.memory_type, halvings)
    elif it.pad_value:
        padding = config.pad_value(it.memory_type, int(pads.pad_registers[unit]), halvings)
    left, right = (it.x_pad_0, it.x_pad_1) if isinstance(it, isa.Load) else (0, 0)
    shape = (it.y_pad_0 + it.y_size + it.y_pad_1, left + it.x_size + right, *target.shape[1:])
    block = np.full(shape, padding, target.dtype)
    for y in range(it.y_size):
        source = (
            _gathered(dram, it, y, config) if isinstance(it, isa.Gather) else _dram_row(dram, it, y, config)
        )
        row = _values(source, it.memory_type, halvings, config).reshape(it.x_size, *target.shape[1:])
        block[it.y_pad_0 + y, left : left + it.x_size] = row
    elements = block.shape[0] * block.shape[1]
    target[it.sram_base : it.sram_base + elements] = block.reshape(elements, *target.shape[1:])


def store(instruction: isa.Store, pads: Scratchpads, dram: np.ndarray) -> None:
    """Copy a block of accumulators, cut to their low output bits or requantised, row by row."""
    it = instruction
    for y in range(it.y_size if it.x_size else 0):
        first = it.sram_base + y * it.x_size
        values = pads.acc[first : first + it.x_size]
        if it.parameters:
            values = _requantised(values, _parameters(it.parameters_base, pads), pads.config)
            values = _looked_up(values, it, pads) if it.table else values
            values = _with_residual(values, y * it.x_size, it, pads) if it.residual else values
        _write_row(values, it, y, pads, dram)


def _write_row(
    values: np.ndarray, it: isa.Store | isa.Normalise, y: int, pads: Scratchpads, dram: np.ndarray
) -> None:
    """Write row y of a STORE's or NORMALISE's outputs to DRAM or INP."""
    outputs = pack(values, pads.config.out_bits)
    if it.memory_type == MemoryType.INP:
        place = it.dram_base + y * it.x_stride
        inputs = unpack(outputs, pads.config.inp_bits).reshape(it.x_size, *pads.inp.shape[1:])
        pads.inp[place : place + it.x_size] = inputs
    else:
        _dram_row(dram, it, y, pads.config)[:] = outputs


def normalise(instruction: isa.Normalise, pads: Scratchpads, dram: np.ndarray) -> None:
    """Gather statistics of rows, or write outputs normalised by them, element by element."""
    it, table = instruction, _powers(instruction, pads)
    left_out = np.zeros(pads.acc.shape[1:], bool)
    if it.parameters:
        clip = _parameters(it.parameters_base, pads)[Parameter.CLIP]
        left_out = (clip >> normalisation.LEFT_OUT_BIT & 1).astype(bool)
    for y in range(it.y_size if it.x_size else 0):
        first = it.sram_base + y * it.x_size
        values = pads.acc[first : first + it.x_size]
        if it.parameters:
            values = _requantised(values, _parameters(it.parameters_base, pads), pads.config)
        else:
            values = values.astype(np.int8)
        if it.normal:
            _write_row(_normalised(values, y * it.x_size, table, it, pads), it, y, pads, dram)
        else:
            for number, element in enumerate(values, y * it.x_size):
                _gather(element[~left_out].tolist(), number % isa.NORMAL_ROWS, table, it, pads)


def _gather(
    values: list[int], number: int, table: list[int] | None, it: isa.Normalise, pads: Scratchpads
) -> None:
    """Add the values of an element to the statistic of the row with this number."""
    row = statistics_of(pads, number)
    row = normalisation.begun_anew(it.statistic, row) if it.anew else row
    row = normalisation.gathered(it.statistic, row, values, table)
    pads.greatest[number], pads.powers[number], pads.totals[number], pads.squares[number] = row


def statistics_of(pads: Scratchpads, number: int) -> normalisation.RowStatistics:
    """Return the statistics of the row with this number."""
    held = (pads.greatest, pads.powers, pads.totals, pads.squares)
    return normalisation.RowStatistics(*(int(array[number]) for array in held))


def _powers(it: isa.Normalise, pads: Scratchpads) -> list[int] | None:
    """Return the table of powers of a NORMALISE, where it names one."""
    if not it.table:
        return None
    entries = pads.table[it.table_base : it.table_base + isa.POWER_TABLE_ELEMENTS]
    powers: list[int] = np.frombuffer(entries.tobytes(), "<u2").tolist()
    return powers


def _normalised(
    values: np.ndarray, first: int, table: list[int] | None, it: isa.Normalise, pads: Scratchpads
) -> np.ndarray:
    """Return the outputs for values of a NORMALISE's elements from number `first` on."""
    parameters = pads.acc[it.normal_base : it.normal_base + len(NormalParameter)]
    words = parameters.reshape(len(parameters), -1).T.tolist()
    columns = [normalisation.normal_operands(word) for word in words]
    shared = columns[0]
    outputs = np.zeros_like(values)
    for place in np.ndindex(values.shape):
        normal = shared._replace(addend=columns[place[-1]].addend, factor=columns[place[-1]].factor)
        row = statistics_of(pads, (first + place[0]) % isa.NORMAL_ROWS)
        outputs[place] = normalisation.normalised(it.statistic, row, int(values[place]), table, normal)
    return outputs


def _requantised(values: np.ndarray, parameters: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Requantise accumulators [n, batch, block_out] by parameters [4, batch, block_out]."""
    places = np.ndindex(values.shape)
    flat = [
        numerics.requantise(
            int(values[place]), parameters[(slice(None), *place[1:])].tolist(), config.acc_bits
        )
        for place in places
    ]
    return np.array(flat, values.dtype).reshape(values.shape)


def _parameters(base: int, pads: Scratchpads) -> np.ndarray:
    return pads.acc[base : base + len(Parameter)]


def _looked_up(values: np.ndarray, it: isa.Store, pads: Scratchpads) -> np.ndarray:
    """Return the entries of requantised values in the table of a STORE."""
    table = pads.table[it.table_base : it.table_base + isa.TABLE_ELEMENTS].reshape(-1).tolist()
    return np.array([numerics.look_up(value, table) for value in values.flat]).reshape(values.shape)


def _with_residual(values: np.ndarray, first: int, it: isa.Store, pads: Scratchpads) -> np.ndarray:
    """Return requantised values with the residuals of a STORE's elements from number `first` on."""
    parameters = _parameters(0, pads)[:, 0, 0].tolist()
    base = it.residual - 1 + first
    residuals = pads.res[base : base + len(values)]
    pairs = zip(values.flat, residuals.flat, strict=True)
    flat = [numerics.add_residual(int(value), int(residual), parameters) for value, residual in pairs]
    return np.array(flat).reshape(values.shape)


def gemm(instruction: isa.Gemm, pads: Scratchpads) -> None:
    """Multiply and accumulate, or reset, step by step."""
    for d, s, w in _steps(instruction, pads):
        if instruction.reset:
            pads.acc[d] = 0
        else:
            sums = pads.inp[s].astype(np.int64) @ pads.wgt[w].astype(np.int64).T
            before = 0 if instruction.overwrite else pads.acc[d]
            pads.acc[d] = (before + sums).astype(pads.acc.dtype)


def depthwise(instruction: isa.Depthwise, pads: Scratchpads) -> None:
    """Slide windows along rows, sum by sum."""
    it, uops = instruction, pads.uop[instruction.uop_begin : instruction.uop_end]
    window, distance = pads.config.window, row_distance(it.row_step)
    terms = tuple(window.terms(it.more_rows, it.wide))
    bases = zip(
        *(uop_column(uops, name, pads.config).tolist() for name in ("dst", "src", "wgt")), strict=True
    )
    rows = list(bases) if it.iter_in else []
    for i, (dst, src, wgt) in product(range(it.iter_out), rows):
        weights = pads.wgt[wgt + i * it.wgt_factor_out].astype(np.int64)
        for j in range(it.iter_in):
            first = src + i * it.src_factor_out + j * (1 + it.stride_2) * it.src_factor_in
            d = dst + i * it.dst_factor_out + j * it.dst_factor_in
            before = 0 if it.overwrite else pads.acc[d]
            sums = np.zeros(pads.acc.shape[1:], np.int64)
            for term in terms:
                place = first + term.row * distance + term.column * it.src_factor_in
                sums += _term(pads.inp[place], weights, term, window)
            pads.acc[d] = (before + sums).astype(pads.acc.dtype)


def _term(element: np.ndarray, weights: np.ndarray, term: Term, window: Window) -> np.ndarray:
    """Return the products [batch, block] that a term adds: of an element [batch, block] of the window with
    weights [block, block]."""
    lanes = np.arange(len(weights))
    channels = lanes // window.channels * window.channels + term.channel
    products: np.ndarray = element[:, channels].astype(np.int64) * weights[:, term.place]
    return products


def alu(instruction: isa.Alu, pads: Scratchpads) -> None:
    """Apply an operation element-wise, step by step."""
    for d, s, _ in _steps(instruction, pads):
        left = pads.acc[d].astype(np.int64)
        right = np.full_like(left, instruction.imm) if instruction.use_imm else pads.acc[s].astype(np.int64)
        pads.acc[d] = _alu(instruction.alu_opcode, left, right, pads.config).astype(pads.acc.dtype)


def _alu(operation: AluOpcode, left: np.ndarray, right: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    flat = [
        numerics.alu(operation, a, b, config.acc_bits) for a, b in zip(left.flat, right.flat, strict=True)
    ]
    return np.array(flat, object).reshape(left.shape)


def _steps(loop: isa.Gemm | isa.Alu, pads: Scratchpads) -> Iterator[tuple[int, int, int]]:
    """Yield the accumulator, source and weight of every step, in order; 0 for an operand that is not used."""
    fields, uops = fields_of(loop), pads.uop[loop.uop_begin : loop.uop_end]
    used = {}
    for access in accesses(loop):
        if access.uop_field:
            bases = uop_column(uops, access.uop_field, pads.config).tolist()
            used[access.uop_field] = elements(access, fields, bases)
    if used:
        yield from zip(*(used.get(name, repeat(0)) for name in ("dst", "src", "wgt")), strict=False)


def _target(memory: MemoryType, pads: Scratchpads) -> np.ndarray:
    target: np.ndarray = getattr(pads, scratchpad_of(memory).name.lower())
    return target


def _dram_row(
    dram: np.ndarray, transfer: isa.Load | isa.Store | isa.Normalise, y: int, config: AcceleratorConfig
) -> np.ndarray:
    size = config.element_bytes(transfer.memory_type, fields_of(transfer)("halvings"))
    start = (transfer.dram_base + y * transfer.x_stride) * size
    return dram[start : start + transfer.x_size * size]


def _gathered(dram: np.ndarray, it: isa.Gather, y: int, config: AcceleratorConfig) -> np.ndarray:
    """Return uint8[bytes]: the elements of row y of a GATHER, contiguous."""
    size, first = config.element_bytes(it.memory_type), it.dram_base + y * it.x_stride
    begins = (first + x * it.step for x in range(it.x_size))
    return np.concatenate([dram[begin : begin + size] for begin in begins])


def _values(source: np.ndarray, memory: MemoryType, halvings: int, config: AcceleratorConfig) -> np.ndarray:
    match memory:
        case MemoryType.UOP:
            return np.frombuffer(source.tobytes(), f"<u{config.uop_bits // 8}")
        case MemoryType.ACC:
            return np.frombuffer(source.tobytes(), f"<i{config.acc_bits // 8}")
        case _:
            return unpack(source, config.value_bits(memory, halvings))
