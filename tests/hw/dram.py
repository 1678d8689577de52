"""Runs inside the simulator: a DRAM of known bytes that answers reads, what LOADs from it write and what a
unit writes, bursts of transfers."""

import random

from cocotb.triggers import FallingEdge, RisingEdge
from streams import unpack

from vdla.hw.signatures import lanes, request_layout
from vdla.hw.spec import isa
from vdla.hw.spec.numerics import wrap
from vdla.hw.spec.vocabulary import MemoryType


def dram(address: int) -> int:
    """Return the byte of memory at `address`."""
    return (address * 37 + (address >> 8) * 11 + 5) & 0xFF


def word(address: int, size: int) -> int:
    """Return the `size` bytes at `address`."""
    return int.from_bytes(bytes(dram(address + place) for place in range(size)), "little")


def element(config, load, y: int, x: int) -> int:
    """Return an element of DRAM as it is loaded: narrow values are sign-extended."""
    if isinstance(load, isa.Gather):
        size = config.element_bytes(load.memory_type)
        return word(load.dram_base + y * load.x_stride + x * load.step, size)
    narrow, wide, extended = dram_bits(config, load), config.value_bits(target(load)), 0
    values = config.values(target(load))
    size = values * narrow // 8
    raw = word((load.dram_base + y * load.x_stride + x) * size, size)
    for place in range(values):
        value = raw >> narrow * place & (1 << narrow) - 1
        value -= (value >> narrow - 1) << narrow
        extended |= (value & (1 << wide) - 1) << wide * place
    return extended


def dram_bits(config, load) -> int:
    """Return the bits of a value of `load` in DRAM."""
    is_narrow = isinstance(load, isa.Load) and load.memory_type is MemoryType.WGT
    return config.value_bits(load.memory_type) // (2**load.halvings if is_narrow else 1)


def padding(config, load, register: int) -> int:
    """Return the padding element of `load`, where the pad register holds `register`."""
    if load.memory_type is MemoryType.UOP:
        return 0
    width, bits = config.value_bits(target(load)), dram_bits(config, load)
    value = -(1 << bits - 1) if load.pad_minimum else wrap(wrap(register, 8), bits) * load.pad_value
    value &= (1 << width) - 1
    return sum(value << start for start in range(0, config.element_bits(target(load)), width))


def target(load) -> MemoryType:
    """Return the scratchpad that `load` writes."""
    return MemoryType.ACC if load.memory_type is MemoryType.ACC_8BIT else load.memory_type


def written(config, loads) -> dict:
    """Return every scratchpad element that `loads` of one unit write, by (memory, index)."""
    pads, register = {}, 0
    for load in loads:
        gathers = isinstance(load, isa.Gather)
        register = load.sram_base if load.pad_value and not load.x_size and not gathers else register
        position, left, right = (load.sram_base, *((0, 0) if gathers else (load.x_pad_0, load.x_pad_1)))
        for y in range(-load.y_pad_0, load.y_size + load.y_pad_1 if load.x_size else -load.y_pad_0):
            for x in range(-left, load.x_size + right):
                inside = 0 <= y < load.y_size and 0 <= x < load.x_size
                pads[target(load), position] = (
                    element(config, load, y, x) if inside else padding(config, load, register)
                )
                position += 1
    return pads


def bursts(config, transfer):
    """Yield the requests of a LOAD, GATHER or STORE, in order: each row cut at the multiples of `burst_bytes`."""
    bus, longest = config.bus_bytes, config.burst_bytes
    size = config.values(transfer.memory_type) * dram_bits(config, transfer) // 8
    gathers = isinstance(transfer, isa.Gather)
    unit, width = (
        (1, (transfer.x_size - 1) * transfer.step + size) if gathers else (size, transfer.x_size * size)
    )
    for y in range(transfer.y_size):
        start = (transfer.dram_base + y * transfer.x_stride) * unit
        end = start + width
        while start < end:
            stop, first = min(end, (start // longest + 1) * longest), start // bus * bus
            yield {
                "write": int(isinstance(transfer, isa.Store)),
                "address": first,
                "beats": -(-(stop - first) // bus),
            }
            start = stop


def note_writes(dut, config, memories, pads: dict) -> set[MemoryType]:
    """Write the lanes that the write ports of `memories` enable into `pads`, by (memory, index).

    Returns:
        The memories that are written in this cycle.
    """
    enables = {memory: int(getattr(dut, f"{memory.name.lower()}__enable").value) for memory in memories}
    for memory, enable in enables.items():
        count, port = lanes(config, memory), memory.name.lower()
        bits, key = (
            config.element_bits(memory) // count,
            (memory, int(getattr(dut, f"{port}__address").value)),
        )
        mask = sum(((1 << bits) - 1) << lane * bits for lane in range(count) if enable >> lane & 1)
        if mask:
            pads[key] = pads.get(key, 0) & ~mask | int(getattr(dut, f"{port}__data").value) & mask
    return {memory for memory, enable in enables.items() if enable}


async def memory(dut, config, share: float, requests: list) -> None:
    """Answer requests in order, with random stalls."""
    rng, beats, size = random.Random(3), [], config.bus_bytes
    while True:
        dut.request__ready.value = int(rng.random() >= share)
        dut.read_data__valid.value = int(bool(beats) and rng.random() >= share)
        dut.read_data__payload.value = beats[0] if beats else 0
        await RisingEdge(dut.clk)
        if int(dut.read_data__valid.value) and int(dut.read_data__ready.value):
            beats.pop(0)
        if int(dut.request__valid.value) and int(dut.request__ready.value):
            request = unpack(request_layout(config), int(dut.request__payload.value))
            requests.append(request)
            beats += [word(request["address"] + beat * size, size) for beat in range(request["beats"])]
        await FallingEdge(dut.clk)
