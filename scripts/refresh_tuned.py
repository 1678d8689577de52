#!/usr/bin/env python3
"""Measure the tuned records that ship again, by these sources and on the preset as it is now, without a new
search.

The record of a task stays if its choice still beats the compiler's default choice by a percent, else it is
removed. A network is settled again: each task keeps its settled choice, and tasks that are new to the network
take the default choice. If that is no faster than the default choices for all tasks, the default choices are
settled. Prints the cycles of each network. scripts/fill_tuned.py searches for better choices. Exit status 1
where the model of a settled network is missing, or the network has become slower.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import click
from fill_tuned import MODELS, WORTH

from vdla.cli._networks import status
from vdla.cli._options import reports_errors
from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.tuned.best_records import SHIPPED
from vdla.compiler.codegen.tuned.chooser import legal_choice
from vdla.compiler.codegen.tuned.log import read_log, write_log
from vdla.compiler.codegen.tuned.record import TuningRecord, merged, settled_of
from vdla.compiler.codegen.version import task_version
from vdla.compiler.network.plan_cache import cached_graph
from vdla.compiler.network.source import Source
from vdla.compiler.network.stages import parts_of
from vdla.compiler.network.tuning import network_of
from vdla.compiler.tasks.base import Choice, Task, choice_to_json
from vdla.compiler.tasks.task_text import task_of
from vdla.explore.tune.settle import Network
from vdla.hw.spec.target import TARGETS, Target

Settled = tuple[TuningRecord, ...]


def still_better(records: Iterable[TuningRecord], target: Target) -> Iterator[TuningRecord]:
    """Yield the records of single tasks whose choices beat the compiler's default, with their cycles now."""
    for record in records:
        task = None if record.network else task_of(record.task)
        space = None if task is None else space_of(task, target)
        choice = legal_choice(record, space) if isinstance(space, ChoiceSpace) else None
        if task is None or choice is None or not isinstance(space, ChoiceSpace):
            continue
        cycles = simulated_cycles(task, choice, target)
        if cycles < WORTH * simulated_cycles(task, cached()(space), target):
            yield replace(record, timing=target.timing_digest, version=task_version(), cycles=cycles)


def settled_again(network: Network, before: Settled) -> Settled:
    """Return the settled records of a network as it is now.

    Args:
        before: records of a settlement of the same model, maybe with other tasks.
    """
    defaults = {task: _own_choice(task, network.target) for task in network.layers}
    kept = defaults | dict(_kept_choices(network, before))
    cost, chosen = network.cost(defaults), defaults
    own_cycles = cost.cycles
    if kept != defaults and (kept_cost := network.cost(kept)).is_better_than(cost):
        cost, chosen = kept_cost, kept
    head = replace(
        before[0],
        timing=network.target.timing_digest,
        network=network_of(network.layers),
        version=task_version(),
        cycles=cost.cycles,
        before=own_cycles,
        model=network.model,
    )
    return tuple(
        replace(head, task=str(task), choice=choice_to_json(choice), layers=tuple(network.layers[task]))
        for task, choice in chosen.items()
    )


def _own_choice(task: Task, target: Target) -> Choice:
    """Return the compiler's choice for a task of a network, which has a space."""
    space = space_of(task, target)
    assert isinstance(space, ChoiceSpace), f"{task} was placed on the accelerator"
    return cached()(space)


def _kept_choices(network: Network, before: Settled) -> Iterator[tuple[Task, Choice]]:
    """Yield the tasks of a network whose choices were settled before and are legal now."""
    records = {record.task: record for record in before}
    for task in network.layers:
        record, space = records.get(str(task)), space_of(task, network.target)
        choice = legal_choice(record, space) if record and isinstance(space, ChoiceSpace) else None
        if choice is not None:
            yield task, choice


def refreshed(records: list[TuningRecord], models: Path, target: Target) -> tuple[list[TuningRecord], bool]:
    """Return the records of a preset by these sources, and whether each network is there and no slower.

    Args:
        models: folder of the models. The records of a network without its file stay as they are.
    """
    by_model = {settled[0].model: settled for settled in settled_of(records).values()}
    is_good = True
    with status() as say:
        for name, before in sorted(by_model.items()):
            if not (models / name).exists():
                click.echo(f"{target.name:12} {name:28} is not in {models}; scripts/make_models.py makes it")
                is_good = False
                continue
            say(f"{target.name}: {name}")
            graph = cached_graph(Source(models / name))
            by_model[name] = settled_again(Network(name, *parts_of(graph, target), target), before)
            is_good &= _told(target, before[0], by_model[name][0])
        say(f"{target.name}: single tasks")
        return merged(still_better(records, target), *by_model.values()), is_good


def _told(target: Target, before: TuningRecord, now: TuningRecord) -> bool:
    """Print the cycles of a network before and now, and return whether it is no slower."""
    old, new = before.cycles or 0, now.cycles or 0  # settled choices are legal, so they have cycles
    click.echo(
        f"{target.name:12} {now.model:28} {old:12,} -> {new:12,} ({(new / old - 1) * 100:+.2f}%); "
        f"by the default choices {now.before:12,}"
    )
    return new <= old


@click.command(help=__doc__)
@click.option("--models", default=MODELS, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--folder", default=SHIPPED, type=click.Path(exists=True, file_okay=False, path_type=Path))
@reports_errors
def main(models: Path, folder: Path) -> None:
    every_good = True
    for path in sorted(folder.glob("*.jsonl")):
        records, is_good = refreshed(list(read_log(path).records), models, TARGETS[path.stem])
        write_log(records, path)
        click.echo(f"{path.name}: {len(records):,} records")
        every_good &= is_good
    sys.exit(0 if every_good else 1)


if __name__ == "__main__":
    main()
