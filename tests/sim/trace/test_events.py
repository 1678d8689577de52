"""Tokens: which push a pop takes, and how many an edge holds in between; a run as text."""

import numpy as np
import pytest

from tests.sim.timing.test_simulate import decoded, random_decoded
from vdla.hw.spec import isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Statistic
from vdla.sim.timing.result import NEVER
from vdla.sim.timing.simulate import simulate
from vdla.sim.trace.events import executed, held, held_after, label, lines, tokens, waits, work_begins

LOAD_TO_COMPUTE = 0


def run_ahead():
    """Return a run in which the load unit pushes three tokens while the compute unit waits for memory."""
    ahead = isa.Load(memory_type=MemoryType.INP, push_next=1)
    slow = isa.Load(memory_type=MemoryType.UOP, y_size=1, x_size=1)
    take = isa.Gemm(pop_prev=1)
    return simulate(
        decoded(slow, ahead, ahead, ahead, take, take, isa.Finish(pop_prev=1)),
        MemoryParameters(100, 4),
        log=True,
    )


def counted(timing, edge):
    """Return int64[cycles + 1]: the tokens an edge holds in each cycle, by counting."""
    change = np.zeros(timing.cycles + 1, np.int64)
    for index in range(len(timing.program)):
        if timing.program.pushes[index, edge] and timing.retired[index] != NEVER:
            change[timing.retired[index] + 1] += 1
        if timing.program.pops[index, edge] and timing.started[index] != NEVER:
            change[timing.started[index] + 1] -= 1
    return np.cumsum(change)


def test_of_several_tokens_the_first_pushed_is_popped_first():
    timing = run_ahead()
    assert timing.retired[3] < timing.started[4]  # all three are there before the first is taken
    assert [(token.producer, token.consumer) for token in tokens(timing)] == [(1, 4), (2, 5), (3, 6)]
    assert {token.edge for token in tokens(timing)} == {TOKEN_EDGES[LOAD_TO_COMPUTE]}


def test_an_edge_holds_what_was_pushed_and_not_popped():
    timing = run_ahead()
    cycles, counts = held(timing, LOAD_TO_COMPUTE)
    moved = [*timing.retired[1:4], *timing.started[4:7]]
    assert counts.tolist() == [1, 2, 3, 2, 1, 0]
    assert cycles.tolist() == [cycle + 1 for cycle in moved]
    after_push, after_pop = held_after(timing)
    assert after_push[:, LOAD_TO_COMPUTE].tolist() == [0, 1, 2, 3, 0, 0, 0]
    assert after_pop[:, LOAD_TO_COMPUTE].tolist() == [0, 0, 0, 0, 2, 1, 0]


def test_an_edge_nobody_uses_holds_nothing():
    cycles, counts = held(simulate(decoded(isa.Finish())), LOAD_TO_COMPUTE)
    assert (len(cycles), len(counts)) == (0, 0)


@pytest.mark.parametrize("edge", range(len(TOKEN_EDGES)), ids=map(str, TOKEN_EDGES))
@pytest.mark.parametrize("seed", range(6))
def test_held_tokens_are_those_counted_cycle_by_cycle(seed, edge):
    timing = simulate(random_decoded(seed))
    expected = counted(timing, edge)
    cycles, counts = held(timing, edge)
    shown = np.zeros(timing.cycles + 1, np.int64)
    for cycle, count in zip(cycles, counts, strict=True):
        shown[cycle:] = count
    np.testing.assert_array_equal(shown, expected)
    assert expected.min() >= 0
    assert expected.max() <= timing.program.config.token_depth


@pytest.mark.parametrize("seed", range(6))
def test_counts_after_pushes_and_pops_follow_from_each_other(seed):
    timing = simulate(random_decoded(seed))
    after_push, after_pop = held_after(timing)
    program = timing.program
    for edge in range(len(TOKEN_EDGES)):
        moves = [(timing.retired[i], 0, i) for i in np.flatnonzero(program.pushes[:, edge])]
        moves += [(timing.started[i], 1, i) for i in np.flatnonzero(program.pops[:, edge])]
        count = 0
        for _, pops, index in sorted(moves):
            count += -1 if pops else 1
            assert (after_pop if pops else after_push)[index, edge] == count


def test_an_instruction_waits_from_the_queue_s_head_to_its_start_and_for_memory_behind_that():
    """The first instruction waits for a token that the last LOAD pushes."""
    take = isa.Gemm(pop_prev=1)
    slow = isa.Load(memory_type=MemoryType.INP, y_size=1, x_size=1, push_next=1)
    timing = simulate(decoded(take, slow, isa.Finish()), MemoryParameters(100, 4), log=True)
    expected = {}
    for _, state, instruction, begin, end in timing.log.spans.tolist():
        name = ("busy", "memory", "token_prev", "token_next", "room", "instruction", "idle")[state]
        if instruction >= 0 and name != "busy":
            cycles_of = expected.setdefault(instruction, {})
            cycles_of[name] = cycles_of.get(name, 0) + end - begin
    waiting = {index: dict(states) for index, states in waits(timing).items()}
    assert waiting == expected
    assert waiting[0] == {"token_prev": timing.started[0] - timing.dispatched[0] - 1}
    assert waiting[0]["token_prev"] > 100


