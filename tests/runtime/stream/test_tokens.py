"""Conflicts and tokens: every need is ordered, never by a token that cannot come, and at no cost where an order
follows from others; LOADs of accumulators run beside instructions in the other half."""

import random
from bisect import bisect_right

import numpy as np
import pytest

from vdla.hw.spec import isa
from vdla.hw.spec.memories import scratchpad_of
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.runtime.stream.builder import Loop, Rows, StreamBuilder
from vdla.runtime.stream.tokens import (
    COMPUTE,
    DRAM,
    FLAGS,
    LOAD,
    PLACES,
    STORE,
    TokenPlan,
    conflicts,
    loads_beside,
    plan_tokens,
    tensor_read,
    tensor_written,
)
from vdla.sim.decoded import decode_stream

NOWHERE = (0, 0, 0)
ACC, INP = MemoryType.ACC, MemoryType.INP
DEPTH = TINY.depth(ACC)
EDGES = {
    (LOAD, COMPUTE): ("push_next", "pop_prev"),
    (COMPUTE, LOAD): ("push_prev", "pop_next"),
    (COMPUTE, STORE): ("push_next", "pop_prev"),
    (STORE, COMPUTE): ("push_prev", "pop_next"),
}
ACCUMULATORS, HALF = MemoryType.ACC, DEFAULT.depth(MemoryType.ACC) // 2
ROWS = Rows(1, 8, 8)


def columns(rows) -> tuple[np.ndarray, np.ndarray]:
    """Return units and touched places of `(unit, *places)`."""
    return (
        np.array([unit for unit, *_ in rows], np.uint8),
        np.array([[*places, *[NOWHERE] * (PLACES - len(places))] for _, *places in rows], np.int64),
    )


def needs_of_last(*rows) -> tuple[int, ...]:
    return tuple(conflicts(*columns(rows), TINY)[-1].tolist())


@pytest.mark.parametrize(
    ("rows", "needs"),
    [
        (((Unit.LOAD, (INP, 0, 4)), (Unit.COMPUTE, (INP, 3, 5))), (0, -1, -1)),
        (((Unit.LOAD, (INP, 0, 4)), (Unit.COMPUTE, (INP, 4, 5))), (-1, -1, -1)),
        (((Unit.LOAD, (INP, 0, 4)), (Unit.COMPUTE, (MemoryType.WGT, 0, 4))), (-1, -1, -1)),
        (((Unit.LOAD, (INP, 0, 4)), (Unit.LOAD, (INP, 2, 3)), (Unit.COMPUTE, (INP, 0, 9))), (1, -1, -1)),
        (((Unit.LOAD, (INP, 0, 4)), (Unit.LOAD, (INP, 0, 4))), (-1, -1, -1)),
        (((Unit.COMPUTE, (MemoryType.ACC_8BIT, 2, 6)), (Unit.STORE, (MemoryType.OUT, 5, 7))), (-1, 0, -1)),
        (((Unit.STORE, (MemoryType.OUT, 5, 7)), (Unit.COMPUTE, (ACC, 6, 6))), (-1, -1, -1)),
        (
            (
                (Unit.COMPUTE, (ACC, DEPTH - 1, DEPTH + 9)),
                (Unit.STORE, (MemoryType.OUT, DEPTH, DEPTH + 9), tensor_written(0)),
            ),
            (-1, -1, -1),
        ),
        (((Unit.COMPUTE, (ACC, 0, 1)), (Unit.STORE, (ACC, -2, 0))), (-1, -1, -1)),
        (((Unit.STORE, tensor_written(1)), (Unit.LOAD, tensor_read(1, Unit.LOAD))), (-1, -1, 0)),
        (((Unit.STORE, tensor_written(1)), (Unit.LOAD, tensor_read(0, Unit.LOAD))), (-1, -1, -1)),
        (
            ((Unit.LOAD, tensor_read(2, Unit.LOAD)), (Unit.COMPUTE, tensor_read(2, Unit.COMPUTE))),
            (-1, -1, -1),
        ),
        (
            (
                (Unit.LOAD, tensor_read(2, Unit.LOAD)),
                (Unit.COMPUTE, tensor_read(2, Unit.COMPUTE)),
                (Unit.STORE, tensor_written(2)),
            ),
            (0, 1, -1),
        ),
    ],
)
def test_an_instruction_needs_the_last_of_another_unit_that_touches_the_same(rows, needs):
    assert needs_of_last(*rows) == needs


