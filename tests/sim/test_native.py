"""The native code against the NumPy reference, over configurations and ways to multiply."""

import dataclasses
import random

import numpy as np
import pytest
from generators.programs import random_config, random_program

from tests.sim.helpers import CONFIG, INP, UOP, WGT, alu, gemm, load, machine_with, store, stream_of
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, TINY, VTA
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.sim.decoded import decode_stream
from vdla.sim.functional import Machine
from vdla.sim.native import build, steps
from vdla.sim.native.dot import Dot, choose_dot
from vdla.sim.reference import execute
from vdla.sim.scratchpads import Scratchpads, pack, unpack

HUGE = DEFAULT.with_changes(batch=16)
STATISTICS = "greatest", "powers", "totals", "squares"
MEMORIES = (
    *("uop", "inp", "wgt", "acc", "table", "res", "inp_operand", "wgt_operand", "wgt_bias"),
    *STATISTICS,
)


def run_program(program, **options):
    """Return DRAM and scratchpads after `program`."""
    machine, dram = Machine(program.config), program.image.copy()
    stream = np.frombuffer(program.stream, np.uint8).reshape(-1, program.config.instruction_bytes)
    machine.run(decode_stream(stream, program.config), dram, **options)
    return {"dram": dram} | {name: getattr(machine.pads, name) for name in MEMORIES}


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_agree_with_the_reference(seed):
    program = random_program(random_config(seed), seed, length=40)
    native, reference = run_program(program), run_program(program, native=False)
    assert [name for name in native if not np.array_equal(native[name], reference[name])] == []


@pytest.mark.parametrize("seed", range(12))
def test_random_interleavings_of_ordered_programs_agree(seed):
    program = random_program(random_config(0), seed, length=40)
    ordered, shuffled = run_program(program), run_program(program, seed=seed)
    assert [name for name in ordered if not np.array_equal(ordered[name], shuffled[name])] == []


@pytest.mark.parametrize("seed", range(6))
def test_pauses_change_nothing(seed, monkeypatch):
    """With a budget of one step, native code returns to Python after every part of every instruction."""
    program = random_program(random_config(seed), seed, length=40)
    expected = run_program(program)
    functions = dataclasses.replace(build.native_code_for(program.config), budget=1)
    monkeypatch.setattr("vdla.sim.native.build.native_code_for", lambda _: functions)
    paused = run_program(program)
    assert [name for name in expected if not np.array_equal(expected[name], paused[name])] == []


@pytest.mark.parametrize(("config", "at_once"), [(TINY, 1 << 24), (DEFAULT, 1 << 24), (HUGE, 1 << 20)])
def test_native_code_looks_up_after_work_of_well_below_a_second(config, at_once):
    assert steps.steps_at_once(config) == at_once
    assert steps.trips_at_once(config) * config.depth(MemoryType.UOP) <= at_once


