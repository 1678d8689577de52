#!/usr/bin/env python3
"""Plant small faults in the package's sources and count how many the tests find.

Each mutant is a change of one line in hw, sim, compiler or runtime, planted in a scratch copy of the
tree. As many are drawn of each room. The tests near the changed module run first; what they miss goes to the
next ring: whole programs, recorded streams, whole networks and short random campaigns. Verdicts are appended
to a file, so the same command continues where the last run ended. Mutants that mean the same as the original
are listed, with the reason, in scripts/mutation/equivalent.toml, and passed over.

Near tests are the tests that a developer of the module runs in a minute of processor time. For sim and
hw/spec, whose native code is compiled again, 40 seconds are added. The tests run in this order:

1. tests named after the module or its folder, and the unit benches of its component
2. tests of its folder that import it, then tests of its folder that reach it by imports
3. tests elsewhere that import it
4. only where there are none of these, tests of its top folder that reach it

The run ends at the first failure. A test that fails has to pass on the unchanged tree, else it is named and
judges nothing. A test that takes more than 90 seconds of processor time is taken to have no end.

Exit status 1 if fewer are noticed than required, or an entry of that list is out of date.

The kit has this code because no library fits. mutmut 3 puts all mutants of a function into a single file and
chooses a mutant when the function is called. The sources are then the same for every mutant, so caches keyed
by sources (built RTL, native code) mix mutants, and numba compiles the choice. Code outside of functions
(widths, tables, fields) never changes. cosmic-ray changes the tree that it runs in and has the same test
command for all mutants. It neither draws by seed nor drops statements.
"""

import difflib
import signal
import sys
from pathlib import Path

import click
from mutation.baseline import Baseline, BaselineError
from mutation.campaign import Campaign
from mutation.graph import Imports
from mutation.judge import NEAR, NEXT, Judge
from mutation.records import Equivalents, Records
from mutation.rings import Rings
from mutation.sample import ROOMS, Mutant, digest, draw, sources
from mutation.summary import percentages, survivors, table, verdict_text
from mutation.trees import Stopped, Trees

ROOT = Path(__file__).parents[1]
EQUIVALENT = "scripts/mutation/equivalent.toml"
INTERRUPTED = 130


def show_diff(mutant: Mutant, source: bytes) -> None:
    """Print a mutant as a diff that `patch -p1` takes."""
    texts = source, mutant.change.applied(source)
    before, after = (text.decode().splitlines(keepends=True) for text in texts)
    lines = difflib.unified_diff(before, after, f"a/{mutant.module}", f"b/{mutant.module}")
    click.echo("".join(lines), nl=False)


def show_list(mutants: list[Mutant], records: Records, equivalents: Equivalents) -> None:
    """Print every mutant with its number and what is known of it."""
    for number, mutant in enumerate(mutants):
        verdict = records.verdict(mutant)
        known = verdict_text(verdict) if verdict else "not run yet"
        click.echo(f"{number:4}  {mutant}\n      {'equivalent' if equivalents.holds(mutant) else known}")


def unfinished(mutants: list[Mutant], records: Records, again: bool, last: str) -> list[Mutant]:
    """Return the mutants without a verdict of the rings up to `last`; `again`: and mutants that survived."""
    verdicts = {mutant: records.verdict(mutant) for mutant in mutants}
    return [
        mutant
        for mutant, verdict in verdicts.items()
        if not verdict or (not verdict.ring and (again or verdict.last not in (last, NEXT)))
    ]


def judge_all(
    tree: Path, folder: Path, mutants: list[Mutant], records: Records, seed: int, jobs: int, last: str
) -> None:
    """Judge `mutants` in copies of `tree` by the rings up to `last`.

    Leave with a message where that cannot be or is interrupted.
    """
    if not mutants:
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # else what runs would go on
    imports, tests = Imports(tree), digest(sources(tree, ("tests",)))
    try:
        with Trees(tree, folder, digest(sources(tree))) as trees:
            baseline = Baseline(trees, folder / "baseline.jsonl", imports)
            baseline.fill_caches()
            judge = Judge(trees, Rings(imports), baseline, last)
            Campaign(judge, records, seed, tests).run(mutants, jobs)
    except BaselineError as error:
        raise click.ClickException(str(error)) from error
    except (KeyboardInterrupt, Stopped):
        click.echo("interrupted; the same command continues", err=True)
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)


def report(mutants: list[Mutant], records: Records, least: tuple[float, float]) -> bool:
    """Print the summary; return whether as many were noticed as asked for."""
    verdicts = {mutant: verdict for mutant in mutants if (verdict := records.verdict(mutant))}
    click.echo("\n".join(table(verdicts)))
    for line in survivors(mutants, verdicts):
        click.echo(f"survived: {line}")
    shares = zip(percentages(list(verdicts.values())), least, ("near tests", "both rings"), strict=True)
    short = [
        f"{share:.1f} % were noticed by {name}; {bound:g} % were asked for"
        for share, bound, name in shares
        if share < bound
    ]
    click.echo("\n".join(short), nl=bool(short))
    return not short


@click.command(help=__doc__.partition("\n\nOwn code")[0])
@click.option("--mutants", "count", default=100, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--jobs", default=2, show_default=True)
@click.option("--only", type=int, help="Judge this mutant, judged before or not, and print it as a diff.")
@click.option("--again", is_flag=True, help="Judge survivors again.")
@click.option("--list", "listing", is_flag=True, help="Print the mutants and what is known of them.")
@click.option(
    "--room", "rooms", type=click.Choice(ROOMS), multiple=True, help="Draw of this room; all if not given."
)
@click.option("--near-only", is_flag=True, help="Run the near tests alone, not the next ring.")
@click.option("--near", default=95.0, show_default=True, help="Per cent that the near tests must notice.")
@click.option("--both", default=95.0, show_default=True, help="Per cent that both rings must notice.")
@click.option(
    "--tree",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=ROOT,
    help="The tree to plant mutants in, instead of this script's.",
)
def main(
    count: int,
    seed: int,
    jobs: int,
    only: int | None,
    again: bool,
    listing: bool,
    rooms: tuple[str, ...],
    near_only: bool,
    near: float,
    both: float,
    tree: Path,
) -> None:
    folder, modules = tree / "build" / "mutants", sources(tree)
    folder.mkdir(parents=True, exist_ok=True)
    records = Records(folder / "verdicts.jsonl", digest(modules))
    chosen = {path: text for path, text in modules.items() if path.startswith(rooms or ROOMS)}
    mutants, equivalents = draw(chosen, count, seed), Equivalents.read(tree / EQUIVALENT)
    last = NEAR if near_only else NEXT
    wanted = [mutant for mutant in mutants if not equivalents.holds(mutant)]
    if only is not None:
        if not 0 <= only < len(mutants):
            raise click.UsageError(f"--only {only}: there are mutants 0 to {len(mutants) - 1}")
        show_diff(mutants[only], modules[mutants[only].module])
        judge_all(tree, folder, [mutants[only]], records, seed, jobs, last)
    elif listing:
        show_list(mutants, records, equivalents)
    else:
        judge_all(tree, folder, unfinished(wanted, records, again, last), records, seed, jobs, last)
        enough = report(wanted, records, (near, 0.0 if near_only else both))
        stale = equivalents.stale(modules)
        click.echo(f"{len(mutants) - len(wanted)} more are in {EQUIVALENT}")
        click.echo("\n".join(stale), nl=bool(stale))
        sys.exit(0 if enough and not stale else 1)


if __name__ == "__main__":
    main()
