"""Runs inside the simulator: the write half of a load engine, on LOADs as large as their fields allow."""

import cocotb
from cocotb.triggers import Timer
from streams import CLOCK_NS, configuration, start

from vdla.hw.spec import codec, isa
from vdla.hw.spec.vocabulary import MemoryType

INPUTS = ("instruction__valid", "instruction__payload", "hold", "read_data__valid", "read_data__payload")
INP = MemoryType.INP
MOST = 15 + 0xFFFF + 15  # rows, or columns, with the padding on both sides
LARGEST = (
    isa.Load(memory_type=INP, y_size=0xFFFF, x_size=1, y_pad_0=15, y_pad_1=15),
    isa.Load(memory_type=INP, sram_base=0xFFFF, x_size=0xFFFF, x_pad_0=15, x_pad_1=15, y_pad_0=1),
)


@cocotb.test()
@cocotb.parametrize(load=LARGEST)
async def test_a_load_of_65565_rows_or_columns_ends_and_overruns(dut, load):
    """It is larger than any scratchpad: its addresses wrap, which it reports; and it ends, as every run
    must."""
    depth, passed = configuration().depth(INP), 0
    await start(dut, *INPUTS)
    dut.instruction__valid.value, dut.instruction__payload.value = 1, codec.encode(load, configuration())
    dut.read_data__valid.value = 1
    for step in (1, depth - 1, depth, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 0x10000, MOST - 2, MOST - 1):
        await Timer((step - passed) * CLOCK_NS, "ns")
        passed, index = step, load.sram_base + step
        assert int(dut.step.value)
        assert int(dut.inp__enable.value)
        assert int(dut.inp__address.value) == index % depth
        assert int(dut.overrun.value) == (index >= depth)
        assert int(dut.read_data__ready.value) == (load.y_size > 0 and 15 <= step < MOST - 15)
        assert int(dut.retire.value) == int(dut.instruction__ready.value) == (step == MOST - 1)
