"""The Verilog that area and clock are measured on, and digests of the hardware that figures belong to."""

from functools import cache

from vdla.hw.components import Component
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.shelf import Shelf
from vdla.hw.verilog import convert
from vdla.runtime.devices.rtl.design import CORE, core_sources, verilog_files, without_comments

MODULE = "vdla_core"
UNIT = "unit"
"""The module of a component alone."""
SHOWN_DIGITS = 12
"""Hexadecimal digits of a digest that pages show."""

REFERENCES = (
    TINY,
    TINY.with_changes(
        name="plain", batch=2, block_in=8, bus_bits=128, acc_bits=16, gemm_stages=1, extensions=()
    ),
    SMALL.with_changes(name="full", packed=18, requantise_lanes=1, extensions=DEFAULT.extensions),
)
"""Configurations whose Verilog stands for the generator: together they use every component in two forms, and
have every extension of a preset."""

_DIGESTS = Shelf("hardware", 1 << 20)


def verilog_of(config: AcceleratorConfig) -> str:
    """Return the Verilog of the core without comments; emitted once."""
    return without_comments(verilog_files(config, CORE)[0].read_text())


def hardware_digest(config: AcceleratorConfig) -> str:
    """Return a digest (hex) of the core's Verilog: other figures of area and clock need another digest."""
    return digest_of([verilog_of(config)])


def unit_verilog(component: Component) -> str:
    """Return the Verilog of a component alone, without comments."""
    return without_comments(convert(component.build(), UNIT))


@cache
def generator_digest() -> str:
    """Return a digest (hex) of the hardware generator: of the Verilog of `REFERENCES`.

    Comments and restructured sources do not change it. It is kept for each state of the sources, since
    emission takes seconds.
    """
    key = digest_of(["generator", core_sources(), *(config.digest for config in REFERENCES)])
    kept = _DIGESTS.read(key)
    if kept is None:
        kept = digest_of(map(hardware_digest, REFERENCES)).encode()
        _DIGESTS.write(key, kept)
    return kept.decode()
