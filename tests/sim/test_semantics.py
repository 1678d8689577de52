"""What each instruction means, at the corners, for the native code and for the NumPy reference."""

import numpy as np
import pytest

from tests.sim.helpers import ACC, ACC_8BIT, CONFIG, INP, UOP, WGT, alu, gemm, load, machine_with, run, store
from vdla.hw.spec.errors import AccessError
from vdla.hw.spec.isa import MicroOp
from vdla.hw.spec.numerics import requantise, requantise_parameters
from vdla.hw.spec.vocabulary import AluOpcode, Extension

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
NARROW = CONFIG.with_changes(acc_bits=16, acc_buffer_bytes=128)


@pytest.fixture(params=[True, False], ids=["native", "reference"])
def native(request):
    return request.param


SHIFTS = [
    ([1000, -1000, 7, -1], 3, [125, -125, 0, -1]),
    ([1000, -1000, 7, -1], -3, [8000, -8000, 56, -8]),
    ([1, -1, INT_MIN, INT_MAX], 31, [0, -1, -1, 0]),
    ([1, -1, INT_MIN, INT_MAX], 32, [0, -1, -1, 0]),
    ([1, -1, INT_MIN, INT_MAX], 1000, [0, -1, -1, 0]),
    ([1, -1, INT_MIN, INT_MAX], -31, [INT_MIN, INT_MIN, 0, INT_MIN]),
    ([1, -1, INT_MIN, INT_MAX], -32, [0, 0, 0, 0]),
    ([1, -1, INT_MIN, INT_MAX], -32768, [0, 0, 0, 0]),
    ([5, -5, 6, -6], 0, [5, -5, 6, -6]),
]


@pytest.mark.parametrize(("values", "amount", "expected"), SHIFTS)
def test_shifts_by_an_immediate(native, values, amount, expected):
    machine = machine_with(acc=values)
    run(machine, alu(AluOpcode.SHR, use_imm=1, imm=amount), native=native)
    assert machine.pads.acc[0, 0].tolist() == expected


@pytest.mark.parametrize(("values", "amount", "expected"), SHIFTS)
def test_shifts_by_accumulators(native, values, amount, expected):
    machine = machine_with(uops=[MicroOp(dst=0, src=1)], acc=[values, [amount] * 4])
    run(machine, alu(AluOpcode.SHR), native=native)
    assert machine.pads.acc[0, 0].tolist() == expected


def test_shift_amounts_at_the_ends_of_their_range(native):
    machine = machine_with(uops=[MicroOp(dst=0, src=1)], acc=[[-5, -5, -5, -5], [INT_MAX, INT_MIN, 33, -33]])
    run(machine, alu(AluOpcode.SHR), native=native)
    assert machine.pads.acc[0, 0].tolist() == [-1, 0, -1, 0]


BINARY = [
    (AluOpcode.MIN, [3, -3, INT_MIN, 0], [1, -1, INT_MAX, 0], [1, -3, INT_MIN, 0]),
    (AluOpcode.MAX, [3, -3, INT_MIN, 0], [1, -1, INT_MAX, 0], [3, -1, INT_MAX, 0]),
    (AluOpcode.ADD, [3, -3, INT_MIN, INT_MAX], [1, -1, -1, 1], [4, -4, INT_MAX, INT_MIN]),
    (AluOpcode.MUL, [3, -3, INT_MIN, 65536], [5, 7, -1, 65537], [15, -21, INT_MIN, 65536]),
]


@pytest.mark.parametrize(("operation", "left", "right", "expected"), BINARY)
def test_operations_on_two_accumulators(native, operation, left, right, expected):
    machine = machine_with(uops=[MicroOp(dst=0, src=1)], acc=[left, right])
    run(machine, alu(operation), native=native)
    assert machine.pads.acc[0, 0].tolist() == expected
    assert machine.pads.acc[1, 0].tolist() == right


