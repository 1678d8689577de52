"""The pages on area and clock, from the store of what was measured."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vdla.explore.silicon.clock import LEAST_DESIGNS, ClockEstimate, estimated_clock
from vdla.explore.silicon.estimate import estimated_area, stored_share
from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.grid import DESIGNS, SHOWN
from vdla.explore.silicon.hardware import SHOWN_DIGITS
from vdla.explore.silicon.routing import LARGE_LUTS
from vdla.explore.silicon.store import current_store
from vdla.explore.sweep.parameters import Value, with_values
from vdla.explore.sweep.space import Point, space_of
from vdla.explore.sweep.specification import read
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target_files import load

GENERATED = "<!-- Generated from explore/silicon/store.json by `make area` and `make docs`. -->\n"
FAR_OFF = 0.1  # an error in LUTs that the page names
AREA = """# Area
This page gives the FPGA resources of the core. It is for people who choose a device or a configuration.
`vdla area --config small --target ecp5` synthesises one configuration and shows the resources of each unit.
`make area` measures everything on this page again and writes the page; after an interruption it resumes.

Figures come from Yosys, before placement. On ECP5, LUT counts LUT4-equivalents: 1 for a LUT4, 2 for a
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
of each memory (`explore/silicon/model.py`). All such figures are labelled `estimated`.

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
CLOCK_FAMILY = "ecp5"
CLOCK = """# Clock
This page gives the clock of the core on an LFE5U-85F of speed grade 6. It is for people who choose a
configuration. `vdla timing --config small` places and routes one configuration with nextpnr. `--seeds N`
tries N placements, and `--estimate` prints the estimate in milliseconds. Shift registers around the core keep
its wide ports off the pins, so all paths run between registers. `make area` measures everything on this page
again.

nextpnr's default router, `router1`, routes designs of less than {large:,} LUT4-equivalents, and `router2`
larger ones. `router1` heeds timing better, but most of its work on a large design is undone: every third wire
that it routes rips up another. No design of more than {large:,} has been routed completely. `router2` was
stopped after 18 iterations on `ecp5-85f`, with some 4,000 of 764,000 wires contested. It was stopped after 15
on `all-8x8`, with 8,198 of 574,179. A design of 14,500 needed 80 iterations. Clocks of such large cores are
therefore estimates.

The slowest path is named by the units that it passes through. A cell belongs to the unit whose signals it
drives; synthesis may merge logic of neighbouring units. LUTs are counted after synthesis. The columns
*estimated*, *interval* and *limited by* show the estimate for a design that has not been routed.

"""
CLOCK_ESTIMATES = """
## Estimates
If no routed figure is stored, the period is estimated as that of the slowest component times a ratio. The
slowest component is the unit that limits the clock. Periods of components come from components routed alone,
in the table below. A component's period is the mean of its kind, plus an increment per doubling of the bus or
of a lane. Pipelines with a one-stage ALU have a separate mean (`explore/silicon/clock.py`).

The ratio is the mean of the routed designs, plus an increment per doubling of the LUTs, since wires grow with
the core. It includes paths from one component into another. Both increments are ridge regressions: few
measurements count little against the prior that a width does not matter. The weight of that prior was chosen
by the errors below, so these errors are too optimistic.

The interval shows the uncertainty of an estimate. Each routed design is estimated without itself, and its
clock is divided by that estimate. The interval reaches from the estimate times the smallest of these
quotients to the estimate times the largest. It is not a bound: the clock of a design may lie outside. Another
placement of the same design may lie outside too, because its clock differs by some percent. A core larger
than every routed design has an `extrapolated` clock.

{errors}

Components that were routed alone:

| component | routed | periods |
|---|---|---|
{components}
"""
CLOCK_SWEEP = """
## A sweep over blocks, lanes and stages
`vdla sweep {name} -o build/sweeps/clock` has {count} points. The table shows their clocks in MHz, with
interval and limiting unit, as if no point had been routed. Rows are `block_in` x `block_out`, columns
`alu_lanes` and `alu_stages`. The sweep's own table holds them in the columns `mhz`, `mhz_low`, `mhz_high` and
`mhz_limited_by`; there, a point that was routed has its routed clock.

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
    return (
        ", ".join(str(member.name) for member in value) or "none" if isinstance(value, tuple) else str(value)
    )


def shown_hardware(entry: Mapping[str, Any]) -> str:
    """Return the beginning of the digest of a design's Verilog."""
    return f"`{entry['hardware'][:SHOWN_DIGITS]}`"


def timing_page(sweep: Path) -> str:
    """Return docs/timing.md.

    Args:
        sweep: the specification whose points it shows.
    """
    rows = [_clock_row(config, entry) for config, entry in _routed_designs()]
    head = ("configuration", "LUT", "MHz", "estimated", "interval", "error", "limited by")
    table = [*_table_head((*head, "slowest path", "through", "hardware")), *rows]
    components = "\n".join(_components())
    return (
        GENERATED
        + CLOCK.format(large=LARGE_LUTS)
        + "\n".join(table)
        + "\n"
        + CLOCK_ESTIMATES.format(errors=_clock_errors(), components=components)
        + _sweep(sweep)
    )


