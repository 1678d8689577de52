"""The cycle simulator by itself: cycles counted by hand, sums that must add up, and skipping that must not
change anything."""

import numpy as np
import pytest
from generators.programs import random_config, random_program

from tests.programs.cases import CASES
from tests.programs.test_cases import program_of
from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import CycleLimitError
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.registers import COUNTERS, Fault, UnitState
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.timing.result import NEVER, Timing
from vdla.sim.timing.simulate import _Simulation, simulate
from vdla.sim.timing.state import FAR, Logs

LATENCY = REFERENCE_MEMORY.latency
MOST_CYCLES = 200_000  # that a random program may take


def decoded(*instructions, config=TINY) -> DecodedStream:
    return decode_stream(
        np.frombuffer(codec.to_bytes(instructions, config), np.uint8).reshape(-1, 16), config
    )


def random_decoded(seed: int) -> DecodedStream:
    program = random_program(random_config(seed), seed, 60)
    stream = np.frombuffer(program.stream, np.uint8)
    return decode_stream(stream.reshape(-1, program.config.instruction_bytes), program.config)


def test_finish_alone_takes_the_cycles_counted_by_hand():
    """Begin in 1, request cut in 2, offered in 3 and to memory in 4, two beats through the DMA, queue,
    dispatch, queue, start, slot, pipeline, run control, done."""
    first_beat = 4 + LATENCY + 1
    queued_in_fetch = first_beat + 1 + 1
    started = queued_in_fetch + 1
    retired = started + 1 + 6 + TINY.gemm_stages
    timing = simulate(decoded(isa.Finish()))
    assert timing.dispatched.tolist() == [queued_in_fetch]
    assert timing.started.tolist() == [started]
    assert timing.retired.tolist() == [retired]
    assert timing.cycles == retired + 1 + 1 + 1


def test_an_empty_stream_is_stopped_after_the_quiet_cycles():
    timing = simulate(decoded())
    assert (timing.fault, timing.cycles) == (Fault.UNFINISHED, 2 + 16 + 1)


LOOPS = {"uop_end": 2, "iter_out": 3, "iter_in": 2}  # 12 steps


@pytest.mark.parametrize(
    ("slots", "instruction"),
    [
        (12, isa.Gemm(**LOOPS)),
        (12, isa.Alu(**LOOPS, use_imm=1)),
        (12, isa.Alu(**LOOPS)),
        (24, isa.Alu(**LOOPS, use_imm=1, alu_opcode=AluOpcode.SHR)),
        (36, isa.Alu(**LOOPS, use_imm=1, alu_opcode=AluOpcode.MUL)),
        (36, isa.Alu(**LOOPS, alu_opcode=AluOpcode.MUL)),
        (1, isa.Gemm(uop_end=0, iter_out=3, iter_in=2)),
    ],
)
def test_a_step_takes_a_slot_and_the_delay_of_its_operation(slots, instruction):
    config = TINY.with_changes(alu_lanes=0, acc_ports=2)
    timing = simulate(decoded(instruction, isa.Finish(), config=config))
    assert timing.retired[0] - timing.started[0] == slots + 6 + config.gemm_stages


@pytest.mark.parametrize(
    ("slots", "instruction"),
    [
        (12, isa.Gemm(**LOOPS)),
        (12 * 4, isa.Alu(**LOOPS, use_imm=1, alu_opcode=AluOpcode.ADD)),
        (12 * 4, isa.Alu(**LOOPS, alu_opcode=AluOpcode.ADD)),
        (12 * (4 + 2), isa.Alu(**LOOPS, alu_opcode=AluOpcode.MUL)),
    ],
)
def test_an_alu_with_fewer_lanes_takes_a_slot_for_each_piece(slots, instruction):
    config = TINY.with_changes(alu_lanes=1, acc_ports=2)
    timing = simulate(decoded(instruction, isa.Finish(), config=config))
    assert timing.retired[0] - timing.started[0] == slots + 6 + TINY.gemm_stages


