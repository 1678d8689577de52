"""Runs inside the simulator: the whole compute unit on a short program, against the model of its instructions."""

from itertools import product

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge
from dram import dram, memory
from streams import LONGEST_WAIT, configuration, packed, send, start

from vdla.hw.signatures import has_shadow, lanes
from vdla.hw.spec import codec, isa
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.sim.reference import execute
from vdla.sim.scratchpads import Scratchpads

UOP, ACC, ACC_8BIT = MemoryType.UOP, MemoryType.ACC, MemoryType.ACC_8BIT
READ = {"uop": UOP, "inp": MemoryType.INP, "wgt": MemoryType.WGT, "acc": ACC}
WRITTEN = {"uop_write": UOP, "acc_write": ACC, "acc_load": ACC}
SHADOWS = {"acc_write": "out_write", "acc_load": "out_load"}
INPUTS = (
    "instruction__valid",
    "instruction__payload",
    "pop_prev__available",
    "pop_next__available",
    "push_prev__room",
    "push_next__room",
    "request__ready",
    "read_data__valid",
    "read_data__payload",
    *(f"{name}__data" for name in READ),
)
STATES = ("busy", "waits_memory", "waits_prev", "waits_next", "waits_room")
TOKENS = {
    "pop_prev": "pop_prev__pop",
    "pop_next": "pop_next__pop",
    "push_prev": "push_prev__push",
    "push_next": "push_next__push",
}
PULSES = ("gemm_step", "alu_step", "finished", "status__overrun", *TOKENS.values())
DRAM = np.array([dram(address) for address in range(1 << 12)], np.uint8)


def over(form, uop: int, count: int, **fields: int) -> isa.Instruction:
    """Return steps on `count` accumulators, of which a micro-op names the first."""
    return form(uop_begin=uop, uop_end=uop + 1, iter_out=1, iter_in=count, dst_factor_in=1, **fields)


def program(config) -> list[isa.Instruction]:
    """Return LOADs and steps in both halves of ACC: micro-op 0 names the lower, micro-op 1 the upper."""
    half = config.depth(ACC) // 2
    beside = {"beside": 1} if config.has(Extension.ACC_HALVES) else {}
    least = {"pad_minimum": 1} if config.has(Extension.PAD_MINIMUM) else {}
    return [
        isa.Load(memory_type=UOP, sram_base=7, dram_base=3, x_size=5, y_size=1, pop_prev=1),
        isa.Load(memory_type=ACC, dram_base=9, x_size=6, y_size=2, x_stride=7, push_prev=1),
        over(isa.Gemm, 0, 12, src_factor_in=1, pop_prev=1, push_next=1),
        isa.Load(memory_type=ACC, dram_base=33, sram_base=half, x_size=6, y_size=3, x_stride=5, **beside),
        over(isa.Alu, 0, 12, alu_opcode=AluOpcode.SHR, use_imm=1, imm=3, push_next=1),
        over(isa.Alu, 1, 18, alu_opcode=AluOpcode.ADD, src_factor_in=1, pop_next=1),
        isa.Load(memory_type=ACC, sram_base=3, x_size=1, y_pad_1=9, **least, **beside),
        over(isa.Gemm, 1, 18, src_factor_in=1, push_prev=1),
        isa.Load(memory_type=ACC_8BIT, dram_base=77, sram_base=half - 5, x_size=5, y_size=1, **beside),
        over(isa.Alu, 0, 15, alu_opcode=AluOpcode.MAX, use_imm=1, imm=-77),
        isa.Finish(pop_next=1),
    ]


