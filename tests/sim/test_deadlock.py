"""A deadlock explains itself: every wait, who should have supplied what, and how the waits hang together."""

import random
from dataclasses import replace

import pytest

from vdla.hw.spec import isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import DeadlockError
from vdla.runtime.random_programs import random_config, random_program
from vdla.sim.interleave import interleave
from vdla.sim.program import decode_program

from .helpers import CONFIG, INP, gemm, load, store, stream_of

SHALLOW = CONFIG.with_changes(load_queue_depth=2, compute_queue_depth=2, store_queue_depth=2, token_depth=1)

CASES = {
    "two units wait for each other": (CONFIG, (load(INP, pop_next=1, push_next=1), gemm(pop_prev=1, push_prev=1)), """\
load: {0} waits for a token compute->load (instruction 1 of the compute unit pushes one, but waits itself)
compute: {1} waits for a token load->compute (instruction 0 of the load unit pushes one, but waits itself)
store: its queue is empty
cycle of waits: load -> compute -> load"""),
    "the supplier stands behind one that waits": (CONFIG, (load(INP, pop_next=1), load(INP, push_next=1), gemm(pop_prev=1), gemm(push_prev=1)), """\
load: {0} waits for a token compute->load (instruction 3 of the compute unit pushes one, but stands behind instruction 2)
compute: {2} waits for a token load->compute (instruction 1 of the load unit pushes one, but stands behind instruction 0)
store: its queue is empty
cycle of waits: load -> compute -> load"""),
    "a push was forgotten": (CONFIG, (load(INP), gemm(pop_prev=1, push_next=1), store(pop_prev=1)), """\
load: its queue is empty
compute: {1} waits for a token load->compute (nothing that is left pushes one; {0}, the last of the load unit before it, does not)
store: {2} waits for a token compute->store (instruction 1 of the compute unit pushes one, but waits itself)
chain of waits: compute, which waits for a token load->compute that nothing pushes"""),
    "a chain of three ends at it": (CONFIG, (store(pop_prev=1), load(INP), gemm(pop_prev=1, push_next=1)), """\
load: its queue is empty
compute: {2} waits for a token load->compute (nothing that is left pushes one; {1}, the last of the load unit before it, does not)
store: {0} waits for a token compute->store (instruction 2 of the compute unit pushes one, but waits itself)
chain of waits: store -> compute, which waits for a token load->compute that nothing pushes"""),
    "one pop too many": (CONFIG, (load(INP, push_next=1), gemm(pop_prev=1), gemm(pop_prev=1)), """\
load: its queue is empty
compute: {2} waits for a token load->compute (nothing that is left pushes one; all that were pushed are popped)
store: its queue is empty
chain of waits: compute, which waits for a token load->compute that nothing pushes"""),
    "nothing comes before it": (CONFIG, (gemm(pop_next=1),), """\
load: its queue is empty
compute: {0} waits for a token store->compute (nothing that is left pushes one; the store unit has no instruction before it)
store: its queue is empty
chain of waits: compute, which waits for a token store->compute that nothing pushes"""),
    "no room for a token": (SHALLOW, (load(INP, push_next=1), load(INP, push_next=1)), """\
load: {1} waits for room on load->compute, which holds 1 tokens (nothing that is left pops one; the compute unit has no instruction before it)
compute: its queue is empty
store: its queue is empty
chain of waits: load, which waits for room on load->compute that nothing makes"""),
    "dispatch is blocked": (SHALLOW, (gemm(pop_prev=1), gemm(), gemm(), load(INP, push_next=1)), """\
load: its queue is empty
compute: {0} waits for a token load->compute (instruction 3 of the load unit pushes one, but is not dispatched)
store: its queue is empty
dispatch: {2} waits for a place in the compute queue, which holds 2
cycle of waits: compute -> dispatch -> compute"""),
}


def error_of(instructions, config=CONFIG):
    return interleave(decode_program(stream_of(instructions, config), config)).error


@pytest.mark.parametrize("name", CASES)
def test_the_message_says(name):
    config, instructions, expected = CASES[name]
    error = error_of((*instructions, isa.Finish(pop_prev=1) if name.startswith("nothing") else isa.Finish()), config)
    named = [f"instruction {index} ({format_instruction(item)})" for index, item in enumerate(instructions)]
    assert str(error) == "\n  ".join(["deadlock: no unit can go on", *expected.format(*named).splitlines()])


def broken(seed: int):
    """Return a random program from which one flag of a token is taken."""
    rng, program = random.Random(seed), random_program(random_config(seed), seed, 30)
    flagged = [(index, flag) for index, item in enumerate(program.instructions)
               for flag in ("pop_prev", "pop_next", "push_prev", "push_next") if getattr(item, flag)]
    index, flag = rng.choice(flagged)
    items = list(program.instructions)
    items[index] = replace(items[index], **{flag: 0})
    return items, program.config


def test_broken_programs_name_what_waits_and_a_supplier_that_has_not_executed():
    deadlocks = 0
    for seed in range(150):
        items, config = broken(seed)
        program = decode_program(stream_of(items, config), config)
        found = interleave(program)
        if isinstance(found.error, DeadlockError):
            deadlocks += 1
            executed, lines = set(found.order.tolist()), str(found.error).splitlines()
            assert lines[-1].strip().startswith(("cycle of waits:", "chain of waits:"))
            for line in lines:
                _, _, supplier = line.partition("(instruction ")
                assert not supplier or int(supplier.split()[0]) not in executed
            assert found.error.index not in executed
    assert deadlocks > 20


def test_a_long_program_is_explained_without_delay():
    error = error_of([*[gemm(push_prev=1), load(INP, pop_next=1)] * 20_000, gemm(pop_prev=1), isa.Finish()])
    assert f"instruction {40_000} " in str(error)
