"""Runs inside the simulator: the write half of a load engine, on LOADs as large as their fields allow."""

from itertools import product

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from streams import CLOCK_NS, configuration, start

from vdla.hw.block_walk import plan_layout, stretch_layout
from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import MemoryType

INPUTS = ("plan__valid", "plan__payload", "hold", "read_data__valid", "read_data__payload")
INP = MemoryType.INP
MOST = 15 + 0xFFFF + 15  # rows, or columns, with the padding on both sides
LARGEST = (
    isa.Load(memory_type=INP, y_size=0xFFFF, x_size=1, y_pad_0=15, y_pad_1=15),
    isa.Load(memory_type=INP, sram_base=0xFFFF, x_size=0xFFFF, x_pad_0=15, x_pad_1=15, y_pad_0=1),
)


def plan(load) -> int:
    """Return the plan of a LOAD of INP that writes something."""
    config = configuration()
    layout, stretch = plan_layout(config, (INP,)), stretch_layout()
    fields = {
        "inp": 1,
        "rows": (load.y_pad_0, load.y_size, load.y_pad_1),
        "columns": (load.x_pad_0, load.x_size, load.x_pad_1),
        "index": load.sram_base,
    }
    for name in ("rows", "columns"):
        parts = zip(("before", "size", "behind"), fields[name], strict=True)
        fields[name] = sum(value << stretch[part].offset for part, value in parts)
    return sum(value << layout[name].offset for name, value in fields.items())


@cocotb.test()
@cocotb.parametrize(load=LARGEST)
async def test_a_load_of_65565_rows_or_columns_ends_and_overruns(dut, load):
    """It is larger than any scratchpad: its addresses wrap, which it reports; and it ends, as every run
    must. The write port shows the step before."""
    depth, passed = configuration().depth(INP), 0
    await start(dut, *INPUTS)
    dut.plan__valid.value, dut.plan__payload.value = 1, plan(load)
    dut.read_data__valid.value = 1
    assert (int(dut.plan__ready.value), int(dut.busy.value)) == (1, 0)
    await FallingEdge(dut.clk)
    assert (int(dut.busy.value), int(dut.inp__enable.value)) == (1, 0)
    for step in (1, depth - 1, depth, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 0x10000, MOST - 2, MOST - 1):
        await Timer((step - passed) * CLOCK_NS, "ns")
        passed, index = step, load.sram_base + step - 1
        assert int(dut.step.value)
        assert int(dut.inp__enable.value)
        assert int(dut.inp__address.value) == index % depth
        assert int(dut.overrun.value) == (index >= depth)
        assert int(dut.read_data__ready.value) == (load.y_size > 0 and 15 <= step < MOST - 15)
        assert int(dut.retire.value) == int(dut.plan__ready.value) == (step == MOST - 1)


def shapes() -> list[isa.Load]:
    """Return LOADs with every combination of missing and present parts, of one element and more."""
    lengths = [
        (before, size, behind) for before in (0, 1, 3) for size in (0, 1, 2, 3) for behind in (0, 1, 2)
    ]
    return [
        isa.Load(
            memory_type=INP,
            sram_base=place % 64,
            y_pad_0=rows[0],
            y_size=rows[1],
            y_pad_1=rows[2],
            x_pad_0=columns[0],
            x_size=columns[1],
            x_pad_1=columns[2],
        )
        for place, (rows, columns) in enumerate(product(lengths, lengths))
        if sum(rows) and columns[1]
    ]


@cocotb.test()
async def test_every_shape_is_walked_in_a_step_per_element_without_a_gap(dut):
    """Data or padding of each element is told by the beat that is taken with it: a beat holds one element."""
    await start(dut, *INPUTS)
    dut.read_data__valid.value = dut.plan__valid.value = 1
    loads = shapes()
    dut.plan__payload.value = plan(loads[0])
    await FallingEdge(dut.clk)
    written = None
    for place, load in enumerate(loads):
        dut.plan__payload.value = plan(loads[(place + 1) % len(loads)])
        rows, columns = (
            [0] * before + [1] * size + [0] * behind
            for before, size, behind in (
                (load.y_pad_0, load.y_size, load.y_pad_1),
                (load.x_pad_0, load.x_size, load.x_pad_1),
            )
        )
        elements = [row & column for row in rows for column in columns]
        for index, is_data in enumerate(elements):
            await RisingEdge(dut.clk)
            outputs = [int(getattr(dut, name).value) for name in ("step", "read_data__ready", "retire")]
            assert outputs == [1, is_data, index == len(elements) - 1], (load, index)
            assert written in (None, int(dut.inp__address.value)), (load, index)
            written = load.sram_base + index
            await FallingEdge(dut.clk)
