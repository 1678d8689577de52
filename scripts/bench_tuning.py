#!/usr/bin/env python3
"""Measure what tuning gains, and how fast its explorers are.

Tasks are C2 to C12 of ResNet-18, the layers of MobileNet, max poolings and products of an encoder; targets
are `default`, `small` and some that are drawn at random. Every search has the same trials. What a task's
search leaves is bounded: by the roofline, and by what no choice of its space can beat, for which more choices
are measured. Each task's result is a file in the folder; a run that was interrupted goes on.

Exit status 1 if a requirement is missed.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import geometric_mean, median

import click
import msgspec
from tuning.figures import LESSONS, correlations, curves, gain, summary, trials_to_reach
from tuning.picture import draw
from tuning.subjects import PRESETS, targets, tasks_on
from tuning.trials import TaskOutcome, search_task

from vdla.cli._options import needs
from vdla.compiler.codegen.space import space_of
from vdla.compiler.rules import Unfit
from vdla.explore.tune.measure import Measuring, Trial
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target

EXPLORERS = ("model", "evolutionary", "random")
OTHER_SEEDS = 3  # of what takes long: other explorers, and other targets
REQUIRED_PRESETS, REQUIRED_DRAWN = 1.03, 1.08
REQUIRED_TRIALS = 60
REQUIRED_CORRELATION = 0.85
REQUIRED_RATE = 40.0  # trials of C7 in a second, by two processes
JOBS = 2
FOLDER = Path(__file__).parents[1] / "build" / "tuning"


def plan_for(target: Target, seeds: int) -> list[tuple[str, int]]:
    """Return the searches on a target: on the default target, by the learned model with every seed, and by
    the other explorers; on other targets, by the learned model with OTHER_SEEDS."""
    learned, *others = EXPLORERS
    fewer = range(min(seeds, OTHER_SEEDS))
    if target.config != DEFAULT:
        return [(learned, seed) for seed in fewer]
    return [(learned, seed) for seed in range(seeds)] + [
        (explorer, seed) for explorer in others for seed in fewer
    ]


def file_of(folder: Path, target: str, task: str, seeds: int, trials: int) -> Path:
    """Return where a result stands."""
    return folder / f"{target}.{task}.{seeds}x{trials}.json"


def results(
    folder: Path, chosen: Mapping[str, Target], seeds: int, trials: int, proving: int, jobs: int
) -> dict[str, dict[str, TaskOutcome]]:
    """Return the outcomes of the searches, by target and task; searches missing in the folder run first."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {
        (name, task): (each, target)
        for name, target in chosen.items()
        for task, each in tasks_on(target).items()
        if not isinstance(space_of(each, target), Unfit)
    }
    missing = {key: each for key, each in wanted.items() if not file_of(folder, *key, seeds, trials).exists()}
    with ProcessPoolExecutor(jobs) as pool:
        running = {
            pool.submit(search_task, key[1], task, target, plan_for(target, seeds), trials, proving): key
            for key, (task, target) in missing.items()
        }
        for number, done in enumerate(as_completed(running), 1):
            name = file_of(folder, *running[done], seeds, trials)
            draft = name.with_suffix(".part")
            draft.write_bytes(msgspec.json.encode(done.result()))
            draft.rename(name)
            click.echo(f"{number} of {len(running)}: {' '.join(running[done])}", err=True)
    read = {
        key: msgspec.json.decode(file_of(folder, *key, seeds, trials).read_bytes(), type=TaskOutcome)
        for key in wanted
    }
    return {name: {task: outcome for (on, task), outcome in read.items() if on == name} for name in chosen}


