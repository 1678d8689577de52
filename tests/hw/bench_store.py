"""Runs inside the simulator: the store unit against a scratchpad and a memory in Python."""

import random
from collections import deque
from dataclasses import replace
from itertools import islice, product

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from dram import bursts
from streams import configuration, send, start, unpack

from vdla.hw.signatures import has_shadow, request_layout, shadow, write_beat_layout
from vdla.hw.spec import codec, isa, numerics
from vdla.hw.spec.timing import (
    BURSTS_STORED_AHEAD,
    STORE_REQUESTS_AHEAD,
    given_stage,
    store_read_stages,
    store_stages,
)
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

INPUTS = (
    "instruction__valid",
    "instruction__payload",
    "pop_prev__available",
    "push_prev__room",
    "request__ready",
    "write_data__ready",
    "write_done",
)
OUT = MemoryType.OUT
STORES = (
    isa.Store(memory_type=OUT, sram_base=3, dram_base=5, y_size=1, x_size=70, x_stride=70, push_prev=1),
    isa.Store(memory_type=OUT, x_size=0, y_size=1, push_prev=1),
    isa.Store(memory_type=OUT, x_size=2, y_size=0),
    isa.Store(memory_type=OUT, sram_base=90, dram_base=301, y_size=5, x_size=3, x_stride=7, push_prev=1),
    isa.Store(memory_type=OUT, x_size=0, push_prev=1),
    isa.Store(memory_type=OUT, sram_base=120, dram_base=500, y_size=1, x_size=1, push_prev=1),
)


REQUANTISING = (
    isa.Store(
        memory_type=OUT,
        parameters=2,
        sram_base=7,
        dram_base=700,
        y_size=2,
        x_size=9,
        x_stride=11,
        push_prev=1,
    ),
    isa.Store(memory_type=OUT, parameters=9, x_size=0, push_prev=1),
    isa.Store(memory_type=OUT, parameters=1, sram_base=40, dram_base=801, y_size=1, x_size=1),
    isa.Store(memory_type=OUT, parameters=33, sram_base=50, dram_base=803, y_size=1, x_size=2),
    isa.Store(
        memory_type=OUT, parameters=isa.MOST_PARAMETER_SETS, sram_base=60, dram_base=806, y_size=1, x_size=1
    ),
)


TABLES = (
    isa.Store(memory_type=OUT, parameters=3, table=2, sram_base=70, dram_base=820, y_size=1, x_size=13),
    isa.Store(memory_type=OUT, parameters=4, table=8, sram_base=80, dram_base=840, y_size=1, x_size=1),
    isa.Store(memory_type=OUT, parameters=0, table=1, sram_base=81, dram_base=842, y_size=1, x_size=2),
)
RESIDUALS = (
    isa.Store(
        memory_type=OUT,
        parameters=5,
        residual=101,
        sram_base=20,
        dram_base=900,
        y_size=3,
        x_size=4,
        x_stride=6,
        push_prev=1,
    ),
    *(
        isa.Store(
            memory_type=OUT,
            parameters=number,
            residual=number,
            sram_base=number,
            dram_base=930 + 2 * number,
            y_size=1,
            x_size=1,
        )
        for number in range(1, 12)
    ),
    isa.Store(memory_type=OUT, parameters=6, sram_base=30, dram_base=960, y_size=1, x_size=3),
    isa.Store(memory_type=OUT, parameters=0, residual=4, sram_base=33, dram_base=970, y_size=1, x_size=3),
    isa.Store(memory_type=OUT, parameters=7, residual=9, x_size=0, push_prev=1),
)


def stores(config) -> tuple[isa.Store, ...]:
    """Return the STOREs that a configuration has; each with a residual also with a table, if it can be."""
    listed = STORES
    if config.has(Extension.REQUANTISE):
        listed += REQUANTISING
    if config.has(Extension.TABLE):
        listed += TABLES
    if config.has(Extension.RESIDUAL):
        listed += RESIDUALS
    if config.has(Extension.TABLE) and config.has(Extension.RESIDUAL):
        listed += tuple(
            replace(store, table=number % 9, dram_base=store.dram_base + 100)
            for number, store in enumerate(RESIDUALS)
        )
    return listed


def element(config, index: int) -> list[int]:
    """Return accumulator element `index` of the scratchpad."""
    span = 1 << config.acc_bits
    return [
        numerics.wrap((index * 7919 + place * 104729 + 12345) ** 2 % span, config.acc_bits)
        for place in range(config.batch * config.block_out)
    ]


def outputs(config, store: isa.Store, index: int) -> bytes:
    """Return what a STORE makes of element `index`, as it stands in DRAM."""
    values = element(config, index)
    if store.parameters:
        kept = [element(config, store.parameters_base + row) for row in Parameter]
        values = [
            numerics.requantise(value, parameters, config.acc_bits)
            for value, *parameters in zip(values, *kept, strict=True)
        ]
        values = followed(config, store, values, index - store.sram_base)
    packed = sum(
        (value & (1 << config.out_bits) - 1) << place * config.out_bits for place, value in enumerate(values)
    )
    return packed.to_bytes(config.element_bytes(OUT), "little")