@pytest.mark.parametrize(
    ("slots", "instruction"),
    [
        (12, isa.Gemm(**LOOPS)),
        (12 * 4, isa.Alu(**LOOPS, use_imm=1, alu_opcode=AluOpcode.ADD)),
        (12 * (1 + 4), isa.Alu(**LOOPS, alu_opcode=AluOpcode.ADD)),
        (12 * (1 + 4 + 2), isa.Alu(**LOOPS, alu_opcode=AluOpcode.MUL)),
    ],
)
def test_with_one_port_a_step_with_two_accumulators_takes_a_slot_more(slots, instruction):
    config = TINY.with_changes(alu_lanes=1, acc_ports=1)
    timing = simulate(decoded(instruction, isa.Finish(), config=config))
    assert timing.retired[0] - timing.started[0] == slots + 6 + TINY.gemm_stages


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("elements", [1, 7, 30])
def test_with_one_port_each_element_that_a_store_reads_takes_a_slot(elements, parts):
    """Of a GEMM that is issued all the while; with parameters, four more."""
    config = TINY.with_changes(acc_ports=1, requantise_lanes=4 // parts)
    gemm = isa.Gemm(uop_end=1, iter_out=40, iter_in=40)
    for parameters in (0, 1):
        store = isa.Store(memory_type=MemoryType.OUT, y_size=1, x_size=elements, parameters=parameters)
        timing = simulate(decoded(gemm, store, isa.Finish(), config=config))
        taken = elements + 4 * parameters
        assert timing.retired[0] - timing.started[0] == 1600 + taken + 6 + config.gemm_stages


@pytest.mark.parametrize(
    ("slots", "changed"),
    [
        (3 * 2 * (4 + 2), {}),
        (3 * 2 * (2 * 4 + 1), {"stride_2": 1}),
        (3 * 2 * 3, {"iter_in": 1, "stride_2": 1}),
        (1, {"iter_in": 0}),
        (1, {"uop_end": 0}),
    ],
)
def test_a_row_of_a_depthwise_takes_two_slots_more_than_sums_or_twice_as_many_and_one(slots, changed):
    config = TINY.with_changes(block_in=8, block_out=8, extensions=(Extension.DEPTHWISE,))
    depthwise = isa.Depthwise(**{**LOOPS, "iter_in": 4, **changed})
    timing = simulate(decoded(depthwise, isa.Finish(), config=config))
    assert timing.retired[0] - timing.started[0] == slots + 6 + TINY.gemm_stages
    assert timing.counters["GEMM_STEPS"] == (0 if slots == 1 else 3 * 2 * depthwise.iter_in)


def check_skipping(program: DecodedStream, memory: MemoryParameters) -> None:
    """Assert that, cycle by cycle and in leaps, every register, time and log ends the same."""
    runs = [_Simulation(program, memory, 4096, log=True) for _ in range(2)]
    while not runs[0].done and runs[0].cycle < MOST_CYCLES:
        runs[0].advance(runs[0].cycle + 1)
    while not runs[1].done and runs[1].cycle < MOST_CYCLES:
        runs[1].advance(MOST_CYCLES)
    assert all(run.done for run in runs)
    stepped, leapt = (run.timing() for run in runs)
    assert runs[0].state.tobytes() == runs[1].state.tobytes()
    assert (stepped.cycles, stepped.counters) == (leapt.cycles, leapt.counters)
    for name in ("dispatched", "started", "retired"):
        np.testing.assert_array_equal(getattr(stepped, name), getattr(leapt, name))
    np.testing.assert_array_equal(stepped.log.spans, leapt.log.spans)
    np.testing.assert_array_equal(stepped.log.bursts, leapt.log.bursts)
    np.testing.assert_array_equal(stepped.log.beat_runs, leapt.log.beat_runs)
    np.testing.assert_array_equal(stepped.log.lent_runs, leapt.log.lent_runs)


@pytest.mark.parametrize(
    "memory",
    [REFERENCE_MEMORY, MemoryParameters(1, 1), MemoryParameters(200, 64), MemoryParameters(64, 16, 5)],
    ids=str,
)
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 8))]
)
def test_skipping_changes_nothing(seed, memory):
    check_skipping(random_decoded(seed), memory)


@pytest.mark.parametrize("latency", [1, 100])
@pytest.mark.parametrize("first", [0, 5])
def test_skipping_reads_of_a_store_stops_where_its_queue_is_full(first, latency):
    """Its outputs are whole beats; the row need not begin with a burst; memory owes a read its data first."""
    config = TINY.with_changes(block_out=8, acc_buffer_bytes=16384)
    load = isa.Load(memory_type=MemoryType.INP, y_size=1, x_size=1)
    store = isa.Store(memory_type=MemoryType.OUT, dram_base=first, y_size=1, x_size=200)
    check_skipping(decoded(load, store, isa.Finish(), config=config), MemoryParameters(latency, 16))


