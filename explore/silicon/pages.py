"""The page on area, from the store of what was measured."""

from collections.abc import Mapping
from typing import Any

from vdla.explore.silicon.estimate import estimated_area, stored_share
from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.grid import DESIGNS, SHOWN
from vdla.explore.silicon.hardware import SHOWN_DIGITS
from vdla.explore.silicon.store import current_store
from vdla.hw.spec.config import AcceleratorConfig

GENERATED = "<!-- Generated from explore/silicon/store.json by `make area` and `make docs`. -->\n"
FAR_OFF = 0.1  # an error in LUTs that the page names
AREA = """# Area
This page gives the FPGA resources of the core. It is for people who choose a device or a configuration.
`vdla area --config small --target ecp5` synthesises one configuration and shows the resources of each unit.
`make area` measures everything on this page again and writes the page; after an interruption it resumes.

Figures are those of Yosys, before placement. On ECP5, LUT counts LUT4-equivalents: 1 for a LUT4, 2 for a
carry cell (CCU2C), 4 for a LUT RAM (TRELLIS_DPR16X4). Block RAMs are DP16KD (18 Kbit) on ECP5 and units of
36 Kbit on xc7. *Hardware* is a prefix of the digest of the synthesised Verilog. A test fails when the sources
emit different Verilog.

The same commands synthesise all designs of a family (`explore/silicon/families.py`), whatever their size. In
Yosys's input the names of array fields have other brackets, `a<1><3>` for `a[1][3]`. abc9 reads `a[1][3]` as
bit 3 of `a[1]`, and stops with a failed assertion on arrays of more than ten rows.

"""
ESTIMATES = """
## Estimates
A sweep cannot synthesise each of its points. `silicon_of` (`explore/silicon/estimate.py`) instead adds up the
components of a core, in some milliseconds. Each component was synthesised alone for the configurations in
`explore/silicon/grid.py`. If the store has no component with the same parameters, a linear model of its kind
is used. `hw/components.py` declares the features of the models; least squares fit them to the stored
components. DSPs are rounded. Block RAMs, and the LUTs of small memories, follow from depth, width and lanes
of each memory (`explore/silicon/memory_blocks.py`). All such figures are labelled `estimated`.

abc9, which maps logic to LUTs on ECP5, spends LUTs on the slowest path of its input. A component mapped alone
would be optimised for its own slowest path, and take up to twice as many LUTs as inside a core. It is
therefore mapped for a period of 30 ns, longer than that of a core. On xc7, abc does the mapping, and its LUT
counts vary. A one-stage ALU is the slowest path of its core, and is mapped for speed there. Estimates of such
cores are too small.

The table compares estimates with synthesis of whole cores. No core took part in the fit. The column *stored*
is the share of the estimate from components that the store holds with the same parameters; the rest comes
from the linear models. The features of the models, and the limits between LUT RAM and block RAM, were chosen
on an earlier version of the hardware. The first choice used six of the designs. Later choices used the error
for stored components left out of the fit. Two features (`saved_carries` of the pipeline, `extended` of the
load engine) were added after `small-plain` had been estimated 12% too small.

"""


def area_page() -> str:
    """Return docs/area.md."""
    rows = [
        "| configuration | family | LUT | FF | DSP | block RAM | hardware |",
        "|---|---|---|---|---|---|---|",
    ]
    for family, designs in sorted(current_store().designs.items()):
        for config in SHOWN:
            if "lut" in (entry := designs.get(config.digest, {})):
                counts = " | ".join(f"{entry[name]:,g}" for name in RESOURCES)
                rows.append(f"| {config.name} | {family} | {counts} | {shown_hardware(entry)} |")
    return GENERATED + AREA + "\n".join(rows) + "\n" + ESTIMATES + _errors() + _changes()


def _errors() -> str:
    """Return the table of estimated against synthesised figures."""
    names = ("configuration", "family", "LUT", "estimated", "error", "stored", "FF error")
    exact = ("DSP", "estimated", "block RAM", "estimated")
    rows = [f"| {' | '.join((*names, *exact))} |", "|---" * 11 + "|"]
    for family, designs in sorted(current_store().designs.items()):
        for config in SHOWN:
            if "lut" in (entry := designs.get(config.digest, {})):
                rows.append(_error_row(config, family, entry))
    return "\n".join(rows) + "\n" + _far_off()


def _far_off() -> str:
    """Name the designs whose LUTs are estimated worst."""
    names = [
        f"`{config.name}` on {family}"
        for family, designs in sorted(current_store().designs.items())
        for config in SHOWN
        if "lut" in (entry := designs.get(config.digest, {}))
        and abs(estimated_area(config, family)["lut"] / entry["lut"] - 1) > FAR_OFF
    ]
    return f"\nMore than {FAR_OFF:.0%} off in LUTs: {', '.join(names) or 'none'}.\n"


def _error_row(config: AcceleratorConfig, family: str, entry: Mapping[str, Any]) -> str:
    guess = estimated_area(config, family)
    lut, ff = (100 * (guess[name] / entry[name] - 1) for name in ("lut", "ff"))
    stored = stored_share(config, family)
    exact = " | ".join(f"{entry[name]:g} | {guess[name]:g}" for name in ("dsp", "block_ram"))
    return (
        f"| {config.name} | {family} | {entry['lut']:,.0f} | {guess['lut']:,.0f} | {lut:+.1f}% "
        f"| {stored:.0%} | {ff:+.1f}% | {exact} |"
    )


def _changes() -> str:
    """Say how each design differs from the preset `tiny`."""
    tiny = DESIGNS[0]
    lines = ["\nThe designs, by their differences from the preset `tiny`:\n"]
    for config in SHOWN:
        names = [name for name in config.__dataclass_fields__ if name != "name"]
        changed = [
            f"`{name}` = {_shown(getattr(config, name))}"
            for name in names
            if getattr(config, name) != getattr(tiny, name)
        ]
        lines.append(f"- {config.name}: {', '.join(changed) or 'none'}")
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    return ", ".join(str(one.name) for one in value) or "none" if isinstance(value, tuple) else str(value)


def shown_hardware(entry: Mapping[str, Any]) -> str:
    """Return the beginning of the digest of a design's Verilog."""
    return f"`{entry['hardware'][:SHOWN_DIGITS]}`"
