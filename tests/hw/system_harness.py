"""Build a top with Icarus Verilog and run a cocotb bench on it."""

import sys
from pathlib import Path

from cocotb_tools.runner import get_runner

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.files import to_toml
from vdla.hw.verilog import emit

HERE = Path(__file__).parent


def run_bench(folder: Path, config: AcceleratorConfig, top: str, bench: str) -> None:
    """Run the cocotb tests of `tests/hw/<bench>.py` on `top`; raises when a test fails."""
    simulate(folder, emit(config, top), f"vdla_{top}", config, bench)


def simulate(folder: Path, verilog: str, module: str, config: AcceleratorConfig, bench: str) -> int:
    """Build `module` of `verilog` and run a bench on it, which finds `config` in the file that VDLA_CONFIG
    names; return how many tests passed.

    Only the assertions of the benches are rewritten. Without a pattern, cocotb rewrites the assertions of
    every module that it imports. Where Python writes no bytecode, this takes as long as a short bench.
    """
    source = folder / "design.v"
    source.write_text(verilog)
    (folder / "config.toml").write_text(to_toml(config))
    runner = get_runner("icarus")
    runner.build(
        sources=[source],
        hdl_toplevel=module,
        build_dir=folder,
        build_args=["-g2005-sv"],
        timescale=("1ns", "1ps"),
    )
    if str(HERE) not in sys.path:  # the runner hands sys.path on to the simulator's Python
        sys.path.append(str(HERE))
    results = runner.test(
        hdl_toplevel=module,
        test_module=bench,
        build_dir=folder,
        test_dir=folder,
        extra_env={
            "VDLA_CONFIG": str(folder / "config.toml"),
            "COCOTB_REWRITE_ASSERTION_FILES": "bench_*.py",
        },
    )
    text = Path(results).read_text()
    assert "<testcase" in text, text
    assert "<failure" not in text, text
    assert "<error" not in text, text
    return text.count("<testcase") - text.count("<skipped")
