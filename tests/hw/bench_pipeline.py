"""Runs inside the simulator: the compute pipeline's latency, and its forwarding on one accumulator."""

import random
from itertools import product
from operator import mul

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from streams import configuration, packed, start

from vdla.hw.signatures import has_banks, has_shadow
from vdla.hw.slots import slot_layout
from vdla.hw.spec import isa, numerics
from vdla.hw.spec.timing import alu_slots, given_stage, retire_stage, source_slots
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType

ACCUMULATORS = 4  # that the steps work on
INPUTS = ("valid", "slot", "uop", "inp__data", "wgt__data", "acc__data")


def inputs(config) -> tuple[str, ...]:
    """Return the inputs of the pipeline."""
    return INPUTS + (("operand__data",) if has_shadow(config) else ("stored__taken", "stored__address"))


def slot(config, **fields: int) -> int:
    """Return a packed slot."""
    layout = slot_layout(config)
    return sum(
        (value & (1 << layout[name].width) - 1) << layout[name].offset for name, value in fields.items()
    )


class Accumulators:
    """The ACC scratchpad and its shadow: read data follow the address by a cycle; a write is seen from the
    next cycle on. The shadow gives other data in the cycles that nobody asked for."""

    def __init__(self, dut, config) -> None:
        self.dut, self.words, self.writes = dut, [0] * config.depth(MemoryType.ACC), []
        self.mask = (1 << config.element_bits(MemoryType.ACC)) - 1

    async def serve(self) -> None:
        cycle, asked, lent = 0, False, False
        shadow = hasattr(self.dut, "operand__next")
        while True:
            await RisingEdge(self.dut.clk)
            read, operand = self._at(self.dut.acc__address.value), 0
            if shadow:
                operand = self._at(self.dut.operand__address.value)
                lent, asked = asked, bool(int(self.dut.operand__next.value))
            if int(self.dut.write__enable.value):
                self.words[int(self.dut.write__address.value)] = int(self.dut.write__data.value)
                self.writes.append((cycle, int(self.dut.write__address.value)))
            await FallingEdge(self.dut.clk)
            self.dut.acc__data.value = read
            if shadow:
                self.dut.operand__data.value = operand if lent else ~operand & self.mask
            cycle += 1

    def _at(self, address) -> int:
        return self.words[int(address)] if address.is_resolvable else 0


class Model:
    """A few accumulators, and what steps make of them; `sums` is what every GEMM step adds, `windows` what
    every DEPTHWISE step adds, by the extents of its window, which holds one input everywhere."""

    def __init__(self, config, rng: random.Random) -> None:
        self.config = config
        inp, wgt = (
            [
                [rng.randint(-(1 << bits - 1), (1 << bits - 1) - 1) for _ in range(config.block_in)]
                for _ in rows
            ]
            for bits, rows in (
                (config.inp_bits, range(config.batch)),
                (config.wgt_bits, range(config.block_out)),
            )
        )
        self.inp = packed([value for row in inp for value in row], config.inp_bits)
        self.wgt = packed([value for row in wgt for value in row], config.wgt_bits)
        self.sums = [sum(map(mul, row, column)) for row in inp for column in wgt]
        self.windows = {
            extents: [
                sum(
                    row[o - o % config.window.channels + term.channel] * column[term.place]
                    for term in config.window.terms(*extents)
                )
                for row in (inp if config.has(Extension.DEPTHWISE) else ())
                for o, column in enumerate(wgt)
            ]
            for extents in product(range(4), range(2))
        }
        self.values = [[0] * len(self.sums) for _ in range(ACCUMULATORS)]

    def take(self, step: dict) -> None:
        """Carry out a step."""
        left, bits = self.values[step["dst"]], self.config.acc_bits
        if step["alu"]:
            right = [step["imm"]] * len(left) if step["use_imm"] else self.values[step["src"]]
            opcode = AluOpcode(step["alu_opcode"])
            results = [numerics.alu(opcode, *pair, bits) for pair in zip(left, right, strict=True)]
        elif step["reset"]:
            results = [0] * len(left)
        else:
            base, sums = [0] * len(left) if step["overwrite"] else left, self.sums
            if step.get("window"):
                sums = self.windows[step.get("more_rows", 0), step.get("wide", 0)]
            results = [numerics.wrap(a + b, bits) for a, b in zip(base, sums, strict=True)]
        self.values[step["dst"]] = results


def step_of(rng: random.Random, config) -> dict:
    """Return a step on one of few accumulators, so that steps come back to each at all short distances."""
    alu = bool(config.alu_opcodes) and rng.randrange(3) > 0
    reset = not alu and rng.random() < 0.1
    opcode = rng.choice(config.alu_opcodes) if alu else 0
    slides, extents = config.has(Extension.DEPTHWISE), {}
    if has_banks(config):
        extents = {"more_rows": rng.randrange(4), "wide": rng.randrange(2), "row_step": 0}
    return {
        **({"window": int(not alu and not reset and rng.randrange(2))} if slides else {}),
        **extents,
        "alu": int(alu),
        "reset": int(reset),
        "overwrite": int(not alu and not reset and rng.random() < 0.2),
        "alu_opcode": int(opcode),
        "use_imm": int(alu and rng.randrange(2)),
        "imm": rng.randint(-9, 9),
        "dst": rng.randrange(ACCUMULATORS),
        "src": rng.randrange(ACCUMULATORS),
    }