NARROW_CASES = [
    (AluOpcode.ADD, 1, [32767, -32768, 0, 5], [-32768, -32767, 1, 6]),
    (AluOpcode.MUL, 300, [300, -300, 1, 0], [24464, -24464, 300, 0]),
    (AluOpcode.SHR, 16, [32767, -32768, 0, -1], [0, -1, 0, -1]),
    (AluOpcode.SHR, -15, [1, -1, 2, 3], [-32768, -32768, 0, -32768]),
    (AluOpcode.SHR, -16, [1, -1, 2, 3], [0, 0, 0, 0]),
]


@pytest.mark.parametrize(("operation", "immediate", "values", "expected"), NARROW_CASES)
def test_operations_wrap_at_16_bits(native, operation, immediate, values, expected):
    machine = machine_with(NARROW, acc=values)
    run(machine, alu(operation, use_imm=1, imm=immediate), native=native)
    assert machine.pads.acc[0, 0].tolist() == expected


def test_overlapping_operands_take_effect_in_order(native):
    machine = machine_with(uops=[MicroOp(dst=1, src=0)], acc=[[1] * 4, [10] * 4, [100] * 4, [1000] * 4])
    run(machine, alu(AluOpcode.ADD, iter_in=3, dst_factor_in=1, src_factor_in=1), native=native)
    assert machine.pads.acc[:4, 0, 0].tolist() == [1, 11, 111, 1111]


def test_an_operand_may_be_its_own_source(native):
    machine = machine_with(acc=[[1, -2, 3, -4]])
    run(machine, alu(AluOpcode.ADD, iter_out=3), native=native)
    assert machine.pads.acc[0, 0].tolist() == [8, -16, 24, -32]


def test_loops_and_micro_ops_nest_outer_inner_micro_op(native):
    machine = machine_with(uops=[MicroOp(dst=0), MicroOp(dst=1)])
    loops = {"uop_end": 2, "iter_out": 2, "iter_in": 3, "dst_factor_out": 8, "dst_factor_in": 2}
    run(machine, alu(AluOpcode.ADD, use_imm=1, imm=1, **loops), native=native)
    assert machine.pads.acc[:, 0, 0].tolist() == [1] * 6 + [0] * 2 + [1] * 6 + [0] * 2


def test_gemm_multiplies_and_accumulates(native):
    inp, wgt = [[1, -2, 3, -128]], np.arange(-8, 8).reshape(4, 4)
    machine = machine_with(inp=inp, wgt=wgt, acc=[[1, 2, 3, 4]])
    run(machine, gemm(), native=native)
    assert machine.pads.acc[0, 0].tolist() == (np.array([1, 2, 3, 4]) + wgt @ np.array(inp[0])).tolist()


@pytest.mark.parametrize(
    ("config", "start", "expected"), [(CONFIG, INT_MAX, INT_MIN + 65535), (NARROW, 32767, 32767)]
)
def test_gemm_wraps_at_the_accumulators_width(native, config, start, expected):
    machine = machine_with(config, inp=[[-128] * 4], wgt=[[[-128] * 4] * 4], acc=[[start] * 4])
    run(machine, gemm(), native=native)
    assert machine.pads.acc[0, 0].tolist() == [expected] * 4


def test_reset_clears_and_ignores_its_other_operands(native):
    machine = machine_with(uops=[MicroOp(dst=2, src=15, wgt=15)], acc=[[7] * 4] * 6)
    run(machine, gemm(reset=1, iter_in=2, dst_factor_in=2, src_factor_in=9, wgt_factor_in=9), native=native)
    assert machine.pads.acc[:6, 0, 0].tolist() == [7, 7, 0, 7, 0, 7]


def test_loads_refresh_what_gemm_reads(native):
    dram = np.zeros(4096, np.uint8)
    dram[0:4], dram[16:32] = [1, 2, 3, 255], np.arange(16)
    machine = machine_with(acc=[[0] * 4])
    run(machine, load(INP), load(WGT, dram_base=1, push_next=1), gemm(pop_prev=1), dram=dram, native=native)
    weights = np.arange(16).reshape(4, 4)
    assert machine.pads.acc[0, 0].tolist() == (weights @ np.array([1, 2, 3, -1])).tolist()


