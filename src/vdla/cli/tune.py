"""``vdla tune``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vdla.cli._groups import DefaultCommand, DefaultGroup
from vdla.cli._live import Live, interrupted
from vdla.cli._modules import command_line
from vdla.cli._networks import Recipe, source_of, status, takes_recipe
from vdla.cli._options import OUTPUT_FILE, needs, reports_errors, takes_target
from vdla.cli._tuning import conclusion, described, table
from vdla.cli._workers import check_workers, takes_cluster
from vdla.cli.compile import command as compile_command
from vdla.explore.tune.explorers import EXPLORERS
from vdla.explore.tune.settings import BATCH, TRIALS_PER_TASK, Settings
from vdla.hw.spec.target import Target
from vdla.hw.spec.writing import check_writable

if TYPE_CHECKING:
    from vdla.compiler.network.source import Source
    from vdla.explore.tune.session import Making, Progress, Workers
    from vdla.explore.tune.settle import Network

LOG = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=DefaultGroup)
def command() -> None:
    """Search for faster schedules of a network, or merge or show the logs of such searches."""


@command.command("run", cls=DefaultCommand)
@click.argument("model", metavar="MODEL.onnx", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", metavar="LOG", required=True, type=OUTPUT_FILE, help="Log to append records to."
)
@click.option(
    "--trials",
    type=click.IntRange(0),
    help="Choices to measure in all, including the choices in the log.  "
    f"[default: {TRIALS_PER_TASK} for each task, "
    "or as many as the minutes allow]",
)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Time after which the search ends.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the explorers.")
@click.option(
    "--explorer",
    type=click.Choice(list(EXPLORERS)),
    default=next(iter(EXPLORERS)),
    show_default=True,
    help="What proposes choices.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 4096),
    default=BATCH,
    show_default=True,
    help="Choices that are proposed together: at least as many as there are workers.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 1024), help="Worker processes.  [default: one for each processor]"
)
@takes_cluster
@click.option(
    "--settle/--no-settle",
    default=True,
    show_default=True,
    help="At the end, try the best choices in the whole network, and keep the choices that make it faster.",
)
@takes_recipe
@takes_target
def run(
    model: Path,
    output: Path,
    trials: int | None,
    minutes: float | None,
    seed: int,
    explorer: str,
    batch: int,
    jobs: int | None,
    cluster: str | None,
    resource: str | None,
    settle: bool,
    recipe: Recipe,
    target: Target,
) -> None:
    """Search for the fastest schedules of a network's layers on a target, and keep every measurement in LOG.

    Each trial is lowered, verified and simulated. The next trials go to the layers that promise most for the
    whole network. A tuning that was interrupted goes on when the same command runs again; nothing is measured
    twice. `vdla compile MODEL --tuned LOG` uses the best choices.

    `vdla tune merge A B -o C` merges logs, as of several machines.
    """
    check_workers("--jobs", jobs, cluster, resource)
    from vdla.explore.tune.proposals import making
    from vdla.explore.tune.session import TRIALS_PER_WORKER
    from vdla.explore.workers.backends import backend_of

    workers = backend_of(jobs, cluster, TRIALS_PER_WORKER, resource)
    settings, make = Settings(explorer, seed, trials, minutes, batch), making(explorer)
    network = _network(model.name, source_of(model, recipe), target)
    done, settled = _tuned(network, output, settings, make, workers, settle=settle)
    use = command_line("vdla compile", compile_command, "-o", f"{model.stem}.vdla", "--tuned", str(output))
    click.echo(conclusion(model, output, done, target, settled, use))


def _network(name: str, source: "Source", target: Target) -> "Network":
    """Return a network as a target runs it."""
    from vdla.compiler.network.plan_cache import cached_graph
    from vdla.compiler.network.stages import parts_of
    from vdla.explore.tune.settle import Network

    with status() as say:
        return Network(name, *parts_of(cached_graph(source, say), target, say), target)


def _tuned(
    network: "Network",
    output: Path,
    settings: Settings,
    make: "Making",
    workers: "Workers",
    *,
    settle: bool,
) -> "tuple[Progress, tuple[int, int] | None]":
    """Tune a network, and settle its choices; show progress, and what an interrupt leaves."""
    from vdla.compiler.codegen.tuned.log import TuningLog
    from vdla.explore.tune.history import history
    from vdla.explore.tune.proposals import LEARNING
    from vdla.explore.tune.session import Session
    from vdla.explore.tune.settle import settled

    target, layers, log = network.target, network.layers, TuningLog(output)
    if log.torn:
        click.echo(f"{output}: its last line was torn, and is measured again", err=True)
    try:
        others = history(log.records, target, layers) if settings.explorer == LEARNING else ()
        with Live(sys.stderr, described, table) as live:
            done = Session(layers, target, log, settings, make, live.show, others).run(workers)
        with status() as say:
            return done, settled(network, log, settings, done.trials, say) if settle else None
    except KeyboardInterrupt:
        click.echo(interrupted(output, len(log.records), "records"), err=True)
        raise
    finally:
        log.close()


@command.command("merge")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=LOG)
@click.option("-o", "--output", metavar="LOG", required=True, type=OUTPUT_FILE, help="Log to write.")
@reports_errors
def merge(logs: tuple[Path, ...], output: Path) -> None:
    """Merge logs: every record once, in an order that does not depend on that of the logs."""
    from vdla.compiler.codegen.tuned.log import merge, read_log

    for log in logs:
        if read_log(log).torn:
            click.echo(f"{log}: its last line is torn, and left out", err=True)
    records = merge(logs, output)
    tasks = {(record.task, record.timing) for record in records}
    click.echo(f"{output}: {len(records):,} records of {len(tasks):,} task{'s' * (len(tasks) != 1)}")


@command.command("report")
@click.argument("log", metavar="LOG", type=LOG)
@click.option(
    "-o",
    "--output",
    metavar="PAGE.html",
    type=OUTPUT_FILE,
    help="Page to write.  [default: LOG.html in the current folder]",
)
@needs("vdla tune report", "vl_convert", "xgboost")
@takes_target
def report(log: Path, output: Path | None, target: Target) -> None:
    """Write the page of a tuning log: curves of the explorers, gains, and how well the cost model ranks.

    The page is one HTML file that works offline. Lower bounds and the cost model need the target that was
    tuned for: name it as for `vdla tune`, unless it is a preset.
    """
    from vdla.compiler.codegen.tuned.log import read_log
    from vdla.explore.report.tune_page import write_tune_report

    page = output or Path(f"{log.stem}.html")
    check_writable(page)
    contents = read_log(log)
    if contents.torn:
        click.echo(f"{log}: its last line is torn, and left out", err=True)
    with status() as say:
        written = write_tune_report(page, contents, target, say)
    click.echo(written)