def _table_head(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def _routed_designs() -> Iterator[tuple[AcceleratorConfig, Mapping[str, Any]]]:
    """Yield the designs that were routed, with what the store holds of them."""
    designs = current_store().designs.get(CLOCK_FAMILY, {})
    for config in SHOWN:
        if "mhz" in (entry := designs.get(config.digest, {})):
            yield config, entry


def _clock_row(config: AcceleratorConfig, entry: Mapping[str, Any]) -> str:
    guess, path = estimated_clock(config, CLOCK_FAMILY), entry["path"]
    shown = " | ".join(_guessed(guess, entry["mhz"])) if guess else "- | - | - | -"
    ends = f"{path['start']} to {path['end']}, {path['ns']:.1f} ns"
    figures = f"{config.name} | {entry['lut']:,.0f} | {entry['mhz']:.1f} | {shown}"
    return f"| {figures} | {ends} | {', '.join(path['units'])} | {shown_hardware(entry)} |"


def _guessed(guess: ClockEstimate, mhz: float) -> tuple[str, str, str, str]:
    """Return estimate, interval, error and limit."""
    error = f"{100 * (guess.mhz / mhz - 1):+.0f}%"
    return f"{guess.mhz:.1f}", f"{guess.low:.0f} to {guess.high:.0f}", error, guess.limited_by


def _clock_errors() -> str:
    """Say how large the errors of the estimated clocks are, and how often the interval holds."""
    guesses = [(config, entry, estimated_clock(config, CLOCK_FAMILY)) for config, entry in _routed_designs()]
    designs = [(config, entry["mhz"], guess) for config, entry, guess in guesses if guess]
    named = sum(_limits(guess.limited_by, entry) for _, entry, guess in guesses if guess)
    if not designs:
        return f"Nothing shows the error: that takes {LEAST_DESIGNS + 1} routed designs."
    errors = {config.name: abs(guess.mhz / mhz - 1) for config, mhz, guess in designs}
    worst = max(errors, key=lambda name: errors[name])
    held = sum(guess.low <= mhz <= guess.high for _, mhz, guess in designs)
    largest = max(
        (config for config, _, _ in designs), key=lambda config: estimated_area(config, CLOCK_FAMILY)["lut"]
    )
    mean, expected = sum(errors.values()) / len(errors), (len(designs) - 1) / (len(designs) + 1)
    return (
        f"Over {len(designs)} designs, the error is {mean:.1%} on average and {errors[worst]:.1%} at worst "
        f"(`{worst}`).\nThe table shows each interval as it would be without the design. It holds the routed "
        f"clock of {held} of them.\nIf a further design is like these, the interval of all of them holds its "
        f"clock with a probability of {expected:.0%}.\nIn {named} of the designs, the slowest path "
        f"runs through the unit that the estimate names. The largest is `{largest.name}`."
    )


def _limits(unit: str, entry: Mapping[str, Any]) -> bool:
    """Return whether the slowest path of a routed design runs through a unit."""
    return any(passed == unit or passed.startswith(f"{unit}.") for passed in entry["path"]["units"])


def _components() -> Iterator[str]:
    """Yield a row for each kind of component that was routed."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for component in current_store().routed.get(CLOCK_FAMILY, []):
        kinds[component.kind].append(component.ns)
    for kind, periods in sorted(kinds.items()):
        yield f"| {kind} | {len(periods)} | {min(periods):.1f} to {max(periods):.1f} ns |"


def _sweep(path: Path) -> str:
    """Return the section on a sweep over blocks, lanes and stages."""
    specification = read(path)
    base = load(specification.base.name)
    points = space_of(specification, base).points()
    cells: dict[tuple[Value, ...], list[str]] = defaultdict(list)
    columns: dict[str, None] = {}
    for values in map(_values, points):
        cells[values["block_in"], values["block_out"]].append(_cell(with_values(base, dict(values)).config))
        columns[f"{values['alu_lanes']} lanes, {values['alu_stages']} stages"] = None
    rows = [f"| {rows}x{across} | {' | '.join(row_cells)} |" for (rows, across), row_cells in cells.items()]
    name = path.relative_to(path.parents[2]).as_posix()
    table = "\n".join([*_table_head(("block", *columns)), *rows])
    return CLOCK_SWEEP.format(name=name, count=len(points)) + table + "\n"


def _values(point: Point) -> Mapping[str, Value]:
    return dict(point.values)


def _cell(config: AcceleratorConfig) -> str:
    """Return the clock of a point with its interval and its limiting unit."""
    guess = estimated_clock(config, CLOCK_FAMILY)
    if guess is None:
        return "-"
    unit = guess.limited_by.rpartition(".")[2]
    return f"{guess.mhz:.1f} ({guess.low:.0f} to {guess.high:.0f}) {unit}"
