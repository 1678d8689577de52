"""A deadlock explains itself: every wait, who should have supplied what, and how the waits hang together."""

import random
import re
import time
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from generators.programs import random_config, random_program

from tests.sim.helpers import CONFIG, INP, gemm, load, store, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import DeadlockError
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.deadlock import Standstill, explain
from vdla.sim.decoded import decode_stream
from vdla.sim.interleave import interleave

SHALLOW = CONFIG.with_changes(load_queue_depth=2, compute_queue_depth=2, store_queue_depth=2, token_depth=1)

CASES = {
    "two units wait for each other": (
        CONFIG,
        (load(INP, pop_next=1, push_next=1), gemm(pop_prev=1, push_prev=1)),
        """\
load: {0} waits for a token compute->load (instruction 1 of the compute unit pushes one, but waits itself)
compute: {1} waits for a token load->compute (instruction 0 of the load unit pushes one, but waits itself)
store: its queue is empty
cycle of waits: load waits for compute, compute waits for load""",
    ),
    "the supplier stands behind one that waits": (
        CONFIG,
        (load(INP, pop_next=1), load(INP, push_next=1), gemm(pop_prev=1), gemm(push_prev=1)),
        """\
load: {0} waits for a token compute->load (instruction 3 of the compute unit pushes one, but is queued behind instruction 2)
compute: {2} waits for a token load->compute (instruction 1 of the load unit pushes one, but is queued behind instruction 0)
store: its queue is empty
cycle of waits: load waits for compute, compute waits for load""",
    ),
    "a push was forgotten": (
        CONFIG,
        (load(INP), gemm(pop_prev=1, push_next=1), store(pop_prev=1)),
        """\
load: its queue is empty
compute: {1} waits for a token load->compute (no remaining instruction pushes one; \
likely culprit: {0} is the last of the load unit before it and pushes none)
store: {2} waits for a token compute->store (instruction 1 of the compute unit pushes one, but waits itself)
chain of waits: compute waits for a token load->compute that nothing pushes""",
    ),
    "a chain of three ends at it": (
        CONFIG,
        (store(pop_prev=1), load(INP), gemm(pop_prev=1, push_next=1)),
        """\
load: its queue is empty
compute: {2} waits for a token load->compute (no remaining instruction pushes one; \
likely culprit: {1} is the last of the load unit before it and pushes none)
store: {0} waits for a token compute->store (instruction 2 of the compute unit pushes one, but waits itself)
chain of waits: store waits for compute, compute waits for a token load->compute that nothing pushes""",
    ),
    "one pop too many": (
        CONFIG,
        (load(INP, push_next=1), gemm(pop_prev=1), gemm(pop_prev=1)),
        """\
load: its queue is empty
compute: {2} waits for a token load->compute (no remaining instruction pushes one; 1 pushed, number 2 needed)
store: its queue is empty
chain of waits: compute waits for a token load->compute that nothing pushes""",
    ),
    "nothing comes before it": (
        CONFIG,
        (gemm(pop_next=1),),
        """\
load: its queue is empty
compute: {0} waits for a token store->compute (no remaining instruction pushes one; the store unit has no instruction before it)
store: its queue is empty
chain of waits: compute waits for a token store->compute that nothing pushes""",
    ),
    "no room for a token": (
        SHALLOW,
        (load(INP, push_next=1), load(INP, push_next=1)),
        """\
load: {1} waits for room on load->compute, which holds 1 tokens (no remaining instruction pops one; 1 pushed, 0 popped; \
the compute unit has no instruction before it)
compute: its queue is empty
store: its queue is empty
chain of waits: load waits for room on load->compute that nothing makes""",
    ),
    "dispatch is blocked": (
        SHALLOW,
        (gemm(pop_prev=1), gemm(), gemm(), load(INP, push_next=1)),
        """\
load: its queue is empty
compute: {0} waits for a token load->compute (instruction 3 of the load unit pushes one, but is not dispatched)
store: its queue is empty
dispatch: {2} waits for a place in the compute queue, which holds 2
cycle of waits: compute waits for dispatch, dispatch waits for compute""",
    ),
    "three units wait, two of them for each other": (
        CONFIG,
        (load(INP, pop_next=1), gemm(pop_next=1, push_prev=1, push_next=1), store(pop_prev=1, push_prev=1)),
        """\
load: {0} waits for a token compute->load (instruction 1 of the compute unit pushes one, but waits itself)
compute: {1} waits for a token store->compute (instruction 2 of the store unit pushes one, but waits itself)
store: {2} waits for a token compute->store (instruction 1 of the compute unit pushes one, but waits itself)
cycle of waits: compute waits for store, store waits for compute""",
    ),
    "three units wait in a cycle, which only dispatch can close": (
        SHALLOW,
        (
            store(pop_prev=1, push_prev=1),
            gemm(pop_next=1, push_prev=1),
            load(INP, pop_next=1),
            load(INP),
            load(INP),
            gemm(push_next=1),
        ),
        """\
load: {2} waits for a token compute->load (instruction 1 of the compute unit pushes one, but waits itself)
compute: {1} waits for a token store->compute (instruction 0 of the store unit pushes one, but waits itself)
store: {0} waits for a token compute->store (instruction 5 of the compute unit pushes one, but is not dispatched)
dispatch: {4} waits for a place in the load queue, which holds 2
cycle of waits: store waits for dispatch, dispatch waits for load, load waits for compute, compute waits for store""",
    ),
    "the push stands behind FINISH": (
        CONFIG,
        (
            load(INP, push_next=1),
            gemm(pop_prev=1),
            gemm(pop_prev=1),
            isa.Finish(),
            load(INP, push_next=1),
            gemm(pop_prev=1),
        ),
        """\
load: its queue is empty
compute: {2} waits for a token load->compute (no remaining instruction pushes one; 1 pushed, number 2 needed)
store: its queue is empty
chain of waits: compute waits for a token load->compute that nothing pushes""",
    ),
    "a push was forgotten after two": (
        CONFIG,
        (
            load(INP, push_next=1),
            load(INP, push_next=1),
            load(INP),
            gemm(pop_prev=1),
            gemm(pop_prev=1),
            gemm(pop_prev=1),
        ),
        """\
load: its queue is empty
compute: {5} waits for a token load->compute (no remaining instruction pushes one; 2 pushed, number 3 needed; \
likely culprit: {2} is the last of the load unit before it and pushes none)
store: its queue is empty
chain of waits: compute waits for a token load->compute that nothing pushes""",
    ),
    "a pop was forgotten": (
        SHALLOW,
        (load(INP, push_next=1), gemm(pop_prev=1), load(INP, push_next=1), gemm(), load(INP, push_next=1)),
        """\
load: {4} waits for room on load->compute, which holds 1 tokens (no remaining instruction pops one; 2 pushed, 1 popped; \
likely culprit: {3} is the last of the compute unit before it and pops none)
compute: its queue is empty
store: its queue is empty
chain of waits: load waits for room on load->compute that nothing makes""",
    ),
    "the one that would make room waits": (
        SHALLOW,
        (load(INP, push_next=1), load(INP, push_next=1), gemm(pop_prev=1, pop_next=1)),
        """\
load: {1} waits for room on load->compute, which holds 1 tokens (instruction 2 of the compute unit pops one, but waits itself)
compute: {2} waits for a token store->compute (no remaining instruction pushes one; the store unit has no instruction before it)
store: its queue is empty
chain of waits: load waits for compute, compute waits for a token store->compute that nothing pushes""",
    ),
    "the supplier is the instruction that dispatch finds no place for": (
        SHALLOW,
        (gemm(pop_prev=1), load(INP, pop_next=1), load(INP), load(INP, push_next=1), gemm(push_prev=1)),
        """\
load: {1} waits for a token compute->load (instruction 4 of the compute unit pushes one, but is not dispatched)
compute: {0} waits for a token load->compute (instruction 3 of the load unit pushes one, but is not dispatched)
store: its queue is empty
dispatch: {3} waits for a place in the load queue, which holds 2
cycle of waits: dispatch waits for load, load waits for dispatch""",
    ),
    "an instruction waits for two tokens, and for room": (
        SHALLOW,
        (gemm(push_next=1), gemm(pop_prev=1, pop_next=1, push_next=1)),
        """\
load: its queue is empty
compute: {1} waits for a token load->compute (no remaining instruction pushes one; the load unit has no instruction before it) \
and room on compute->store, which holds 1 tokens (no remaining instruction pops one; 1 pushed, 0 popped; \
the store unit has no instruction before it) \
and a token store->compute (no remaining instruction pushes one; the store unit has no instruction before it)
store: its queue is empty
chain of waits: compute waits for a token load->compute that nothing pushes""",
    ),
    "dispatch waits for a place in the store queue": (
        CONFIG.with_changes(load_queue_depth=8, compute_queue_depth=4, store_queue_depth=2),
        (store(pop_prev=1), store(), store(), gemm(push_next=1)),
        """\
load: its queue is empty
compute: its queue is empty
store: {0} waits for a token compute->store (instruction 3 of the compute unit pushes one, but is not dispatched)
dispatch: {2} waits for a place in the store queue, which holds 2
cycle of waits: store waits for dispatch, dispatch waits for store""",
    ),
    "dispatch waits for a place in the compute queue": (
        CONFIG.with_changes(load_queue_depth=8, compute_queue_depth=4, store_queue_depth=2),
        (*[gemm(pop_prev=1)] * 5, load(INP, push_next=1)),
        """\
load: its queue is empty
compute: {0} waits for a token load->compute (instruction 5 of the load unit pushes one, but is not dispatched)
store: its queue is empty
dispatch: {4} waits for a place in the compute queue, which holds 4
cycle of waits: compute waits for dispatch, dispatch waits for compute""",
    ),
    "dispatch waits for a place in the load queue": (
        CONFIG.with_changes(load_queue_depth=8, compute_queue_depth=4, store_queue_depth=2),
        (*[load(INP, pop_next=1)] * 9, gemm(push_prev=1)),
        """\
load: {0} waits for a token compute->load (instruction 9 of the compute unit pushes one, but is not dispatched)
compute: its queue is empty
store: its queue is empty
dispatch: {8} waits for a place in the load queue, which holds 8
cycle of waits: load waits for dispatch, dispatch waits for load""",
    ),
    "nothing makes room again and again": (
        CONFIG.with_changes(token_depth=3),
        (gemm(), *[gemm(push_prev=1)] * 5, load(INP, pop_next=1), load(INP)),
        """\
load: its queue is empty
compute: {5} waits for room on compute->load, which holds 3 tokens (no remaining instruction pops one; 4 pushed, 1 popped; \
the load unit has no instruction before it)
store: its queue is empty
chain of waits: compute waits for room on compute->load that nothing makes""",
    ),
}


