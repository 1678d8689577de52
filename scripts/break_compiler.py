#!/usr/bin/env python3
"""Plant faults in the compiler's sources, and check that proofs refuse every network that a fault changes.

A fault is one change of one line in the folders of the compiler that come after import and quantisation,
drawn as `scripts/mutants.py` draws its mutants, and planted in a scratch copy of the tree. In the copy,
random networks are compiled, run on the functional model beside the integer operators, and proved. There are
six verdicts:

caught    a network's results are wrong, and the proof refuses every such network
missed    a network's results are wrong, and it is proved: the proof is wrong
same      all results are right, and all networks are proved
unseen    all results are right, and the proof refuses a network: printed for a reader
failed    the compiler fails on a network, and no result is wrong
timeout   the copy took too long

Verdicts are appended to a journal, so the same command continues where it was stopped. Exit status 1 if a
fault was missed, or the unchanged tree is not proved.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from mutation.sample import Mutant, digest, draw, sources
from mutation.trees import TIMEOUT, Result, Trees
from proving.compiler import FAILED

from vdla.cli._options import needs

ROOT = Path(__file__).parents[1]
FOLDERS = tuple(f"compiler/{name}" for name in ("codegen", "ir", "network", "operands", "tasks", "te"))
SECONDS = 240.0  # processor time of a copy
CAUGHT, MISSED, SAME, UNSEEN = "caught", "missed", "same", "unseen"
VERDICTS = (CAUGHT, MISSED, SAME, UNSEEN, FAILED, TIMEOUT)


@dataclass(frozen=True)
class Verdict:
    """What came of a fault.

    Attributes:
        fault: the change, as `Mutant` prints it.
        key: digest of the sources that it was planted in.
        detail: the network and what the proof names, or the failure.
    """

    fault: str
    key: str
    verdict: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.fault}\n    {self.detail}"


def verdict_of(fault: str, key: str, result: Result) -> Verdict:
    """Return the verdict on a fault from what its copy printed."""
    rows = [json.loads(line) for line in result.text.splitlines() if line.startswith('{"seed"')]
    wrong = [row for row in rows if row["changed"]]
    refused = [row for row in rows if row["proved"] is False]
    failed = [row for row in rows if row["proved"] == FAILED]
    missed = [row for row in wrong if row["proved"] is True]
    if missed:
        return Verdict(fault, key, MISSED, f"network {missed[0]['seed']}")
    if wrong:
        return Verdict(fault, key, CAUGHT, f"network {wrong[0]['seed']}: {wrong[0]['difference']}")
    if result.status == TIMEOUT:
        return Verdict(fault, key, TIMEOUT)
    if refused:
        return Verdict(fault, key, UNSEEN, f"network {refused[0]['seed']}: {refused[0]['difference']}")
    if failed or result.status != 0:
        return Verdict(fault, key, FAILED, failed[0]["difference"] if failed else result.text[-400:])
    return Verdict(fault, key, SAME)


def judged(trees: Trees, mutant: Mutant | None, source: bytes, key: str, seeds: Sequence[str]) -> Verdict:
    """Return the verdict on a mutant of a module with the text `source`, or on the unchanged tree."""
    changed = {} if mutant is None else {mutant.module: mutant.change.applied(source)}
    with trees.copy(changed) as place:
        result = trees.python(place, ("-m", "proving.compiler", *seeds), SECONDS)
    return verdict_of("the unchanged tree" if mutant is None else str(mutant), key, result)


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the counts of verdicts."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    parts = ", ".join(f"{counts[name]} {name}" for name in VERDICTS)
    return f"{len(verdicts)} faults in the compiler's sources: {parts}"


@click.command(help=__doc__)
@click.option("--faults", default=100, show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the drawing of faults.")
@click.option("--networks", default=12, show_default=True, help="Random networks that each copy compiles.")
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    default=ROOT / "build" / "break_compiler" / "verdicts.jsonl",
    help="Verdicts, one a line.  [default: build/break_compiler/verdicts.jsonl]",
)
@needs("broken compilers", "onnxruntime")
def main(faults: int, seed: int, networks: int, journal: Path) -> None:
    journal.parent.mkdir(parents=True, exist_ok=True)
    modules, key = sources(ROOT, FOLDERS), digest(sources(ROOT))
    lines = journal.read_text().splitlines() if journal.exists() else []
    known = {row.fault: row for row in (Verdict(**json.loads(line)) for line in lines) if row.key == key}
    mutants, seeds, verdicts = draw(modules, faults, seed), [str(number) for number in range(networks)], []
    with Trees(ROOT, journal.parent / "trees", key) as trees:
        baseline = judged(trees, None, b"", key, seeds)
        if baseline.verdict != SAME:
            raise click.ClickException(str(baseline))
        for mutant in mutants:
            verdict = known.get(str(mutant)) or judged(trees, mutant, modules[mutant.module], key, seeds)
            verdicts.append(verdict)
            if str(mutant) not in known:
                with journal.open("a") as file:
                    file.write(json.dumps(asdict(verdict)) + "\n")
            if verdict.verdict in (MISSED, UNSEEN):
                click.echo(verdict)
    click.echo(table(verdicts))
    sys.exit(any(verdict.verdict == MISSED for verdict in verdicts))


if __name__ == "__main__":
    main()