@pytest.mark.parametrize("empty", ["iter_out", "iter_in", "uop_end"])
def test_empty_loops_touch_nothing(native, empty):
    fields = {"iter_out": 1, "iter_in": 1, "uop_end": 1, "dst_factor_in": 15, empty: 0}
    machine = machine_with(uops=[MicroOp(dst=15, src=15, wgt=15)], acc=[[3] * 4] * 16)
    run(
        machine,
        gemm(**fields),
        gemm(reset=1, **fields),
        alu(AluOpcode.ADD, use_imm=1, imm=1, **fields),
        native=native,
    )
    assert (machine.pads.acc == 3).all()


def test_micro_ops_from_begin_to_before_it_are_none(native):
    machine = machine_with(acc=[[3] * 4])
    run(machine, gemm(uop_begin=9, uop_end=4, iter_out=5, iter_in=5), native=native)
    assert (machine.pads.acc[0] == 3).all()


def test_a_load_of_empty_rows_does_nothing(native):
    machine = machine_with(acc=[[3] * 4] * 16)
    run(
        machine,
        load(ACC, x_size=0, y_size=9, y_pad_0=15, x_pad_0=15, sram_base=65535, dram_base=0xFFFFFFFF),
        load(ACC, y_size=0, sram_base=65535, dram_base=0xFFFFFFFF),
        native=native,
    )
    assert (machine.pads.acc == 3).all()


def test_a_load_without_rows_still_pads(native):
    machine = machine_with(acc=[[3] * 4] * 16)
    run(
        machine,
        load(ACC, y_size=0, y_pad_0=1, y_pad_1=2, x_pad_0=1, sram_base=1, dram_base=0xFFFFFFFF),
        native=native,
    )
    assert machine.pads.acc[:, 0, 0].tolist() == [3] + [0] * 6 + [3] * 9


def test_padding_surrounds_a_strided_block(native):
    dram = np.arange(4096, dtype=np.uint8)
    machine = machine_with(inp=[[9] * 4] * 16)
    run(
        machine,
        load(INP, sram_base=1, dram_base=2, y_size=2, x_size=2, x_stride=5, y_pad_0=1, x_pad_0=1, y_pad_1=1),
        dram=dram,
        native=native,
    )
    first_values = machine.pads.inp[:14, 0, 0].tolist()
    assert first_values == [9] + [0] * 3 + [0, 8, 12] + [0, 28, 32] + [0] * 3 + [9]


MINIMA = [
    (INP, "inp", -128),
    (WGT, "wgt", -128),
    (ACC, "acc", INT_MIN),
    (ACC_8BIT, "acc", -128),
    (UOP, "uop", 0),
]


@pytest.mark.parametrize(("memory", "name", "minimum"), MINIMA)
def test_padding_with_the_minimum(native, memory, name, minimum):
    machine = machine_with(
        CONFIG.with_changes(extensions=(Extension.PAD_MINIMUM,)), uops=[MicroOp(dst=3)] * 4
    )
    dram = np.full(4096, 5, np.uint8)
    run(machine, load(memory, x_pad_0=1, x_pad_1=1, pad_minimum=1), dram=dram, native=native)
    pad = getattr(machine.pads, name).reshape(16, -1)
    assert (pad[[0, 2]] == minimum).all()
    assert (pad[1] != minimum).all()


def test_narrow_padding_is_the_least_narrow_value(native):
    config = CONFIG.with_changes(
        inp_bits=4, wgt_bits=2, extensions=(Extension.PAD_MINIMUM,), inp_buffer_bytes=32
    )
    machine = machine_with(config)
    run(machine, *(load(memory, y_pad_0=1, pad_minimum=1) for memory in (INP, WGT, ACC_8BIT)), native=native)
    assert [int(pad.flat[0]) for pad in (machine.pads.inp, machine.pads.wgt, machine.pads.acc)] == [
        -8,
        -2,
        -8,
    ]


