"""The builder lets LOADs of accumulators run beside instructions in the other half, and no others."""

import numpy as np
import pytest

from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.runtime.stream.beside import loads_beside
from vdla.runtime.stream.builder import Loop, Rows, StreamBuilder
from vdla.sim.decoded import decode_stream

ACC, HALF = MemoryType.ACC, DEFAULT.depth(MemoryType.ACC) // 2
ROWS = Rows(1, 8, 8)


def flags(build, config=DEFAULT) -> list[int]:
    """Return `beside` of the LOADs of accumulators of a stream."""
    builder = StreamBuilder(config)
    build(builder)
    stream = builder.finish()
    addresses = dict.fromkeys(stream.tensors, 0)
    program = decode_stream(stream.relocated(addresses).reshape(-1), config)
    items = [program.instruction(index) for index in range(len(program))]
    return [item.beside for item in items if isinstance(item, isa.Load) and item.memory_type == ACC]


def loads(*places: int):
    """Return a stream: a sum of two accumulators in the lower half, then LOADs to `places`."""

    def build(builder: StreamBuilder) -> None:
        builder.load(ACC, 0, "x", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((0, 4, 0),), Loop(), Loop(4, 1, 1))
        for place in places:
            builder.load(ACC, place, "x", 0, ROWS)

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
        builder.load(ACC, 0, "x", 0, ROWS)
        builder.load(ACC, HALF, "x", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((0, HALF, 0),), Loop(), Loop(4, 1, 1))
        builder.load(ACC, HALF + 8, "x", 0, ROWS)

    assert flags(build) == [1, 1, 0]


STEPPING = (isa.Opcode.GEMM, isa.Opcode.ALU, isa.Opcode.DEPTHWISE)


def plainly_beside(opcodes, halves, pushes) -> list[bool]:
    """Return the LOADs that run beside, instruction by instruction: `worked` are the halves of the last step."""
    found, worked = [], 0
    for opcode, touched, push in zip(opcodes, halves, pushes, strict=True):
        found.append(opcode == isa.Opcode.LOAD and touched > 0 and not push and not touched & worked)
        worked = touched if opcode in STEPPING else worked
    return found


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
        found = loads_beside(np.array([opcode], np.uint8), np.array([1]), np.array([False]))
        assert found.tolist() == [expected]


def test_a_load_that_pops_a_token_runs_beside():
    def build(builder: StreamBuilder) -> None:
        builder.store(HALF, "y", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((0, 4, 0),), Loop(), Loop(4, 1, 1))
        builder.load(ACC, HALF, "x", 0, ROWS)  # behind the STORE

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
        builder.load(ACC, 0, "x", 0, ROWS)
        builder.load(ACC, HALF, "x", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((0, 4, 0),), Loop(), Loop(4, 1, 1))
        builder.store(HALF, "y", 0, ROWS)
        builder.load(MemoryType.INP, 0, "y", 0, ROWS)  # behind the STORE, through the compute unit
        builder.load(ACC, 16, "x", 0, ROWS)
        builder.alu(AluOpcode.ADD, ((HALF, HALF + 4, 0),), Loop(), Loop(4, 1, 1))

    assert flags(build) == [1, 0, 0]  # the second pushes a token to the STORE
