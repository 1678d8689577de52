#!/usr/bin/env python3
"""Prove the claims of `hw/formal` about the RTL, and refute planted faults.

NAMES choose components whose names begin so; without NAMES, everything is proved. What was proved before is
not proved again, unless the circuit, the claims or the tools have changed. The table is printed, and written
into the folder. Exit status 1 if a claim is refuted or not closed in time, or if a planted fault is not
noticed.
"""

import sys
from pathlib import Path

import click
from formal.ledger import Ledger
from formal.obligations import OBLIGATIONS, Obligation
from formal.provers import Verdict
from formal.summary import Result, table, together

from vdla.cli._options import reports_errors
from vdla.hw.spec.writing import write_text

FOLDER = Path("build", "formal")


def proved(obligation: Obligation, ledger: Ledger) -> Result:
    """Return what the prover says of an obligation and of its faults; tell what went wrong."""
    outcomes = [ledger.decide(obligation.rtlil(case), obligation.effort) for case in obligation.cases]
    outcome = together(outcomes)
    click.echo(f"{obligation.name}: {outcome.verdict}, {outcome.seconds:.1f} s", err=True)
    if outcome.verdict is Verdict.REFUTED:
        for claim in refuted_claims(obligation, ledger):
            click.echo(f'  cycle {outcome.cycle}: "{claim}" fails', err=True)
    faults = []
    for fault in obligation.faults:
        fault_outcome = ledger.decide(
            obligation.rtlil(obligation.fault_case, fault), obligation.fault_effort()
        )
        if fault_outcome.verdict is not Verdict.REFUTED:
            click.echo(f"  the fault is not noticed: {fault}", err=True)
        faults.append(fault_outcome)
    return Result(obligation, len(obligation.claims()), outcome, tuple(faults))


def refuted_claims(obligation: Obligation, ledger: Ledger) -> list[str]:
    """Return the claims that are refuted."""
    return [
        claim
        for claim in obligation.claims()
        for case in obligation.cases
        if ledger.decide(obligation.rtlil(case, only=claim), obligation.effort).verdict is Verdict.REFUTED
    ]


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option(
    "--folder",
    default=FOLDER,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Of the journal and the table.",
)
@reports_errors
def main(names: tuple[str, ...], folder: Path) -> None:
    chosen = [obligation for obligation in OBLIGATIONS if not names or obligation.name.startswith(names)]
    if not chosen:
        known = ", ".join(obligation.name for obligation in OBLIGATIONS)
        raise click.UsageError(f"no component's name begins with {' or '.join(names)}; there are {known}")
    with Ledger(folder / "journal.jsonl") as ledger:
        results = [proved(obligation, ledger) for obligation in chosen]
    text = table(results)
    write_text(folder / "summary.md", text + "\n")
    click.echo(text)
    sys.exit(not all(result.holds for result in results))


if __name__ == "__main__":
    main()