def entry(number: int, value: int) -> int:
    """Return the entry of a value in table `number`, counted from 1, as a signed byte."""
    place = 256 * (number - 1) + (value & 0xFF)
    return numerics.wrap((place * 73 + 29) ** 2 >> 3, 8)


def residual(config, index: int) -> list[int]:
    """Return element `index` of the residual scratchpad."""
    return [
        numerics.wrap((index * 6007 + place * 997 + 77) ** 2 >> 5, config.out_bits)
        for place in range(config.batch * config.block_out)
    ]


def followed(config, store: isa.Store, values: list[int], number: int) -> list[int]:
    """Return what the steps behind requantisation make of the values of element `number` of a STORE."""
    if store.table:
        values = [entry(store.table, value) for value in values]
    if store.residual:
        scalars = [element(config, int(row))[0] for row in Parameter]
        values = [
            numerics.add_residual(value, other, scalars)
            for value, other in zip(values, residual(config, store.residual - 1 + number), strict=True)
        ]
    return values


def expected(config, executed: tuple[isa.Store, ...]) -> dict[int, int]:
    """Return every byte of DRAM that the STOREs write."""
    size, dram = config.element_bytes(OUT), {}
    for store in executed:
        for y in range(store.y_size):
            for x in range(store.x_size):
                start = (store.dram_base + y * store.x_stride + x) * size
                dram.update(enumerate(outputs(config, store, store.sram_base + y * store.x_size + x), start))
    return dram


def word(config, index: int) -> int:
    """Return element `index` as the store unit reads it."""
    bits = config.acc_bits if shadow(config) is MemoryType.ACC else config.out_bits
    return sum(
        (value & (1 << bits) - 1) << place * bits for place, value in enumerate(element(config, index))
    )


def stages(config) -> int:
    """Return the cycles from a read to its beat."""
    return store_stages(config.extensions, store_read_stages(config.acc_ports, config.gemm_stages))


async def slots(dut, config) -> None:
    """Answer each read for which a slot is taken when the slot has come to the accumulators, once."""
    due, other = deque([None] * given_stage(config.gemm_stages)), (1 << len(dut.acc__data)) - 1
    while True:
        await RisingEdge(dut.clk)
        due.append(int(dut.acc__address.value) if int(dut.acc__taken.value) else None)
        index = due.popleft()
        await FallingEdge(dut.clk)
        dut.acc__data.value = other if index is None else word(config, index)


async def scratchpad(dut, config) -> None:
    """Answer each address in the cycle after it."""
    if not has_shadow(config):
        await slots(dut, config)
    while True:
        await RisingEdge(dut.clk)
        address = int(dut.out__address.value)
        await FallingEdge(dut.clk)
        dut.out__data.value = word(config, address)


async def fill_tables(dut, config) -> None:
    """Write every element of TABLE, where the configuration has it."""
    if not config.has(Extension.TABLE):
        return
    entries = config.entries
    for index in range(config.depth(MemoryType.TABLE)):
        number, place = divmod(index * entries, 256)
        values = [entry(number + 1, place + lane) & 0xFF for lane in range(entries)]
        dut.table__address.value = index
        dut.table__data.value = sum(value << 8 * lane for lane, value in enumerate(values))
        dut.table__enable.value = 1
        await FallingEdge(dut.clk)
    dut.table__enable.value = 0


async def residuals(dut, config) -> None:
    """Answer each address of the residual scratchpad in the cycle after it, where there is one."""
    bits = config.out_bits
    while config.has(Extension.RESIDUAL):
        await RisingEdge(dut.clk)
        address = int(dut.res__address.value) if dut.res__address.value.is_resolvable else 0
        await FallingEdge(dut.clk)
        dut.res__data.value = sum(
            (value & (1 << bits) - 1) << place * bits for place, value in enumerate(residual(config, address))
        )


def inputs(config) -> tuple[str, ...]:
    """Return the inputs of the unit."""
    names = [*INPUTS, *(("out__data", "operand__next", "operand__address") if has_shadow(config) else ())]
    names += [] if has_shadow(config) else ["acc__data"]
    if config.has(Extension.TABLE):
        names += ["table__address", "table__data", "table__enable"]
    if config.has(Extension.RESIDUAL):
        names += ["res__data"]
    return tuple(names)


