"""The reference verifier: its verdict on small streams, and its agreement with the stream verifier."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from verification.faults import FAULTS
from verification.reference import ACC, BEYOND, BROKEN, CONFLICT, DRAM, EMPTY, INP, UOP, WGT, Verdict
from verification.streams import damaged, disagreement, random_stream, verifier_verdict
from verify_faults import Subject

from tests.sim.helpers import ACC_8BIT, CONFIG, alu, gemm, load, store
from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.sim.verify.verifier import MOST_FINDINGS, findings

ROOT = Path(__file__).resolve().parents[2]
FULL = CONFIG.with_changes(name="full", block_in=8, block_out=8, extensions=tuple(Extension))
READY = [load(UOP), load(ACC, x_size=4), load(INP, push_next=1), load(WGT, push_next=1)]
"""Loads of what a GEMM of one step uses; two instructions of the load unit push a token."""
WAIT = load(UOP, sram_base=1, pop_prev=1)


def unsafe(index: int, *violations: tuple[str, object, int]) -> Verdict:
    return Verdict("unsafe", index, frozenset(violations))


VERDICTS = {
    "a safe stream": ([*READY, WAIT, gemm(pop_prev=1)], Verdict()),
    "no FINISH is reached": ([gemm(pop_prev=1)], Verdict("stuck")),
    "a token too many": ([load(INP, push_next=1)] * (CONFIG.token_depth + 1), Verdict("stuck")),
    "no token for the weights": (
        [*READY[:-1], load(WGT), gemm(pop_prev=1)],
        unsafe(4, (CONFLICT, WGT, 0)),
    ),
    "nothing in the accumulators": (
        [READY[0], *READY[2:], WAIT, gemm(pop_prev=1)],
        unsafe(4, (EMPTY, ACC, 0)),
    ),
    "an accumulator that the instruction itself wrote": (
        [load(UOP), load(ACC), alu(AluOpcode.ADD, iter_in=2, src_factor_in=1, dst_factor_in=1)],
        unsafe(2, (EMPTY, ACC, 1)),
    ),
    "a micro-op beyond its memory": (
        [load(UOP, x_size=16), gemm(reset=1, uop_begin=15, uop_end=17)],
        unsafe(1, (BEYOND, UOP, 16)),
    ),
    "a row of DRAM beyond its end": (
        [load(INP, dram_base=1024 - 1, x_size=2)],
        unsafe(0, (BEYOND, DRAM, 4092)),
    ),
    "micro-ops that the stream stores": ([load(UOP), load(ACC), store()], Verdict("overwrites")),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_both_verifiers_give_the_verdict(name):
    items, expected = VERDICTS[name]
    subject = Subject(CONFIG, (*items, isa.Finish()), np.zeros(4096, np.uint8), filled=False)
    assert disagreement(subject) == ""
    assert verifier_verdict(subject) == expected


@pytest.mark.parametrize(
    ("element", "memory", "pushes", "broken"),
    [
        (0, ACC, 0, True),
        (FULL.depth(ACC) // 2, ACC, 0, False),
        (FULL.depth(ACC) // 2 - 1, ACC_8BIT, 0, True),
        (0, ACC, 1, False),
    ],
)
def test_a_load_beside_a_gemm_writes_the_other_half(element, memory, pushes, broken):
    beside = load(memory, sram_base=element, beside=1, push_next=pushes)
    items = (load(UOP), gemm(reset=1), beside, isa.Finish())
    subject = Subject(FULL, items, np.zeros(4096, np.uint8), filled=False)
    expected = unsafe(2, (BROKEN, ACC, element)) if broken else Verdict()
    assert disagreement(subject) == ""
    assert verifier_verdict(subject) == expected


@pytest.mark.parametrize("seed", range(60))
def test_they_agree_on_random_and_damaged_streams(seed):
    subject = random_stream(seed + 1000)
    assert disagreement(subject) == ""
    assert disagreement(damaged(subject, random.Random(seed))) == ""


def test_a_place_in_conflict_with_two_units_counts_twice_among_the_findings():
    """The verifier reports as many findings of this stream as it can, which are half as many violations, and
    leaves out others."""
    config, count = FULL.with_changes(inp_buffer_bytes=512, acc_buffer_bytes=2048), 60
    items = (
        store(memory_type=INP, dram_base=0, x_size=count, push_prev=1),
        gemm(pop_next=1, overwrite=1, iter_in=count, src_factor_in=1),
        load(INP, x_size=count),
        isa.Finish(),
    )
    subject = Subject(config, items, np.zeros(4096, np.uint8), filled=True)
    assert len(findings(subject.program(), subject.image, filled=True)) == MOST_FINDINGS
    assert len(verifier_verdict(subject).violations) == MOST_FINDINGS // 2
    assert disagreement(subject) == ""


def test_damaged_streams_are_safe_stuck_and_unsafe():
    verdicts = Counter(
        verifier_verdict(damaged(random_stream(seed), random.Random(seed))).fault for seed in range(1, 120, 2)
    )
    assert min(verdicts["stuck"], verdicts["unsafe"]) > 2
    assert verdicts[""] > 2


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_planted_faults_find_their_place(fault):
    source = (ROOT / fault.module).read_text(encoding="utf-8")
    assert fault.planted(source) != source
