"""The commands that need no RTL tools: output, files, exit status, messages."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import invoke
from vdla.cli import THREADS

ROOT = Path(__file__).parents[2]


def test_config_shows_parameters_and_derived_figures():
    values = json.loads(invoke("config", "default", "--set", "block_in=32", "--json").stdout)
    assert values["macs_per_cycle"] == 512
    assert values["memories"]["inp"] == {"element_bytes": 32, "depth": 1024, "index_bits": 10, "kib": 32.0}
    assert "peak              256 MACs per cycle" in invoke("config").stdout


@pytest.mark.parametrize("given", [None, "2"])
def test_numpy_multiplies_on_one_thread_unless_the_environment_says_otherwise(given):
    code = "import os, sys, vdla.cli; early = 'numpy' in sys.modules; vdla.cli.main(['--version'], standalone_mode=False); "
    code += "print(early, *(os.environ[name] for name in vdla.cli.THREADS))"
    rest = {name: value for name, value in os.environ.items() if name not in THREADS}
    chosen = rest if given is None else {**rest, "OPENBLAS_NUM_THREADS": given}
    done = subprocess.run(
        [sys.executable, "-c", code], env=chosen, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == f"False 1 {given or 1} 1"


def test_config_reads_files(tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\nbatch = 2\n')
    assert json.loads(invoke("config", tmp_path / "mine.toml", "--json").stdout)["parameters"]["batch"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("config", "--set", "batch=3"), "error: batch = 3 is not a power of two; the nearest are 2 and 4\n"),
        (
            ("config", "none"),
            "error: none is neither a preset (default, vta, paper, small, tiny, ecp5-25f, ecp5-85f, zynq-7020) nor a .toml or .json file\n",
        ),
    ],
)
def test_errors_are_one_message_and_status_2(arguments, message):
    done = invoke(*arguments)
    assert (done.exit_code, done.stderr) == (2, message)


@pytest.mark.parametrize(
    "arguments", [("config",), ("ops",), ("disasm", next((ROOT / "tests" / "vectors" / "vta").glob("*.npz")))]
)
def test_standard_output_that_is_full_is_one_line_and_status_2(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "vdla", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    message = (
        "error: standard output cannot be written: No space left on device; send it to a file that has room\n"
    )
    assert (done.returncode, done.stderr) == (2, message)


def test_disassembly_assembles_to_the_same_binary(tmp_path):
    vector = ROOT / "tests" / "vectors" / "vta" / "padacc8_d.npz"
    text = invoke("disasm", vector).stdout
    (tmp_path / "p.asm").write_text(text)
    assert invoke("asm", tmp_path / "p.asm", "-o", tmp_path / "p.bin", "--config", "vta").exit_code == 0
    assert invoke("disasm", tmp_path / "p.bin", "--config", "vta").stdout == text


def test_micro_ops_assemble_and_disassemble(tmp_path):
    (tmp_path / "u.asm").write_text("UOP(dst=1, src=2, wgt=3)\nUOP()\n")
    assert invoke("asm", "--uops", tmp_path / "u.asm", "-o", tmp_path / "u.bin").exit_code == 0
    assert invoke("disasm", "--uops", tmp_path / "u.bin").stdout == "UOP(dst=1, src=2, wgt=3)\nUOP()\n"


def test_wide_instructions_and_micro_ops_assemble_and_disassemble(tmp_path):
    where = ("--config", "default", "--set", "acc_buffer_bytes=1048576")
    shown = invoke("config", "default", "--set", "acc_buffer_bytes=1048576").stdout
    assert "  encoding          instructions of 256 bits, micro-ops of 64\n" in shown
    for options, text, size in (
        (("--uops",), "UOP(dst=16383, src=2, wgt=3)\nUOP()\n", 16),
        ((), "GEMM(dst_factor_out=16383, wgt_factor_in=3)  # 0\nFINISH()  # 1\n", 64),
    ):
        (tmp_path / "x.asm").write_text(text)
        assert invoke("asm", *options, tmp_path / "x.asm", "-o", tmp_path / "x.bin", *where).exit_code == 0
        assert (tmp_path / "x.bin").stat().st_size == size
        assert invoke("disasm", *options, tmp_path / "x.bin", *where).stdout == text
    (tmp_path / "x.bin").write_bytes(b"\x07" + bytes(31))
    error = invoke("disasm", tmp_path / "x.bin", *where).stderr
    assert error.startswith(f"error: instruction 0 (0x{7:064x}): opcode 7 is not an instruction")


def test_assembly_that_fails_writes_nothing(tmp_path):
    (tmp_path / "p.asm").write_text("LOAD(x_size=99999)")
    done = invoke("asm", tmp_path / "p.asm", "-o", tmp_path / "p.bin")
    assert (done.exit_code, done.stderr) == (2, "error: LOAD.x_size = 99999 is outside 0..65535\n")
    assert not (tmp_path / "p.bin").exists()


def test_verilog_writes_design_configuration_and_description(tmp_path):
    done = invoke(
        "verilog", "--config", "tiny", "--set", "bus_bits=128", "--top", "axi", "-o", tmp_path / "out"
    )
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "vdla_axi.v",
        "vdla_axi.toml",
        "vdla_axi.md",
    }
    assert (
        json.loads(invoke("config", tmp_path / "out" / "vdla_axi.toml", "--json").stdout)["parameters"][
            "bus_bits"
        ]
        == 128
    )
    page = (tmp_path / "out" / "vdla_axi.md").read_text()
    assert "| `m_axi_awaddr` | output | 36 |" in page
    name = page.splitlines()[0].removeprefix("# ")
    assert re.fullmatch("vdla_axi_tiny_[0-9a-f]{8}", name)
    assert f"\nmodule {name}(" in (tmp_path / "out" / "vdla_axi.v").read_text()
    assert "STREAM_COUNT" in page


def test_the_top_module_can_be_named(tmp_path):
    assert invoke("verilog", "--config", "tiny", "--module", "npu", "-o", tmp_path).exit_code == 0
    text = (tmp_path / "vdla_core.v").read_text()
    assert "\nmodule npu(" in text
    assert all(name.startswith("npu") for name in re.findall(r"^module \\?(\S+)", text, re.MULTILINE))


def test_a_module_name_that_verilog_does_not_take_is_refused(tmp_path):
    done = invoke("verilog", "--config", "tiny", "--module", "2x", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.endswith(
        "--module '2x' is no name of a module: letters, digits and _, the first no digit\n"
    )
    assert not (tmp_path / "out").exists()


def test_generated_documentation_is_fresh():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_docs.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
