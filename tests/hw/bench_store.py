"""Runs inside the simulator: the store unit against a scratchpad and a memory in Python."""

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, product

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from dram import bursts
from normal_programs import gather
from store_harness import Inputs, Memory, fill_tables, inputs, residuals, scratchpad, word
from store_programs import OUT, STORES, expected, mixed, stores, written
from streams import configuration, send, start

from vdla.hw.signatures import has_shadow
from vdla.hw.spec import codec, isa
from vdla.hw.spec.timing import (
    BURSTS_STORED_AHEAD,
    STORE_REQUESTS_AHEAD,
    store_read_stages,
    store_stages,
)
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter, Statistic


def stages(config) -> int:
    """Return the cycles from a read to its beat."""
    return store_stages(config.effective_extensions, store_read_stages(config.acc_ports, config.gemm_stages))


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4, 0.8])
async def test_memory_holds_what_the_stores_say(dut, share):
    config = configuration()
    await start(dut, *inputs(config))
    dut.pop_prev__available.value = dut.push_prev__room.value = 1
    memory = Memory(dut, config, share)
    cocotb.start_soon(scratchpad(dut, config))
    cocotb.start_soon(residuals(dut, config))
    cocotb.start_soon(memory.serve())
    await fill_tables(dut, config)
    await send(dut, "instruction", [codec.encode(store, config) for store in stores(config)], share)
    for _ in range(20000):
        await FallingEdge(dut.clk)
        if int(dut.status__idle.value):
            break
    assert memory.bytes == expected(config, stores(config))
    assert memory.pushes == sum(store.push_prev for store in stores(config))
    for request in memory.requests:
        assert request["write"]
        assert request["address"] % config.bus_bytes == 0
        assert (
            request["address"] % config.burst_bytes + request["beats"] * config.bus_bytes
            <= config.burst_bytes
        )


@cocotb.test()
async def test_a_store_is_done_only_when_memory_has_answered(dut):
    config = configuration()
    await start(dut, *inputs(config))
    dut.pop_prev__available.value = dut.push_prev__room.value = dut.request__ready.value = (
        dut.write_data__ready.value
    ) = 1
    await send(dut, "instruction", [codec.encode(STORES[5], config)])
    for _ in range(30 + stages(config)):
        await FallingEdge(dut.clk)
        assert not int(dut.push_prev__push.value)
        assert not int(dut.status__idle.value)
    dut.write_done.value = 1
    await RisingEdge(dut.clk)
    assert int(dut.push_prev__push.value)
    await FallingEdge(dut.clk)
    assert int(dut.status__idle.value)


@cocotb.test()
async def test_answers_that_come_while_empty_stores_retire_are_all_counted(dut):
    """A write, empty STOREs, and as many writes as can still wait for an answer; memory answers one write
    each cycle."""
    config, pushes = configuration(), []
    empty, later = config.max_requests // 2, config.max_requests - config.max_requests // 2 - 1
    written = isa.Store(memory_type=OUT, x_size=1, y_size=1, push_prev=1)
    program = [written, *[isa.Store(memory_type=OUT, push_prev=1)] * empty, *[written] * later]
    await start(dut, *inputs(config))
    dut.push_prev__room.value = dut.request__ready.value = dut.write_data__ready.value = 1
    await send(dut, "instruction", [codec.encode(store, config) for store in program])
    for _ in range(100):
        await FallingEdge(dut.clk)
        assert not int(dut.push_prev__push.value)
    for cycle in range(len(program)):
        dut.write_done.value = int(cycle < 1 + later)
        await RisingEdge(dut.clk)
        pushes.append(int(dut.push_prev__push.value))
        await FallingEdge(dut.clk)
    assert pushes == [1] * len(program)
    assert int(dut.status__idle.value)


def most_reads(config, store: isa.Store) -> int:
    """Return the reads that one STORE of whole beats can issue while memory takes nothing: the queues are
    full then."""
    beats, reads = BURSTS_STORED_AHEAD * config.burst_beats + stages(config) - 1, 0
    requests = STORE_REQUESTS_AHEAD + store_stages(config.effective_extensions) - 1
    for request in islice(bursts(config, store), requests):
        taken = min(beats, request["beats"])
        beats -= taken
        reads += taken * reads_of_beat(config, store)
    return reads