VALUED = CONFIG.with_changes(extensions=(Extension.PAD_VALUE, Extension.PAD_MINIMUM))


def pad_register(memory, value, **fields):
    """Return a LOAD that writes the pad register of the unit that loads `memory`."""
    return load(memory, x_size=0, sram_base=value, pad_value=1, **fields)


@pytest.mark.parametrize(("memory", "name", "_"), MINIMA)
def test_padding_with_a_value(native, memory, name, _):
    machine = machine_with(VALUED, uops=[MicroOp(dst=3)] * 4)
    dram = np.full(4096, 5, np.uint8)
    register = pad_register(memory, 0xA87, y_pad_0=1)  # its low 8 bits count
    run(machine, register, load(memory, x_pad_0=1, x_pad_1=1, pad_value=1), dram=dram, native=native)
    pad = getattr(machine.pads, name).reshape(16, -1)
    assert (pad[[0, 2]] == (0 if memory is UOP else -0x79)).all()
    assert (pad[1] != -0x79).all()


def test_units_have_pad_registers_of_their_own_that_later_loads_use(native):
    machine, pad = machine_with(VALUED), {"x_pad_1": 1, "pad_value": 1}
    run(
        machine,
        load(INP, **pad),
        pad_register(UOP, 40),
        load(INP, sram_base=2, **pad),
        pad_register(WGT, 0xFF),
        load(INP, sram_base=4, **pad),
        load(ACC, **pad),
        load(INP, sram_base=6, **pad, pad_minimum=1),
        load(INP, sram_base=8, x_pad_1=1),
        load(INP, sram_base=77, y_size=0, pad_value=1),  # it writes nothing
        load(INP, sram_base=10, **pad),
        dram=np.full(4096, 5, np.uint8),
        native=native,
    )
    assert machine.pads.inp[1:12:2, 0, 0].tolist() == [0, 0, -1, -128, 0, -1]
    assert machine.pads.acc[1, 0].tolist() == [40] * 4


def test_a_run_begins_with_pad_registers_of_zero(native):
    machine = machine_with(VALUED)
    run(machine, pad_register(INP, 9), native=native)
    run(machine, load(INP, y_pad_0=1, pad_value=1), dram=np.full(4096, 5, np.uint8), native=native)
    assert machine.pads.inp[:2, 0, 0].tolist() == [0, 5]


def test_narrow_padding_is_the_low_bits_of_the_value(native):
    config = VALUED.with_changes(inp_bits=4, wgt_bits=2, inp_buffer_bytes=32)
    machine = machine_with(config)
    registers = [pad_register(memory, 0x76) for memory in (INP, ACC)]
    loads = [load(memory, y_pad_0=1, pad_value=1) for memory in (INP, WGT, ACC_8BIT)]
    run(machine, *registers, *loads, load(ACC, sram_base=2, y_pad_0=1, pad_value=1), native=native)
    padding = [int(pad.flat[0]) for pad in (machine.pads.inp, machine.pads.wgt, machine.pads.acc)]
    assert padding == [6, -2, 6]
    assert machine.pads.acc[2, 0].tolist() == [0x76] * 4


def test_narrow_accumulator_loads_extend_the_sign(native):
    machine = machine_with()
    run(
        machine,
        load(ACC_8BIT, x_size=2),
        dram=np.array([0, 127, 128, 255] + [1] * 60, np.uint8),
        native=native,
    )
    assert machine.pads.acc[:2, 0].tolist() == [[0, 127, -128, -1], [1] * 4]


@pytest.mark.parametrize(
    ("bits", "packed", "values"),
    [
        (4, [0x21, 0x8F], [1, 2, -1, -8]),
        (2, [0b10_01_00_11], [-1, 0, 1, -2]),
    ],
)
def test_narrow_values_are_packed_low_bits_first(native, bits, packed, values):
    config = CONFIG.with_changes(inp_bits=bits, inp_buffer_bytes=8 * bits)
    machine, dram = machine_with(config), np.zeros(64, np.uint8)
    dram[: len(packed)] = packed
    run(
        machine,
        load(INP),
        load(ACC_8BIT, push_next=1),
        store(dram_base=3, pop_prev=1),
        dram=dram,
        native=native,
    )
    assert machine.pads.inp[0, 0].tolist() == values
    assert machine.pads.acc[0, 0].tolist() == values
    assert dram[3 * len(packed) : 4 * len(packed)].tolist() == packed