@pytest.fixture(scope="module", params=[1, 4, 16])
def small_parts(request):
    """Native code that checks its budget every few inner trips, and whose budget is a single step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "trips_at_once", lambda _: request.param)
        return dataclasses.replace(build.native_code_for.__wrapped__(TINY), budget=1)


@pytest.mark.parametrize("trips", [(1, 9), (9, 1), (2, 16), (3, 5), (16, 2), (5, 17), (3, 15)], ids=str)
def test_loops_pause_between_parts_of_any_size(trips, small_parts):
    """Sums of overlapping sums show steps in another order, steps executed twice and steps left out."""
    loop = alu(
        AluOpcode.ADD,
        uop_end=2,
        iter_out=trips[0],
        iter_in=trips[1],
        dst_factor_in=1,
        src_factor_out=1,
        src_factor_in=2,
    )
    uops = [isa.MicroOp(dst=0, src=1), isa.MicroOp(dst=1)]
    values = np.random.default_rng(0).integers(-100, 100, (TINY.depth(MemoryType.ACC), 4))
    native, expected = (machine_with(TINY, uops=uops, acc=values).pads for _ in range(2))
    program, dram = decode_stream(stream_of([loop], TINY), TINY), np.zeros(1, np.uint8)
    assert small_parts.run(program, np.arange(1), native, dram) == 1
    execute(loop, expected, dram)
    assert np.array_equal(native.acc, expected.acc)


LOOPS = {"uop_end": 2, "iter_out": 3, "iter_in": 4}
SLIDING = CONFIG.with_changes(
    name="sliding",
    block_in=8,
    block_out=8,
    extensions=tuple(Extension),
    inp_buffer_bytes=1024,
    wgt_buffer_bytes=4096,
    acc_buffer_bytes=2048,
    res_buffer_bytes=512,
)
SPENT = {
    "LOAD": (load(INP, y_size=3, x_size=2), 6 * 8),
    "LOAD with padding": (load(WGT, y_size=1, x_size=2, y_pad_0=1, y_pad_1=2, x_pad_1=1), 4 * 3 * 8),
    "LOAD of micro-ops": (load(UOP, y_size=1, x_size=5), 5 * 8),
    "GATHER": (isa.Gather(memory_type=INP, y_size=2, x_size=3, step=1), 6 * 8),
    "STORE": (store(y_size=2, x_size=3), 6 * 8),
    "STORE with parameters": (store(y_size=2, x_size=5, parameters=1), 10 * 8),
    "GEMM": (gemm(**LOOPS), 24),
    "GEMM that resets": (gemm(**LOOPS, reset=1), 24),
    "ALU": (alu(AluOpcode.MAX, **LOOPS), 24),
    "DEPTHWISE": (isa.Depthwise(**LOOPS), 24),
}
"""Instructions, and what they take off the budget of native code: 8 for an element, 1 for a step."""


@pytest.mark.parametrize("name", SPENT)
def test_an_instruction_takes_its_work_off_the_budget(name, monkeypatch):
    """Of two instructions on end, the second follows without a pause if a budget is left."""
    instruction, spent = SPENT[name]
    program = decode_stream(stream_of([instruction] * 2, SLIDING), SLIDING)
    calls, prototype = [], build._RUN
    monkeypatch.setattr(build, "_RUN", lambda address: _noted(prototype(address), calls))
    for budget in (spent, spent + 1):
        code = dataclasses.replace(build.native_code_for(SLIDING), budget=budget)
        pads = Scratchpads(SLIDING)
        pads.uop[:] = 0
        assert code.run(program, np.arange(2), pads, np.zeros(4096, np.uint8)) == 2
    assert len(calls) == 2 + 1


def _noted(function, calls):
    def called(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return called


def test_a_refusal_is_told_from_a_pause():
    program = decode_stream(stream_of([gemm(), gemm(), gemm(dst_factor_in=15, iter_in=3), gemm()]), CONFIG)
    functions = dataclasses.replace(build.native_code_for(CONFIG), budget=1)
    assert functions.run(program, np.arange(4), Scratchpads(CONFIG), np.zeros(1, np.uint8)) == 2


def numeric_config(seed: int) -> AcceleratorConfig:
    """Return a small configuration with random widths and blocks, for what the hardware's campaign does not
    build."""
    rng = random.Random(seed)
    batch, block_in, block_out = rng.choice((1, 2, 4)), 1 << rng.randrange(6), 1 << rng.randrange(6)
    inp_bits, wgt_bits, acc_bits = rng.choice((2, 4, 8)), rng.choice((2, 4, 8)), rng.choice((16, 32))
    inp, wgt, acc = batch * block_in * inp_bits, block_out * block_in * wgt_bits, batch * block_out * acc_bits
    if min(inp, wgt, batch * block_out * inp_bits) < 8:
        return numeric_config(seed + 1000)  # elements are whole bytes
    return DEFAULT.with_changes(
        name=f"numeric {seed}",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        inp_bits=inp_bits,
        wgt_bits=wgt_bits,
        acc_bits=acc_bits,
        uop_buffer_bytes=128,
        inp_buffer_bytes=2 * inp,
        wgt_buffer_bytes=2 * wgt,
        acc_buffer_bytes=2 * acc,
    )


def vector_ways() -> list[Dot]:
    """Return ways to multiply that this processor can execute."""
    features = build.host_features()
    ways = [Dot(4, False), Dot(8, False), Dot(16, False)]
    if features.get("avx512vnni") and features.get("avx512vl"):
        ways += [Dot(4, True), Dot(8, True), Dot(16, True)]
    return ways


NUMERIC_SEEDS = range(12)


@pytest.mark.parametrize("seed", NUMERIC_SEEDS)
def test_every_way_to_multiply_runs_random_configurations_as_the_reference(monkeypatch, seed):
    ways = vector_ways()
    functions = build.native_code_for(numeric_config(seed), ways[seed % len(ways)])
    monkeypatch.setattr("vdla.sim.native.build.native_code_for", lambda _: functions)
    for program_seed in range(3):
        program = random_program(numeric_config(seed), program_seed, length=40)
        native, reference = run_program(program), run_program(program, native=False)
        assert [name for name in native if not np.array_equal(native[name], reference[name])] == []


def test_numeric_configurations_cover_widths_and_blocks():
    configs = [numeric_config(seed) for seed in NUMERIC_SEEDS]
    for name, values in (
        ("inp_bits", {2, 4, 8}),
        ("wgt_bits", {2, 4, 8}),
        ("acc_bits", {16, 32}),
        ("batch", {1, 2, 4}),
    ):
        assert {getattr(config, name) for config in configs} == values
    assert min(config.block_in for config in configs) < 4 <= 32 in {config.block_out for config in configs}


SHAPES = [
    # batch, block_in, block_out, inp, wgt, acc bits
    (1, 16, 16, 8, 8, 32),
    (1, 1, 1, 8, 8, 32),
    (1, 2, 4, 8, 8, 32),
    (2, 8, 2, 4, 8, 16),
    (1, 64, 64, 8, 8, 32),
    (16, 16, 16, 8, 8, 32),
    (64, 4, 8, 2, 2, 16),
    (1, 256, 256, 8, 4, 16),
    (32, 32, 128, 8, 8, 32),
]


def config_of(batch, block_in, block_out, inp_bits, wgt_bits, acc_bits):
    """Return a configuration whose scratchpads hold 4 elements."""
    return VTA.with_changes(
        name=f"{batch}x{block_in}x{block_out}",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        inp_bits=inp_bits,
        wgt_bits=wgt_bits,
        acc_bits=acc_bits,
        uop_buffer_bytes=16,
        inp_buffer_bytes=batch * block_in * inp_bits // 2,
        wgt_buffer_bytes=block_in * block_out * wgt_bits // 2,
        acc_buffer_bytes=batch * block_out * acc_bits // 2,
    )


def check_gemm(config, dot):
    """Compare one GEMM on random and on extreme operands."""
    generator = np.random.default_rng(0)
    pads, expected = Scratchpads(config), Scratchpads(config)
    uops = [
        isa.MicroOp(dst=0, src=1, wgt=2),
        isa.MicroOp(dst=1, src=0, wgt=0),
        isa.MicroOp(dst=0, src=2, wgt=1),
    ]
    low_inp, low_wgt = -(1 << (config.inp_bits - 1)), -(1 << (config.wgt_bits - 1))
    for scratchpads in (pads, expected):
        scratchpads.uop[:3] = np.frombuffer(codec.uops_to_bytes(uops, config), np.uint32)
    pads.inp[...] = generator.integers(low_inp, -low_inp, pads.inp.shape)
    pads.wgt[...] = generator.integers(low_wgt, -low_wgt, pads.wgt.shape)
    pads.inp[2], pads.wgt[1] = low_inp, low_wgt
    pads.acc[...] = generator.integers(
        np.iinfo(pads.acc.dtype).min, np.iinfo(pads.acc.dtype).max, pads.acc.shape
    )
    for name in ("inp", "wgt", "acc"):
        getattr(expected, name)[...] = getattr(pads, name)
    pads.refresh_operands()
    step = gemm(
        uop_end=3, iter_out=2, iter_in=2, dst_factor_out=1, dst_factor_in=1, src_factor_in=1, wgt_factor_out=1
    )
    program = decode_stream(stream_of([step], config), config)
    assert build.native_code_for(config, dot).run(program, np.arange(1), pads, np.zeros(1, np.uint8)) == 1
    execute(step, expected, np.zeros(1, np.uint8))
    assert np.array_equal(pads.acc, expected.acc)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gemm_of_every_shape(shape):
    check_gemm(config_of(*shape), None)


@pytest.mark.parametrize("dot", vector_ways(), ids=str)
def test_every_way_to_multiply_gives_the_same(dot):
    check_gemm(config_of(2, 16, 16, 8, 8, 32), dot)


FEATURES = [
    (("avx512vnni", "avx512vl", "avx512bw", "avx2"), Dot(16, True)),
    (("avxvnni", "avx2"), Dot(8, True)),
    (("avx512bw", "avx2"), Dot(16, False)),
    (("avx2",), Dot(8, False)),
    ((), Dot(4, False)),
]


@pytest.mark.parametrize(("features", "expected"), FEATURES)
def test_the_best_way_to_multiply_is_chosen(features, expected):
    assert choose_dot(dict.fromkeys(features, True)) == expected


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packing_and_unpacking_are_inverse(bits):
    packed = np.arange(256, dtype=np.uint8)
    values = unpack(packed, bits)
    assert sorted(set(values.tolist())) == [*range(-(1 << (bits - 1)), 1 << (bits - 1))]
    assert np.array_equal(pack(values, bits), packed)


def test_code_from_the_cache_computes_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        build.native_code_for.cache_clear()
        check_gemm(CONFIG, None)
    assert len(list((tmp_path / "native_code").iterdir())) == 1


def test_code_from_the_cache_is_not_emitted_again(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    build.native_code_for.__wrapped__(CONFIG)
    emitted = []
    monkeypatch.setattr(build, "_machine_code", lambda config, dot: emitted.append(config) or b"")
    build.native_code_for.__wrapped__(CONFIG)
    assert not emitted


def test_another_configuration_or_way_to_multiply_or_source_is_another_key(monkeypatch):
    keys = {build._key(config, dot) for config in (CONFIG, TINY) for dot in (Dot(4, False), Dot(8, False))}
    monkeypatch.setattr(build, "revision", lambda folder: f"another revision of {folder}")
    assert len(keys | {build._key(CONFIG, Dot(4, False))}) == 5
