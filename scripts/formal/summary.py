"""The results of proofs as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from formal.obligations import Obligation
from formal.provers import Method, Outcome, Verdict

HEAD = ("component", "claims", "proved", "by", "seconds", "faults refuted")
SOLVERS = {
    Method.INDUCTION: "ABC pdr",
    Method.BOUNDED: "ABC bmc3",
    Method.EVERY_INPUT: "ABC &cec",
}


@dataclass(frozen=True, slots=True)
class Result:
    """What the prover says of an obligation, and of each of its faults."""

    obligation: Obligation
    claims: int
    outcome: Outcome
    faults: tuple[Outcome, ...]

    @property
    def holds(self) -> bool:
        """Whether the claims are proved and every fault is refuted."""
        refuted = all(fault.verdict is Verdict.REFUTED for fault in self.faults)
        return self.outcome.verdict is Verdict.PROVED and refuted


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of several circuits: the first that is not proved, if any, and the sum of times."""
    seconds = sum(outcome.seconds for outcome in outcomes)
    worst = next((outcome for outcome in outcomes if outcome.verdict is not Verdict.PROVED), outcomes[0])
    return Outcome(worst.verdict, seconds, worst.cycle)


def table(results: Sequence[Result]) -> str:
    """Return the results as a table in Markdown."""
    rows = [HEAD, *map(_row, results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:], "", total(results)])


def total(results: Sequence[Result]) -> str:
    """Return the last line of a summary."""
    proved = sum(result.outcome.verdict is Verdict.PROVED for result in results)
    faults = [fault for result in results for fault in result.faults]
    refuted = sum(fault.verdict is Verdict.REFUTED for fault in faults)
    claims = sum(result.claims for result in results)
    return (
        f"{proved} of {len(results)} circuits with {claims:,} claims proved; "
        f"{refuted} of {len(faults)} planted faults refuted"
    )


def _row(result: Result) -> tuple[str, ...]:
    effort, outcome = result.obligation.effort, result.outcome
    if outcome.verdict is not Verdict.PROVED:
        proved = outcome.verdict.upper()
    elif effort.method is Method.BOUNDED:
        proved = f"{effort.cycles} cycles"
    else:
        proved = {Method.INDUCTION: "any cycles", Method.EVERY_INPUT: "any inputs"}[effort.method]
    refuted = sum(fault.verdict is Verdict.REFUTED for fault in result.faults)
    return (
        result.obligation.name,
        str(result.claims),
        proved,
        SOLVERS[effort.method],
        f"{outcome.seconds:.1f}",
        f"{refuted} of {len(result.faults)}",
    )
