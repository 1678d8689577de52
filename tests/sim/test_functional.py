"""Runs of the functional model: what they count, in which order they execute, and what a failed run leaves."""

import numpy as np
import pytest

from tests.sim.helpers import ACC_8BIT, CONFIG, INP, RES, TABLE, UOP, WGT, alu, gemm, load, store, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.errors import AccessError, UnfinishedError
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.sim.decoded import decode_stream
from vdla.sim.functional import Machine, counters

EVERYTHING = CONFIG.with_changes(
    extensions=tuple(Extension), block_in=8, block_out=8, res_buffer_bytes=128
).with_changes(inp_buffer_bytes=128, wgt_buffer_bytes=1024, acc_buffer_bytes=512)
"""Elements of WGT have 64 bytes, of ACC 32, of UOP and TABLE 4, of the others 8."""
LOOPS = {"uop_end": 3, "iter_out": 5, "iter_in": 2}
PADS = {"y_pad_0": 1, "y_pad_1": 1, "x_pad_0": 1, "x_pad_1": 1}
COUNTED = {
    "LOAD of micro-ops": (load(UOP, x_size=3), {"UOP_LOADED_BYTES": 12}),
    "LOAD of a table": (load(TABLE, x_size=2), {"UOP_LOADED_BYTES": 8}),
    "LOAD of weights in rows": (load(WGT, y_size=2, x_size=3, x_stride=9), {"WGT_LOADED_BYTES": 6 * 64}),
    "LOAD with padding": (load(INP, y_size=2, x_size=1, **PADS), {"INP_LOADED_BYTES": 2 * 8}),
    "LOAD of nothing": (load(INP, y_size=2, x_size=0), {}),
    "LOAD of padding alone": (load(INP, y_size=0, x_size=1, **PADS), {}),
    "LOAD of residuals": (load(RES, x_size=3), {"ACC_LOADED_BYTES": 3 * 8}),
    "LOAD of narrow accumulators": (load(ACC_8BIT, x_size=5), {"ACC_LOADED_BYTES": 5 * 8}),
    "GATHER": (
        isa.Gather(memory_type=INP, y_size=2, x_size=3, x_stride=70, step=5),
        {"INP_LOADED_BYTES": 2 * (2 * 5 + 8)},
    ),
    "STORE": (store(y_size=2, x_size=3, x_stride=4), {"OUT_STORED_BYTES": 6 * 8}),
    "GEMM": (gemm(**LOOPS), {"GEMM_STEPS": 30}),
    "GEMM that resets": (gemm(**LOOPS, reset=1), {"GEMM_STEPS": 30}),
    "GEMM without steps": (gemm(**LOOPS | {"iter_in": 0}), {}),
    "DEPTHWISE": (isa.Depthwise(**LOOPS), {"GEMM_STEPS": 30}),
    "ALU": (alu(AluOpcode.MAX, **LOOPS), {"ALU_STEPS": 30}),
}
UNITS = {"LOAD_INSTRUCTIONS": 0, "COMPUTE_INSTRUCTIONS": 1, "STORE_INSTRUCTIONS": 0}
BYTES = [f"{name}_LOADED_BYTES" for name in ("UOP", "WGT", "INP", "ACC")]
ZEROS = dict.fromkeys([*BYTES, "OUT_STORED_BYTES", "GEMM_STEPS", "ALU_STEPS"], 0) | UNITS


def unit_counter(instruction: isa.Instruction) -> str:
    match instruction:
        case isa.Store():
            return "STORE_INSTRUCTIONS"
        case isa.Gather():
            return "LOAD_INSTRUCTIONS"
        case isa.Load() if instruction.memory_type in (INP, WGT):
            return "LOAD_INSTRUCTIONS"
    return "COMPUTE_INSTRUCTIONS"


def ran(*instructions: isa.Instruction, native: bool = True) -> dict[str, int]:
    """Run instructions and FINISH; return what is counted."""
    program = decode_stream(stream_of([*instructions, isa.Finish()], EVERYTHING), EVERYTHING)
    machine = Machine(EVERYTHING)
    return counters(program, machine.run(program, np.zeros(4096, np.uint8), native=native))


@pytest.mark.parametrize("title", COUNTED)
def test_an_instruction_counts_what_it_moves_and_its_steps(title):
    instruction, expected = COUNTED[title]
    unit = unit_counter(instruction)
    assert ran(instruction) == ZEROS | expected | {unit: UNITS[unit] + 1}


def test_counts_of_instructions_add_up_and_only_those_that_executed_count():
    items = [instruction for instruction, _ in COUNTED.values()]
    program = decode_stream(stream_of([*items, isa.Finish()], EVERYTHING), EVERYTHING)
    single = [COUNTED[title][1] for title in COUNTED]
    for count in (0, 4, len(items)):
        totals = counters(program, np.arange(count))
        for name in (*BYTES, "OUT_STORED_BYTES", "GEMM_STEPS", "ALU_STEPS"):
            assert totals[name] == sum(counts.get(name, 0) for counts in single[:count]), name
        assert sum(totals[name] for name in UNITS) == count


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
def test_an_access_out_of_bounds_leaves_the_effects_of_the_instructions_before(native):
    items = (gemm(reset=1), load(INP, x_size=1), load(INP, sram_base=15, x_size=2), load(INP, sram_base=3))
    program = decode_stream(stream_of([*items, isa.Finish()], EVERYTHING), EVERYTHING)
    machine, dram = Machine(EVERYTHING), np.full(4096, 5, np.uint8)
    with pytest.raises(AccessError, match=r"^instruction 2 .* reaches INP elements 15\.\.16") as caught:
        machine.run(program, dram, native=native)
    assert caught.value.index == 2
    assert machine.pads.inp.any(axis=(1, 2)).tolist() == [True] + [False] * 15
    assert (machine.pads.inp_operand[0, 0] == 133).all()


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
def test_a_run_that_does_not_finish_has_executed(native):
    program = decode_stream(stream_of([load(INP)], EVERYTHING), EVERYTHING)
    machine = Machine(EVERYTHING)
    machine.pads.pad_registers[:] = 3
    with pytest.raises(UnfinishedError):
        machine.run(program, np.full(64, 5, np.uint8), native=native)
    assert (machine.pads.inp[0] == 5).all()
    assert not machine.pads.pad_registers.any()
