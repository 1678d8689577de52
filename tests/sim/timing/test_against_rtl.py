"""The cycle simulator against the RTL: small programs, in each of which one rule of the timing decides the
cycles."""

import numpy as np
import pytest

from tests.programs.devices import device
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import UnfinishedError
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.registers import Fault
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Statistic
from vdla.runtime.device import RunResult
from vdla.sim.decoded import decode_stream
from vdla.sim.timing.result import Timing
from vdla.sim.timing.simulate import simulate

WIDE = TINY.with_changes(
    name="wide",
    batch=4,
    block_in=2,
    block_out=8,
    inp_buffer_bytes=1 << 14,
    acc_buffer_bytes=1 << 16,
    bus_bits=256,
    burst_bytes=512,
    gemm_stages=1,
    alu_lanes=2,
    alu_opcodes="MAX,SHR,MUL",
    acc_ports=2,
    extensions=(),
)
"""Two instructions in a beat, outputs as wide as a beat, and an ALU that needs four slots for an element."""

LONG = WIDE.with_changes(name="long instructions", bus_bits=512, uop_buffer_bytes=1 << 20)
"""Instructions of 256 bits, two in a beat."""

WIDE_ONE_PORT = WIDE.with_changes(name="wide one port", acc_ports=1)
"""Elements of two beats: every other read takes a slot."""

FURTHER = TINY.with_changes(name="further", extensions=tuple(Extension))

INP, WGT, ACC, OUT, UOP = MemoryType.INP, MemoryType.WGT, MemoryType.ACC, MemoryType.OUT, MemoryType.UOP
STREAM = 0x20000


def on_rtl(
    config: AcceleratorConfig,
    instructions: list[isa.Instruction],
    memory: MemoryParameters = REFERENCE_MEMORY,
    address: int = STREAM,
) -> RunResult:
    """Run on the RTL from cleared scratchpads; the limit is far above what these programs take."""
    rtl = device("rtl", config, memory)
    rtl.reset()
    rtl.copy_in(address, codec.to_bytes(instructions, config))
    return rtl.run(address, len(instructions), cycle_limit=1_000_000)


def simulated(
    config: AcceleratorConfig,
    instructions: list[isa.Instruction],
    memory: MemoryParameters = REFERENCE_MEMORY,
    address: int = STREAM,
) -> Timing:
    stream = np.frombuffer(codec.to_bytes(instructions, config), np.uint8).reshape(
        -1, config.instruction_bytes
    )
    return simulate(decode_stream(stream, config), memory, stream_address=address, cycle_limit=1_000_000)


def check(
    config: AcceleratorConfig,
    instructions: list[isa.Instruction],
    memory: MemoryParameters = REFERENCE_MEMORY,
    address: int = STREAM,
) -> None:
    """Assert that simulator and RTL agree in cycles and in every counter."""
    timing, run = (on(config, instructions, memory, address) for on in (simulated, on_rtl))
    assert timing.cycles == run.cycles
    assert timing.counters == run.counters


def load(memory: MemoryType, rows: int = 1, width: int = 1, **fields) -> isa.Load:
    return isa.Load(memory_type=memory, **{"y_size": rows, "x_size": width, "x_stride": width, **fields})


def store(rows: int = 1, width: int = 1, **fields) -> isa.Store:
    return isa.Store(memory_type=OUT, **{"y_size": rows, "x_size": width, "x_stride": width, **fields})


MANY_STEPS = {
    "load": [load(INP, 400, x_stride=3)],
    "padded load": [load(INP, 350, 1, y_pad_0=9, y_pad_1=11, x_pad_1=1)],
    "long load": [load(INP, 1, 700)],
    "load of accumulators": [load(ACC, 310, x_stride=2)],
    "store": [store(400, x_stride=3)],
    "long store": [store(1, 500)],
    "gemm": [isa.Gemm(iter_out=17, iter_in=10, uop_end=2)],
    "gemm without trips": [isa.Gemm(iter_out=400, uop_end=1)],
    "alu": [isa.Alu(iter_out=31, iter_in=10, uop_end=1, alu_opcode=AluOpcode.MAX)],
    "alu by an immediate": [isa.Alu(iter_out=2, iter_in=160, uop_end=1, use_imm=1, alu_opcode=AluOpcode.MAX)],
}


@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
@pytest.mark.parametrize("name", MANY_STEPS)
def test_instructions_of_more_than_300_rows_or_steps(name, config):
    check(config, [*MANY_STEPS[name], isa.Finish()])


@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_steps_of_every_operation_between_others(config):
    """A GEMM before and behind each ALU instruction shows the cycle of its last slot."""
    gemm = isa.Gemm(iter_out=2, iter_in=3, uop_end=1)
    steps = [
        isa.Alu(iter_out=3, iter_in=4, uop_end=2, use_imm=immediate, imm=3, alu_opcode=opcode)
        for opcode in config.alu_opcodes
        for immediate in (0, 1)
    ]
    check(config, [*(part for step in steps for part in (gemm, step)), gemm, isa.Finish()])


