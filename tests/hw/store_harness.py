"""Runs inside the simulator: what stands around the store unit: scratchpads, tables, and the memories that
take its writes."""

import random
from collections import deque

from cocotb.triggers import FallingEdge, RisingEdge
from store_programs import element, entry, residual
from streams import unpack

from vdla.hw.signatures import has_shadow, request_layout, shadow, write_beat_layout
from vdla.hw.spec.timing import given_stage
from vdla.hw.spec.vocabulary import Extension, MemoryType

INPUTS = (
    "instruction__valid",
    "instruction__payload",
    "pop_prev__available",
    "push_prev__room",
    "request__ready",
    "write_data__ready",
    "write_done",
)


def word(config, index: int) -> int:
    """Return element `index` as the store unit reads it."""
    bits = config.acc_bits if shadow(config) is MemoryType.ACC else config.out_bits
    return sum(
        (value & (1 << bits) - 1) << place * bits for place, value in enumerate(element(config, index))
    )


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
