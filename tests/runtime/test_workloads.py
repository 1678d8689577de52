"""The GEMM workload: right on every configuration, double-buffered, and of few instructions."""

import numpy as np
import pytest

from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.rtl import Optimise, RtlDevice
from vdla.runtime.packing import pack_values, unpack_values
from vdla.runtime.workloads import expected_gemm, place_gemm, plan_gemm, random_operands

DRAM_BYTES = 4 << 20
NARROW = TINY.with_changes(
    name="narrow", batch=2, block_in=8, block_out=16, inp_bits=4, wgt_bits=2, acc_bits=16
)
NARROWEST = TINY.with_changes(
    name="narrowest", token_depth=1, load_queue_depth=2, compute_queue_depth=2, store_queue_depth=2
)
CASES = [
    (TINY, 64, 64, 64),
    (TINY, 4, 8, 4),
    (TINY, 1, 4, 4),
    (TINY, 7, 12, 20),
    (TINY, 128, 12, 64),
    (SMALL, 96, 64, 128),
    (DEFAULT, 128, 256, 128),
    (DEFAULT, 300, 48, 2000),
    (NARROW, 26, 96, 88),
    (NARROWEST, 64, 64, 64),
    (NARROWEST, 8, 16, 4),
    (TINY.with_changes(name="one token", token_depth=1), 64, 64, 64),
    (
        TINY.with_changes(name="shallow", load_queue_depth=2, compute_queue_depth=2, store_queue_depth=2),
        64,
        64,
        64,
    ),
    (TINY.with_changes(name="few uops", uop_buffer_bytes=32), 64, 64, 64),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].name}-{case[1]}x{case[2]}x{case[3]}")
def plan(request):
    config, *sizes = request.param
    return plan_gemm(config, *sizes, shift=6)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_the_output_is_numpys(plan, seed):
    gemm = place_gemm(FunctionalDevice(plan.config, DRAM_BYTES, seed), plan, *random_operands(plan))
    result = gemm.run()
    assert np.array_equal(gemm.output(), gemm.expected())
    assert result.counters["GEMM_STEPS"] + result.counters["ALU_STEPS"] == plan.compute_cycles


@pytest.mark.parametrize(
    "config", [TINY, pytest.param(NARROWEST, marks=pytest.mark.slow)], ids=lambda config: config.name
)
def test_the_hardware_gives_the_same_at_any_depth_of_queues_and_tokens(config):
    plan = plan_gemm(config, 32, 48, 64, shift=6)
    gemm = place_gemm(RtlDevice(config, DRAM_BYTES, optimise=Optimise.BUILD), plan, *random_operands(plan))
    result = gemm.run(cycle_limit=1_000_000)
    assert np.array_equal(gemm.output(), gemm.expected())
    assert result.counters["GEMM_STEPS"] + result.counters["ALU_STEPS"] == plan.compute_cycles


def test_the_halves_of_every_scratchpad_suffice(plan):
    assert plan.tile_m * plan.tile_n <= plan.half(MemoryType.ACC)
    assert plan.tile_m * plan.tile_k <= plan.half(MemoryType.INP)
    assert plan.tile_n * plan.tile_k <= plan.half(MemoryType.WGT)


def test_the_large_gemm_moves_a_byte_for_64_products():
    plan = plan_gemm(DEFAULT, 1024, 1024, 1024)
    assert (plan.tile_m, plan.tile_n, plan.tile_k) == (128, 8, 8)
    assert plan.gemm_cycles == 4_194_304
    assert plan.gemm_cycles / plan.compute_cycles > 0.94
    device = FunctionalDevice(DEFAULT, 8 << 20)
    counters = place_gemm(device, plan, *random_operands(plan)).run().counters
    assert counters["INP_LOADED_BYTES"] + counters["WGT_LOADED_BYTES"] == plan.macs // 64
    assert counters["UOP_LOADED_BYTES"] == 4 * (2 + 4 * 8)


@pytest.mark.slow
def test_the_large_gemm_runs_the_hardware_above_nine_tenths_of_peak():
    plan = plan_gemm(DEFAULT, 1024, 1024, 1024)
    gemm = place_gemm(RtlDevice(DEFAULT, 8 << 20), plan, *random_operands(plan))
    result = gemm.run(cycle_limit=10_000_000)
    assert np.array_equal(gemm.output(), gemm.expected())
    assert plan.gemm_cycles / result.cycles > 0.935
    assert plan.compute_cycles / result.cycles > 0.995


def test_the_numpy_result_wraps_shifts_and_clips():
    plan = plan_gemm(TINY, 1, 4, 4, shift=1)
    inp, wgt = np.array([[127, 127, 1, 0]], np.int8), np.diag([127, -127, 6, 1]).astype(np.int8)
    assert expected_gemm(plan, inp, wgt).tolist() == [[127, -128, 3, 0]]


REFUSED = [
    ((TINY, 4, 6, 4), "GEMM n = 6 is not a positive multiple of 4"),
    ((TINY, 0, 4, 4), "GEMM m = 0 is not a positive multiple of 1"),
    (
        (TINY.with_changes(alu_opcodes=("MIN", "MAX")), 4, 4, 4),
        "the GEMM workload needs ALU operation SHR, which this configuration lacks",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_cannot_be_planned_is_refused(arguments, message):
    with pytest.raises(ProgramError) as caught:
        plan_gemm(*arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packing_and_unpacking_are_inverse(bits):
    values = np.arange(256, dtype=np.uint8).view(np.int8) >> (8 - bits)
    assert np.array_equal(unpack_values(pack_values(values, bits), bits), values)


def test_packing_puts_the_first_value_into_the_low_bits():
    assert pack_values(np.array([1, -2], np.int8), 4).tolist() == [0xE1]