def test_instructions_that_were_never_executed_are_left_out():
    timing = simulate(decoded(isa.Gemm(), isa.Finish(), isa.Gemm()))
    assert executed(timing, Unit.COMPUTE).tolist() == [0, 1]
    assert executed(timing, Unit.LOAD).tolist() == []


def test_work_begins_at_the_start_or_behind_the_instruction_before_of_its_kind():
    timing = run_ahead()
    starts, ends = timing.started, timing.retired
    assert work_begins(timing).tolist() == [
        starts[0],
        starts[1],
        max(starts[2], ends[1] + 1),
        max(starts[3], ends[2] + 1),
        starts[4],
        max(starts[5], ends[4] + 1),
        max(starts[6], ends[5] + 1),
    ]


SLIDING = TINY.with_changes(block_in=8, block_out=8, extensions=tuple(Extension))
LOOPS = {"uop_begin": 1, "uop_end": 3, "iter_out": 3, "iter_in": 2}


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (isa.Load(memory_type=MemoryType.WGT, y_size=3, x_size=7), "LOAD WGT 3x7"),
        (isa.Store(memory_type=MemoryType.OUT, y_size=2, x_size=5), "STORE OUT 2x5"),
        (isa.Gather(memory_type=MemoryType.INP, y_size=4, x_size=1), "GATHER INP 4x1"),
        (
            isa.Normalise(memory_type=MemoryType.OUT, statistic=Statistic.MOMENTS, y_size=4, x_size=1),
            "NORMALISE MOMENTS 4x1",
        ),
        (
            isa.Normalise(memory_type=MemoryType.INP, y_size=4, x_size=1, normal=1),
            "NORMALISE GREATEST into INP 4x1",
        ),
        (isa.Gemm(**LOOPS), "GEMM 12 steps"),
        (isa.Gemm(**LOOPS, reset=1), "GEMM reset 12 steps"),
        (isa.Gemm(uop_begin=3, uop_end=1, iter_out=1, iter_in=1), "GEMM 0 steps"),
        (isa.Alu(**LOOPS, alu_opcode=AluOpcode.SHR), "SHR 12 steps"),
        (isa.Depthwise(**LOOPS), "DEPTHWISE 12 steps"),
        (isa.Finish(), "FINISH"),
    ],
    ids=str,
)
def test_a_label_says_what_an_instruction_is_and_how_much_of_it(instruction, text):
    assert label(decoded(instruction, config=SLIDING), 0) == text


GOLDEN = """\
         1  load     waits           -  waits: instruction, 10 cycles
         1  compute  waits           -  waits: instruction, 12 cycles
         1  store    waits           -  waits: instruction, 12 cycles
         3  memory   asked           -  fetch, 4 beats
         4  memory   accepts         -  fetch, 4 beats
         7  memory   first           -  fetch, 4 beats
        10  memory   last            -  fetch, 4 beats
        10  dispatch to              0  load
        11  load     starts          0  LOAD(push_next=1, memory_type=INP, y_size=1, x_size=1)
        12  dispatch to              1  compute
        12  load     waits           -  waits: memory, 6 cycles
        13  memory   asked           0  load, 1 beats
        13  compute  waits           1  waits for a token load->compute, 6 cycles
        14  memory   accepts         0  load, 1 beats
        17  memory   first           0  load, 1 beats
        17  memory   last            0  load, 1 beats
        18  load     retires         0  pushes load->compute (1 held)
        19  compute  starts          1  FINISH(pop_prev=1)  pops load->compute (0 held)
        29  compute  retires         1
"""


def test_a_short_program_reads_as_expected():
    load = isa.Load(memory_type=MemoryType.INP, y_size=1, x_size=1, push_next=1)
    text = list(lines(simulate(decoded(load, isa.Finish(pop_prev=1)), MemoryParameters(3, 4), log=True)))
    assert text == GOLDEN.splitlines()


@pytest.mark.parametrize("seed", range(4))
def test_lines_are_in_order_and_cover_every_instruction(seed):
    timing = simulate(random_decoded(seed), log=True)
    rows = [line.split(maxsplit=4) for line in lines(timing)]
    cycles = [int(row[0]) for row in rows]
    assert cycles == sorted(cycles)
    for what in ("starts", "retires"):
        assert sorted(int(row[3]) for row in rows if row[2] == what) == list(range(len(timing.program)))