@pytest.mark.parametrize("trips", [1, 30, 400])
def test_skipping_stops_where_the_store_unit_s_port_is_lent_and_where_it_returns(trips):
    """Rows of whole beats, which are read in leaps, beside steps with two accumulators."""
    config = TINY.with_changes(block_out=8, acc_buffer_bytes=16384, alu_lanes=0, requantise_lanes=0)
    store = isa.Store(memory_type=MemoryType.OUT, y_size=3, x_size=200, x_stride=256)
    two = isa.Alu(iter_out=1, iter_in=trips, uop_end=1)
    gemm = isa.Gemm(iter_out=1, iter_in=50, uop_end=1)
    check_skipping(
        decoded(store, gemm, two, gemm, two, two, isa.Finish(), config=config), MemoryParameters(1, 16)
    )


def test_a_load_of_other_micro_ops_starts_in_its_third_cycle_at_the_queue_s_head_and_does_not_wait():
    """It retires while the GEMM is issued; a LOAD that writes the GEMM's micro-ops starts at its last slot."""
    gemm = isa.Gemm(uop_begin=4, uop_end=9, iter_out=1, iter_in=400)
    apart, touching = (
        isa.Load(memory_type=MemoryType.UOP, sram_base=base, y_size=1, x_size=3) for base in (9, 8)
    )
    timing = simulate(decoded(gemm, apart, isa.Finish()))
    assert timing.started[1] == timing.dispatched[1] + 3
    assert timing.retired[1] < timing.started[0] + 200
    timing = simulate(decoded(gemm, touching, isa.Finish()))
    assert timing.started[1] == timing.started[0] + 2000


@pytest.mark.parametrize("seed", range(8))
def test_no_token_is_popped_before_it_was_pushed(seed):
    timing = simulate(random_decoded(seed))
    program = timing.program
    assert (timing.retired != NEVER).all()
    for edge in range(len(TOKEN_EDGES)):
        pushed, popped = (
            np.sort(timing.retired[program.pushes[:, edge]]),
            np.sort(timing.started[program.pops[:, edge]]),
        )
        assert (pushed[: len(popped)] < popped).all()


def test_the_stream_may_start_within_a_burst():
    instructions = [isa.Gemm(uop_end=1, iter_out=1, iter_in=1)] * 40 + [isa.Finish()]
    aligned, late = (
        simulate(decoded(*instructions), stream_address=address, log=True).log.bursts["beats"]
        for address in (0, 16)
    )
    assert aligned[0] == TINY.burst_beats
    assert late[0] == TINY.burst_beats - 16 // TINY.bus_bytes
    assert aligned.sum() == late.sum()


def test_a_run_stops_at_its_limit():
    program = decoded(isa.Finish())
    cycles = simulate(program).cycles
    assert simulate(program, cycle_limit=cycles).cycles == cycles
    with pytest.raises(CycleLimitError, match=f"stopped at its limit of {cycles - 1} cycles"):
        simulate(program, cycle_limit=cycles - 1)


