"""Instructions of decoded streams equal the encoded instructions, and loops have the steps of their fields."""

from dataclasses import replace

import numpy as np
import pytest
from generators.programs import random_config, random_program

from vdla.hw.spec import codec, isa
from vdla.hw.spec.presets import DEFAULT
from vdla.prove.loops import LoopKey, instructions_of, loop_levels, loop_products, loop_steps
from vdla.sim.decoded import decode_stream

GEMM = isa.Gemm(
    uop_begin=1, uop_end=3, iter_out=2, iter_in=1, dst_factor_out=1, src_factor_out=3, wgt_factor_in=5
)
UOPS = (isa.MicroOp(dst=9), isa.MicroOp(dst=4, src=2, wgt=1), isa.MicroOp(dst=4, src=7, wgt=6))


def key_of(it: isa.Gemm | isa.Alu) -> LoopKey:
    words = np.array([codec.encode(uop, DEFAULT) for uop in UOPS], np.int64)
    return LoopKey.of(DEFAULT, it, words)


@pytest.mark.parametrize("seed", range(10))
def test_instructions_of_a_stream_are_those_that_were_encoded_in_any_order(seed):
    program = random_program(random_config(seed), seed)
    config, rng = program.config, np.random.default_rng(seed)
    stream = np.frombuffer(program.stream, np.uint8).reshape(-1, config.instruction_bytes)
    order = rng.permutation(len(stream)).tolist()
    expected = [codec.decode(int.from_bytes(stream[place].tobytes(), "little"), config) for place in order]
    instructions = list(instructions_of(decode_stream(stream, config), order))
    assert instructions == list(zip(order, expected, strict=True))


def test_steps_are_those_of_the_micro_ops_and_factors_of_an_instruction():
    steps = loop_steps(key_of(GEMM))
    assert steps.dst.tolist() == [4, 4, 5, 5]
    assert steps.src.tolist() == [2, 7, 5, 10]
    assert steps.wgt.tolist() == [1, 6, 1, 6]
    assert loop_steps(key_of(replace(GEMM, src_factor_out=0))).src.tolist() == [2, 7, 2, 7]


@pytest.mark.parametrize(("overwrite", "wgt"), [(False, [1, 6]), (True, [6])])
def test_of_products_that_replace_each_other_only_the_last_is_computed(overwrite, wgt):
    rows = {
        (to, *row.tolist())
        for product in loop_products(key_of(GEMM), overwrite)
        for places in product.dst
        for to, row in zip(places.tolist(), product.wgt, strict=True)
    }
    assert rows == {(4, *wgt), (5, *wgt)}


def test_steps_of_an_alu_instruction_that_read_earlier_results_run_later():
    alu = isa.Alu(uop_begin=1, uop_end=3, iter_out=1, iter_in=1)
    assert [group.tolist() for group in loop_levels(key_of(alu), True)] == [[0], [1]]
    apart = isa.Alu(uop_begin=0, uop_end=2, iter_out=1, iter_in=1)
    assert [group.tolist() for group in loop_levels(key_of(apart), True)] == [[0, 1]]