class Memory:
    """Takes bursts in order, with random stalls; counts tokens pushed before all bursts of a STORE were
    answered."""

    def __init__(self, dut, config, share: float) -> None:
        self.dut, self.config, self.share = dut, config, share
        self.bytes, self.requests, self.queue, self.pushes = {}, [], [], 0

    async def serve(self) -> None:
        dut, rng, done = self.dut, random.Random(4), 0
        while True:
            dut.request__ready.value = int(rng.random() >= self.share)
            dut.write_data__ready.value = int(bool(self.queue) and rng.random() >= self.share)
            dut.write_done.value, done = done, 0
            await RisingEdge(dut.clk)
            self.pushes += int(dut.push_prev__push.value)
            if int(dut.write_data__valid.value) and int(dut.write_data__ready.value):
                done = self._write(unpack(write_beat_layout(self.config), int(dut.write_data__payload.value)))
            if int(dut.request__valid.value) and int(dut.request__ready.value):
                self.requests.append(unpack(request_layout(self.config), int(dut.request__payload.value)))
                self.queue.append(dict(self.requests[-1]))
            await FallingEdge(dut.clk)

    def _write(self, beat: dict[str, int]) -> int:
        head = self.queue[0]
        self.bytes.update(
            {
                head["address"] + lane: beat["data"] >> 8 * lane & 0xFF
                for lane in range(self.config.bus_bytes)
                if beat["strobe"] >> lane & 1
            }
        )
        head["address"] += self.config.bus_bytes
        head["beats"] -= 1
        assert beat["last"] == (head["beats"] == 0)
        if beat["last"]:
            self.queue.pop(0)
        return beat["last"]


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
    for _ in range(6000):
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
    requests = STORE_REQUESTS_AHEAD + store_stages(config.extensions) - 1
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
    for _ in range(8000):
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


@cocotb.test()
async def test_a_table_or_a_residual_past_the_end_is_an_overrun(dut):
    """Each STORE writes one element; it names the last element of a memory, or the element past it, and has
    parameters or not."""
    config, overruns = configuration(), []
    cases: list[tuple[dict[str, int], bool]] = []
    if config.has(Extension.TABLE):
        tables = config.depth(MemoryType.TABLE) // isa.TABLE_ELEMENTS
        cases += [({"table": tables}, False), ({"table": tables + 1}, True)]
    if config.has(Extension.RESIDUAL):
        depth = config.depth(MemoryType.RES)
        cases += [({"residual": depth}, False), ({"residual": depth + 1}, True)]
    await start(dut, *inputs(config))
    cocotb.start_soon(Memory(dut, config, 0.0).serve())
    for fields, parameters in product((fields for fields, _ in cases), (0, 1)):
        store = isa.Store(memory_type=OUT, y_size=1, x_size=1, parameters=parameters, **fields)
        await send(dut, "instruction", [codec.encode(store, config)])
        seen = 0
        for _ in range(80):
            seen |= int(dut.status__overrun.value)
            await FallingEdge(dut.clk)
        overruns.append(bool(seen))
    assert overruns == [beyond and bool(parameters) for _, beyond in cases for parameters in (0, 1)]


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


def mixed(config) -> tuple[isa.Store, ...]:
    """Return the STOREs of a configuration, of which every second writes INP instead of DRAM."""
    depth = config.depth(MemoryType.INP)
    listed = []
    for number, store in enumerate(stores(config)):
        last = max(store.y_size - 1, 0) * store.x_stride + store.x_size
        base = 37 * number % max(1, depth - last)
        listed += [
            store,
            replace(store, memory_type=MemoryType.INP, dram_base=base, push_prev=number % 3 == 0),
        ]
    return tuple(listed)


class Inputs:
    """Takes what is written into INP, and counts elements; each is announced in the cycle before."""

    def __init__(self, dut) -> None:
        self.dut, self.elements, self.written = dut, {}, 0

    async def serve(self) -> None:
        dut, announced = self.dut, 0
        while True:
            await RisingEdge(dut.clk)
            enable = int(dut.inp__enable.value)
            assert enable == announced * ((1 << len(dut.inp__enable)) - 1)
            if enable:
                self.written += 1
                self.elements[int(dut.inp__address.value)] = int(dut.inp__data.value)
            announced = int(dut.inp__next.value)
            await FallingEdge(dut.clk)


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
        elements += store.x_size * store.y_size * (store.memory_type is MemoryType.INP)
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
    size, words = config.element_bytes(OUT), {}
    for store in program:
        if store.memory_type is MemoryType.INP:
            bytes_of = expected(config, (store,))
            for element in {byte // size for byte in bytes_of}:
                data = bytes(bytes_of[element * size + place] for place in range(size))
                words[element] = int.from_bytes(data, "little")
    assert pads.elements == words
    assert memory.bytes == expected(config, tuple(each for each in program if each.memory_type is OUT))


@cocotb.test()
async def test_an_element_beyond_inputs_is_an_overrun(dut):
    config, overruns = configuration(), []
    if not config.has(Extension.FEEDBACK):
        return
    depth = config.depth(MemoryType.INP)
    await start(dut, *inputs(config))
    cocotb.start_soon(Memory(dut, config, 0.0).serve())
    for memory, base in (
        (MemoryType.INP, depth - 1),
        (MemoryType.INP, depth),
        (OUT, depth),
        (OUT, depth - 1),
    ):
        store = isa.Store(memory_type=memory, dram_base=base, y_size=1, x_size=1)
        await send(dut, "instruction", [codec.encode(store, config)])
        seen = 0
        for _ in range(80):
            seen |= int(dut.status__overrun.value)
            await FallingEdge(dut.clk)
        overruns.append(seen)
    assert overruns == [0, 1, 0, 0]
