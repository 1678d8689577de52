"""What is recorded of instructions: the elements that each touches, and its halves of ACC."""

import numpy as np
import pytest

from tests.runtime.stream.recorded import Recorded, instructions
from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.hw.spec.window import TAPS
from vdla.runtime.stream.micro_kernels import MicroKernel
from vdla.runtime.stream.record import FIELDS, NO_TENSOR, Record
from vdla.runtime.stream.tokens import PLACES, tensor_read, tensor_written

UOP, WGT, INP, ACC, OUT, ACC_8BIT, TABLE, RES = (
    getattr(MemoryType, name) for name in ("UOP", "WGT", "INP", "ACC", "OUT", "ACC_8BIT", "TABLE", "RES")
)
HALF = DEFAULT.depth(ACC) // 2
RANGES = ((2, 5), (11, 17), (23, 31))  # of dst, src and wgt
LOOPS = {"iter_out": 2, "iter_in": 3, "dst_factor_out": 10, "dst_factor_in": 1, "uop_end": 4}
PADS = {"y_pad_0": 1, "y_pad_1": 2, "x_pad_0": 3, "x_pad_1": 4}
ROWS = {"y_size": 2, "x_size": 3, "x_stride": 100}
LOADED, GATHERED = (2 + 3) * (3 + 7), 2 * 3  # elements on chip
TENSOR = 6


def transfer(form, memory: MemoryType, sram: int, tensor: int = TENSOR, **fields):
    """Return what records a transfer of a tensor."""
    given = {"memory_type": memory, "sram_base": sram, **fields}
    return lambda record: record.transfer(form, tuple(given.get(name, 0) for name in FIELDS[form]), tensor)


def compute(form, ranges=RANGES, **fields):
    """Return what records an instruction of the compute unit; `ranges` are the ranges of its micro-ops."""
    uops = MicroKernel(zip(*ranges, strict=True)) if ranges else None
    return lambda record: record.compute(form, tuple(fields.get(name, 0) for name in FIELDS[form]), uops)


READ = {unit: tensor_read(TENSOR, unit) for unit in (Unit.LOAD, Unit.COMPUTE)}
GEMM = {**LOOPS, "src_factor_out": 20, "src_factor_in": 2, "wgt_factor_out": 30, "wgt_factor_in": 3}
DST, SRC, GEMM_WGT = (ACC, 2, 5 + 10 + 2 + 1), (INP, 11, 17 + 20 + 4 + 1), (WGT, 23, 31 + 30 + 6 + 1)
TOUCHED = {
    "a load of inputs": (transfer(isa.Load, INP, 7, **ROWS, **PADS), [(INP, 7, 7 + LOADED), READ[Unit.LOAD]]),
    "a load of micro-ops": (transfer(isa.Load, UOP, 7, **ROWS), [(UOP, 7, 13), READ[Unit.COMPUTE]]),
    "a load of weights": (transfer(isa.Load, WGT, 7, **ROWS), [(WGT, 7, 13), READ[Unit.LOAD]]),
    "a load of accumulators": (transfer(isa.Load, ACC, 7, **ROWS), [(ACC, 7, 13), READ[Unit.COMPUTE]]),
    "a load of narrow ones": (
        transfer(isa.Load, ACC_8BIT, 7, **ROWS),
        [(ACC_8BIT, 7, 13), READ[Unit.COMPUTE]],
    ),
    "a load of a table": (transfer(isa.Load, TABLE, 7, **ROWS), [(TABLE, 7, 13), READ[Unit.COMPUTE]]),
    "a load of residuals": (transfer(isa.Load, RES, 7, **ROWS), [(RES, 7, 13), READ[Unit.COMPUTE]]),
    "a load of nothing": (transfer(isa.Load, INP, 7), [READ[Unit.LOAD]]),
    "a gather": (transfer(isa.Gather, INP, 7, **ROWS, step=4), [(INP, 7, 7 + GATHERED), READ[Unit.LOAD]]),
    "a store": (transfer(isa.Store, OUT, 7, **ROWS), [(OUT, 7, 13), tensor_written(TENSOR)]),
    "a store with parameters": (
        transfer(isa.Store, OUT, 7, **ROWS, parameters=3),
        [(OUT, 7, 13), (ACC, 8, 12), tensor_written(TENSOR)],
    ),
    "a store with a table": (
        transfer(isa.Store, OUT, 7, **ROWS, parameters=3, table=2),
        [(OUT, 7, 13), (ACC, 8, 12), (TABLE, 64, 128), tensor_written(TENSOR)],
    ),
    "a store with residuals": (
        transfer(isa.Store, OUT, 7, **ROWS, parameters=3, residual=5),
        [(OUT, 7, 13), (ACC, 8, 12), (ACC, 0, 4), (RES, 4, 10), tensor_written(TENSOR)],
    ),
    "a statistic": (
        transfer(isa.Normalise, OUT, 7, NO_TENSOR, **ROWS, table=2),
        [(OUT, 7, 13), (TABLE, 64, 192), tensor_written(NO_TENSOR)],
    ),
    "normalised outputs": (
        transfer(isa.Normalise, OUT, 7, **ROWS, parameters=3, normal=5),
        [(OUT, 7, 13), (ACC, 8, 12), (ACC, 16, 20), tensor_written(TENSOR)],
    ),
    "a product": (compute(isa.Gemm, **GEMM), [DST, SRC, GEMM_WGT]),
    "a reset": (compute(isa.Gemm, **GEMM, reset=1), [DST]),
    "a product of no trips": (compute(isa.Gemm, **{**GEMM, "iter_in": 0}), []),
    "an operation": (compute(isa.Alu, **LOOPS), [DST]),
    "sliding windows": (
        compute(isa.Depthwise, **LOOPS, src_factor_out=20, src_factor_in=2, wgt_factor_out=30),
        [DST, (INP, 11, 17 + 20 + 2 * (3 + TAPS - 2) + 1), (WGT, 23, 31 + 30 + 1)],
    ),
    "the end": (compute(isa.Finish, ()), []),
}