def test_store_keeps_the_low_bits_without_saturation(native):
    machine, dram = machine_with(acc=[[127, 128, -129, 70000]]), np.full(64, 9, np.uint8)
    run(machine, store(dram_base=1), dram=dram, native=native)
    assert dram[:9].tolist() == [9, 9, 9, 9, 127, 128, 127, 112, 9]


@pytest.mark.parametrize("config", [CONFIG, NARROW], ids=["32 bits", "16 bits"])
def test_store_requantises_each_value_by_its_own_parameters(native, config):
    sets = [
        requantise_parameters(*parameters)
        for parameters in (
            (0, 1, 0, 0, -128, 127),
            (100, 3, 4, -5, -128, 127),
            (-7, 40000, 20, 0, 0, 127),
            (0, 7, 1, 9, -3, 50),
        )
    ]
    values = [[1000, 1000, 1000, 1000], [-30, 30, 3000, -3]]
    acc = np.zeros((14, 4), np.int64)
    acc[4:8] = np.array(sets).T
    acc[12:] = values
    machine, dram = machine_with(config, acc=acc), np.full(64, 9, np.uint8)
    run(machine, store(dram_base=1, sram_base=12, x_size=2, parameters=2), dram=dram, native=native)
    expected = [
        requantise(value, parameters, config.acc_bits)
        for row in values
        for value, parameters in zip(row, sets, strict=True)
    ]
    assert dram[3:13].view(np.int8).tolist() == [9, *expected, 9]


def test_parameters_past_the_end_are_refused(native):
    machine, dram = machine_with(), np.full(64, 9, np.uint8)
    with pytest.raises(AccessError, match=r"reaches ACC elements 16\.\.19, but ACC holds 16"):
        run(machine, store(parameters=5), dram=dram, native=native)
    assert (dram == 9).all()


def test_store_rows_are_dense_on_chip_and_strided_in_dram(native):
    machine, dram = machine_with(acc=np.arange(64)), np.full(64, 99, np.uint8)
    run(
        machine,
        store(sram_base=1, y_size=2, x_size=2, x_stride=3, x_pad_0=7, y_pad_1=7),
        dram=dram,
        native=native,
    )
    assert dram[:20].tolist() == [*range(4, 12), *[99] * 4, *range(12, 20)]


def test_a_store_over_itself_ends_with_the_last_row(native):
    machine, dram = machine_with(acc=np.arange(64)), np.zeros(64, np.uint8)
    run(machine, store(y_size=3, x_size=2, x_stride=1), dram=dram, native=native)
    assert dram[:16].tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]


def test_counters_count_what_was_moved_and_computed(native):
    machine = machine_with(uops=[MicroOp()] * 4)
    counted = run(
        machine,
        load(UOP, x_size=3),
        load(INP, y_size=2, x_size=3, x_pad_0=4),
        load(ACC_8BIT),
        load(ACC),
        gemm(iter_out=2, uop_end=3),
        gemm(reset=1),
        alu(AluOpcode.ADD, iter_in=5),
        store(y_size=2),
        native=native,
    )
    assert counted == {
        "UOP_LOADED_BYTES": 12,
        "INP_LOADED_BYTES": 24,
        "WGT_LOADED_BYTES": 0,
        "ACC_LOADED_BYTES": 20,
        "OUT_STORED_BYTES": 8,
        "GEMM_STEPS": 7,
        "ALU_STEPS": 5,
        "LOAD_INSTRUCTIONS": 1,
        "COMPUTE_INSTRUCTIONS": 7,
        "STORE_INSTRUCTIONS": 1,
    }
