#!/usr/bin/env python3
"""Plant small mistakes in the package's sources and count those that tests notice.

Each mutant is one change of one line in hw, sim, compiler or runtime, planted in a scratch copy of the tree. The tests near the changed module run
first; what they miss goes to the next ring: whole programs, recorded streams, whole networks and short random campaigns. A run that takes ten times as
long as on the unchanged tree counts as noticed. Verdicts are appended to a file, so the same command continues where the last one ended. Mutants that
mean the same as the original are listed, with the reason, in scripts/mutation/equivalent.toml, and are passed over.

Exit status 1 where fewer are noticed than asked for, or an entry of that list is out of date.
"""
# Libraries were looked at first. mutmut 3 puts all mutants of a function into one file and chooses one by an environment variable when it is called:
# sources are then the same for every mutant, so caches keyed by sources (built RTL, compiled kernels) mix mutants, numba compiles the choice itself, and
# code outside of functions (widths, tables, fields) is never changed. cosmic-ray changes files of the tree it runs in, one after the other, has one test
# command for all of them, and neither samples by seed nor drops statements. What would be left of either is a walk over the syntax tree.

import difflib
import signal
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import click
from mutation.baseline import Baseline, BaselineError
from mutation.graph import Imports
from mutation.judge import Judge, Verdict
from mutation.records import Equivalents, Records
from mutation.rings import Rings
from mutation.sample import Mutant, digest, draw, sources
from mutation.summary import percentages, survivors, table, verdict_text
from mutation.trees import Stopped, Trees

ROOT = Path(__file__).parents[1]
INTERRUPTED = 130


class Campaign:
    """Judges mutants, several at a time, and reports each.

    Args:
        records: where verdicts go.
        seed, tests: what is noted with them: the seed, and a digest of the tests.
    """

    def __init__(self, judge: Judge, records: Records, seed: int, tests: str) -> None:
        self._judge, self._records, self._seed, self._tests = judge, records, seed, tests
        self._lock, self._done, self._began = threading.Lock(), 0, time.monotonic()

    def run(self, mutants: list[Mutant], jobs: int) -> None:
        """Judge all `mutants`.

        Raises:
            BaselineError: a test fails on the unchanged tree.
            KeyboardInterrupt: it was interrupted; nothing runs any more.
        """
        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(self._one, mutant, len(mutants)) for mutant in mutants]
            try:
                _finish(futures)
            except BaseException:
                self._judge.trees.stop()
                pool.shutdown(cancel_futures=True)
                raise

    def _one(self, mutant: Mutant, total: int) -> None:
        verdict = self._judge.judge(mutant)
        self._records.add(mutant, verdict, self._seed, self._tests)
        with self._lock:
            self._done += 1
            minutes = (time.monotonic() - self._began) / 60
            rate = self._done / minutes
            click.echo(
                f"[{self._done}/{total}, {rate:.1f} a minute, {(total - self._done) / rate:.0f} min left] "
                f"{verdict.seconds:.0f} s  {mutant}\n    {verdict_text(verdict)}",
                err=True,
            )


def _finish(futures: list[Future]) -> None:
    """Wait for all `futures`, or for the first that fails."""
    done, _ = wait(futures, return_when="FIRST_EXCEPTION")
    for future in done:
        future.result()


def show_diff(mutant: Mutant, source: bytes) -> None:
    """Print a mutant as a diff that `patch -p1` takes."""
    before, after = (
        text.decode().splitlines(keepends=True) for text in (source, mutant.change.applied(source))
    )
    click.echo(
        "".join(difflib.unified_diff(before, after, f"a/{mutant.module}", f"b/{mutant.module}")), nl=False
    )


def show_list(mutants: list[Mutant], records: Records, equivalents: Equivalents) -> None:
    """Print every mutant with its number and what is known of it."""
    for number, mutant in enumerate(mutants):
        verdict = records.verdict(mutant)
        known = (
            "equivalent" if equivalents.holds(mutant) else verdict_text(verdict) if verdict else "not run yet"
        )
        click.echo(f"{number:4}  {mutant}\n      {known}")


