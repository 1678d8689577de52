#!/usr/bin/env python3
"""Plant faults in the compiler's sources, and check that proofs refuse every network that a fault changes.

A fault is a change of a line that decides values or addresses (`mutation.values`). Examples are an offset by
one, exchanged strides, axes or fields, a bound that leaves out the last element, and a shift by another
number of bits. Faults are planted in the folders of the compiler that come after import and quantisation, in
lines that the compilation of the networks runs. Random networks, small networks first, are compiled by the
compiler with the fault, in a fork of this process. A network whose plan is another is run on the functional
model beside the integer operators, and proved. The verdicts:

caught     a network's results are wrong, and the proof refuses every such network
missed     a network's results are wrong, or the device refuses it, and it is proved: the proof is wrong
same       plans are others, all results are right, and all networks are proved
unsafe     no result is wrong; the proof refuses a network, and so does the verifier of streams or the device
unseen     no result is wrong, and only the proof refuses a network: printed for a reader
unchanged  no plan is another
failed     the compiler fails on a network, and no result is wrong
timeout    a fork took too long

The campaign ends when as many faults as asked for have changed results. Verdicts are appended to a journal,
so the same command continues where it was stopped. Exit status 1 if a fault was missed, or if too few
change results.
"""

import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path

import click
from mutation.operators import changes
from mutation.sample import Mutant, digest, sources
from mutation.values import ValueFinder
from proving.compiler import FAILED, FOLDERS, PROVED, REFUSED, TIMEOUT, Sample, Trial, samples, trials
from threadpoolctl import threadpool_limits

from vdla.cli._options import needs

ROOT = Path(__file__).parents[1]
CHOOSING = (
    "compiler/codegen/choice",
    "compiler/codegen/choose",
    "compiler/codegen/estimate",
    "compiler/codegen/tuned",
    "compiler/codegen/version",
    "compiler/ir/parse",
    "compiler/ir/text",
    "compiler/ir/verify",
    "compiler/network/plan_cache",
    "compiler/network/tuning",
    "compiler/tasks/program_text",
    "compiler/tasks/task_text",
)
"""Modules that decide neither values nor addresses: they choose among right answers, print, or check."""
CAUGHT, MISSED, SAME, UNSAFE, UNSEEN, UNCHANGED = (
    "caught",
    "missed",
    "same",
    "unsafe",
    "unseen",
    "unchanged",
)
VERDICTS = (CAUGHT, MISSED, SAME, UNSAFE, UNSEEN, UNCHANGED, FAILED, TIMEOUT)


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


def verdict_of(outcomes: Sequence[Trial], end: str) -> tuple[str, str]:
    """Return the verdict on a fault, and its detail.

    Args:
        outcomes: what came of the networks that it changed.
        end: "", or why a fork gave no result.
    """
    refused = [trial for trial in outcomes if trial.result == REFUSED]
    for verdict, trials_ in (
        (
            MISSED,
            [trial for trial in outcomes if trial.result == PROVED and (trial.changed or trial.stopped)],
        ),
        (CAUGHT, [trial for trial in refused if trial.changed]),
        (UNSEEN, [trial for trial in refused if not (trial.unsafe or trial.stopped)]),
        (UNSAFE, refused),
        (FAILED, [trial for trial in outcomes if trial.result == FAILED]),
        (SAME, outcomes),
    ):
        if trials_:
            return verdict, f"network {trials_[0].seed}: {trials_[0].difference}"
    return (TIMEOUT if end == TIMEOUT else FAILED if end else UNCHANGED), end


