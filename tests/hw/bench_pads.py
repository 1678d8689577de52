"""Runs inside the simulator: the write half of a load engine, on LOADs that only pad, with every value of the
pad register that is the end of a range."""

import cocotb
from cocotb.triggers import FallingEdge
from dram import padding, target
from streams import configuration, start

from vdla.hw.block_walk import plan_layout, stretch_layout
from vdla.hw.spec import isa
from vdla.hw.spec.memories import loaded_by
from vdla.hw.spec.vocabulary import Unit

INPUTS = ("plan__valid", "plan__payload", "hold", "read_data__valid", "read_data__payload")
REGISTER = (0, 1, 0x07, 0x08, 0x7F, 0x80, 0x81, 0xFF)


def plan(config, memory, **fields: int) -> int:
    """Return a plan with these fields."""
    layout = plan_layout(config, loaded_by(Unit.COMPUTE, config))
    return sum(value << layout[name].offset for name, value in {memory.name.lower(): 1, **fields}.items())


@cocotb.test()
async def test_a_padding_element_has_the_value_that_its_flags_ask_for(dut):
    """The register, with its sign in every wider value; the least value, whatever the register; else 0."""
    config, size = configuration(), stretch_layout()["size"].offset
    await start(dut, *INPUTS)
    dut.plan__valid.value = 1
    for memory in loaded_by(Unit.COMPUTE, config):
        for register in REGISTER:
            dut.plan__payload.value = plan(config, memory, empty=1, pad_value=1, index=register)
            await FallingEdge(dut.clk)
            for flags in {}, {"pad_value": 1}, {"pad_minimum": 1}, {"pad_value": 1, "pad_minimum": 1}:
                load = isa.Load(memory_type=memory, x_size=1, y_pad_0=1, **flags)
                dut.plan__payload.value = plan(config, memory, rows=1, columns=1 << size, index=5, **flags)
                for _ in range(2):
                    await FallingEdge(dut.clk)
                port = target(load).name.lower()
                assert int(getattr(dut, f"{port}__enable").value)
                word = int(getattr(dut, f"{port}__data").value)
                assert word == padding(config, load, register), (load, register)