def error_of(instructions, config=CONFIG):
    return interleave(decode_stream(stream_of(instructions, config), config)).error


@pytest.mark.parametrize("name", CASES)
def test_the_message_says(name):
    config, instructions, expected = CASES[name]
    error = error_of(
        (*instructions, isa.Finish(pop_prev=1) if name.startswith("nothing") else isa.Finish()), config
    )
    named = [f"instruction {index} ({format_instruction(item)})" for index, item in enumerate(instructions)]
    assert str(error) == "\n  ".join(["deadlock: no unit can go on", *expected.format(*named).splitlines()])


@cache
def broken(seed: int):
    """Return a random program from which one flag of a token is taken."""
    rng, program = random.Random(seed), random_program(random_config(seed), seed, 30)
    flagged = [
        (index, flag)
        for index, item in enumerate(program.instructions)
        for flag in ("pop_prev", "pop_next", "push_prev", "push_next")
        if getattr(item, flag)
    ]
    index, flag = rng.choice(flagged)
    items = list(program.instructions)
    items[index] = replace(items[index], **{flag: 0})
    return tuple(items), program.config


CLAIM = re.compile(
    r"(a token|room on) (\w+->\w+)[^()]* \((?:instruction (\d+) of the \w+ unit (?:pushes|pops) "
    r"one|no remaining instruction)"
)


