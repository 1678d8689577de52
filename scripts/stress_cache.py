#!/usr/bin/env python3
"""Let many processes request the same and different entries of one build cache while entries are evicted.

Failures are an incomplete entry, an entry that is built twice at a time, and an error of the cache; exit
status 1 on any. An entry is the text of a random configuration, in two files with a pause between them. With
--real it is the RTL of small configurations, built by Verilator.
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import click
from generators.programs import random_config

from vdla.hw.spec.cache import cache_folder
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.files import to_toml
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.rtl import cache

CLOCK_SECONDS = 0.02  # by which the times of files may lag
REAL = [TINY.with_changes(token_depth=depth, bus_bits=bits) for depth in (4, 8, 16) for bits in (64, 128)]


@dataclass
class Outcome:
    """What processes saw: entries they asked for and built, entries forgotten before they were read, and what
    went wrong."""

    asked: int = 0
    built: int = 0
    forgotten: int = 0
    failures: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Outcome") -> "Outcome":
        self.asked += other.asked
        self.built += other.built
        self.forgotten += other.forgotten
        self.failures += other.failures
        return self


def asking(seed: int, count: int, keys: int, kept_seconds: float) -> Outcome:
    """Ask for `count` entries with keys drawn from range(keys), while other processes ask, too."""
    rng = random.Random(seed)
    return asking_for([rng.randrange(keys) for _ in range(count)], kept_seconds)


def asking_for(numbers: list[int], kept_seconds: float) -> Outcome:
    """Ask for the entries of these numbers one after the other."""
    cache.KEPT_DAYS = kept_seconds / cache.SECONDS_PER_DAY
    outcome = Outcome(asked=len(numbers))
    for number in numbers:
        _ask(number, kept_seconds, outcome)
    return outcome


def key_of(number: int) -> str:
    """Return the key of an entry."""
    return f"{number:064x}"


def _ask(number: int, kept_seconds: float, outcome: Outcome) -> None:
    """Ask for entry `number` and read it."""
    text, began = to_toml(random_config(number)), time.time()

    def build(folder: Path) -> None:
        outcome.built += 1
        (folder / "one.toml").write_text(text)
        time.sleep(0.002)
        (folder / "two.toml").write_text(text)

    try:
        entry = cache.built("stress", key_of(number), build)
        texts = [(entry / name).read_text() for name in ("one.toml", "two.toml")]
    except FileNotFoundError as error:
        if time.time() - began < kept_seconds - CLOCK_SECONDS:
            outcome.failures.append(f"entry {number} was forgotten at once: {error}")
        else:
            outcome.forgotten += 1
    except Exception as error:  # whatever it is, it is what the campaign looks for
        outcome.failures.append(f"entry {number}: {type(error).__name__}: {error}")
    else:
        if texts != [text, text]:
            outcome.failures.append(f"entry {number} is not what was built")


def asking_rtl(seed: int, configs: list[AcceleratorConfig]) -> Outcome:
    """Build and load the RTL of every configuration, in random order."""
    from vdla.runtime.devices.rtl.device import Optimise, RtlDevice

    outcome = Outcome(asked=len(configs))
    for config in random.Random(seed).sample(configs, len(configs)):
        try:
            RtlDevice(config, 1 << 16, optimise=Optimise.BUILD).close()
        except Exception as error:  # as above
            outcome.failures.append(f"{config.digest[:12]}: {type(error).__name__}: {error}")
    return outcome


def together(processes: int, work: Callable[..., Outcome], *arguments: object) -> Outcome:
    """Run `work(seed, *arguments)` in several processes; return what all of them saw."""
    total = Outcome()
    with ProcessPoolExecutor(processes) as pool:
        for future in [pool.submit(work, seed, *arguments) for seed in range(processes)]:
            total += future.result()
    return total


def stress(processes: int, builds: int, keys: int, kept_seconds: float) -> Outcome:
    """Ask for `builds` entries in all, of an empty cache in the folder VDLA_CACHE_DIR names; see what is left
    in the end."""
    total = together(processes, asking, -(-builds // processes), keys, kept_seconds)
    if kept_seconds >= cache.SECONDS_PER_DAY:
        if total.built > keys:
            total.failures.append(f"{total.built} builds of {keys} entries, although none was forgotten")
        return total
    time.sleep(kept_seconds + CLOCK_SECONDS)
    with ProcessPoolExecutor(1) as pool:
        total += pool.submit(
            asking_for, [keys], kept_seconds
        ).result()  # a new entry, so that the others are forgotten
    left = {path.name for path in (cache_folder() / "stress").iterdir() if path.stem != key_of(keys)}
    if left:
        total.failures.append(
            f"{len(left)} files and folders are left of entries that were forgotten: "
            f"{', '.join(sorted(left)[:5])}"
        )
    return total


def stress_rtl(processes: int, configs: Sequence[AcceleratorConfig]) -> Outcome:
    """Build the RTL of `configs` in several processes at once, each once in all."""
    total = together(processes, asking_rtl, configs)
    total.built = sum(path.is_dir() for path in (cache_folder() / "rtl").iterdir())
    if total.built != len(configs):
        total.failures.append(f"the cache holds {total.built} builds of {len(configs)} configurations")
    return total


@click.command(help=__doc__)
@click.option("--processes", default=8, show_default=True)
@click.option(
    "--builds", default=400, show_default=True, help="Entries asked for in each part of the campaign."
)
@click.option(
    "--real",
    default=0,
    show_default=True,
    type=click.IntRange(0, len(REAL)),
    help="Designs whose RTL all processes build.",
)
def main(processes: int, builds: int, real: int) -> None:
    parts = {
        "equal entries": (4, cache.SECONDS_PER_DAY),
        "different entries": (10 * builds, cache.SECONDS_PER_DAY),
        "entries soon forgotten": (40, 0.1),
        "different entries soon forgotten": (10 * builds, 0.1),
    }
    failures = []
    for name, (keys, kept_seconds) in parts.items():
        with tempfile.TemporaryDirectory(prefix="stress.") as folder:
            os.environ["VDLA_CACHE_DIR"] = folder
            failures += said(name, stress(processes, builds, keys, kept_seconds))
    if real:
        with tempfile.TemporaryDirectory(prefix="stress.") as folder:
            os.environ["VDLA_CACHE_DIR"] = folder
            failures += said("RTL", stress_rtl(processes, REAL[:real]))
    for failure in failures[:20]:
        click.echo(failure)
    sys.exit(1 if failures else 0)


def said(name: str, outcome: Outcome) -> list[str]:
    """Print the outcome of a part of the campaign; return its failures."""
    click.echo(
        f"{name}: asked {outcome.asked}, built {outcome.built}, forgotten before they were read "
        f"{outcome.forgotten}, "
        f"failures {len(outcome.failures)}"
    )
    return outcome.failures


if __name__ == "__main__":
    main()
