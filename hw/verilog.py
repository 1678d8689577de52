"""Verilog emission: one self-contained, deterministic file per configuration and top."""

from amaranth.back import verilog

from vdla.hw.core import Core
from vdla.hw.spec.config import AcceleratorConfig


def emit(config: AcceleratorConfig, top: str = "core") -> str:
    """Return the Verilog of `top` ("core"); the module is called `vdla_` and its name."""
    return verilog.convert(Core(config), name=f"vdla_{top}", emit_src=False, strip_internal_attrs=True)
