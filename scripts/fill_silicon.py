#!/usr/bin/env python3
"""Measure components and designs for explore/silicon/store.json; what it holds already is not measured again.

The file is written after each measurement, so a killed run goes on where it was. After a change of the
hardware, components and designs whose Verilog has changed are measured anew.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from vdla.explore.silicon.families import FAMILIES, family
from vdla.explore.silicon.grid import GRID, ROUTED_POINTS, SHOWN, GridPoint
from vdla.explore.silicon.hardware import UNIT, generator_digest, hardware_digest, unit_verilog
from vdla.explore.silicon.routing import clock_of, route
from vdla.explore.silicon.store import (
    SHIPPED,
    Measured,
    RoutedComponent,
    Store,
    key_of,
    memories_of,
    read_store,
)
from vdla.explore.silicon.synthesis import area_of, synthesise
from vdla.hw.components import Component, components
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.presets import DEFAULT, ZYNQ_7020

ROUTED_FAMILY = "ecp5"
TOO_LARGE = (DEFAULT, ZYNQ_7020)
"""Designs that need more DSPs than the device on which clocks are measured has."""


@dataclass(frozen=True)
class Task:
    """A measurement to make.

    Attributes:
        name: what is measured.
        work: makes it, from `arguments`; in another process.
        record: adds what it returns to the store.
    """

    name: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    record: Callable[[Store, Any], None]


@click.command(help=__doc__)
@click.option(
    "--family", "families", type=click.Choice(list(FAMILIES)), multiple=True, default=list(FAMILIES)
)
@click.option("--part", "parts", type=click.Choice(["components", "designs", "clocks"]), multiple=True)
@click.option("--design", "names", multiple=True, help="Only these designs.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="as many as cores", help="At a time.")
@click.option("--output", type=click.Path(path_type=Path), default=SHIPPED)
def main(
    families: tuple[str, ...], parts: tuple[str, ...], names: tuple[str, ...], jobs: int, output: Path
) -> None:
    wanted = set(parts or ("components", "designs", "clocks"))
    designs = [config for config in SHOWN if not names or config.name in names]
    store = opened(output)
    with workers(jobs) as pool:
        if "components" in wanted:
            carry_out(pool, store, output, component_tasks(store, families))
        if "designs" in wanted:
            carry_out(pool, store, output, design_tasks(store, families, designs))
        if "clocks" in wanted and ROUTED_FAMILY in families:
            carry_out(pool, store, output, component_clock_tasks(store))
            carry_out(pool, store, output, clock_tasks(store, designs))


@contextmanager
def workers(jobs: int) -> Iterator[Executor | None]:
    """Yield a pool of processes, or None for one job. Where this process is stopped, tasks that have not
    begun are dropped."""
    if jobs == 1:
        yield None
        return
    pool = ProcessPoolExecutor(jobs)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def opened(output: Path) -> Store:
    """Return the store, as far as it belongs to this hardware."""
    try:
        store = read_store(output)
    except FileFormatError:
        return Store(generator_digest())
    return store if store.hardware == generator_digest() else carried_over(store)


def carried_over(store: Store) -> Store:
    """Return what another hardware shares with this hardware: components and designs of the same Verilog."""
    kept = Store(generator_digest())
    for component in {key_of(component): component for _, component in grid(GRID)}.values():
        digest = unit_digest(component)
        for family_name, measurements in store.components.items():
            for measured in measurements:
                if measured.hardware == digest:
                    same = described(component, digest, measured.resources)
                    kept.components.setdefault(family_name, []).append(same)
                    break
    for component in {key_of(component): component for _, component in grid(ROUTED_POINTS)}.values():
        digest = unit_digest(component)
        for earlier in store.routed.get(ROUTED_FAMILY, []):
            if earlier.hardware == digest:
                kept.routed.setdefault(ROUTED_FAMILY, []).append(routed(component, digest, earlier.ns))
                break
    for family_name, designs in store.designs.items():
        for config in SHOWN:
            entry = designs.get(config.digest, {})
            if entry and entry["hardware"] == hardware_digest(config):
                kept.designs.setdefault(family_name, {})[config.digest] = entry
    return kept


def grid(points: Iterable[GridPoint]) -> Iterator[tuple[AcceleratorConfig, Component]]:
    """Yield the components of grid points, with their configurations."""
    for point in points:
        for component in point.components():
            yield point.config, component


def unit_digest(component: Component) -> str:
    """Return a digest (hex) of a component's Verilog."""
    return digest_of([unit_verilog(component)])


def described(component: Component, digest: str, resources: Mapping[str, float]) -> Measured:
    """Return the record of a component."""
    features = {name: float(value) for name, value in component.features.items()}
    return Measured(component.kind, features, memories_of(component), digest, resources)


def routed(component: Component, digest: str, ns: float) -> RoutedComponent:
    """Return the record of a routed component."""
    features = {name: float(value) for name, value in component.features.items()}
    return RoutedComponent(component.kind, features, memories_of(component), digest, ns)