@pytest.mark.parametrize("latency", [1, 64])
def test_stores_with_tables_and_residuals_between_others(latency):
    """Each set of parameters takes its reads; stages and queues suit the longest path."""
    stores = [
        store(1, width, parameters=parameters, table=table, residual=residual)
        for width in (1, 2, 40)
        for parameters in (0, 1)
        for table in (0, 2)
        for residual in (0, 3)
    ]
    loads = [load(MemoryType.TABLE, 1, 64), load(MemoryType.RES, 3, 5, x_pad_0=1)]
    check(FURTHER, [*loads, *stores, store(0), *loads, isa.Finish()], MemoryParameters(latency, 4))


def normalise(statistic: Statistic, width: int, **fields) -> isa.Normalise:
    shape = {"memory_type": OUT, "y_size": 1, "x_size": width, "x_stride": width}
    return isa.Normalise(**{**shape, "statistic": statistic, **fields})


@pytest.mark.parametrize("latency", [1, 64])
@pytest.mark.parametrize("width", [1, 2, 30])
def test_a_normalise_of_another_kind_waits_until_the_stages_are_empty(width, latency):
    """Of the same kind it does not; those without elements and STOREs never do, and change no kind."""
    kinds = [(statistic, normal) for statistic in Statistic for normal in (0, 3)]
    changes = [
        part
        for statistic, normal in kinds
        for part in (
            normalise(statistic, width, normal=normal),
            normalise(statistic, 1, normal=2 * normal, parameters=1, table=1, push_prev=1),
            store(1, 2, parameters=2),
            normalise(Statistic.MOMENTS, 0, normal=1, push_prev=1),
            normalise(statistic, width, normal=normal, memory_type=INP),
        )
    ]
    pops = [isa.Gemm(uop_end=1, iter_out=1, iter_in=1, pop_next=1)] * 2 * len(kinds)
    check(FURTHER, [*changes, *changes[::-1], *pops, *pops, isa.Finish()], MemoryParameters(latency, 4))


def marks(config: AcceleratorConfig) -> list[isa.Instruction]:
    """Return STOREs of which every second writes nothing: it retires behind the answers to earlier STOREs, and
    keeps the answers to later STOREs waiting. Tokens tell when each retires."""
    pairs = [part for rows in (1, 2, 1, 1, 3) for part in (store(rows, push_prev=1), store(0, push_prev=1))]
    nothing = [store(1, 0), store(0), store(0, push_prev=1)]
    pops = [isa.Gemm(uop_end=1, iter_out=1, iter_in=1, pop_next=1)] * (len(pairs) + 2)
    return [*pairs, *nothing, store(1, push_prev=1), *pops]


@pytest.mark.parametrize("memory", [(1, 16), (40, 16), (7, 3)], ids=str)
@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_stores_of_nothing_retire_in_their_turn_and_take_no_answer(config, memory):
    check(config, [*marks(config), isa.Finish()], MemoryParameters(*memory))


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 15, 16, 17])
@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_requests_wait_for_room_in_memory(config, depth):
    """Many reads of a beat, whose number in flight decides the cycles; and writes between them."""
    program = [load(INP, 60, x_stride=50), store(30, x_stride=50), load(WGT, 40, x_stride=50), isa.Finish()]
    check(config, program, MemoryParameters(latency=40, depth=depth))


@pytest.mark.parametrize(("latency", "depth"), [(60, 2), (60, 3), (30, 2), (100, 16)])
@pytest.mark.parametrize("first", [0, 5, 13])
def test_a_store_of_whole_beats_reads_no_further_than_its_queue_has_room(first, latency, depth):
    """The row need not begin with a burst. A burst that was ready too early would overtake requests of the
    LOAD."""
    program = [load(INP, 30, x_stride=50), store(1, 120, dram_base=first), isa.Finish()]
    check(WIDE, program, MemoryParameters(latency, depth))


def two_operands(config: AcceleratorConfig, trips: int, **fields) -> isa.Alu:
    return isa.Alu(iter_out=1, iter_in=trips, uop_end=1, alu_opcode=config.alu_opcodes[-1], **fields)


@pytest.mark.parametrize("trips", [1, 2, 7, 40])
@pytest.mark.parametrize("rows", [1, 9, 60])
@pytest.mark.parametrize(
    "config",
    [
        TINY,
        WIDE,
        WIDE_ONE_PORT,
        TINY.with_changes(name="two ports", acc_ports=2),
        TINY.with_changes(name="whole", alu_lanes=0, requantise_lanes=0, alu_opcodes="ADD"),
    ],
    ids=lambda config: config.name,
)
def test_a_store_reads_in_the_cycles_in_which_no_second_operand_is_read(config, rows, trips):
    """Steps with two accumulators, one accumulator and none follow each other while STOREs read; the last
    reads decide the end. With one port the STOREs come first, and steps read in separate slots."""
    steps = [
        two_operands(config, trips),
        isa.Gemm(iter_out=1, iter_in=3, uop_end=1),
        two_operands(config, trips),
        two_operands(config, 0),
        two_operands(config, trips, use_imm=1),
        two_operands(config, 1),
    ]
    scales = {"parameters": 3} if config.has(Extension.REQUANTISE) else {}
    stores = [store(rows, 2, **scales), store(1, 1), store(2, rows)]
    check(config, [*stores, *steps, *steps, isa.Finish()], MemoryParameters(latency=5, depth=16))


