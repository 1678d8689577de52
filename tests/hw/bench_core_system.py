"""Runs inside the simulator: the core top with a small memory in Python, under random stalls."""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from system_program import OUT, STREAM, program

from vdla.hw.signatures import request_layout, write_beat_layout
from vdla.hw.spec.files import load
from vdla.hw.spec.registers import OFFSETS, Control, Fault, Status


def unpack(layout, value: int) -> dict[str, int]:
    """Return the members of a packed payload."""
    return {name: value >> field.offset & (1 << field.width) - 1 for name, field in layout}


class Memory:
    """Serves the memory port in order, with random stalls everywhere."""

    def __init__(self, dut, config, dram: bytes, share: float) -> None:
        self.dut, self.config, self.dram, self.share = dut, config, bytearray(dram), share
        self.queue, self.rng = [], random.Random(5)

    async def serve(self) -> None:
        dut, size = self.dut, self.config.bus_bytes
        while True:
            await FallingEdge(dut.clk)
            head = self.queue[0] if self.queue else None
            offers = self.rng.random() >= self.share
            dut.memory__request__ready.value = int(len(self.queue) < 4 and self.rng.random() >= self.share)
            dut.memory__write_data__ready.value = int(bool(head and head["write"] and offers))
            dut.memory__read_data__valid.value = int(bool(head and not head["write"] and offers))
            if head and not head["write"]:
                dut.memory__read_data__payload.value = int.from_bytes(
                    self.dram[head["address"] : head["address"] + size], "little"
                )
            await RisingEdge(dut.clk)
            self._take(head, size)

    def _take(self, head, size: int) -> None:
        """Do what the handshakes before this edge agreed on."""
        dut, done = self.dut, 0
        if dut.memory__request__valid.value and dut.memory__request__ready.value:
            self.queue.append(unpack(request_layout(self.config), int(dut.memory__request__payload.value)))
        wrote = bool(dut.memory__write_data__valid.value and dut.memory__write_data__ready.value)
        if wrote:
            self._write(
                head["address"],
                unpack(write_beat_layout(self.config), int(dut.memory__write_data__payload.value)),
            )
        if wrote or (dut.memory__read_data__valid.value and dut.memory__read_data__ready.value):
            head["address"] += size
            head["beats"] -= 1
            if not head["beats"]:
                done = head["write"]
                self.queue.pop(0)
        dut.memory__write_done.value = done

    def _write(self, address: int, beat: dict[str, int]) -> None:
        for lane in range(self.config.bus_bytes):
            if beat["strobe"] >> lane & 1:
                self.dram[address + lane] = beat["data"] >> 8 * lane & 0xFF


async def access(dut, name: str, value: int | None = None) -> int:
    """Write a register, or read it."""
    await FallingEdge(dut.clk)
    dut.registers__address.value = OFFSETS[name]
    dut.registers__write.value = int(value is not None)
    dut.registers__write_data.value = value or 0
    await FallingEdge(dut.clk)
    dut.registers__write.value = 0
    return int(dut.registers__read_data.value)


async def reset(dut) -> None:
    for name in (
        "registers__address",
        "registers__write",
        "registers__write_data",
        "memory__request__ready",
        "memory__write_data__ready",
        "memory__read_data__valid",
        "memory__read_data__payload",
        "memory__write_done",
        "memory__error",
    ):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    for _ in range(2):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def run(dut, config, share: float, count: int | None = None) -> tuple[Memory, np.ndarray]:
    """Run the program (its first `count` instructions) to its end."""
    dram, expected, length = program(config)
    memory = Memory(dut, config, dram, share)
    serving = cocotb.start_soon(memory.serve())
    await access(dut, "STREAM_ADDRESS", STREAM)
    await access(dut, "STREAM_COUNT", length if count is None else count)
    await access(dut, "CONTROL", Control.START)
    for _ in range(4000):
        if await access(dut, "STATUS") & Status.DONE:
            break
    serving.cancel()
    return memory, expected


@cocotb.test()
async def test_program_gives_its_outputs_under_stalls(dut):
    await reset(dut)
    for share in (0.0, 0.3, 0.6):
        memory, expected = await run(dut, load(os.environ["VDLA_CONFIG"]), share)
        assert await access(dut, "STATUS") == Status.DONE
        np.testing.assert_array_equal(
            np.frombuffer(memory.dram[OUT : OUT + expected.size], np.int8).reshape(expected.shape), expected
        )


@cocotb.test()
async def test_stream_without_its_end_stops_with_a_fault(dut):
    await reset(dut)
    config = load(os.environ["VDLA_CONFIG"])
    for count, fault in ((3, Fault.UNFINISHED), (9, Fault.UNFINISHED)):
        await run(dut, config, 0.0, count)
        assert await access(dut, "STATUS") == Status.DONE | Status.FAULT
        assert await access(dut, "FAULT") == fault
    memory, expected = await run(dut, config, 0.0)  # and the next run is none the worse for it
    assert await access(dut, "STATUS") == Status.DONE
    assert bytes(memory.dram[OUT : OUT + expected.size]) == expected.tobytes()
