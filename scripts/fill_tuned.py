#!/usr/bin/env python3
"""Tune networks on presets, and keep the best records in the database that ships with the kit.

Each network is tuned on each preset with TRIALS trials for each of its tasks. The logs stay in LOGS, so that
a killed run goes on where it was. Of every task the best record is written to
compiler/codegen/tuned/PRESET.jsonl, if it beats the compiler's default choice by a percent; of every network
what was settled.
Records of tasks and networks that were not tuned now stay there. Prints what each network gains.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from vdla.cli._live import Live
from vdla.cli._networks import status
from vdla.cli._options import reports_errors
from vdla.cli._tuning import described
from vdla.compiler.codegen.tuned.best_records import SHIPPED
from vdla.compiler.codegen.tuned.log import TuningLog, read_log, write_log
from vdla.compiler.codegen.tuned.record import TuningRecord, best_of, merged, settled_of
from vdla.compiler.codegen.version import task_version
from vdla.compiler.network.plan_cache import cached_graph
from vdla.compiler.network.source import Source
from vdla.compiler.network.stages import parts_of
from vdla.explore.tune.explorers import EXPLORERS
from vdla.explore.tune.known import DEFAULT
from vdla.explore.tune.proposals import making
from vdla.explore.tune.session import TRIALS_PER_WORKER, Progress, Session
from vdla.explore.tune.settings import Settings
from vdla.explore.tune.settle import Network, settled
from vdla.explore.workers.backends import backend_of
from vdla.hw.spec.target import TARGETS, Target

WORTH = 0.99  # of the default's cycles, below which a task's best choice alone is shipped
MODELS = Path(__file__).parents[1] / "build" / "models"
LOGS = Path(__file__).parents[1] / "build" / "tuned"


def tune(
    model: Path, target: Target, log: Path, settings: Settings, per_task: int, jobs: int
) -> tuple[Progress, tuple[int, int] | None]:
    """Tune a network with so many trials for each of its tasks, and settle its choices.

    Returns:
        What was reached, and the network's cycles by the compiler's default choices and by the settled
        choices, if they were settled now.
    """
    network, opened = (
        Network(model.name, *parts_of(cached_graph(Source(model)), target), target),
        TuningLog(log),
    )
    layers = network.layers
    whole = Settings(settings.explorer, settings.seed, per_task * len(layers), batch=settings.batch)
    try:
        with Live(sys.stderr, described) as live:
            session = Session(layers, target, opened, whole, making(whole.explorer), live.show)
            done = session.run(backend_of(jobs, None, TRIALS_PER_WORKER))
        with status() as say:
            return done, settled(network, opened, whole, done.trials, say)
    finally:
        opened.close()


def beating(records: Sequence[TuningRecord], target: Target) -> list[TuningRecord]:
    """Return the best record of each task on a target by this version of the compiler, if it takes fewer
    cycles than the compiler's default choice."""
    current = [
        record
        for record in records
        if (record.version, record.timing) == (task_version(), target.timing_digest)
    ]
    default = {record.task: record.cycles for record in current if record.explorer == DEFAULT}
    best = [record for record in best_of(current).values() if record.task in default]
    return [record for record in best if _less(record.cycles, default[record.task])]


def _less(cycles: int | None, others: int | None) -> bool:
    return cycles is not None and others is not None and cycles < WORTH * others


def updated(
    shipped: Iterable[TuningRecord], logs: Sequence[TuningRecord], target: Target
) -> list[TuningRecord]:
    """Return the records that ship for a preset: of the logs, and of tasks that the logs do not have."""
    current = [
        record
        for record in logs
        if record.version == task_version() and record.timing == target.timing_digest
    ]
    tuned, together = {record.task for record in current}, settled_of(current)
    networks = {network for network, _ in together}
    rest = [
        record
        for record in shipped
        if record.timing == target.timing_digest
        and (record.network not in networks if record.network else record.task not in tuned)
    ]
    return merged(beating(logs, target), rest, *together.values())


@click.command(help=__doc__)
@click.option(
    "--preset",
    "presets",
    multiple=True,
    type=click.Choice(list(TARGETS)),
    default=["default", "small"],
    show_default=True,
)
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Networks.  [default: build/models/*_int8.onnx]",
)
@click.option("--trials", default=64, show_default=True, type=click.IntRange(1), help="For each task.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option(
    "--explorer", default=next(iter(EXPLORERS)), show_default=True, type=click.Choice(list(EXPLORERS))
)
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1))
@click.option("--logs", default=LOGS, type=click.Path(file_okay=False, path_type=Path))
@click.option("--output", default=SHIPPED, type=click.Path(file_okay=False, path_type=Path))
@reports_errors
def main(
    presets: tuple[str, ...],
    models: tuple[Path, ...],
    trials: int,
    seed: int,
    explorer: str,
    jobs: int,
    logs: Path,
    output: Path,
) -> None:
    chosen = models or tuple(sorted(MODELS.glob("*_int8.onnx")))
    for preset in presets:
        target, file = TARGETS[preset], output / f"{preset}.jsonl"
        records = []
        for model in chosen:
            log = logs / f"{preset}.{model.stem}.jsonl"
            done, network = tune(model, target, log, Settings(explorer, seed), trials, jobs)
            before, after = network or done.cycles
            click.echo(
                f"{preset:12} {model.stem:24} {before:12,} {after:12,} {(after / before - 1) * 100:+7.2f}% "
                f"{'settled' if network else 'alone'}, {done.trials:,} trials, {done.measured:,} now, "
                f"{done.failed:,} illegal"
            )
            records += read_log(log).records
            shipped = read_log(file).records if file.exists() else ()
            write_log(updated(shipped, records, target), file)
        click.echo(f"{file}: {len(read_log(file).records):,} records, {file.stat().st_size / 1024:.1f} KiB")


if __name__ == "__main__":
    main()