def claims(text: str):
    """Yield, for each lack that `text` names: whether of a token, the edge's place, the supplier (None:
    nothing)."""
    for kind, edge, supplier in CLAIM.findall(text):
        yield (
            kind == "a token",
            [str(it) for it in TOKEN_EDGES].index(edge),
            int(supplier) if supplier else None,
        )


def first_that_supplies(program, executed, token, edge):
    """Return the first instruction, up to FINISH, that would supply what lacks and has not executed; None:
    there is none."""
    flags = program.pushes if token else program.pops
    return next(
        (index for index in range(program.dispatched) if index not in executed and flags[index, edge]), None
    )


@pytest.mark.parametrize("seed", range(150))
def test_a_broken_program_names_what_waits_and_the_first_supplier_that_has_not_executed(seed):
    items, config = broken(seed)
    program = decode_stream(stream_of(items, config), config)
    interleaving = interleave(program)
    if not isinstance(interleaving.error, DeadlockError):
        return
    executed, (_, *lines, chain) = set(interleaving.order.tolist()), str(interleaving.error).splitlines()
    waiting = [line for line in lines if " waits for " in line]
    assert re.fullmatch(r"  (cycle|chain) of waits: .* waits for .*", chain)
    assert interleaving.error.index not in executed
    assert any(re.match(rf"  \w+: instruction {interleaving.error.index} ", line) for line in waiting)
    for line in waiting:
        index = int(re.match(r"  \w+: instruction (\d+) ", line)[1])
        assert index not in executed
        assert any(claims(line)) or line.startswith("  dispatch: ")
        for token, edge, supplier in claims(line):
            assert (program.pops if token else program.pushes)[index, edge]
            assert supplier == first_that_supplies(program, executed, token, edge)


