"""The slots that issue the steps of an instruction, listed one by one."""

import pytest

from tests.sim.helpers import alu, gemm, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.sim.decoded import decode_stream
from vdla.sim.timing.columns import timing_columns
from vdla.sim.timing.steps import step_rows

CONFIG = TINY.with_changes(
    block_in=8,
    block_out=8,
    inp_buffer_bytes=1 << 13,
    extensions=(*TINY.extensions, Extension.DEPTHWISE, Extension.DEPTHWISE_ROWS),
)
LOOPS = {"uop_begin": 1, "uop_end": 3, "iter_out": 2, "iter_in": 3}  # 12 steps
# A slot of the text issues a step where it has an x.
CASES = {
    "GEMM": (gemm(**LOOPS), 12 * "x"),
    "GEMM that resets": (gemm(**LOOPS, reset=1), 12 * "x"),
    "GEMM without steps": (gemm(**{**LOOPS, "iter_out": 0}), "."),
    "ALU with an immediate": (alu(AluOpcode.MAX, **LOOPS, use_imm=1), 12 * ".......x"),
    "ALU with two accumulators": (alu(AluOpcode.ADD, **LOOPS), 12 * "........x"),
    "ALU with a delay": (alu(AluOpcode.MUL, **LOOPS, use_imm=1), 12 * ".........x"),
    "DEPTHWISE": (isa.Depthwise(**LOOPS), 4 * "..xxx"),
    "DEPTHWISE by two": (isa.Depthwise(**LOOPS, stride_2=1), 4 * "..x.x.x"),
    "DEPTHWISE of five columns": (isa.Depthwise(**LOOPS, wide=1, stride_2=1), 4 * "....x.x.x"),
    "DEPTHWISE of single sums": (isa.Depthwise(**{**LOOPS, "iter_in": 1}), 4 * "..x"),
    "DEPTHWISE without sums": (isa.Depthwise(**{**LOOPS, "iter_in": 0}), "."),
}


@pytest.mark.parametrize("title", CASES)
def test_steps_are_issued_in_these_slots(title):
    instruction, slots = CASES[title]
    program = decode_stream(stream_of([instruction], CONFIG), CONFIG)
    form = type(instruction)
    rows, (steps,) = step_rows(program, form, program.steps(form)), program.steps(form).tolist()
    assert timing_columns(program)["slots"].tolist() == [len(slots)]
    issued = [min(int(rows.issued(count)[0]), steps) for count in range(len(slots) + 1)]
    assert issued == [slots[:count].count("x") for count in range(len(slots) + 1)]
    places = [place + 1 for place, slot in enumerate(slots) if slot == "x"]
    assert [int(rows.slots_until(step)[0]) for step in range(1, steps + 1)] == places