def slots_of(config, step: dict) -> list[dict]:
    """Return the slots of a step."""
    if not step["alu"]:
        return [*[{**step, "empty": 1}] * 4, step] if step.get("window") else [step]
    turns = alu_slots(config.alu_pieces, AluOpcode(step["alu_opcode"]), config.alu_stages)
    slots = [{**step, "turn": turn} for turn in range(turns)]
    if source_slots(config.acc_ports, step["use_imm"]):
        slots.insert(0, {**step, "source": 1, "empty": 1})
    return slots


@cocotb.test()
@cocotb.parametrize(gaps=[0.0, 0.3])
async def test_every_slot_sees_all_earlier_ones(dut, gaps):
    config, rng = configuration(), random.Random(2)
    await start(dut, *inputs(config))
    acc, model = Accumulators(dut, config), Model(config, rng)
    cocotb.start_soon(acc.serve())
    rows = config.window.rows if has_banks(config) else 1
    dut.inp__data.value = packed([model.inp] * rows, config.element_bits(MemoryType.INP))
    dut.wgt__data.value = model.wgt
    for _ in range(400):
        step = step_of(rng, config)
        while rng.random() < 0.2:
            dut.valid.value = 0
            await FallingEdge(dut.clk)
        for fields in slots_of(config, step):
            dut.slot.value = slot(config, **fields)
            while not has_shadow(config) and rng.random() < gaps:  # taken, or no instruction's
                dut.valid.value, dut.stored__taken.value = 0, rng.randrange(2)
                dut.stored__address.value = rng.randrange(ACCUMULATORS)
                await FallingEdge(dut.clk)
                dut.stored__taken.value = 0
            dut.valid.value = 1
            await FallingEdge(dut.clk)
        model.take(step)
    dut.valid.value = 0
    for _ in range(20):
        await FallingEdge(dut.clk)
    assert acc.words[:ACCUMULATORS] == [packed(value, config.acc_bits) for value in model.values]


@cocotb.test()
async def test_an_index_past_the_end_is_reported(dut):
    config = configuration()
    await start(dut, *inputs(config))
    past = 1 << config.index_bits(MemoryType.ACC)
    for fields, reported in (
        ({"dst": past - 1}, False),
        ({"dst": past}, True),
        ({"dst": past, "empty": 1}, False),
        ({"alu": 1, "src": past}, True),
        ({"alu": 1, "use_imm": 1, "src": past}, False),
    ):
        dut.valid.value, dut.slot.value = 1, slot(config, **fields)
        await FallingEdge(dut.clk)
        dut.valid.value, seen = 0, 0
        for _ in range(20):
            await RisingEdge(dut.clk)
            seen += int(dut.overrun.value)
            await FallingEdge(dut.clk)
        assert seen == reported, fields


@cocotb.test()
async def test_slots_with_two_operands_claim_the_shadow_s_port_a_cycle_ahead(dut):
    """No other slot does, nor one without a step, nor a configuration that has no operations."""
    config = configuration()
    if not has_shadow(config):
        return
    await start(dut, *inputs(config))
    for fields, claims in (
        ({"alu": 1, "src": 3}, bool(config.alu_opcodes)),
        ({"alu": 1, "use_imm": 1, "src": 3}, False),
        ({"alu": 1, "empty": 1, "src": 3}, False),
        ({"src": 3}, False),
    ):
        dut.valid.value, dut.slot.value = 1, slot(config, **fields)
        for cycle in range(20):
            await RisingEdge(dut.clk)
            due = cycle == given_stage(config.operand_stages) - 1 == 2 + config.operand_stages
            assert bool(int(dut.operand__next.value)) == (claims and due), (fields, cycle)
            if claims and cycle == given_stage(config.operand_stages):
                assert int(dut.operand__address.value) == 3
            await FallingEdge(dut.clk)
            dut.valid.value = 0


@cocotb.test()
async def test_a_read_of_the_store_unit_is_that_of_the_slot_that_it_takes(dut):
    config = configuration()
    if has_shadow(config):
        return
    await start(dut, *inputs(config))
    given = given_stage(config.operand_stages)
    for cycle in range(60):
        dut.stored__taken.value, dut.stored__address.value = cycle % 3 > 0, cycle
        dut.acc__data.value = cycle ^ 5
        await RisingEdge(dut.clk)
        if (cycle - given) % 3 > 0 and cycle > given:
            assert int(dut.acc__address.value) == cycle - given
        assert int(dut.stored__data.value) == cycle ^ 5
        await FallingEdge(dut.clk)


@cocotb.test()
async def test_a_slot_is_written_and_retires_six_and_the_stages_cycles_after_its_issue(dut):
    config = configuration()
    await start(dut, *inputs(config))
    dut.valid.value, dut.slot.value = (
        1,
        slot(config, alu=1, alu_opcode=int(isa.AluOpcode.ADD), use_imm=1, imm=3, dst=5, last=1, push_next=1),
    )
    for cycle in range(20):
        await RisingEdge(dut.clk)
        due = cycle == retire_stage(config.operand_stages) == 6 + config.operand_stages
        assert (
            bool(int(dut.write__enable.value))
            == bool(int(dut.retire.value))
            == bool(int(dut.push_next.value))
            == due
        ), cycle
        await FallingEdge(dut.clk)
        dut.valid.value = 0
    assert not int(dut.busy.value)
