"""The GEMM workload: right on every configuration, double-buffered, of few instructions; narrow values come back."""

from collections import Counter
from itertools import product
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest

from vdla.hw.spec import isa
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.rtl import Optimise, RtlDevice
from vdla.runtime.workloads import (
    Addresses,
    GemmPlan,
    _fits,
    expected_gemm,
    gemm_instructions,
    pack_values,
    place_gemm,
    plan_gemm,
    random_operands,
    unpack_values,
)

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


def tilings(config, m, n, k):
    """Yield the tiles that two buffers in each scratchpad, the micro-ops and the loops allow."""
    for tile_m, tile_n, tile_k in product(range(1, m + 1), range(1, n + 1), range(1, k + 1)):
        halves = {
            MemoryType.ACC: tile_m * tile_n,
            MemoryType.INP: tile_m * tile_k,
            MemoryType.WGT: tile_n * tile_k,
        }
        if (
            not (m % tile_m or n % tile_n or k % tile_k)
            and all(2 * size <= config.depth(memory) for memory, size in halves.items())
            and 2 + 4 * tile_n <= config.depth(MemoryType.UOP)
            and max(tile_m, tile_n, tile_k) < 1 << isa.LOOP_BITS
        ):
            yield tile_m, tile_n, tile_k


@pytest.mark.parametrize("case", CASES[:5] + CASES[8:10] + CASES[13:], ids=lambda case: case[0].name)
def test_the_tiles_move_the_least_data_and_are_the_longest_of_these(case):
    config, *sizes = case
    blocks = [
        size // block
        for size, block in zip(sizes, (config.batch, config.block_out, config.block_in), strict=True)
    ]
    inp, wgt = config.element_bytes(MemoryType.INP), config.element_bytes(MemoryType.WGT)

    def moved(tiles: tuple[int, int, int]) -> float:
        m, n, k = (size // tile for size, tile in zip(blocks, tiles, strict=True))
        return m * n * k * tiles[2] * (tiles[0] * inp + tiles[1] * wgt)

    legal = list(tilings(config, *blocks))
    least = min(map(moved, legal))
    plan = plan_gemm(config, *sizes)
    chosen = plan.tile_m, plan.tile_n, plan.tile_k
    assert chosen in legal
    assert moved(chosen) == least
    assert plan.tile_k == max(tiles[2] for tiles in legal if moved(tiles) == least)


DEPTHS = {MemoryType.ACC: 24, MemoryType.INP: 30, MemoryType.WGT: 40, MemoryType.UOP: 18}


@pytest.mark.parametrize("memory", DEPTHS)
def test_tiles_may_fill_each_scratchpad(memory):
    """Tiles of 3 x 4 x 5 blocks take half of each scratchpad, and of micro-ops 2 + 4 x 4."""
    for less in (0, 1, 2):
        depths = DEPTHS | {memory: DEPTHS[memory] - less}
        plan = GemmPlan(SimpleNamespace(depth=depths.get), 3, 4, 5, 0, 3, 4, 5)
        assert _fits(plan) is not bool(less)


@pytest.mark.parametrize("place", range(3))
def test_tiles_are_no_longer_than_a_loop(place):
    for length, fits in ((16_383, True), (16_384, False)):
        tiles = [1, 1, 1]
        tiles[place] = length
        plan = GemmPlan(SimpleNamespace(depth=lambda memory: 1 << 20), 1, 1, 1, 0, *tiles)
        assert _fits(plan) is fits


@pytest.mark.parametrize(("m", "pages"), [(1024, 2), (1023, 1), (2047, 2)])
def test_the_output_has_room_for_its_bytes_and_an_element(m, pages):
    """The stream stands on the pages behind it."""
    plan = plan_gemm(TINY, m, 4, 4)
    gemm = place_gemm(FunctionalDevice(TINY, DRAM_BYTES), plan, *random_operands(plan))
    assert gemm.stream_address - gemm.at.out == 4096 * pages


@pytest.mark.parametrize("config", [TINY, NARROW], ids=lambda config: config.name)
def test_a_gemm_of_one_block_has_one_tile(config):
    plan = plan_gemm(config, config.batch, config.block_out, config.block_in)
    assert (plan.tile_m, plan.tile_n, plan.tile_k) == plan.tiles == (1, 1, 1)


def test_results_are_shifted_by_10_bits_unless_told_otherwise():
    assert plan_gemm(TINY, 4, 4, 4).shift == 10


def test_every_token_that_is_pushed_is_popped(plan):
    at = Addresses(0, 0, 0, 0)
    flags = Counter()
    for instruction in gemm_instructions(plan, at):
        flags.update({name: getattr(instruction, name) for name in isa.FLAGS})
    tiles, steps = plan.tiles[0] * plan.tiles[1], prod(plan.tiles)
    assert flags["push_prev"] == flags["pop_next"] == max(steps - 2, 0) + max(tiles - 2, 0)
    assert flags["push_next"] == flags["pop_prev"] == steps + tiles


@pytest.mark.parametrize("config", [TINY, NARROW], ids=lambda config: config.name)
def test_random_operands_have_all_values_of_their_bits(config):
    plan = plan_gemm(config, 64, 64, 64)
    inp, wgt = random_operands(plan)
    assert (inp.shape, wgt.shape) == ((64, 64), (64, 64))
    for values, bits in ((inp, config.inp_bits), (wgt, config.wgt_bits)):
        assert set(values.reshape(-1).tolist()) == set(range(-1 << bits - 1, 1 << bits - 1))
    again, other = random_operands(plan), random_operands(plan, 1)
    assert np.array_equal(again[0], inp)
    assert not np.array_equal(other[0], inp)


def test_a_shift_of_the_accumulator_or_more_leaves_the_sign():
    inp, wgt = (
        np.array([[1, 1, 1, 1]], np.int8),
        np.array([[9, 9, 9, 9], [-9] * 4, [0] * 4, [1] * 4], np.int8),
    )
    for shift in (31, 32, 60):
        assert expected_gemm(plan_gemm(TINY, 1, 4, 4, shift=shift), inp, wgt).tolist() == [[0, -1, 0, 0]]


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
    packed = pack_values(values, bits)
    assert (packed.dtype, packed.shape) == (np.uint8, (256 * bits // 8,))
    assert np.array_equal(unpack_values(packed, bits), values)


@pytest.mark.parametrize(
    ("bits", "values", "packed"),
    [(2, [1, -2, 0, -1], [0b11_00_10_01]), (4, [1, -2, 7, -8], [0xE1, 0x87]), (8, [1, -2], [1, 0xFE])],
)
def test_the_first_value_stands_in_the_low_bits(bits, values, packed):
    assert pack_values(np.array(values, np.int8), bits).tolist() == packed
    assert unpack_values(np.array(packed, np.uint8), bits).tolist() == values


def test_bits_above_those_of_a_value_are_dropped():
    assert pack_values(np.array([0x71, 0x12], np.int8), 4).tolist() == [0x21]


def test_rows_are_packed_one_after_another_whatever_their_order_in_memory():
    rows = np.array([[1, 2], [3, 4]], np.int8)
    assert pack_values(np.asfortranarray(rows), 4).tolist() == [0x21, 0x43]
    assert pack_values(rows.T, 8).tolist() == [1, 3, 2, 4]


def test_bytes_are_not_copied():
    values = np.arange(4, dtype=np.int8)
    assert np.shares_memory(pack_values(values, 8), values)
