"""Runs inside the simulator: a load engine, on random LOADs of every memory type, against the model of LOAD."""

import random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from dram import memory, note_writes, target, written
from streams import configuration, send, start

from vdla.hw.spec import codec, isa
from vdla.hw.spec.memories import loaded_by
from vdla.hw.spec.vocabulary import Extension, Unit

INPUTS = (
    "instruction__valid",
    "instruction__payload",
    "hold",
    "request__ready",
    "read_data__valid",
    "read_data__payload",
)
REGISTER = (0, 1, 0x7F, 0x80, 0x81, 0xFF)  # bounds of a signed byte
PAD = ("x_pad_0", "x_pad_1", "y_pad_0", "y_pad_1")


def random_load(rng: random.Random, config, kind) -> isa.Load:
    """Return a LOAD that stays inside its scratchpad: of data, padded or not, or of the pad register."""
    has_value = config.has(Extension.PAD_VALUE)
    pushes = {name: rng.randrange(2) for name in ("push_prev", "push_next")}
    if has_value and not rng.randrange(3):
        return isa.Load(memory_type=kind, sram_base=rng.choice(REGISTER), pad_value=1, **pushes)
    return isa.Load(
        memory_type=kind,
        sram_base=rng.randrange(config.depth(kind) - 64),
        dram_base=rng.randrange(4096),
        x_size=rng.randrange(5),
        y_size=rng.randrange(4),
        x_stride=rng.randrange(9),
        pad_value=rng.randrange(2) if has_value else 0,
        pad_minimum=int(config.has(Extension.PAD_MINIMUM) and not rng.randrange(4)),
        **{side: rng.choice((0, 0, 1, 2)) for side in PAD},
        **pushes,
    )


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.5])
async def test_scratchpads_hold_what_random_loads_of_every_memory_say(dut, share):
    config, pads, requests, pushes = configuration(), {}, [], []
    kinds, rng = loaded_by(Unit.COMPUTE, config), random.Random(5)
    loads = [random_load(rng, config, kind) for _ in range(16) for kind in rng.sample(kinds, len(kinds))]
    ports = sorted({target(load) for load in loads})

    async def watch() -> None:
        while True:
            await RisingEdge(dut.clk)
            note_writes(dut, config, ports, pads)
            if int(dut.retire.value):
                pushes.append((int(dut.push_prev.value), int(dut.push_next.value)))

    await start(dut, *INPUTS)
    cocotb.start_soon(memory(dut, config, share, requests))
    cocotb.start_soon(watch())
    await send(dut, "instruction", [codec.encode(load, config) for load in loads], share)
    for _ in range(5000):
        if int(dut.idle.value):
            break
        await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)  # the last write follows its step by a cycle
    expected = written(config, loads)
    differs = {key for key in pads.keys() | expected.keys() if pads.get(key) != expected.get(key)}
    assert differs == set()
    assert pushes == [(load.push_prev, load.push_next) for load in loads]
