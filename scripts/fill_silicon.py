#!/usr/bin/env python3
"""Measure components and designs for explore/silicon/store.json; what it holds already is not measured again.

The file is written after each measurement, so a killed run goes on where it was. With another hardware than
the file's, everything is measured anew.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import click

from vdla.explore.silicon.families import FAMILIES, family
from vdla.explore.silicon.grid import GRID, ROUTED_KINDS, ROUTED_POINTS, SHOWN
from vdla.explore.silicon.hardware import generator_digest, hardware_digest
from vdla.explore.silicon.routing import clock_of, route
from vdla.explore.silicon.store import SHIPPED, Measured, Store, key_of, memories_of, read_store
from vdla.explore.silicon.synthesis import area_of, synthesise
from vdla.hw.components import Component
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.presets import DEFAULT, ZYNQ_7020
from vdla.hw.verilog import convert

UNIT = "unit"


@click.command(help=__doc__)
@click.option(
    "--family", "families", type=click.Choice(list(FAMILIES)), multiple=True, default=list(FAMILIES)
)
@click.option("--part", "parts", type=click.Choice(["components", "designs", "clocks"]), multiple=True)
@click.option("--design", "names", multiple=True, help="Only these designs.")
@click.option("--output", type=click.Path(path_type=Path), default=SHIPPED)
def main(families: tuple[str, ...], parts: tuple[str, ...], names: tuple[str, ...], output: Path) -> None:
    designs = [config for config in SHOWN if not names or config.name in names]
    for name in families:
        if not parts or "components" in parts:
            fill_components(name, output)
        if not parts or "designs" in parts:
            for config in designs:
                fill_design(config, name, output)
    if "ecp5" in families and (not parts or "clocks" in parts):
        fill_component_clocks(output)
        for config in designs:
            if config not in (DEFAULT, ZYNQ_7020):  # which need more DSPs than the device has
                fill_clock(config, output)


def opened(output: Path) -> Store:
    """Return the store of this hardware, as far as it is filled."""
    try:
        store = read_store(output)
    except FileFormatError:
        return Store(generator_digest())
    return store if store.hardware == generator_digest() else Store(generator_digest())


def fill_components(family_name: str, output: Path) -> None:
    """Measure the components of the grid that are missing."""
    for point in GRID:
        for component in point.components():
            store = opened(output)
            found = store.components.setdefault(family_name, [])
            if key_of(component) not in {measured.key for measured in found}:
                start = time.monotonic()
                found.append(measure(component, family_name))
                store.write(output)
                tell(family_name, component.name, found[-1].resources, start)


def measure(component: Component, family_name: str) -> Measured:
    """Synthesise one component alone."""
    netlist = synthesise(convert(component.build(), UNIT), UNIT, family_name, alone=True)
    resources = family(family_name).count(netlist.kinds())
    features = {name: float(value) for name, value in component.features.items()}
    return Measured(component.kind, features, memories_of(component), resources)


def fill_component_clocks(output: Path) -> None:
    """Route the components in which the slowest path of a core may lie."""
    for point in ROUTED_POINTS:
        for component in point.components():
            store = opened(output)
            entries = store.components["ecp5"]
            place = [entry.key for entry in entries].index(key_of(component))
            if component.kind in ROUTED_KINDS and entries[place].ns is None:
                start = time.monotonic()
                netlist = synthesise(convert(component.build(), UNIT), UNIT, "ecp5")
                entries[place] = replace(entries[place], ns=round(1000 / route(netlist, UNIT, 1).mhz, 2))
                store.write(output)
                tell("ecp5", component.name, {"ns": entries[place].ns}, start)


def fill_design(config: AcceleratorConfig, family_name: str, output: Path) -> None:
    """Synthesise a whole design, unless the store has it."""
    entry = opened(output).designs.get(family_name, {}).get(config.digest, {})
    if "lut" in entry:
        return
    start = time.monotonic()
    area = area_of(config, family_name)
    figures = {"lut": area.lut, "ff": area.ff, "dsp": area.dsp, "block_ram": area.block_ram}
    record(config, family_name, figures, output)
    tell(family_name, config.name, figures, start)


def fill_clock(config: AcceleratorConfig, output: Path) -> None:
    """Route a whole design, unless the store has its clock."""
    if "mhz" in opened(output).designs.get("ecp5", {}).get(config.digest, {}):
        return
    start = time.monotonic()
    clock = clock_of(config)
    worst = clock.paths[0]
    path = {"start": worst.start, "end": worst.end, "units": list(worst.units), "ns": worst.ns}
    record(config, "ecp5", {"mhz": round(clock.mhz, 2), "seed": clock.seed, "path": path}, output)
    tell("ecp5", config.name, {"mhz": clock.mhz}, start)


def record(config: AcceleratorConfig, family_name: str, figures: dict[str, object], output: Path) -> None:
    """Add figures of a design to the store."""
    store = opened(output)
    entry = store.designs.setdefault(family_name, {}).setdefault(config.digest, {})
    entry |= {"name": config.name, "hardware": hardware_digest(config), **figures}
    store.write(output)


def tell(family_name: str, name: str, figures: object, start: float) -> None:
    """Print what was measured."""
    click.echo(f"{family_name} {name}: {json.dumps(figures)} ({time.monotonic() - start:.0f} s)")


if __name__ == "__main__":
    main()
