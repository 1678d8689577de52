#!/usr/bin/env python3
"""Measure the tuned records that ship again, and give them the version of these sources where cycles are
equal.

A change of sources that leaves schedules and timing as they were needs no tuning. Records whose cycles differ
keep their version: compilation measures them again, until scripts/fill_tuned.py tunes anew. Exit status 1
where there are such records.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import click

from vdla.cli._networks import status
from vdla.cli._options import reports_errors
from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.codegen.choices import choice_from_json
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.tuned.best_records import SHIPPED
from vdla.compiler.codegen.tuned.log import read_log, write_log
from vdla.compiler.codegen.tuned.record import TuningRecord, merged, settled_of
from vdla.compiler.codegen.version import task_version
from vdla.compiler.network.plan_cache import cached_graph
from vdla.compiler.network.source import Source
from vdla.compiler.network.stages import parts_of, plan_of_parts
from vdla.compiler.network.tuning import cycles_of_plan, network_of
from vdla.compiler.tasks.task_text import task_of
from vdla.explore.tune.settle import Network
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import TARGETS, Target

MODELS = Path(__file__).parents[1] / "build" / "models"


def stamped_trials(records: Iterable[TuningRecord], target: Target) -> Iterator[TuningRecord]:
    """Yield the records of single tasks, with this version where their cycles are equal."""
    for record in records:
        if not record.network:
            same = cycles_now(record, target) == record.cycles
            yield replace(record, version=task_version()) if same else record


def cycles_now(record: TuningRecord, target: Target) -> int | None:
    """Return the cycles of a record's choice by these sources; None where it has become illegal."""
    task = task_of(record.task)
    try:
        return None if task is None else simulated_cycles(task, choice_from_json(record.choice), target)
    except (VdlaError, KeyError, TypeError, ValueError):
        return None


def stamped_network(network: Network, settled: tuple[TuningRecord, ...]) -> list[TuningRecord]:
    """Return the settled records of a network, with this version where the network's cycles are equal."""
    layers = network.layers
    choices = {one.task: choice_from_json(one.choice) for one in settled}
    chosen = {task: choices[str(task)] for task in layers}
    if network.cost(chosen).cycles != settled[0].cycles:
        return list(settled)
    default = plan_of_parts(network.graph, network.parted, network.target, choose=cached())
    names = {str(task): tuple(found) for task, found in layers.items()}
    return [
        replace(
            one,
            version=task_version(),
            layers=names[one.task],
            model=network.model,
            before=cycles_of_plan(default),
        )
        for one in settled
    ]


def networks(models: Iterable[Path], target: Target) -> Iterator[Network]:
    """Yield the networks of files as a target runs them."""
    for model in models:
        yield Network(model.name, *parts_of(cached_graph(Source(model)), target), target)


def stamped(records: list[TuningRecord], models: Iterable[Path], target: Target) -> list[TuningRecord]:
    """Return the records of a preset; those of networks without a file stay as they are."""
    settled = {network: found for (network, _), found in settled_of(records).items()}
    with status() as say:
        for network in networks(models, target):
            say(f"{target.name}: {network.model}")
            digest = network_of(network.layers)
            if digest in settled:
                settled[digest] = tuple(stamped_network(network, settled[digest]))
        return merged(stamped_trials(records, target), *settled.values())


@click.command(help=__doc__)
@click.option("--models", default=MODELS, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--folder", default=SHIPPED, type=click.Path(exists=True, file_okay=False, path_type=Path))
@reports_errors
def main(models: Path, folder: Path) -> None:
    old = 0
    for path in sorted(folder.glob("*.jsonl")):
        files = sorted(models.glob("*_int8.onnx"))
        found = stamped(list(read_log(path).records), files, TARGETS[path.stem])
        write_log(found, path)
        left = sum(one.version != task_version() for one in found)
        click.echo(f"{path.name}: {len(found) - left:,} records of this version, {left:,} of others")
        old += left
    sys.exit(1 if old else 0)


if __name__ == "__main__":
    main()