@pytest.mark.parametrize("title", TOUCHED)
def test_an_instruction_touches_its_elements_and_its_tensor(title):
    record, places = Record(), TOUCHED[title]
    TOUCHED["a store"][0](record)  # instructions of other forms stand before and behind
    places[0](record)
    compute(isa.Gemm, ((40, 41),) * 3, **GEMM)(record)
    touched = record.touched()
    assert (touched.shape, touched.dtype) == ((3, PLACES, 3), np.int64)
    element_ranges = [tuple(place) for place in touched[1].tolist() if place[1] < place[2]]
    assert element_ranges == places[1]


HALVES = {
    "the first half to its end": (transfer(isa.Load, ACC, HALF - 6, **ROWS), 0b01),
    "an element beyond the first half": (transfer(isa.Load, ACC, HALF - 5, **ROWS), 0b11),
    "the second half from its begin": (transfer(isa.Load, ACC, HALF, **ROWS), 0b10),
    "an element before the second half": (transfer(isa.Load, ACC_8BIT, HALF - 1, **ROWS), 0b11),
    "a load of no accumulators": (transfer(isa.Load, ACC, 0), 0),
    "no accumulators in the second half": (transfer(isa.Load, ACC, HALF + 1), 0),
    "a load of inputs": (transfer(isa.Load, INP, 0, **ROWS), 0),
    "a gather": (transfer(isa.Gather, INP, 0, **ROWS), 0),
    "sums in the first half": (
        compute(isa.Gemm, ((0, HALF - 1), (HALF, HALF), (HALF, HALF)), uop_end=2, iter_out=1, iter_in=1),
        0b01,
    ),
    "sums in both halves": (
        compute(isa.Gemm, ((0, HALF), (0, 0), (0, 0)), uop_end=2, iter_out=1, iter_in=1),
        0b11,
    ),
    "a source in the other half": (
        compute(isa.Alu, ((0, 0), (HALF, HALF + 1), (0, 0)), uop_end=2, iter_out=1, iter_in=1),
        0b11,
    ),
    "a constant": (
        compute(isa.Alu, ((HALF, HALF), (0, 0), (0, 0)), uop_end=1, iter_out=1, iter_in=1, use_imm=1),
        0b10,
    ),
    "the end": (compute(isa.Finish, ()), 0),
}


@pytest.mark.parametrize("title", HALVES)
def test_an_instruction_works_in_the_halves_of_its_accumulators(title):
    record, (append, halves) = Record(), HALVES[title]
    transfer(isa.Store, OUT, 0, **ROWS)(record)
    append(record)
    assert record.halves(DEFAULT).tolist() == [0, halves]


def test_units_opcodes_and_tensors_follow_the_order_of_recording():
    record = Record()
    assert (len(record), record.tensors().tolist(), record.touched().shape) == (0, [], (0, PLACES, 3))
    for title in ("a store", "a product", "a load of inputs", "a load of accumulators", "the end"):
        TOUCHED[title][0](record)
    assert len(record) == 5
    assert list(record.units()) == [Unit.STORE, Unit.COMPUTE, Unit.LOAD, Unit.COMPUTE, Unit.COMPUTE]
    forms = isa.Store, isa.Gemm, isa.Load, isa.Load, isa.Finish
    assert record.opcodes().tolist() == [form.opcode for form in forms]
    assert record.tensors().tolist() == [TENSOR, NO_TENSOR, TENSOR, TENSOR, NO_TENSOR]


def test_instructions_are_as_they_were_recorded():
    record = Record()
    TOUCHED["a load of weights"][0](record)
    record.owner = 4
    TOUCHED["a product"][0](record)
    load, product = instructions(record)
    fields = {"memory_type": WGT, "sram_base": 7, **ROWS}
    assert load == Recorded(
        isa.Load, tuple(fields.get(name, 0) for name in FIELDS[isa.Load]), TENSOR, None, -1
    )
    uops = MicroKernel(((2, 11, 23), (5, 17, 31)))
    assert product == Recorded(
        isa.Gemm, tuple(GEMM.get(name, 0) for name in FIELDS[isa.Gemm]), NO_TENSOR, uops, 4
    )