def reads_of_beat(config, store: isa.Store) -> int:
    """Return the reads that fill one beat of `store`'s rows, which are single elements or fill their
    beats."""
    size = config.element_bytes(OUT) if store.x_size == 1 else config.bus_bytes
    return max(1, min(size, config.bus_bytes) // config.store_read_bytes)


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(
    store=[
        isa.Store(memory_type=OUT, y_size=20, x_size=1, x_stride=3),
        isa.Store(memory_type=OUT, y_size=1, x_size=160),
    ]
)
async def test_reads_stop_where_the_queues_are_full_and_nothing_is_lost(dut, store):
    config, busy = configuration(), 0
    await start(dut, *inputs(config))
    memory = Memory(dut, config, 1.0)
    cocotb.start_soon(scratchpad(dut, config))
    cocotb.start_soon(memory.serve())
    await send(dut, "instruction", [codec.encode(store, config)])
    for _ in range(1600):  # where few places are left, a read waits for the previous read to leave the stages
        busy += int(dut.status__busy.value)
        await FallingEdge(dut.clk)
    assert busy == most_reads(config, store)
    memory.share = 0.0
    while not int(dut.status__idle.value):
        await FallingEdge(dut.clk)
    assert memory.bytes == expected(config, (store,))


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(
    store=[
        isa.Store(memory_type=OUT, y_size=1, x_size=0x8000),
        isa.Store(memory_type=OUT, y_size=0x8001, x_size=1, x_stride=0xFFFF),
    ]
)
async def test_a_large_store_does_not_end_early(dut, store):
    """Its first bursts: a size cut to fewer bits would be 0, or 1."""
    config = configuration()
    await start(dut, *inputs(config))
    memory = Memory(dut, config, 0.0)
    cocotb.start_soon(memory.serve())
    await send(dut, "instruction", [codec.encode(store, config)])
    while len(memory.requests) < 3:
        assert not int(dut.status__idle.value)
        await FallingEdge(dut.clk)
    assert memory.requests == list(islice(bursts(config, store), 3))


@cocotb.test()
async def test_an_overrun_is_reported_a_cycle_behind_each_read_past_the_end(dut):
    """The first read is issued two cycles behind the instruction's start."""
    config, overruns, busy = configuration(), [], []
    store = isa.Store(memory_type=OUT, sram_base=config.depth(OUT) - 2, y_size=2, x_size=2, x_stride=2)
    reads = config.element_bytes(OUT) // config.store_read_bytes
    await start(dut, *inputs(config))
    await send(dut, "instruction", [codec.encode(store, config)])
    for _ in range(4 * reads + 3):
        overruns.append(int(dut.status__overrun.value))
        busy.append(int(dut.status__busy.value))
        await FallingEdge(dut.clk)
    assert busy == [0] + [1] * 4 * reads + [0] * 2
    assert overruns == [0] * (2 + 2 * reads) + [1] * 2 * reads + [0]


@cocotb.test()
async def test_the_port_is_lent_behind_each_cycle_that_asks_for_it_and_nothing_is_lost(dut):
    """The unit's reads stand still in these cycles, whatever they are."""
    config, rng = configuration(), random.Random(5)
    if not has_shadow(config):
        return
    await start(dut, *inputs(config))
    dut.pop_prev__available.value = dut.push_prev__room.value = 1
    memory = Memory(dut, config, 0.0)
    cocotb.start_soon(scratchpad(dut, config))
    cocotb.start_soon(memory.serve())
    sent = cocotb.start_soon(
        send(dut, "instruction", [codec.encode(store, config) for store in stores(config)])
    )
    lent, address, due = False, 0, None
    for _ in range(60000):
        if sent.done() and int(dut.status__idle.value):
            break
        asked = bool(config.alu_opcodes) and rng.random() < 0.5
        dut.operand__next.value = int(asked)
        await RisingEdge(dut.clk)
        assert due is None or int(dut.operand__data.value) == due
        assert not lent or not int(dut.reads.step.value)
        assert not lent or int(dut.out__address.value) == address
        due = word(config, address) if lent else None
        await FallingEdge(dut.clk)
        lent, address = asked, rng.randrange(config.depth(MemoryType.ACC))
        dut.operand__address.value = address
    assert memory.bytes == expected(config, stores(config))


@cocotb.test()
async def test_a_slot_is_taken_behind_each_read_of_an_element_or_a_parameter(dut):
    """Other parts of an element take none, nor does a STORE that writes nothing."""
    config, addresses = configuration(), []
    if has_shadow(config):
        return
    parts = config.element_bytes(OUT) // config.store_read_bytes
    program = [isa.Store(memory_type=OUT, sram_base=5, y_size=1, x_size=3), isa.Store(memory_type=OUT)]
    due = [5, 6, 7]
    if config.has(Extension.REQUANTISE):
        program.append(replace(program[0], parameters=3))
        due += [8, 9, 10, 11, 5, 6, 7]
    await start(dut, *inputs(config))
    cocotb.start_soon(Memory(dut, config, 0.0).serve())
    cocotb.start_soon(send(dut, "instruction", [codec.encode(store, config) for store in program]))
    reads, before = 0, 0
    for _ in range(30 + 8 * parts):
        if int(dut.acc__taken.value):
            assert before
            addresses.append(int(dut.acc__address.value))
        before = int(dut.reads.step.value)
        reads += before
        await FallingEdge(dut.clk)
    assert addresses == due
    stored = len(program) - 1
    assert reads == 3 * parts * stored + 1 + len(Parameter) * (stored - 1)


async def overruns_of(dut, config, program: Iterable[isa.Instruction]) -> list[int]:
    """Reset the unit, run instructions one by one, and return for each whether it reports an overrun."""
    overruns = []
    await start(dut, *inputs(config))
    cocotb.start_soon(Memory(dut, config, 0.0).serve())
    for instruction in program:
        await send(dut, "instruction", [codec.encode(instruction, config)])
        seen = 0
        for _ in range(80):
            seen |= int(dut.status__overrun.value)
            await FallingEdge(dut.clk)
        overruns.append(seen)
    return overruns


@cocotb.test()
async def test_a_table_or_a_residual_past_the_end_is_an_overrun(dut):
    """Each STORE writes one element; it names the last element of a memory, or the element past it, and has
    parameters or not."""
    config = configuration()
    cases: list[tuple[dict[str, int], bool]] = []
    if config.has(Extension.TABLE):
        tables = config.depth(MemoryType.TABLE) // isa.TABLE_ELEMENTS
        cases += [({"table": tables}, False), ({"table": tables + 1}, True)]
    if config.has(Extension.RESIDUAL):
        depth = config.depth(MemoryType.RES)
        cases += [({"residual": depth}, False), ({"residual": depth + 1}, True)]
    program = (
        isa.Store(memory_type=OUT, y_size=1, x_size=1, parameters=parameters, **fields)
        for fields, parameters in product((fields for fields, _ in cases), (0, 1))
    )
    due = [int(beyond and parameters > 0) for _, beyond in cases for parameters in (0, 1)]
    assert await overruns_of(dut, config, program) == due


@cocotb.test()
async def test_a_table_of_powers_past_the_end_is_an_overrun(dut):
    """It takes the place of two tables, with parameters or without, whatever the statistic is."""
    config = configuration()
    if not config.has(Extension.NORMALISE):
        return
    tables = config.depth(MemoryType.TABLE) // isa.TABLE_ELEMENTS
    gathering = (
        gather(statistic, x_size=1, table=table, parameters=parameters)
        for table, statistic, parameters in product((tables - 1, tables), Statistic, (0, 1))
    )
    assert await overruns_of(dut, config, gathering) == [0] * 6 + [1] * 6


@cocotb.test()
async def test_a_store_that_waits_begins_behind_the_last_read_of_the_one_before(dut):
    """Each STORE reads as often as it must, and no cycle lies between two."""
    config, busy = configuration(), []
    parameters = [0, 1, 2] if config.has(Extension.REQUANTISE) else [0, 0]
    program = [isa.Store(memory_type=OUT, y_size=1, x_size=3, parameters=number) for number in parameters]
    program += [replace(program[-1], residual=1)] if config.has(Extension.RESIDUAL) else []
    parts = config.element_bytes(OUT) // config.store_read_bytes
    sets = sum((store.parameters > 0) + (store.residual > 0) for store in program)
    reads = 3 * parts * len(program) + len(Parameter) * sets
    await start(dut, *inputs(config))
    cocotb.start_soon(Memory(dut, config, 0.0).serve())
    dut.instruction__valid.value = 1
    for store in program:
        dut.instruction__payload.value = codec.encode(store, config)
        while not int(dut.instruction__ready.value):
            busy.append(int(dut.reads.step.value))
            await FallingEdge(dut.clk)
        busy.append(int(dut.reads.step.value))
        await FallingEdge(dut.clk)
    dut.instruction__valid.value = 0
    for _ in range(reads + 2):
        busy.append(int(dut.reads.step.value))
        await FallingEdge(dut.clk)
    assert "".join(map(str, busy)).strip("0") == "1" * reads


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.7])
async def test_inputs_hold_what_the_stores_say_when_their_tokens_are_pushed(dut, share):
    config = configuration()
    if not config.has(Extension.FEEDBACK):
        return
    await start(dut, *inputs(config))
    dut.pop_prev__available.value = dut.push_prev__room.value = 1
    memory, pads, program = Memory(dut, config, share), Inputs(dut), mixed(config)
    for task in (scratchpad(dut, config), residuals(dut, config), memory.serve(), pads.serve()):
        cocotb.start_soon(task)
    await fill_tables(dut, config)
    sent = cocotb.start_soon(send(dut, "instruction", [codec.encode(store, config) for store in program]))
    due, pushed = [], 0
    elements = 0
    for store in program:
        into_inputs = store.memory_type is MemoryType.INP and getattr(store, "normal", 1) > 0
        elements += store.x_size * store.y_size * into_inputs
        due += [elements] * store.push_prev
    for _ in range(20000):
        await RisingEdge(dut.clk)
        if int(dut.push_prev__push.value):
            assert pads.written >= due[pushed]
            pushed += 1
        await FallingEdge(dut.clk)
        if sent.done() and int(dut.status__idle.value):
            break
    assert pushed == len(due)
    assert pads.written == elements
    size, words, bytes_in_dram = config.element_bytes(OUT), {}, {}
    for store, bytes_of in written(config, program):
        if store.memory_type is not MemoryType.INP:
            bytes_in_dram.update(bytes_of)
        else:
            for element in {byte // size for byte in bytes_of}:
                data = bytes(bytes_of[element * size + place] for place in range(size))
                words[element] = int.from_bytes(data, "little")
    assert pads.elements == words
    assert memory.bytes == bytes_in_dram


@cocotb.test()
async def test_an_element_beyond_inputs_is_an_overrun(dut):
    config = configuration()
    if not config.has(Extension.FEEDBACK):
        return
    depth = config.depth(MemoryType.INP)
    places = (MemoryType.INP, depth - 1), (MemoryType.INP, depth), (OUT, depth), (OUT, depth - 1)
    program = (isa.Store(memory_type=memory, dram_base=base, y_size=1, x_size=1) for memory, base in places)
    assert await overruns_of(dut, config, program) == [0, 1, 0, 0]


@cocotb.test()
async def test_a_normalise_that_writes_nothing_is_beyond_no_inputs(dut):
    config = configuration()
    if not (config.has(Extension.FEEDBACK) and config.has(Extension.NORMALISE)):
        return
    beyond = isa.Normalise(
        memory_type=MemoryType.INP, dram_base=config.depth(MemoryType.INP), y_size=1, x_size=1
    )
    assert await overruns_of(dut, config, (beyond, replace(beyond, normal=1))) == [0, 1]
