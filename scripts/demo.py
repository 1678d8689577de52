#!/usr/bin/env python3
"""The tour: generate Verilog, replay VTA's vectors, run a GEMM on the functional model, the cycle simulator and the RTL."""

import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.presets import SMALL
from vdla.runtime.devices.registry import device_factory
from vdla.runtime.vectors import load_vector, replay
from vdla.runtime.workloads import place_gemm, plan_gemm, random_operands

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "demo"
SIZE = 256
CLOCK_MHZ = 100


def generate(config: AcceleratorConfig) -> None:
    """Write Verilog of the AXI top, as `vdla verilog` does."""
    click.echo(f"1. Verilog of an AXI accelerator, configuration {config.name}:")
    subprocess.run([sys.executable, "-m", "vdla", "verilog", "--config", config.name, "--top", "axi", "-o", str(BUILD)], check=True)


def conform() -> None:
    """Replay the conformance vectors on the functional device."""
    vectors = [load_vector(path) for path in sorted((ROOT / "tests" / "vectors" / "vta").glob("*.npz"))]
    matching = sum(replay(vector, device_factory("functional")).conforms for vector in vectors)
    click.echo(f"2. Programs made by VTA's own runtime: {matching} of {len(vectors)} give VTA's DRAM, byte for byte")
    if matching != len(vectors):
        sys.exit(1)


def multiply(config: AcceleratorConfig, name: str) -> np.ndarray | None:
    """Run one GEMM on the device `name` and say what it cost; None when the device cannot be built here."""
    plan = plan_gemm(config, SIZE, SIZE, SIZE)
    try:
        device = device_factory(name)(config, 64 << 20)
    except ToolError as error:
        click.echo(f"   {name:10} skipped: {error}")
        return None
    run = place_gemm(device, plan, *random_operands(plan))
    began = time.perf_counter()
    result = run.run()
    seconds = time.perf_counter() - began
    if not np.array_equal(run.output(), run.expected()):
        sys.exit(f"the {name} device gave a wrong product")
    timing = "" if result.cycles is None else (
        f", {result.cycles} cycles = {result.cycles / CLOCK_MHZ / 1000:.2f} ms at {CLOCK_MHZ} MHz, "
        f"{plan.gemm_cycles / result.cycles:.1%} of the multipliers' peak")
    click.echo(f"   {name:10} right, in {seconds:.3f} s{timing}")
    return run.output()


@click.command(help=__doc__)
def main() -> None:
    generate(SMALL)
    conform()
    click.echo(f"3. {SIZE} x {SIZE} x {SIZE} int8 GEMM on the {SMALL.name} accelerator ({SMALL.macs_per_cycle} MACs per cycle):")
    outputs = [multiply(SMALL, "functional"), multiply(SMALL, "cycle")]
    click.echo("   rtl        compiling the Verilog (half a minute, once)")
    outputs.append(multiply(SMALL, "rtl"))
    if any(output is not None and not np.array_equal(output, outputs[0]) for output in outputs):
        sys.exit("the devices disagree")
    click.echo(f"The Verilog is in {BUILD.relative_to(ROOT)}. Next: vdla --help, docs/, make test.")


if __name__ == "__main__":
    main()