@pytest.mark.parametrize("latency", [1, 30])
@pytest.mark.parametrize("trips", [1, 3, 50])
@pytest.mark.parametrize(
    "config",
    [TINY, WIDE_ONE_PORT, TINY.with_changes(name="all", requantise_lanes=0, gemm_stages=8)],
    ids=lambda config: config.name,
)
def test_slots_that_stores_take_delay_whatever_is_issued(config, trips, latency):
    """First and last slots too, the slots of FINISH and of instructions without steps, and the LOADs behind
    them; tokens tell when each retires."""
    gemm = isa.Gemm(iter_out=1, iter_in=trips, uop_end=1)
    scales = {"parameters": 1} if config.has(Extension.REQUANTISE) else {}
    stores = [store(3, 40, **scales), store(1, 7, push_prev=1), store(9, 1), store(2, 60)]
    steps = [
        gemm,
        isa.Gemm(iter_out=0),
        load(UOP, sram_base=9, width=2, dram_base=0x2000),
        load(ACC, width=1),
        isa.Gemm(iter_out=1, iter_in=trips, uop_end=1, push_prev=1),
        two_operands(config, trips),
        isa.Gemm(iter_out=1, iter_in=trips, uop_end=1, pop_next=1, push_next=1),
    ]
    waits = [load(INP, 1, pop_next=1), store(1, 5, pop_prev=1)]
    check(config, [*stores, *steps, *waits, *[gemm] * 9, isa.Finish()], MemoryParameters(latency, 16))


@pytest.mark.parametrize("trips", [1, 40, 400])
@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_loads_of_micro_ops_beside_instructions_that_read_others(config, trips):
    """Some are clear of what is issued, some are not; some have tokens to push, or several rows, and wait."""
    gemm = isa.Gemm(uop_begin=4, uop_end=8, iter_out=1, iter_in=trips)
    alu = isa.Alu(
        uop_end=3, iter_out=1, iter_in=trips, use_imm=1, alu_opcode=config.alu_opcodes[0], push_prev=1
    )
    loads = [
        load(UOP, sram_base=8, width=5),
        load(UOP, sram_base=2, width=2),
        load(UOP, sram_base=3, width=2),
        load(UOP, sram_base=30, width=3, push_next=1),
        load(UOP, sram_base=40, rows=2, width=3),
        load(UOP, sram_base=50, width=0),
        load(ACC, sram_base=9, width=2),
    ]
    mixed = [
        part
        for transfer in loads
        for part in (gemm, transfer, alu, transfer, load(UOP, sram_base=60, width=9))
    ]
    for depth in (1, 16):
        check(config, [*mixed, isa.Finish()], MemoryParameters(latency=20, depth=depth))


BEHIND = [load(INP, 1, 40), isa.Gemm(iter_out=2, iter_in=3, uop_end=1), store(1, 8)] * 40


@pytest.mark.parametrize("latency", [1, 64])
@pytest.mark.parametrize("before", [0, 1, 2, 3, 15, 16, 31, 32])  # 16 and 32 instructions make a burst
@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_what_follows_finish_is_neither_asked_for_nor_executed(config, before, latency):
    """FINISH has any place in a beat; what was asked for behind it is dropped before the run ends."""
    check(config, [*[load(UOP)] * before, isa.Finish(), *BEHIND], MemoryParameters(latency, 16))


@pytest.mark.parametrize("config", [WIDE, LONG], ids=lambda config: config.name)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_a_stream_may_begin_and_end_anywhere_in_a_beat(place, count, config):
    assert config.bus_bits == 2 * config.instruction_bits
    program = [*[load(UOP)] * (count - 1), isa.Finish()]
    check(config, program, address=STREAM + place * config.instruction_bytes)


@pytest.mark.parametrize("config", [WIDE, LONG], ids=lambda config: config.name)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_a_stream_without_finish_is_stopped_in_the_same_cycle(place, count, config):
    """Its last beat is taken with its last instruction, wherever that stands in the beat: else fetch would
    never rest."""
    program, address = [load(UOP)] * count, STREAM + place * config.instruction_bytes
    timing = simulated(config, program, address=address)
    assert timing.fault == Fault.UNFINISHED
    with pytest.raises(UnfinishedError, match=f"after {timing.cycles} cycles"):
        on_rtl(config, program, address=address)
