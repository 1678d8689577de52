"""Runs inside the simulator: the compute pipeline's latency, and its forwarding on one accumulator."""

import random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from streams import configuration, start

from vdla.hw.sequencer import slot_layout
from vdla.hw.spec import isa, numerics
from vdla.hw.spec.timing import retire_stage
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType

INPUTS = ("valid", "slot", "uop", "inp__data", "wgt__data", "acc__data")


def slot(config, **fields: int) -> int:
    """Return a packed slot."""
    layout = slot_layout(config)
    return sum(
        (value & (1 << layout[name].width) - 1) << layout[name].offset for name, value in fields.items()
    )


class Accumulators:
    """The ACC scratchpad: read data follow the address by a cycle; a write is seen from the next cycle on."""

    def __init__(self, dut, config) -> None:
        self.dut, self.words, self.writes = dut, [0] * config.depth(MemoryType.ACC), []

    async def serve(self) -> None:
        cycle = 0
        while True:
            await RisingEdge(self.dut.clk)
            read = (
                self.words[int(self.dut.acc__address.value)]
                if self.dut.acc__address.value.is_resolvable
                else 0
            )
            if int(self.dut.write__enable.value):
                self.words[int(self.dut.write__address.value)] = int(self.dut.write__data.value)
                self.writes.append((cycle, int(self.dut.write__address.value)))
            await FallingEdge(self.dut.clk)
            self.dut.acc__data.value = read
            cycle += 1


def steps(rng: random.Random) -> list[dict]:
    """Return ALU steps that come back to few accumulators at all short distances."""
    found = []
    for _ in range(120):
        immediate, opcode = rng.randrange(2), rng.choice((AluOpcode.ADD, AluOpcode.MAX, AluOpcode.MUL))
        found.append(
            {
                "alu": 1,
                "alu_opcode": int(opcode),
                "use_imm": immediate,
                "imm": rng.randint(-9, 9),
                "dst": rng.randrange(4),
                "src": rng.randrange(4),
            }
        )
    return found


@cocotb.test()
async def test_every_slot_sees_all_earlier_ones(dut):
    config, rng = configuration(), random.Random(2)
    await start(dut, *INPUTS)
    acc = Accumulators(dut, config)
    cocotb.start_soon(acc.serve())
    lanes, bits, model = config.batch * config.block_out, config.acc_bits, [0] * 4
    for step in steps(rng):
        for source in (1, 0) if not step["use_imm"] else (0,):
            while rng.random() < 0.2:
                dut.valid.value = 0
                await FallingEdge(dut.clk)
            dut.valid.value, dut.slot.value = 1, slot(config, source=source, **step)
            await FallingEdge(dut.clk)
        right = step["imm"] if step["use_imm"] else model[step["src"]]
        model[step["dst"]] = numerics.alu(AluOpcode(step["alu_opcode"]), model[step["dst"]], right, bits)
    dut.valid.value = 0
    for _ in range(20):
        await FallingEdge(dut.clk)
    assert acc.words[:4] == [
        sum((value & (1 << bits) - 1) << bits * lane for lane in range(lanes)) for value in model
    ]


@cocotb.test()
async def test_a_slot_is_written_and_retires_four_and_the_stages_cycles_after_its_issue(dut):
    config = configuration()
    await start(dut, *INPUTS)
    dut.valid.value, dut.slot.value = (
        1,
        slot(config, alu=1, alu_opcode=int(isa.AluOpcode.ADD), use_imm=1, imm=3, dst=5, last=1, push_next=1),
    )
    for cycle in range(20):
        await RisingEdge(dut.clk)
        due = cycle == retire_stage(config.gemm_stages) == 4 + config.gemm_stages
        assert (
            bool(int(dut.write__enable.value))
            == bool(int(dut.retire.value))
            == bool(int(dut.push_next.value))
            == due
        ), cycle
        await FallingEdge(dut.clk)
        dut.valid.value = 0
    assert not int(dut.busy.value)
