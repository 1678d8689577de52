"""What a campaign says: a line for each mutant, and at the end a table with the survivors."""

from collections.abc import Iterator, Mapping, Sequence

from mutation.judge import NEAR, NEXT, Verdict
from mutation.sample import ROOMS, Mutant

Verdicts = Mapping[Mutant, Verdict]
COLUMNS = ("mutants", "near", "next", "survived", "% near", "% with next")


def verdict_text(verdict: Verdict) -> str:
    """Say what came of a mutant."""
    how = " took too long" if verdict.timeout else ""
    return (
        f"{verdict.ring}: {verdict.test}{how}"
        if verdict.ring
        else f"SURVIVED {verdict.tests} near tests{' and the next ring' * (verdict.last == NEXT)}"
    )


def table(verdicts: Verdicts) -> Iterator[str]:
    """Yield the lines of the summary."""
    yield f"{'':10}" + "".join(f"{name:>13}" for name in COLUMNS)
    for room in (*ROOMS, "all"):
        judged = [
            verdict
            for mutant, verdict in verdicts.items()
            if room in (mutant.module.partition("/")[0], "all")
        ]
        near, later = (sum(verdict.ring == ring for verdict in judged) for ring in (NEAR, NEXT))
        cells = [
            len(judged),
            near,
            later,
            len(judged) - near - later,
            *(f"{part:.1f}" for part in percentages(judged)),
        ]
        yield f"{room:10}" + "".join(f"{cell:>13}" for cell in cells)
    late = sum(verdict.timeout for verdict in verdicts.values())
    if late:
        yield f"{late} of them were noticed because a run took too long"


def percentages(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """Return how many per cent the near tests noticed, and both rings together; 100 of no mutants."""
    count = len(verdicts) or 1
    near, both = (
        sum(verdict.ring == NEAR for verdict in verdicts),
        sum(bool(verdict.ring) for verdict in verdicts),
    )
    return (100 * near / count, 100 * both / count) if verdicts else (100.0, 100.0)


def survivors(mutants: Sequence[Mutant], verdicts: Verdicts) -> Iterator[str]:
    """Yield a line for each mutant that nothing noticed, with its number."""
    for number, mutant in enumerate(mutants):
        if mutant in verdicts and not verdicts[mutant].ring:
            yield f"{number:4}  {mutant}"