@pytest.mark.parametrize("seed", range(10))
def test_conflicts_are_those_of_sets_of_elements(seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(200):
        memory, begin = rng.choice((INP, MemoryType.WGT, ACC)), rng.randrange(12)
        rows.append(
            (
                rng.choice(tuple(Unit)),
                (memory, begin, begin + rng.randrange(5)),
                (DRAM, first := rng.randrange(6), first + rng.randrange(3)),
            )
        )
    with np.errstate(all="raise"):
        last_conflicts = conflicts(*columns(rows), TINY).tolist()
    elements = [
        {(memory, element) for memory, begin, end in places for element in range(begin, end)}
        for _, *places in rows
    ]
    for number, (unit, *_) in enumerate(rows):
        for other in Unit:
            shared = [
                at
                for at in range(number)
                if other != unit and rows[at][0] == other and elements[at] & elements[number]
            ]
            assert last_conflicts[number][other] == max(shared, default=-1)


def test_instructions_that_touch_nothing_need_nothing():
    assert needs_of_last((Unit.LOAD,), (Unit.STORE,)) == (-1, -1, -1)
    assert conflicts(np.zeros(0, np.uint8), np.zeros((0, PLACES, 3), np.int64), TINY).shape == (0, len(Unit))


@pytest.mark.parametrize("memory", MemoryType, ids=lambda memory: memory.name)
@pytest.mark.parametrize("config", [TINY, DEFAULT], ids=lambda config: config.name)
def test_every_memory_conflicts_with_itself_to_its_ends_and_with_no_other(config, memory):
    depth = config.depth(memory)
    for other_memory in (*MemoryType, DRAM):
        limit = config.depth(other_memory) if other_memory != DRAM else 9
        rows = [(Unit.LOAD, (memory, 0, depth)), (Unit.COMPUTE, (other_memory, 0, limit))]
        same = other_memory != DRAM and scratchpad_of(other_memory) == scratchpad_of(memory)
        assert conflicts(*columns(rows), config)[-1].tolist() == [0 if same else -1, -1, -1], other_memory
    for place in (0, depth - 1):
        rows = [(Unit.LOAD, (memory, 0, depth)), (Unit.COMPUTE, (memory, place, place + 1))]
        assert conflicts(*columns(rows), config)[-1].tolist() == [0, -1, -1]
    whole = [(Unit.LOAD, (other_memory, 0, config.depth(other_memory))) for other_memory in MemoryType]
    for outside in ((-1, 0), (-2, 0), (-2, -1), (depth, depth + 2)):
        rows = [*whole, (Unit.COMPUTE, (memory, *outside), (DRAM, -1, 0))]
        assert conflicts(*columns(rows), config)[-1].tolist() == [-1, -1, -1], outside


def planned(rows, depth: int = 255) -> TokenPlan:
    """Return the plan of `(unit, needs)`."""
    return plan_tokens(
        np.array([unit for unit, _ in rows], np.uint8),
        np.array([needs for _, needs in rows], np.int64),
        depth,
    )


def flags_of(plan: TokenPlan) -> list[set[str]]:
    return [{flag for number, flag in enumerate(FLAGS) if word >> number & 1} for word in plan.flags]


def units_of(plan: TokenPlan, rows) -> list[int]:
    return [rows[number][0] if number >= 0 else -1 - number for number in plan.numbers]


def tokens(units: list[int], flags: list[set[str]]) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    """Return the positions that push and the positions that pop, by edge."""
    return {
        edge: tuple(
            [at for at, unit in enumerate(units) if unit == end and name in flags[at]]
            for end, name in zip(edge, names, strict=True)
        )
        for edge, names in EDGES.items()
    }


def known(units: list[int], edges) -> list[list[int]]:
    """Return, by position, the last instruction of each unit that is done when it starts, as the tokens alone
    say."""
    popped = {
        (pop, edge[0]): push
        for edge, (pushes, pops) in edges.items()
        for push, pop in zip(pushes, pops, strict=True)
    }
    latest, last_done = [[-1] * len(Unit) for _ in Unit], []
    for position, unit in enumerate(units):
        for other in Unit:
            if (push := popped.get((position, other))) is not None:
                latest[unit] = [max(pair) for pair in zip(latest[unit], last_done[push], strict=True)]
                latest[unit][other] = max(latest[unit][other], push)
        last_done.append(list(latest[unit]))
    return last_done


def random_rows(seed: int) -> list[tuple[int, tuple[int, ...]]]:
    rng = random.Random(seed)
    units = [rng.choice((LOAD, COMPUTE, STORE)) for _ in range(300)]
    rows = []
    for number, unit in enumerate(units):
        near = [
            at
            for at in range(max(number - rng.choice((5, 60)), 0), number)
            if units[at] != unit and rng.random() < 0.1
        ]
        rows.append(
            (
                unit,
                tuple(
                    max((at for at in near if units[at] == other), default=-1)
                    for other in (LOAD, COMPUTE, STORE)
                ),
            )
        )
    return rows


@pytest.mark.parametrize("depth", [1, 2, 255])
@pytest.mark.parametrize("seed", range(10))
def test_every_need_is_ordered_and_no_edge_overflows(seed, depth):
    rows = random_rows(seed)
    plan = planned(rows, depth)
    units, flags = units_of(plan, rows), flags_of(plan)
    assert [number for number in plan.numbers if number >= 0] == list(range(len(rows)))
    edges = tokens(units, flags)
    for pushes, pops in edges.values():
        assert all(push < pop for push, pop in zip(pushes, pops, strict=True))
        assert all(number + 1 - bisect_right(pops, push) <= depth for number, push in enumerate(pushes))
    places, knows = {number: at for at, number in enumerate(plan.numbers)}, known(units, edges)
    for number, (_, needs) in enumerate(rows):
        assert all(
            knows[places[number]][other] >= places[need] for other, need in enumerate(needs) if need >= 0
        )


def test_a_broken_plan_is_noticed():
    rows = random_rows(0)
    plan = planned(rows)
    units, flags = units_of(plan, rows), flags_of(plan)
    first = next(at for at, unit in enumerate(units) if unit == LOAD and "push_next" in flags[at])
    pop = next(at for at, unit in enumerate(units) if unit == COMPUTE and "pop_prev" in flags[at])
    needs, at = (
        rows[plan.numbers[pop]][1],
        [position for position, number in enumerate(plan.numbers) if number >= 0],
    )
    flags[first].discard("push_next")
    flags[pop].discard("pop_prev")
    assert known(units, tokens(units, flags))[pop][LOAD] < at[needs[LOAD]]


@pytest.mark.parametrize(
    ("rows", "numbers", "flags"),
    [
        ([(LOAD, (-1, -1, -1)), (COMPUTE, (0, -1, -1))], [0, 1], [{"push_next"}, {"pop_prev"}]),
        (
            [(LOAD, (-1, -1, -1)), (COMPUTE, (0, -1, -1)), (COMPUTE, (0, -1, -1))],
            [0, 1, 2],
            [{"push_next"}, {"pop_prev"}, set()],
        ),
        (
            [(STORE, (-1, -1, -1)), (LOAD, (-1, -1, 0))],
            [0, -1 - COMPUTE, 1],
            [{"push_prev"}, {"pop_next", "push_prev"}, {"pop_next"}],
        ),
        (
            [(LOAD, (-1, -1, -1)), (COMPUTE, (0, -1, -1)), (STORE, (0, -1, -1))],
            [0, 1, 2],
            [{"push_next"}, {"pop_prev", "push_next"}, {"pop_prev"}],
        ),
    ],
)
def test_small_streams_have_the_tokens_that_they_need(rows, numbers, flags):
    plan = planned(rows)
    assert (plan.numbers.tolist(), flags_of(plan)) == (numbers, flags)


def test_where_an_edge_is_full_a_later_transfer_of_nothing_pushes():
    rows = [*[(LOAD, (-1, -1, -1))] * 2, (COMPUTE, (0, -1, -1)), (COMPUTE, (1, -1, -1))]
    assert planned(rows, 2).numbers.tolist() == [0, 1, 2, 3]
    assert planned(rows, 1).numbers.tolist() == [0, 1, 2, -1 - LOAD, 3]


def flags(build, config=DEFAULT) -> list[int]:
    """Return `beside` of the LOADs of accumulators of a stream."""
    builder = StreamBuilder(config)
    build(builder)
    stream = builder.finish()
    addresses = dict.fromkeys(stream.tensors, 0)
    program = decode_stream(stream.relocated(addresses).reshape(-1), config)
    items = [program.instruction(index) for index in range(len(program))]
    return [item.beside for item in items if isinstance(item, isa.Load) and item.memory_type == ACCUMULATORS]


def loads(*places: int):
    """Return a stream: a sum of two accumulators in the lower half, then LOADs to `places`."""

    def build(builder: StreamBuilder) -> None:
        builder.load(ACCUMULATORS, 0, "x", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((0, 4, 0),), Loop(), Loop(4, 1, 1))
        for place in places:
            builder.load(ACCUMULATORS, place, "x", 0, ROWS)

    return build


@pytest.mark.parametrize(
    ("places", "expected"),
    [((HALF,), [1]), ((HALF - 8,), [0]), ((HALF - 4,), [0]), ((HALF, 16, 2 * HALF - 8), [1, 0, 1])],
    ids=str,
)
def test_loads_into_the_other_half_run_beside(places, expected):
    assert flags(loads(*places)) == [1, *expected]  # nothing stands before the first


def test_the_second_operand_counts():
    def build(builder: StreamBuilder) -> None:
        builder.load(ACCUMULATORS, 0, "x", 0, ROWS)
        builder.load(ACCUMULATORS, HALF, "x", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((0, HALF, 0),), Loop(), Loop(4, 1, 1))
        builder.load(ACCUMULATORS, HALF + 8, "x", 0, ROWS)

    assert flags(build) == [1, 1, 0]


STEPPING = (isa.Opcode.GEMM, isa.Opcode.ALU, isa.Opcode.DEPTHWISE)


def plainly_beside(opcodes, halves, pushes) -> list[bool]:
    """Return the LOADs that run beside, instruction by instruction: `worked` are the halves of the last step."""
    beside, worked = [], 0
    for opcode, touched, push in zip(opcodes, halves, pushes, strict=True):
        beside.append(opcode == isa.Opcode.LOAD and touched > 0 and not push and not touched & worked)
        worked = touched if opcode in STEPPING else worked
    return beside


@pytest.mark.parametrize("seed", range(20))
def test_random_instructions_run_beside_as_their_order_says(seed):
    """Any opcode may stand first: micro-ops may be in their memory before a stream begins."""
    rng = np.random.default_rng(seed)
    opcodes = rng.choice([isa.Opcode.LOAD, isa.Opcode.LOAD, isa.Opcode.FINISH, *STEPPING], 12).astype(
        np.uint8
    )
    halves, pushes = rng.integers(0, 4, 12), rng.random(12) < 0.2
    assert loads_beside(opcodes, halves, pushes).tolist() == plainly_beside(opcodes, halves, pushes)


def test_an_instruction_alone_has_none_before_it():
    for opcode, expected in ((isa.Opcode.LOAD, True), (isa.Opcode.GEMM, False)):
        beside = loads_beside(np.array([opcode], np.uint8), np.array([1]), np.array([False]))
        assert beside.tolist() == [expected]


def test_a_load_that_pops_a_token_runs_beside():
    def build(builder: StreamBuilder) -> None:
        builder.store(HALF, "y", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((0, 4, 0),), Loop(), Loop(4, 1, 1))
        builder.load(ACCUMULATORS, HALF, "x", 0, ROWS)  # behind the STORE

    assert flags(build) == [1]


def test_a_load_that_pushes_a_token_waits():
    opcodes, halves = np.array([isa.Opcode.GEMM, isa.Opcode.LOAD], np.uint8), np.array([1, 2])
    assert loads_beside(opcodes, halves, np.array([False, False])).tolist() == [False, True]
    assert loads_beside(opcodes, halves, np.array([True, True])).tolist() == [False, False]


def test_configurations_without_halves_have_no_such_flag():
    lean = DEFAULT.with_changes(
        extensions=tuple(other for other in Extension if other is not Extension.ACC_HALVES)
    )
    assert flags(loads(HALF), lean) == [0, 0]


def test_instructions_that_only_wait_work_in_no_half():
    def build(builder: StreamBuilder) -> None:
        builder.load(ACCUMULATORS, 0, "x", 0, ROWS)
        builder.load(ACCUMULATORS, HALF, "x", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((0, 4, 0),), Loop(), Loop(4, 1, 1))
        builder.store(HALF, "y", 0, ROWS)
        builder.load(MemoryType.INP, 0, "y", 0, ROWS)  # behind the STORE, through the compute unit
        builder.load(ACCUMULATORS, 16, "x", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((HALF, HALF + 4, 0),), Loop(), Loop(4, 1, 1))

    assert flags(build) == [1, 0, 0]  # the second pushes a token to the STORE