class Faults:
    """Changes of lines that the networks run, drawn where results change.

    Each draw takes a random line of a module, and a random change of it; modules and kinds of changes are
    weighted by how often their faults before changed results.

    Args:
        modules: texts by path.
        seed: of the drawing. With the same verdicts, the same seed draws the same faults.
    """

    def __init__(self, modules: Mapping[str, bytes], networks: Sequence[Sample], seed: int) -> None:
        self._rng = random.Random(seed)
        run = set().union(*(sample.lines for sample in networks))
        self._left = [
            Mutant(path, change, *change.lines(source))
            for path, source in modules.items()
            if not path.startswith(CHOOSING)
            for change in changes(source, ValueFinder)
            if (path, change.line) in run
        ]
        self._tried: Counter[str] = Counter()
        self._wrong: Counter[str] = Counter()
        self._lines: Counter[tuple[str, int]] = Counter()

    def __iter__(self) -> Iterator[Mutant]:
        """Draw until no change is left."""
        while self._left:
            (mutant,) = self._rng.choices(self._left, list(map(self._weight, self._left)))
            self._left.remove(mutant)
            self._lines[mutant.module, mutant.change.line] += 1
            yield mutant

    def note(self, mutant: Mutant, verdict: str) -> None:
        """Take a verdict into account."""
        for what in (mutant.module, mutant.change.operator):
            self._tried[what] += 1
            self._wrong[what] += verdict in (CAUGHT, MISSED)

    def _weight(self, mutant: Mutant) -> float:
        share = prod(
            (self._wrong[what] + 1) / (self._tried[what] + 10)
            for what in (mutant.module, mutant.change.operator)
        )
        return share / 4 ** self._lines[mutant.module, mutant.change.line]


def judged(mutant: Mutant, source: bytes, key: str, networks: Sequence[Sample]) -> Verdict:
    """Return the verdict on a change of a module with the text `source`."""
    place = mutant.module, mutant.change.line
    reached = [sample for sample in networks if place in sample.lines]
    outcomes, end = trials(mutant.module, mutant.change.applied(source), reached)
    return Verdict(str(mutant), key, *verdict_of(outcomes, end))


def require_unchanged(modules: Mapping[str, bytes], networks: Sequence[Sample]) -> None:
    """Refuse networks that the compiler does not compile to the same plans when it is loaded again."""
    path, source = next(iter(modules.items()))
    outcomes, end = trials(path, source, networks)
    if outcomes or end:
        raise click.ClickException(
            f"the compiler without a fault is not the same when loaded again: {outcomes} {end}"
        )


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the counts of verdicts."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    parts = ", ".join(f"{counts[name]} {name}" for name in VERDICTS)
    return f"{len(verdicts)} faults in the compiler's sources: {parts}"


@click.command(help=__doc__)
@click.option("--changed", default=100, show_default=True, help="Faults that change results.")
@click.option("--faults", "most", default=5000, show_default=True, help="Faults in all, at most.")
@click.option("--seed", default=0, show_default=True, help="Of the drawing of faults.")
@click.option("--networks", "count", default=12, show_default=True, help="Random networks.")
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    default=ROOT / "build" / "break_compiler" / "verdicts.jsonl",
    help="Verdicts, one a line.  [default: build/break_compiler/verdicts.jsonl]",
)
@needs("broken compilers", "onnxruntime")
def main(changed: int, most: int, seed: int, count: int, journal: Path) -> None:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    logging.disable(logging.WARNING)
    journal.parent.mkdir(parents=True, exist_ok=True)
    modules, key = sources(ROOT, FOLDERS), digest(sources(ROOT))
    lines = journal.read_text().splitlines() if journal.exists() else []
    known = {row.fault: row for row in (Verdict(**json.loads(line)) for line in lines) if row.key == key}
    verdicts: list[Verdict] = []
    with threadpool_limits(1), journal.open("a") as file:
        networks = samples(count)
        require_unchanged(modules, networks)
        drawn = Faults(modules, networks, seed)
        for mutant in drawn:
            if sum(verdict.verdict == CAUGHT for verdict in verdicts) >= changed or len(verdicts) >= most:
                break
            verdict = known.get(str(mutant)) or judged(mutant, modules[mutant.module], key, networks)
            verdicts.append(verdict)
            drawn.note(mutant, verdict.verdict)
            if str(mutant) not in known:
                file.write(json.dumps(asdict(verdict)) + "\n")
                file.flush()
            if verdict.verdict in (MISSED, UNSEEN):
                click.echo(verdict)
    click.echo(table(verdicts))
    counts = Counter(verdict.verdict for verdict in verdicts)
    sys.exit(counts[MISSED] > 0 or counts[CAUGHT] < changed)


if __name__ == "__main__":
    main()
