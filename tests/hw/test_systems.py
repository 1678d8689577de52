"""Both tops run a program end to end in Icarus Verilog."""

import pytest

from tests.hw.system_harness import run_bench
from vdla.hw.spec.presets import TINY

WIDE = TINY.with_changes(name="wide", bus_bits=128, burst_bytes=64, block_in=8)
NARROW = TINY.with_changes(name="narrow", axi_address_bits=32)


@pytest.mark.parametrize("config", [TINY, WIDE, NARROW], ids=lambda config: config.name)
def test_axi_top(tmp_path, config):
    run_bench(tmp_path, config, "axi", "bench_axi_system")


@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_core_top(tmp_path, config):
    run_bench(tmp_path, config, "core", "bench_core_system")