def carry_out(pool: Executor | None, store: Store, output: Path, tasks: Iterable[Task]) -> None:
    """Make measurements, and write the store after each."""

    def done(task: Task, result: Any, seconds: float) -> None:
        task.record(store, result)
        store.write(output)
        figures = shown(result)
        click.echo(f"{task.name}: {json.dumps(figures)} ({seconds:.0f} s)")

    store.write(output)
    if pool is None:
        for task in tasks:
            done(task, *timed(task.work, *task.arguments))
        return
    pending: dict[Future[Any], Task] = {
        pool.submit(timed, task.work, *task.arguments): task for task in tasks
    }
    for future in as_completed(pending):
        done(pending[future], *future.result())


def shown(result: Any) -> Any:
    """Return the figures of a measurement, as JSON takes them."""
    match result:
        case Measured():
            return result.resources
        case RoutedComponent():
            return {"ns": result.ns}
    return result


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return a measurement, and the seconds that it took."""
    start = time.monotonic()
    return work(*arguments), time.monotonic() - start


def component_tasks(store: Store, families: Iterable[str]) -> Iterator[Task]:
    """Yield the components of the grid that are missing."""
    for family_name in families:
        measurements = store.components.setdefault(family_name, [])
        known = {measured.key for measured in measurements}
        for config, component in grid(GRID):
            if key_of(component) not in known:
                known.add(key_of(component))
                yield Task(
                    f"{family_name} {component.name}",
                    measure,
                    (config, component.name, family_name),
                    lambda store, measured, name=family_name: store.components[name].append(measured),
                )


def component_named(config: AcceleratorConfig, name: str) -> Component:
    """Return a component of a core."""
    return next(component for component in components(config) if component.name == name)


def measure(config: AcceleratorConfig, name: str, family_name: str) -> Measured:
    """Synthesise one component alone."""
    component = component_named(config, name)
    verilog = unit_verilog(component)
    netlist = synthesise(verilog, UNIT, family_name, alone=True)
    return described(component, digest_of([verilog]), family(family_name).count(netlist.kinds()))


def component_clock_tasks(store: Store) -> Iterator[Task]:
    """Yield the components in which the slowest path of a core may lie, unless they were routed."""
    measurements = store.routed.setdefault(ROUTED_FAMILY, [])
    known = {measured.key for measured in measurements}
    for config, component in grid(ROUTED_POINTS):
        if key_of(component) not in known:
            known.add(key_of(component))
            yield Task(
                f"period of {component.name}",
                measure_period,
                (config, component.name),
                lambda store, measured: store.routed[ROUTED_FAMILY].append(measured),
            )


def measure_period(config: AcceleratorConfig, name: str) -> RoutedComponent:
    """Route one component alone."""
    component = component_named(config, name)
    verilog = unit_verilog(component)
    netlist = synthesise(verilog, UNIT, ROUTED_FAMILY)
    return routed(component, digest_of([verilog]), round(1000 / route(netlist, UNIT, 1).mhz, 2))


def design_tasks(
    store: Store, families: Iterable[str], designs: Iterable[AcceleratorConfig]
) -> Iterator[Task]:
    """Yield the designs that have not been synthesised as a whole."""
    for config in designs:
        for family_name in families:
            if "lut" not in store.designs.get(family_name, {}).get(config.digest, {}):
                record = recorder(config, family_name)
                yield Task(f"{family_name} {config.name}", area, (config, family_name), record)


def area(config: AcceleratorConfig, family_name: str) -> dict[str, float]:
    """Synthesise a design."""
    resources = area_of(config, family_name)
    return {"lut": resources.lut, "ff": resources.ff, "dsp": resources.dsp, "block_ram": resources.block_ram}


def clock_tasks(store: Store, designs: Iterable[AcceleratorConfig]) -> Iterator[Task]:
    """Yield the designs that have not been routed."""
    for config in designs:
        entry = store.designs.get(ROUTED_FAMILY, {}).get(config.digest, {})
        if config not in TOO_LARGE and "mhz" not in entry:
            yield Task(f"clock of {config.name}", clock, (config,), recorder(config, ROUTED_FAMILY))


def clock(config: AcceleratorConfig) -> dict[str, object]:
    """Place and route a design."""
    timing = clock_of(config)
    return {"mhz": round(timing.mhz, 2), "seed": timing.seed, "path": timing.worst}


def recorder(config: AcceleratorConfig, family_name: str) -> Callable[[Store, Any], None]:
    """Return a function that adds figures of a design to the store."""

    def record(store: Store, figures: Mapping[str, object]) -> None:
        """Add them, and the design's name and digest."""
        entry = store.designs.setdefault(family_name, {}).setdefault(config.digest, {})
        entry |= {"name": config.name, "hardware": hardware_digest(config), **figures}

    return record


if __name__ == "__main__":
    main()
