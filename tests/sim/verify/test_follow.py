"""Long loops are followed as sets of elements: with the findings of a walk of every step, in less time."""

import random
import time
from collections import Counter

import numpy as np
import pytest

from tests.sim.helpers import ACC, CONFIG, INP, UOP, WGT, alu, gemm, load, store, stream_of
from tests.sim.verify.walk import Walk
from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.memories import scratchpads_of
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.sim.decoded import decode_stream
from vdla.sim.verify import follow, verifier
from vdla.sim.verify.touch import BEYOND, CONFLICT, EMPTY

DEEPER = CONFIG.with_changes(name="64 inputs, 32 accumulators", inp_buffer_bytes=256, acc_buffer_bytes=512)
SLIDING = CONFIG.with_changes(
    name="with windows",
    block_in=8,
    block_out=8,
    inp_buffer_bytes=256,
    wgt_buffer_bytes=1024,
    acc_buffer_bytes=512,
    extensions=tuple(Extension),
)
CONFIGS = (CONFIG, DEEPER)
DEEPER_ELEMENTS = sum(DEEPER.depth(memory) for memory in scratchpads_of(DEEPER))
WIDE = CONFIG.with_changes(name="micro-ops of 64 bits", inp_buffer_bytes=1 << 17, wgt_buffer_bytes=1 << 18)
STORED = 64  # element of DRAM from which on nothing is loaded
LIMIT = 100_000  # of findings


def random_fields(rng, config, operands):
    """Return fields of random loops, most of which go past the end of some memory or nearly so."""
    begin = rng.randrange(config.depth(UOP))
    fields = {
        "uop_begin": begin,
        "reset": rng.randrange(2),
        "uop_end": rng.randint(begin, min(begin + rng.choice((1, 2, 16)), config.depth(UOP) + 1)),
        "iter_out": rng.choice((0, 1, 2, 3, 7, 16, 40)),
        "iter_in": rng.choice((0, 1, 2, 5, 16, 33)),
    }
    for name, memory in operands.items():
        for loop in ("out", "in"):
            factor = rng.choice((0, 0, 0, 1, 1, 2, 3, rng.randrange(config.depth(memory))))
            fields[f"{name}_factor_{loop}"] = factor
    return fields