class Watched:
    """A compute unit with its scratchpads, whose read data follow the address by a cycle, and what it does.

    Attributes:
        model: the scratchpads before the program.
        words: of each scratchpad; written by the unit.
        counts: the cycles in which each output is high.
        states: names of the states that the unit has been in.
        beats: taken for UOP, and for ACC.
        busy: the cycles in which a port writes each half of ACC, by (port, half).
    """

    def __init__(self, dut, config) -> None:
        self.dut, self.config, rng = dut, config, np.random.default_rng(4)
        self.model = model = Scratchpads(config)
        for array in (model.inp, model.wgt):
            array[...] = rng.integers(-8, 8, array.shape)
        steps = [isa.MicroOp(dst=base, src=base, wgt=3) for base in (0, config.depth(ACC) // 2)]
        model.uop[:2] = np.frombuffer(codec.uops_to_bytes(steps, config), model.uop.dtype)
        self.words = self.packed()
        self.counts, self.beats, self.states = dict.fromkeys(PULSES, 0), [0, 0], set()
        self.cycle, self.busy = 0, {}
        self.ports = [port for port in WRITTEN if hasattr(dut, f"{port}__enable")]

    def packed(self) -> dict[MemoryType, list[int]]:
        """Return the model's scratchpads as words."""
        return {
            kind: [
                packed(element, self.config.uop_bits if kind is UOP else self.config.value_bits(kind))
                for element in getattr(self.model, name)
            ]
            for name, kind in READ.items()
        }

    def value(self, name: str) -> int:
        return int(getattr(self.dut, name).value)

    def in_states(self) -> list[str]:
        """Return the states that the unit says it is in; idle is none of them."""
        return [state for state in STATES if self.value(f"status__{state}")]

    async def serve(self) -> None:
        """Answer reads and carry out writes, for ever."""
        reads = READ | ({"operand": ACC} if has_shadow(self.config) else {})
        while True:
            await RisingEdge(self.dut.clk)
            read_data = {
                name: self.words[kind][self.value(f"{name}__address")] for name, kind in reads.items()
            }
            self.cycle += 1
            for port in self.ports:
                self._write(port)
            for name in PULSES:
                self.counts[name] += self.value(name)
            for place in range(2):
                self.beats[place] += self.value("beats") >> place & 1
            states = self.in_states()
            assert len(states) <= 1
            self.states.update(states)
            await FallingEdge(self.dut.clk)
            for name, word in read_data.items():
                getattr(self.dut, f"{name}__data").value = word

    def _write(self, port: str) -> None:
        """Write what a port of the unit says; it must say the same to the shadow."""
        kind, parts = WRITTEN[port], ("address", "data", "enable")
        address, data, enable = (self.value(f"{port}__{part}") for part in parts)
        if has_shadow(self.config) and kind is ACC:
            shadow = [self.value(f"{SHADOWS[port]}__{part}") for part in parts]
            assert shadow == [address, data, enable]
        bits = self.config.element_bits(kind) // lanes(self.config, kind)
        mask = sum(
            (1 << bits) - 1 << lane * bits for lane in range(enable.bit_length()) if enable >> lane & 1
        )
        if enable and kind is ACC:
            half = address // (self.config.depth(ACC) // 2)
            self.busy.setdefault((port, half), []).append(self.cycle)
        self.words[kind][address] = self.words[kind][address] & ~mask | data & mask


async def watched(dut) -> Watched:
    """Reset a compute unit to which all tokens are there, and watch it."""
    config = configuration()
    shared = ("operand__data",) if has_shadow(config) else ("stored__taken", "stored__address")
    await start(dut, *INPUTS, *shared)
    for name in ("pop_prev__available", "pop_next__available", "push_prev__room", "push_next__room"):
        getattr(dut, name).value = 1
    unit = Watched(dut, config)
    cocotb.start_soon(unit.serve())
    cocotb.start_soon(memory(dut, config, 0.2, []))
    return unit


async def run(unit: Watched, instructions: list[isa.Instruction]) -> None:
    """Let the unit execute instructions, until it is idle."""
    await send(unit.dut, "instruction", [codec.encode(each, unit.config) for each in instructions])
    for _ in range(LONGEST_WAIT):
        if unit.value("status__idle"):
            break
        await FallingEdge(unit.dut.clk)
    await FallingEdge(unit.dut.clk)  # the last write follows its step by a cycle


@cocotb.test()
async def test_scratchpads_and_tokens_are_as_the_program_says(dut):
    unit = await watched(dut)
    instructions = program(unit.config)
    await run(unit, instructions)
    for instruction in instructions:
        execute(instruction, unit.model, DRAM)
    assert unit.words == unit.packed()
    steps = {
        form: sum(i.iter_in for i in instructions if isinstance(i, form)) for form in (isa.Gemm, isa.Alu)
    }
    assert unit.counts == {
        "gemm_step": steps[isa.Gemm],
        "alu_step": steps[isa.Alu],
        "finished": 1,
        "status__overrun": 0,
        **{port: sum(getattr(i, name) for i in instructions) for name, port in TOKENS.items()},
    }
    assert unit.states == {"busy", "waits_memory"}
    assert unit.beats == [3, 2 * (12 + 18) + 3]


@cocotb.test()
async def test_a_load_into_the_half_in_which_steps_work_is_an_overrun(dut):
    unit = await watched(dut)
    if not unit.config.has(Extension.ACC_HALVES):
        return
    half = unit.config.depth(ACC) // 2
    for base, uop, collides in ((half, 0, False), (half, 1, True), (0, 1, False), (0, 0, True)):
        unit.counts["status__overrun"] = 0
        pads = isa.Load(memory_type=ACC, sram_base=base + 100, x_size=1, y_pad_0=15, beside=1)
        await run(unit, [over(isa.Gemm, uop, 60), pads])
        assert bool(unit.counts["status__overrun"]) == collides, (base, uop)


@cocotb.test()
@cocotb.parametrize(form=[isa.Load, isa.Gemm])
async def test_nothing_starts_without_its_tokens_and_room(dut, form):
    """The state names the first that is missing."""
    unit = await watched(dut)
    dut.instruction__payload.value = codec.encode(form(**dict.fromkeys(TOKENS, 1)), unit.config)
    dut.instruction__valid.value = 1
    ports = ("pop_prev__available", "pop_next__available", "push_prev__room", "push_next__room")
    for given in product((0, 1), repeat=4):
        for port, value in zip(ports, given, strict=True):
            getattr(dut, port).value = value
        await RisingEdge(dut.clk)
        waits = {"waits_prev": not given[0], "waits_next": not given[1], "waits_room": not all(given[2:])}
        first = next((state for state, is_missing in waits.items() if is_missing), None)
        assert unit.in_states() == [first or "busy"], given
        for port in (
            "instruction__ready",
            "pop_prev__pop",
            "pop_next__pop",
            "push_prev__reserve",
            "push_next__reserve",
        ):
            assert unit.value(port) == all(given), (port, given)
        await FallingEdge(dut.clk)


@cocotb.test()
async def test_a_load_writes_its_half_as_soon_as_the_last_step_there_has(dut):
    """Two cycles behind it; steps of the instruction that began last go on in the other half."""
    unit = await watched(dut)
    if not unit.config.has(Extension.ACC_HALVES):
        return
    pads = isa.Load(memory_type=ACC, sram_base=20, x_size=1, y_pad_0=4, beside=1)
    await run(unit, [over(isa.Gemm, 0, 12), over(isa.Gemm, 1, 40), pads])
    steps, others, loads = (unit.busy[key] for key in (("acc_write", 0), ("acc_write", 1), ("acc_load", 0)))
    assert loads == list(range(steps[-1] + 2, steps[-1] + 6))
    assert (len(steps), others[-1] - others[0]) == (12, 39)
    assert unit.counts["status__overrun"] == 0