def to_run(mutants: list[Mutant], records: Records, only: int | None, again: bool) -> list[Mutant]:
    """Return the mutants that are to be judged now."""
    if only is not None:
        return [mutants[only]]

    def open_(verdict: Verdict | None) -> bool:
        return verdict is None or (again and not verdict.ring)

    return [mutant for mutant in mutants if open_(records.verdict(mutant))]


@click.command(help=__doc__)
@click.option("--mutants", "count", default=100, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--jobs", default=2, show_default=True)
@click.option("--only", type=int, help="Run one mutant, again if need be, and print it as a diff.")
@click.option("--again", is_flag=True, help="Run survivors again.")
@click.option(
    "--list", "listing", is_flag=True, help="Print the mutants and what is known of them; run nothing."
)
@click.option("--near", default=85.0, show_default=True, help="Per cent that the near tests must notice.")
@click.option("--all", "both", default=95.0, show_default=True, help="Per cent that both rings must notice.")
@click.option(
    "--tree",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=ROOT,
    help="The tree; by default that of this script.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="For verdicts and scratch copies; build/mutants by default.",
)
def main(
    count: int,
    seed: int,
    jobs: int,
    only: int | None,
    again: bool,
    listing: bool,
    near: float,
    both: float,
    tree: Path,
    folder: Path | None,
) -> None:
    folder = folder or tree / "build" / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    modules = sources(tree)
    mutants, equivalents = (
        draw(modules, count, seed),
        Equivalents.read(tree / "scripts" / "mutation" / "equivalent.toml"),
    )
    records = Records(folder / "verdicts.jsonl", digest(modules))
    if listing:
        show_list(mutants, records, equivalents)
        return
    if only is not None and not 0 <= only < len(mutants):
        raise click.UsageError(f"--only {only}: there are mutants 0 to {len(mutants) - 1}")
    if only is not None:
        show_diff(mutants[only], modules[mutants[only].module])
    wanted = [mutant for mutant in mutants if not equivalents.holds(mutant)]
    _run(
        tree,
        folder,
        to_run(mutants if only is not None else wanted, records, only, again),
        records,
        seed,
        jobs,
    )
    if only is None:
        sys.exit(
            _report(wanted, records, equivalents.stale(modules), (near, both), len(mutants) - len(wanted))
        )


def _run(tree: Path, folder: Path, mutants: list[Mutant], records: Records, seed: int, jobs: int) -> None:
    """Judge `mutants` in copies of `tree`; leave with a message where that cannot be, or is interrupted."""
    if not mutants:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else what runs would outlive this process
    imports = Imports(tree)
    tests = digest(sources(tree, ("tests",)))
    try:
        with Trees(tree, folder) as trees:
            Campaign(
                Judge(trees, Rings(imports), Baseline(trees, folder / "baseline.jsonl", imports)),
                records,
                seed,
                tests,
            ).run(mutants, jobs)
    except BaselineError as error:
        raise click.ClickException(str(error)) from error
    except (KeyboardInterrupt, Stopped):
        click.echo("interrupted; the same command continues", err=True)
        sys.exit(INTERRUPTED)


def _report(
    mutants: list[Mutant], records: Records, stale: list[str], least: tuple[float, float], equivalent: int
) -> int:
    """Print the summary; return the exit status."""
    verdicts = {mutant: verdict for mutant in mutants if (verdict := records.verdict(mutant))}
    click.echo("\n".join(table(verdicts)))
    if equivalent:
        click.echo(f"{equivalent} more mean the same as the original")
    for line in survivors(mutants, verdicts):
        click.echo(f"survived: {line}")
    for line in stale:
        click.echo(f"scripts/mutation/equivalent.toml: {line}")
    found = percentages(list(verdicts.values()))
    short = [
        f"{share:.1f} % were noticed by {name}, and {bound:g} % were asked for"
        for share, bound, name in zip(found, least, ("near tests", "both rings"), strict=True)
        if share < bound
    ]
    click.echo("\n".join(short), nl=bool(short))
    return 1 if short or stale else 0


if __name__ == "__main__":
    main()