def random_loop(rng, config):
    if config.has(Extension.DEPTHWISE) and rng.randrange(2):
        fields = random_fields(rng, config, {"dst": ACC, "src": INP, "wgt": WGT})
        del fields["reset"], fields["wgt_factor_in"]
        fields["iter_in"] = min(fields["iter_in"], config.depth(INP) - 1)
        flags = {name: rng.randrange(2) for name in ("overwrite", "pop_prev", "stride_2", "wide")}
        rows = {
            "more_rows": rng.randrange(4),
            "row_step": rng.choice((0, 1, rng.randrange(config.depth(INP) // 2))),
        }
        return isa.Depthwise(**fields, **flags, **rows)
    if rng.randrange(2):
        fields = random_fields(rng, config, {"dst": ACC, "src": INP, "wgt": WGT})
        return gemm(**fields, overwrite=rng.randrange(2), pop_prev=rng.randrange(2))
    fields = random_fields(rng, config, {"dst": ACC, "src": ACC})
    return alu(AluOpcode.ADD, **fields, use_imm=rng.randrange(2), pop_prev=rng.randrange(2))


def random_transfer(rng, config, memory, **fields):
    depth = config.depth(memory)
    size = rng.choice((1, depth // 2, depth - 1, depth))
    return load(memory, sram_base=rng.randrange(depth - size + 1), x_size=size, **fields)


def random_stream(rng, config):
    """Return LOADs, some of which fill a memory only in part, STOREs, and loops not ordered behind all of
    them."""
    loads = [random_transfer(rng, config, memory) for memory in (UOP, INP, WGT, ACC) if rng.random() < 0.8]
    items = [*loads, load(UOP, x_size=config.depth(UOP) - rng.choice((0, 0, 1)))]
    for _ in range(3):
        items += [load(INP, sram_base=rng.randrange(4), push_next=1), random_loop(rng, config)]
        items += [
            store(
                sram_base=rng.randrange(12),
                dram_base=STORED,
                x_size=rng.choice((1, 4)),
                parameters=rng.randrange(5),
            )
        ]
    return [*items, isa.Finish()]


def random_dram(rng, config):
    small = rng.random() < 0.7  # micro-ops from which loops can go a long way
    fields = encoding.layout(isa.MicroOp, config)
    uops = [
        isa.MicroOp(**{field.name: rng.randrange(2 if small else 1 << field.width) for field in fields})
        for _ in range(config.depth(UOP))
    ]
    dram = np.zeros(max(4096, 2 * config.wgt_buffer_bytes), np.uint8)
    encoded = np.frombuffer(codec.uops_to_bytes(uops, config), np.uint8)
    dram[: len(encoded)] = encoded
    return dram


def random_case(seed, configs=CONFIGS):
    rng = random.Random(seed)
    config = rng.choice(configs)
    return decode_stream(stream_of(random_stream(rng, config), config), config), random_dram(rng, config)


def on_chip(report):
    return {
        (finding.kind, finding.index, finding.partner, finding.memory, finding.element)
        for finding in report
        if finding.memory is not None
    }


def steps_of(item):
    return item.iter_out * item.iter_in * (item.uop_end - item.uop_begin)


@pytest.mark.parametrize("seed", range(300))
def test_random_loops_find_what_a_walk_of_every_step_finds(seed, monkeypatch):
    monkeypatch.setattr(verifier, "MOST_FINDINGS", LIMIT)
    program, dram = random_case(seed)
    report = verifier.findings(program, dram)
    assert on_chip(report) == Walk(program, dram).findings


@pytest.mark.parametrize("seed", range(20))
def test_so_they_do_where_micro_ops_are_wide(seed, monkeypatch):
    monkeypatch.setattr(verifier, "MOST_FINDINGS", LIMIT)
    program, dram = random_case(seed, (WIDE,))
    assert WIDE.uop_bits == 64
    assert on_chip(verifier.findings(program, dram)) == Walk(program, dram).findings


@pytest.mark.parametrize("seed", range(200))
def test_so_they_do_with_rows_of_windows(seed, monkeypatch):
    monkeypatch.setattr(verifier, "MOST_FINDINGS", LIMIT)
    program, dram = random_case(seed, (SLIDING,))
    assert on_chip(verifier.findings(program, dram)) == Walk(program, dram).findings


def test_random_rows_of_windows_are_short_and_long_and_wrong_in_every_way():
    kinds, lengths = Counter(), Counter()
    for seed in range(200):
        program, dram = random_case(seed, (SLIDING,))
        rows = np.flatnonzero(program.opcode == isa.Opcode.DEPTHWISE).tolist()
        lengths.update(steps_of(program.instruction(index)) > 64 for index in rows)
        reported = Walk(program, dram).findings
        kinds.update((kind, MemoryType(memory)) for kind, index, _, memory, _ in reported if index in rows)
    assert min(lengths[False], lengths[True]) > 50
    assert {(kind, memory) for kind in (EMPTY, BEYOND) for memory in (UOP, INP, WGT, ACC)} <= kinds.keys()
    assert {(CONFLICT, memory) for memory in (INP, WGT, ACC)} <= kinds.keys()


@pytest.mark.parametrize("seed", range(5))
def test_following_a_few_instructions_at_a_time_changes_nothing(seed, monkeypatch):
    program, dram = random_case(seed)
    expected = verifier.findings(program, dram)
    monkeypatch.setattr(follow, "ELEMENTS_AT_ONCE", 1)
    assert verifier.findings(program, dram) == expected


@pytest.mark.parametrize(("elements", "at_once"), [(1, 1), (DEEPER_ELEMENTS, 1), (3 * DEEPER_ELEMENTS, 3)])
def test_as_many_instructions_are_followed_at_a_time_as_touch_few_elements(elements, at_once, monkeypatch):
    program, dram = random_case(0, (DEEPER,))
    parts: list[int] = []
    followed = follow._follow
    monkeypatch.setattr(follow, "ELEMENTS_AT_ONCE", elements)
    monkeypatch.setattr(
        follow, "_follow", lambda order, *rest: parts.append(len(order)) or followed(order, *rest)
    )
    verifier.findings(program, dram)
    assert sum(parts) == len(program)
    assert set(parts[:-1]) == {at_once}


def test_random_loops_are_short_and_long_and_wrong_in_every_way():
    kinds, lengths = Counter(), Counter()
    for seed in range(300):
        program, dram = random_case(seed)
        loops = np.flatnonzero(np.isin(program.opcode, (isa.Opcode.GEMM, isa.Opcode.ALU))).tolist()
        lengths.update(steps_of(program.instruction(index)) > 64 for index in loops)
        reported = Walk(program, dram).findings
        kinds.update((kind, MemoryType(memory)) for kind, index, _, memory, _ in reported if index in loops)
    assert min(lengths[False], lengths[True]) > 100
    assert {(EMPTY, memory) for memory in (UOP, INP, WGT, ACC)} <= kinds.keys()
    assert {(BEYOND, memory) for memory in (UOP, INP, WGT, ACC)} <= kinds.keys()
    assert {(CONFLICT, memory) for memory in (INP, WGT, ACC)} <= kinds.keys()


def test_long_loops_name_the_lowest_element_first():
    items = [
        load(UOP),
        load(ACC, x_size=3),
        gemm(reset=1, iter_out=16383, push_next=1),
        alu(AluOpcode.ADD, use_imm=1, iter_out=16383, iter_in=8, dst_factor_in=2),
        isa.Finish(),
    ]
    report = verifier.findings(decode_stream(stream_of(items), CONFIG), np.zeros(4096, np.uint8))
    assert [(finding.index, finding.element) for finding in report] == [
        (3, element) for element in range(4, 16, 2)
    ]


GIANT = {"iter_out": 16383, "iter_in": 16383}
GIANT_ROWS = {"iter_out": 16383, "iter_in": DEFAULT.depth(INP) - 1}
UPWARDS = {"uop_end": 16, "iter_in": 16383, "dst_factor_out": 1}
GIANTS = {
    "that stay where they are": ([alu(AluOpcode.ADD, uop_end=16, **GIANT)], set()),
    "that end at the last element": ([alu(AluOpcode.ADD, **UPWARDS, iter_out=2048)], set()),
    "that go past the end at last": ([alu(AluOpcode.ADD, **UPWARDS, iter_out=2049)], {(BEYOND, ACC, 2048)}),
    "that go past the end at once": ([gemm(uop_end=16, **GIANT, wgt_factor_in=1023)], {(BEYOND, WGT, 2046)}),
    "of windows that stay where they are": ([isa.Depthwise(uop_end=16, **GIANT_ROWS)], set()),
    "of windows that go past the end at last": (
        [isa.Depthwise(uop_end=16, **GIANT_ROWS | {"iter_out": 2050}, dst_factor_out=1, src_factor_out=1)],
        {(BEYOND, INP, 2048)},
    ),
    "with no micro-op": ([alu(AluOpcode.ADD, uop_begin=16, uop_end=16, **GIANT, dst_factor_out=2047)], set()),
    "with a negative number of micro-ops": ([alu(AluOpcode.ADD, uop_begin=16, uop_end=8, **GIANT)], set()),
    "one after the other": ([alu(AluOpcode.ADD, uop_end=16, **GIANT)] * 200, set()),
}


@pytest.mark.parametrize("name", GIANTS)
def test_loops_of_billions_of_steps_are_followed_in_no_time(name):
    items, expected = GIANTS[name]
    program = decode_stream(stream_of([load(UOP, x_size=16), *items, isa.Finish()], DEFAULT), DEFAULT)
    image = np.zeros(1 << 20, np.uint8)
    verifier.findings(program, image, filled=True)  # compiles
    began = time.process_time()
    report = verifier.findings(program, image, filled=True)
    assert time.process_time() - began < 2
    assert {(finding.kind, finding.memory, finding.element) for finding in report} == expected


def test_transfers_that_no_memory_holds_are_refused_in_no_time():
    """Their rows would touch all of DRAM, each of them, before they are found to be too large."""
    items = [store(y_size=65535, x_size=65535, x_stride=index + 1, dram_base=index) for index in range(400)]
    program = decode_stream(stream_of([*items, isa.Finish()], DEFAULT), DEFAULT)
    image = np.zeros(1 << 26, np.uint8)
    verifier.findings(program, image)  # compiles
    began = time.process_time()
    report = verifier.findings(program, image)
    assert time.process_time() - began < 2
    assert {(finding.kind, finding.memory) for finding in report} == {(BEYOND, ACC)}
