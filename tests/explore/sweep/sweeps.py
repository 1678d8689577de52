"""Small sweeps for the tests, and what their workers import."""

import os
import signal
from pathlib import Path

from vdla.explore.silicon.result import Silicon
from vdla.explore.sweep.run import planned
from vdla.explore.sweep.specification import from_values
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError

LAYER = {"conv": {"size": 4, "channels": 8, "outputs": 8, "kernel": 1}, "name": "layer"}
SPECIFICATION = {
    "base": {"config": "small"},
    "parameters": {"memory.latency": [16, 32, 64, 128], "inp_buffer_bytes": ["8KiB", "16KiB"]},
    "workloads": [LAYER],
}


def silicon(config: AcceleratorConfig) -> Silicon:
    """Return figures that follow from the configuration."""
    area = (config.macs_per_cycle * 100.0, 10.0, 4.0, config.inp_buffer_bytes / 2048)
    return Silicon(*area, mhz=50.0, mhz_low=45.0, mhz_high=60.0, limited_by="loader")


def no_silicon(config: AcceleratorConfig) -> Silicon:
    """Raise the error of missing tools."""
    raise ToolError("no Yosys here")


def deadly(config: AcceleratorConfig) -> Silicon:
    """Kill the worker at one configuration."""
    if config.inp_buffer_bytes == 8 << 10:
        os.kill(os.getpid(), signal.SIGKILL)
    return silicon(config)


def plan(silicon=silicon, **changes):
    """Return a planned sweep of the specification above, with changes."""
    return planned(from_values(SPECIFICATION | changes), Path(), silicon)
