"""Build one component with Icarus Verilog and run its cocotb bench."""

from pathlib import Path

from tests.hw.ports import idle_ports
from tests.hw.system_harness import simulate
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.verilog import convert


def run_unit(folder: Path, component, config: AcceleratorConfig, bench: str) -> int:
    """Run the cocotb tests of `tests/hw/<bench>.py` on `component`; return how many passed.

    Raise when a test fails, or a port is wider than what it carries.
    """
    idle = idle_ports(component)
    assert not idle, f"the highest bit of {idle} is never read, or never driven"
    return simulate(folder, convert(component, "dut"), "dut", config, bench)