def test_enough_broken_programs_deadlock_to_show_something():
    errors = [error_of(items, config) for items, config in map(broken, range(150))]
    assert sum(isinstance(error, DeadlockError) for error in errors) > 20


@pytest.mark.parametrize("seed", range(150))
def test_every_step_of_the_chain_is_a_wait_that_the_lines_name(seed):
    error = error_of(*broken(seed))
    if not isinstance(error, DeadlockError):
        return
    _, *lines, chain = str(error).splitlines()
    waits = {line.split(":")[0].strip(): line for line in lines}
    steps = [step.split(" waits for ") for step in chain.partition(" of waits: ")[2].split(", ")]
    assert all(after == following for (_, after), (following, _) in pairwise(steps))
    assert "cycle" not in chain or steps[-1][1] == steps[0][0]
    for place, after in steps:
        assert reason_of(place, after) in waits[place].partition(" waits for ")[2]


def reason_of(place: str, after: str) -> str:
    """Return what the line of `place` says where `place` waits for `after`."""
    if " that nothing " in after:
        return after.partition(" that nothing ")[0]
    if place == "dispatch":
        return f"a place in the {after} queue"
    return "but is not dispatched" if after == "dispatch" else f"of the {after} unit"


def test_a_queue_into_which_the_first_instruction_left_has_not_come_has_no_head():
    program = decode_stream(stream_of([load(INP), gemm(), gemm(), isa.Finish()]), CONFIG)
    left = tuple(np.array(indices, np.int64) for indices in ([], [1, 2], []))
    states = [Standstill(program, (0,) * len(TOKEN_EDGES), dispatched, left) for dispatched in (1, 2, 4)]
    assert [state.head(Unit.COMPUTE) for state in states] == [None, 1, 1]
    assert [state.head(Unit.LOAD) for state in states] == [None] * 3
    assert [state.stuck_in_dispatch for state in states] == [1, 2, None]


def test_a_program_of_a_million_instructions_is_explained_at_once():
    middle = np.tile(stream_of([gemm(push_prev=1), load(INP, pop_next=1)]), (500_000, 1))
    program = decode_stream(
        np.concatenate([stream_of([gemm(pop_prev=1)]), middle, stream_of([isa.Finish()])]), CONFIG
    )
    left = tuple(np.flatnonzero(program.unit == unit) for unit in Unit)
    state = Standstill(program, (0,) * len(TOKEN_EDGES), len(program), left)
    began = time.perf_counter()
    assert explain(state).index == 0
    assert time.perf_counter() - began < 1


def test_a_long_program_is_explained_without_delay():
    error = error_of([*[gemm(push_prev=1), load(INP, pop_next=1)] * 20_000, gemm(pop_prev=1), isa.Finish()])
    assert f"instruction {40_000} " in str(error)
