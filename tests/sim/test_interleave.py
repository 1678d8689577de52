"""Queues and tokens: which orders are legal, and what a program that cannot go on is told."""

import numpy as np

from tests.sim.helpers import ACC, CONFIG, INP, UOP, WGT, gemm, load, machine_with, run, store, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import DeadlockError, InvalidInstructionError, UnfinishedError
from vdla.sim.decoded import decode_stream
from vdla.sim.interleave import interleave

SHALLOW = CONFIG.with_changes(load_queue_depth=2, compute_queue_depth=2, store_queue_depth=2, token_depth=1)


def order_of(*instructions, config=CONFIG, seed=None):
    """Return the order in which `instructions` execute, and the error at its end."""
    interleaving = interleave(decode_stream(stream_of(instructions, config), config), seed)
    return interleaving.order.tolist(), interleaving.error


def test_program_order_is_kept_where_it_is_legal():
    program = (load(INP, push_next=1), gemm(pop_prev=1, push_next=1), store(pop_prev=1), isa.Finish())
    assert order_of(*program) == ([0, 1, 2, 3], None)


def test_an_instruction_waits_for_its_token():
    program = (store(pop_prev=1), gemm(pop_prev=1, push_next=1), load(INP, push_next=1), isa.Finish())
    assert order_of(*program) == ([2, 1, 0, 3], None)


def test_units_run_their_own_instructions_in_order():
    program = [load(INP, sram_base=i) if i % 2 else gemm() for i in range(40)] + [isa.Finish()]
    for seed in range(20):
        order, error = order_of(*program, seed=seed)
        assert error is None
        assert [i for i in order if i % 2] == [*range(1, 40, 2)]
        assert [i for i in order if i % 2 == 0] == [*range(0, 41, 2)]


def test_seeds_pick_different_orders_and_repeat_them():
    program = [load(INP) if i % 2 else gemm() for i in range(10)] + [isa.Finish()]
    orders = {seed: order_of(*program, seed=seed)[0] for seed in range(10)}
    assert len({tuple(order) for order in orders.values()}) > 5
    assert orders == {seed: order_of(*program, seed=seed)[0] for seed in range(10)}


def test_a_full_queue_blocks_dispatch():
    program = [gemm(pop_prev=1), gemm(), gemm(), load(INP, push_next=1), isa.Finish()]
    assert order_of(*program)[0] == [3, 0, 1, 2, 4]
    order, error = order_of(*program, config=SHALLOW)
    assert order == []
    assert "dispatch: instruction 2 " in str(error)


def test_flags_without_an_edge_do_nothing():
    program = (load(INP, pop_prev=1, push_prev=1), store(pop_next=1, push_next=1), isa.Finish())
    assert order_of(*program) == ([0, 1, 2], None)


def test_a_push_waits_for_room():
    program = (
        load(INP, push_next=1),
        load(INP, push_next=1),
        gemm(pop_prev=1),
        gemm(pop_prev=1),
        isa.Finish(),
    )
    assert order_of(*program, config=SHALLOW) == ([0, 2, 1, 3, 4], None)


def test_a_push_without_room_deadlocks():
    program = (load(INP, push_next=1), load(WGT, push_next=1), isa.Finish())
    order, error = order_of(*program, config=SHALLOW)
    assert order == [0, 2]
    assert isinstance(error, DeadlockError)
    assert error.index == 1
    assert "waits for room on load->compute, which holds 1 tokens" in str(error)


def test_finish_does_not_excuse_waiting_units():
    _, error = order_of(store(pop_prev=1), isa.Finish())
    assert isinstance(error, DeadlockError)


def test_two_missing_tokens_are_both_named():
    program = (gemm(pop_prev=1, pop_next=1), isa.Finish())
    _, error = order_of(*program)
    assert f"instruction 0 ({format_instruction(program[0])}) waits for a token load->compute (" in str(error)
    assert " and a token store->compute (" in str(error)


def test_a_stream_without_finish_executes_and_is_refused():
    order, error = order_of(gemm(), load(INP))
    assert order == [0, 1]
    assert isinstance(error, UnfinishedError)
    assert str(error) == "all 2 instructions were executed and none was FINISH; end the stream with FINISH"


def test_an_empty_stream_is_unfinished():
    interleaving = interleave(decode_stream(np.zeros((0, 16), np.uint8), CONFIG))
    assert isinstance(interleaving.error, UnfinishedError)


def test_instructions_before_an_invalid_one_execute():
    stream = stream_of([gemm(), gemm(), isa.Finish()]).copy()
    stream[1] = 0xFF
    interleaving = interleave(decode_stream(stream, CONFIG))
    assert interleaving.order.tolist() == [0]
    assert isinstance(interleaving.error, InvalidInstructionError)


def test_an_invalid_instruction_that_dispatch_never_reaches_is_a_deadlock():
    stream = stream_of([gemm(pop_prev=1), gemm(), gemm(), isa.Finish()], SHALLOW).copy()
    stream[3] = 0xFF
    assert isinstance(interleave(decode_stream(stream, SHALLOW)).error, DeadlockError)


def test_an_invalid_instruction_that_dispatch_met_comes_before_a_deadlock():
    stream = stream_of([gemm(pop_prev=1), gemm(), gemm(), isa.Finish()]).copy()
    stream[3] = 0xFF
    error = interleave(decode_stream(stream, CONFIG)).error
    assert isinstance(error, InvalidInstructionError)
    assert error.index == 3


def test_what_stands_after_finish_does_not_matter():
    stream = stream_of([gemm(), isa.Finish(), gemm(pop_prev=1)]).copy()
    stream[2] = 0xFF
    interleaving = interleave(decode_stream(stream, CONFIG))
    assert (interleaving.order.tolist(), interleaving.error) == ([0, 1], None)


def test_a_lost_token_shows_as_a_wrong_result_for_some_seed():
    def result(token, seed):
        dram = np.zeros(4096, np.uint8)
        dram[0:4], dram[16:32] = 1, 1
        machine = machine_with()
        run(
            machine,
            load(INP),
            load(WGT, dram_base=1, push_next=token),
            gemm(pop_prev=token),
            dram=dram,
            seed=seed,
        )
        return machine.pads.acc[0, 0, 0]

    assert {result(1, seed) for seed in range(20)} == {4}
    assert {result(0, seed) for seed in range(20)} == {0, 4}


def test_long_streams_end():
    program = [load(UOP), *[load(INP, push_next=1), load(ACC, pop_prev=1)] * 20000, isa.Finish()]
    middle = np.tile(stream_of(program[1:3]), (20000, 1))
    stream = np.concatenate([stream_of(program[:1]), middle, stream_of(program[-1:])])
    for seed in (None, 1):
        interleaving = interleave(decode_stream(stream, CONFIG), seed)
        assert interleaving.error is None
        assert len(interleaving.order) == len(program)