def test_a_padded_load_takes_a_cycle_for_each_element_and_each_beat():
    load = isa.Load(
        memory_type=MemoryType.WGT,
        y_size=3,
        x_size=2,
        x_stride=5,
        y_pad_0=1,
        y_pad_1=2,
        x_pad_0=3,
        x_pad_1=1,
        push_next=1,
    )
    timing = simulate(decoded(load, isa.Finish(pop_prev=1)), MemoryParameters(1, 16))
    row, beats = 3 + 2 + 1, max(1, TINY.element_bytes(MemoryType.WGT) // TINY.bus_bytes)
    assert timing.states(Unit.LOAD)[UnitState.BUSY] - 1 == row * (1 + 2) + 3 * (3 + 1) + 3 * 2 * beats


@pytest.mark.parametrize("name", CASES)
def test_every_case_ends_well(name):
    program = program_of(CASES[name])
    stream = np.frombuffer(program.stream, np.uint8).reshape(-1, 16)
    assert simulate(decode_stream(stream, program.config)).fault == Fault(0)


ORDER = tuple(UnitState)
MEMORIES = (MemoryParameters(), MemoryParameters(3, 2, 2))
SEEDS = range(8)


@pytest.fixture(params=[(seed, memory) for seed in SEEDS for memory in MEMORIES], ids=str)
def timing(request) -> Timing:
    seed, memory = request.param
    return simulate(random_decoded(seed), memory, log=True)


def head(timing: Timing, unit: Unit, cycle: int) -> int:
    """Return the instruction at the head of a unit's queue at the start of a cycle; -1: it is empty."""
    queued = np.flatnonzero((timing.program.unit == unit) & (timing.dispatched != NEVER))
    waiting = queued[timing.started[queued] >= cycle]
    return int(waiting[0]) if waiting.size and timing.dispatched[waiting[0]] < cycle else -1


def test_the_states_of_a_unit_add_up_to_the_run(timing):
    assert set(timing.counters) == set(COUNTERS)
    for unit in Unit:
        states = timing.states(unit)
        assert sum(states.values()) == timing.cycles
        spans = timing.log.spans[timing.log.spans["unit"] == unit]
        assert spans["begin"][0] == 1
        assert spans["end"][-1] == timing.cycles
        np.testing.assert_array_equal(spans["begin"][1:], spans["end"][:-1])
        logged = np.bincount(spans["state"], spans["end"] - spans["begin"], len(ORDER)).astype(int)
        logged[ORDER.index(UnitState.IDLE)] += 1  # the cycle in which start is accepted
        assert dict(zip(ORDER, logged.tolist(), strict=True)) == states


def test_a_span_names_the_instruction_at_the_queue_s_head_and_ends_where_that_or_the_state_changes(timing):
    for unit in Unit:
        spans = timing.log.spans[timing.log.spans["unit"] == unit]
        for _, state, instruction, begin, end in spans.tolist():
            assert {head(timing, unit, cycle) for cycle in (begin, end - 1)} == {instruction}, (
                unit,
                state,
                begin,
            )
        same = (spans["state"][1:] == spans["state"][:-1]) & (
            spans["instruction"][1:] == spans["instruction"][:-1]
        )
        assert not same.any()


class PaddedLogs(_Simulation):
    """A simulation whose logs stand in larger arrays, so that writing past their ends harms nothing."""

    def advance(self, until: int) -> None:
        padded = (np.concatenate([log, np.zeros(64, log.dtype)])[: len(log)] for log in self.logs)
        self.logs = Logs(*padded)
        rooms = {name: len(log) for name, log in self.logs._asdict().items()}
        super().advance(until)
        assert all(self.machine["log"][name] <= room for name, room in rooms.items())


def tile(**waits: int) -> list[isa.Instruction]:
    """Return LOADs of a tile and its GEMM. The LOAD of weights starts while earlier inputs still arrive."""
    rows = {"y_size": 7, "x_size": 7, "x_stride": 7, "y_pad_0": 1, "y_pad_1": 1, "x_pad_0": 1, "x_pad_1": 1}
    return [
        isa.Load(memory_type=MemoryType.WGT, y_size=2, x_size=9, x_stride=288, **waits),
        isa.Load(memory_type=MemoryType.INP, push_next=1, **rows),
        isa.Gemm(pop_prev=1, push_prev=1, uop_end=1, iter_out=882, iter_in=1),
    ]


@pytest.mark.parametrize("places", [12, 13, 19, 24, 26, 33])
def test_a_leap_writes_no_further_than_its_log(monkeypatch, places):
    """A leap accepts many requests while a long burst arrives; the log may have room for fewer."""
    program = decoded(
        *tile(), *tile(), *(it for _ in range(8) for it in tile(pop_next=1)), isa.Finish(), config=DEFAULT
    )
    memory = MemoryParameters(latency=200)
    monkeypatch.setattr("vdla.sim.timing.simulate.LOG_PLACES", places)
    run = PaddedLogs(program, memory, 0, log=True)
    while not run.done:
        run.advance(FAR)
    whole = simulate(program, memory, log=True).log
    np.testing.assert_array_equal(run.timing().log.bursts, whole.bursts)
    np.testing.assert_array_equal(run.timing().log.beat_runs, whole.beat_runs)