def gains(outcomes: Mapping[str, TaskOutcome], required: float) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a target's table, and whether its requirement holds: so much is gained, or it is
    proven that less could be."""
    target = next(iter(outcomes.values())).target
    yield (
        f"{target}: cycles by default, gain by tuning, what the space and any schedule could gain at most",
        True,
    )
    rows = {}
    for name, outcome in outcomes.items():
        rows[name] = (
            gain(outcome, "model"),
            outcome.default / outcome.floor,
            outcome.default / outcome.roofline,
        )
        tuned, space, roofline = rows[name]
        yield (
            f"  {name:4}{outcome.points:8,} choices{outcome.default:12,}"
            f"{tuned:8.3f}{space:8.3f}{roofline:8.3f}",
            True,
        )
    tuned, space, roofline = (geometric_mean(row[place] for row in rows.values()) for place in range(3))
    holds = tuned >= required or space < required
    verdict = "" if tuned >= required else ": no more is there" if holds else ": MISSED"
    yield f"  geometric mean of {len(rows)}: {tuned:.4f} ({required} asked{verdict})", holds
    yield f"  at most {space:.4f} in the space, {roofline:.4f} by the roofline", True


def explorers(outcomes: Mapping[str, TaskOutcome], trials: int) -> Iterator[tuple[str, bool]]:
    """Yield how explorers compare."""
    for name in EXPLORERS:
        shares = curves(outcomes.values(), name, trials)
        at = ", ".join(f"{shares[:, count - 1].mean():.3f} after {count}" for count in (16, 64, trials))
        yield f"{name}: cycles over the best known, mean over {len(shares)} seeds: {at} trials", True
    needed = trials_to_reach(outcomes.values(), "model", "random", trials)
    mean = geometric_mean(needed.values())
    yield (
        (
            f"the model reaches the best of {trials} random trials in {mean:.1f} trials, geometric mean over "
            f"{len(needed)} tasks; at most {REQUIRED_TRIALS} asked"
        ),
        mean <= REQUIRED_TRIALS,
    )


def ranks(outcomes: Mapping[str, TaskOutcome]) -> Iterator[tuple[str, bool]]:
    """Yield the rank correlations of the models on tasks that they have not seen."""
    target = Target(DEFAULT)
    tasks = tasks_on(target)
    for model in ("learned", "linear", "analytic"):
        for each, what in (
            (None, f"{LESSONS} measurements in all"),
            (LESSONS, f"{LESSONS} of each other task"),
        ):
            correlation_of = correlations(outcomes, tasks, target, model, each)
            holds = model != "learned" or median(correlation_of.values()) >= REQUIRED_CORRELATION
            line = f"rank correlation of the {model} model on unseen tasks after {what}"
            yield f"{line}: {summary(correlation_of.values())}", holds


def rate(jobs: int, places: Sequence[int]) -> Iterator[tuple[str, bool]]:
    """Yield how many trials of C7 are measured in a second, and how a trial's time divides.

    Args:
        places: of the choices that the learning explorer proposed.
    """
    target = Target(DEFAULT)
    task = tasks_on(target)["C7"]
    space = space_of(task, target)
    assert not isinstance(space, Unfit), "C7 fits the default target"
    trials = [Trial(number, task, place, space.choice(place)) for number, place in enumerate(places)]
    measuring = Measuring(target)
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(measuring.measure, trials[: 8 * jobs]))  # what is compiled once
        began = time.perf_counter()
        measured = list(pool.map(measuring.measure, trials[8 * jobs :], chunksize=4))
        measured_rate = len(measured) / (time.perf_counter() - began)
    parts = ", ".join(
        f"{name} {1000 * sum(getattr(trial, name) for trial in measured) / len(measured):.1f} ms"
        for name in ("lowering", "verification", "simulation")
    )
    yield (
        f"C7: {measured_rate:.1f} trials a second by {jobs} processes, {REQUIRED_RATE:.0f} asked; {parts}",
        measured_rate >= REQUIRED_RATE,
    )


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=FOLDER, show_default=True)
@click.option("--seeds", default=5, show_default=True)
@click.option("--trials", default=200, show_default=True, help="Of each search.")
@click.option("--drawn", default=2, show_default=True, help="Targets that are drawn at random.")
@click.option("--proving", default=4000, show_default=True, help="Choices of a task measured for its bound.")
@click.option("--jobs", default=JOBS, show_default=True)
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw the curves, as SVG.")
@needs("comparing explorers", "xgboost")
def main(
    folder: Path, seeds: int, trials: int, drawn: int, proving: int, jobs: int, picture: Path | None
) -> None:
    chosen = targets(drawn)
    outcomes_on = results(folder, chosen, seeds, trials, proving, jobs)
    lines = []
    for name, outcomes in outcomes_on.items():
        presets = {config.name for config in PRESETS}
        lines += gains(outcomes, REQUIRED_PRESETS if name in presets else REQUIRED_DRAWN)
    lines += [
        *explorers(outcomes_on[DEFAULT.name], trials),
        *ranks(outcomes_on[DEFAULT.name]),
        *rate(jobs, outcomes_on[DEFAULT.name]["C7"].searched[0].places),
    ]
    for line, _ in lines:
        click.echo(line)
    if picture is not None:
        draw({name: curves(outcomes_on[DEFAULT.name].values(), name, trials) for name in EXPLORERS}, picture)
    sys.exit(not all(holds for _, holds in lines))


if __name__ == "__main__":
    main()
