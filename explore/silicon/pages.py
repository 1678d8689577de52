"""The pages on area and clock, from the store of what was measured."""

from collections.abc import Mapping
from typing import Any

from vdla.explore.silicon.estimate import estimated_area, estimated_mhz, stored_share
from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.grid import DESIGNS, SHOWN
from vdla.explore.silicon.hardware import SHOWN_DIGITS
from vdla.explore.silicon.routing import LARGE_LUTS
from vdla.explore.silicon.store import current_store
from vdla.hw.spec.config import AcceleratorConfig

GENERATED = "<!-- Generated from explore/silicon/store.json by `make area` and `make docs`. -->\n"
FAR_OFF = 0.1  # an error in LUTs that the page names
AREA = """# Area
FPGA resources of the core, for people who choose a device or a configuration. `vdla area --config small
--target ecp5` synthesises one configuration and shows which unit takes what. `make area` measures everything
on this page again and writes the page; a killed run goes on where it was.

Figures are those of Yosys, before placement. On ECP5, LUT counts LUT4-equivalents: 1 for a LUT4, 2 for a
carry cell (CCU2C), 4 for a LUT RAM (TRELLIS_DPR16X4). Block RAMs are DP16KD (18 Kbit) on ECP5 and units of
36 Kbit on xc7. *Hardware* is the beginning of the digest of the Verilog that was synthesised. A test fails
when the sources emit another Verilog.

All designs of a family are synthesised by the same commands (`explore/silicon/families.py`), whatever their
size. Yosys gets the Verilog with other brackets in the names of array fields, `a<1><3>` for `a[1][3]`: abc9
takes the latter for bit 3 of `a[1]`, and stops with a failed assertion on arrays of more than ten rows.

"""
ESTIMATES = """
## Estimates
A sweep cannot synthesise each of its points. `silicon_of` (`explore/silicon/estimate.py`) adds up the
components of a core instead, in some milliseconds. Each component was synthesised alone for the
configurations in `explore/silicon/grid.py`. Where the store has no component with the same parameters, a
linear model of its kind is used: `hw/components.py` declares its features, and least squares fit it to the
stored components. DSPs are rounded. Block RAMs, and the LUTs of small memories, follow from depth, width and
lanes of each memory (`explore/silicon/memory_blocks.py`). All such figures are labelled `estimated`.

abc9, which maps logic to LUTs on ECP5, spends LUTs on the slowest path of what it maps. Alone, a component
would be mapped for its own slowest path, and take up to twice as many LUTs as inside a core. It is therefore
mapped for a period of 30 ns, longer than that of a core. xc7 is mapped by abc, whose LUTs vary.

The table compares estimates with synthesis of whole cores. No core took part in the least squares. The column
*stored* is the part of the estimate in components that the store holds with the same parameters; the rest
comes from the linear models. The features of the models, and the limits between LUT RAM and block RAM, were
chosen with the hardware of before: first while looking at six of the designs, then by the error for stored
components that are left out of the fit. Two features (`saved_carries` of the pipeline, `extended` of the load
engine) were added after `small-plain` had been estimated 12% too small.

"""
TIMING = """# Clock
The clock of the core on an LFE5U-85F of speed grade 6, for people who choose a configuration. `vdla timing
--config small` places and routes one configuration with nextpnr; `--seeds N` tries N placements. Shift
registers around the core keep its wide ports off the pins: all paths run between registers. `make area`
measures everything on this page again.

Designs of less than {large:,} LUT4-equivalents are routed by nextpnr's default, `router1`, and larger ones by
`router2`. The former heeds timing better, but most of its work on a large design is undone again: every third
wire that it routes rips up another. `ecp5-85f` has not been routed: `router2` leaves some 4,000 of 764,000
wires contested after 18 iterations, and does not get below that. So its clock is an estimate.

The slowest path is named by the units that it passes through. The cells of a unit are those that drive its
signals; synthesis may merge logic of neighbours.

"""
CLOCK_ESTIMATES = """
## Estimates
Where no routed figure is stored, the period is estimated: that of the slowest component, routed alone,
times a ratio. Wires grow with the core, and the ratio with them: it is read from a line over the logarithm of
the LUTs, fitted by least squares to the ratios of the routed designs. The design in question does not count,
so the column *estimated* shows what would be estimated without having routed it. The slowest component is
routed with accumulators of 32 bits only, so cores of narrower ones are faster than estimated.
{errors}
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
                rows.append(f"| {config.name} | {family} | {counts} | {_hardware(entry)} |")
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


def timing_page() -> str:
    """Return docs/timing.md."""
    head = "| configuration | MHz | estimated | error | slowest path | through | hardware |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    designs = current_store().designs.get("ecp5", {})
    for config in SHOWN:
        if "mhz" in (entry := designs.get(config.digest, {})):
            rows.append(_clock_row(config, entry))
    return (
        GENERATED
        + TIMING.format(large=LARGE_LUTS)
        + "\n".join(rows)
        + "\n"
        + CLOCK_ESTIMATES.format(errors=_clock_errors())
    )


def _clock_errors() -> str:
    """Say how large the errors of the estimated clocks are."""
    designs = current_store().designs.get("ecp5", {})
    routed = {config.name: config for config in SHOWN}
    clocks = {name: designs.get(config.digest, {}).get("mhz") for name, config in routed.items()}
    errors = {
        name: abs(guess / mhz - 1)
        for name, mhz in clocks.items()
        if mhz and (guess := estimated_mhz(routed[name], "ecp5"))
    }
    if not errors:
        return "Nothing shows the error: that takes two routed designs."
    worst, mean = max(errors, key=lambda name: errors[name]), sum(errors.values()) / len(errors)
    largest = max(errors, key=lambda name: estimated_area(routed[name], "ecp5")["lut"])
    return (
        f"Over {len(errors)} designs, the error is {mean:.1%} on average and {errors[worst]:.1%} at worst "
        f"(`{worst}`). Clocks of\ncores larger than `{largest}` are extrapolated."
    )


def _clock_row(config: AcceleratorConfig, entry: Mapping[str, Any]) -> str:
    guess, path = estimated_mhz(config, "ecp5"), entry["path"]
    shown = f"{guess:.1f} | {100 * (guess / entry['mhz'] - 1):+.0f}%" if guess else "- | -"
    ends = f"{path['start']} to {path['end']}, {path['ns']:.1f} ns"
    through = ", ".join(path["units"])
    return f"| {config.name} | {entry['mhz']:.1f} | {shown} | {ends} | {through} | {_hardware(entry)} |"


def _hardware(entry: Mapping[str, Any]) -> str:
    return f"`{entry['hardware'][:SHOWN_DIGITS]}`"
